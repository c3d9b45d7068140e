"""A small sea that is really solved: coast, forcing, and shallow water with salt on a C-grid, members side by side."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.ndimage import distance_transform_edt

CELLS, DX, DT = 24, 2000.0, 120.0
GRAVITY, DENSITY, CORIOLIS, DRAG, MIXING, OCEAN = 9.81, 1025.0, 6.5e-5, 2.5e-3, 30.0, 35.0
THIN = 0.3
"""Water less deep than this (m) does not flow out of its cell, so that no cell falls dry."""
PERIODS = np.array([12.4206, 12.0, 23.9345, 25.8193])
AMPLITUDES = np.array([0.30, 0.10, 0.15, 0.14])
WIND_SD, WIND_MEMORY = 5.0, 10.0
STORM_SPEED, STORM_HOUR, STORM_WIDTH = 16.0, 46.2, 6.0


def wind_stress(wind: np.ndarray) -> np.ndarray:
    """Stress (2, …) in N/m² of a wind (2, …) in m/s."""
    return 1.3e-3 * 1.22 * np.hypot(*wind) * wind


@dataclass(frozen=True)
class Forcing:
    """Hourly values of each member (E, hours + 1), linear in between: tide (m), wind (2, E, …) (m/s), river (m³/s)."""

    tide: np.ndarray
    wind: np.ndarray
    river: np.ndarray

    def at(self, hour: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Tide (E,), wind (2, E) and river (E,) at an hour between the records."""
        k = min(max(math.ceil(hour) - 1, 0), self.tide.shape[-1] - 2)
        w = hour - k
        return tuple((1 - w) * a[..., k] + w * a[..., k + 1] for a in (self.tide, self.wind, self.river))

    def windows(self, members: np.ndarray, starts: np.ndarray, hours: int) -> Forcing:
        """The hours from `starts` (n,) on of `members` (n,), as the forcing of n new members."""
        at = starts[:, None] + np.arange(hours + 1)
        rows = members[:, None]
        return Forcing(self.tide[rows, at], self.wind[:, rows, at], self.river[rows, at])


def draw_forcing(
    rng: np.random.Generator, members: int, hours: int, wind: float, river: float, stormy: int = 0
) -> Forcing:
    """Tide, AR(1) wind and wandering river of `members`; a storm is added to the last `stormy` of them."""
    for name, value in (("wind", wind), ("river", river)):
        if not value >= 0:
            raise ValueError(f"{name} cannot be negative, not {value}")
    t = np.arange(hours + 1)
    size = AMPLITUDES * rng.uniform(0.8, 1.2, (members, 4))
    phase = rng.uniform(0, 2 * np.pi, (members, 4))
    tide = (size[..., None] * np.cos(2 * np.pi * t / PERIODS[:, None] + phase[..., None])).sum(axis=1)
    keep = math.exp(-1 / WIND_MEMORY)
    air = rng.normal(size=(2, members, hours + 1))
    for k in range(1, hours + 1):
        air[..., k] = keep * air[..., k - 1] + math.sqrt(1 - keep**2) * air[..., k]
    air *= WIND_SD * wind
    walk = np.cumsum(rng.normal(0, 0.5 / 8, (members, hours + 1)), axis=1)
    walk -= walk[:, :1]
    angle = rng.uniform(0, 2 * np.pi, members)
    gust = STORM_SPEED * np.exp(-(((t - STORM_HOUR) / STORM_WIDTH) ** 2))
    blown = np.arange(members) >= members - stormy
    air += blown[:, None] * gust * np.stack([np.cos(angle), np.sin(angle)])[..., None]
    return Forcing(tide, air, river * np.exp(walk))


@dataclass(frozen=True)
class Sea:
    """Where the water is: depth and mask (ny, nx), the river's cell, cell size (m) and time step (s)."""

    depth: np.ndarray
    wet: np.ndarray
    mouth: tuple[int, int] | None = None
    dx: float = DX
    dt: float = DT

    def __post_init__(self) -> None:
        if not self.wet.any() or not self.wet[:, 0].any():
            raise ValueError("mask: there must be wet cells, and some of them at the open boundary (column 0)")
        limit = self.dx / math.sqrt(2 * GRAVITY * self.depth[self.wet].max())
        if not 0 < self.dt < limit:
            raise ValueError(f"dt must be above 0 and below the stability limit of {limit:.0f} s, not {self.dt:g}")


def draw_coast(rng: np.random.Generator) -> Sea:
    """A wavy coast with a bay, a river channel to the east and a barrier island; the sea is in the west."""
    y, x = np.mgrid[:CELLS, :CELLS]
    phases = rng.uniform(0, 2 * np.pi, 2)
    row = int(rng.integers(9, 15))
    coast = 14 + sum(
        size * np.sin(2 * np.pi * n * y / CELLS + p) for size, n, p in zip((2.2, 1.3), (1, 2), phases, strict=True)
    )
    wet = (x < coast) | (((x - 17) / 5.5) ** 2 + ((y - row) / 4.5) ** 2 < 1)
    wet |= (abs(y - row) <= 1) & (x >= 10) & (x <= 22)
    wet &= ~((x == 11) & (abs(y - row) >= 3) & (abs(y - row) <= 6))
    wet[:, 0] = True
    depth = np.clip(2 + 0.6 * distance_transform_edt(wet), 2, 10)
    return Sea(depth, wet, (row, int(np.flatnonzero(wet[row]).max())))


def halves(a: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """All but the last and all but the first slice along axis 0 or 1."""
    return (a[:-1], a[1:]) if axis == 0 else (a[:, :-1], a[:, 1:])


def between(a: np.ndarray, axis: int) -> np.ndarray:
    """Means of neighbours along axis 0 or 1."""
    low, high = halves(a, axis)
    return 0.5 * (low + high)


def to_centres(face: np.ndarray, axis: int) -> np.ndarray:
    """Means of a cell's two faces; the outer faces are walls."""
    low, high = halves(0.5 * face, axis)
    ends = (face[:1], face[-1:]) if axis == 0 else (face[:, :1], face[:, -1:])
    return np.concatenate([0.5 * ends[0], low + high, 0.5 * ends[1]], axis=axis)


def divergence(fx: np.ndarray, fy: np.ndarray) -> np.ndarray:
    """Outflow of each cell through its inner faces, fx (ny, nx−1, E) and fy (ny−1, nx, E)."""
    out = np.zeros((len(fx), fy.shape[1], fx.shape[2]))
    out[:, :-1] += fx
    out[:, 1:] -= fx
    out[:-1] += fy
    out[1:] -= fy
    return out


class Water:
    """The moving state: level and salt (ny, nx, E), u (ny, nx−1, E) and v (ny−1, nx, E) on the inner faces."""

    def __init__(self, sea: Sea, members: int):
        def spread(a: np.ndarray) -> np.ndarray:  # full arrays: broadcasting over members would be slow
            return np.repeat(a[..., None].astype(float), members, axis=-1)

        self.sea = sea
        self.wet, self.depth = spread(sea.wet), spread(np.where(sea.wet, sea.depth, 1.0))
        faces = [a & b for a, b in (halves(sea.wet, 1), halves(sea.wet, 0))]
        self.open = [spread(f) for f in faces]
        self.mix = [
            o * between(self.depth, axis) * MIXING / sea.dx for o, axis in zip(self.open, (1, 0), strict=True)
        ]
        self.eta, self.salt = np.zeros_like(self.wet), OCEAN * self.wet
        self.u, self.v = np.zeros_like(self.open[0]), np.zeros_like(self.open[1])

    def step(self, tide: np.ndarray, wind: np.ndarray, river: np.ndarray) -> None:
        """One time step under tide (E,), wind (2, E) and river (E,)."""
        self._continuity(tide, river)
        tau = wind_stress(wind) / DENSITY
        height = self.depth + self.eta
        self.u = self._pushed(self.u, to_centres(self.v, 0), height, 1, tau[0], CORIOLIS)
        self.v = self._pushed(self.v, to_centres(self.u, 1), height, 0, tau[1], -CORIOLIS)

    def _continuity(self, tide: np.ndarray, river: np.ndarray) -> None:
        """Level and salt from the fluxes of the old velocities; then the open boundary."""
        sea, height = self.sea, self.depth + self.eta
        flow, load = [], []
        for speed, mix, axis in ((self.u, self.mix[0], 1), (self.v, self.mix[1], 0)):
            flux = between(height, axis) * speed
            if height.min() < THIN:
                flux = flux * (np.where(flux > 0, *halves(height, axis)) >= THIN)
            before, after = halves(self.salt, axis)
            flow.append(flux)
            load.append(flux * np.where(flux > 0, before, after) - mix * (after - before))
        rate = sea.dt / sea.dx
        eta = self.eta - rate * divergence(*flow)
        if sea.mouth:
            eta[sea.mouth] += sea.dt * river / sea.dx**2
        eta *= self.wet
        self.salt = (height * self.salt - rate * divergence(*load)) / (self.depth + eta) * self.wet
        eta[:, 0], self.salt[:, 0] = tide * self.wet[:, 0], OCEAN * self.wet[:, 0]
        self.eta = eta

    def _pushed(
        self, speed: np.ndarray, other: np.ndarray, height: np.ndarray, axis: int, tau: np.ndarray, turn: float
    ) -> np.ndarray:
        """A velocity after slope, turning, wind and semi-implicit drag; `other` is the other one at the centres."""
        sea, across, h = self.sea, between(other, axis), between(height, axis)
        low, high = halves(self.eta, axis)
        drag = 1 + sea.dt * DRAG * np.sqrt(speed**2 + across**2) / h
        push = turn * across - (GRAVITY / sea.dx) * (high - low) + tau / h
        return (speed + sea.dt * push) / drag * self.open[1 - axis]

    def fields(self) -> np.ndarray:
        """Level, east and north current and salinity at the centres, (E, 4, ny, nx)."""
        stack = np.stack([self.eta, to_centres(self.u, 1), to_centres(self.v, 0), self.salt])
        return np.moveaxis(stack, -1, 0) * self.sea.wet


@dataclass(frozen=True)
class Record:
    """Hourly states: centre fields (E, hours + 1, 4, ny, nx), and u and v on the faces (hours + 1, …, E)."""

    fields: np.ndarray
    u: np.ndarray
    v: np.ndarray


def solve(water: Water, forcing: Forcing, hours: int) -> Record:
    """Advance by `hours`, with a state kept at every hour, the present one included."""
    steps = round(3600 / water.sea.dt)
    kept = [(water.fields(), water.u, water.v)]
    for hour in range(hours):
        for k in range(steps):
            water.step(*forcing.at(hour + (k + 1) / steps))
        if not all(np.isfinite(a).all() for a in (water.eta, water.u, water.v, water.salt)):
            raise RuntimeError(f"the numerical model has a state that is not finite at hour {hour + 1}")
        kept.append((water.fields(), water.u, water.v))
    fields, u, v = zip(*kept, strict=True)
    return Record(np.stack(fields, axis=1), np.stack(u), np.stack(v))


def pooled(a: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Means over blocks of 2 × 2 cells (…, ny/2, nx/2), weighted with the mask; 0 where a block is dry."""

    def blocks(b: np.ndarray) -> np.ndarray:
        return b.reshape(*b.shape[:-2], b.shape[-2] // 2, 2, b.shape[-1] // 2, 2).sum(axis=(-3, -1))

    return blocks(a * weight) / np.maximum(blocks(weight.astype(float)), 1)


def coarsen(sea: Sea) -> Sea:
    """The same sea on cells twice as wide, with twice the time step; a cell is wet if half of its four are."""
    wet = pooled(sea.wet.astype(float), np.ones_like(sea.wet)) >= 0.5
    mouth = None
    if sea.mouth:
        row = sea.mouth[0] // 2
        mouth = (row, int(np.flatnonzero(wet[row]).max()))
    return Sea(np.where(wet, pooled(sea.depth, sea.wet), 1.0), wet, mouth, 2 * sea.dx, 2 * sea.dt)


def coarse_water(sea: Sea, coarse: Sea, fields: np.ndarray, u: np.ndarray, v: np.ndarray) -> Water:
    """The coarse model started from averages of fine states: fields (E, 4, ny, nx), u and v (…, E) on faces."""
    water = Water(coarse, len(fields))
    level, salt = (np.moveaxis(pooled(fields[:, k], sea.wet), 0, -1) for k in (0, 3))
    water.eta, water.salt = level * water.wet, salt * water.wet
    water.u = 0.5 * (u[0::2, 1::2] + u[1::2, 1::2]) * water.open[0]
    water.v = 0.5 * (v[1::2, 0::2] + v[1::2, 1::2]) * water.open[1]
    return water
