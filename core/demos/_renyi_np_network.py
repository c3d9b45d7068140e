"""Neural processes of several objectives as one stacked network: encoder, decoder, predictions.

All arrays of weights have a leading axis of models, M, so that one call runs them all. B tasks, n points, K draws of
z, Z latent dimensions, H hidden units.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import autograd.numpy as anp
import numpy as np

from core.lab.nets import Parameters

H, Z = 32, 8
SHAPES = {
    "point 1": (2, H),
    "point 2": (H, H),
    "summary": (H, H),
    "mu": (H, Z),
    "sigma": (H, Z),
    "z": (Z, H),
    "x": (1, H),
    "hidden": (H, H),
    "output": (H, 2),
}
"""Weight matrices (fan-in, fan-out) in their order; each but "x", which joins "z", has a bias."""
SHRINK = {"sigma": 0.1, "output": 0.3}
LOW, SPAN = 0.1, 0.9
LOG_2PI = math.log(2 * math.pi)


def initial(rng: np.random.Generator, models: int, dtype: type = np.float32) -> tuple[np.ndarray, Parameters]:
    """The same random weights for all models: one flat vector, and its views (M, fan-in, fan-out), (M, 1, out)."""
    arrays = []
    for name, (fan_in, fan_out) in SHAPES.items():
        arrays.append(rng.normal(size=(fan_in, fan_out)) * math.sqrt(2 / fan_in) * SHRINK.get(name, 1.0))
        if name != "x":
            arrays.append(np.zeros((1, fan_out)))
    flat: np.ndarray = np.concatenate([np.tile(a, (models, 1, 1)).ravel() for a in arrays]).astype(dtype)
    ends = np.cumsum([models * a.size for a in arrays])[:-1]
    views = [part.reshape(models, *a.shape) for part, a in zip(np.split(flat, ends), arrays, strict=True)]
    return flat, views


def encode(p, x: np.ndarray, y: np.ndarray):
    """Mean and standard deviation (M, B, Z) of z given points x, y (B, n); one encoder for prior and posterior."""
    tasks, n = x.shape
    points = np.stack([x, y], axis=-1).reshape(1, -1, 2)
    each = anp.maximum(anp.matmul(points, p[0]) + p[1], 0)
    each = anp.matmul(each, p[2]) + p[3]
    mean = anp.mean(anp.reshape(each, (-1, tasks, n, H)), axis=2)
    summary = anp.maximum(anp.matmul(mean, p[4]) + p[5], 0)
    mu = anp.matmul(summary, p[6]) + p[7]
    sigma = LOW + SPAN * 0.5 * (1 + anp.tanh(0.5 * (anp.matmul(summary, p[8]) + p[9])))  # 0.1 + 0.9 sigmoid
    return mu, sigma


def decode(p, z, x: np.ndarray):
    """Mean and standard deviation (M, B, K, n) of y at x (B, n), for draws z (M, B, K, Z)."""
    models, tasks, draws, _ = z.shape
    n = x.shape[1]
    from_z = anp.reshape(anp.matmul(anp.reshape(z, (models, -1, Z)), p[10]) + p[11], (models, tasks, draws, 1, H))
    from_x = anp.reshape(anp.matmul(x.reshape(1, -1, 1), p[12]), (models, tasks, 1, n, H))
    hidden = anp.reshape(anp.maximum(from_z + from_x, 0), (models, -1, H))
    hidden = anp.maximum(anp.matmul(hidden, p[13]) + p[14], 0)
    out = anp.reshape(anp.matmul(hidden, p[15]) + p[16], (models, tasks, draws, n, 2))
    return out[..., 0], LOW + SPAN * anp.logaddexp(out[..., 1], 0)


def log_normal(value, mean, sd):
    """Log density of normal distributions, element by element."""
    return -0.5 * ((value - mean) / sd) ** 2 - anp.log(sd) - 0.5 * LOG_2PI


def kl_divergence(mu_q, sigma_q, mu_p, sigma_p) -> np.ndarray:
    """KL(q‖p) of diagonal normal distributions (…, Z) -> (…)."""
    ratio = (sigma_q / sigma_p) ** 2
    return 0.5 * (ratio + ((mu_q - mu_p) / sigma_p) ** 2 - 1 - np.log(ratio)).sum(axis=-1)


@dataclass(frozen=True)
class Prediction:
    """Predictive mixtures over the draws of z: mean, sd (M, B, n) and the log density of given y (M, B, n).

    `spread` is the standard deviation of the whole mixture, `noise` the decoder's alone, averaged over the draws.
    """

    mean: np.ndarray
    spread: np.ndarray
    noise: np.ndarray
    log_density: np.ndarray


def predict(p: Parameters, context, x: np.ndarray, y: np.ndarray, noise: np.ndarray) -> Prediction:
    """Predictions at x (B, n) with z drawn from the prior given context = (x, y), using noise (B, K, Z)."""
    mu, sigma = encode(p, *context)
    m, s = decode(p, mu[:, :, None] + sigma[:, :, None] * noise, x)
    log = log_normal(y[:, None], m, s).astype(float)
    top = log.max(axis=2, keepdims=True)
    density = top[:, :, 0] + np.log(np.exp(log - top).mean(axis=2))
    spread = np.sqrt((s.astype(float) ** 2).mean(axis=2) + m.astype(float).var(axis=2))
    return Prediction(m.mean(axis=2), spread, s.mean(axis=2), density)
