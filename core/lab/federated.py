"""What federated demos share: digits split over clients, softmax regression on them, and its optimum."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import optimize

from core.lab.datasets import digits

CLASSES = 10


@dataclass(frozen=True)
class Pool:
    """Digits as 20 principal components, split into train and test.

    x (1200, 20 or 21), y (1200,), test_x (597, …), test_y (597,); the last column is 1 where there is a bias.
    """

    x: np.ndarray
    y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray


@lru_cache(maxsize=16)
def pool(seed: int, bias: bool = True, train: int = 1200) -> Pool:
    """Rows shuffled by the seed; mean and components from the training part only."""
    pixels, labels = digits()
    order = np.random.default_rng([seed, 11]).permutation(len(pixels))
    pixels, labels = pixels[order], labels[order]
    centre = pixels[:train].mean(0)
    components = np.linalg.svd(pixels[:train] - centre, full_matrices=False)[2][:20]
    x = (pixels - centre) @ components.T
    if bias:
        x = np.column_stack([x, np.ones(len(x))])
    return Pool(x[:train], labels[:train], x[train:], labels[train:])


def dirichlet_split(labels: np.ndarray, clients: int, alpha: float, rng: np.random.Generator) -> list[np.ndarray]:
    """Row indices of each client: per class, shares over clients drawn from Dirichlet(alpha).

    Rows of a class come in random order and are cut at floor(cumsum · count); a client may stay empty.
    """
    own: list[list[np.ndarray]] = [[] for _ in range(clients)]
    for c in range(CLASSES):
        rows = rng.permutation(np.flatnonzero(labels == c))
        cuts = np.floor(np.cumsum(rng.dirichlet(np.full(clients, alpha)))[:-1] * len(rows)).astype(int)
        for client, part in enumerate(np.split(rows, cuts)):
            own[client].append(part)
    return [np.concatenate(parts) for parts in own]


def softmax(logits: np.ndarray, axis: int = -1) -> np.ndarray:
    """Probabilities along an axis."""
    e = np.exp(logits - logits.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def one_hot(labels: np.ndarray) -> np.ndarray:
    """Labels (n,) as rows (10, n), classes first: the softmax then reduces over a contiguous axis of n."""
    return (np.arange(CLASSES)[:, None] == labels).astype(float)


def loss_gradient(w: np.ndarray, x: np.ndarray, y: np.ndarray, mu: float) -> np.ndarray:
    """Gradient (10, d) of mean cross-entropy + mu/2·‖w‖² for x (n, d), y one-hot (10, n)."""
    p = softmax(w @ x.T, axis=0)
    return (p - y) @ x / len(x) + mu * w


def loss(w: np.ndarray, x: np.ndarray, labels: np.ndarray, mu: float, weights: np.ndarray | None = None) -> float:
    """Weighted cross-entropy (weights (n,) sum to 1; default: the mean) + mu/2·‖w‖²."""
    z = w @ x.T
    top = z.max(0)
    each = np.log(np.exp(z - top).sum(0)) + top - z[labels, np.arange(len(labels))]
    data = each.mean() if weights is None else float(each @ weights)
    return float(data + 0.5 * mu * (w**2).sum())


def optimum(
    x: np.ndarray, labels: np.ndarray, mu: float, weights: np.ndarray | None = None, tolerance: float = 1e-7
) -> tuple[np.ndarray, float]:
    """The minimiser (10, d) of `loss` and its value, by L-BFGS."""
    n = len(labels)
    share = np.full(n, 1 / n) if weights is None else weights
    y = one_hot(labels)

    def both(flat: np.ndarray) -> tuple[float, np.ndarray]:
        w = flat.reshape(CLASSES, -1)
        gradient = ((softmax(w @ x.T, axis=0) - y) * share) @ x + mu * w
        return loss(w, x, labels, mu, share), gradient.ravel()

    start = np.zeros(CLASSES * x.shape[1])
    found = optimize.minimize(
        both,
        start,
        jac=True,
        method="L-BFGS-B",
        options={"gtol": tolerance, "ftol": 0, "maxiter": 5000, "maxcor": 30},
    )
    return found.x.reshape(CLASSES, -1), float(found.fun)


def test_accuracy(w: np.ndarray, pool: Pool) -> float:
    """Share of test rows that w (10, d) classifies rightly."""
    return float(np.mean((w @ pool.test_x.T).argmax(0) == pool.test_y))
