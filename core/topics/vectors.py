"""Texts to vectors: TF-IDF for small collections, its latent dimensions for larger ones."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import normalize

from core.topics.words import VAGUE, tokens

LATENT_FROM = 100
"""From so many texts on the vectors are latent; below, there is too little to learn dimensions from."""
DIMENSIONS = 100
VAGUE_WEIGHT = 0.6
"""In a small collection a word of the whole field looks rarer than it is, so it counts for less."""
LONGEST_TEXT = 20_000
LONGEST_TEXT_OF_MANY = 5_000


@dataclass(frozen=True, eq=False)
class Vectors:
    """What a collection's texts are to the map.

    rows: (n, d) float32, each of length 1, or 0 for a text without telling words.
    words: (n, V) sparse TF-IDF rows, each of length 1, that the shared terms are read from.
    names: (V,) the terms, lower-case and singular.
    counts: (V,) texts that hold each term.
    """

    rows: np.ndarray
    words: sparse.csr_matrix
    names: np.ndarray
    counts: np.ndarray
    vectoriser: TfidfVectorizer | None
    latent: TruncatedSVD | None

    def __len__(self) -> int:
        return len(self.rows)

    def of(self, texts: Sequence[str]) -> tuple[np.ndarray, sparse.csr_matrix]:
        """Rows (m, d) and words (m, V) of further texts in the same dimensions; nothing is learned anew."""
        if self.vectoriser is None or not len(texts):
            words = sparse.csr_matrix((len(texts), len(self.names)), dtype=np.float32)
        else:
            words = _weighed(self.vectoriser.transform(_cut(texts, len(self))), self.vectoriser, len(self))
        return _rows(words, self.latent), words


def vectorise(texts: Sequence[str]) -> Vectors:
    """Vectors of a collection's texts, (n, d); n = 0 and texts without telling words are allowed."""
    vectoriser, words = _terms(_cut(texts, len(texts)))
    if vectoriser is None:
        rows = np.zeros((len(texts), 1), dtype=np.float32)
        return Vectors(rows, words, np.array(["-"], dtype=object), np.zeros(1, dtype=int), None, None)
    latent = _latent(words) if len(texts) >= LATENT_FROM else None
    counts = np.bincount(words.indices, minlength=words.shape[1])
    names = vectoriser.get_feature_names_out()
    return Vectors(_rows(words, latent), words, names, counts, vectoriser, latent)


def nearest(rows: np.ndarray, others: np.ndarray, k: int, cells: int = 4_000_000) -> tuple[np.ndarray, np.ndarray]:
    """Indices and cosines, each (n, k), of the k nearest of `others` (m, d) to each of `rows` (n, d).

    Exact, in chunks of so many `cells`, the nearest first; k is cut to m. Ties go to the smaller index.
    """
    k = min(k, len(others))
    indices = np.empty((len(rows), max(k, 0)), dtype=np.int64)
    cosines = np.empty((len(rows), max(k, 0)), dtype=np.float32)
    if k < 1:
        return indices[:, :0], cosines[:, :0]
    chunk = max(1, cells // len(others))
    for start in range(0, len(rows), chunk):
        likeness = rows[start : start + chunk] @ others.T
        few = np.sort(np.argpartition(-likeness, k - 1, axis=1)[:, :k], axis=1)
        values = np.take_along_axis(likeness, few, axis=1)
        order = np.argsort(-values, axis=1, kind="stable")
        indices[start : start + chunk] = np.take_along_axis(few, order, axis=1)
        cosines[start : start + chunk] = np.take_along_axis(values, order, axis=1)
    return indices, cosines


def _cut(texts: Sequence[str], n: int) -> list[str]:
    longest = LONGEST_TEXT_OF_MANY if n > LONGEST_TEXT_OF_MANY else LONGEST_TEXT
    return [text[:longest] for text in texts]


def _terms(texts: list[str]) -> tuple[TfidfVectorizer | None, sparse.csr_matrix]:
    """TF-IDF by collection size; where its limits leave nothing, without limits; else no terms at all."""
    n = len(texts)
    if n < LATENT_FROM:
        tries: tuple[dict, ...] = ({"min_df": 1, "max_df": 1.0},)
    else:
        usual = 2 if n < 1000 else 3 if n <= 5000 else 5
        longest = 2 if n < 30_000 else 1
        by_size = {"min_df": usual, "max_df": 0.5, "ngram_range": (1, longest), "max_features": 50_000}
        tries = (by_size, {"min_df": 1, "max_df": 1.0, "max_features": 50_000})
    for limits in tries:
        vectoriser = TfidfVectorizer(
            sublinear_tf=True,
            dtype=np.float32,
            tokenizer=tokens,
            token_pattern=None,
            lowercase=False,
            **limits,
        )
        try:
            return vectoriser, _weighed(vectoriser.fit_transform(texts), vectoriser, n)
        except ValueError:  # no term within the limits
            continue
    return None, sparse.csr_matrix((n, 1), dtype=np.float32)


def _weighed(words: sparse.spmatrix, vectoriser: TfidfVectorizer, n: int) -> sparse.csr_matrix:
    """TF-IDF rows of a collection of n texts; the field's vague words count for less if n is small."""
    if n >= LATENT_FROM:
        return words.tocsr()
    weights = [VAGUE_WEIGHT if name in VAGUE else 1.0 for name in vectoriser.get_feature_names_out()]
    return normalize(words @ sparse.diags(np.array(weights, dtype=np.float32))).tocsr()


def _latent(words: sparse.csr_matrix) -> TruncatedSVD | None:
    dimensions = min(DIMENSIONS, min(words.shape) - 1)
    if dimensions < 2:
        return None
    with warnings.catch_warnings():  # texts that are all alike have no spread to explain
        warnings.simplefilter("ignore", RuntimeWarning)
        return TruncatedSVD(dimensions, n_iter=5, random_state=0).fit(words)


def _rows(words: sparse.csr_matrix, latent: TruncatedSVD | None) -> np.ndarray:
    if latent is None or not words.shape[0]:
        rows = words.toarray() if latent is None else np.zeros((0, len(latent.components_)))
    else:
        rows = latent.transform(words)
    rows = np.asarray(rows, dtype=np.float32)
    return normalize(np.nan_to_num(rows), copy=False) if rows.size else rows
