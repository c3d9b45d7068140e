"""Small networks in NumPy: parameters as lists of arrays, Adam, minibatches; gradients come from autograd."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import autograd.numpy as anp
import numpy as np

Parameters = list[np.ndarray]


def log_softmax(logits):
    """Row-wise log probabilities (n, k); differentiable by autograd."""
    shifted = logits - anp.max(logits, axis=-1, keepdims=True)
    return shifted - anp.log(anp.sum(anp.exp(shifted), axis=-1, keepdims=True))


def cross_entropy(logits, labels: np.ndarray):
    """Mean negative log probability of the integer labels (n,); differentiable by autograd."""
    return -anp.mean(log_softmax(logits)[anp.arange(len(labels)), labels])


def accuracy(logits: np.ndarray, labels: np.ndarray) -> float:
    """Share of rows whose largest logit is the label's."""
    return float(np.mean(np.argmax(logits, axis=-1) == labels))


@dataclass
class Adam:
    """Adam (Kingma & Ba, 2015) on a list of arrays, with bias correction; `step` updates in place."""

    rate: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    count: int = 0
    first: Parameters = field(default_factory=list)
    second: Parameters = field(default_factory=list)

    def step(self, parameters: Parameters, gradients: Sequence[np.ndarray], rate: float | None = None) -> None:
        """One update; `rate` overrides the constant rate for schedules."""
        if not self.first:
            self.first = [np.zeros_like(p) for p in parameters]
            self.second = [np.zeros_like(p) for p in parameters]
        self.count += 1
        scale1, scale2 = 1 - self.beta1**self.count, 1 - self.beta2**self.count
        for p, g, m, v in zip(parameters, gradients, self.first, self.second, strict=True):
            m *= self.beta1
            m += (1 - self.beta1) * g
            v *= self.beta2
            v += (1 - self.beta2) * g * g
            p -= (self.rate if rate is None else rate) / scale1 * m / (np.sqrt(v / scale2) + self.epsilon)


def minibatches(rng: np.random.Generator, n: int, size: int, steps: int) -> Iterator[np.ndarray]:
    """`steps` index arrays (size,) that walk through fresh permutations of n rows."""
    order = np.empty(0, dtype=int)
    for _ in range(steps):
        while len(order) < size:
            order = np.concatenate([order, rng.permutation(n)])
        yield order[:size]
        order = order[size:]
