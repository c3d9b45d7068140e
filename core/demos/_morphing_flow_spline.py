"""Flow and Morph: a monotone rational-quadratic spline, and location and scale fitted to every window."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import autograd.numpy as anp
import numpy as np
from autograd import value_and_grad
from autograd.tracer import getval
from scipy.optimize import minimize

DOMAIN, RANGE = 6.0, 3.5
FLOOR, LEAST_SLOPE = 0.005, 0.02
SHRINK = 1e-3
REACH, POINTS = 18.0, 3001
LEAST_SCALE = 1e-6
RATE, LARGEST_STEP = 0.5, 0.5
"""inner step size η and the most that log a may change in one inner step"""


def straight(bins: int) -> np.ndarray:
    """θ₀ (3K + 1,): equal bins and equal slopes, so that g is the straight line from [−6, 6] to [−3.5, 3.5]."""
    if bins < 2:
        raise ValueError(f"bins must be at least 2, not {bins}")
    return np.r_[np.zeros(2 * bins), np.full(bins + 1, np.log(np.expm1(RANGE / DOMAIN - LEAST_SLOPE)))]


def knots(theta):
    """Knots x, y and slopes d, (K + 1,) each; differentiable by autograd."""
    bins = (len(theta) - 1) // 3
    places = []
    for part, half in ((theta[:bins], DOMAIN), (theta[bins : 2 * bins], RANGE)):
        e = anp.exp(part - anp.max(part))
        size = 2 * half * (FLOOR + (1 - FLOOR * bins) * e / anp.sum(e))
        places.append(anp.concatenate([anp.array([-half]), -half + anp.cumsum(size)[:-1], anp.array([half])]))
    return places[0], places[1], LEAST_SLOPE + anp.logaddexp(theta[2 * bins :], 0.0)


def transform(u: np.ndarray, x, y, d):
    """g(u) and log g′(u) for u (n,), with linear tails; differentiable in the knots, not in the choice of bins."""
    inside = np.clip(u, -DOMAIN, DOMAIN)
    at = np.searchsorted(getval(x)[1:-1], inside, side="right")
    dx, dy = x[1:] - x[:-1], y[1:] - y[:-1]
    of_bin = (at == np.arange(len(getval(dx)))[:, None]).astype(float)
    # one product with a 0-1 matrix picks all six numbers of the bins: its gradient is a product, too
    x0, y0, wide, high, d0, d1 = anp.dot(anp.stack([x[:-1], y[:-1], dx, dy, d[:-1], d[1:]]), of_bin)
    s, xi = high / wide, (inside - x0) / wide
    mixed = xi * (1 - xi)
    bottom = s + (d1 + d0 - 2 * s) * mixed
    z = y0 + high * (s * xi**2 + d0 * mixed) / bottom
    slope = s**2 * (d1 * xi**2 + 2 * s * mixed + d0 * (1 - xi) ** 2) / bottom**2
    return z + slope * (u - inside), anp.log(slope)  # the slope at the end knots is that of the tails


@dataclass(frozen=True)
class Spline:
    """The transform g for given knots x, y and slopes d, (K + 1,) each, with its inverse."""

    x: np.ndarray
    y: np.ndarray
    d: np.ndarray

    def forward(self, u: np.ndarray) -> np.ndarray:
        """g(u), any shape."""
        return transform(np.ravel(u), self.x, self.y, self.d)[0].reshape(np.shape(u))

    def log_slope(self, u: np.ndarray) -> np.ndarray:
        """log g′(u), any shape."""
        return transform(np.ravel(u), self.x, self.y, self.d)[1].reshape(np.shape(u))

    def inverse(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """u = g⁻¹(z) and g′(u): the root of a quadratic in each bin, linear beyond the ends."""
        inside = np.clip(z, self.y[0], self.y[-1])
        at = np.searchsorted(self.y[1:-1], inside, side="right")
        wide, high = np.diff(self.x)[at], np.diff(self.y)[at]
        s, d0, d1 = high / wide, self.d[at], self.d[at + 1]
        up, bend = inside - self.y[at], d1 + d0 - 2 * s
        a, b, c = high * (s - d0) + up * bend, high * d0 - up * bend, -s * up
        xi = 2 * c / (-b - np.sqrt(np.maximum(b * b - 4 * a * c, 0.0)))
        mixed = xi * (1 - xi)
        slope = s**2 * (d1 * xi**2 + 2 * s * mixed + d0 * (1 - xi) ** 2) / (s + bend * mixed) ** 2
        return self.x[at] + wide * xi + (z - inside) / slope, slope

    def score(self, u: np.ndarray) -> np.ndarray:
        """ψ(u) = d/du [½ g² − log g′] in closed form, for u (n,)."""
        inside = np.clip(u, -DOMAIN, DOMAIN)
        at = np.searchsorted(self.x[1:-1], inside, side="right")
        wide = np.diff(self.x)[at]
        s, d0, d1 = np.diff(self.y)[at] / wide, self.d[at], self.d[at + 1]
        xi = (inside - self.x[at]) / wide
        top = d1 * xi**2 + 2 * s * xi * (1 - xi) + d0 * (1 - xi) ** 2
        bottom = s + (d1 + d0 - 2 * s) * xi * (1 - xi)
        bent = (
            2 * (d1 * xi + s * (1 - 2 * xi) - d0 * (1 - xi)) / top - 2 * (d1 + d0 - 2 * s) * (1 - 2 * xi) / bottom
        )
        z, log_slope = transform(u, self.x, self.y, self.d)
        return z * np.exp(log_slope) - np.where(inside == u, bent / wide, 0.0)

    @cached_property
    def table(self) -> np.ndarray:
        """ψ at 3001 even points of [−18, 18]."""
        return self.score(np.linspace(-REACH, REACH, POINTS))

    def quick_score(self, u: np.ndarray) -> np.ndarray:
        """ψ(u) from the table; beyond it the last cell goes on, which is exact in the linear tails."""
        place = (u + REACH) * ((POINTS - 1) / (2 * REACH))
        cell = np.clip(place.astype(int), 0, POINTS - 2)
        low = self.table[cell]
        return low + (place - cell) * (self.table[cell + 1] - low)


def spline(theta: np.ndarray) -> Spline:
    """The spline of parameters θ (3K + 1,)."""
    return Spline(*knots(theta))


def fit(u: np.ndarray, theta: np.ndarray, iterations: int) -> np.ndarray:
    """θ of the largest Gaussian likelihood of g(u), held near the straight line; L-BFGS from `theta`."""
    flat, start = np.ravel(u), straight((len(theta) - 1) // 3)

    def loss(t):
        z, log_slope = transform(flat, *knots(t))
        return anp.mean(0.5 * z**2 - log_slope) + SHRINK * anp.sum((t - start) ** 2)

    return minimize(value_and_grad(loss), theta, jac=True, method="L-BFGS-B", options={"maxiter": iterations}).x


def instance(windows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean b and standard deviation a (n, 1) of windows (n, L); a constant window gets a = 1e-6."""
    return windows.mean(1, keepdims=True), np.maximum(windows.std(1, keepdims=True), LEAST_SCALE)


def inner_loss(g: Spline, windows: np.ndarray, b: np.ndarray, a: np.ndarray) -> np.ndarray:
    """ℓ(b, a) of every window (n,): its negative Gaussian log likelihood without the constant."""
    z, log_slope = transform(((windows - b) / a).ravel(), g.x, g.y, g.d)
    return (0.5 * z**2 - log_slope).reshape(windows.shape).mean(1) + np.log(a[:, 0])


def morph(g: Spline, windows: np.ndarray, steps: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """(b, a), each (n, 1), at the start (mean and sd) and after every inner step, from the look-back alone."""
    if steps < 0:
        raise ValueError(f"inner steps cannot be negative, not {steps}")
    b, a = instance(windows)
    path = [(b, a)]
    for _ in range(steps):
        u = (windows - b) / a
        psi = g.quick_score(u)
        b = b + RATE * a * psi.mean(1, keepdims=True)
        grow = RATE / 2 * ((psi * u).mean(1, keepdims=True) - 1)
        a = np.maximum(a * np.exp(np.clip(grow, -LARGEST_STEP, LARGEST_STEP)), LEAST_SCALE)
        path.append((b, a))
    return path
