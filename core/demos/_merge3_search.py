"""A real-coded genetic algorithm: tournaments, simulated binary crossover, polynomial mutation, elitism."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

TOP = 1.2
"""Merge coefficients lie in [0, TOP]."""
SPREAD = 10
"""Distribution index η of crossover and mutation."""
CROSSED, GENE_CROSSED = 0.9, 0.5


def evolve(
    rng: np.random.Generator,
    fitness: Callable[[np.ndarray], np.ndarray],
    genes: int,
    population: int,
    generations: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Best genome (generations, genes) and its fitness (generations,) after each generation.

    `fitness` maps genomes (p, genes) to (p,), higher is better; the uniform start is generation 1.
    """
    if population < 2:
        raise ValueError(f"population: at least 2, not {population}")
    if generations < 1:
        raise ValueError(f"generations: at least 1, not {generations}")
    now = rng.uniform(0, TOP, (population, genes))
    score = fitness(now)
    best = [now[np.argmax(score)]]
    value = [score.max()]
    for _ in range(generations - 1):
        children = offspring(rng, now, score)
        now = np.concatenate([now, children])
        score = np.concatenate([score, fitness(children)])
        keep = np.argsort(-score, kind="stable")[:population]
        now, score = now[keep], score[keep]
        best.append(now[0])
        value.append(score[0])
    return np.array(best), np.array(value)


def offspring(rng: np.random.Generator, parents: np.ndarray, score: np.ndarray) -> np.ndarray:
    """As many children (p, genes) as parents: binary tournaments, crossover in pairs, mutation."""
    size, genes = parents.shape
    pairs = -(-size // 2)
    rivals = rng.integers(0, size, (2, pairs, 2))
    winners = np.where(score[rivals[..., 0]] >= score[rivals[..., 1]], rivals[..., 0], rivals[..., 1])
    p, q = parents[winners]
    u = rng.random((pairs, genes))
    power = 1 / (SPREAD + 1)
    beta = np.where(u < 0.5, (2 * u) ** power, (2 - 2 * u) ** -power)
    crossed = (rng.random((pairs, 1)) < CROSSED) & (rng.random((pairs, genes)) < GENE_CROSSED)
    beta = np.where(crossed, beta, 1.0)  # β = 1 copies the parents
    children = 0.5 * np.concatenate([(1 + beta) * p + (1 - beta) * q, (1 - beta) * p + (1 + beta) * q])[:size]
    u = rng.random((size, genes))
    step = TOP * np.where(u < 0.5, (2 * u) ** power - 1, 1 - (2 - 2 * u) ** power)
    mutated = rng.random((size, genes)) < 1 / genes
    return np.clip(children + np.where(mutated, step, 0.0), 0, TOP)
