"""People, items and studies of them: simulation, four ways to judge, and power planning."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from scipy import optimize, special, stats

if TYPE_CHECKING:
    from core.demos.human_baselines import StudySettings

POINT, POOLED, CLUSTERED, WEIGHTED = "point", "pooled", "clustered", "weighted"
SHARE, SHIFT = np.array([0.50, 0.35, 0.15]), np.array([-0.6, 0.3, 1.3])
POOLS = {"representative": SHARE, "crowd": np.array([0.75, 0.22, 0.03]), "own lab": np.array([0.0, 0.15, 0.85])}
MU, SD_ITEM, GUESS = 0.5, 1.2, 0.25


def chance(theta: np.ndarray, difficulty: np.ndarray | float) -> np.ndarray:
    """Probability of a right answer."""
    return GUESS + (1 - GUESS) * special.expit(theta - difficulty)


@cache
def _nodes() -> tuple[np.ndarray, np.ndarray]:
    x, w = np.polynomial.hermite_e.hermegauss(41)
    return x, w / w.sum()


def expected(theta: float | np.ndarray, sd: float) -> np.ndarray:
    """Mean accuracy over a normal spread sd of (ability − difficulty) around theta."""
    x, w = _nodes()
    return chance(np.asarray(theta, float)[..., None] + sd * x, 0.0) @ w


def human_level(spread: float, shares: np.ndarray = SHARE) -> float:
    """Mean accuracy of a population with these stratum shares."""
    return float(shares @ expected(MU + SHIFT, float(np.hypot(spread, SD_ITEM))))


def ai_ability(spread: float, lead: float) -> float:
    """The ability whose expected accuracy is the human level plus the lead, clipped to what is possible."""
    target = float(np.clip(human_level(spread) + lead, GUESS + 0.005, 0.995))
    return float(optimize.brentq(lambda t: float(expected(t, SD_ITEM)) - target, -40, 40))


@dataclass(frozen=True)
class Studies:
    """Many studies: AI's answers (n, M), items shown (n, k, q), right answers (n, k, q), stratum of raters (n, k)."""

    ai: np.ndarray
    shown: np.ndarray
    right: np.ndarray
    stratum: np.ndarray


def simulate(s: StudySettings, n: int, rng: np.random.Generator) -> Studies:
    """n studies at these settings."""
    k, m, q = s.raters, s.items, min(s.each, s.items)
    difficulty = SD_ITEM * rng.standard_normal((n, m))
    ai = rng.random((n, m)) < chance(np.array(ai_ability(s.spread, s.lead)), difficulty)
    stratum = rng.choice(3, (n, k), p=POOLS[s.pool])
    theta = MU + SHIFT[stratum] + s.spread * rng.standard_normal((n, k))
    order = rng.random((n, k, m), dtype=np.float32)
    shown = np.argpartition(order, q - 1, axis=2)[..., :q] if q < m else np.broadcast_to(np.arange(m), (n, k, m))
    faced = np.take_along_axis(difficulty[:, None], shown.reshape(n, 1, -1), 2).reshape(n, k, q)
    return Studies(ai, shown, rng.random((n, k, q)) < chance(theta[..., None], faced), stratum)


def rater_weights(stratum: np.ndarray) -> np.ndarray:
    """Post-stratification weights (n, k): population share over count, over the strata present, summing to 1."""
    counts = (stratum[..., None] == np.arange(3)).sum(1)
    w = np.take_along_axis(SHARE / np.maximum(counts, 1), stratum, 1)
    return w / w.sum(1, keepdims=True)


def clustered(t: Studies, weights: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Difference AI − human and its two-way clustered standard error (n,), infinite with one rater."""
    n, k, q = t.right.shape
    w = np.full((n, k), 1 / k) if weights is None else weights
    answer = np.take_along_axis(t.ai[:, None], t.shown.reshape(n, 1, -1), 2).reshape(n, k, q)
    d = answer.astype(float) - t.right
    w = (w / q)[..., None]
    mean = (w * d).sum((1, 2))
    e = w * (d - mean[:, None, None])
    if k < 2:
        return mean, np.full(n, np.inf)
    m = t.ai.shape[1]
    place = (np.arange(n)[:, None, None] * m + t.shown).ravel()
    by_item = np.bincount(place, e.ravel(), n * m).reshape(n, m)
    seen = (np.bincount(place, minlength=n * m).reshape(n, m) > 0).sum(1)
    raters = k / (k - 1) * (e.sum(2) ** 2).sum(1)
    items = seen / np.maximum(seen - 1, 1) * (by_item**2).sum(1)
    return mean, np.sqrt(np.maximum(raters + items - (e**2).sum((1, 2)), np.maximum(raters, items)))


def judged(t: Studies) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Estimate and half width (n,) of each way of judging; the point comparison has none."""
    n, k, q = t.right.shape
    people, ai = t.right.mean((1, 2)), t.ai.mean(1)
    pooled = np.sqrt(ai * (1 - ai) / t.ai.shape[1] + people * (1 - people) / (k * q))
    reach = float(stats.t.ppf(0.975, k - 1)) if k > 1 else np.inf
    found = {POINT: (ai - people, np.zeros(n)), POOLED: (ai - people, stats.norm.ppf(0.975) * pooled)}
    for name, w in ((CLUSTERED, None), (WEIGHTED, rater_weights(t.stratum))):
        mean, se = clustered(t, w)
        found[name] = (mean, reach * se if k > 1 else np.full(n, np.inf))
    return found


def variance_parts(spread: float, lead: float) -> tuple[float, float, float]:
    """Rater, item and remaining variance of one comparison, by quadrature over people and items."""
    x, w = _nodes()
    theta = (MU + SHIFT[:, None] + spread * x).ravel()
    people = (SHARE[:, None] * w).ravel()
    p = chance(theta[:, None], SD_ITEM * x)
    a = chance(np.array(ai_ability(spread, lead)), SD_ITEM * x)
    level, by_item = float(people @ p @ w), people @ p
    by_rater = p @ w
    rater = float(people @ (by_rater - level) ** 2)
    gap = a - by_item
    item = float(w @ (gap - w @ gap) ** 2 + w @ (a * (1 - a)))
    rest = level * (1 - level) - rater - float(w @ (by_item - level) ** 2)
    return rater, item, rest


def raters_needed(spread: float, lead: float, items: int, each: int = 50) -> float:
    """Smallest number of raters for 80 % power at a lead; infinite where the items are too few."""
    rater, item, rest = variance_parts(spread, lead)
    room = (lead / float(stats.norm.ppf(0.975) + stats.norm.ppf(0.8))) ** 2 - item / items
    return float(np.ceil((rater + rest / each) / room)) if room > 0 else np.inf
