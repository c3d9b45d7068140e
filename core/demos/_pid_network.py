"""The detector: one convolution layer, averaged over positions, trained the same way for every input."""

from __future__ import annotations

from collections.abc import Callable

import autograd.numpy as anp
import numpy as np
from autograd import grad

from core.lab.nets import Adam

FILTERS, STEPS, BATCH, DECAY = 10, 160, 32, 1e-4


def windows(maps: np.ndarray) -> np.ndarray:
    """All 3 × 3 windows of maps (n, h, w, c), unfolded to (n, positions, 9 c)."""
    view = np.lib.stride_tricks.sliding_window_view(maps, (3, 3), axis=(1, 2))
    return view.reshape(len(maps), -1, 9 * maps.shape[3])


def logits(parameters, x):
    """Scores (n,) of unfolded maps (n, positions, 27): convolution, ReLU, mean over positions, linear."""
    filters, bias, weights, offset = parameters
    h = x @ filters + bias
    return anp.mean(h * (h > 0), axis=1) @ weights + offset


def _loss(parameters, x, sign):
    return anp.mean(anp.logaddexp(0, -sign * logits(parameters, x)))


def train(maps: np.ndarray, fake: np.ndarray, seed: int) -> Callable[[np.ndarray], np.ndarray]:
    """Train the network on maps (n, h, w, 3) with labels (n,); returns its decision, fake or not, for maps."""
    rng = np.random.default_rng([seed, 1])  # the same start and batches for every input
    parameters = [rng.normal(0, np.sqrt(2 / 27), (27, FILTERS)), np.zeros(FILTERS)]
    parameters += [rng.normal(0, 0.3, FILTERS), np.zeros(1)]
    parameters = [p.astype(np.float32) for p in parameters]
    centre = maps.mean(axis=(0, 1, 2))
    scale = np.maximum(maps.std(axis=(0, 1, 2)), 1e-9)

    def prepared(m: np.ndarray) -> np.ndarray:
        return windows(((m - centre) / scale).astype(np.float32))

    x, sign = prepared(maps), np.where(fake, 1, -1).astype(np.float32)
    adam, gradient = Adam(), grad(_loss)
    for k, batch in enumerate(rng.integers(0, len(x), (STEPS, BATCH))):
        slope = gradient(parameters, x[batch], sign[batch])
        for i in (0, 2):  # filters and weights
            slope[i] = slope[i] + DECAY * parameters[i]
        adam.step(parameters, slope, rate=0.02 * 0.1 ** (k / STEPS))
    return lambda m: logits(parameters, prepared(m)) > 0
