"""The rejector network, its surrogates, the attacks on its input, and the training of three variants."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

Weights = list[np.ndarray]
"""W1 (d, h), b1 (h,), W2 (h, J), b2 (J,)."""


def init(inputs: int, hidden: int, deciders: int, rng: np.random.Generator) -> Weights:
    return [
        rng.normal(0, inputs**-0.5, (inputs, hidden)),
        np.zeros(hidden),
        rng.normal(0, hidden**-0.5, (hidden, deciders)),
        np.zeros(deciders),
    ]


def scores(w: Weights, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scores r (n, J) and hidden values (n, h)."""
    h = np.tanh(x @ w[0] + w[1])
    return h @ w[2] + w[3], h


def backward(w: Weights, x: np.ndarray, h: np.ndarray, g: np.ndarray) -> Weights:
    """Gradient for the weights of a loss with dLoss/dr = g (n, J)."""
    back = (g @ w[2].T) * (1 - h * h)
    return [x.T @ back, back.sum(0), h.T @ g, g.sum(0)]


def to_input(w: Weights, h: np.ndarray, g: np.ndarray) -> np.ndarray:
    """Gradient for the input (n, d)."""
    return ((g @ w[2].T) * (1 - h * h)) @ w[0].T


def comp_sum(r: np.ndarray, tau: np.ndarray, u: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Σ_j τ_j Ψ^u(v_j) per row (n,) and its gradient for r (n, J); v_j = Σ_{i≠j} e^{r_i − r_j}."""
    shifted = r - r.max(1, keepdims=True)
    log_sum = np.log(np.exp(shifted).sum(1, keepdims=True)) - shifted  # log(1 + v_j)
    value = log_sum if u == 1 else np.expm1((1 - u) * log_sum) / (1 - u)
    t = tau * np.exp((1 - u) * log_sum)
    q = np.exp(shifted)
    q /= q.sum(1, keepdims=True)
    return (tau * value).sum(1), q * t.sum(1, keepdims=True) - t


def margin_change(r_new: np.ndarray, r_old: np.ndarray, j: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """‖Δ̄(x′, j) − Δ̄(x, j)‖ per row (n,) for the decider j (n,), and its gradient for r(x′) (n, J)."""
    e = r_new - r_old
    rows = np.arange(len(e))
    delta = e[rows, j][:, None] - e
    norm = np.maximum(np.linalg.norm(delta, axis=1), 1e-12)
    g = -delta / norm[:, None]
    g[rows, j] = delta.sum(1) / norm
    return np.linalg.norm(delta, axis=1), g


def ascend(x0: np.ndarray, start: np.ndarray, gradient, radius: float, steps: int) -> np.ndarray:
    """Sign ascent from `start`, kept within `radius` of x0 and within [0, 1]."""
    x = start
    low, high = np.maximum(x0 - radius, 0), np.minimum(x0 + radius, 1)
    for _ in range(steps):
        x = np.clip(x + 2.5 * radius / steps * np.sign(gradient(x)), low, high)
    return x


def random_start(x: np.ndarray, radius: float, rng: np.random.Generator) -> np.ndarray:
    return np.clip(x + rng.uniform(-radius, radius, x.shape), 0, 1)


def untargeted(
    w: Weights, x: np.ndarray, tau: np.ndarray, start: np.ndarray, radius: float, steps: int
) -> np.ndarray:
    """Inputs that raise the two-stage surrogate."""

    def gradient(z: np.ndarray) -> np.ndarray:
        r, h = scores(w, z)
        return to_input(w, h, comp_sum(r, tau)[1])

    return ascend(x, start, gradient, radius, steps)


def targeted(w: Weights, x: np.ndarray, target: int, radius: float, steps: int) -> np.ndarray:
    """Inputs that send queries to one decider."""
    want = np.zeros((len(x), w[3].size))
    want[:, target] = 1

    def gradient(z: np.ndarray) -> np.ndarray:
        r, h = scores(w, z)
        return -to_input(w, h, comp_sum(r, want)[1])

    return ascend(x, x, gradient, radius, steps)


@dataclass(frozen=True)
class Training:
    """How the rejectors are trained."""

    radius: float
    nu: float = 0.0
    rho: float = 1.0
    adversarial: bool = False
    steps: int = 250
    batch: int = 64
    hidden: int = 32


def sard_gradient(
    w: Weights, x: np.ndarray, tau: np.ndarray, moved: np.ndarray, nu: float, rho: float
) -> tuple[float, Weights]:
    """The smooth objective with its inner points `moved` (J, n, d) held fixed, without weight decay."""
    n, j = tau.shape
    r, h = scores(w, x)
    value, g = comp_sum(r / rho, tau)
    g = g / rho / n
    total = float(value.mean())
    if nu == 0:
        return total, backward(w, x, h, g)
    flat = moved.reshape(j * n, -1)
    r_new, h_new = scores(w, flat)
    which = np.repeat(np.arange(j), n)
    norm, g_new = margin_change(r_new, np.tile(r, (j, 1)), which)
    weight = nu * tau.T.ravel() / n
    g_new = g_new * weight[:, None]
    total += float(weight @ norm)
    g = g - g_new.reshape(j, n, j).sum(0)
    return total, [a + b for a, b in zip(backward(w, x, h, g), backward(w, flat, h_new, g_new), strict=True)]


def inner_points(w: Weights, x: np.ndarray, radius: float, rng: np.random.Generator, deciders: int) -> np.ndarray:
    """For every decider the input (J, n, d) in the ball that changes its margins most, by two sign steps."""
    r, _ = scores(w, x)
    tiled, old = np.tile(x, (deciders, 1)), np.tile(r, (deciders, 1))
    which = np.repeat(np.arange(deciders), len(x))

    def gradient(z: np.ndarray) -> np.ndarray:
        r_new, h = scores(w, z)
        return to_input(w, h, margin_change(r_new, old, which)[1])

    return ascend(tiled, random_start(tiled, radius, rng), gradient, radius, 2).reshape(deciders, *x.shape)


def train(x: np.ndarray, cost: np.ndarray, how: Training, seed: int) -> Weights:
    """A rejector trained with Adam on costs (n, J); the same seed gives the same start and batches."""
    deciders = cost.shape[1]
    tau = cost.sum(1, keepdims=True) - cost
    w = init(x.shape[1], how.hidden, deciders, np.random.default_rng([seed, 1]))
    order, inner = np.random.default_rng([seed, 2]), np.random.default_rng([seed, 3])
    first, second = [np.zeros_like(p) for p in w], [np.zeros_like(p) for p in w]
    for step in range(1, how.steps + 1):
        rows = order.integers(0, len(x), how.batch)
        bx, bt = x[rows], tau[rows]
        if how.adversarial:
            bx = untargeted(w, bx, bt, random_start(bx, how.radius, inner), how.radius, 2)
        moved = inner_points(w, bx, how.radius, inner, deciders) if how.nu > 0 else np.empty(0)
        _, g = sard_gradient(w, bx, bt, moved, how.nu, how.rho)
        for p, m, v, d in zip(w, first, second, g, strict=True):
            d = d + 2e-4 * p
            m += 0.1 * (d - m)
            v += 0.001 * (d * d - v)
            p -= 0.01 * (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)
    return w
