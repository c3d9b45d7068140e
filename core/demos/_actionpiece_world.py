"""Items, users and the recommender of the ActionPiece demo."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from core.lab.nets import Adam, Parameters, log_softmax, minibatches

VALUES, ITEMS = (8, 8, 6), 240
POPULAR = 0.1
UNITS, EPOCHS, BATCH, RATE = 24, 12, 120, 0.02
RECENCY = 0.9
Encoder = Literal["linear", "tanh"]


def check_features(features: np.ndarray) -> None:
    """Items (n, m) have to differ: no token could tell two equal ones apart."""
    if len(np.unique(features, axis=0)) < len(features):
        raise ValueError("features: two items have the same features")


@dataclass(frozen=True)
class World:
    """Items (240, 3) by feature value, most popular first, and the two tables that say what follows.

    `after_one[f₁]` and `after_two[f₁ of the previous, f₂]` are groups: items with the same first two features.
    """

    features: np.ndarray
    groups: np.ndarray
    after_one: np.ndarray
    after_two: np.ndarray
    context: float

    @property
    def popularity(self) -> np.ndarray:
        weights = 1 / np.arange(1, len(self.features) + 1)
        return weights / weights.sum()

    def following(self, previous: np.ndarray, current: np.ndarray) -> np.ndarray:
        """The true probability (n, items) of the next item after two items (n,) each."""
        popular = self.popularity
        within = np.where(self.groups == np.unique(self.groups)[:, None], popular, 0.0)
        within /= within.sum(axis=1, keepdims=True)
        f = self.features
        one, two = self.after_one[f[current, 0]], self.after_two[f[previous, 0], f[current, 1]]
        grouped = self.context * within[two] + (1 - self.context) * within[one]
        return POPULAR * popular + (1 - POPULAR) * grouped

    def sequences(self, rng: np.random.Generator, users: int, length: int) -> np.ndarray:
        """Items (users, length) that the users take; the first two are popular ones."""
        out = rng.choice(len(self.features), (users, length), p=self.popularity)
        for t in range(2, length):
            below = np.cumsum(self.following(out[:, t - 2], out[:, t - 1]), axis=1)
            out[:, t] = (rng.random((users, 1)) * below[:, -1:] > below).sum(axis=1)
        return out


def make_world(rng: np.random.Generator, context: float) -> World:
    """Draw 240 different items and the tables."""
    if not 0 <= context <= 1:
        raise ValueError(f"context must lie between 0 and 1, not {context}")
    drawn = rng.choice(np.prod(VALUES), ITEMS, replace=False)
    features = np.stack(np.unravel_index(drawn, VALUES), axis=1)
    check_features(features)
    names, groups = np.unique(features[:, 0] * VALUES[1] + features[:, 1], return_inverse=True)
    one = rng.integers(len(names), size=VALUES[0])
    two = rng.integers(len(names), size=VALUES[:2])
    return World(features, groups, one, two, context)


@dataclass(frozen=True)
class Data:
    """Two-action histories with the next item, to train on and to test on."""

    shop: World
    sequences: np.ndarray
    histories: np.ndarray
    targets: np.ndarray
    test: np.ndarray
    test_targets: np.ndarray

    @property
    def features(self) -> np.ndarray:
        """Every item's features as tokens (items, 3)."""
        return self.shop.features + np.cumsum([0, *VALUES[:-1]])


def make_data(rng: np.random.Generator, context: float, users: int, length: int) -> Data:
    """The last action of every user is kept for the test; vocabularies and models see none of them."""
    shop = make_world(rng, context)
    seq = shop.sequences(rng, users, length)
    last = length - 1
    histories = np.concatenate([seq[:, t - 2 : t] for t in range(2, last)])
    targets = np.concatenate([seq[:, t] for t in range(2, last)])
    return Data(shop, seq[:, :last], histories, targets, seq[:, last - 2 : last], seq[:, last])


def bags(tokens: np.ndarray, size: int) -> np.ndarray:
    """Bags (n, size) of token rows that are filled up with `size`; a token counts 0.9^(index from the end)."""
    there = tokens < size
    from_end = np.cumsum(there[:, ::-1], axis=1)[:, ::-1] - 1
    flat = (np.arange(len(tokens))[:, None] * size + tokens)[there]
    return np.bincount(flat, RECENCY ** from_end[there], len(tokens) * size).reshape(len(tokens), size)


def blocks() -> Iterator[slice]:
    """The columns of each feature among all feature values."""
    ends = np.cumsum(VALUES)
    return (slice(end - k, end) for end, k in zip(ends, VALUES, strict=True))


EARLIER = np.repeat(np.repeat(np.triu(np.ones((len(VALUES),) * 2), 1), VALUES, axis=0), VALUES, axis=1)
"""1 where the row's value belongs to an earlier feature than the column's."""
SAME = np.repeat(np.repeat(np.eye(len(VALUES)), VALUES, axis=0), VALUES, axis=1)
"""1 where both values belong to the same feature."""


def one_hot(features: np.ndarray) -> np.ndarray:
    """Feature values (n, 3) as ones among all values (n, 22)."""
    return np.concatenate([np.eye(k)[features[:, j]] for j, k in enumerate(VALUES)], axis=1)


def initial(rng: np.random.Generator, size: int) -> Parameters:
    """E, b, W, U, c: embeddings and bias, then the decoder's weights, links between features, and bias."""
    values = sum(VALUES)
    decoder = rng.normal(0, 0.1, (UNITS, values))
    embeddings = rng.normal(0, 0.1, (size, UNITS))
    return [embeddings, np.zeros(UNITS), decoder, np.zeros((values, values)), np.zeros(values)]


def encode(p: Parameters, x: np.ndarray, encoder: Encoder) -> np.ndarray:
    """h (n, units) of bags (n, size)."""
    h = x @ p[0] + p[1]
    return np.tanh(h) if encoder == "tanh" else h


def gradient(p: Parameters, x: np.ndarray, target: np.ndarray, encoder: Encoder) -> Parameters:
    """Gradient of the mean of −log p(features of the target | bag); `target` (n, 22) is one-hot."""
    h = encode(p, x, encoder)
    logits = h @ p[2] + target @ (EARLIER * p[3]) + p[4]
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    error = (odds / (odds @ SAME) - target) / len(x)
    back = error @ p[2].T
    if encoder == "tanh":
        back *= 1 - h**2
    return [x.T @ back, back.sum(axis=0), h.T @ error, EARLIER * (target.T @ error), error.sum(axis=0)]


def train(seed: int, x: np.ndarray, target: np.ndarray, encoder: Encoder, decay: float) -> Parameters:
    """Adam on bags (segmentations, n, size), another segmentation in each epoch; `target` (n, 22) is one-hot.

    `decay` is the strength of the L2 penalty.
    """
    if encoder not in ("linear", "tanh"):
        raise ValueError(f"encoder must be linear or tanh, not {encoder!r}")
    rng = np.random.default_rng(seed)
    n, size = len(target), min(BATCH, len(target))
    steps = max(1, round(n / size))
    order = list(minibatches(rng, n, size, EPOCHS * steps))
    p, adam = initial(rng, x.shape[2]), Adam(RATE, 0.9, 0.99)
    for step, rows in enumerate(order):
        slope = gradient(p, x[step // steps % len(x), rows], target[rows], encoder)
        adam.step(p, [g + decay * v for g, v in zip(slope, p, strict=True)])
    return p


def scores(p: Parameters, x: np.ndarray, features: np.ndarray, encoder: Encoder) -> np.ndarray:
    """log p(item | bag) (n, items) for every item: the sum over its features, each given the earlier ones."""
    base, links = encode(p, x, encoder) @ p[2] + p[4], EARLIER * p[3]
    total = np.zeros((len(x), len(features)))
    for j, b in enumerate(blocks()):
        earlier, which = np.unique(features[:, :j], axis=0, return_inverse=True)
        known = np.zeros((len(earlier), len(links)))
        for i, block in zip(range(j), blocks(), strict=False):
            known[:, block] = np.eye(VALUES[i])[earlier[:, i]]
        log_p = log_softmax(base[:, None, b] + known @ links[:, b])
        total += log_p[:, which.ravel(), features[:, j]]
    return total


def ensemble(each: np.ndarray) -> np.ndarray:
    """Scores (segmentations, n, items) as one (n, items): the sum of 1/log₂(rank + 1), ties by the mean score."""
    if len(each) == 1:
        return each[0]
    rank = np.argsort(np.argsort(-each, axis=2, kind="stable"), axis=2, kind="stable") + 1
    return (1 / np.log2(rank + 1)).sum(axis=0) + 1e-9 * each.mean(axis=0)


def ranking(score: np.ndarray, target: np.ndarray) -> tuple[float, float]:
    """NDCG@10 and Recall@10 of the targets (n,) among the items by score (n, items)."""
    rank = (score > score[np.arange(len(target)), target][:, None]).sum(axis=1)
    return float(np.where(rank < 10, 1 / np.log2(rank + 2), 0).mean()), float((rank < 10).mean())
