"""Graphs with hidden communities for the EDEN demo, and the features and labels of their nodes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

NODES, CLASSES, COMMUNITIES = 240, 4, 8
DEGREE, CYCLE, DIMENSIONS = 6, 0.8, 16
"""Mean out-degree drawn, share of the outer edges that go to the next class, features of a node."""


@dataclass(frozen=True)
class World:
    """A graph (n, n) of zeros and ones, features (n, 16), and for each node community, class and "is labelled"."""

    graph: np.ndarray
    features: np.ndarray
    communities: np.ndarray
    classes: np.ndarray
    labelled: np.ndarray


def make_world(
    rng: np.random.Generator, homophily: float, strength: float, per_class: int, undirected: bool = False
) -> World:
    """Draw edges, features and the labelled nodes; the same random numbers serve every homophily and strength.

    `strength` is the spread of the class means in units of the noise, `per_class` the number of labels.
    """
    if strength <= 0:
        raise ValueError(f"strength must be above 0, not {strength}")
    communities = np.repeat(np.arange(COMMUNITIES), NODES // COMMUNITIES)
    classes = communities * CLASSES // COMMUNITIES
    edges, means, noise, labels = rng.spawn(4)
    graph = block_digraph(edges, communities, classes, homophily)
    scale = 2 * strength / np.sqrt(DIMENSIONS)
    features = scale * means.normal(size=(CLASSES, DIMENSIONS))[classes] + noise.normal(size=(NODES, DIMENSIONS))
    labelled = choose_labelled(labels, classes, per_class)
    return World(np.maximum(graph, graph.T) if undirected else graph, features, communities, classes, labelled)


def block_digraph(
    rng: np.random.Generator, communities: np.ndarray, classes: np.ndarray, homophily: float
) -> np.ndarray:
    """A (n, n): each node sends Poisson(6) edges, the share `homophily` of them inside its community.

    Of the others 80 % go to the next class of a cycle, the rest anywhere; double edges and loops are dropped.
    """
    if not 0 <= homophily <= 1:
        raise ValueError(f"homophily must be from 0 to 1, not {homophily}")
    n, k = len(classes), classes.max() + 1
    source = np.repeat(np.arange(n), rng.poisson(DEGREE, n))
    inside, onward, place = rng.random((3, len(source)))
    anywhere = np.ones((len(source), n), dtype=bool)
    same = communities[source][:, None] == communities
    following = ((classes[source] + 1) % k)[:, None] == classes
    allowed = np.where(
        inside[:, None] < homophily, same, np.where(onward[:, None] < CYCLE, following, anywhere)
    ).cumsum(axis=1)
    target = (allowed <= (place * allowed[:, -1])[:, None]).sum(axis=1)  # the place-th allowed node
    graph = np.zeros((n, n))
    graph[source, target] = 1
    np.fill_diagonal(graph, 0)
    return graph


def choose_labelled(rng: np.random.Generator, classes: np.ndarray, per_class: int) -> np.ndarray:
    """True (n,) at `per_class` random nodes of each class; every class needs nodes and some must stay for the test."""
    counts = np.bincount(classes, minlength=CLASSES)
    if counts.min() == 0:
        raise ValueError(f"classes: class {counts.argmin()} has no nodes")
    if per_class < 1 or per_class > counts.min() or per_class * len(counts) >= len(classes):
        raise ValueError(f"per_class must be 1 to {counts.min() - 1}, so that test nodes are left, not {per_class}")
    labelled = np.zeros(len(classes), dtype=bool)
    for k in range(len(counts)):
        labelled[rng.choice(np.flatnonzero(classes == k), per_class, replace=False)] = True
    return labelled


def check_graph(graph: np.ndarray) -> None:
    """`ValueError` unless the graph is a square matrix of non-negative weights with an edge and without loops."""
    if graph.ndim != 2 or graph.shape[0] != graph.shape[1]:
        raise ValueError(f"graph must be a square matrix, not of shape {graph.shape}")
    if np.diagonal(graph).any():
        raise ValueError("graph must have no self-loops")
    if not (np.isfinite(graph).all() and (graph >= 0).all() and graph.any()):
        raise ValueError("graph must have at least one edge and no negative or infinite weights")
