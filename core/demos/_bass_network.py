"""A network of linear bandits in which only the sharing graph differs, and the rivals' ways to choose it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.sparse.csgraph import connected_components


@dataclass(frozen=True)
class World:
    """Arms (K, d), parameters (N, d), true labels (N,) and the reward noise (T, N) that all methods meet."""

    arms: np.ndarray
    thetas: np.ndarray
    labels: np.ndarray
    noise: np.ndarray

    @property
    def alike(self) -> np.ndarray:
        """Who has the same label as whom (N, N)."""
        return self.labels[:, None] == self.labels


@dataclass(frozen=True)
class Local:
    """What each agent knows from its own pulls: V (N, d, d), b (N, d), its ridge estimate (N, d), their number."""

    grams: np.ndarray
    moments: np.ndarray
    estimates: np.ndarray
    pulls: int
    ridge: float


class Sharing(Protocol):
    """A rule that chooses who shares with whom: `graph` (N, N), renewed from local knowledge every round."""

    graph: np.ndarray

    def update(self, local: Local) -> None: ...


class Fixed:
    """A graph that never changes."""

    def __init__(self, graph: np.ndarray):
        self.graph = graph

    def update(self, local: Local) -> None:
        """Nothing to do."""


class Club:
    """Cuts an edge for good when two estimates are far apart, and shares whole connected components.

    Gentile, Li, Zappella: Online Clustering of Bandits (ICML 2014). `gamma` scales the confidence bound.
    """

    def __init__(self, agents: int, gamma: float):
        self.edges = np.ones((agents, agents), dtype=bool)
        self.graph = self.edges.copy()
        self.gamma = gamma

    def update(self, local: Local) -> None:
        n = local.pulls
        bound = 2 * self.gamma * np.sqrt((1 + np.log1p(n)) / (1 + n))  # both ends have pulled n times
        far = self.edges & (np.linalg.norm(local.estimates[:, None] - local.estimates, axis=-1) > bound)
        if far.any():
            self.edges &= ~far
            _, component = connected_components(self.edges, directed=False)
            self.graph = component[:, None] == component


class DynUcb:
    """Is told the number of clusters and moves each agent to the nearest cluster centre every round.

    Nguyen, Lauw: Dynamic Clustering of Contextual Multi-Armed Bandits (CIKM 2014). Random labels at the start;
    the centre of an empty cluster is 0.
    """

    def __init__(self, agents: int, clusters: int, rng: np.random.Generator):
        self.clusters = clusters
        self.labels = rng.integers(clusters, size=agents)
        self.graph = self.labels[:, None] == self.labels

    def update(self, local: Local) -> None:
        member = (np.arange(self.clusters)[:, None] == self.labels).astype(float)
        grams, moments = np.tensordot(member, local.grams, 1), member @ local.moments
        centres = ridge_estimate(grams, moments, local.ridge)
        self.labels = np.linalg.norm(local.estimates[:, None] - centres, axis=-1).argmin(1)
        self.graph = self.labels[:, None] == self.labels


def ridge_estimate(grams: np.ndarray, moments: np.ndarray, ridge: float) -> np.ndarray:
    """Ridge estimates (…, d) from V (…, d, d) and b (…, d)."""
    return np.linalg.solve(grams + ridge * np.eye(grams.shape[-1]), moments[..., None])[..., 0]


@dataclass(frozen=True)
class Play:
    """By method: cumulative regret of the whole network (T,), and the graphs (T+1, N, N) from the start on."""

    regret: dict[str, np.ndarray]
    graphs: dict[str, np.ndarray]


def play(world: World, sharing: Mapping[str, Sharing], explore: float, ridge: float) -> Play:
    """All methods side by side on the same arms and noise: the leading axis of every array is the method.

    `explore` scales the confidence bonus √log(t+2)·‖x‖ in units of reward.
    """
    rounds, n = world.noise.shape
    d = world.thetas.shape[1]
    grams, moments = np.zeros((len(sharing), n, d, d)), np.zeros((len(sharing), n, d))
    outer = (world.arms[:, :, None] * world.arms[:, None, :]).reshape(-1, d * d)
    means = world.thetas @ world.arms.T
    everyone = np.arange(n)
    regret = np.empty((rounds, len(sharing)))
    graphs = np.empty((rounds + 1, len(sharing), n, n), dtype=bool)
    graphs[0] = [share.graph for share in sharing.values()]
    for t in range(rounds):
        # pool: λI once, then the samples of all neighbours
        who = graphs[t].astype(float)
        pooled = (who @ grams.reshape(-1, n, d * d)).reshape(grams.shape)
        inverse = np.linalg.inv(pooled + ridge * np.eye(d))
        estimate = (inverse @ (who @ moments)[..., None])[..., 0]
        # pull
        width = np.sqrt(inverse.reshape(-1, n, d * d) @ outer.T)
        arm = (estimate @ world.arms.T + explore * np.sqrt(np.log(t + 2)) * width).argmax(-1)
        x, reward = world.arms[arm], means[everyone, arm] + world.noise[t]
        regret[t] = (means.max(1) - means[everyone, arm]).sum(-1)
        # learn from the own sample only, then choose anew whom to share with
        grams += x[..., :, None] * x[..., None, :]
        moments += reward[..., None] * x
        estimates = ridge_estimate(grams, moments, ridge)
        for m, share in enumerate(sharing.values()):
            share.update(Local(grams[m], moments[m], estimates[m], t + 1, ridge))
            graphs[t + 1, m] = share.graph
    total = np.cumsum(regret, axis=0)
    return Play(
        {name: total[:, m] for m, name in enumerate(sharing)}, {n: graphs[:, m] for m, n in enumerate(sharing)}
    )


def agreement(graph: np.ndarray, alike: np.ndarray) -> tuple[float, float]:
    """F1 of a graph (N, N) against the pairs that are alike, and the share of those cut; NaN without such pairs."""
    pairs = np.triu_indices(len(alike), 1)
    kept, true = graph[pairs], alike[pairs]
    if not true.any():
        return float("nan"), float("nan")
    return float(2 * (kept & true).sum() / (kept.sum() + true.sum())), float(1 - kept[true].mean())


def separation_round(graphs: np.ndarray, alike: np.ndarray) -> float:
    """Median round in which edges between strangers were cut; T+1 stands for never, NaN for no strangers."""
    strangers = ~alike[np.triu_indices(len(alike), 1)]
    lived = graphs.sum(0)[np.triu_indices(len(alike), 1)]  # cut in round r: present r times, with the start
    return float(np.median(lived[strangers])) if strangers.any() else float("nan")
