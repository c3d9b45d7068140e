"""Neighbour graphs of layers, their cliques, and the exact barcode of a zigzag of complexes over Z/2."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from scipy.spatial.distance import cdist

Simplex = tuple[int, ...]
"""Sorted vertices; vertices are row numbers, so prompts."""
Complex = AbstractSet[Simplex]
Layers = Sequence[np.ndarray] | np.ndarray
"""Points (n, d) of every layer."""
Bar = tuple[int, int, int]
"""(dimension, first index, last index), both ends alive."""


def neighbour_graph(points: np.ndarray, k: int) -> np.ndarray:
    """Adjacency (n, n) of points (n, d): an edge if either is among the k nearest of the other.

    Ties of distance go to the lower row number.
    """
    n = len(points)
    if not 1 <= k < n:
        raise ValueError(f"k must be at least 1 and below the number of points ({n}), not {k}")
    if not np.isfinite(points).all():
        raise ValueError("reps: a layer holds values that are not finite")
    distance = cdist(points, points, "sqeuclidean")  # pair by pair: equal points tie exactly
    np.fill_diagonal(distance, np.inf)
    nearest = np.argsort(distance, axis=1, kind="stable")[:, :k]
    graph = np.zeros((n, n), dtype=bool)
    graph[np.arange(n)[:, None], nearest] = True
    return graph | graph.T


def cliques(graph: np.ndarray, maxdim: int) -> frozenset[Simplex]:
    """All cliques of up to maxdim + 1 vertices of an adjacency matrix (n, n)."""
    upper = np.triu(graph, 1)
    simplices = np.arange(len(graph))[:, None]
    found = set(map(tuple, simplices.tolist()))
    for _ in range(maxdim):
        which, vertex = np.nonzero(upper[simplices].all(axis=1))
        simplices = np.column_stack([simplices[which], vertex])
        found.update(map(tuple, simplices.tolist()))
    return frozenset(found)


def check_layers(layers: Layers) -> None:
    """At least two layers with one row a prompt, the same prompts in each."""
    if len(layers) < 2:
        raise ValueError(f"reps: at least 2 layers are needed, {len(layers)} given")
    sizes = {len(x) for x in layers}
    if len(sizes) > 1:
        raise ValueError(f"reps: every layer needs the same prompts, but their numbers are {sorted(sizes)}")


def layer_complexes(layers: Layers, k: int, p: int = 1, maxdim: int = 2) -> list[frozenset[Simplex]]:
    """The clique complex of every layer (n, d), large enough for holes of dimension p."""
    check_layers(layers)
    if maxdim < p + 1:
        raise ValueError(f"maxdim must be at least {p + 1} for holes of dimension {p}, not {maxdim}")
    return [cliques(neighbour_graph(x, k), maxdim) for x in layers]


def through_intersections(complexes: Sequence[Complex]) -> list[Complex]:
    """K1, K1 ∩ K2, K2, …, KL: every second one is common to its neighbours."""
    sequence: list[Complex] = [complexes[0]]
    for before, after in pairwise(complexes):
        sequence += [before & after, after]
    return sequence


@dataclass
class Cells:
    """Every insertion of a simplex as a cell of its own; arrows are numbered in their order."""

    faces: list[list[int]] = field(default_factory=list)
    inserted: list[int] = field(default_factory=list)
    deleted: list[int] = field(default_factory=list)
    deletions: list[int] = field(default_factory=list)
    """cells in the order of their deletion"""
    into: list[int] = field(default_factory=list)
    """arrow -> index of the complex it leads to"""

    def dimension(self, cell: int) -> int:
        return max(len(self.faces[cell]) - 1, 0)


def one_at_a_time(sequence: Sequence[Complex]) -> Cells:
    """The way from ∅ through all complexes back to ∅, one simplex an arrow."""
    cells = Cells()
    present: dict[Simplex, int] = {}
    for index, (now, then) in enumerate(zip([frozenset(), *sequence], [*sequence, frozenset()], strict=True)):
        if not (now <= then or then <= now):
            raise ValueError(f"complexes: number {index} neither contains the one before it nor lies in it")
        for simplex in sorted(now - then, key=lambda s: (-len(s), s)):
            cell = present.pop(simplex)
            cells.deleted[cell] = len(cells.into)
            cells.deletions.append(cell)
            cells.into.append(index)
        for simplex in sorted(then - now, key=lambda s: (len(s), s)):
            faces = [simplex[:i] + simplex[i + 1 :] for i in range(len(simplex))] if len(simplex) > 1 else []
            cells.faces.append([present[f] for f in faces])
            present[simplex] = len(cells.inserted)
            cells.inserted.append(len(cells.into))
            cells.deleted.append(-1)
            cells.into.append(index)
    return cells


def coned_columns(cells: Cells) -> tuple[list[list[int]], list[int], list[int]]:
    """Boundaries as row numbers, dimensions and owners of the columns: the apex, then the cells, then their cones.

    Cones stand in reverse order of deletion, so the last deleted cell is the first to be filled.
    """
    n = len(cells.faces)
    cone = {cell: n + 1 + i for i, cell in enumerate(reversed(cells.deletions))}
    columns: list[list[int]] = [[]]
    dimensions, owners = [0], [-1]
    for cell, faces in enumerate(cells.faces):
        columns.append([f + 1 for f in faces])
        dimensions.append(cells.dimension(cell))
        owners.append(cell)
    for cell in reversed(cells.deletions):
        shell = [cone[f] for f in cells.faces[cell]] or [0]  # a vertex: the edge to the apex
        columns.append([cell + 1, *shell])
        dimensions.append(cells.dimension(cell) + 1)
        owners.append(cell)
    return columns, dimensions, owners


def reduced_pairs(columns: Sequence[Sequence[int]], dimensions: Sequence[int]) -> list[tuple[int, int]]:
    """(birth, death) columns of ordinary persistence over Z/2.

    High dimensions come first: a column that is born in a pair cannot kill, so it is left out. A column is a bit
    set over the rows of its own boundary's dimension, which keeps it short.
    """
    of_dimension: dict[int, list[int]] = {}
    place = []
    for j, d in enumerate(dimensions):
        same = of_dimension.setdefault(d, [])
        place.append(len(same))
        same.append(j)
    kills: dict[int, int] = {}
    for d in sorted(of_dimension, reverse=True)[:-1]:
        rows = of_dimension[d - 1]
        kept: dict[int, int] = {}
        for j in of_dimension[d]:
            if j in kills:
                continue
            column = sum(1 << place[row] for row in columns[j])
            while column:
                low = column.bit_length() - 1
                if low not in kept:
                    kept[low] = column
                    kills[rows[low]] = j
                    break
                column ^= kept[low]
    return list(kills.items())


def zigzag_barcode(sequence: Sequence[Complex]) -> list[Bar]:
    """The bars of a sequence of nested complexes, sorted; indices count from 0.

    The sequence is turned into an ordinary filtration with cones (Dey & Hou, "Fast computation of zigzag
    persistence", 2022); each pair of that filtration names the two arrows that open and close a bar.
    """
    cells = one_at_a_time(sequence)
    n = len(cells.faces)
    columns, dimensions, owners = coned_columns(cells)
    bars = []
    for i, j in reduced_pairs(columns, dimensions):
        if i == 0:
            continue  # the apex: no hole of the sequence
        a, b = owners[i], owners[j]
        dimension = cells.dimension(a)
        if j <= n:
            opens, closes = cells.inserted[a], cells.inserted[b]
        elif i <= n:
            opens, closes = cells.inserted[a], cells.deleted[b]
            if closes < opens:
                opens, closes, dimension = closes, opens, dimension - 1
        else:
            opens, closes = cells.deleted[b], cells.deleted[a]
        first, last = cells.into[opens], cells.into[closes] - 1
        if first <= last:
            bars.append((dimension, first, last))
    return sorted(bars)
