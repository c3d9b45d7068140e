"""What RIP is compared with: other ways to keep as many prompts, judged by the best answer or by agreement."""

from __future__ import annotations

import numpy as np

from core.demos._rip_policy import LENGTH, TOKENS, log_probability
from core.demos._rip_world import CLEAN, World

RIP, EVERY, CHANCE, PERPLEXITY, IFD = "RIP", "no filter", "random", "perplexity", "IFD"
SIMILARITY, CHOSEN, ORACLE = "similarity", "chosen reward", "oracle"


def agreement(answers: np.ndarray) -> np.ndarray:
    """Share of equal tokens (n,) over all pairs of the N answers (N, n, LENGTH) to a prompt, from token counts."""
    n = len(answers)
    counts = (answers[..., None] == np.arange(TOKENS)).sum(axis=0)
    return (counts * (counts - 1)).sum(axis=-1).mean(axis=-1) / (n * (n - 1))


def kept_sets(
    world: World,
    best: np.ndarray,
    best_reward: np.ndarray,
    answers: np.ndarray,
    rip: np.ndarray,
    rng: np.random.Generator,
) -> dict[str, np.ndarray]:
    """Indices of the prompts that each filter keeps: all of them, or as many as RIP.

    Similarity is left out for N = 1. The oracle has to make do with fewer if there are not as many clean prompts.
    """
    size, total = int(rip.sum()), len(rip)
    loss = -log_probability(world.start, world.pool, best) / LENGTH
    counts = np.bincount(best.ravel(), minlength=TOKENS) + 1
    unconditional = -np.log(counts / counts.sum())[best].mean(axis=-1)
    scores = {
        PERPLEXITY: -loss,
        IFD: loss - unconditional,
        **({SIMILARITY: agreement(answers)} if len(answers) > 1 else {}),
        CHOSEN: best_reward,
    }
    clean = np.flatnonzero(world.kind == CLEAN)
    sets = {
        RIP: np.flatnonzero(rip),
        EVERY: np.arange(total),
        CHANCE: rng.choice(total, size, replace=False),
        **{name: np.argsort(-score, kind="stable")[:size] for name, score in scores.items()},
        ORACLE: rng.choice(clean, min(size, len(clean)), replace=False),
    }
    return {name: np.sort(kept) for name, kept in sets.items() if len(kept)}
