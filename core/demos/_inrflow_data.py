"""What INRFlow learns: functions on the square or on the circle, the points they are seen at, and two scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce

import numpy as np
from scipy import ndimage

from core.lab.datasets import digits, split

CURVES, TRAIN_SHARE, LEAST_RESOLUTION, LEAST_TRAIN = 600, 0.7, 4, 50
CLASSES = (0, 1, 3)
PROJECTIONS, QUANTILES = 200, 64


@dataclass(frozen=True)
class Domain:
    """All in which two kinds of data differ: dimensions, latent lattice, local moments, and whether x wraps."""

    values: int
    """d_y"""
    lattice: int
    """latent centres an axis, at distance h = 1 / lattice"""
    moments: tuple[tuple[int, ...], ...]
    """exponents of the offset, one row a local moment φ"""
    wrap: bool
    """x is periodic and sampled at i/n; else at the centres of cells (i + ½)/n"""

    def axis(self, n: int) -> np.ndarray:
        """Coordinates (n,) of the points along one axis."""
        return (np.arange(n) + (0 if self.wrap else 0.5)) / n

    def points(self, n: int) -> np.ndarray:
        """Coordinates (n^d_x, d_x) of a grid, the last axis fastest."""
        if int(n) != n or n < LEAST_RESOLUTION:
            raise ValueError(f"resolution must be a whole number from {LEAST_RESOLUTION} up, not {n}")
        return self._product(self.axis(int(n)))

    @property
    def centres(self) -> np.ndarray:
        """Where the latents sit (L, d_x)."""
        return self._product(self.axis(self.lattice))

    def _product(self, axis: np.ndarray) -> np.ndarray:
        mesh = np.meshgrid(*[axis] * len(self.moments[0]), indexing="ij")
        return np.stack([m.ravel() for m in mesh], axis=1)

    def offsets(self, points: np.ndarray) -> np.ndarray:
        """(x_i − c_l)/h as (n, L, d_x), the short way round where x wraps."""
        d = points[:, None] - self.centres
        return self.lattice * ((d + 0.5) % 1 - 0.5 if self.wrap else d)


IMAGES = Domain(1, 4, ((0, 0), (1, 0), (0, 1), (1, 1)), wrap=False)
CLOSED_CURVES = Domain(2, 12, ((0,), (1,), (2,)), wrap=True)


@lru_cache(maxsize=8)
def spline(n: int) -> np.ndarray:
    """Matrix (64, n²) from 8 × 8 pixels to the cubic spline through them at n × n cell centres; read-only."""
    where = 8 * IMAGES.points(n).T - 0.5
    filtered = (ndimage.spline_filter(e.reshape(8, 8), order=3, mode="nearest") for e in np.eye(64))
    out = np.stack([ndimage.map_coordinates(c, where, order=3, mode="nearest", prefilter=False) for c in filtered])
    out.setflags(write=False)
    return out


def digit_functions(
    rng: np.random.Generator, grids: Sequence[int], classes: Sequence[int] = CLASSES
) -> list[tuple[np.ndarray, np.ndarray]]:
    """(training, held-out) digits in −1…1 as (m, n², 1) for each n of `grids`, split before any spline."""
    if not len(classes):
        raise ValueError("classes cannot be empty: at least one digit is needed")
    pixels, labels = digits()
    x = 2 * pixels[np.isin(labels, classes)] - 1
    parts = split(rng, len(x), train := round(TRAIN_SHARE * len(x)), len(x) - train)
    return [tuple((x[rows] @ spline(n))[..., None] for rows in parts) for n in grids]


def curve_functions(
    rng: np.random.Generator, grids: Sequence[int], count: int = CURVES
) -> list[tuple[np.ndarray, np.ndarray]]:
    """(training, held-out) closed planar curves (m, n, 2) for each n of `grids`: wavy circles, squeezed and turned."""

    def uniform(low: float, high: float) -> np.ndarray:
        return rng.uniform(low, high, (count, 1))

    k, p, p2 = rng.choice([3, 5], (count, 1)), uniform(0, 2 * np.pi), uniform(0, 2 * np.pi)
    a, a2, squeeze, turn = uniform(0.2, 0.5), uniform(0, 0.15), uniform(0.5, 1), uniform(-0.5, 0.5)
    train = round(TRAIN_SHARE * count)
    out = []
    for n in grids:
        theta = 2 * np.pi * CLOSED_CURVES.points(n).T
        r = 1 + a * np.cos(k * theta + p) + a2 * np.cos(2 * theta + p2)
        x, y = r * np.cos(theta), squeeze * r * np.sin(theta)
        f = np.stack([np.cos(turn) * x - np.sin(turn) * y, np.sin(turn) * x + np.cos(turn) * y], axis=-1)
        out.append((f[:train], f[train:]))
    return out


def interpolation(domain: Domain, n: int, m: int) -> np.ndarray:
    """Matrix (m^d_x, n^d_x) of (bi)linear interpolation, clamped at the outer points or around the circle."""
    at = n * domain.axis(m) - (0 if domain.wrap else 0.5)
    at = at if domain.wrap else np.clip(at, 0, n - 1)
    low = np.floor(at).astype(int)
    one = np.zeros((m, n))
    np.add.at(one, (np.arange(m), low % n), 1 - (at - low))
    np.add.at(one, (np.arange(m), (low + 1) % n), at - low)
    return reduce(np.kron, [one] * len(domain.moments[0]))


@lru_cache(maxsize=8)
def projections(dimension: int) -> np.ndarray:
    """The same random unit vectors (dimension, 200) in every run; read-only."""
    u = np.random.default_rng(0).standard_normal((dimension, PROJECTIONS))
    u /= np.linalg.norm(u, axis=0)
    u.setflags(write=False)
    return u


def sliced_wasserstein(a: np.ndarray, b: np.ndarray) -> float:
    """Root mean square difference of 64 quantiles along 200 projections of two sets (m, …), flattened."""
    at = (np.arange(QUANTILES) + 0.5) / QUANTILES
    x, y = (
        np.quantile(s.reshape(len(s), -1) @ projections(s[0].size), at, axis=0, method="linear") for s in (a, b)
    )
    return float(np.sqrt(np.mean((x - y) ** 2)))


def roughness(domain: Domain, f: np.ndarray) -> float:
    """Mean squared second difference of functions (m, points, d_y) along their axes."""
    d_x = len(domain.moments[0])
    n = round(f.shape[1] ** (1 / d_x))
    f = f.reshape(len(f), *[n] * d_x, -1)
    if domain.wrap:
        f = np.concatenate([f[:, -1:], f, f[:, :1]], axis=1)
    return float(np.mean([np.mean(np.diff(f, 2, axis=1 + i) ** 2) for i in range(d_x)]))
