"""One experiment of the STAMP demo: who is published, what is written, and how each test judges a model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from core.demos import _stamp_model as lm
from core.demos._stamp_rephrase import rephrase
from core.demos._stamp_tests import differences, lowest_mean, order_p, paired_p, rank_p, unpaired_p
from core.demos._stamp_text import BASE, UNKNOWN, corpus

STAMP, ONE, PLAIN = "STAMP", "one private key", "no watermark"
UNPAIRED, MIN_K, ORDER, RANK = "unpaired test", "Min-K %", "order test", "exact key rank"
RANDOM, EASY, HARD = "random", "easy members", "hard members"
SIZES = (2500, 5000, 10_000, 20_000, 40_000)
"""Words of training text of the five models that are ranked."""
NOISE = 0.01
"""Standard deviation of the noise on the share of familiar words by which documents are ranked."""
SPLIT, KEYS, VERSION, HELD, TRAIN, SHUFFLE = range(6)

Versions = list[list[list[str]]]
"""version -> document -> words"""


def stream(seed: int, *path: int) -> np.random.Generator:
    """The random numbers of one purpose: the same whatever else is drawn."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=path))


def choose(n: int, how: str, familiar: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Documents in random order: n published, n held out, the rest; `familiar` ranks them by easiness."""
    if n < 2 or 2 * n > len(familiar):
        raise ValueError(f"documents must be 2 to {len(familiar) // 2}, not {n}")
    order = rng.permutation(len(familiar))
    if how != RANDOM:
        score = familiar[order] + NOISE * rng.normal(size=len(order))
        order = order[np.argsort(-score if how == EASY else score)]
    return rng.permutation(order[:n]), rng.permutation(order[len(order) - n :]), order[n : len(order) - n]


@dataclass(frozen=True)
class World:
    """Numbers of published, held-out and unused documents, and what the rephraser wrote.

    `versions[0]` is published under `keys[0]`, the others stay private; `plain` is the same without watermark.
    """

    members: np.ndarray
    unused: np.ndarray
    keys: list[int]
    versions: Versions
    plain: Versions
    held: list[list[str]]
    seed: int


def make_world(seed: int, n: int, private: int, delta: float, gamma: float, how: str) -> World:
    """Choose documents and keys, write all versions."""
    text = corpus()
    members, held, unused = choose(n, how, text.familiar, stream(seed, SPLIT))
    keys = [int(k) for k in stream(seed, KEYS).integers(2**62, size=private + 2)]  # the last one is never used

    def write(documents: np.ndarray, key: int, strength: float, rng: np.random.Generator) -> list[list[str]]:
        return [rephrase(text, text.documents[i], key, strength, gamma, rng) for i in documents]

    def all_versions(strength: float) -> Versions:
        return [write(members, k, strength, stream(seed, VERSION, j)) for j, k in enumerate(keys[:-1])]

    published_key = write(held, keys[0], delta, stream(seed, HELD))
    return World(members, unused, keys, all_versions(delta), all_versions(0), published_key, seed)


def training_rows(world: World, released: list[list[str]], one_file: bool) -> np.ndarray:
    """Triples (m, 3) of the second pass: more background, unused abstracts, and what was released.

    Every document is a text of its own, unless the released ones stand in one file: then each follows the last.
    """
    text = corpus()
    texts = [text.background[BASE:], *(text.numbers(text.documents[i]) for i in world.unused)]
    numbers = [text.numbers(words) for words in released]
    texts += [np.concatenate(numbers)] if one_file and numbers else numbers
    return np.concatenate([lm.triples(t) for t in texts])


def learn(world: World, released: list[list[str]], rate: float, one_file: bool) -> lm.Model:
    """The base model after one pass over the training text."""
    return lm.train(lm.base_model(), training_rows(world, released, one_file), rate, stream(world.seed, TRAIN))


def word_scores(model: lm.Model, documents: list[list[str]]) -> list[np.ndarray]:
    """Log-probabilities of the words of each document from its third on."""
    rows = [lm.triples(corpus().numbers(words)) for words in documents]
    ends = np.cumsum([len(r) for r in rows])[:-1]
    return np.split(lm.log_probabilities(model, np.concatenate(rows)), ends)


def costs(model: lm.Model, documents: list[list[str]]) -> np.ndarray:
    """Log-perplexity (documents,) in nats per word."""
    return np.array([-scores.mean() for scores in word_scores(model, documents)], dtype=float)


def cost_table(model: lm.Model, versions: Versions) -> np.ndarray:
    """Log-perplexities (documents, versions)."""
    return costs(model, [words for version in versions for words in version]).reshape(len(versions), -1).T


def model_order(originals: list[list[str]], published: list[list[str]]) -> float:
    """Kendall's tau of five models ranked by their log-perplexity on original and on published text."""
    tables = [cost_table(lm.base_model(words), [originals, published]).mean(axis=0) for words in SIZES]
    return float(stats.kendalltau(*np.transpose(tables))[0])


def joins(model: lm.Model, documents: list[list[str]]) -> np.ndarray:
    """Log-probability (n + 1, n) of the start of each document after the end of each; the last row: after nothing."""
    ends = [*(corpus().numbers(words[-2:]) for words in documents), np.array([UNKNOWN, UNKNOWN])]
    starts = [corpus().numbers(words[:2]) for words in documents]
    rows = np.concatenate([lm.triples(np.r_[a, b]) for a in ends for b in starts])
    return lm.log_probabilities(model, rows).reshape(len(ends), len(starts), 2).sum(axis=2)


@dataclass(frozen=True)
class Arm:
    """What the tests say of one model: `table` (n, 1 + private) of log-perplexities, `p` by method."""

    table: np.ndarray
    p: dict[str, float]


def judge(world: World, model: lm.Model, without: lm.Model | None = None) -> Arm:
    """All tests on one model; `without` is the model of the world whose texts have no watermark."""
    published = world.versions[0]
    table = cost_table(model, world.versions)
    words = [word_scores(model, documents) for documents in (published, world.held)]
    members, others = (np.array([-s.mean() for s in scores]) for scores in words)
    low, low_others = (np.array([lowest_mean(s) for s in scores]) for scores in words)
    p = {STAMP: paired_p(differences(table)), ONE: paired_p(differences(table[:, :2]))}
    if without is not None:
        p[PLAIN] = paired_p(differences(cost_table(without, world.plain)))
    p |= {
        UNPAIRED: unpaired_p(members, others),
        MIN_K: unpaired_p(low, low_others),
        ORDER: order_p(joins(model, published), stream(world.seed, SHUFFLE)),
        RANK: rank_p(table),
    }
    return Arm(table, p)
