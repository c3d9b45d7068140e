"""Batches of two-layer ReLU networks, their gradients and directions, and the tangent kernel at infinite width."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass
class Nets:
    """A batch of networks: w (b, m, d), a (b, m)."""

    w: np.ndarray
    a: np.ndarray

    def outputs(self, x: np.ndarray) -> np.ndarray:
        """Outputs (b, n) for x (n, d) or one set per network (b, n, d)."""
        return (np.maximum(x @ np.swapaxes(self.w, 1, 2), 0) @ self.a[..., None])[..., 0]


def gradients(nets: Nets, x: np.ndarray, y: np.ndarray, n: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gradients of mean half squared error for w and a, and the mean squared error (b,).

    Rows beyond a network's own n are zero in x (b, 256, d) and y (b, 256): they add nothing.
    """
    before = x @ np.swapaxes(nets.w, 1, 2)
    hidden = np.maximum(before, 0)
    residual = (hidden @ nets.a[..., None])[..., 0] - y
    r = residual / n[:, None]
    for_a = (r[:, None] @ hidden)[:, 0]
    for_w = np.swapaxes((before > 0) * r[..., None] * nets.a[:, None], 1, 2) @ x
    return for_w, for_a, (residual**2).sum(1) / n


def kernel(x: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Tangent kernel (n, k) of the network at infinite width; a zero row gives 0."""
    length = np.linalg.norm(x, axis=1)[:, None] * np.linalg.norm(z, axis=1)
    rho = np.clip(np.divide(x @ z.T, length, out=np.zeros_like(length), where=length > 0), -1, 1)
    theta = np.arccos(rho)
    zero, one = (np.pi - theta) / np.pi, (np.sin(theta) + (np.pi - theta) * rho) / np.pi
    return length / 2 * (one + rho * zero)


def alignment(w: np.ndarray, a: np.ndarray, beta: np.ndarray) -> float:
    """Weighted mean of s_j·cos(w_j, β), weights |a_j|‖w_j‖: 1 if every neuron points to its own end of β."""
    length = np.linalg.norm(w, axis=1)
    weight = np.abs(a) * length
    cosine = w @ beta / np.maximum(length, 1e-30)
    return float((weight * np.sign(a) * cosine).sum() / max(weight.sum(), 1e-30))


def directions(w: np.ndarray, a: np.ndarray) -> int:
    """Number of cones (cos > 0.98, same sign), taken greedily, that cover 99 % of the weight."""
    length = np.linalg.norm(w, axis=1)
    weight = np.abs(a) * length
    unit = w / np.maximum(length, 1e-30)[:, None]
    same = (unit @ unit.T > 0.98) & (np.sign(a)[:, None] == np.sign(a))
    left, count, total = weight.copy(), 0, weight.sum()
    while left.sum() > 0.01 * total and count < len(a):
        left[same[np.argmax(same @ left)]] = 0
        count += 1
    return count


def neurons(nets: Nets, i: int, beta: np.ndarray) -> np.ndarray:
    """Neurons (m, 4): cosine to β, cosine to a fixed direction across, weight, sign."""
    length = np.linalg.norm(nets.w[i], axis=1)
    unit = nets.w[i] / np.maximum(length, 1e-30)[:, None]
    across = np.eye(len(beta))[int(np.argmin(np.abs(beta)))]
    across = across - beta * (across @ beta)
    across /= np.linalg.norm(across)
    return np.column_stack([unit @ beta, unit @ across, np.abs(nets.a[i]) * length, np.sign(nets.a[i])])


def onset(sizes: np.ndarray, reached: np.ndarray) -> float:
    """The smallest size from which `reached` (k,) is true for it and all larger ones; NaN if there is none."""
    before = np.flatnonzero(~reached)
    place = before[-1] + 1 if len(before) else 0
    return float(sizes[place]) if place < len(sizes) else np.nan
