"""Networks of the INRFlow demo with hand-written gradients, their training, and flows of whole vectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from core.demos._inrflow_data import LEAST_TRAIN
from core.lab.nets import Adam, minibatches

HIDDEN, BATCH, WARM_UP, LAST_RATE, DECAY = 192, 96, 20, 0.04, 0.98
COMPONENTS = 12
Arrays = dict[str, np.ndarray]


class Weights:
    """Named arrays as views into one flat vector, so that Adam and averages handle a single array.

    `slope` is a flat vector of the same layout for their gradient, `slopes` its views; each new gradient
    overwrites the last.
    """

    def __init__(self, shapes: Mapping[str, tuple[int, ...]], rng: np.random.Generator, dtype: type = np.float32):
        sizes = [int(np.prod(s)) for s in shapes.values()]
        self.flat: np.ndarray = np.zeros(sum(sizes), dtype)
        self.slope = np.zeros_like(self.flat)
        self.arrays, self.slopes = (
            {n: p.reshape(shapes[n]) for n, p in zip(shapes, np.split(f, np.cumsum(sizes)[:-1]), strict=True)}
            for f in (self.flat, self.slope)
        )
        for name, w in self.arrays.items():
            if w.ndim == 2 and name != "skip":  # biases and the skip start at 0
                w[:] = rng.standard_normal(w.shape) / np.sqrt(len(w))


def silu(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """a·σ(a) and its derivative σ(a) + a·σ(a)·(1 − σ(a)); in place, for speed."""
    s = np.exp(-a)
    s += 1
    np.reciprocal(s, out=s)
    value, slope = a * s, 1 - s
    slope *= value
    slope += s
    return value, slope


def time_features(t: np.ndarray) -> np.ndarray:
    """τ(t) = (t, sin kπt, cos kπt), k = 1, 2, 3, as (n, 7) of times (n, 1)."""
    angle = np.pi * t * np.arange(1, 4, dtype=t.dtype)
    return np.hstack([t, np.sin(angle), np.cos(angle)]).astype(t.dtype)


TIME = 7


def trunk_shapes(inputs: int, outputs: int) -> dict[str, tuple[int, ...]]:
    """Two hidden layers, the second one residual."""
    return {
        "W1": (inputs + TIME, HIDDEN),
        "b1": (HIDDEN,),
        "W2": (HIDDEN, HIDDEN),
        "b2": (HIDDEN,),
        "W3": (HIDDEN, outputs),
        "b3": (outputs,),
    }


def trunk(w: Arrays, z: np.ndarray, tau: np.ndarray) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    """W3 h2 + b3 (n, outputs) of z (n, inputs) and time features (n, 7), and what its gradient needs."""
    x = np.hstack([z, tau])
    h1, slope1 = silu(x @ w["W1"] + w["b1"])
    more, slope2 = silu(h1 @ w["W2"] + w["b2"])
    h2 = h1 + more
    return h2 @ w["W3"] + w["b3"], (x, h1, slope1, slope2, h2)


def trunk_gradient(w: Arrays, g: Arrays, kept: tuple[np.ndarray, ...], d_out: np.ndarray) -> None:
    """Writes the gradients of the trunk's weights into `g`, given that of its output."""
    x, h1, slope1, slope2, h2 = kept
    d_h2 = d_out @ w["W3"].T
    d_a2 = d_h2 * slope2
    d_a1 = (d_h2 + d_a2 @ w["W2"].T) * slope1
    for layer, left, right in (("3", h2, d_out), ("2", h1, d_a2), ("1", x, d_a1)):
        np.matmul(left.T, right, out=g["W" + layer])
        right.sum(axis=0, out=g["b" + layer])


class WholeVector:
    """A velocity of all values of a vector at once: the trunk plus a linear skip from the input."""

    def __init__(self, size: int, rng: np.random.Generator, dtype: type = np.float32):
        self.weights = Weights({**trunk_shapes(size, size), "skip": (size, size)}, rng, dtype)

    def __call__(self, y: np.ndarray, t: float) -> np.ndarray:
        """Velocities (n, size) at y (n, size) and one time."""
        w = self.weights.arrays
        tau = time_features(np.full((len(y), 1), t, y.dtype))
        return trunk(w, y, tau)[0] + y @ w["skip"]

    def gradient(self, y1: np.ndarray, noise: np.ndarray, t: np.ndarray) -> tuple[float, np.ndarray]:
        """The flow matching loss of a batch (n, size) at times (n, 1) and its gradient, flat."""
        w, g = self.weights.arrays, self.weights.slopes
        y = (1 - t) * noise + t * y1
        v, kept = trunk(w, y, time_features(t))
        error = v + y @ w["skip"] - (y1 - noise)
        d_v = error * error.dtype.type(2 / error.size)
        np.matmul(y.T, d_v, out=g["skip"])
        trunk_gradient(w, g, kept, d_v)
        return float(np.mean(error**2)), self.weights.slope

    def sample(self, noise: np.ndarray, steps: int) -> np.ndarray:
        """Euler's method from noise (n, size) at t = 0 to samples at t = 1."""
        y = noise
        for k in range(steps):
            y = y + self(y, k / steps) / np.float32(steps)
        return y


Gradient = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[float, np.ndarray]]
"""(data, noise, times) of a batch -> loss and flat gradient"""


def fit(weights: Weights, gradient: Gradient, data: np.ndarray, steps: int, rate: float, seed: int) -> float:
    """Adam on the flow matching loss, in place; leaves the average weights and returns the last tenth's loss.

    The same seed gives the same batches and times whatever the network. `RuntimeError` if the loss diverges.
    """
    if len(data) < LEAST_TRAIN:
        raise ValueError(f"training samples: at least {LEAST_TRAIN} are needed, not {len(data)}")
    if steps < 1:
        raise ValueError(f"steps must be at least 1, not {steps}")
    for_batches, for_times, for_noise = (np.random.default_rng([seed, i]) for i in range(3))
    adam, average, losses = Adam(beta2=0.99), weights.flat.copy(), []
    for k, rows in enumerate(minibatches(for_batches, len(data), BATCH, steps)):
        t = 1 / (1 + np.exp(-for_times.standard_normal((BATCH, 1), dtype=np.float32)))
        noise = for_noise.standard_normal((BATCH, *data.shape[1:]), dtype=np.float32)
        loss, change = gradient(data[rows], noise, t)
        if not np.isfinite(loss):
            raise RuntimeError(f"the loss is not finite after {k} training steps")
        cosine = LAST_RATE + (1 - LAST_RATE) * (1 + np.cos(np.pi * k / steps)) / 2
        adam.step([weights.flat], [change], rate * min(1, (k + 1) / WARM_UP) * float(cosine))
        decay = min(DECAY, (1 + k) / (10 + k))  # a short run must not average over its start
        average += np.float32(1 - decay) * (weights.flat - average)
        losses.append(loss)
    weights.flat[:] = average
    return float(np.mean(losses[-max(1, steps // 10) :]))


class Compressor:
    """Principal components: data (n, size) to white latents (n, 12) and back."""

    def __init__(self, data: np.ndarray):
        self.mean = data.mean(axis=0)
        _, s, basis = np.linalg.svd(data - self.mean, full_matrices=False)
        self.basis, self.sd = basis[:COMPONENTS], s[:COMPONENTS] / np.sqrt(len(data))

    def encode(self, y: np.ndarray) -> np.ndarray:
        return (y - self.mean) @ self.basis.T / self.sd

    def decode(self, z: np.ndarray) -> np.ndarray:
        return self.mean + z * self.sd @ self.basis
