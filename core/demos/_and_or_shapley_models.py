"""What is explained: planted AND and OR terms, a net trained on them, and a net that reads digits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import autograd.numpy as anp
import numpy as np
from autograd import grad

from core.demos._and_or_shapley_sets import coalition, groups, members
from core.lab import datasets
from core.lab.nets import Adam, Parameters, cross_entropy, log_softmax, minibatches

N = 8
HIDDEN, RATE = (48, 48), 0.02
BOARD = (4, 2)
"""Rows and columns of patches; each has 2 × 4 pixels of the digit."""
DIGIT_IMAGES, DIGIT_HIDDEN, DIGIT_RATE, BATCH = 1200, (32,), 0.01, 128
SMALLEST = 1e-9
"""Probabilities are kept away from 0 and 1 by this much before the log odds."""


@dataclass(frozen=True)
class Planted:
    """Weights of AND and OR terms by (kind, subset), and the blocks of variables (as subsets) they respect."""

    blocks: tuple[int, ...]
    terms: dict[tuple[str, int], float]

    def values(self) -> np.ndarray:
        """The function (2^N,) on all binary inputs."""
        t = np.arange(2**N)
        active = [(t & s) == s if kind == "AND" else (t & s) > 0 for kind, s in self.terms]
        return np.array(list(self.terms.values())) @ np.array(active)

    def inside(self, subsets: np.ndarray) -> np.ndarray:
        """Which subsets (G,) lie inside one block."""
        return np.any([(subsets & ~b) == 0 for b in self.blocks], axis=0)


def draw_blocks(rng: np.random.Generator) -> tuple[int, ...]:
    """A partition of the N variables into blocks of two or three, named block by block."""
    blocks, first = [], 0
    while first < N:
        size = rng.choice([k for k in (2, 3) if N - first - k == 0 or N - first - k >= 2])
        blocks.append(coalition(range(first, first + size), N))
        first += size
    return tuple(blocks)


def plant(rng: np.random.Generator, n_terms: int, crossing: int) -> Planted:
    """`n_terms` terms over unions of one or two blocks, and `crossing` ones that cut a block; equal ones add up."""
    if n_terms < 1:
        raise ValueError(f"n_terms must be at least 1, not {n_terms}")
    if crossing < 0:
        raise ValueError(f"crossing cannot be negative, not {crossing}")
    blocks = draw_blocks(rng)
    cutting = [s for s in groups(N, 2, 3) if any(s & b not in (0, b) for b in blocks)]
    terms: dict[tuple[str, int], float] = {}
    for k in range(n_terms + crossing):
        if k < n_terms:
            subset = int(sum(rng.choice(blocks, size=rng.integers(1, 3), replace=False)))
        else:
            subset = int(rng.choice(cutting))
        kind = str(rng.choice(["AND", "OR"]))
        weight = float(rng.choice([-1, 1]) * rng.uniform(1, 3))
        terms[kind, subset] = terms.get((kind, subset), 0.0) + weight
    return Planted(blocks, terms)


def forward(parameters: Parameters, x):
    """Outputs (m, k) of a ReLU net whose parameters alternate weights and biases; differentiable by autograd."""
    for weights, bias in zip(parameters[:-2:2], parameters[1:-2:2], strict=True):
        x = anp.maximum(x @ weights + bias, 0)
    return x @ parameters[-2] + parameters[-1]


def start(rng: np.random.Generator, widths: tuple[int, ...]) -> Parameters:
    """He's start: normal weights of variance 2 / inputs, biases 0."""
    return [p for a, b in pairwise(widths) for p in (rng.normal(0, np.sqrt(2 / a), (a, b)), np.zeros(b))]


def train(loss: Callable, parameters: Parameters, rows: np.ndarray, rate: float, rng: np.random.Generator) -> None:
    """Adam from `rate` linearly to 0 on loss(parameters, rows), one row of indices a step; changes `parameters`."""
    steps = len(rows)
    if steps < 1:
        raise ValueError(f"steps must be at least 1, not {steps}")
    adam, slope = Adam(rate), grad(loss)
    for k, batch in enumerate(rows):
        adam.step(parameters, slope(parameters, batch), rate * (1 - k / steps))


def fitted(truth: np.ndarray, steps: int, frac: float, rng: np.random.Generator) -> np.ndarray:
    """Outputs (2^N,) of a net trained on a share of all inputs, coded −1 and 1, of the function `truth`."""
    if not 0 < frac <= 1:
        raise ValueError(f"frac must be above 0 and at most 1, not {frac}")
    x = 2.0 * members(N) - 1
    target = (truth - truth.mean()) / truth.std()
    parameters = start(rng, (N, *HIDDEN, 1))
    seen = rng.permutation(len(x))[: max(1, round(frac * len(x)))]

    def loss(q, rows):
        return anp.mean((forward(q, x[rows])[:, 0] - target[rows]) ** 2)

    train(loss, parameters, np.broadcast_to(seen, (steps, len(seen))), RATE, rng)
    return truth.mean() + truth.std() * forward(parameters, x)[:, 0]


def patches() -> np.ndarray:
    """The patch (64,) that each pixel of a digit belongs to, row by row of the board."""
    y, x = np.divmod(np.arange(64), 8)
    return y // (8 // BOARD[0]) * BOARD[1] + x // (8 // BOARD[1])


def share_edge(pairs: np.ndarray) -> np.ndarray:
    """Which pairs of patches (G,) are neighbours on the board."""
    first, second = np.array([np.flatnonzero(members(N)[p]) for p in pairs]).T
    apart = np.abs(np.array(np.divmod(first, BOARD[1])) - np.array(np.divmod(second, BOARD[1])))
    return apart.sum(axis=0) == 1


@dataclass(frozen=True)
class DigitGames:
    """Test images (m, 64), their log odds (m, 2^N) under all masks of patches, the net's test accuracy."""

    images: np.ndarray
    values: np.ndarray
    accuracy: float


def digit_games(count: int, steps: int, frac: float, seed: int) -> DigitGames:
    """Train a net on a share of 1,200 digits; mask patches of `count` test images by the mean training image."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1,)))
    x, labels = datasets.digits()
    rows, rest = datasets.split(rng, len(x), DIGIT_IMAGES, len(x) - DIGIT_IMAGES)
    rows = rows[: max(1, round(frac * len(rows)))]
    parameters = start(rng, (64, *DIGIT_HIDDEN, 10))
    batches = np.array(list(minibatches(rng, len(rows), min(BATCH, len(rows)), steps)))

    def loss(q, batch):
        return cross_entropy(forward(q, x[rows[batch]]), labels[rows[batch]])

    train(loss, parameters, batches, DIGIT_RATE, rng)
    images, mean = x[rest[:count]], x[rows].mean(axis=0)
    masked = np.where(members(N)[:, patches()], images[:, None], mean)
    p = np.exp(log_softmax(forward(parameters, masked)))
    predicted = p[:, -1].argmax(axis=1)
    p = np.clip(p[np.arange(count), :, predicted], SMALLEST, 1 - SMALLEST)
    found = forward(parameters, x[rest]).argmax(axis=1)
    odds = np.log(p / (1 - p))
    images.setflags(write=False)
    odds.setflags(write=False)
    return DigitGames(images, odds, float(np.mean(found == labels[rest])))
