"""The data set (members of a solved sea), the conditions of a forecast, and the surrogates that learn from it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.ndimage import distance_transform_edt

from core.demos import _coastbench_vit as vit
from core.demos._coastbench_sea import (
    Forcing,
    Sea,
    Water,
    coarse_water,
    coarsen,
    draw_coast,
    draw_forcing,
    solve,
)
from core.lab.nets import Adam, minibatches

SPIN_UP, HOURS, STARTS, INSTANTS = 12, 72, 10, 8
LEADS = (1, 3, 6, 12, 24)
RIVER_SCALE = 300.0
MODES, MODE_STATES, CROSSED, PENALTY = 24, 400, 8, 3.0
RATE, WARM_UP, BATCH = 4e-3, 20, 48


@dataclass(frozen=True)
class Cases:
    """Forecasts to make: member (n,), start hour (n,), and one lead (hours)."""

    member: np.ndarray
    start: np.ndarray
    lead: int


@dataclass(frozen=True)
class World:
    """A solved data set; `states` (members, hours + 1, 4, ny, nx) are normalised, float32 and 0 on land."""

    sea: Sea
    forcing: Forcing
    states: np.ndarray
    u: np.ndarray
    v: np.ndarray
    centre: np.ndarray
    """mean training field (4, ny, nx)"""
    scale: np.ndarray
    """training sd of each variable (4,)"""
    train: int
    seconds: float
    """CPU time of the numerical model for the whole data set"""

    def physical(self, states: np.ndarray) -> np.ndarray:
        """Normalised states (…, 4, ny, nx) in m, m/s and g/kg."""
        return states * self.scale[:, None, None] + self.centre

    def pairs(self, lead: int) -> Cases:
        """Every training member and start whose lead lies within the record."""
        member, start = np.divmod(np.arange(self.train * (HOURS + 1 - check(lead))), HOURS + 1 - lead)
        return Cases(member, start, lead)

    def tests(self, lead: int) -> Cases:
        """Ten starts of every test member, the same for all leads."""
        starts = np.linspace(0, HOURS - max(LEADS), STARTS).round().astype(int)
        members = np.arange(self.train, len(self.states))
        return Cases(np.repeat(members, STARTS), np.tile(starts, len(members)), check(lead))

    def now(self, c: Cases) -> np.ndarray:
        return self.states[c.member, c.start]

    def later(self, c: Cases) -> np.ndarray:
        return self.states[c.member, c.start + c.lead]

    def wet_only(self, states: np.ndarray) -> np.ndarray:
        """States (n, 4, ny, nx) without land, (n, 4 · wet cells)."""
        return states[..., self.sea.wet].reshape(len(states), -1)


def check(lead: int) -> int:
    """The lead, if it is one of the list and within the record."""
    if lead not in LEADS or lead > HOURS:
        raise ValueError(f"lead must be one of {', '.join(map(str, LEADS))} hours, not {lead}")
    return lead


@lru_cache(maxsize=3)
def make_world(seed: int, members: int, wind: float, river: float, storm: bool) -> World:
    """Draw coast and forcing, run the numerical model, split by member and normalise."""
    tests = members // 3
    if members < 6:
        raise ValueError(
            f"members must be at least 6, so that there are some to train and some to test, not {members}"
        )
    for_coast, for_forcing = (np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(2))
    sea = draw_coast(for_coast)
    forcing = draw_forcing(for_forcing, members, SPIN_UP + HOURS, wind, river, tests if storm else 0)
    start = time.process_time()
    record = solve(Water(sea, members), forcing, SPIN_UP + HOURS)
    seconds = time.process_time() - start
    fields = record.fields[:, SPIN_UP:]
    train = members - tests
    centre = fields[:train].mean(axis=(0, 1))
    apart = fields - centre
    scale = np.sqrt((apart[:train][..., sea.wet] ** 2).mean(axis=(0, 1, 3)))
    scale = np.where(scale > 0, scale, 1.0)
    states = (apart / scale[:, None, None]).astype(np.float32)
    after = Forcing(forcing.tide[:, SPIN_UP:], forcing.wind[..., SPIN_UP:], forcing.river[:, SPIN_UP:])
    u, v = record.u[SPIN_UP:].astype(np.float32), record.v[SPIN_UP:].astype(np.float32)
    for a in (states, u, v, centre, scale, after.tide, after.wind, after.river):
        a.setflags(write=False)
    return World(sea, after, states, u, v, centre, scale, train, seconds)


def window(forcing: Forcing, c: Cases) -> np.ndarray:
    """Tide and wind at 8 instants of (t, t + lead] and the river at both ends, (n, 26), in rough units of one."""
    at = c.start[:, None] + c.lead * np.arange(1, INSTANTS + 1) / INSTANTS
    k = np.minimum(at.astype(int), forcing.tide.shape[-1] - 2)
    w, rows = at - k, c.member[:, None]
    series = (forcing.tide / 0.4, forcing.wind[0] / 5, forcing.wind[1] / 5)
    inside = [(1 - w) * a[rows, k] + w * a[rows, k + 1] for a in series]
    ends = [np.log(forcing.river[c.member, t] / RIVER_SCALE) for t in (c.start, c.start + c.lead)]
    return np.column_stack([*inside, *ends]).astype(np.float32)


# --- the transformer ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Transformer:
    """The trained ViT of a world; `hidden` forcings are zeros."""

    world: World
    weights: vit.Weights
    growth: np.ndarray
    """training sd of the increments (leads, 4)"""
    hidden: bool

    def inputs(self, c: Cases) -> tuple[np.ndarray, np.ndarray]:
        """Patches (n, 16, 216) of the present state, depth and mask, and conditions (n, 32)."""
        sea, now = self.world.sea, self.world.now(c)
        ground = np.stack([sea.depth * sea.wet / 5, sea.wet]).astype(np.float32)
        tokens = vit.patch(np.concatenate([now, np.broadcast_to(ground, (len(now), *ground.shape))], axis=1))
        forced = window(self.world.forcing, c) * np.float32(not self.hidden)
        lead = np.append(np.equal(LEADS, c.lead), np.log(c.lead) / 3).astype(np.float32)
        return tokens, np.column_stack([forced, np.broadcast_to(lead, (len(forced), len(lead)))])

    def forecast(self, c: Cases) -> np.ndarray:
        """States (n, 4, ny, nx) at t + lead."""
        out, _ = vit.forward(self.weights, *self.inputs(c))
        change = vit.unpatch(out, *self.world.sea.wet.shape) * self.growth[LEADS.index(c.lead)][:, None, None]
        return (self.world.now(c) + change) * self.world.sea.wet


def train_transformer(world: World, steps: int, hidden: bool, rng: np.random.Generator) -> Transformer:
    """Adam on random training cases (member, start, lead), with warm-up and a cosine to 0."""
    sea, pairs = world.sea, [world.pairs(lead) for lead in LEADS]
    change = [world.later(c) - world.now(c) for c in pairs]
    growth = np.stack([np.sqrt((d[..., sea.wet] ** 2).mean(axis=(0, 2))) for d in change])
    growth = np.where(growth > 0, growth, 1).astype(np.float32)
    tokens = (sea.wet.shape[0] // vit.PATCH) * (sea.wet.shape[1] // vit.PATCH)
    given = 3 * INSTANTS + 2 + len(LEADS) + 1
    area = vit.PATCH**2
    model = Transformer(world, vit.initial(rng, tokens, 6 * area, given, 4 * area), growth, hidden)
    x, z = (np.concatenate(part) for part in zip(*map(model.inputs, pairs), strict=True))
    y = np.concatenate([vit.patch(d / s[:, None, None]) for d, s in zip(change, growth, strict=True)])
    wet = vit.patch(np.broadcast_to(sea.wet, (4, *sea.wet.shape)).astype(np.float32))
    adam, weights = Adam(beta2=0.99), list(model.weights.values())
    for k, batch in enumerate(minibatches(rng, len(x), BATCH, steps)):
        rate = RATE * min(1, (k + 1) / WARM_UP) * 0.5 * (1 + np.cos(np.pi * k / steps))
        _, gradient = vit.loss_and_gradient(model.weights, x[batch], z[batch], y[batch], wet)
        adam.step(weights, list(gradient.values()), float(rate))
    return model


# --- its rivals -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Modes:
    """POD-ridge: leading singular vectors (4 · wet cells, modes) and one ridge regression per lead."""

    world: World
    vectors: np.ndarray
    maps: dict[int, np.ndarray]

    def features(self, c: Cases) -> np.ndarray:
        """1, modes, forcing window, leading modes × tide and the wind's stress, both at the two ends."""
        f = self.world.forcing
        modes = self.world.wet_only(self.world.now(c)) @ self.vectors
        ends = [c.start, c.start + c.lead]
        crossed = [modes[:, :CROSSED] * (f.tide[c.member, t] / 0.4)[:, None] for t in ends]
        blown = [(np.hypot(*w) * w / 25).T for w in (f.wind[:, c.member, t] for t in ends)]
        return np.column_stack([np.ones(len(modes)), modes, window(f, c), *crossed, *blown])

    def forecast(self, c: Cases) -> np.ndarray:
        out = np.zeros((len(c.member), 4, *self.world.sea.wet.shape))
        flat = self.features(c) @ self.maps[c.lead] @ self.vectors.T
        out[..., self.world.sea.wet] = flat.reshape(len(out), 4, -1)
        return out


def train_modes(world: World, rng: np.random.Generator) -> Modes:
    """Singular vectors of up to 400 training states, then the regressions."""
    flat = world.wet_only(world.states[: world.train].reshape(-1, *world.states.shape[2:]))
    chosen = flat[rng.permutation(len(flat))[:MODE_STATES]].astype(float)
    values, vectors = np.linalg.eigh(chosen @ chosen.T)  # smaller than the matrix of cells
    best = vectors[:, ::-1][:, :MODES]
    basis = chosen.T @ best / np.sqrt(np.maximum(values[::-1][:MODES], 1e-12))
    model = Modes(world, basis, {})
    for lead in LEADS:
        c = world.pairs(lead)
        x, y = model.features(c), world.wet_only(world.later(c)) @ basis
        model.maps[lead] = np.linalg.solve(x.T @ x + PENALTY * np.eye(x.shape[1]), x.T @ y)
    return model


def damping(world: World, lead: int) -> np.ndarray:
    """The least-squares factor (4,) of the present anomaly for the one at t + lead."""
    c = world.pairs(lead)
    now, later = (a[..., world.sea.wet] for a in (world.now(c), world.later(c)))
    return (now * later).sum(axis=(0, 2)) / np.maximum((now * now).sum(axis=(0, 2)), 1e-12)


class CoarseModel:
    """The numerical model on cells twice as wide; a sea cell gets the value of the nearest wet coarse cell."""

    def __init__(self, world: World):
        self.world, self.sea = world, coarsen(world.sea)
        known = self.sea.wet.repeat(2, axis=0).repeat(2, axis=1)
        self.nearest = distance_transform_edt(~known, return_distances=False, return_indices=True)

    def start(self, c: Cases) -> Water:
        w = self.world
        now = w.physical(w.now(c)) * w.sea.wet
        u, v = (np.moveaxis(a[c.start, ..., c.member], 0, -1) for a in (w.u, w.v))
        return coarse_water(w.sea, self.sea, now, u, v)

    def record(self, c: Cases) -> np.ndarray:
        """Normalised forecasts (n, lead + 1, 4, ny, nx) of every hour up to the lead."""
        forcing = self.world.forcing.windows(c.member, c.start, c.lead)
        fields = solve(self.start(c), forcing, c.lead).fields
        row, column = self.nearest // 2
        apart = fields[..., row, column] - self.world.centre
        return apart / self.world.scale[:, None, None] * self.world.sea.wet


def fine_water(world: World, c: Cases) -> Water:
    """The fine model at the start of the cases."""
    water, now = Water(world.sea, len(c.member)), world.physical(world.now(c)) * world.sea.wet
    water.eta, water.salt = (np.moveaxis(now[:, k], 0, -1) for k in (0, 3))
    water.u, water.v = (np.moveaxis(a[c.start, ..., c.member], 0, -1).astype(float) for a in (world.u, world.v))
    return water
