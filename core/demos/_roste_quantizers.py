"""Uniform quantizers, random Hadamard rotations, GPTQ, and quantized least squares."""

from __future__ import annotations

import numpy as np
from scipy.linalg import hadamard as sylvester

SIZES = (1.0, 3.0, 10.0, 30.0)
"""Sizes of the outliers in least squares."""


def check_bits(bits: int) -> None:
    if not 2 <= bits <= 16:
        raise ValueError(f"bits cannot be {bits}: it may be 2 to 16")


def _finite(x: np.ndarray) -> None:
    if not np.isfinite(x).all():
        raise ValueError("quantizer input: there is a NaN or an infinity in a tensor before it is quantized")


def scale_of(x: np.ndarray, bits: int, axis: int = -1) -> np.ndarray:
    """Step of the symmetric quantizer along an axis, kept; 1 where all entries are 0."""
    check_bits(bits)
    top = np.abs(x).max(axis=axis, keepdims=True)
    _finite(top)
    s = top / x.dtype.type(2 ** (bits - 1) - 1)
    return np.where(s == 0, x.dtype.type(1), s)


def symmetric(x: np.ndarray, bits: int, axis: int = -1, scale: np.ndarray | None = None) -> np.ndarray:
    """Weights: levels around 0, one step size along `axis` (or a given `scale`)."""
    s = scale_of(x, bits, axis) if scale is None else scale
    half = 2 ** (bits - 1)
    out = np.rint(x / s)
    np.clip(out, -half, half - 1, out=out)
    out *= s
    return out


def levels_of(x: np.ndarray, bits: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Codes 0…2^b − 1, step and zero point of the asymmetric quantizer along the last axis."""
    check_bits(bits)
    low = np.minimum(x.min(axis=-1, keepdims=True), 0)
    s = np.maximum(x.max(axis=-1, keepdims=True), 0)
    s -= low
    _finite(s)
    s /= x.dtype.type(2**bits - 1)
    s[s == 0] = 1
    zero = np.rint(-low / s)
    code = x / s
    np.rint(code, out=code)
    code += zero
    np.clip(code, 0, 2**bits - 1, out=code)
    return code, s, zero


def asymmetric(x: np.ndarray, bits: int) -> np.ndarray:
    """Activations and caches: levels from min(x, 0) to max(x, 0), one step size along the last axis."""
    code, s, zero = levels_of(x, bits)
    code -= zero
    code *= s
    return code


def rotation(rng: np.random.Generator, d: int) -> np.ndarray:
    """Random signs times the Hadamard matrix over √d: orthogonal (d, d); d must be a power of two."""
    if d < 1 or d & (d - 1):
        raise ValueError(f"d cannot be {d}: a Hadamard matrix needs a power of two")
    return rng.choice([-1.0, 1.0], d)[:, None] * sylvester(d) / np.sqrt(d)


def gptq(w: np.ndarray, x: np.ndarray, bits: int, damping: float = 0.01) -> np.ndarray:
    """Round w (d, m) row by row and let the later rows make up for each error on the inputs x (n, d)."""
    w = w.astype(float).copy()
    s = scale_of(w, bits, axis=0)
    gram = x.astype(float).T @ x.astype(float)
    gram[np.diag_indices_from(gram)] += damping * np.diag(gram).mean() or 1.0
    upper = np.linalg.cholesky(np.linalg.inv(gram)).T
    out = np.empty_like(w)
    for i in range(len(w)):
        out[i] = symmetric(w[i : i + 1], bits, scale=s)[0]
        w[i + 1 :] -= np.outer(upper[i, i + 1 :], (w[i] - out[i]) / upper[i, i])
    return out


def least_squares(
    rng: np.random.Generator, bits: int, d: int = 64, n: int = 32, steps: int = 150
) -> tuple[np.ndarray, np.ndarray]:
    """Straight-through descent on quantized least squares, without and with rotation.

    Returns the loss and ‖e‖² in the Gram matrix of the features, each (sizes of outliers, 2): means over the
    last third of the steps. Features have 8 bits, weights `bits`.
    """
    x, turn = rng.standard_normal((n, d)), rotation(rng, d)
    first = np.repeat(rng.standard_normal((1, d)), len(SIZES), 0)
    first[:, rng.choice(d, 2, replace=False)] *= np.array(SIZES)[:, None]
    y = (first + 0.3 * rng.standard_normal(d)) @ x.T  # (sizes, n)
    features = np.stack([asymmetric(x, 8), asymmetric(x @ turn, 8)])
    w = np.stack([first, first @ turn], axis=1)  # (sizes, 2, d), in the turned coordinates
    rate = 0.5 / np.linalg.norm(features, 2, axis=(1, 2)) ** 2
    loss, error = [], []
    for _ in range(steps):
        q = symmetric(w, bits)
        miss = np.einsum("rnd,ard->arn", features, q) - y[:, None]
        loss.append(0.5 * (miss**2).mean(-1))
        error.append((np.einsum("rnd,ard->arn", features, q - w) ** 2).mean(-1))
        w = w - rate[:, None] * np.einsum("rnd,arn->ard", features, miss)
    last = -(steps // 3)
    return np.mean(loss[last:], axis=0), np.mean(error[last:], axis=0)
