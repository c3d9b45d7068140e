"""Taking a function of n variables apart: the sparsest split into AND and OR interactions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from core.demos._and_or_shapley_rivals import harsanyi
from core.demos._and_or_shapley_sets import moebius, players, shapley_values, sizes

TILT = 1e-3


@dataclass(frozen=True)
class Interactions:
    """AND and OR interactions (2^n,) of a function."""

    both: np.ndarray
    """I_and, (2^n,)"""
    some: np.ndarray
    """I_or, (2^n,)"""

    @property
    def net(self) -> np.ndarray:
        return self.both + self.some

    @property
    def strength(self) -> np.ndarray:
        return np.abs(self.both) + np.abs(self.some)

    @property
    def magnitudes(self) -> np.ndarray:
        """All |I|, largest first."""
        return -np.sort(-np.abs(np.r_[self.both[1:], self.some[sizes(players(self.some)) > 1]]))


@lru_cache(maxsize=4)
def _programme(n: int) -> tuple[np.ndarray, sparse.csc_matrix]:
    """Costs and equality matrix of the split: [I, −I] of all AND atoms and the OR atoms of two or more variables.

    Written in AND interactions of v: OR(S) is the sum of (−1)^{|T|+1} AND(T) over non-empty T ⊆ S. That is the
    same programme as atoms · I = v with a tenth of the entries.
    """
    t, size = np.arange(1, 2**n), sizes(n)
    wide = t[size[t] > 1]
    part_of = (t[:, None] & wide) == t[:, None]
    atoms = np.hstack([np.eye(len(t)), np.where(size[t] % 2, 1, -1)[:, None] * part_of])
    cost = 1 + TILT * (size[np.r_[t, wide]] - 1)
    return np.r_[cost, cost], sparse.csc_matrix(np.hstack([atoms, -atoms]))


def sparsest_split(v: np.ndarray) -> Interactions:
    """The AND and OR interactions of least tilted L1 norm whose sum is v (2^n,), v(∅) = 0."""
    n = players(v)
    scale = np.abs(v).max()
    found = np.zeros((2, 2**n))
    if scale > 0:
        cost, atoms = _programme(n)
        solved = linprog(cost, A_eq=atoms, b_eq=moebius(v / scale)[1:], method="highs")
        if solved.x is None:
            raise RuntimeError(f"the split was not found: {solved.message}")
        weight = scale * (solved.x[: len(cost) // 2] - solved.x[len(cost) // 2 :])
        found[0, 1:] = weight[: 2**n - 1]
        found[1, sizes(n) > 1] = weight[2**n - 1 :]
    return Interactions(*found)


@dataclass(frozen=True)
class Explanation:
    """One function (2^n,) from v(∅) = 0, taken apart."""

    v: np.ndarray
    found: Interactions
    and_only: Interactions
    phi: np.ndarray

    @property
    def scale(self) -> float:
        return float(np.abs(self.v).max())


def explain(values: np.ndarray) -> Explanation:
    """The interactions and Shapley values of a function (2^n,) given on all masks."""
    v = values - values[0]
    found, and_only = sparsest_split(v), Interactions(harsanyi(v), np.zeros(len(v)))
    phi = shapley_values(v)
    for shared in (v, phi, found.both, found.some, and_only.both, and_only.some):
        shared.setflags(write=False)
    return Explanation(v, found, and_only, phi)


@dataclass(frozen=True)
class Attribution:
    """Of some coalitions (G,): φ(S), Σφ(i), the part of Σφ(i) from interactions that hold only part of S."""

    whole: np.ndarray
    members: np.ndarray
    partial: np.ndarray
