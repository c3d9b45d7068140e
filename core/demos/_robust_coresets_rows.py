"""Rows, leverage, robust costs, and the three ways to pick a small weighted set of rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from sklearn import datasets as sk


@cache
def _real(name: str) -> np.ndarray:
    """Standardised rows (n, d) of a bundled data set, target last."""
    if name == "breast_cancer":
        rows = sk.load_breast_cancer().data[:, [10, 13, 16, 12]]
    else:
        pixels, digit = sk.load_digits(return_X_y=True)
        centred = pixels - pixels.mean(0)
        rows = np.column_stack([centred @ np.linalg.svd(centred, full_matrices=False)[2][:8].T, digit])
    rows = (rows - rows.mean(0)) / rows.std(0)
    rows.setflags(write=False)
    return rows


def load(name: str, seed: int, rare: int = 80) -> np.ndarray:
    """Rows (n, d), target last: two real sets, and two made ones of n=5000, d=6."""
    if name in ("breast_cancer", "digits"):
        return _real(name)
    rng = np.random.default_rng([seed, 7])
    if name == "power_law":
        rows = rng.normal(size=(5000, 6))
        return rows / np.linalg.norm(rows, axis=1, keepdims=True) / np.arange(1, 5001)[:, None]
    features = rng.normal(size=(5000, 5))
    features[:, 4] *= 1e-3
    features[rng.choice(5000, rare, replace=False), 4] *= 1e3
    return np.column_stack([features, features @ rng.normal(size=5) + 0.3 * rng.normal(size=5000)])


def leverage(groups: np.ndarray) -> np.ndarray:
    """Leverage scores (…, n) of the rows of each matrix (…, n, d); they sum to the rank."""
    gram = np.swapaxes(groups, -1, -2) @ groups
    return np.einsum("...nd,...de,...ne->...n", groups, np.linalg.pinv(gram, 1e-12, hermitian=True), groups)


def robust_cost(values: np.ndarray, weights: np.ndarray, ignored: float) -> np.ndarray:
    """Weighted sums (q,) of values (n, q) after weight `ignored` is removed from the top of each column."""
    order = np.argsort(-values, axis=0, kind="stable")
    w = weights[order]
    kept = np.clip(np.cumsum(w, axis=0) - ignored, 0, w)
    return (kept * np.take_along_axis(values, order, 0)).sum(0)


def group_leverage(rows: np.ndarray, ignored: int, rounds: int, rng: np.random.Generator) -> np.ndarray:
    """Largest in-group leverage (n,) of each row over `rounds` random deals into about 2m groups."""
    n, d = rows.shape
    count = max(1, min(2 * ignored, n // (2 * d)))
    size = -(-n // count)
    padded = np.vstack([rows, np.zeros((count * size - n, d))])
    largest = np.zeros(n)
    for _ in range(rounds):
        # short groups are filled with a zero row: deal the padding to different groups
        deal = np.concatenate([rng.permutation(n), np.arange(n, count * size)]).reshape(size, count).T
        scores = leverage(padded[deal])
        real = deal < n
        np.maximum.at(largest, deal[real], scores[real])
    return largest


@dataclass(frozen=True)
class Coreset:
    """Row indices (k,), their weights (k,), and how many of them are the kept rows H."""

    rows: np.ndarray
    weights: np.ndarray
    kept: int = 0


def sensitivity_sample(rows: np.ndarray, pool: np.ndarray, size: int, rng: np.random.Generator) -> Coreset:
    """`size` draws with replacement from `pool`, half by leverage and half uniform."""
    score = leverage(rows[pool])
    p = 0.5 * score / score.sum() + 0.5 / len(pool) if score.sum() > 0 else np.full(len(pool), 1 / len(pool))
    drawn = rng.choice(len(pool), size, p=p / p.sum())
    return Coreset(pool[drawn], 1 / (size * p[drawn]))


def robust_coreset(rows: np.ndarray, heavy: np.ndarray, size: int, rng: np.random.Generator) -> Coreset:
    """The marked rows with weight 1 and `size` sampled others; all rows where the rest is that small."""
    keep, rest = np.flatnonzero(heavy), np.flatnonzero(~heavy)
    if len(rest) <= size:
        return Coreset(np.arange(len(rows)), np.ones(len(rows)), len(keep))
    sample = sensitivity_sample(rows, rest, size, rng)
    weights = np.concatenate([np.ones(len(keep)), sample.weights])
    return Coreset(np.concatenate([keep, sample.rows]), weights, len(keep))


def trimmed_fit(rows: np.ndarray, weights: np.ndarray, ignored: int, rng: np.random.Generator) -> np.ndarray:
    """Direction x=(β, −1) (d,) by trimmed least squares: six random starts, 15 steps, the cheapest end."""
    n, d = rows.shape
    x = np.empty((6, d))
    for k in range(6):
        x[k] = _least_squares(rows, _subset(n, d, rng)[None])[0]
    for _ in range(15):
        squares = (rows @ x.T) ** 2
        order = np.argsort(-squares, axis=0, kind="stable")
        w = weights[order]
        kept = np.empty_like(squares)
        np.put_along_axis(kept, order, np.clip(np.cumsum(w, 0) - ignored, 0, w), 0)
        x = _least_squares(rows, kept.T)
    return x[np.argmin(robust_cost((rows @ x.T) ** 2, weights, ignored))]


def _subset(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    chosen = np.zeros(n)
    chosen[rng.choice(n, min(n, 2 * d), replace=False)] = 1
    return chosen


def _least_squares(rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Solutions (k, d) as (β, −1) of least squares with each row of weights (k, n)."""
    gram = np.einsum("kn,nd,ne->kde", weights, rows, rows, optimize=True)
    beta = np.linalg.pinv(gram[:, :-1, :-1], 1e-12, hermitian=True) @ gram[:, :-1, -1:]
    return np.concatenate([beta[..., 0], -np.ones((len(weights), 1))], axis=1)


def queries(rows: np.ndarray, ignored: int, best: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Unit directions (d, q) that stand for "all x": random, along heavy rows, weak directions, the optimum."""
    d = rows.shape[1]
    score = leverage(rows)
    heavy = np.argsort(-score)[:30]
    light = np.delete(rows, np.argsort(-score)[: 3 * ignored], axis=0) if len(rows) > 3 * ignored + d else rows
    along = np.linalg.pinv(rows.T @ rows, 1e-12, hermitian=True) @ rows[heavy].T
    x = np.column_stack([rng.normal(size=(d, 120)), along, np.linalg.eigh(light.T @ light)[1], best])
    return x / np.linalg.norm(x, axis=0)
