"""Domino pairs of digits, a small network that leans on the easy half, and retraining of many heads at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from core.lab.datasets import digits
from core.lab.nets import Adam, Parameters, log_softmax, minibatches

ATTRIBUTE, CLASS = (0, 1), (3, 8)
"""Digits on the left and on the right."""
PIXELS = 64
LEFT_NOISE = 0.1
TRAIN, VALIDATION, TEST = range(3)
BATCH, STEPS, RATE = 64, 200, 1e-2
"""Retraining of the last layer."""


@dataclass(frozen=True)
class Pairs:
    """Pictures side by side (n, 128) in float32, class y (n,) and attribute a (n,), both 0 or 1."""

    x: np.ndarray
    y: np.ndarray
    a: np.ndarray

    @property
    def groups(self) -> np.ndarray:
        """Group 2y + a of each pair (n,)."""
        return 2 * self.y + self.a


Pools = dict[int, tuple[np.ndarray, ...]]


def make_pools(rng: np.random.Generator) -> Pools:
    """Digit -> disjoint rows of the data set for training (a half), validation and test (a quarter each)."""
    _, labels = digits()
    found = {}
    for digit in (*ATTRIBUTE, *CLASS):
        order = rng.permutation(np.flatnonzero(labels == digit))
        found[digit] = tuple(np.split(order, [len(order) // 2, 3 * len(order) // 4]))
    return found


def draw_images(
    rng: np.random.Generator, pools: Pools, part: int, which: np.ndarray, of: tuple[int, ...]
) -> np.ndarray:
    """Images (n, 64) of the digits of[which], drawn with replacement from one part of the pools."""
    rows = np.empty(len(which), dtype=int)
    for k, digit in enumerate(of):
        here = which == k
        rows[here] = rng.choice(pools[digit][part], here.sum())
    return digits()[0][rows]


def draw_left(rng: np.random.Generator, pools: Pools, part: int, a: np.ndarray) -> np.ndarray:
    """Left halves (n, 64) that show the attribute."""
    return draw_images(rng, pools, part, a, ATTRIBUTE) + LEFT_NOISE * rng.normal(size=(len(a), PIXELS))


def draw_pairs(
    rng: np.random.Generator, pools: Pools, part: int, y: np.ndarray, a: np.ndarray, contrast: float, noise: float
) -> Pairs:
    """Pairs with given classes and attributes (n,); the noise of the right half is not scaled by its contrast."""
    left = draw_left(rng, pools, part, a)
    right = contrast * draw_images(rng, pools, part, y, CLASS) + noise * rng.normal(size=left.shape)
    return Pairs(np.hstack([left, right]).astype(np.float32), y, a)


def draw_labels(rng: np.random.Generator, n: int, corr: float) -> tuple[np.ndarray, np.ndarray]:
    """Classes and attributes (n,) that agree with probability `corr`."""
    if not 0.5 <= corr <= 1:
        raise ValueError(f"corr cannot be {corr:g}: it may be 0.5 to 1")
    y = rng.integers(0, 2, n)
    return y, np.where(rng.random(n) < corr, y, 1 - y)


# --- the network ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Net:
    """One hidden ReLU layer with its head: W1 (128, H) with the view already in it, b1, W (H, 2), b (2,)."""

    w1: np.ndarray
    b1: np.ndarray
    w: np.ndarray
    b: np.ndarray

    def embed(self, x: np.ndarray) -> np.ndarray:
        """Activations v (n, H)."""
        return np.maximum(x @ self.w1 + self.b1, 0)


def view(units: int, mix: float) -> np.ndarray:
    """How strongly each unit sees each pixel (128, H): its own half fully, the other by `mix`."""
    own = (np.arange(2 * PIXELS) < PIXELS)[:, None] == (np.arange(units) < units // 2)
    return np.where(own, 1, mix).astype(np.float32)


def softmax_error(logits: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Gradient (…, n, 2) of the mean cross-entropy in the logits (…, n, 2)."""
    error = np.exp(log_softmax(logits))
    np.put_along_axis(error, y[..., None], np.take_along_axis(error, y[..., None], -1) - 1, -1)
    return error / y.shape[-1]


def gradient(
    parameters: Parameters, seen: np.ndarray, x: np.ndarray, y: np.ndarray, decay: float
) -> list[np.ndarray]:
    """Gradient of cross-entropy + decay/2 · (‖W1‖² + ‖W‖²) in W1, b1, W, b; `seen` multiplies W1."""
    w1, b1, w, b = parameters
    v = np.maximum(x @ (seen * w1) + b1, 0)
    error = softmax_error(v @ w + b, y)
    back = (error @ w.T) * (v > 0)
    return [seen * (x.T @ back) + decay * w1, back.sum(0), v.T @ error + decay * w, error.sum(0)]


def train(rng: np.random.Generator, data: Pairs, units: int, mix: float, steps: int) -> Net:
    """Adam with rate 3e-3, batches of 64 and weight decay 1e-4, for a few steps."""
    shapes = (np.sqrt(2 / (2 * PIXELS)) * rng.normal(size=(2 * PIXELS, units)), np.zeros(units),
              0.1 * rng.normal(size=(units, 2)), np.zeros(2))  # fmt: skip
    parameters = [p.astype(np.float32) for p in shapes]
    seen, adam = view(units, mix), Adam(3e-3)
    for batch in minibatches(rng, len(data.y), BATCH, steps):
        adam.step(parameters, gradient(parameters, seen, data.x[batch], data.y[batch], 1e-4))
    w1, b1, w, b = parameters
    return Net(seen * w1, b1, w, b)


# --- retraining the last layer ------------------------------------------------------------------------


def draw_batches(
    u: np.ndarray, strata: np.ndarray, count: int, weights: np.ndarray | None = None, name: str = "classes"
) -> np.ndarray:
    """Rows (steps, batch) from uniform numbers u: an equal run of columns for each of `count` strata (n,).

    Inside a stratum a row is drawn with probability proportional to its weight (default: all alike). The same u
    gives different methods their own, but paired, samples. `ValueError` names a stratum without samples.
    """
    rows = np.empty(u.shape, dtype=int)
    for k, columns in enumerate(np.array_split(np.arange(u.shape[1]), count)):
        members = np.flatnonzero(strata == k)
        if not len(members):
            raise ValueError(f"{name}: there is no sample of number {k}, so no balanced batch")
        heap = np.cumsum(np.ones(len(members)) if weights is None else weights[members])
        at = np.searchsorted(heap, u[:, columns] * heap[-1], side="right")
        rows[:, columns] = members[np.minimum(at, len(members) - 1)]  # u · total may round up to the total
    return rows


def retrain(
    v: np.ndarray, y: np.ndarray, masks: np.ndarray, rows: np.ndarray, start: tuple[np.ndarray, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Heads W (k, H, 2), b (k, 1, 2) of k problems at once, all from the same start.

    `v` (n, H): frozen activations, `masks` (k, H), `rows` (k, steps, batch): what each problem sees.
    """
    w = np.repeat(start[0][None], len(masks), axis=0)
    b = np.repeat(start[1][None, None], len(masks), axis=0)
    adam = Adam(RATE)
    for t in range(rows.shape[1]):
        h = v[rows[:, t]] * masks[:, None]
        error = softmax_error(h @ w + b, y[rows[:, t]])
        adam.step([w, b], [np.swapaxes(h, 1, 2) @ error, error.sum(1, keepdims=True)])
    return w, b


def predict(v: np.ndarray, masks: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Classes (k, n) that k masked heads predict for activations (n, H): the mask stays on."""
    return np.argmax(v @ (masks[..., None] * w) + b, axis=-1)
