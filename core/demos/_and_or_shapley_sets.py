"""Set functions over n variables as arrays (2^n,): entry T is the set whose members are the bits of T."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import combinations

import numpy as np

LEAST, MOST = 3, 10


def players(v: np.ndarray) -> int:
    """The number of variables n of a set function (2^n,); `ValueError` for another length, or NaN."""
    n = int(np.size(v)).bit_length() - 1
    if np.ndim(v) != 1 or np.size(v) != 2**n:
        raise ValueError(f"v must have one value for each of 2^n subsets, not the shape {np.shape(v)}")
    checked(n)
    if not np.isfinite(v).all():
        raise ValueError("v must be finite: it has NaN or infinite values")
    return n


def checked(n: int) -> int:
    """n itself, or `ValueError` if it is too small or too large to enumerate."""
    if not LEAST <= n <= MOST:
        raise ValueError(f"n must be {LEAST} to {MOST} variables, not {n}")
    return n


@lru_cache(maxsize=MOST)
def members(n: int) -> np.ndarray:
    """Which variables (2^n, n) each subset holds; read-only."""
    table = (np.arange(2 ** checked(n))[:, None] >> np.arange(n)) & 1 == 1
    table.setflags(write=False)
    return table


@lru_cache(maxsize=MOST)
def sizes(n: int) -> np.ndarray:
    """Number of members (2^n,) of each subset; read-only."""
    count = members(n).sum(axis=1)
    count.setflags(write=False)
    return count


def per_member(n: int) -> np.ndarray:
    """1/|T| (2^n,), and 0 for the empty set, which nobody shares."""
    return np.divide(1.0, sizes(n), out=np.zeros(2**n), where=sizes(n) > 0)


def coalition(variables: Iterable[int], n: int) -> int:
    """The subset of some of the variables 0 … n − 1; `ValueError` if there are fewer than two or others."""
    inside = set(variables)
    if len(inside) < 2:
        raise ValueError(f"coalition: needs at least two variables, not {sorted(inside)}")
    if not inside <= set(range(n)):
        raise ValueError(f"coalition: its variables must be 0 to {n - 1}, not {sorted(inside)}")
    return sum(1 << i for i in inside)


@lru_cache(maxsize=16)
def groups(n: int, least: int, most: int) -> np.ndarray:
    """All subsets (G,) of `least` to `most` variables, small ones first; read-only."""
    found = [coalition(c, n) for k in range(least, most + 1) for c in combinations(range(n), k)]
    out = np.array(found)
    out.setflags(write=False)
    return out


def moebius(v: np.ndarray) -> np.ndarray:
    """Σ_{T⊆S} (−1)^{|S|−|T|} v(T) for all S at once: the AND interactions of v."""
    return _by_halves(v, -1)


def moebius_inverse(interactions: np.ndarray) -> np.ndarray:
    """Σ_{S⊆T} I(S) for all T at once."""
    return _by_halves(interactions, +1)


def or_inverse(interactions: np.ndarray) -> np.ndarray:
    """Σ_{S∩T≠∅} I(S) for all T at once: all of I but what lies outside T."""
    return interactions.sum() - moebius_inverse(interactions)[::-1]


def _by_halves(values: np.ndarray, sign: int) -> np.ndarray:
    """Adds, variable by variable, the half without it (times `sign`) to the half with it: n 2^(n−1) additions."""
    out = np.array(values, dtype=float)
    for i in range(players(out)):
        half = out.reshape(-1, 2, 2**i)
        half[:, 1] += sign * half[:, 0]
    return out


def shapley_values(v: np.ndarray) -> np.ndarray:
    """Shapley values (n,) from the marginal contributions in v: Σ_{T∌i} |T|!(n−|T|−1)!/n! (v(T∪i) − v(T))."""
    n = players(v)
    weight = np.array([1.0] * n)
    for k in range(1, n):  # weight of a coalition of k others: 1 / (n · C(n − 1, k))
        weight[k] = weight[k - 1] * k / (n - k)
    weight /= n
    out = []
    for i in range(n):
        without = np.flatnonzero(~members(n)[:, i])
        out.append(weight[sizes(n)[without]] @ (v[without + (1 << i)] - v[without]))
    return np.array(out)
