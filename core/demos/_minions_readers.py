"""Two readers of one family: linear dual encoders for sentences and requests, alike but for their rank."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from core.demos._minions_documents import SHAPE, fact_sentences, filler, single_request

PAIRS, FILLER, RIDGE = 3000, 400, 0.01
FULL_RANK = sum(n - 1 for n in SHAPE)
"""Of the companies, metrics and years in a request, all but one of each kind are free."""


def _tokens(text: str) -> set[str]:
    """The different words of a text without its three-digit values."""
    return {t for t in text.split() if not (len(t) == 3 and t.isdigit())}


def bag(texts: list[str] | tuple[str, ...], known: dict[str, int]) -> np.ndarray:
    """0/1 word vectors (n, known words); unknown words are ignored."""
    out = np.zeros((len(texts), len(known)))
    for row, text in zip(out, texts, strict=True):
        row[[known[t] for t in _tokens(text) if t in known]] = 1
    return out


def _vocabulary(texts: list[str]) -> dict[str, int]:
    return {word: i for i, word in enumerate(sorted(set().union(*map(_tokens, texts))))}


def _unit(codes: np.ndarray) -> np.ndarray:
    """Rows of length 1; a row of zeros stays."""
    norm = np.linalg.norm(codes, axis=-1, keepdims=True)
    return codes / np.where(norm > 0, norm, 1)


@dataclass(frozen=True)
class Reader:
    """Codes of sentences and requests; a score is their cosine. `trained` are the scores of the training pairs.

    `sentence_map` L and `request_map` R (words, rank); `sentence_mean` and `request_mean` (words,).
    """

    sentence_words: dict[str, int]
    request_words: dict[str, int]
    sentence_mean: np.ndarray
    request_mean: np.ndarray
    sentence_map: np.ndarray
    request_map: np.ndarray
    trained: np.ndarray

    def sentence_codes(self, sentences: list[str] | tuple[str, ...]) -> np.ndarray:
        return _unit((bag(sentences, self.sentence_words) - self.sentence_mean) @ self.sentence_map)

    def request_codes(self, requests: list[str] | tuple[str, ...]) -> np.ndarray:
        return _unit((bag(requests, self.request_words) - self.request_mean) @ self.request_map)


@dataclass(frozen=True)
class Training:
    """The training texts as centred word vectors, and the singular value decomposition of the ridge map."""

    sentence_words: dict[str, int]
    request_words: dict[str, int]
    sentences: np.ndarray
    requests: np.ndarray
    sentence_mean: np.ndarray
    request_mean: np.ndarray
    ridge_map: np.ndarray
    svd: tuple[np.ndarray, np.ndarray, np.ndarray]


@lru_cache(maxsize=4)
def training(seed: int = 0) -> Training:
    """T = (BᵀB/N + λI)⁻¹ BₚᵀA/n on generated pairs of request and sentence, plus filler without request."""
    rng = np.random.default_rng([seed, 1])  # not the numbers that draw the documents
    cells = np.stack([rng.integers(0, n, PAIRS) for n in SHAPE], axis=1)
    sentences, _ = fact_sentences(rng, cells)
    sentences += [filler()[i] for i in rng.integers(0, len(filler()), FILLER)]
    requests = [single_request((c, m, y)) for c, m, y in cells]
    of_sentences, of_requests = _vocabulary(sentences), _vocabulary(requests)
    b, a = bag(sentences, of_sentences), bag(requests, of_requests)
    b_mean, a_mean = b.mean(axis=0), a.mean(axis=0)
    b, a = b - b_mean, a - a_mean
    gram = b.T @ b / len(b) + RIDGE * np.eye(b.shape[1])
    ridge_map = np.linalg.solve(gram, b[:PAIRS].T @ a / PAIRS)
    u, s, wt = np.linalg.svd(ridge_map, full_matrices=False)
    return Training(of_sentences, of_requests, b, a, b_mean, a_mean, ridge_map, (u, s, wt))


@lru_cache(maxsize=2 * FULL_RANK)
def reader(rank: int, seed: int = 0) -> Reader:
    """The reader that keeps the `rank` largest singular directions of the trained map."""
    if not 1 <= rank <= FULL_RANK:
        raise ValueError(f"rank: a reader has 1 to {FULL_RANK}, not {rank}")
    t = training(seed)
    u, s, wt = t.svd
    left, right = u[:, :rank] * np.sqrt(s[:rank]), wt[:rank].T * np.sqrt(s[:rank])
    trained = (_unit(t.sentences[:PAIRS] @ left) * _unit(t.requests @ right)).sum(axis=1)
    for shared in (left, right, trained):
        shared.setflags(write=False)
    return Reader(t.sentence_words, t.request_words, t.sentence_mean, t.request_mean, left, right, trained)


@lru_cache(maxsize=64)
def level(rank: int, quantile: float, seed: int = 0) -> float:
    """The score below which this share of the training pairs lies; lower by more than rounding, so that ties pass."""
    return float(np.quantile(reader(rank, seed).trained, quantile)) - 1e-9
