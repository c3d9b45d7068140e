"""The game: samples, the two adversaries, four learners and the bound for all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from core.demos.adaptive_adversaries import AdversarySettings


@dataclass
class Received:
    """A sample as the learner sees it: points (indices), candidate sets (k, N), times each code occurs (k,).

    The first candidate is the true one if its code was seen; `true_seen` says so. `size` counts everything.
    """

    points: np.ndarray
    sets: np.ndarray
    times: np.ndarray
    true_seen: bool
    origin: int

    @property
    def size(self) -> int:
        return self.origin + len(self.points) + int(self.times.sum())


def half_set(domain: int, rng: np.random.Generator, holding: np.ndarray | None = None) -> np.ndarray:
    """A uniformly random half-size subset (N,) of the domain that contains the points `holding`."""
    chosen = np.zeros(domain, dtype=bool)
    held = np.unique(holding) if holding is not None else np.empty(0, dtype=int)
    if len(held) > domain // 2:
        raise AssertionError("more distinct clean points than a half-size set can hold")
    chosen[held] = True
    chosen[rng.permutation(np.flatnonzero(~chosen))[: domain // 2 - len(held)]] = True
    return chosen


def clean(s: AdversarySettings, rng: np.random.Generator) -> tuple[np.ndarray, Received]:
    """The true set (N,) and a clean sample of n."""
    truth = half_set(s.domain, rng)
    origin, codes, inside = rng.multinomial(s.n, [1 - s.mass, s.code_mass, s.mass * (1 - s.code)])
    points = rng.choice(np.flatnonzero(truth), inside)
    sets = truth[None] if codes else np.empty((0, s.domain), dtype=bool)
    return truth, Received(points, sets, np.array([codes] if codes else [], dtype=int), codes > 0, int(origin))


def oblivious(r: Received, s: AdversarySettings, rng: np.random.Generator) -> Received:
    """Noise from a law fixed before the draw: codes of random sets and junk points, by a fair coin."""
    kinds = int(0.5 * s.budget / s.code_mass)
    count = int(s.budget * s.n)
    codes = rng.binomial(count, 0.5) if kinds else 0
    junk = rng.integers(0, s.domain, count - codes)
    times = rng.multinomial(codes, np.full(kinds, 1 / kinds)) if kinds else np.empty(0, dtype=int)
    fakes = np.array([half_set(s.domain, rng) for _ in range(int((times > 0).sum()))]).reshape(-1, s.domain)
    return Received(
        np.concatenate([r.points, junk]), np.concatenate([r.sets, fakes.astype(bool)]),
        np.concatenate([r.times, times[times > 0]]), r.true_seen, r.origin,
    )  # fmt: skip


def adaptive(r: Received, s: AdversarySettings, rng: np.random.Generator) -> Received:
    """Sees the clean sample: adds fake codes whose sets contain every observed point, as often as the true one."""
    times = int(r.times[0]) if r.true_seen else 1
    fakes = int(s.budget * s.n) // max(times, 1)
    sets = np.array([half_set(s.domain, rng, r.points) for _ in range(fakes)]).reshape(-1, s.domain)
    return Received(
        r.points, np.concatenate([r.sets, sets.astype(bool)]),
        np.concatenate([r.times, np.full(fakes, times)]), r.true_seen, r.origin,
    )  # fmt: skip


def agreement(r: Received) -> np.ndarray:
    """Share of the received points inside each candidate's set (k,)."""
    return r.sets[:, r.points].mean(1) if len(r.points) and len(r.sets) else np.ones(len(r.sets))


def mixture_error(truth: np.ndarray, sets: np.ndarray, holds_truth: bool, s: AdversarySettings) -> float:
    """TV between q_A and the even mixture over some candidates' sets (k, N)."""
    spread = s.mass * (1 - s.code)
    each = spread / (s.domain // 2)
    k = len(sets)
    points = np.maximum(truth * each - sets.mean(0) * each, 0).sum()
    return float(points + s.code_mass * (1 - 1 / k if holds_truth else 1.0))


def unknown_error(truth: np.ndarray, s: AdversarySettings) -> float:
    """TV of the guess without any code: the mass off the origin spread evenly over the domain."""
    spread = s.mass * (1 - s.code)
    return float(np.maximum(truth * spread / (s.domain // 2) - spread / s.domain, 0).sum() + s.code_mass)


def consistent(r: Received, truth: np.ndarray, s: AdversarySettings) -> tuple[float, int]:
    """Error of the even mixture over the candidates that fit best, and how many those are."""
    if not len(r.sets):
        return unknown_error(truth, s), 0
    fit = agreement(r)
    best = np.flatnonzero(fit >= fit.max() - 1e-12)
    return mixture_error(truth, r.sets[best], r.true_seen and 0 in best, s), len(best)


def naive(r: Received, truth: np.ndarray, s: AdversarySettings, rng: np.random.Generator) -> float:
    """Error of trusting the most frequent code, ties at random."""
    if not len(r.sets):
        return unknown_error(truth, s)
    pick = rng.choice(np.flatnonzero(r.times == r.times.max()))
    return mixture_error(truth, r.sets[[pick]], bool(r.true_seen and pick == 0), s)


def empirical(r: Received, truth: np.ndarray, s: AdversarySettings) -> float:
    """Error of the received frequencies taken as they are."""
    share = np.bincount(r.points, minlength=s.domain) / r.size
    lost = np.maximum(truth * s.mass * (1 - s.code) / (s.domain // 2) - share, 0).sum()
    lost += max(1 - s.mass - r.origin / r.size, 0)
    return float(lost + max(s.code_mass - (r.times[0] / r.size if r.true_seen else 0), 0))


def thinned(r: Received, rng: np.random.Generator, share: float = 0.1) -> Received:
    """Each received item kept with this probability."""
    times = rng.binomial(r.times, share) if len(r.times) else r.times
    kept = times > 0
    seen = bool(r.true_seen and kept[0])
    return Received(
        r.points[rng.random(len(r.points)) < share], r.sets[kept], times[kept], seen, rng.binomial(r.origin, share)
    )


def lower_bound(r: Received, s: AdversarySettings) -> float:
    """Least mean error of any learner facing these exchangeable candidates."""
    k = len(r.sets)
    if k < 2:
        return 0.0
    sets = r.sets.astype(np.float32)
    overlap = sets @ sets.T / (s.domain // 2)
    distance = s.mass * (1 - s.code) * (1 - overlap) + s.code_mass
    np.fill_diagonal(distance, 0)
    return float(distance.sum() / (2 * k * k))
