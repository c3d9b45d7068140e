"""A masked-token transformer whose smaller sizes are slices of the same numbers; gradients by hand; its training."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from core.lab.nets import Adam, minibatches

T, K, CLASSES = 16, 16, 10
MASK, FIRST_CLASS = K, K + 1
D, HIDDEN, HEAD, LAYERS = 32, 32, 4, 2
SIZES = (1, 2, 4)
"""Divisors p: full, half and quarter of the heads and hidden units."""
STEPS, BATCH, RATE, WARM_UP = 600, 32, 0.012, 20
BLOCK = 4 * D * D + 2 * D * HIDDEN
SHARED = (K + 1 + CLASSES) * D + T * D + D * K
SMALL = 1e-6


@dataclass(frozen=True)
class Block:
    """Matrices of one block: qkv (D, 3 D/p), out (D/p, D), up (D, H/p), down (H/p, D)."""

    qkv: np.ndarray
    """columns run over heads, then q, k, v, then the four numbers of a head, so that the first heads are one slice"""
    out: np.ndarray
    up: np.ndarray
    down: np.ndarray


@dataclass(frozen=True)
class Network:
    """One size of the network; every array is a view of the flat vector of numbers."""

    embedding: np.ndarray
    """(17 + 10, D): tokens, MASK, classes"""
    position: np.ndarray
    """(T, D)"""
    head: np.ndarray
    """(D, K)"""
    blocks: tuple[Block, ...]

    @property
    def arrays(self) -> list[np.ndarray]:
        own = [a for b in self.blocks for a in (b.qkv, b.out, b.up, b.down)]
        return [self.embedding, self.position, self.head, *own]


def network(flat: np.ndarray, p: int) -> Network:
    """The size with divisor p as views of the flat vector; `ValueError` if there is no such size."""
    if p not in SIZES:
        raise ValueError(f"schedule: a divisor p is one of {SIZES}, not {p}")
    a, b, c = np.cumsum([(K + 1 + CLASSES) * D, T * D, D * K])
    blocks = []
    for start in range(SHARED, len(flat), BLOCK):
        parts = np.split(flat[start : start + BLOCK], np.cumsum([3 * D * D, D * D, D * HIDDEN]))
        qkv, out = parts[0].reshape(D, 3 * D), parts[1].reshape(D, D)
        up, down = parts[2].reshape(D, HIDDEN), parts[3].reshape(HIDDEN, D)
        blocks.append(Block(qkv[:, : 3 * D // p], out[: D // p], up[:, : HIDDEN // p], down[: HIDDEN // p]))
    return Network(flat[:a].reshape(-1, D), flat[a:b].reshape(T, D), flat[b:c].reshape(D, K), tuple(blocks))


class Flat:
    """All numbers of the network in one vector, their gradient in another, and every size as views of them."""

    def __init__(self, numbers: np.ndarray):
        self.numbers, self.gradient = numbers, np.zeros_like(numbers)
        self.sizes = {p: network(self.numbers, p) for p in SIZES}
        self.gradients = {p: network(self.gradient, p) for p in SIZES}


def initial(rng: np.random.Generator, layers: int = LAYERS) -> np.ndarray:
    """Random numbers of an untrained network, flat: positions of scale 1.5, tokens 1, matrices 1/√fan-in."""
    flat = rng.normal(size=SHARED + layers * BLOCK)
    net = network(flat, 1)
    net.position[...] *= 1.5
    for matrix in net.arrays[2:]:
        matrix /= math.sqrt(len(matrix))
    return flat


def counted(layers: int, sizes: Sequence[int]) -> int:
    """How many different numbers these sizes use together: marked by writing through their arrays."""
    used = np.zeros(SHARED + layers * BLOCK)
    for p in sizes:
        for array in network(used, p).arrays:
            array[...] = 1
    return int(used.sum())


def mean(x: np.ndarray) -> np.ndarray:
    """Means (…, 1) of rows; a matrix product is faster here than NumPy's own mean."""
    return x @ np.full((x.shape[-1], 1), 1 / x.shape[-1], dtype=x.dtype)


def normalised(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows (…, D) with mean 0 and variance 1, and the factor that made them so."""
    x = x - mean(x)
    factor = 1 / np.sqrt(mean(x * x) + SMALL)
    x *= factor
    return x, factor


def softmax(z: np.ndarray) -> np.ndarray:
    """Probabilities along the last axis."""
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def attention(q: np.ndarray, k: np.ndarray) -> np.ndarray:
    """Weights (images, heads, n, entries) of queries on keys; in place, as fresh memory is what costs here.

    The largest score of all is taken off, not that of each row: scores of normalised rows lie close together.
    """
    z = (q / math.sqrt(HEAD)) @ k.swapaxes(-1, -2)
    z -= z.max()
    np.exp(z, out=z)
    z /= z @ np.ones((z.shape[-1], 1), dtype=z.dtype)
    return z


def heads(z: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Views q, k, v (images, heads, n, 4) of the rows (images · n, 3 D/p) of the joint product."""
    split = z.reshape(-1, n, z.shape[-1] // (3 * HEAD), 3, HEAD).transpose(3, 0, 2, 1, 4)
    return split[0], split[1], split[2]


def mixed(weight: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The attended values as rows (images · n, D/p), the heads side by side."""
    images, heads, n, _ = weight.shape
    o = np.empty((images, n, heads, HEAD), dtype=v.dtype)
    np.matmul(weight, v, out=o.transpose(0, 2, 1, 3))
    return o.reshape(images * n, -1)


def forward(net: Network, ids: np.ndarray) -> tuple[np.ndarray, list]:
    """Logits (images · T, K) for ids (images, 1 + T), and what `backward` needs."""
    n = ids.shape[1]
    x = net.embedding[ids]
    x[:, 1:] += net.position
    x = x.reshape(-1, D)
    tape: list = []
    for b in net.blocks:
        a, a_factor = normalised(x)
        q, k, v = heads(a @ b.qkv, n)
        weight = attention(q, k)
        o = mixed(weight, v)
        x = x + o @ b.out
        c, c_factor = normalised(x)
        hidden = np.maximum(c @ b.up, 0)
        x = x + hidden @ b.down
        tape.append((a, a_factor, q, k, v, weight, o, c, c_factor, hidden))
    y, factor = normalised(x)
    seen = y.reshape(-1, n, D)[:, 1:].reshape(-1, D)
    tape.append((ids, y, factor, seen))
    return seen @ net.head, tape


Cache = list[tuple[np.ndarray, np.ndarray]]
"""Keys and values (images, 1 + T, heads, 4) of every block."""


def empty_cache(net: Network, n: int) -> Cache:
    """Nothing kept yet, for n images."""
    shapes = [(n, 1 + T, b.up.shape[1] * D // (HIDDEN * HEAD), HEAD) for b in net.blocks]
    return [(np.zeros(shape), np.zeros(shape)) for shape in shapes]


def compute(net: Network, ids: np.ndarray, active: np.ndarray, cache: Cache) -> np.ndarray:
    """Last hidden rows (images, n, D) of the active entries (images, n); their keys and values enter the cache."""
    row = np.arange(len(ids))[:, None]
    position = np.vstack([np.zeros(D), net.position])
    x = (net.embedding[ids[row, active]] + position[active]).reshape(-1, D)
    for b, (keys, values) in zip(net.blocks, cache, strict=True):
        q, k, v = heads(normalised(x)[0] @ b.qkv, active.shape[1])
        keys[row, active], values[row, active] = k.transpose(0, 2, 1, 3), v.transpose(0, 2, 1, 3)
        weight = attention(q, keys.transpose(0, 2, 1, 3))
        x = x + mixed(weight, values.transpose(0, 2, 1, 3)) @ b.out
        x = x + np.maximum(normalised(x)[0] @ b.up, 0) @ b.down
    return normalised(x)[0].reshape(*active.shape, D)


def cost(active: int, masked: int, p: int, layers: int = LAYERS) -> int:
    """Multiply-adds of one step for one image."""
    matrices, attended = layers * (4 * D * D + 2 * D * HIDDEN) // p, 2 * layers * (T + 1) * D // p
    return active * (matrices + attended) + masked * D * K


def _through_norm(dy: np.ndarray, y: np.ndarray, factor: np.ndarray) -> np.ndarray:
    dx = dy - mean(dy)
    dx -= y * mean(dy * y)
    dx *= factor
    return dx


def backward(net: Network, tape: list, d_logits: np.ndarray, into: Network) -> None:
    """Add the gradient to `into`, the same size of the gradient's flat vector."""
    ids, y, factor, seen = tape[-1]
    images, n = ids.shape
    into.head[...] += seen.T @ d_logits
    dy = np.zeros((images, n, D), dtype=y.dtype)
    dy[:, 1:] = (d_logits @ net.head.T).reshape(images, T, D)
    dx = _through_norm(dy.reshape(-1, D), y, factor)
    for b, g, saved in zip(net.blocks[::-1], into.blocks[::-1], tape[-2::-1], strict=True):
        a, a_factor, q, k, v, weight, o, c, c_factor, hidden = saved
        g.down[...] += hidden.T @ dx
        d_hidden = (dx @ b.down.T) * (hidden > 0)
        g.up[...] += c.T @ d_hidden
        dx = dx + _through_norm(d_hidden @ b.up.T, c, c_factor)
        g.out[...] += o.T @ dx
        do = (dx @ b.out.T).reshape(images, n, -1, HEAD).transpose(0, 2, 1, 3)
        d_score = do @ v.swapaxes(-1, -2)
        d_score -= np.einsum("bhij,bhij->bhi", d_score, weight)[..., None]
        d_score *= weight
        d_score /= math.sqrt(HEAD)
        dz = np.empty((images * n, b.qkv.shape[1]), dtype=dx.dtype)
        dq, dk, dv = heads(dz, n)
        np.matmul(d_score, k, out=dq)
        np.matmul(d_score.swapaxes(-1, -2), q, out=dk)
        np.matmul(weight.swapaxes(-1, -2), do, out=dv)
        g.qkv[...] += a.T @ dz
        dx = dx + _through_norm(dz @ b.qkv.T, a, a_factor)
    one_hot = (ids.reshape(-1, 1) == np.arange(len(net.embedding))).astype(dx.dtype)
    into.embedding[...] += one_hot.T @ dx
    into.position[...] += dx.reshape(images, n, D)[:, 1:].sum(axis=0)


def loss(flat: Flat, ids: np.ndarray, truth: np.ndarray, small: int, alpha: float) -> tuple[float, np.ndarray]:
    """Summed loss of the full size and of the smaller one with divisor `small`, and its gradient, flat.

    `ids` (images, 1 + T) has MASK where `truth` (images, T) is to be found. The smaller size learns from
    (1 − alpha)·truth + alpha·(probabilities of the full size, taken as constant).
    """
    hidden = (ids[:, 1:] == MASK).reshape(-1, 1)
    count = max(int(hidden.sum()), 1)
    target = np.eye(K, dtype=flat.numbers.dtype)[truth.reshape(-1)]
    total = 0.0
    flat.gradient.fill(0)
    for p in (1, small):
        net = flat.sizes[p]
        logits, tape = forward(net, ids)
        found = softmax(logits)
        total -= float((hidden * target * np.log(found)).sum()) / count
        backward(net, tape, hidden * (found - target) / count, flat.gradients[p])
        target = (1 - alpha) * target + alpha * found
    return total, flat.gradient


def train(rng: np.random.Generator, tokens: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """The trained numbers, flat, from tokens (images, T) and one class row for each image."""
    flat = Flat(initial(rng).astype(np.float32))  # half the time of double precision
    adam = Adam(RATE, 0.9, 0.98)
    for t, chosen in enumerate(minibatches(rng, len(tokens), BATCH, STEPS)):
        many = np.ceil(T * np.cos(np.pi / 2 * rng.random(BATCH)))
        hidden = rng.random((BATCH, T)).argsort(axis=1).argsort(axis=1) < many[:, None]
        ids = np.column_stack([FIRST_CLASS + classes[chosen], np.where(hidden, MASK, tokens[chosen])])
        small = 2 if t % 2 else 4
        _, gradient = loss(flat, ids, tokens[chosen], small, t / STEPS)
        rate = RATE * min(1, (t + 1) / WARM_UP) * (1 + math.cos(math.pi * t / STEPS)) / 2
        adam.step([flat.numbers], [gradient], rate)
    return flat.numbers.astype(float)


def cross_entropy(flat: np.ndarray, p: int, tokens: np.ndarray, classes: np.ndarray, hidden: np.ndarray) -> float:
    """Mean negative log probability of the hidden (images, T) tokens in one size, in nats."""
    ids = np.column_stack([FIRST_CLASS + classes, np.where(hidden, MASK, tokens)])
    found = softmax(forward(network(flat, p), ids)[0])
    right = found[np.arange(len(found)), tokens.reshape(-1)]
    return float(-np.log(right[hidden.reshape(-1)]).mean())
