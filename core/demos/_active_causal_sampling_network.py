"""Experiments on a network where neighbours interfere: isolated exposures, chosen evenly or by leverage."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Network:
    """Adjacency (n, n), conflict graph (n, n), order of precedence, covariates and potential outcomes.

    y(z) = base + effect·own treatment + spill·treated share of neighbours + noise.
    """

    links: np.ndarray
    conflict: np.ndarray
    order: np.ndarray
    x: np.ndarray
    base: np.ndarray
    effect: np.ndarray
    spill: float

    def outcome(self, z: np.ndarray) -> np.ndarray:
        degree = self.links.sum(1)
        share = np.divide(self.links @ z, degree, out=np.zeros(len(z)), where=degree > 0)
        return self.base + self.effect * z + self.spill * share

    @property
    def truth(self) -> float:
        """All treated minus none treated."""
        n = len(self.base)
        return float((self.outcome(np.ones(n)) - self.outcome(np.zeros(n))).mean())


def conflicts(links: np.ndarray) -> np.ndarray:
    """Pairs (n, n) whose closed neighbourhoods overlap."""
    closed = links | np.eye(len(links), dtype=bool)
    overlap = closed.astype(int) @ closed.astype(int) > 0
    np.fill_diagonal(overlap, False)
    return overlap


def make_network(n: int, degree: float, spill: float, noise: float, rng: np.random.Generator) -> Network:
    """A random graph with this mean degree, four covariates, linear outcomes."""
    upper = np.triu(rng.random((n, n)) < degree / (n - 1), 1)
    links = upper | upper.T
    conflict = conflicts(links)
    x = np.column_stack([np.ones(n), rng.standard_t(4, (n, 3))])
    x[:, 1:] /= np.sqrt((x[:, 1:] ** 2).mean(0))
    base = x @ rng.normal(size=4) + noise * rng.normal(size=n)
    effect = 1 + x[:, 1:] @ (0.5 * rng.normal(size=3)) + noise * rng.normal(size=n)
    return Network(links, conflict, np.argsort(-conflict.sum(1), kind="stable"), x, base, effect, spill)


def wanting(net: Network, leverage: np.ndarray | None) -> np.ndarray:
    """Probability (n,) with which each unit wants an exposure: even, or raised with its leverage."""
    top = float(np.linalg.eigvalsh(net.conflict.astype(float))[-1])
    even = 0.5 if top < 1e-9 else 1 / top
    if leverage is None:
        return np.full(len(net.base), min(even, 0.5))
    return np.minimum(0.5, (0.5 + 0.5 * leverage / leverage.mean()) * even)


def inclusion(net: Network, p: np.ndarray) -> np.ndarray:
    """Probability (n,) that a unit wins: it wants to, and no conflicting unit earlier in the order does."""
    rank = np.empty(len(p), dtype=int)
    rank[net.order] = np.arange(len(p))
    earlier = net.conflict & (rank[None] < rank[:, None])
    return p * np.exp(earlier @ np.log1p(-p))


def draw(net: Network, p: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Winners (w,) and the treatments (n,) of one experiment: winners and their neighbours share an arm."""
    n = len(p)
    wants = rng.random(n) < p
    rank = np.empty(n, dtype=int)
    rank[net.order] = np.arange(n)
    blocked = (net.conflict & wants[None] & (rank[None] < rank[:, None])).any(1)
    winners = np.flatnonzero(wants & ~blocked)
    z = (rng.random(n) < 0.5).astype(float)
    for i in winners:
        arm = float(rng.random() < 0.5)
        z[i] = arm
        z[net.links[i]] = arm
    return winners, z
