"""The rephraser of the STAMP demo: synonyms are sampled in context, with a keyed preference for green words."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np

from core.demos._stamp_text import SYNONYMS, Corpus, slots_of

CONTEXT = 3
"""Words before a slot that decide, with the key, which candidates are green."""
PRIOR = 20.0
"""Weight μ of single-word frequencies against counts of pairs."""


def is_green(key: int, context: Sequence[str], candidate: str, gamma: float) -> bool:
    """Whether a candidate is in the green set of a key after these words: a fraction gamma of all are."""
    if not 0 < gamma < 1:
        raise ValueError(f"gamma must lie between 0 and 1, not {gamma:g}")
    text = f"{key}|{' '.join(context)}|{candidate}"
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") < gamma * 2**64


def fluency(corpus: Corpus, before: str, options: Sequence[str]) -> np.ndarray:
    """Log-probability (options,) of each word after the word before, smoothed by its own frequency."""
    total = len(corpus.background) + len(corpus.vocabulary) + 1
    alone = np.array([(corpus.words[w] + 0.5) / total for w in options])
    pairs = np.array([corpus.pairs[before, w] for w in options])
    return np.log((pairs + PRIOR * alone) / (corpus.words[before] + PRIOR))


def rephrase(
    corpus: Corpus, words: list[str], key: int, delta: float, gamma: float, rng: np.random.Generator
) -> list[str]:
    """The words with a synonym sampled in every slot, left to right; green ones get delta on their logit."""
    if delta < 0:
        raise ValueError(f"delta cannot be negative, not {delta:g}")
    out = list(words)
    for i in slots_of(words):
        options = SYNONYMS[words[i]]
        context = out[max(0, i - CONTEXT) : i]
        green = np.array([is_green(key, context, w, gamma) for w in options])
        logits = fluency(corpus, context[-1] if context else "", options) + delta * green
        chance = np.cumsum(np.exp(logits - logits.max()))
        out[i] = options[int(np.searchsorted(chance, rng.random() * chance[-1], side="right"))]
    return out


def green_slots(original: list[str], words: list[str], key: int, gamma: float) -> np.ndarray:
    """Booleans (slots,): whether the word in each slot of the original is green under a key."""
    return np.array(
        [is_green(key, words[max(0, i - CONTEXT) : i], words[i], gamma) for i in slots_of(original)], dtype=bool
    )
