"""The small world of RIP: strips of handwritten digits as prompts, and a reward model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.linear_model import LogisticRegression

from core.demos._rip_policy import LENGTH, SKIP, fit_policy
from core.lab import datasets

CLEAN, BLEND, NOISE = "clean", "blend", "noise"
DEMONSTRATIONS, REWARDED, PROMPTED = 100, 500, 1200
"""Where the shuffled images of the demonstrations, of the reward model and of the preference pool end."""
FLOOR = -8.0
"""The least log-probability that the reward model gives to a token."""


@dataclass(frozen=True)
class World:
    """`pool` (n, LENGTH, 65) with true `kind` (n,); `test` (m, LENGTH, 65) with labels `truth` (m, LENGTH); the
    starting policy `start` (65, 11); `table` (n, LENGTH, 11): what the reward model gives each token."""

    pool: np.ndarray
    kind: np.ndarray
    test: np.ndarray
    truth: np.ndarray
    start: np.ndarray
    table: np.ndarray


def make_world(rng: np.random.Generator, prompts: int, low_share: float, tests: int) -> World:
    """Disjoint images for demonstrations, reward model, pool and test; neither model is told a prompt's kind."""
    pixels, digit = datasets.digits()
    order = rng.permutation(len(pixels))
    shown, scored, asked, held = np.split(order, [DEMONSTRATIONS, REWARDED, PROMPTED])
    drawn = held[rng.integers(0, len(held), (tests, LENGTH))]
    skipped = np.where(rng.random(len(shown)) < 0.1, SKIP, digit[shown])
    judge = LogisticRegression(C=1, max_iter=500).fit(pixels[scored], digit[scored])
    pool, kind = make_pool(rng, pixels[asked], prompts, low_share)  # last: its share changes nothing else
    return World(
        with_bias(pool),
        kind,
        with_bias(pixels[drawn]),
        digit[drawn],
        fit_policy(with_bias(pixels[shown]), skipped),
        reward_table(judge, pool),
    )


def make_pool(
    rng: np.random.Generator, images: np.ndarray, prompts: int, low_share: float
) -> tuple[np.ndarray, np.ndarray]:
    """Strips (prompts, LENGTH, 64) and their kinds: half of the low-quality share is noisy, half are blends."""
    if prompts < 2:
        raise ValueError(f"prompts must be at least 2, not {prompts}")
    if not 0 <= low_share <= 1:
        raise ValueError(f"low_share must be in 0…1, not {low_share:g}")
    low = round(low_share * prompts)
    noisy = low // 2
    kind = rng.permutation(np.repeat([NOISE, BLEND, CLEAN], [noisy, low - noisy, prompts - low]))
    strips = images[rng.integers(0, len(images), (prompts, LENGTH))]
    noise, blend = kind == NOISE, kind == BLEND
    hidden = 0.2 * strips[noise] + 0.3 + rng.normal(size=strips[noise].shape)
    strips[noise] = np.clip(hidden, 0, 1.5)
    strips[blend] = (strips[blend] + images[rng.integers(0, len(images), (low - noisy, LENGTH))]) / 2
    return strips, kind


def with_bias(pixels: np.ndarray) -> np.ndarray:
    """A constant 1 after the pixels (..., 64): the features (..., 65) of the policy."""
    return np.concatenate([pixels, np.ones((*pixels.shape[:-1], 1))], axis=-1)


def reward_table(judge: LogisticRegression, strips: np.ndarray) -> np.ndarray:
    """Reward (n, LENGTH, 11) of each token at each position: log-probability; a skip is a blind guess."""
    digits = judge.predict_log_proba(strips.reshape(-1, strips.shape[-1])).reshape(*strips.shape[:2], SKIP)
    skip = np.full((*strips.shape[:2], 1), np.log(0.1))
    return np.maximum(np.concatenate([digits, skip], axis=-1), FLOOR)
