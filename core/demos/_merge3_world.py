"""Digits in three "languages", many small networks trained side by side, and their merges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from core.lab.datasets import digits

HIDDEN, CLASSES, LAYERS = 32, 10, 2
TRAIN, SEARCH = 500, 700
BASE_STEPS, BASE_IMAGES = 80, 250
ENDPOINT_STEPS = (150, 450, 300)
SPOKEN = 2
"""Languages that count in the evaluation; the third endpoint is a distractor."""
RATE, MOMENTUM, BATCH = 0.05, 0.9, 32

Nets = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Networks stacked along the first axis: weights (m, 64, 32), biases (m, 32), weights (m, 32, 10), biases (m, 10)."""
Items = tuple[np.ndarray, np.ndarray]
"""Images (n, 64) with their labels (n,)."""


@dataclass(frozen=True)
class World:
    """Everything a search for a merge is given: the networks, and the items that score them."""

    base: Nets
    endpoints: Nets
    calibration: Nets
    search: Items
    test: Items


def languages() -> tuple[np.ndarray, np.ndarray]:
    """The digits as they are, transposed, and mirrored top-down: images (3, 1797, 64), labels (1797,)."""
    pixels, labels = digits()
    square = pixels.reshape(-1, 8, 8)
    spoken = [square, square.transpose(0, 2, 1), square[:, ::-1]]
    return np.stack([s.reshape(len(labels), -1) for s in spoken]), labels


def forward(nets: Nets, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Hidden units (m, n, 32) and logits (m, n, 10) of inputs (m, n, 64)."""
    w1, b1, w2, b2 = nets
    hidden = np.maximum(x @ w1 + b1[:, None], 0)
    return hidden, hidden @ w2 + b2[:, None]


def gradient(nets: Nets, x: np.ndarray, y: np.ndarray) -> Nets:
    """Gradient of each network's mean cross-entropy on its own batch: inputs (m, n, 64), labels (m, n)."""
    hidden, logits = forward(nets, x)
    p = np.exp(logits - logits.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    np.put_along_axis(p, y[..., None], np.take_along_axis(p, y[..., None], -1) - 1, -1)
    p /= y.shape[1]
    back = (p @ nets[2].transpose(0, 2, 1)) * (hidden > 0)
    return x.transpose(0, 2, 1) @ back, back.sum(1), hidden.transpose(0, 2, 1) @ p, p.sum(1)


def draw(rng: np.random.Generator, inputs: int) -> Nets:
    """One network with weights N(0, 1 / fan-in) and biases 0."""
    w1 = rng.normal(0, inputs**-0.5, (1, inputs, HIDDEN))
    w2 = rng.normal(0, HIDDEN**-0.5, (1, HIDDEN, CLASSES))
    return w1, np.zeros((1, HIDDEN)), w2, np.zeros((1, CLASSES))


def fine_tune(
    rng: np.random.Generator, start: Nets, items: Items, pools: Sequence[np.ndarray], steps: np.ndarray
) -> Nets:
    """Train one copy of `start` on each pool of item numbers, by momentum, for its own number of steps (m,)."""
    order = np.argsort(-steps, kind="stable")  # those that finish first come last and drop out
    size = np.array([len(pools[m]) for m in order])
    table = np.zeros((len(order), size.max()), dtype=int)
    for row, m in enumerate(order):
        table[row, : size[row]] = pools[m]
    nets = tuple(np.repeat(w, len(order), 0) for w in start)
    speed = [np.zeros_like(w) for w in nets]
    for t in range(steps.max()):
        k = int((steps > t).sum())
        batch = (rng.random((k, BATCH)) * size[:k, None]).astype(int)
        picked = np.take_along_axis(table[:k], batch, 1)
        slopes = gradient(tuple(w[:k] for w in nets), items[0][picked], items[1][picked])  # type: ignore[arg-type]
        for w, v, g in zip(nets, speed, slopes, strict=True):
            v[:k] = MOMENTUM * v[:k] - RATE * g
            w[:k] += v[:k]
    back = np.argsort(order, kind="stable")
    return tuple(w[back] for w in nets)  # type: ignore[return-value]


def answers(nets: Nets, items: Items) -> np.ndarray:
    """Whether each network is right on each item, as 0.0 or 1.0: (m, n)."""
    (w1, b1, w2, b2), (x, y) = nets, items
    flat = x @ w1.transpose(1, 0, 2).reshape(x.shape[1], -1) + b1.ravel()
    hidden = np.maximum(flat, 0).reshape(len(x), *b1.shape).transpose(1, 0, 2)
    return (np.argmax(hidden @ w2 + b2[:, None], -1) == y).astype(float)


def merge(base: Nets, endpoints: Nets, genomes: np.ndarray) -> Nets:
    """Task arithmetic per layer: genomes (p, endpoints × layers) give p networks.

    w = base + Σ c (endpoint − base), written as (1 − Σ c) base + Σ c endpoint, which is exact for 0 and 1.
    """
    count = len(endpoints[0])
    if genomes.ndim != 2 or genomes.shape[1] != count * LAYERS:
        raise ValueError(f"genomes must be (p, {count * LAYERS}), not {genomes.shape}")
    c = genomes.reshape(len(genomes), count, LAYERS)
    shares = np.concatenate([1 - c.sum(1, keepdims=True), c], axis=1)
    out = []
    for i, (b, e) in enumerate(zip(base, endpoints, strict=True)):
        parts = np.concatenate([b, e]).reshape(count + 1, -1)
        out.append((shares[:, :, i // 2] @ parts).reshape(len(c), *b.shape[1:]))
    return tuple(out)


def mixtures(rng: np.random.Generator, count: int, train: np.ndarray, images: int) -> list[np.ndarray]:
    """Training pools of the calibration models: 60–400 images, each in a language drawn by the model's own shares."""
    pools = []
    for share in rng.dirichlet(np.full(3, 0.7), count):
        picked = rng.choice(train, rng.integers(60, 401), replace=False)
        pools.append(rng.choice(3, len(picked), p=share) * images + picked)
    return pools


def build(seed: np.random.SeedSequence, calibration: int) -> World:
    """Split the digits, train the base, its three endpoints and the calibration models."""
    for_split, for_base, for_pools, for_steps = (np.random.default_rng(s) for s in seed.spawn(4))
    images, labels = languages()
    count = len(labels)
    train, search, test = np.split(for_split.permutation(count), [TRAIN, TRAIN + SEARCH])
    every = images.reshape(3 * count, -1), np.tile(labels, 3)
    spoken = np.concatenate([train + k * count for k in range(SPOKEN)])
    first = for_base.choice(spoken, BASE_IMAGES, replace=False)
    base = fine_tune(for_base, draw(for_base, images.shape[-1]), every, [first], np.array([BASE_STEPS]))
    pools = [train + k * count for k in range(3)] + mixtures(for_pools, calibration, train, count)
    steps = np.concatenate([ENDPOINT_STEPS, for_pools.integers(5, 201, calibration)])
    tuned = fine_tune(for_steps, base, every, pools, steps)

    def items(which: np.ndarray) -> Items:
        return np.concatenate(images[:SPOKEN, which]), np.tile(labels[which], SPOKEN)

    endpoints, others = (tuple(w[part] for w in tuned) for part in (slice(3), slice(3, None)))
    return World(base, endpoints, others, items(search), items(test))  # type: ignore[arg-type]
