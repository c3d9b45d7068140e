"""A one-hidden-layer network with its tangent kernel in closed form, for a whole crowd of clients at once."""

from __future__ import annotations

import numpy as np

from core.lab.federated import softmax

Weights = list[np.ndarray]
"""W1 (…, h, d), b1 (…, h), W2 (…, C, h), b2 (…, C); the leading axis, if any, counts clients."""


def init(rng: np.random.Generator, inputs: int, hidden: int, classes: int) -> Weights:
    """He initialisation, zero biases."""
    return [
        rng.normal(0, np.sqrt(2 / inputs), (hidden, inputs)),
        np.zeros(hidden),
        rng.normal(0, np.sqrt(2 / hidden), (classes, hidden)),
        np.zeros(classes),
    ]


def forward(w: Weights, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Hidden activations (…, n, h) and outputs (…, n, C) for x (…, n, d)."""
    hidden = np.maximum(x @ np.swapaxes(w[0], -1, -2) + w[1][..., None, :], 0)
    return hidden, hidden @ np.swapaxes(w[2], -1, -2) + w[3][..., None, :]


def backward(w: Weights, x: np.ndarray, hidden: np.ndarray, residual: np.ndarray) -> Weights:
    """Back-propagation of an output residual (…, n, C): the sum over rows and outputs of Jᵀ residual."""
    inner = (residual @ w[2]) * (hidden > 0)
    over_rows = np.swapaxes(inner, -1, -2)
    return [over_rows @ x, inner.sum(-2), np.swapaxes(residual, -1, -2) @ hidden, residual.sum(-2)]


def gradient(w: Weights, x: np.ndarray, y: np.ndarray) -> Weights:
    """Gradient of mean cross-entropy for one-hot y (…, n, C)."""
    hidden, out = forward(w, x)
    return backward(w, x, hidden, (softmax(out) - y) / x.shape[-2])


def cross_entropy(out: np.ndarray, y: np.ndarray) -> float:
    """Mean cross-entropy of outputs (n, C) against one-hot y."""
    top = out.max(-1, keepdims=True)
    log_sum = np.log(np.exp(out - top).sum(-1)) + top[..., 0]
    return float(np.mean(log_sum - (out * y).sum(-1)))


def tangent_kernel(w: Weights, hidden: np.ndarray, gram: np.ndarray) -> np.ndarray:
    """Θ (n, n) = (1/C) Σ_c J_c J_cᵀ of one network; `gram` is X Xᵀ + 1, the inner products of the inputs."""
    active = (hidden > 0).astype(float)
    through = (active * (w[2] ** 2).sum(0)) @ active.T / len(w[2])
    return hidden @ hidden.T + 1 + through * gram


def evolve(
    kernel: np.ndarray, start: np.ndarray, y: np.ndarray, step: float, times: list[int]
) -> dict[int, np.ndarray]:
    """Euler steps of the predictions under the kernel; the summed residual R_τ (n, C) at each time in `times`.

    Raises ValueError where the predictions leave the finite numbers.
    """
    out, target = start.T.copy(), y.T  # classes first: the softmax reduces over a short axis of long rows
    total, found, rate = np.zeros_like(out), {}, step / len(y)
    for t in range(1, max(times) + 1):
        residual = softmax(out, axis=0) - target
        total = total + residual
        out = out - rate * (residual @ kernel)
        if t in times:
            found[t] = total.T.copy()
    if not np.isfinite(out).all():
        raise ValueError("step: evolution step too large, the predictions are not finite")
    return found


def moved(w: Weights, direction: Weights, scale: float) -> Weights:
    """w − scale · direction."""
    return [a - scale * b for a, b in zip(w, direction, strict=True)]


def average(w: Weights, mixing: np.ndarray) -> Weights:
    """Every client's weights replaced by the mixture given by its row of `mixing` (N, N)."""
    return [np.tensordot(mixing, part, 1) for part in w]


def client(w: Weights, i: int) -> Weights:
    return [part[i] for part in w]


def size(w: Weights) -> int:
    """Number of parameters of one network."""
    return sum(int(np.prod(part.shape)) for part in w)
