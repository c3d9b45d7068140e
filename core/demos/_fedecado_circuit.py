"""FedECADO's parts: the clients' local work, the server's implicit step, and the averaging baselines."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from core.lab.federated import loss_gradient

FEDAVG, FEDPROX, FEDEXP, FEDNOVA = "FedAvg", "FedProx", "FedExP", "FedNova"
MU, PULL = 0.01, 0.3


@dataclass(frozen=True)
class Clients:
    """Everybody's data and speed: rows x_i (n_i, 21), one-hot y_i (10, n_i), shares, steps, epochs, curvature."""

    x: list[np.ndarray]
    y: list[np.ndarray]
    share: np.ndarray
    step: np.ndarray
    epochs: np.ndarray
    curvature: np.ndarray

    @property
    def window(self) -> np.ndarray:
        """Simulated time T_i (N,) of one round of each client."""
        return self.step * self.epochs

    def work(self, i: int, start: np.ndarray, pull: np.ndarray | float = 0.0, prox: float = 0.0) -> np.ndarray:
        """End state (10, 21) of a client's local steps; `pull` is the flow I_i, `prox` the weight of w − start."""
        w = start.copy()
        for _ in range(self.epochs[i]):
            w -= self.step[i] * (loss_gradient(w, self.x[i], self.y[i], MU) - pull + prox * (w - start))
        return w


@dataclass
class ServerStep:
    """One backward-Euler step: the new centre, flows (k, 10, 21) and client states (k, 10, 21)."""

    centre: np.ndarray
    flows: np.ndarray
    states: np.ndarray


def backward_euler(
    size: float, centre: np.ndarray, flows: np.ndarray, start: np.ndarray, gamma: np.ndarray, conductance: np.ndarray,
    share: np.ndarray, idle: np.ndarray, inductance: float,
) -> ServerStep:  # fmt: skip
    """Solve the circuit's implicit equations of one step in closed form.

    flows, start, gamma, conductance (k, 10, 21) are of the active clients with shares (k,); `start` are the
    flows at the beginning of the round, `idle` the frozen sum of the others (10, 21).
    """
    below = inductance + size / conductance
    beta = size / below
    alpha = (inductance * flows + size * (start / conductance - gamma)) / below
    p = share[:, None, None]
    new_centre = (centre - size * (idle + (p * alpha).sum(0))) / (1 + size * (p * beta).sum(0))
    new_flows = alpha + beta * new_centre
    return ServerStep(new_centre, new_flows, gamma + (new_flows - start) / conductance)


def average_round(c: Clients, centre: np.ndarray, chosen: np.ndarray, method: str) -> np.ndarray:
    """One round of FedAvg, FedProx, FedExP or FedNova."""
    prox = PULL if method == FEDPROX else 0.0
    moves = np.stack([centre - c.work(i, centre, prox=prox) for i in chosen])
    q = c.share[chosen] / c.share[chosen].sum()
    if method == FEDNOVA:
        window = c.window[chosen]
        return centre - (q @ window) * np.tensordot(q / window, moves, 1)
    step = np.tensordot(q, moves, 1)
    if method == FEDEXP:
        stretch = (q * (moves**2).sum((1, 2))).sum() / (2 * ((step**2).sum() + 1e-3))
        step = max(1.0, float(stretch)) * step
    return centre - step
