"""The rectified flow of the OmniAudio demo: a small network with a hand-written gradient, training, sampling."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from core.lab.nets import Adam

LATENT, TIME, VIEW, UNITS = 8, 8, 64, 96
BATCH, EULER_STEPS, RATE = 128, 8, 3e-3
FREQUENCIES = np.pi * np.array([0.5, 1, 2, 4], dtype=np.float32)


class Network:
    """v = O relu(B relu(W·[z, e(t), views] + b) + c) + o.

    W stacks the blocks A, T and one block a branch. `blocks` W, b, B, c, O, o are views into the vector `flat`.
    """

    def __init__(self, blocks: Sequence[np.ndarray]):
        self.shapes = [b.shape for b in blocks]
        self.flat = np.concatenate([b.ravel() for b in blocks])
        self.blocks = self._views(self.flat)
        self.adam = Adam(beta2=0.99)

    def _views(self, flat: np.ndarray) -> list[np.ndarray]:
        ends = np.cumsum([int(np.prod(s)) for s in self.shapes])[:-1]
        return [part.reshape(shape) for part, shape in zip(np.split(flat, ends), self.shapes, strict=True)]

    @property
    def branches(self) -> int:
        """How many views the network sees."""
        return (self.shapes[0][0] - LATENT - TIME) // VIEW

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Velocities (n, 8) at inputs (n, 16 + 64 a branch)."""
        w, b, w2, b2, w3, b3 = self.blocks
        return np.maximum(np.maximum(x @ w + b, 0) @ w2 + b2, 0) @ w3 + b3

    def gradient(self, x: np.ndarray, target: np.ndarray) -> tuple[float, np.ndarray]:
        """Mean square error of the velocities and its gradient, flat."""
        w, b, w2, b2, w3, b3 = self.blocks
        h = np.maximum(x @ w + b, 0)
        k = np.maximum(h @ w2 + b2, 0)
        error = k @ w3 + b3 - target
        out = np.empty_like(self.flat)
        dw, db, dw2, db2, dw3, db3 = self._views(out)
        dv = error * error.dtype.type(2 / error.size)
        dk = (dv @ w3.T) * (k > 0)
        dh = (dk @ w2.T) * (h > 0)
        for into, left, right in ((dw3, k, dv), (dw2, h, dk), (dw, x, dh)):
            np.matmul(left.T, right, out=into)
        for into, right in ((db3, dv), (db2, dk), (db, dh)):
            right.sum(axis=0, out=into)
        return float((error**2).mean()), out


def first_networks(
    rng: np.random.Generator, branches: Mapping[str, Sequence[int]], dtype: type = np.float32
) -> dict[str, Network]:
    """Networks by name that start from the same weights; `branches` lists which of the two views each has.

    Each block of W has a standard deviation of 1/√(its own inputs), so that no branch drowns another.
    """

    def normal(rows: int, columns: int, sd: float) -> np.ndarray:
        return (sd / np.sqrt(rows) * rng.standard_normal((rows, columns))).astype(dtype)

    known = [normal(LATENT, UNITS, 1), normal(TIME, UNITS, 1)]
    views = [normal(VIEW, UNITS, 1) for _ in range(2)]
    second, last = normal(UNITS, UNITS, 1.4), normal(UNITS, LATENT, 0.1)
    zero: np.ndarray = np.zeros(UNITS, dtype)
    return {
        name: Network([np.vstack(known + [views[i] for i in seen]), zero, second, zero, last, zero[:LATENT]])
        for name, seen in branches.items()
    }


def time_features(t: np.ndarray) -> np.ndarray:
    """Sines and cosines (n, 8) of the flow time (n, 1)."""
    return np.hstack([np.sin(t * FREQUENCIES), np.cos(t * FREQUENCIES)])


def fit(
    networks: Mapping[str, Network],
    views: Mapping[str, np.ndarray] | None,
    latents: np.ndarray,
    rng: np.random.Generator,
    steps: int,
    rate: Callable[[int], float],
) -> None:
    """Regress all networks on z₁ − z₀ at z_t, with the same batches, noise and times.

    `latents` (n, 8), `views` by network (n, 64 a branch); None stands for views of zeros (sound alone).
    """
    for k in range(steps):
        rows = rng.integers(0, len(latents), BATCH)
        z1, z0 = latents[rows], rng.standard_normal((BATCH, LATENT), dtype=np.float32)
        t = rng.random((BATCH, 1), dtype=np.float32)
        known = np.hstack([(1 - t) * z0 + t * z1, time_features(t)])
        for name, network in networks.items():
            blind = np.zeros((BATCH, VIEW * network.branches), np.float32)
            x = np.hstack([known, blind if views is None else views[name][rows]])
            network.adam.step([network.flat], [network.gradient(x, z1 - z0)[1]], rate(k))


def quarter_wave(steps: int) -> Callable[[int], float]:
    """A learning rate that falls to 0 along a quarter of a cosine."""
    return lambda k: float(RATE * np.cos(np.pi * k / (2 * steps)))


def euler(velocity: Callable[[np.ndarray, float], np.ndarray], z: np.ndarray, steps: int) -> np.ndarray:
    """Follow dz/dt = velocity(z, t) from t = 0 to 1."""
    for i in range(steps):
        z = z + velocity(z, i / steps) / np.float32(steps)
    return z


def sample(network: Network, views: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Latents (n, 8) generated from noise (n, 8), given the views (n, 64 a branch)."""

    def velocity(z: np.ndarray, t: float) -> np.ndarray:
        e = time_features(np.full((len(z), 1), t, dtype=np.float32))
        return network(np.hstack([z, e, views]))

    return euler(velocity, noise, EULER_STEPS)
