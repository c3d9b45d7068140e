"""Strips under punches for the Unisoma demo: rest shapes, loads, and the displacement with contact solved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

TENSION, FOUNDATION, COMPLIANCE = 1.0, 6.0, 1 / 400
CLEARANCE, THICKNESS, SPACING = 0.08, 0.06, 0.14
"""Punch to strip at rest; strip to strip that touch, and at rest, between their middle lines."""
DEEPEST = 0.35
"""Largest push of a punch."""
ITERATIONS, LARGEST_RESIDUAL = 300, 1e-4

Pairs = list[tuple[int, int]]
"""Two solids each, numbered strips first, then punches."""


def midpoints(points: int) -> np.ndarray:
    """Places x (points,) of the points of every solid, in (0, 1)."""
    if points < 4:
        raise ValueError(f"points must be at least 4 per solid, not {points}")
    return (np.arange(points) + 0.5) / points


def stiffness(points: int) -> np.ndarray:
    """K (points, points) of a strip under tension on an elastic foundation."""
    off = np.diag(np.ones(points - 1), 1)
    return TENSION * points**2 * (2 * np.eye(points) - off - off.T) + FOUNDATION * np.eye(points)


def contact_pressure(matrix: np.ndarray, gap: np.ndarray) -> np.ndarray:
    """Minimise ½λᵀAλ + λᵀq over λ ≥ 0 for A (c, c) and many q (n, c): accelerated projected gradients.

    `RuntimeError` if |min(λ, Aλ + q)| stays above 1e-4 somewhere.
    """
    step = 1 / np.linalg.eigvalsh(matrix)[-1]
    pressure = ahead = np.zeros_like(gap)
    momentum = np.ones((len(gap), 1))
    for _ in range(ITERATIONS):
        new = np.maximum(0, ahead - step * (ahead @ matrix + gap))
        uphill = ((ahead - new) * (new - pressure)).sum(axis=1, keepdims=True) > 0
        momentum = np.where(uphill, 1.0, momentum)  # restart where momentum points the wrong way
        following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        ahead = new + (momentum - 1) / following * (new - pressure)
        pressure, momentum = new, following
    residual = np.abs(np.minimum(pressure, pressure @ matrix + gap)).max(initial=0.0)
    if not residual <= LARGEST_RESIDUAL:
        raise RuntimeError(
            f"the contact problem is not solved: residual {residual:.1e}, above {LARGEST_RESIDUAL:g}"
        )
    return pressure


@dataclass(frozen=True)
class System:
    """n samples of strips and punches that touch one another; the first strip lies on top."""

    height: np.ndarray
    """rest heights of strips (n, strips, points)"""
    force: np.ndarray
    """body forces (n, strips, points)"""
    surface: np.ndarray
    """punch surfaces before the push (n, punches, points)"""
    motion: np.ndarray
    """pushes (n, punches), towards the strips"""
    sides: np.ndarray
    """+1 for a punch above, −1 for one below (punches,)"""

    @property
    def pairs(self) -> Pairs:
        """Who can touch: neighbouring strips, the top strip and punches above, the bottom strip and those below."""
        strips = self.height.shape[1]
        ends = [0 if side > 0 else strips - 1 for side in self.sides]
        return [(k, k + 1) for k in range(strips - 1)] + [(end, strips + j) for j, end in enumerate(ends)]

    def gaps(self, displacement: np.ndarray) -> np.ndarray:
        """Distance (n, pairs, points) of every pair after the push, negative where they overlap."""
        at, strips = self.height + displacement, self.height.shape[1]
        pushed = self.surface - self.sides[:, None] * self.motion[..., None]
        gaps = [
            at[:, i] - at[:, j] - THICKNESS
            if j < strips
            else self.sides[j - strips] * (pushed[:, j - strips] - at[:, i])
            for i, j in self.pairs
        ]
        return np.stack(gaps, axis=1)

    def solve(self) -> tuple[np.ndarray, np.ndarray]:
        """Displacement (n, strips, points) and contact pressure (n, pairs, points) after the push."""
        n, strips, points = self.height.shape
        acts = np.zeros((len(self.pairs), strips))
        for row, (i, j) in enumerate(self.pairs):
            acts[row, i] = 1 if j < strips else -self.sides[j - strips]
            if j < strips:
                acts[row, j] = -1
        softness = np.linalg.inv(stiffness(points))
        matrix = np.kron(acts @ acts.T, softness) + COMPLIANCE * np.eye(points * len(acts))
        pressure = contact_pressure(matrix, self.gaps(self.force @ softness).reshape(n, -1))
        pressure = pressure.reshape(n, -1, points)
        return (self.force + acts.T @ pressure) @ softness, pressure


def draw_system(rng: np.random.Generator, n: int, points: int, strips: int, above: int, below: int) -> System:
    """Random strips, one over the other, with punches above the first and below the last."""
    x = midpoints(points)
    low, high = np.array([-0.03, -1.5, 0]), np.array([0.03, 1.5, 2 * np.pi])
    bow, strength, phase = rng.uniform(low, high, (n, strips, 3)).transpose(2, 0, 1)[..., None]
    height = bow * np.sin(np.pi * x) - SPACING * np.arange(strips)[:, None]
    sides = np.array([1] * above + [-1] * below)
    centre, radius, motion = rng.uniform([0.12, 0.04, 0], [0.88, 0.4, DEEPEST], (n, len(sides), 3)).transpose(
        2, 0, 1
    )
    base = np.where(sides > 0, height[:, [0]].max(-1) + CLEARANCE, height[:, [-1]].min(-1) - CLEARANCE)
    surface = base[..., None] + sides[:, None] * (x - centre[..., None]) ** 2 / (2 * radius[..., None])
    return System(height, strength * np.sin(2 * np.pi * x + phase), surface, motion, sides)


@dataclass(frozen=True)
class Scene:
    """n samples of a scene of systems that do not touch one another, shown to a model as a whole."""

    systems: tuple[System, ...]
    solids: np.ndarray
    """(solids, n, points, 3): strips (x, height, force), then punches (x, surface, 0)"""
    loads: np.ndarray
    """(punches, n, points, 3): (x, 0, motion), one load a punch, without its shape"""
    displacement: np.ndarray
    """of the strips, from the solver (strips, n, points)"""
    pressure: np.ndarray
    """of the true contacts (contacts, n, points)"""
    pairs: Pairs
    """the true contacts"""

    @property
    def strips(self) -> int:
        return len(self.displacement)

    @property
    def punches(self) -> int:
        return len(self.loads)

    def pushed(self, sample: int, shares: Sequence[float]) -> Scene:
        """The scene of one sample with every punch pushed by these shares of its motion."""
        systems = []
        for s in self.systems:
            one = {
                k: np.repeat(getattr(s, k)[[sample]], len(shares), axis=0) for k in ("height", "force", "surface")
            }
            systems.append(replace(s, **one, motion=np.outer(shares, s.motion[sample])))
        return assemble(systems)


def assemble(systems: Sequence[System]) -> Scene:
    """Solve the systems and number their solids: all strips, then all punches."""
    strips = sum(s.height.shape[1] for s in systems)
    solved = [s.solve() for s in systems]
    pairs: Pairs = []
    first, punch = 0, strips
    for s in systems:
        own = s.height.shape[1]
        pairs += [(first + i, first + j if j < own else punch + j - own) for i, j in s.pairs]
        first, punch = first + own, punch + len(s.sides)

    def columns(second: list[np.ndarray], third: list[np.ndarray]) -> np.ndarray:
        y, z = (np.concatenate(a, axis=1).swapaxes(0, 1) for a in (second, third))
        return np.stack([np.broadcast_to(midpoints(y.shape[-1]), y.shape), y, z], axis=-1)

    surfaces = [s.surface for s in systems]
    flat = [np.zeros_like(a) for a in surfaces]
    motion = [np.broadcast_to(s.motion[..., None], s.surface.shape) for s in systems]
    solids = [columns([s.height for s in systems], [s.force for s in systems]), columns(surfaces, flat)]
    displacement, pressure = (np.concatenate(a, axis=1).swapaxes(0, 1) for a in zip(*solved, strict=True))
    return Scene(tuple(systems), np.concatenate(solids), columns(flat, motion), displacement, pressure, pairs)


def stations_scene(seed: int, n: int, points: int, stations: int) -> Scene:
    """Independent stations of one strip and one punch above it, each from its own generator."""
    if stations < 1:
        raise ValueError(f"stations must be at least 1, not {stations}")
    return assemble([draw_system(np.random.default_rng([seed, k]), n, points, 1, 1, 0) for k in range(stations)])


def stack_scene(seed: int, n: int, points: int, strips: int, above: int = 2, below: int = 1) -> Scene:
    """Strips one over the other with punches above and below."""
    if strips < 1:
        raise ValueError(f"stations must be at least 1, not {strips}")
    return assemble([draw_system(np.random.default_rng([seed, 0]), n, points, strips, above, below)])


def contact_list(scene: Scene, kind: str) -> Pairs | None:
    """The pairs that get a contact module: the true ones, none, all of strip and punch, or wrong ones.

    A wrong list names every punch, but next to another strip: the next station's punch, or the far side of
    the stack. Strips that touch keep their pairs, except in none.
    """
    among = [p for p in scene.pairs if p[1] < scene.strips]
    with_punch = [p for p in scene.pairs if p[1] >= scene.strips]
    if kind == "none":
        return None
    if kind == "all":
        last = scene.strips + scene.punches
        return among + [(i, j) for i in range(scene.strips) for j in range(scene.strips, last)]
    if kind == "wrong" and among:
        return among + [(scene.strips - 1 - i, j) for i, j in with_punch]
    if kind == "wrong":
        return [(i, scene.strips + (i + 1) % scene.punches) for i in range(scene.strips)]
    return scene.pairs
