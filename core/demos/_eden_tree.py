"""The tree of EDEN: entropy of a directed graph, greedy merging, refinement by a mutual-information estimate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from core.demos._eden_world import check_graph
from core.lab.nets import Adam

STEPS, RATE, DECAY, MOVE = 80, 0.1, 0.01, 0.5
"""Discriminator: steps, step size, weight decay; a node moves if another module is more probable by this much."""


@dataclass(frozen=True)
class Level:
    """One level of a tree: each node's module (n,), its affiliation s (n,), and whether it teaches (n,)."""

    modules: np.ndarray
    affiliation: np.ndarray
    teaches: np.ndarray

    @property
    def parents(self) -> np.ndarray:
        """Rows (modules, n) that average over a module's teachers with weights s."""
        weight = np.where(self.teaches, self.affiliation, 0.0)
        rows = weight * (self.modules == np.arange(self.modules.max() + 1)[:, None])
        return rows / rows.sum(axis=1, keepdims=True)

    def permuted(self, order: np.ndarray) -> Level:
        """The same shape with other nodes in it."""
        return Level(self.modules[order], self.affiliation[order], self.teaches[order])


Tree = tuple[Level, Level]
"""The fine and the coarse level."""


def everyone_teaches(modules: np.ndarray) -> Level:
    """A level without refinement: s = 1 for all, all members teach."""
    return Level(modules, np.ones(len(modules)), np.ones(len(modules), dtype=bool))


# --- entropy and the coarse tree ----------------------------------------------------------------------


def _log2(x: np.ndarray) -> np.ndarray:
    """log₂ x, and 0 where x is 0: all terms here have a factor that is 0 there."""
    return np.log2(np.where(x > 0, x, 1.0))


def node_entropy(graph: np.ndarray) -> float:
    """One-level entropy H¹ in bits of the two degree distributions, added."""
    check_graph(graph)
    share = np.stack([graph.sum(axis=0), graph.sum(axis=1)]) / graph.sum()
    return float(-(share * _log2(share)).sum())


def partition_entropy(graph: np.ndarray, modules: np.ndarray) -> float:
    """Two-level entropy H² in bits: codewords of nodes inside their module plus those of the modules entered."""
    check_graph(graph)
    m = graph.sum()
    member = (modules == np.unique(modules)[:, None]).astype(float)
    inside = np.einsum("kv,vw,kw->k", member, graph, member)
    total = 0.0
    for degree in (graph.sum(axis=0), graph.sum(axis=1)):
        volume = member @ degree
        leaves = degree / m * _log2(degree / np.maximum(member.T @ volume, 1e-300))
        total -= leaves.sum() + ((volume - inside) / m * _log2(volume / m)).sum()
    return float(total)


def _cost(volume: np.ndarray, cut: np.ndarray, m: float) -> np.ndarray:
    """f(V, g) of the text, summed over the two directions in the first axis."""
    return ((volume * _log2(volume) - cut * _log2(volume / m)) / m).sum(axis=0)


class Merging:
    """Modules as a graph of their own, `weights` (n, n) with inner edges as self-loops; merged ones are dead."""

    def __init__(self, graph: np.ndarray):
        check_graph(graph)
        self.weights, self.m = graph.astype(float), float(graph.sum())
        self.volume = np.stack([graph.sum(axis=0), graph.sum(axis=1)]).astype(float)
        self.alive = np.ones(len(graph), dtype=bool)
        self.labels = np.arange(len(graph))
        self.change = np.stack([self.changes(a) for a in range(len(graph))])
        self.taken: list[float] = []
        """the change of entropy of each merge"""

    def changes(self, a: int, linked: bool = True) -> np.ndarray:
        """Change of H² (n,) if module a is merged with each other one; infinite for dead and (if asked) unlinked."""
        between = self.weights[a] + self.weights[:, a]
        cut = self.volume - np.diagonal(self.weights)
        merged = _cost(self.volume[:, [a]] + self.volume, cut[:, [a]] + cut - between, self.m)
        alone = _cost(self.volume, cut, self.m)
        no = ~self.alive | (between == 0 if linked else False)
        no[a] = True
        return np.where(no, np.inf, merged - alone[a] - alone)

    def step(self) -> None:
        """Merge the linked pair with the smallest change, or the best unlinked pair if none is linked."""
        change = self.change
        if np.isinf(change.min()):
            live = np.flatnonzero(self.alive)
            change = np.full_like(change, np.inf)
            change[live] = [self.changes(int(a), linked=False) for a in live]
        a, b = sorted(int(i) for i in np.unravel_index(change.argmin(), change.shape))
        self.taken.append(float(change[a, b]))
        self.weights[a] += self.weights[b]
        self.weights[:, a] += self.weights[:, b]
        self.weights[b] = self.weights[:, b] = 0
        self.volume[:, a] += self.volume[:, b]
        self.volume[:, b] = 0
        self.alive[b] = False
        self.labels[self.labels == b] = a
        self.change[b] = self.change[:, b] = np.inf
        self.change[a] = self.change[:, a] = self.changes(a)


def coarse_tree(graph: np.ndarray, sizes: Sequence[int]) -> list[np.ndarray]:
    """Modules (n,) numbered from 0 for each of the falling numbers of modules `sizes`; each level joins the last."""
    merging = Merging(graph)
    for size in sizes:
        if not 2 <= size <= len(graph) // 2:
            raise ValueError(f"modules must be 2 to {len(graph) // 2}, not {size}")
    levels = []
    for size in sizes:
        while merging.alive.sum() > size:
            merging.step()
        levels.append(np.unique(merging.labels, return_inverse=True)[1])
    return levels


# --- refinement -----------------------------------------------------------------------------------------


def standardised(x: np.ndarray) -> np.ndarray:
    """Columns with mean 0 and standard deviation 1; constant columns become 0."""
    spread = x.std(axis=0)
    return (x - x.mean(axis=0)) / np.where(spread > 0, spread, 1.0)


def averages(graph: np.ndarray) -> np.ndarray:
    """Rows divided by their sum; empty rows stay 0."""
    return graph / np.maximum(graph.sum(axis=1, keepdims=True), 1e-300)


def profiles(graph: np.ndarray, features: np.ndarray) -> np.ndarray:
    """Features and their one-hop averages along and against the edges, standardised (n, 3 d)."""
    return standardised(np.hstack([features, averages(graph) @ features, averages(graph.T) @ features]))


def contexts(x: np.ndarray, modules: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mean profile of each module (k, d), and of the others in each node's own module (n, d), 0 if alone."""
    member = (modules == np.arange(modules.max() + 1)[:, None]).astype(float)
    size, total = member.sum(axis=1), member @ x
    own = (total[modules] - x) / np.maximum(size[modules] - 1, 1)[:, None]
    return total / size[:, None], own


def discriminate(x: np.ndarray, modules: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, float]:
    """Train a discriminator between a node's own module and random others.

    Returns the probability (n, k) of every module, in the own one's place without the node itself, and the
    estimate of the mutual information in nats.
    """
    means, own = contexts(x, modules)
    n, k = len(x), len(means)
    w, b = np.zeros(x.shape[1]), 0.0
    adam, positive = Adam(RATE), x * own
    for _ in range(STEPS):
        other = rng.integers(0, k - 1, n)  # a draw that stays the same would be learned by heart
        other += other >= modules
        negative = x * means[other]
        up, down = positive @ w + b, negative @ w + b
        pull, push = -expit(-up) / n, expit(down) / n
        adam.step([w], [pull @ positive + push @ negative + DECAY * w])
        b -= RATE * float(pull.sum() + push.sum())
    logits = (x * w) @ means.T + b
    logits[np.arange(n), modules] = positive @ w + b
    down = negative @ w + b
    information = 2 * math.log(2) - np.logaddexp(0, -positive @ w - b).mean() - np.logaddexp(0, down).mean()
    return expit(logits), float(information)


def refine(modules: np.ndarray, x: np.ndarray, rng: np.random.Generator) -> tuple[Level, float, float]:
    """Move nodes that surely fit better elsewhere, then let the better half of each module teach.

    Returns the level and the mutual-information estimates before and after the moves.
    """
    probability, before = discriminate(x, modules, rng)
    best = probability.argmax(axis=1)
    nodes = np.arange(len(x))
    moves = probability[nodes, best] - probability[nodes, modules] > MOVE
    moved = np.unique(np.where(moves, best, modules), return_inverse=True)[1]
    moved = moved if moved.max() > 0 else modules  # a discriminator needs two modules
    probability, after = discriminate(x, moved, rng)
    affiliation = probability[nodes, moved]
    teaches = np.zeros(len(x), dtype=bool)
    for module in range(moved.max() + 1):
        members = np.flatnonzero(moved == module)
        teaches[members[np.argsort(-affiliation[members], kind="stable")[: -(-len(members) // 2)]]] = True
    return Level(moved, affiliation, teaches), before, after
