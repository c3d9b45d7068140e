"""Who to treat and measure, and how to estimate from them: the active method and what it is compared with."""

from __future__ import annotations

import numpy as np


def orthonormal(x: np.ndarray) -> np.ndarray:
    """√n·Q (n, d) from the thin QR of x. Raises ValueError where the covariates are collinear."""
    q, r = np.linalg.qr(x)
    if np.abs(np.diag(r)).min() < 1e-10 * np.abs(np.diag(r)).max():
        raise ValueError("covariates are collinear")
    return np.sqrt(len(x)) * q


def balanced_sample(v: np.ndarray, m: int, rng: np.random.Generator, watch=None) -> tuple[np.ndarray, np.ndarray]:
    """IRD: draws until m distinct rows of v (n, d) are chosen; their indices (m,) and weights (m,).

    Two barriers l < B < u move up with each draw; rows that would push B against one of them are likely to be
    drawn. `watch(D, B, l, u)` is called at every step (for tests).
    """
    n, d = v.shape
    gamma = np.sqrt(2 * d / (m + 2 * d))
    low, high, b = -2 * d / gamma, 2 * d / gamma, np.zeros((d, d))
    weight = np.zeros(n)
    while np.count_nonzero(weight) < m:
        values, vectors = np.linalg.eigh(b)
        inner = 1 / (high - values) + 1 / (values - low)
        phi = inner.sum()
        p = ((v @ vectors) ** 2 @ inner) / (n * phi)
        if watch:
            watch(p, values, low, high)
        i = rng.choice(n, p=p / p.sum())
        s = gamma / (phi * n * p[i])
        b += s * np.outer(v[i], v[i])
        weight[i] += s
        high += gamma / (phi * (1 - gamma))
        low += gamma / (phi * (1 + gamma))
    chosen = np.flatnonzero(weight)
    return chosen, weight[chosen] / ((high + low) / 2)


def leverage_sample(v: np.ndarray, m: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draws by leverage until m distinct rows are chosen; indices and weights 1/p."""
    p = (v**2).sum(1)
    p = p / p.sum()
    order = rng.choice(len(v), size=min(40 * m, 20_000), p=p)
    first = np.sort(np.unique(order, return_index=True)[1])[:m]
    chosen = order[first]
    return chosen, 1 / (len(v) * p[chosen])


def half_treated(m: int, rng: np.random.Generator) -> np.ndarray:
    """Treatments 0/1 (m,), half of each, in random order."""
    return rng.permutation(np.arange(m) < m // 2).astype(float)


def gram_schmidt_walk(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Treatments ±1 (m,) by the Gram–Schmidt walk (Harshaw et al., 2024), half robustness, half balance."""
    m = len(x)
    columns = np.vstack([np.sqrt(0.5) * np.eye(m), np.sqrt(0.5) * x.T / np.linalg.norm(x, axis=1).max()])
    z, alive = np.zeros(m), np.ones(m, dtype=bool)
    pivot = -1
    while alive.any():
        if pivot < 0 or not alive[pivot]:
            pivot = int(rng.choice(np.flatnonzero(alive)))
        others = np.flatnonzero(alive & (np.arange(m) != pivot))
        u = np.zeros(m)
        u[pivot] = 1
        if len(others):
            a = columns[:, others]
            u[others] = -np.linalg.solve(a.T @ a, a.T @ columns[:, pivot])
        with np.errstate(divide="ignore", invalid="ignore"):
            up = np.where(u > 0, (1 - z) / u, np.where(u < 0, (-1 - z) / u, np.inf))[alive].min()
            down = np.where(u > 0, (1 + z) / u, np.where(u < 0, (z - 1) / u, np.inf))[alive].min()
        step = up if rng.random() < down / (up + down) else -down
        z = z + step * u
        done = alive & (np.abs(z) > 1 - 1e-9)
        z[done] = np.sign(z[done])
        alive &= ~done
    return z


def cross_fitted(
    x: np.ndarray, z: np.ndarray, y: np.ndarray, w: np.ndarray, centre: np.ndarray, rng: np.random.Generator
) -> float:
    """The corrected estimate of the average effect from measured units, ten folds at most."""
    m, d = x.shape
    folds = min(10, m)
    c = z - 0.5
    f = np.column_stack([x, c[:, None] * x])
    fold = rng.permutation(np.arange(m) % folds)
    weighted = f * w[:, None]
    grams = np.stack([weighted[fold == k].T @ f[fold == k] for k in range(folds)])
    sides = np.stack([weighted[fold == k].T @ y[fold == k] for k in range(folds)])
    grams, sides = grams.sum(0) - grams, sides.sum(0) - sides
    size = np.trace(grams[:, :d, :d], axis1=1, axis2=2) / d
    penalty = np.where(np.arange(2 * d) <= d, 1e-6, 0.02)
    fitted = np.linalg.solve(grams + size[:, None, None] * np.diag(penalty), sides[..., None])[fold, :, 0]
    mu, theta = fitted[:, :d], fitted[:, d:]
    terms = 4 * c * (y - (x * mu).sum(1)) - (x * theta).sum(1) + theta @ centre
    return float(w @ terms / w.sum())


def plug_in(x: np.ndarray, z: np.ndarray, y: np.ndarray, w: np.ndarray, centre: np.ndarray) -> float:
    """One weighted regression per arm, both read off at the population's mean; Lin's estimator for equal weights."""
    ends = []
    for arm in (1, 0):
        a = x[z == arm] * w[z == arm, None]
        gram = a.T @ x[z == arm]
        ends.append(centre @ np.linalg.solve(gram + 1e-8 * np.trace(gram) * np.eye(len(gram)), a.T @ y[z == arm]))
    return float(ends[0] - ends[1])
