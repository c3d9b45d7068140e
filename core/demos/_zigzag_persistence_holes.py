"""What is read from the bars of all layers, and the criteria that choose which layers to cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from core.demos._zigzag_persistence_barcode import Bar, Complex, through_intersections, zigzag_barcode

ZIGZAG, ANGULAR, BI, BETTI = "zigzag", "angular distance", "BI score", "Betti, layer by layer"
TIE = 1e-12


@dataclass(frozen=True)
class Holes:
    """The 1-cycles of all layers: `alive` (bars, L) tells in which layers each of them lives."""

    alive: np.ndarray

    @cached_property
    def betti(self) -> np.ndarray:
        """Number of 1-cycles in each layer (L,)."""
        return self.alive.sum(axis=0)

    @cached_property
    def persistence(self) -> np.ndarray:
        """Inter-layer persistence r (L,); a layer j without cycles adds 0."""
        alive = self.alive.astype(float)
        return (alive.T @ alive / np.maximum(self.betti, 1)).mean(axis=1)

    @cached_property
    def births(self) -> np.ndarray:
        """Layer of birth of each bar (bars,), from 0."""
        return self.alive.argmax(axis=1)

    @cached_property
    def lives(self) -> np.ndarray:
        """Layers that each bar covers (bars,)."""
        return self.alive.sum(axis=1)

    @property
    def mean_life(self) -> float:
        return float(self.lives.mean()) if len(self.lives) else np.nan


def holes_of(bars: Sequence[Bar], layers: int, p: int = 1) -> Holes:
    """Bars of dimension p on the 2L − 1 complexes, as layers; bars of intersections alone are left out."""
    spans = [(-(-first // 2), last // 2) for dim, first, last in bars if dim == p]
    at = np.arange(layers)
    rows = [(at >= first) & (at <= last) for first, last in spans if first <= last]
    return Holes(np.array(rows, dtype=bool).reshape(-1, layers))


def track(complexes: Sequence[Complex]) -> Holes:
    """Follow the 1-cycles through the complexes of all layers."""
    return holes_of(zigzag_barcode(through_intersections(complexes)), len(complexes))


def starts(layers: int, block: int) -> np.ndarray:
    """First layers, from 0, of all cuts of `block` layers; the network's first layer is never cut."""
    if not 1 <= block < layers:
        raise ValueError(f"block must be at least 1 and below the number of layers ({layers}), not {block}")
    return np.arange(1, layers - block + 1)


def cosine(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Cosine of each prompt's states a, b (N, d)."""
    return (a * b).sum(axis=-1) / (np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1))


def scores(states: np.ndarray, holes: Holes, block: int) -> dict[str, np.ndarray]:
    """Criterion -> one score a cut, to be minimised. `states` (L, N, d) are those after each layer."""
    first = starts(len(states), block)
    bi = np.array([np.mean(1 - cosine(a, b)) for a, b in pairwise(states)])
    turned = [np.arccos(np.clip(cosine(states[s - 1], states[s + block - 1]), -1, 1)).mean() / np.pi for s in first]
    return {
        ZIGZAG: np.array([-holes.persistence[s : s + block].mean() for s in first]),
        ANGULAR: np.array(turned),
        BI: np.array([bi[s - 1 : s + block - 1].sum() for s in first]),
        BETTI: np.array([abs(int(holes.betti[s + block - 1]) - int(holes.betti[s - 1])) for s in first]),
    }


def best_cuts(score: np.ndarray) -> np.ndarray:
    """Positions of the lowest score, all of them if they tie; none if every cut has the same score."""
    if np.ptp(score) < TIE:
        return np.empty(0, dtype=int)
    return np.flatnonzero(score <= score.min() + TIE)
