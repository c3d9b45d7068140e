"""The task, and the non-linear half of the theory: one adapted neuron against a network of erf units, by HMC."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import erf

WALKERS, ROUNDS = 150, 40


def ising(p: int, d: int, signal: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Kernel K (p, p) and labels ±1 (p,): each of d bits equals the label with probability ½ + signal."""
    y = np.where(np.arange(p) % 2, -1.0, 1.0)
    x = np.where(rng.random((p, d)) < 0.5 + signal, y[:, None], -y[:, None])
    return x @ x.T / d, y


def align(kernel: np.ndarray, y: np.ndarray) -> float:
    """Alignment of a kernel with labels, in [−1, 1]."""
    return float(y @ kernel @ y / (np.linalg.norm(kernel) * (y @ y)))


def slope(h: np.ndarray) -> np.ndarray:
    """Derivative of erf."""
    return 2 / np.sqrt(np.pi) * np.exp(-h * h)


def arcsine_kernel(k: np.ndarray) -> np.ndarray:
    """E[erf(h) erf(h)ᵀ] for h ~ N(0, k), in closed form (Williams, 1998)."""
    scale = np.sqrt(1 + 2 * np.diag(k))
    return 2 / np.pi * np.arcsin(2 * k / np.outer(scale, scale))


@dataclass
class Adapted:
    """Mean output (P,) and feature kernel (P, P) of a theory or a network; `accepted` is HMC's acceptance."""

    mean: np.ndarray
    kernel: np.ndarray
    accepted: float = 1.0


def walk(z: np.ndarray, root: np.ndarray, a: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, float]:
    """One HMC move of all walkers z (S, P) in p(h) ∝ N(h; 0, K) exp(½(φ(h)·a)²) with h = root z."""

    def energy(z: np.ndarray) -> np.ndarray:
        return 0.5 * (z**2).sum(1) - 0.5 * (erf(z @ root.T) @ a) ** 2

    def gradient(z: np.ndarray) -> np.ndarray:
        h = z @ root.T
        return z - ((erf(h) @ a)[:, None] * slope(h) * a) @ root

    step = 0.2 * rng.uniform(0.7, 1.2)
    momentum = rng.normal(size=z.shape)
    before = energy(z) + 0.5 * (momentum**2).sum(1)
    new = z.copy()
    momentum = momentum - 0.5 * step * gradient(new)
    for k in range(5):
        new = new + step * momentum
        momentum = momentum - (step if k < 4 else 0.5 * step) * gradient(new)
    after = energy(new) + 0.5 * (momentum**2).sum(1)
    accept = np.log(rng.random(len(z))) < before - after
    return np.where(accept[:, None], new, z), float(accept.mean())


def adaptive_theory(k: np.ndarray, y: np.ndarray, n: int, g: float, kappa: float, scalings: list[float],
                    rng: np.random.Generator) -> dict[float, Adapted]:  # fmt: skip
    """Self-consistent single-neuron theory, annealed over the scalings χ from small to large."""
    root = np.linalg.cholesky(k + 1e-10 * np.eye(len(k)))
    c, z, found = arcsine_kernel(k), rng.normal(size=(WALKERS, len(k))), {}
    for chi in scalings:
        gc, kc = g / chi, kappa / chi
        total, rate = np.zeros_like(c), []
        for r in range(ROUNDS):
            dual = np.linalg.solve(gc * c + kc * np.eye(len(k)), y)
            z, accepted = walk(z, root, np.sqrt(gc / n) * dual, rng)
            features = erf(z @ root.T)
            c = 0.85 * c + 0.15 * features.T @ features / WALKERS
            rate.append(accepted)
            if r >= ROUNDS // 2:
                total += c
        c = total / (ROUNDS - ROUNDS // 2)
        mean = gc * c @ np.linalg.solve(gc * c + kc * np.eye(len(k)), y)
        found[chi] = Adapted(mean, c, float(np.mean(rate)))
    return found


def network(k: np.ndarray, y: np.ndarray, n: int, g: float, kappa: float, chi: float,
            rng: np.random.Generator, moves: int = 160, dropped: int = 40) -> Adapted:  # fmt: skip
    """The truth: HMC on all weights of a network of n erf units; posterior mean output and feature kernel."""
    gc, kc = g / chi, kappa / chi
    root, scale = np.linalg.cholesky(k + 1e-10 * np.eye(len(k))), np.sqrt(gc / n)
    z, w = rng.normal(size=(n, len(k))), rng.normal(size=n)

    def look(z: np.ndarray, w: np.ndarray):
        h = z @ root.T
        phi = erf(h)
        residual = (y - scale * w @ phi) / kc
        energy = 0.5 * (z**2).sum() + 0.5 * (w**2).sum() + 0.5 * kc * (residual**2).sum()
        return energy, phi, z - (scale * w[:, None] * residual * slope(h)) @ root, w - scale * phi @ residual

    energy, phi, gz, gw = look(z, w)
    mean, kernel, accepted = np.zeros(len(k)), np.zeros_like(k), 0
    for move in range(moves):
        step = 0.2 * rng.uniform(0.7, 1.2)
        pz, pw = rng.normal(size=z.shape), rng.normal(size=n)
        before = energy + 0.5 * (pz**2).sum() + 0.5 * (pw**2).sum()
        new_z, new_w, state = z, w, (energy, phi, gz, gw)
        for _ in range(8):
            pz, pw = pz - 0.5 * step * state[2], pw - 0.5 * step * state[3]
            new_z, new_w = new_z + step * pz, new_w + step * pw
            state = look(new_z, new_w)
            pz, pw = pz - 0.5 * step * state[2], pw - 0.5 * step * state[3]
        after = state[0] + 0.5 * (pz**2).sum() + 0.5 * (pw**2).sum()
        if np.log(rng.random()) < before - after:
            z, w, accepted = new_z, new_w, accepted + 1
            energy, phi, gz, gw = state
        if move >= dropped:
            mean += scale * w @ phi
            kernel += phi.T @ phi / n
    kept = moves - dropped
    return Adapted(mean / kept, kernel / kept, accepted / moves)
