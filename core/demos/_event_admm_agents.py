"""The agents of event-based ADMM, how digits are split over them, and the averaging baselines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from core.lab.federated import CLASSES, dirichlet_split, loss, one_hot, pool, softmax

FEDADMM, SCAFFOLD, FEDAVG, FEDPROX = "FedADMM", "SCAFFOLD", "FedAvg", "FedProx"
MU, STEP, TARGET = 0.01, 1.0, 0.01
PENALTY = {FEDADMM: 0.05, FEDPROX: 0.05}
RATE = {FEDADMM: 0.5, SCAFFOLD: 0.2, FEDAVG: 0.3, FEDPROX: 0.3}


@dataclass(frozen=True)
class Agents:
    """The agents' data as padded blocks: x (N, n, 21) with row weights folded in, y (N, 10, n), sizes (N,)."""

    x: np.ndarray
    xw: np.ndarray
    y: np.ndarray
    flat_x: np.ndarray
    flat_y: np.ndarray
    flat_w: np.ndarray

    @property
    def count(self) -> int:
        return len(self.x)

    def gradient(self, w: np.ndarray, which: slice | np.ndarray = slice(None)) -> np.ndarray:
        """Gradients (k, 10, 21) of f_i at w (k, 10, 21) for the agents `which`."""
        p = softmax(w @ self.x[which].transpose(0, 2, 1), axis=1)
        return (p - self.y[which]) @ self.xw[which] + MU * w

    def objective(self, w: np.ndarray) -> float:
        return loss(w, self.flat_x, self.flat_y, MU, self.flat_w)


def split_rows(labels: np.ndarray, kind: str, agents: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Row indices of each agent. Raises ValueError where the split needs more agents."""
    if kind == "iid":
        return list(np.array_split(rng.permutation(len(labels)), agents))
    if kind == "one class":
        return list(np.array_split(np.argsort(labels, kind="stable"), agents))
    if kind == "dirichlet":
        own = dirichlet_split(labels, agents, 0.1, rng)
        return [o if len(o) else rng.choice(len(labels), 5, replace=False) for o in own]
    if agents < 3:
        raise ValueError("agents: a rare-class split needs at least 3")
    common = rng.permutation(np.flatnonzero(labels < 8))
    size = len(common) // (agents - 2)
    rare = [np.flatnonzero(labels == c)[:size] for c in (8, 9)]
    return [*np.split(common[: size * (agents - 2)], agents - 2), *rare]


def deal(split: str, count: int, seed: int) -> Agents:
    """The digits as blocks over agents."""
    data = pool(seed)
    rows = split_rows(data.y, split, count, np.random.default_rng([seed, 1]))
    longest = max(map(len, rows))
    x = np.zeros((len(rows), longest, data.x.shape[1]))
    xw, y = x.copy(), np.zeros((len(rows), CLASSES, longest))
    for i, own in enumerate(rows):
        x[i, : len(own)] = data.x[own]
        xw[i, : len(own)] = data.x[own] / len(own)
        y[i, :, : len(own)] = one_hot(data.y[own])
    flat = np.concatenate(rows)
    weight = np.concatenate([np.full(len(own), 1 / len(own) / len(rows)) for own in rows])
    return Agents(x, xw, y, data.x[flat], data.y[flat], weight)


@dataclass
class Trace:
    """One method's path: gap and accuracy after each round against messages sent so far."""

    messages: list[float]
    gap: list[float]
    accuracy: list[float]
    spoke: np.ndarray | None = None

    def to_target(self) -> float:
        """Messages until the gap is at most the target; infinite if never."""
        below_ = np.flatnonzero(np.array(self.gap) <= TARGET)
        return self.messages[below_[0]] if len(below_) else np.inf


def local(
    agents: Agents, start: np.ndarray, steps: int, extra, which: slice | np.ndarray = slice(None)
) -> np.ndarray:
    """Gradient steps from `start` (k, 10, 21) with `extra(w)` added to the gradient."""
    w = start.copy()
    for _ in range(steps):
        w -= STEP * (agents.gradient(w, which) + extra(w))
    return w


def norms(v: np.ndarray) -> np.ndarray:
    return np.sqrt((v**2).sum((1, 2)))


Score = Callable[[Trace, int, np.ndarray], None]


def averaging(agents: Agents, rounds: int, local_steps: int, seed: int, score: Score, method: str) -> Trace:
    """FedAvg, FedProx, SCAFFOLD or FedADMM with a random subset of agents a round, on a lossless link."""
    n, shape = agents.count, (CLASSES, agents.x.shape[2])
    rng = np.random.default_rng([seed, 3])
    z, sent, trace = np.zeros(shape), 0, Trace([], [], [])
    size = max(1, round(RATE[method] * n))
    rho = PENALTY.get(method, 0.0)
    control_own, control_mean = np.zeros((n, *shape)), np.zeros(shape)  # SCAFFOLD's c_i and c
    u, last = np.zeros((n, *shape)), np.zeros((n, *shape))  # FedADMM's duals and last-sent values
    for _ in range(rounds):
        chosen = np.sort(rng.choice(n, size, replace=False))
        start = np.broadcast_to(z, (size, *shape))
        if method == SCAFFOLD:
            drift = control_mean - control_own[chosen]
            x = local(agents, start, local_steps, lambda w, drift=drift: drift, chosen)
            new = control_own[chosen] - control_mean + (z - x) / (local_steps * STEP)
            control_mean = control_mean + (new - control_own[chosen]).sum(0) / n
            control_own[chosen] = new
            z = z + (x - z).mean(0)
        elif method == FEDADMM:
            pull = u[chosen] - z
            x = local(agents, start, local_steps, lambda w, pull=pull: rho * (w + pull), chosen)
            u[chosen] += x - z
            last[chosen] = x + u[chosen]
            z = last.mean(0)
        else:
            x = local(agents, start, local_steps, lambda w, z=z: rho * (w - z), chosen)
            z = x.mean(0)
        sent += (4 if method == SCAFFOLD else 2) * size
        score(trace, sent, z)
    return trace
