"""The log-linear policy of RIP's small world: answers, a fit to demonstrations, DPO in closed form."""

from __future__ import annotations

import numpy as np
from scipy.special import expit, log_softmax, softmax

from core.lab import nets

LENGTH, SKIP, TOKENS = 4, 10, 11
"""Positions of an answer; the token "skip" after the ten digits; all tokens."""
STEPS, BATCH, RATE = 150, 64, 0.005
"""Of DPO, the same for every set of prompts."""


def log_probability(weights: np.ndarray, x: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """log π(y|x) (n,) of responses (n, LENGTH) to prompts (n, LENGTH, 65)."""
    logs = log_softmax(x @ weights, axis=-1)
    return np.take_along_axis(logs, tokens[..., None], axis=-1)[..., 0].sum(axis=-1)


def sample(weights: np.ndarray, x: np.ndarray, uniform: np.ndarray, temperature: float) -> np.ndarray:
    """Responses with the shape of `uniform` (..., n, LENGTH) to prompts (n, LENGTH, 65), by inverse CDF."""
    if temperature <= 0:
        raise ValueError(f"temperature must be positive, not {temperature:g}")
    cdf = np.cumsum(softmax(x @ weights / temperature, axis=-1), axis=-1)
    return (uniform[..., None] >= cdf[..., :-1]).sum(axis=-1)


def fit_policy(x: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """Weights (65, TOKENS) after 200 Adam steps on the mean cross-entropy of the demonstrations."""
    weights, adam, wanted = np.zeros((x.shape[1], TOKENS)), nets.Adam(0.03), np.eye(TOKENS)[tokens]
    for _ in range(200):
        gradient = x.T @ (softmax(x @ weights, axis=1) - wanted) / len(x)
        adam.step([weights], [gradient + 2e-4 * weights])
    return weights


def margin(change: np.ndarray, x: np.ndarray, contrast: np.ndarray, beta: float) -> np.ndarray:
    """The margins m (..., b) of pairs (..., b, LENGTH, ·) at W − W₀ = `change` (..., 65, TOKENS)."""
    return beta * ((x @ change[..., None, :, :]) * contrast).sum(axis=(-2, -1))


def dpo_gradient(change: np.ndarray, x: np.ndarray, contrast: np.ndarray, beta: float) -> np.ndarray:
    """Gradient (..., 65, TOKENS) of the mean DPO loss of b pairs with respect to the weights."""
    weight = expit(-margin(change, x, contrast, beta))[..., None, None]
    *many, pairs, length, features = x.shape
    left = np.swapaxes(x.reshape(*many, pairs * length, features), -1, -2)
    return -beta / pairs * left @ (weight * contrast).reshape(*many, pairs * length, TOKENS)


def train(
    start: np.ndarray,
    x: np.ndarray,
    contrast: np.ndarray,
    sets: dict[str, np.ndarray],
    beta: float,
    rng: np.random.Generator,
) -> dict[str, np.ndarray]:
    """Weights after DPO on each set of prompts; the same uniform numbers draw the batches from every set."""
    if beta <= 0:
        raise ValueError(f"beta must be positive, not {beta:g}")
    adam, change = nets.Adam(RATE), np.zeros((len(sets), *start.shape))
    for uniform in rng.random((STEPS, BATCH)):
        batch = np.stack([kept[(uniform * len(kept)).astype(int)] for kept in sets.values()])
        adam.step([change], [dpo_gradient(change, x[batch], contrast[batch], beta)])
    return dict(zip(sets, start + change, strict=True))
