"""A small vision transformer for fields on a grid, with its gradient written out in NumPy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

PATCH, WIDTH, HIDDEN = 6, 32, 64
NAMES = ("embed", "position", "given", "given_bias", "given_out", "qkv", "o", "mlp", "mlp_bias", "mlp_out", "mlp_out_bias",
         "out", "out_bias", "skip")  # fmt: skip
Weights = dict[str, np.ndarray]


def patch(fields: np.ndarray) -> np.ndarray:
    """Fields (…, C, ny, nx) as tokens (…, tokens, C · 36), row by row."""
    *lead, c, ny, nx = fields.shape
    a = fields.reshape(*lead, c, ny // PATCH, PATCH, nx // PATCH, PATCH)
    a = np.moveaxis(a, (-4, -2), (-5, -4))
    return a.reshape(*lead, (ny // PATCH) * (nx // PATCH), c * PATCH * PATCH)


def unpatch(tokens: np.ndarray, ny: int, nx: int) -> np.ndarray:
    """The inverse of `patch`: fields (…, C, ny, nx)."""
    *lead, _, size = tokens.shape
    a = tokens.reshape(*lead, ny // PATCH, nx // PATCH, size // PATCH**2, PATCH, PATCH)
    a = np.moveaxis(a, (-5, -4), (-4, -2))
    return a.reshape(*lead, size // PATCH**2, ny, nx)


def initial(
    rng: np.random.Generator, tokens: int, inputs: int, given: int, outputs: int, dtype: type = np.float32
) -> Weights:
    """Start: normal / √fan-in, smaller where a branch should begin near nothing."""

    def normal(fan: int, *shape: int, scale: float = 1.0) -> np.ndarray:
        return (rng.normal(size=(fan, *shape)) * scale / np.sqrt(fan)).astype(dtype)

    w = {
        "embed": normal(inputs, WIDTH),
        "position": (0.02 * rng.normal(size=(tokens, WIDTH))).astype(dtype),
        "given": normal(given, HIDDEN),
        "given_out": normal(HIDDEN, tokens * WIDTH, scale=0.3),
        "qkv": normal(WIDTH, 3 * WIDTH),
        "o": normal(WIDTH, WIDTH, scale=0.3),
        "mlp": normal(WIDTH, HIDDEN),
        "mlp_out": normal(HIDDEN, WIDTH, scale=0.3),
        "out": normal(WIDTH, outputs, scale=0.1),
    }
    zeros = {"given_bias": HIDDEN, "mlp_bias": HIDDEN, "mlp_out_bias": WIDTH, "out_bias": outputs}
    w |= {name: np.zeros(n, dtype) for name, n in zeros.items()}
    w["skip"] = np.zeros((inputs, outputs), dtype)
    return {name: w[name] for name in NAMES}


def sigmoid(a: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-1.7 * a))


def rms(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """x over its root mean square, and the factor."""
    factor = 1 / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-6)
    return x * factor, factor


def rms_back(d: np.ndarray, normed: np.ndarray, factor: np.ndarray) -> np.ndarray:
    return factor * (d - normed * (d * normed).mean(axis=-1, keepdims=True))


def gelu_back(d: np.ndarray, a: np.ndarray, s: np.ndarray) -> np.ndarray:
    """Gradient through a · s(a), with s = sigmoid(1.7 a)."""
    return d * (s + 1.7 * a * s * (1 - s))


def product(x: np.ndarray, d: np.ndarray) -> np.ndarray:
    """Gradient (inputs, outputs) of a matrix that acts on the last axis of x."""
    return x.reshape(-1, x.shape[-1]).T @ d.reshape(-1, d.shape[-1])


@dataclass(frozen=True)
class Pass:
    """What the gradient needs from a forward pass."""

    a0: np.ndarray
    s0: np.ndarray
    n1: np.ndarray
    f1: np.ndarray
    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    attention: np.ndarray
    mixed: np.ndarray
    n2: np.ndarray
    f2: np.ndarray
    a2: np.ndarray
    s2: np.ndarray
    x: np.ndarray


def forward(w: Weights, tokens: np.ndarray, given: np.ndarray) -> tuple[np.ndarray, Pass]:
    """Output (n, tokens, outputs) for patches (n, tokens, inputs) under conditions (n, given)."""
    a0 = given @ w["given"] + w["given_bias"]
    s0 = sigmoid(a0)
    told = ((a0 * s0) @ w["given_out"]).reshape(len(tokens), *w["position"].shape)
    x = tokens @ w["embed"] + w["position"] + told
    n1, f1 = rms(x)
    q, k, v = np.split(n1 @ w["qkv"], 3, axis=-1)
    score = q @ np.swapaxes(k, 1, 2) / np.float32(np.sqrt(WIDTH))
    attention = np.exp(score - score.max(axis=-1, keepdims=True))
    attention /= attention.sum(axis=-1, keepdims=True)
    mixed = attention @ v
    x = x + mixed @ w["o"]
    n2, f2 = rms(x)
    a2 = n2 @ w["mlp"] + w["mlp_bias"]
    s2 = sigmoid(a2)
    x = x + (a2 * s2) @ w["mlp_out"] + w["mlp_out_bias"]
    out = x @ w["out"] + w["out_bias"] + tokens @ w["skip"]
    return out, Pass(a0, s0, n1, f1, q, k, v, attention, mixed, n2, f2, a2, s2, x)


def backward(w: Weights, tokens: np.ndarray, given: np.ndarray, p: Pass, d: np.ndarray) -> Weights:
    """Gradient of every weight from the gradient d of the output."""
    g = {"skip": product(tokens, d), "out": product(p.x, d), "out_bias": d.sum(axis=(0, 1))}
    dx = d @ w["out"].T
    g |= {"mlp_out": product(p.a2 * p.s2, dx), "mlp_out_bias": dx.sum(axis=(0, 1))}
    da = gelu_back(dx @ w["mlp_out"].T, p.a2, p.s2)
    g |= {"mlp": product(p.n2, da), "mlp_bias": da.sum(axis=(0, 1))}
    dx = dx + rms_back(da @ w["mlp"].T, p.n2, p.f2)
    g["o"] = product(p.mixed, dx)
    dm = dx @ w["o"].T
    ds = dm @ np.swapaxes(p.v, 1, 2)
    ds = p.attention * (ds - (ds * p.attention).sum(axis=-1, keepdims=True)) / np.float32(np.sqrt(WIDTH))
    dqkv = np.concatenate([ds @ p.k, np.swapaxes(ds, 1, 2) @ p.q, np.swapaxes(p.attention, 1, 2) @ dm], axis=-1)
    g["qkv"] = product(p.n1, dqkv)
    dx = dx + rms_back(dqkv @ w["qkv"].T, p.n1, p.f1)
    g |= {"position": dx.sum(axis=0), "embed": product(tokens, dx)}
    told = dx.reshape(len(dx), -1)
    g["given_out"] = (p.a0 * p.s0).T @ told
    da = gelu_back(told @ w["given_out"].T, p.a0, p.s0)
    g |= {"given": given.T @ da, "given_bias": da.sum(axis=0)}
    return {name: g[name] for name in NAMES}


def loss_and_gradient(
    w: Weights, tokens: np.ndarray, given: np.ndarray, target: np.ndarray, wet: np.ndarray
) -> tuple[float, Weights]:
    """Mean square error over wet cells (mask (tokens, outputs) of 0 and 1), and its gradient."""
    out, kept = forward(w, tokens, given)
    error = (out - target) * wet
    count = len(tokens) * wet.sum()
    return float((error * error).sum() / count), backward(w, tokens, given, kept, error * (2 / count))
