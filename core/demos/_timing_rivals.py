"""Explanations of time series that TIMING is compared with, beside integrated gradients."""

from __future__ import annotations

import autograd.numpy as anp
import numpy as np
from autograd import grad

from core.demos._timing_model import D, Explained, Model, T
from core.lab.nets import log_softmax


def gradient_shap(f: Explained, x: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Mean over n draws of (x − base)·gradient, the base drawn from {0, x}, between base and x."""
    alpha, kept = rng.random((n, len(x), 1, 1)), rng.random((n, len(x), 1, 1)) < 0.5
    base = kept * x
    return ((x - base) * f.gradient(base + alpha * (x - base))).mean(axis=0)


def occlusion(f: Explained, x: np.ndarray) -> np.ndarray:
    """F(x) − F(x with one cell at 0), (series, T, D)."""
    keep = 1 - np.eye(T * D).reshape(T * D, 1, T, D)
    return (f(x) - f(keep * x)).T.reshape(x.shape)


def dynamask(model: Model, x: np.ndarray, ties: np.ndarray, steps: int = 50) -> np.ndarray:
    """Masks (series, T, D) in [0, 1] that keep the prediction with a tenth of the cells (Crabbé et al., 2021).

    `ties` (series, T·D) orders cells of equal mask, so that no step of the series is preferred.
    """
    cells, before, average = T * D, model.probabilities(x), x.mean(axis=1, keepdims=True)
    slope = grad(lambda m: -anp.sum(before * log_softmax(model.logits(m * x + (1 - m) * average))))
    wanted = (np.arange(cells) >= cells - round(0.1 * cells)).astype(float)
    mask, velocity = np.full(x.shape, 0.5), np.zeros(x.shape)
    for weight in np.geomspace(0.1, 100, steps):
        rank = np.lexsort((ties, mask.reshape(ties.shape))).argsort(axis=1)
        size = 2 * (mask - wanted[rank].reshape(x.shape))
        jumps = np.pad(np.sign(np.diff(mask, axis=1)), ((0, 0), (1, 1), (0, 0)))
        smooth = jumps[:, :-1] - jumps[:, 1:]
        velocity = 0.9 * velocity + slope(mask) + (weight * size + 0.1 * smooth) / cells
        mask = np.clip(mask - 0.1 * velocity, 0, 1)
    return mask
