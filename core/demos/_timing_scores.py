"""Scores of the TIMING demo: removing cells one by one or at once, and how real the points of a path look."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist

from core.demos._timing_model import CLASSES, D, Model, T

WINDOW, WINDOWS = 5, 300


def remove(model: Model, x: np.ndarray, score: np.ndarray, ties: np.ndarray, count: int) -> np.ndarray:
    """Probabilities (count + 1, series, 2) while the cells of largest score (series, T, D) are set to 0."""
    order = np.lexsort((ties, -score.reshape(ties.shape)))
    rank = order.argsort(axis=1).reshape(x.shape)
    points = np.where(rank < np.arange(count + 1)[:, None, None, None], 0, x)
    return model.probabilities(points.reshape(-1, T, D)).reshape(count + 1, len(x), CLASSES)


def stepwise(p: np.ndarray) -> np.ndarray:
    """Cumulative prediction difference (count + 1, series) along probabilities (count + 1, series, 2)."""
    steps = np.abs(np.diff(p, axis=0)).mean(axis=2)
    return np.concatenate([np.zeros((1, p.shape[1])), steps.cumsum(axis=0)])


def at_once(p: np.ndarray) -> np.ndarray:
    """The old metric (count + 1, series): the difference between the first and the present prediction."""
    return np.abs(p - p[0]).mean(axis=2)


def energy_distance(a: np.ndarray, b: np.ndarray) -> float:
    """2E|a−b| − E|a−a'| − E|b−b'| of rows (n, k), (m, k), over pairs of different rows."""
    own = [cdist(v, v).sum() / (len(v) * (len(v) - 1)) for v in (a, b)]
    return float(2 * cdist(a, b).mean() - sum(own))


def path_distances(rng: np.random.Generator, train_x: np.ndarray, paths: dict[str, np.ndarray]) -> dict[str, float]:
    """Energy distance to training windows of windows of path points (n, series, T, D), by method."""
    steps = np.arange(WINDOW)
    start, other = rng.integers(0, T - WINDOW + 1, (2, WINDOWS, 1))
    pick, step = rng.random((2, WINDOWS, 1))
    real = train_x[rng.integers(0, len(train_x), (WINDOWS, 1)), other + steps].reshape(WINDOWS, -1)
    found = {}
    for name, z in paths.items():
        at, series = (step * len(z)).astype(int), (pick * z.shape[1]).astype(int)
        found[name] = energy_distance(z[at, series, start + steps].reshape(WINDOWS, -1), real)
    return found
