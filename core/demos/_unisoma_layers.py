"""Layers of the Unisoma demo, each one step for autograd: a rule gives its value and how to pass gradients back.

Equal modules are stacked on the leading axis S (solids, contacts, …). Tokens and points: (S, batch, items, width).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

import numpy as np
from autograd.extend import SparseObject, defvjp, defvjp_argnums, primitive, vspace
from autograd.tracer import getval

TEMPERATURE, EPSILON, SLOPE = 0.5, 1e-5, 1.7
"""Of the slice weights; of the layer norm; of the sigmoid in GELU ≈ a·sigmoid(1.7 a)."""

Rule = Callable[..., tuple[np.ndarray, Callable[[np.ndarray], tuple]]]


@primitive
def _carried(value, back, *parents):
    """A value that was computed already; `back` maps its gradient to those of all parents."""
    return value


defvjp_argnums(
    _carried,
    lambda argnums, ans, args, kwargs: (
        lambda g: (lambda all_of_them: [all_of_them[k - 2] for k in argnums])(args[1](g))
    ),
)


def fused(rule: Rule) -> Callable:
    """Make a rule (arrays -> value, back) one differentiable operation that keeps its intermediate results."""

    @wraps(rule)
    def operation(*parents):
        return _carried(*rule(*map(getval, parents)), *parents)

    return operation


@primitive
def part(a, start: int, stop: int, shape: tuple[int, ...]):
    """a[start:stop] in another shape; unlike an index of autograd's own, its gradient is added in place."""
    return a[start:stop].reshape(shape)


def _into(a, start: int, stop: int, g: np.ndarray) -> SparseObject:
    def add(total: np.ndarray) -> np.ndarray:
        total[start:stop] += g.reshape(total[start:stop].shape)
        return total

    return SparseObject(vspace(a), add)


defvjp(part, lambda ans, a, start, stop, shape: lambda g: _into(a, start, stop, g), argnums=(0,))


def softmax(logits: np.ndarray, axis: int = -1) -> np.ndarray:
    """Exponentials that sum to 1 along an axis."""
    e = logits - logits.max(axis=axis, keepdims=True)
    np.exp(e, out=e)
    e /= e.sum(axis=axis, keepdims=True)
    return e


def _rows(a: np.ndarray) -> np.ndarray:
    """(S, batch, items, width) as (S, batch·items, width)."""
    return a.reshape(len(a), -1, a.shape[-1])


def _turned(a: np.ndarray) -> np.ndarray:
    return np.swapaxes(a, -1, -2)


def _mean(a: np.ndarray) -> np.ndarray:
    """Mean over the last axis, kept; as a product this takes half the time of `mean`."""
    return a @ np.full((a.shape[-1], 1), 1 / a.shape[-1], dtype=a.dtype)


@fused
def mlp(x, w1, b1, w2, b2):
    """Two layers with GELU: x (S, b, n, in), w1 (S, in, hidden), b1 (S, 1, hidden), w2, b2 likewise."""
    rows = _rows(x)
    a = rows @ w1
    a += b1
    gate = np.tanh((0.5 * SLOPE) * a)  # in place from here: the arrays are large enough for copies to count
    gate *= 0.5
    gate += 0.5
    hidden = a * gate
    value = hidden @ w2
    value += b2

    def back(g):
        g = _rows(g)
        da = SLOPE * hidden
        da *= 1 - gate
        da += gate
        da *= g @ _turned(w2)
        ones = np.ones((1, 1, g.shape[1]), dtype=g.dtype)
        dx = (da @ _turned(w1)).reshape(x.shape)
        return dx, _turned(rows) @ da, ones @ da, _turned(hidden) @ g, ones @ g

    return value.reshape(*x.shape[:-1], -1), back


@fused
def layer_norm(x):
    """Zero mean and unit variance over the width, without gain and bias."""
    centred = x - _mean(x)
    scale = 1 / np.sqrt(_mean(centred * centred) + EPSILON)
    value = centred * scale

    def back(g):
        return (scale * (g - _mean(g) - value * _mean(g * value)),)

    return value, back


@fused
def attention(z, wq, wk, wv, wo):
    """One head over the tokens z (S, b, m, d), matrices (S, d, d) without bias; no residual."""
    rows, scale = _rows(z), z.shape[-1] ** -0.5
    q, k, v = ((rows @ w).reshape(z.shape) for w in (wq, wk, wv))
    weights = softmax(scale * (q @ _turned(k)))
    mixed = _rows(weights @ v)

    def back(g):
        g = _rows(g)
        dmixed = (g @ _turned(wo)).reshape(z.shape)
        dweights = dmixed @ _turned(v)
        dlogits = scale * weights * (dweights - (dweights * weights).sum(axis=-1, keepdims=True))
        parts = [_rows(a) for a in (dlogits @ k, _turned(dlogits) @ q, _turned(weights) @ dmixed)]
        dz = sum(a @ _turned(w) for a, w in zip(parts, (wq, wk, wv), strict=True))
        return (dz.reshape(z.shape), *(_turned(rows) @ a for a in parts), _turned(mixed) @ g)

    return (mixed @ wo).reshape(z.shape), back


@fused
def slice_weights(h, w):
    """Share (S, b, n, m) of every point in every slice: softmax over slices of h w / 0.5."""
    rows = _rows(h)
    s = softmax((rows @ w) / TEMPERATURE)

    def back(g):
        g = _rows(g)
        dlogits = s * (g - (g * s).sum(axis=-1, keepdims=True)) / TEMPERATURE
        return (dlogits @ _turned(w)).reshape(h.shape), _turned(rows) @ dlogits

    return s.reshape(*h.shape[:-1], -1), back


@fused
def pooling(h, s, w):
    """Tokens (S, b, m, d): the mean of h w over the points, weighted by their share s in the slice."""
    rows = _rows(h)
    points = (rows @ w).reshape(h.shape)
    mass = s.sum(axis=2)[..., None]
    tokens = (_turned(s) @ points) / mass

    def back(g):
        g = g / mass
        dpoints = _rows(s @ g)
        ds = points @ _turned(g) - _turned((g * tokens).sum(axis=-1, keepdims=True))
        return (dpoints @ _turned(w)).reshape(h.shape), ds, _turned(rows) @ dpoints

    return tokens, back


def shares(c: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Weights (D, C, b, m, d) of the C terms c (C, b, m, d) for D solids with matrices w (D, d, d)."""
    logits = _rows(c)[None] @ w[:, None]
    return softmax(logits, axis=1).reshape(len(w), *c.shape)


@fused
def allocation(c, w):
    """For each solid the weighted sum (D, b, m, d) of all terms c, with a weight for every slice and feature."""
    p = shares(c, w)
    value = (p * c).sum(axis=1)

    def back(g):
        share = p * g[:, None]
        dlogits = (share * (c - value[:, None])).reshape(len(w), len(c), -1, c.shape[-1])
        dc = share.sum(axis=0) + (dlogits @ _turned(w)[:, None]).sum(axis=0).reshape(c.shape)
        return dc, (_turned(_rows(c)) @ dlogits).sum(axis=1)

    return value, back


@fused
def deslicing(s, tokens):
    """Every point (S, b, n, d) gets the tokens of its slices, by its shares s."""
    return s @ tokens, lambda g: (g @ _turned(tokens), _turned(s) @ g)
