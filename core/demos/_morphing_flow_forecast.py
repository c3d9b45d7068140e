"""Drifting fat-tailed series, their windows, the two forecasters and the oracle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from core.lab.nets import Adam, minibatches

CHANNELS, PERIOD, MEMORY = 2, 12, 0.8
NOISE_PART, SEASON_PART = 0.65, 0.795
TRAIN_SHARE, JUMP_SHARE = 0.7, 0.75
TRAIN_EVERY, TEST_EVERY = 2, 3
RIDGE, STEPS, BATCH, LEARNING_RATE = 1e-2, 150, 256, 3e-3
NEIGHBOURS, QUANTILES = 20, 31


class Transform(Protocol):
    """A monotone map of normalised values; `inverse` also gives the slope of the map at the result."""

    def forward(self, u: np.ndarray) -> np.ndarray: ...

    def inverse(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]: ...


class Identity:
    """No transform."""

    def forward(self, u: np.ndarray) -> np.ndarray:
        return u

    def inverse(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return z, np.ones_like(z)


class SignedLog:
    """sign(u) log(1 + |u|): a fixed transform that shortens tails."""

    def forward(self, u: np.ndarray) -> np.ndarray:
        return np.sign(u) * np.log1p(np.abs(u))

    def inverse(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.sign(z) * np.expm1(np.abs(z)), np.exp(-np.abs(z))


def fat_tail(latent: np.ndarray, kappa: float, skew: float) -> np.ndarray:
    """w(z): sinh(κz)/κ mixed with expm1(κz)/κ, a one-sided tail; z itself at κ = 0."""
    if kappa < 0:
        raise ValueError(f"kappa cannot be negative, not {kappa}")
    if not 0 <= skew <= 1:
        raise ValueError(f"skew must be 0 to 1, not {skew}")
    if kappa < 1e-9:
        return latent
    return ((1 - skew) * np.sinh(kappa * latent) + skew * np.expm1(kappa * latent)) / kappa


@dataclass(frozen=True)
class Series:
    """Two channels (2, T): values in units of the training sd, latent, true level and scale, power of w."""

    x: np.ndarray
    latent: np.ndarray
    level: np.ndarray
    scale: np.ndarray
    power: np.ndarray


def draw(rng: np.random.Generator, length: int, kappa: float, skew: float, drift: float) -> Series:
    """Noise and season, given a fat tail, then a wandering level and scale that jump at 75 % of the record."""
    if drift < 0:
        raise ValueError(f"drift cannot be negative, not {drift}")
    shock = rng.normal(size=(CHANNELS, length))
    shock[:, 1:] *= np.sqrt(1 - MEMORY**2)
    noise = shock.copy()
    for t in range(1, length):
        noise[:, t] += MEMORY * noise[:, t - 1]
    phase = rng.uniform(0, 2 * np.pi, (CHANNELS, 1))
    latent = NOISE_PART * noise + SEASON_PART * np.sin(2 * np.pi * np.arange(length) / PERIOD + phase)
    latent = (latent - latent.mean(1, keepdims=True)) / latent.std(1, keepdims=True)
    w = fat_tail(latent, kappa, skew)
    power = np.sqrt((w**2).mean(1, keepdims=True))
    later = np.arange(length) >= JUMP_SHARE * length
    walk = drift * np.array([0.05, 0.012])[:, None, None] * rng.normal(size=(2, CHANNELS, length))
    level, log_scale = np.cumsum(walk, axis=-1) + drift * np.array([3.0, 0.7])[:, None, None] * later
    x = level + np.exp(log_scale) * w / power
    train = x[:, : round(TRAIN_SHARE * length)]
    mean, sd = train.mean(1, keepdims=True), train.std(1, keepdims=True)
    return Series((x - mean) / sd, latent, (level - mean) / sd, np.exp(log_scale) / sd, power)


@dataclass(frozen=True)
class Windows:
    """Look-backs (n, L) and targets (n, H) for training and test, both channels below each other."""

    past: np.ndarray
    future: np.ndarray
    test_past: np.ndarray
    test_future: np.ndarray


def cut(values: np.ndarray, lookback: int, horizon: int) -> Windows:
    """Training windows inside the first 70 %; test windows have all their targets in the last 30 %."""
    if lookback < 4:
        raise ValueError(f"lookback must be at least 4, not {lookback}")
    if horizon < 1:
        raise ValueError(f"horizon must be at least 1, not {horizon}")
    length, span = values.shape[1], lookback + horizon
    if length < 5 * span:
        raise ValueError(f"length: the record T = {length} is shorter than 5(L + H) = {5 * span}")
    if not np.isfinite(values).all():
        raise ValueError("series: it has NaN or infinite values")
    views = sliding_window_view(values, span, axis=1)
    border = round(TRAIN_SHARE * length)
    train = views[:, : border - span + 1 : TRAIN_EVERY].reshape(-1, span)
    test = views[:, border - lookback :: TEST_EVERY].reshape(-1, span)
    return Windows(train[:, :lookback], train[:, lookback:], test[:, :lookback], test[:, lookback:])


Place = tuple[np.ndarray, np.ndarray]
"""b and a of every window, (n, 1) each"""


def linear(
    g: Transform, past: np.ndarray, future: np.ndarray, place: Place, rng: np.random.Generator
) -> np.ndarray:
    """Weights (L + 1, H) of the map between transformed values: ridge, then Adam on the error of the data.

    The second stage goes back through g⁻¹, b and a, since the inverse of a mean is not the mean of the inverse.
    """
    b, a = place
    z = with_one(g.forward((past - b) / a))
    y = g.forward((future - b) / a)
    penalty = RIDGE * np.diag(np.r_[np.ones(past.shape[1]), 0.0])
    weights = np.linalg.solve(z.T @ z + penalty, z.T @ y)
    adam, total = Adam(LEARNING_RATE, 0.9, 0.99), np.zeros_like(weights)
    for step, rows in enumerate(minibatches(rng, len(past), min(BATCH, len(past)), STEPS)):
        slope = gradient(g, weights, z[rows], future[rows], (b[rows], a[rows]))
        adam.step([weights], [slope], LEARNING_RATE * (1 - step / STEPS))
        if step >= STEPS // 2:
            total += weights
    return total / (STEPS - STEPS // 2)


def with_one(z: np.ndarray) -> np.ndarray:
    return np.column_stack([z, np.ones(len(z))])


def gradient(g: Transform, weights: np.ndarray, z: np.ndarray, future: np.ndarray, place: Place) -> np.ndarray:
    """Gradient (L + 1, H) of the mean squared error of b + a g⁻¹(z·weights)."""
    u, slope = g.inverse(z @ weights)
    off = place[0] + place[1] * u - future
    return z.T @ (2 * off * place[1] / slope) / off.size


def nearest(z: np.ndarray, y: np.ndarray, test_z: np.ndarray) -> np.ndarray:
    """Mean of y (n, H) over the 20 rows of z (n, L) that are nearest to each row of test_z."""
    distance = (z**2).sum(1) - 2 * test_z @ z.T  # the square of the test row itself changes no order
    rows = np.argpartition(distance, NEIGHBOURS, axis=1)[:, :NEIGHBOURS]
    return y[rows].mean(1)


def oracle(series: Series, lookback: int, horizon: int, kappa: float, skew: float) -> np.ndarray:
    """Forecasts (n, H) from the true latent past, level and scale: the mean of w over residual quantiles."""
    latent = cut(series.latent, lookback, horizon)
    level, scale = (cut(v, lookback, horizon).test_future for v in (series.level, series.scale))
    z = with_one(latent.past)
    weights = np.linalg.lstsq(z, latent.future, rcond=None)[0]
    at = (np.arange(QUANTILES) + 0.5) / QUANTILES
    spread = np.quantile(latent.future - z @ weights, at, axis=0)
    middle = with_one(latent.test_past) @ weights
    w = np.mean([fat_tail(middle + q, kappa, skew) for q in spread], axis=0)
    power = np.repeat(series.power, len(w) // CHANNELS, axis=0)
    return level + scale * w / power
