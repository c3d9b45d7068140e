"""Two-stage least squares and the two selection rules for linear models: a vote and a lasso."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from sklearn.linear_model import lasso_path


def _projected(basis: np.ndarray, v: np.ndarray) -> np.ndarray:
    return basis @ np.linalg.lstsq(basis, v, rcond=None)[0]


def two_stage(z: np.ndarray, x: np.ndarray, y: np.ndarray, chosen: np.ndarray) -> float:
    """2SLS effect with the chosen candidates as instruments, the others and a constant as covariates."""
    ones = np.ones((len(x), 1))
    fitted = _projected(np.column_stack([ones, z]), x)
    design = np.column_stack([fitted, ones, z[:, ~chosen]])
    return float(np.linalg.lstsq(design, y, rcond=None)[0][0])


def tsht(z: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Two-stage hard thresholding (Guo et al., 2018): the largest clique of candidates that vote for each other."""
    n, q = z.shape
    zc, xc, yc = z - z.mean(0), x - x.mean(), y - y.mean()
    inverse = np.linalg.inv(zc.T @ zc)
    outcome, first = inverse @ zc.T @ yc, inverse @ zc.T @ xc
    votes = np.zeros((q, q), dtype=bool)
    for j in range(q):
        beta = outcome[j] / first[j]
        residual = yc - beta * xc
        residual = residual - zc @ (inverse @ zc.T @ residual)
        variance = residual @ residual / (n - q)
        r = first / first[j]
        se = np.sqrt(variance * (np.diag(inverse) + r**2 * inverse[j, j] - 2 * r * inverse[:, j]))
        votes[j] = np.abs(outcome - beta * first) <= np.sqrt(2.01 * np.log(n)) * se
    mutual = votes & votes.T
    for size in range(q, 0, -1):
        for c in combinations(range(q), size):
            if all(mutual[i, j] for i, j in combinations(c, 2)):
                return np.isin(np.arange(q), c)
    return np.zeros(q, dtype=bool)


def sisvive(z: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """sisVIVE (Kang et al., 2016): along a lasso path on direct effects, the set with the best penalised fit."""
    n, q = z.shape
    zc, xc, yc = z - z.mean(0), x - x.mean(), y - y.mean()
    fitted = _projected(zc, xc)

    def without(v: np.ndarray) -> np.ndarray:
        return v - np.multiply.outer(fitted, fitted @ v / (fitted @ fitted))

    _, coefficients, _ = lasso_path(without(zc), without(_projected(zc, yc)), alphas=60)
    best, least = np.ones(q, dtype=bool), np.inf
    for rejected in {tuple(c) for c in (np.abs(coefficients.T) > 1e-10)}:
        kept = ~np.array(rejected)
        if not kept.any():
            continue
        design = np.column_stack([fitted, zc[:, ~kept]])
        solution = np.linalg.lstsq(design, yc, rcond=None)[0]
        e = yc - np.column_stack([xc, zc[:, ~kept]]) @ solution
        value = n * np.sum(_projected(zc, e) ** 2) / (e @ e) + np.log(n) * (~kept).sum()
        if value < least:
            best, least = kept, value
    return best
