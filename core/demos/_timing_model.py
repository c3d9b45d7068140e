"""The switching series of the TIMING demo, its two classifiers, and the output that is explained."""

from __future__ import annotations

from dataclasses import dataclass

import autograd.numpy as anp
import numpy as np
from autograd import grad

from core.lab.nets import Adam, Parameters, cross_entropy, log_softmax, minibatches

T, D, CLASSES = 32, 4, 2
KERNEL, UNITS, STEPS, BATCH, RATE = 5, 16, 150, 128, 0.01


def switch_data(rng: np.random.Generator, n: int, gate: float) -> tuple[np.ndarray, np.ndarray]:
    """Series (n, T, 4) whose channel 0 says which of channels 1 and 2 drives the label (n,)."""
    if not 0 <= gate <= 1:
        raise ValueError(f"gate must lie between 0 and 1, not {gate}")
    flips = rng.random((n, T)) < 0.05
    flips[:, 0] = rng.random(n) < 0.5
    state = np.cumsum(flips, axis=1) % 2
    noise = rng.normal(size=(n, T, D))
    x = noise.copy()
    for t in range(1, T):
        x[:, t, 1:] = 0.9 * x[:, t - 1, 1:] + np.sqrt(1 - 0.9**2) * noise[:, t, 1:]
    x[:, :, 0] += 2 * state - 1
    driving = np.where(state == 1, x[:, :, 1], x[:, :, 2])
    score = gate * driving + (1 - gate) * (x[:, :, 1] + x[:, :, 2]) / 2
    return x, (score.mean(axis=1) > 0).astype(int)


@dataclass(frozen=True)
class Model:
    """A classifier of series (n, T, D): a convolutional net, or a linear one if there are two parameters."""

    parameters: Parameters

    def logits(self, x):
        """Logits (n, 2), differentiable by autograd; the convolution is one (T·D, T·units) matrix."""
        if len(self.parameters) == 2:
            weights, bias = self.parameters
            return x.reshape(len(x), -1) @ weights + bias
        kernel, b1, w2, b2, w3, b3 = self.parameters
        shifts = np.stack([np.eye(T, k=KERNEL // 2 - i) for i in range(KERNEL)])
        matrix = anp.tensordot(shifts, kernel, axes=(0, 0))  # from step, to step, channel, unit
        matrix = anp.transpose(matrix, (0, 2, 1, 3)).reshape(T * D, T * UNITS)
        hidden = (x.reshape(len(x), -1) @ matrix).reshape(-1, UNITS)
        hidden = anp.maximum(anp.maximum(hidden + b1, 0) @ w2 + b2, 0)
        return 4 * anp.mean(hidden.reshape(len(x), T, UNITS), axis=1) @ w3 + b3

    def probabilities(self, x):
        """Class probabilities (n, 2), differentiable by autograd."""
        return anp.exp(log_softmax(self.logits(x)))


def train(kind: str, x: np.ndarray, labels: np.ndarray, rng: np.random.Generator) -> Model:
    """Adam on cross-entropy; `ValueError` if there is only one class."""
    if len(np.unique(labels)) < CLASSES:
        raise ValueError("labels: the training series are all of one class")
    if kind == "linear":
        p = [0.01 * rng.normal(size=(T * D, CLASSES)), np.zeros(CLASSES)]
    else:
        shapes = ((KERNEL, D, UNITS), (UNITS, UNITS), (UNITS, CLASSES))
        gains = (2 / (KERNEL * D), 2 / UNITS, 1 / UNITS)
        weights = [rng.normal(0, np.sqrt(g), s) for s, g in zip(shapes, gains, strict=True)]
        p = [a for w in weights for a in (w, np.zeros(w.shape[-1]))]
    adam, slope = Adam(RATE), grad(lambda q, rows: cross_entropy(Model(q).logits(x[rows]), labels[rows]))
    for rows in minibatches(rng, len(x), BATCH, STEPS):
        adam.step(p, slope(p, rows))
    return Model(p)


@dataclass(frozen=True)
class Explained:
    """F: the probability (or logit) of the class (n,) that the model gives to each of n series."""

    model: Model
    classes: np.ndarray
    target: str = "probability"

    def __call__(self, z):
        """F of points (..., n, T, D) -> (..., n), differentiable by autograd."""
        flat = z.reshape(-1, T, D)
        out = (self.model.logits if self.target == "logit" else self.model.probabilities)(flat)
        rows = np.arange(len(flat))
        return out[rows, self.classes[rows % len(self.classes)]].reshape(z.shape[:-2])

    def gradient(self, z: np.ndarray) -> np.ndarray:
        """dF/dz of the same shape as z (..., n, T, D)."""
        return grad(lambda q: anp.sum(self(q)))(z)
