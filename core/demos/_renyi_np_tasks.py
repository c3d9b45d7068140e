"""Regression tasks for neural processes: sines and Gaussian processes, and the exact posterior of the latter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

Family = Literal["sine", "gp"]
EDGE = 2.0
"""x lies in (−2, 2)."""
NOISE, JITTER = 0.05, 1e-6


@dataclass(frozen=True)
class Tasks:
    """B functions at n points each: x, the function f, noisy labels y, all (B, n); gp: length, scale (B, 1, 1)."""

    x: np.ndarray
    f: np.ndarray
    y: np.ndarray
    length: np.ndarray | None = None
    scale: np.ndarray | None = None


def draw_tasks(
    rng: np.random.Generator, family: Family, count: int, n: int, grid: np.ndarray | None = None
) -> Tasks:
    """New tasks with n random points each; the places of a grid, if given, come after them."""
    x = rng.uniform(-EDGE, EDGE, (count, n))
    if grid is not None:
        x = np.hstack([x, np.tile(grid, (count, 1))])
    length = scale = None
    if family == "sine":
        height, frequency = rng.uniform(0.5, 1.5, (count, 1)), rng.uniform(1.5, 2.5, (count, 1))
        f = height * np.sin(frequency * x + rng.uniform(0, 2 * np.pi, (count, 1)))
    elif family == "gp":
        length, scale = rng.uniform(0.3, 1, (count, 1, 1)), rng.uniform(0.5, 1, (count, 1, 1))
        root = np.linalg.cholesky(kernel(x, length, scale) + JITTER * np.eye(x.shape[1]))
        f = (root @ rng.normal(size=(*x.shape, 1)))[..., 0]
    else:
        raise ValueError(f"family cannot be {family!r}: it may be sine or gp")
    return Tasks(x, f, f + NOISE * rng.normal(size=f.shape), length, scale)


def kernel(x: np.ndarray, length: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Squared-exponential covariances (B, n, n) of points x (B, n)."""
    return scale**2 * np.exp(-0.5 * ((x[:, :, None] - x[:, None]) / length) ** 2)


def corrupt(rng: np.random.Generator, y: np.ndarray, share: float) -> np.ndarray:
    """Labels mixed with standard normal noise: (1 − c) y + c·N(0, 1) for a share c."""
    if not 0 <= share < 1:
        raise ValueError(f"corruption cannot be {share}: it may be from 0 to below 1")
    return (1 - share) * y + share * rng.normal(size=y.shape)


def exact_posterior(
    tasks: Tasks, labels: np.ndarray, n_context: int, corruption: float
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation (B, n − n_context) of the targets' y given the context's labels (B, n_context).

    Knows each task's length, scale and noise, and the share of corruption: the best that any method can do.
    """
    if tasks.length is None or tasks.scale is None:
        raise ValueError("family cannot be 'sine' for an exact posterior: it may be gp")
    own = (NOISE**2 + JITTER) * np.eye(tasks.x.shape[1])
    cov = kernel(tasks.x, tasks.length, tasks.scale) + own
    c, t = slice(None, n_context), slice(n_context, None)
    keep = 1 - corruption
    seen = keep**2 * cov[:, c, c] + corruption**2 * np.eye(n_context)
    across = keep * cov[:, c, t]
    weights = np.linalg.solve(seen, across)
    mean = (labels[:, None] @ weights)[:, 0]
    variance = np.diagonal(cov[:, t, t], axis1=1, axis2=2) - (across * weights).sum(axis=1)
    return mean, np.sqrt(variance)
