"""The two small graph networks of the EDEN demo, their training, and the pull of a tree on it; gradients by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import softmax, xlogy

from core.demos._eden_tree import Tree, averages, standardised
from core.demos._eden_world import CLASSES, DIMENSIONS, World
from core.lab.nets import Adam, Parameters

HIDDEN, STEPS, RATE, DECAY = 24, 100, 0.02, 0.005
WARM_UP = 30
"""Steps without distillation."""
UNDIRECTED, DIRECTED, TWO_HOPS = "undirected", "directed", "two hops"


def inputs(world: World) -> dict[str, np.ndarray]:
    """What each backbone sees of a node: its features and averages over neighbours, standardised (n, d)."""
    a, x = world.graph, world.features
    out, into = averages(a), averages(a.T)
    around = averages(np.maximum(a, a.T) + np.eye(len(a)))
    one_hop = [x, out @ x, into @ x]
    return {
        UNDIRECTED: standardised(np.hstack([x, around @ x])),
        DIRECTED: standardised(np.hstack(one_hop)),
        TWO_HOPS: standardised(np.hstack([*one_hop, out @ out @ x, into @ into @ x, out @ into @ x])),
    }


def walk(tree: Tree) -> np.ndarray:
    """T (n, n): from a leaf to its parent and down to one of the parent's teachers, mean over the levels."""
    return np.mean([level.parents[level.modules] for level in tree], axis=0)


@dataclass(frozen=True)
class Start:
    """Random numbers that every network of a seed starts from, scaled by its own number of inputs."""

    first: np.ndarray
    second: np.ndarray

    @classmethod
    def draw(cls, rng: np.random.Generator) -> Start:
        return cls(rng.normal(size=(12 * DIMENSIONS, HIDDEN)), rng.normal(size=(HIDDEN, CLASSES)))

    def parameters(self, size: int) -> Parameters:
        """Weights and biases of a network with `size` inputs."""
        first, second = self.first[:size] / math.sqrt(size), self.second / math.sqrt(HIDDEN)
        return [first, np.zeros(HIDDEN), second, np.zeros(CLASSES)]


def forward(parameters: Parameters, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Hidden units (n, 24) and class probabilities q (n, K)."""
    w, b, v, c = parameters
    hidden = np.tanh(z @ w + b)
    return hidden, softmax(hidden @ v + c, axis=1)


def backward(parameters: Parameters, z: np.ndarray, hidden: np.ndarray, at_logits: np.ndarray) -> list[np.ndarray]:
    """Gradients of the parameters from the gradient at the logits (n, K)."""
    at_hidden = (at_logits @ parameters[2].T) * (1 - hidden * hidden)
    return [z.T @ at_hidden, at_hidden.sum(axis=0), hidden.T @ at_logits, at_logits.sum(axis=0)]


def sureness(p: np.ndarray) -> np.ndarray:
    """u (k,) of distributions (k, K): 1 for a point mass, 0 for the uniform one."""
    return 1 + xlogy(p, p).sum(axis=1) / math.log(p.shape[1])


Pull = tuple[np.ndarray, np.ndarray]
"""One level's parent of each node, p (n, K), and the strength s·u of its pull (n, 1)."""


class Teacher:
    """The parents of a tree: what they know, given what the nodes know."""

    def __init__(self, tree: Tree, known: np.ndarray, labelled: np.ndarray):
        self.levels = [(level.modules, level.affiliation[:, None], level.parents) for level in tree]
        self.known, self.labelled = known, labelled[:, None]

    def pulls(self, q: np.ndarray) -> list[Pull]:
        """Knowledge is the label where there is one, else the network's own answer q (n, K)."""
        knowledge = np.where(self.labelled, self.known, q)
        out = []
        for modules, affiliation, parents in self.levels:
            p = parents @ knowledge
            out.append((p[modules], affiliation * sureness(p)[modules, None]))
        return out


def distillation_gradient(q: np.ndarray, pulls: Sequence[Pull]) -> np.ndarray:
    """Gradient at the logits (n, K) of Σ s·u·‖p − q‖² / 2n, where parents and their pull count as constants."""
    at_q = -sum(weight * (p - q) for p, weight in pulls) / len(q)
    return q * (at_q - (q * at_q).sum(axis=1, keepdims=True))


def answers(
    world: World, z: np.ndarray, start: Start, tree: Tree | None = None, alpha: float = 0.0, walks: bool = True
) -> np.ndarray:
    """Class probabilities (n, K) of a backbone with inputs z after training, alone or with a tree.

    `walks` extends the inputs along the tree, `alpha` is the weight of the distillation.
    """
    if alpha < 0:
        raise ValueError(f"alpha must not be negative, not {alpha}")
    if tree is not None and walks:
        z = np.hstack([z, walk(tree) @ z])
    parameters, adam = start.parameters(z.shape[1]), Adam(RATE)
    known, labelled = np.eye(CLASSES)[world.classes], world.labelled
    teacher = Teacher(tree, known, labelled) if tree is not None and alpha > 0 else None
    share = labelled[:, None] / labelled.sum()
    for step in range(STEPS):
        hidden, q = forward(parameters, z)
        at_logits = share * (q - known)
        if teacher is not None and step >= WARM_UP:
            at_logits += alpha * distillation_gradient(q, teacher.pulls(q))
        gradients = backward(parameters, z, hidden, at_logits)
        for i in (0, 2):
            gradients[i] += DECAY * parameters[i]
        adam.step(parameters, gradients)
    return forward(parameters, z)[1]
