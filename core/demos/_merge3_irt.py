"""Item response theory: calibrate an item bank, fit abilities, estimate a model's accuracy from few items."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

CALIBRATION_ROUNDS, ITEM_RIDGE, ABILITY_RIDGE = 30, 0.3, 1.0
FIT_STEPS, FIT_RIDGE, TOLERANCE = 30, 0.01, 1e-6
MEAN, P, GP, MP, GMP = "subset mean", "p-IRT", "gp-IRT", "mp-IRT", "gmp-IRT"
ESTIMATORS = (MEAN, P, GP, MP, GMP)
MIXED = (MP, GMP)
"""Those whose abilities are mixtures of the endpoints'."""


def logistic(z: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(−z)) without overflow."""
    return 0.5 * (1 + np.tanh(0.5 * z))


@dataclass(frozen=True)
class Bank:
    """Calibrated items: slopes (N, D) and difficulties (N,)."""

    slopes: np.ndarray
    difficulty: np.ndarray

    def chance(self, ability: np.ndarray) -> np.ndarray:
        """Probability of a right answer to every item (…, N) at abilities (…, D)."""
        return logistic(ability @ self.slopes.T - self.difficulty)


def calibrate(answers: np.ndarray, dimension: int) -> Bank:
    """Items from complete 0/1 answers (models, N): alternating Newton steps with ridge, items then abilities."""
    models, count = answers.shape
    if models < 2:
        raise ValueError(f"calibration: at least 2 models are needed, not {models}")
    if dimension < 1:
        raise ValueError(f"dimension: at least 1, not {dimension}")
    ability = np.zeros((models, dimension))
    left = np.linalg.svd(answers - answers.mean(0), full_matrices=False)[0][:, :dimension]
    ability[:, : left.shape[1]] = left * models**0.5
    items = np.zeros((count, dimension + 1))  # slopes, then minus the difficulty
    for _ in range(CALIBRATION_ROUNDS):
        x = np.column_stack([ability, np.ones(models)])
        items += _clipped_newton(x, answers.T, items, items @ x.T, ITEM_RIDGE)
        slopes = items[:, :-1]
        ability += _clipped_newton(slopes, answers, ability, ability @ slopes.T + items[:, -1], ABILITY_RIDGE)
    return Bank(items[:, :-1], -items[:, -1])


def _clipped_newton(x: np.ndarray, y: np.ndarray, now: np.ndarray, logits: np.ndarray, ridge: float) -> np.ndarray:
    """Newton step of many logistic regressions with inputs (n, k) in common: answers (m, n), coefficients (m, k)."""
    p = logistic(logits)
    k = x.shape[1]
    slope = (y - p) @ x - ridge * now
    curve = ((p * (1 - p)) @ (x[:, :, None] * x[:, None]).reshape(len(x), -1)).reshape(-1, k, k)
    step = np.linalg.solve(curve + ridge * np.eye(k), slope[..., None])[..., 0]
    return np.clip(step, -1, 1)


def fit(
    inputs: np.ndarray, difficulty: np.ndarray, answers: np.ndarray, start: np.ndarray, ridge: float = FIT_RIDGE
) -> np.ndarray:
    """Maximum likelihood of z in P = σ(inputs·z − difficulty), with a small ridge towards `start` (k,).

    Each row is a fit of its own: inputs (f, n, k), difficulty (f, n), answers (f, n); returns (f, k).
    """
    z = np.tile(np.asarray(start, dtype=float), (len(answers), 1))
    flipped = inputs.transpose(0, 2, 1)
    for _ in range(FIT_STEPS):
        p = logistic((inputs @ z[..., None])[..., 0] - difficulty)
        slope = (flipped @ (answers - p)[..., None])[..., 0] - ridge * (z - start)
        curve = (flipped * (p * (1 - p))[:, None]) @ inputs + ridge * np.eye(len(start))
        step = np.linalg.solve(curve, slope[..., None])[..., 0]
        step /= np.maximum(np.abs(step).max(1, keepdims=True), 1)
        z += step
        if np.abs(step).max() < TOLERANCE:
            break
    return z


@dataclass(frozen=True)
class Estimator:
    """Abilities and accuracies of models whose answers to a few items of the bank are known."""

    bank: Bank
    endpoints: np.ndarray
    """abilities of the endpoints (M, D), fitted on all items"""

    def ability(self, answers: np.ndarray, items: np.ndarray, mixed: bool, ridge: float = FIT_RIDGE) -> np.ndarray:
        """Abilities (f, D) from answers (f, n) to the items numbered in (f, n).

        Free in R^D, or, if `mixed`, a mixture of the endpoints' abilities with free weights.
        """
        inputs, difficulty = self.bank.slopes[items], self.bank.difficulty[items]
        if not mixed:
            return fit(inputs, difficulty, answers, np.zeros(inputs.shape[-1]), ridge)
        count = len(self.endpoints)
        if count < 2:
            raise ValueError(f"endpoints: a mixture needs at least 2, not {count}")
        weights = fit(inputs @ self.endpoints.T, difficulty, answers, np.full(count, 1 / count), ridge)
        return weights @ self.endpoints

    def accuracy(self, answers: np.ndarray, items: np.ndarray, ability: np.ndarray, blend: float) -> np.ndarray:
        """Accuracy (f,) on the whole bank: seen answers and predicted ones, blended with the mean of the seen."""
        total, seen = len(self.bank.difficulty), items.shape[1]
        if not 1 <= seen <= total:
            raise ValueError(f"items: 1 to {total} can be scored, not {seen}")
        if not 0 <= blend <= 1:
            raise ValueError(f"blend cannot be {blend}: it may be 0 to 1")
        chance = self.bank.chance(ability)
        unseen = chance.sum(1) - np.take_along_axis(chance, items, 1).sum(1) if seen < total else 0.0
        mean = answers.mean(1)
        return blend * mean + (1 - blend) * (answers.sum(1) + unseen) / total


def estimates(
    estimator: Estimator, seen: np.ndarray, items: np.ndarray, blend: float
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Accuracies (f,) of every estimator, and abilities (f, D) of p and mp, from answers (f, n) to items (f, n)."""
    ability = {name: estimator.ability(seen, items, name in MIXED) for name in (P, MP)}
    found = {MEAN: seen.mean(1)}
    for plain, blended in ((P, GP), (MP, GMP)):
        found[plain] = estimator.accuracy(seen, items, ability[plain], 0.0)
        found[blended] = estimator.accuracy(seen, items, ability[plain], blend)
    return found, ability
