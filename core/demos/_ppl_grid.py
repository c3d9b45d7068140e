"""A slippery grid world with exact maximum-entropy values, walks through it, and occupancies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp, softmax

SIDE, ACTIONS = 5, 4
STATES = SIDE * SIDE


@dataclass(frozen=True)
class World:
    """Transitions (S, A, S), reward per state (S,), discount, temperature."""

    move: np.ndarray
    reward: np.ndarray
    gamma: float
    alpha: float


def make_world(slip: float, scale: float, gamma: float, rng: np.random.Generator) -> World:
    """5×5 cells: a goal in the last corner, four random holes, walls that keep one in place."""
    steps = np.array([(-1, 0), (1, 0), (0, -1), (0, 1)])
    cell = np.arange(STATES)
    target = np.empty((STATES, ACTIONS), dtype=int)
    for a, (dr, dc) in enumerate(steps):
        r, c = np.clip(cell // SIDE + dr, 0, SIDE - 1), np.clip(cell % SIDE + dc, 0, SIDE - 1)
        target[:, a] = r * SIDE + c
    sure = np.eye(STATES)[target]
    move = (1 - slip) * sure + slip * sure.mean(1, keepdims=True)
    reward = np.full(STATES, -0.1)
    reward[rng.choice(np.arange(1, STATES - 1), 4, replace=False)] = -1.0
    reward[-1] = 1.0
    return World(move, reward * scale, gamma, 0.2 * scale)


def soft_optimal(w: World) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Q* (S, A), V* (S,) and the policy (S, A) of the maximum-entropy problem."""
    v = np.zeros(STATES)
    for _ in range(10_000):
        q = w.reward[:, None] + w.gamma * w.move @ v
        new = w.alpha * logsumexp(q / w.alpha, axis=1)
        if np.abs(new - v).max() < 1e-12 * max(1.0, np.abs(new).max()):
            break
        v = new
    return q, new, softmax(q / w.alpha, axis=1)


def _log(policy: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(policy, 1e-300))


def soft_q(w: World, policy: np.ndarray) -> np.ndarray:
    """Q (S, A) of a policy with its entropy counted from the next step on."""
    chain = np.einsum("sa,sap->sp", policy, w.move)
    entropy = -(policy * _log(policy)).sum(1) * w.alpha
    v = np.linalg.solve(np.eye(STATES) - w.gamma * chain, w.reward + entropy)
    return w.reward[:, None] + w.gamma * w.move @ v


def plain_return(w: World, policy: np.ndarray) -> float:
    """Discounted reward without entropy from a uniform start."""
    chain = np.einsum("sa,sap->sp", policy, w.move)
    return float(np.linalg.solve(np.eye(STATES) - w.gamma * chain, w.reward).mean())


def future(move: np.ndarray, policy: np.ndarray, gamma: float) -> np.ndarray:
    """Discounted occupancy (S, A, S) of the states after (s, a), the present step not counted."""
    chain = np.einsum("sa,sap->sp", policy, move)
    return gamma * move @ np.linalg.inv(np.eye(STATES) - gamma * chain)


def divergence(policy: np.ndarray, other: np.ndarray) -> np.ndarray:
    """KL(policy ‖ other) per state (S,)."""
    return (policy * (_log(policy) - _log(other))).sum(1)


def walks(w: World, policies: np.ndarray, who: np.ndarray, steps: int, rng: np.random.Generator):
    """States and actions (n, steps) of walks from uniform starts, walker i by policies[who[i]]; all at once."""
    n = len(who)
    state = rng.integers(0, STATES, n)
    states, actions = np.empty((n, steps), dtype=int), np.empty((n, steps), dtype=int)
    for t in range(steps):
        u = rng.random((n, 1))
        action = (policies[who, state].cumsum(1) < u).sum(1).clip(max=ACTIONS - 1)
        states[:, t], actions[:, t] = state, action
        u = rng.random((n, 1))
        state = (w.move[state, action].cumsum(1) < u).sum(1).clip(max=STATES - 1)
    return states, actions


def counted(states: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """Transitions (S, A, S) estimated from recorded walks, plus 0.001 spread evenly."""
    count = np.full((STATES, ACTIONS, STATES), 0.001 / STATES)
    np.add.at(count, (states[:, :-1].ravel(), actions[:, :-1].ravel(), states[:, 1:].ravel()), 1)
    return count / count.sum(2, keepdims=True)
