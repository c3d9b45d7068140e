"""The language model of the STAMP demo: log-bilinear in the two words before, trained by Adagrad in one pass."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from core.demos._stamp_text import BASE, corpus

SIZE, BATCH, BLOCK = 24, 256, 512
BASE_RATE = 0.05
START = 1e-3
"""Where the accumulators of Adagrad start."""


@dataclass
class Model:
    """`first`, `second` (V, SIZE): vectors of the word before and of the one before it; `output` (V, SIZE), `bias` (V,)."""

    first: np.ndarray
    second: np.ndarray
    output: np.ndarray
    bias: np.ndarray

    @property
    def parameters(self) -> list[np.ndarray]:
        return [self.first, self.second, self.output, self.bias]

    def copy(self) -> Model:
        return Model(*(a.copy() for a in self.parameters))

    def hidden(self, context: np.ndarray) -> np.ndarray:
        """Vectors (n, SIZE) of contexts (n, 2): two words before, one word before."""
        return self.first[context[:, 1]] + self.second[context[:, 0]]


def triples(numbers: np.ndarray) -> np.ndarray:
    """Every word after its two predecessors: (n - 2, 3)."""
    return np.column_stack([numbers[:-2], numbers[1:-1], numbers[2:]])


def softmax(model: Model, hidden: np.ndarray) -> np.ndarray:
    """Probabilities (n, V) of the next word."""
    p = hidden @ model.output.T
    p += model.bias
    p -= p.max(axis=1, keepdims=True)
    np.exp(p, out=p)
    p /= p.sum(axis=1, keepdims=True)
    return p


def loss(model: Model, rows: np.ndarray) -> float:
    """Summed negative log-probability of triples (n, 3)."""
    p = softmax(model, model.hidden(rows))
    return float(-np.log(p[np.arange(len(rows)), rows[:, 2]]).sum())


def gradients(model: Model, rows: np.ndarray) -> list[tuple[np.ndarray | slice, np.ndarray]]:
    """(touched rows, gradient) of the loss for each parameter; repeated context words are added up."""
    hidden = model.hidden(rows)
    p = softmax(model, hidden)
    p[np.arange(len(rows)), rows[:, 2]] -= 1
    back = p @ model.output
    return [
        _by_word(rows[:, 1], back),
        _by_word(rows[:, 0], back),
        (slice(None), p.T @ hidden),
        (slice(None), p.sum(axis=0)),
    ]


def _by_word(words: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each word once, and the sums (words, SIZE) of its values."""
    order = np.argsort(words, kind="stable")
    once, start = np.unique(words[order], return_index=True)
    return once, np.add.reduceat(values[order], start, axis=0)


def train(model: Model, rows: np.ndarray, rate: float, rng: np.random.Generator) -> Model:
    """A copy of the model after one pass over triples (n, 3) in random order; Adagrad starts anew."""
    if rate <= 0:
        raise ValueError(f"rate must be above 0, not {rate:g}")
    model = model.copy()
    seen = [np.full(len(a), START, dtype=a.dtype) for a in model.parameters]
    for batch in np.split(order := rng.permutation(len(rows)), np.arange(BATCH, len(order), BATCH)):
        for theta, total, (where, g) in zip(model.parameters, seen, gradients(model, rows[batch]), strict=True):
            total[where] += (g * g).mean(axis=1) if g.ndim == 2 else g * g
            step = rate / np.sqrt(total[where])
            theta[where] -= (step[:, None] if g.ndim == 2 else step) * g
    return model


def log_probabilities(model: Model, rows: np.ndarray) -> np.ndarray:
    """Log-probability (n,) of each triple (n, 3); the softmax of a context that recurs is computed once."""
    size = len(model.bias)
    once, back = np.unique(rows[:, 0] * size + rows[:, 1], return_inverse=True)
    hidden = model.hidden(np.column_stack([once // size, once % size]))
    norm = np.empty(len(once), dtype=hidden.dtype)
    for start in range(0, len(once), BLOCK):
        logits = hidden[start : start + BLOCK] @ model.output.T
        logits += model.bias
        top = logits.max(axis=1)
        logits -= top[:, None]
        np.exp(logits, out=logits)
        norm[start : start + BLOCK] = top + np.log(logits.sum(axis=1))
    word = rows[:, 2]
    return (hidden[back] * model.output[word]).sum(axis=1) + model.bias[word] - norm[back]


def new_model(counts: np.ndarray, rng: np.random.Generator) -> Model:
    """Small random vectors; the bias starts at the log frequency of each word, counts (V,)."""
    first, second, output = (0.1 * rng.normal(size=(len(counts), SIZE)) for _ in range(3))
    start = [first, second, output, np.log(counts + 0.5)]
    return Model(*(a.astype(np.float32) for a in start))


@lru_cache(maxsize=8)
def base_model(words: int = BASE) -> Model:
    """The model after the first words of the background: the same in every run."""
    rng = np.random.default_rng(0)
    text = corpus().background[:words]
    start = new_model(np.bincount(text, minlength=len(corpus().vocabulary) + 1), rng)
    model = train(start, triples(text), BASE_RATE, rng)
    for a in model.parameters:
        a.setflags(write=False)
    return model
