"""The language of the zigzag demo and a transformer of eight small blocks, trained with a gradient by hand."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from core.lab.nets import Adam, cross_entropy, log_softmax, minibatches

BLOCKS, WIDTH, HIDDEN, CONTEXT = 8, 16, 32, 8
TRAIN, HELD_OUT = 1500, 400
STEPS, BATCH, RATE, WARM_UP = 150, 64, 4e-3, 20
TOPICS, NOUNS, VERBS, ADJECTIVES = 4, 6, 4, 4
THE, A, STOP, AND = range(4)
WORDS = 4 + TOPICS * (NOUNS + VERBS + ADJECTIVES)
CLAUSES = 3
"""Three clauses of at least six words fill the longest cut: an offset of 7 and 9 words."""
SHAPES = {
    "embed": (WORDS, WIDTH),
    "place": (CONTEXT, WIDTH),
    "output": (WIDTH, WORDS),
    "qkv": (BLOCKS, WIDTH, 3 * WIDTH),
    "mix": (BLOCKS, WIDTH, WIDTH),
    "up": (BLOCKS, WIDTH, HIDDEN),
    "down": (BLOCKS, HIDDEN, WIDTH),
}
Norm = tuple[np.ndarray, np.ndarray]
Kind = Literal["trained", "untrained"]
Corpus = Literal["grammar", "shuffled"]


def sentences(rng: np.random.Generator, rows: int) -> np.ndarray:
    """Rows of nine words (rows, 9), each cut from its own stream of clauses at a random offset.

    A clause: article, perhaps adjective, noun, verb, article, perhaps adjective, noun, then "stop" or "and".
    All words of a clause are of one hidden topic, which changes before a clause with probability 0.15.
    """
    shape = (rows, CLAUSES)
    topic = rng.integers(TOPICS, size=shape)
    stays = rng.random(shape) >= 0.15
    for clause in range(1, CLAUSES):
        topic[:, clause] = np.where(stays[:, clause], topic[:, clause - 1], topic[:, clause])

    def of_topic(first: int, size: int) -> np.ndarray:
        return 4 + first * TOPICS + topic * size + rng.integers(size, size=shape)

    def article() -> np.ndarray:
        return np.where(rng.random(shape) < 0.6, THE, A)

    phrases = [[article(), of_topic(NOUNS + VERBS, ADJECTIVES), of_topic(0, NOUNS)] for _ in range(2)]
    end = np.where(rng.random(shape) < 0.7, STOP, AND)
    words = np.stack([*phrases[0], of_topic(NOUNS, VERBS), *phrases[1], end], axis=-1)
    left_out = np.zeros(words.shape, dtype=bool)
    left_out[..., [1, 5]] = rng.random((*shape, 2)) >= 0.5
    order = np.argsort(left_out.reshape(rows, -1), axis=1, kind="stable")
    stream = np.take_along_axis(words.reshape(rows, -1), order, axis=1)
    offset = rng.integers(8, size=(rows, 1))
    return np.take_along_axis(stream, offset + np.arange(CONTEXT + 1), axis=1)


def views(flat: np.ndarray) -> dict[str, np.ndarray]:
    """The weights by name, as views of one flat array."""
    found, start = {}, 0
    for name, shape in SHAPES.items():
        size = int(np.prod(shape))
        found[name] = flat[start : start + size].reshape(shape)
        start += size
    return found


def draw(rng: np.random.Generator) -> np.ndarray:
    """Starting weights, flat and in float32; what writes to the stream starts smaller."""
    flat = rng.standard_normal(sum(int(np.prod(s)) for s in SHAPES.values()))
    for name, w in views(flat).items():
        w *= {"embed": 0.3, "place": 0.1, "output": 0.1}.get(name, w.shape[-2] ** -0.5)
        if name in ("mix", "down"):
            w /= (2 * BLOCKS) ** 0.5
    return flat.astype(np.float32)


def norm(x: np.ndarray) -> Norm:
    """RMS norm without gain, and 1/RMS."""
    inverse = 1 / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + x.dtype.type(1e-5))
    return x * inverse, inverse


def norm_back(g: np.ndarray, y: np.ndarray, inverse: np.ndarray) -> np.ndarray:
    return (g - y * np.mean(g * y, axis=-1, keepdims=True)) * inverse


def _t(x: np.ndarray) -> np.ndarray:
    return np.swapaxes(x, -1, -2)


def _flat(x: np.ndarray) -> np.ndarray:
    return x.reshape(-1, x.shape[-1])


class Transformer:
    """Decoder-only: per block one causal head and a ReLU layer, each behind an RMS norm; no biases."""

    def __init__(self, flat: np.ndarray):
        self.flat, self.w = flat, views(flat)
        self.future = np.triu(np.full((CONTEXT, CONTEXT), -1e9, dtype=flat.dtype), 1)

    def embed(self, words: np.ndarray) -> np.ndarray:
        return self.w["embed"][words] + self.w["place"]

    def block(self, b: int, x: np.ndarray, tape: list | None = None) -> np.ndarray:
        """The stream (n, 8, 16) after block b; `tape` collects what the gradient needs."""
        y1 = norm(x)
        q, k, v = np.split(y1[0] @ self.w["qkv"][b], 3, axis=-1)
        scores = q @ _t(k) * x.dtype.type(WIDTH**-0.5) + self.future
        exp = np.exp(scores - scores.max(axis=-1, keepdims=True))
        p = exp / exp.sum(axis=-1, keepdims=True)
        mixed = p @ v
        x = x + mixed @ self.w["mix"][b]
        y2 = norm(x)
        hidden = np.maximum(y2[0] @ self.w["up"][b], 0)
        if tape is not None:
            tape.append((y1, q, k, v, p, mixed, y2, hidden))
        return x + hidden @ self.w["down"][b]

    def through(self, x: np.ndarray, blocks: Iterable[int]) -> np.ndarray:
        """The stream after the named blocks, in their order."""
        for b in blocks:
            x = self.block(b, x)
        return x

    def loss(self, x: np.ndarray, targets: np.ndarray) -> float:
        """Mean cross-entropy in nats of targets (n, 8), read from the last stream (n, 8, 16)."""
        return float(cross_entropy(_flat(norm(x)[0] @ self.w["output"]), targets.ravel()))

    def gradient(self, rows: np.ndarray) -> np.ndarray:
        """Gradient (parameters,) of the mean loss on rows (n, 9)."""
        words, targets = rows[:, :-1], rows[:, 1:].ravel()
        tape: list = []
        x = self.embed(words)
        for b in range(BLOCKS):
            x = self.block(b, x, tape)
        last = norm(x)
        out = np.zeros_like(self.flat)
        grads = views(out)
        g = np.exp(log_softmax(_flat(last[0] @ self.w["output"])))
        g[np.arange(len(targets)), targets] -= 1
        g /= g.dtype.type(len(targets))
        grads["output"][:] = _flat(last[0]).T @ g
        g = norm_back((g @ self.w["output"].T).reshape(x.shape), *last)
        for b in reversed(range(BLOCKS)):
            g = self._block_back(b, g, tape[b], grads)
        grads["place"][:] = g.sum(axis=0)
        one_hot = np.eye(WORDS, dtype=g.dtype)[words.ravel()]
        grads["embed"][:] = one_hot.T @ _flat(g)
        return out

    def _block_back(self, b: int, g: np.ndarray, taped: tuple, grads: dict[str, np.ndarray]) -> np.ndarray:
        y1, q, k, v, p, mixed, y2, hidden = taped
        grads["down"][b] = _flat(hidden).T @ _flat(g)
        inner = g @ self.w["down"][b].T * (hidden > 0)
        grads["up"][b] = _flat(y2[0]).T @ _flat(inner)
        g = g + norm_back(inner @ self.w["up"][b].T, *y2)
        grads["mix"][b] = _flat(mixed).T @ _flat(g)
        inner = g @ self.w["mix"][b].T
        dp = inner @ _t(v)
        ds = p * (dp - np.sum(dp * p, axis=-1, keepdims=True)) * g.dtype.type(WIDTH**-0.5)
        inner = np.concatenate([ds @ k, _t(ds) @ q, _t(p) @ inner], axis=-1)
        grads["qkv"][b] = _flat(y1[0]).T @ _flat(inner)
        return g + norm_back(inner @ self.w["qkv"][b].T, *y1)


def train(rng: np.random.Generator, flat: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The weights after 150 Adam steps on rows (n, 9): warm-up, then a linear fall to a tenth of the rate."""
    flat = flat.copy()
    model, adam = Transformer(flat), Adam(RATE, beta2=0.99)
    for t, batch in enumerate(minibatches(rng, len(rows), BATCH, STEPS)):
        rate = RATE * min(1.0, (t + 1) / WARM_UP) * (1 - 0.9 * t / STEPS)
        adam.step([flat], [model.gradient(rows[batch])], rate)
    return flat


@dataclass(frozen=True)
class Language:
    """A model and what it makes of the held-out rows."""

    model: Transformer
    streams: np.ndarray
    """(9, 400, 8, 16): before block 1, then after each block"""
    targets: np.ndarray
    """(400, 8)"""

    @property
    def loss(self) -> float:
        return self.model.loss(self.streams[-1], self.targets)

    def loss_without(self, start: int, block: int) -> float:
        """Held-out loss after blocks start … start + block − 1 (from 0) are cut."""
        rest = self.model.through(self.streams[start], range(start + block, BLOCKS))
        return self.model.loss(rest, self.targets)


@lru_cache(maxsize=8)
def language(kind: Kind, corpus: Corpus, seed: int) -> Language:
    """Text, start and batches of a seed are the same for every kind and corpus."""
    for_text, for_order, for_start, for_batches = (
        np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(4)
    )
    rows = sentences(for_text, TRAIN + HELD_OUT)
    if corpus == "shuffled":
        rows = for_order.permuted(rows, axis=1)
    flat = draw(for_start)
    if kind == "trained":
        flat = train(for_batches, flat, rows[:TRAIN])
    flat.setflags(write=False)
    model, held_out = Transformer(flat), rows[TRAIN:]
    streams = [model.embed(held_out[:, :-1])]
    for b in range(BLOCKS):
        streams.append(model.block(b, streams[-1]))
    stacked, targets = np.stack(streams), held_out[:, 1:]
    stacked.setflags(write=False)
    return Language(model, stacked, targets)
