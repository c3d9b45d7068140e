"""Full-text search: which abstracts hold the words of a query, ranked, with the places to mark."""

import difflib
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

from core.topics.words import fold, singular

Span = tuple[int, int]

_WORD = re.compile(r"[^\W_]+")
_SATURATION, _LENGTH = 1.2, 0.75
_TITLE_COUNTS = 3
_MOST_ENDINGS = 200
_PREFIX_FROM = 2


@dataclass(frozen=True)
class Match:
    """An abstract found by a query.

    index: its place in the collection. score: higher is better.
    words: the query's words it holds, as written in it. complete: it holds all of them.
    spans, title_spans: (start, end) of every matching word in its plain text and in its title.
    """

    index: int
    score: float
    words: tuple[str, ...]
    complete: bool
    spans: tuple[Span, ...]
    title_spans: tuple[Span, ...]


class Found(list[Match]):
    """Matches, the best first; if there are none, `suggestions` holds the nearest words of the collection."""

    def __init__(self, matches: Sequence[Match] = (), suggestions: Sequence[str] = ()):
        super().__init__(matches)
        self.suggestions = tuple(suggestions)


class SearchIndex:
    """BM25 over titles and texts, without regard to case, accents and plural.

    titles, texts: equally long. The last word of a query also finds the words it begins.
    """

    def __init__(self, titles: Sequence[str], texts: Sequence[str]):
        self._titles, self._texts = titles, texts
        self._vocabulary, counts = _count(titles, texts)
        self._names = list(self._vocabulary)
        self._words = sorted(self._vocabulary)
        self._by_singular: dict[str, list[int]] = defaultdict(list)
        for word, column in self._vocabulary.items():
            self._by_singular[singular(word)].append(column)
        self._weights = _bm25(counts)
        self._spread = np.diff(counts.indptr)

    def __call__(self, query: str, most: int | None = None) -> Found:
        """Abstracts that hold every word of the query; where none does, those that hold some of them.

        Stop words are passed over unless there is nothing else. An empty or unknown query gives an empty
        list, the latter with suggestions.
        """
        words = [fold(word) for word in _WORD.findall(query)]
        telling = [word for word in words if word not in ENGLISH_STOP_WORDS]
        ends_open = bool(words) and bool(_WORD.search(query[-1:]))
        words = list(dict.fromkeys(telling or words))
        last = words[-1] if words and ends_open else None
        if not words or not len(self._texts):
            return Found()
        columns = [self._columns(word, open_end=word == last) for word in words]
        scores = np.stack([self._score(some) for some in columns])
        held = (scores > 0).sum(axis=0)
        if not held.any():
            return Found(suggestions=self._suggest(words))
        complete = held == len(words)
        hits = np.flatnonzero(complete if complete.any() else held > 0)
        total = scores[:, hits].sum(axis=0) * (held[hits] / len(words)) ** 2
        order = hits[np.argsort(-total, kind="stable")][:most]
        sought = {self._names[column] for some in columns for column in some}
        value = dict(zip(hits.tolist(), total.tolist(), strict=True))
        return Found([self._match(int(i), value[int(i)], sought, bool(complete[i])) for i in order])

    def _columns(self, word: str, *, open_end: bool) -> list[int]:
        columns = set(self._by_singular.get(singular(word), ()))
        if open_end and len(word) >= _PREFIX_FROM:
            first = bisect_left(self._words, word)
            endings = []
            for other in self._words[first:]:
                if not other.startswith(word):
                    break
                endings.append(self._vocabulary[other])
            endings.sort(key=lambda column: -self._spread[column])
            columns.update(endings[:_MOST_ENDINGS])
        return sorted(columns)

    def _score(self, columns: list[int]) -> np.ndarray:
        if not columns:
            return np.zeros(len(self._texts), dtype=np.float32)
        return self._weights[:, columns].max(axis=1).toarray().ravel()

    def _match(self, index: int, score: float, sought: set[str], complete: bool) -> Match:
        title, text = self._titles[index], self._texts[index]
        title_spans, spans = _spans(title, sought), _spans(text, sought)
        written = [title[a:b] for a, b in title_spans] + [text[a:b] for a, b in spans]
        words = tuple({fold(word): word for word in reversed(written)}.values())[::-1]
        return Match(index, score, words, complete, spans, title_spans)

    def _suggest(self, words: list[str], most: int = 5) -> list[str]:
        """Words of the collection spelt like those of the query, frequent ones first among equals."""
        telling = [word for word in self._words if len(word) > 2 and word not in ENGLISH_STOP_WORDS]
        suggestions: dict[str, None] = {}
        for word in words:
            near = [other for other in telling if abs(len(other) - len(word)) <= 3 and other[0] == word[0]]
            close = difflib.get_close_matches(word, near, n=most, cutoff=0.6)
            close = close or difflib.get_close_matches(word, telling[:20_000], n=most, cutoff=0.6)
            suggestions.update(dict.fromkeys(close))
        return list(suggestions)[:most]


def _count(titles: Sequence[str], texts: Sequence[str]) -> tuple[dict[str, int], sparse.csc_matrix]:
    """Vocabulary and counts (n, words); a word in the title counts three times."""
    vocabulary: dict[str, int] = {}
    columns: list[int] = []
    values: list[int] = []
    ends = [0]
    for title, text in zip(titles, texts, strict=True):
        counts: dict[int, int] = defaultdict(int)
        for part, times in ((title, _TITLE_COUNTS), (text, 1)):
            for word in _WORD.findall(part):
                counts[vocabulary.setdefault(fold(word), len(vocabulary))] += times
        columns.extend(counts)
        values.extend(counts.values())
        ends.append(len(columns))
    shape = (len(texts), max(len(vocabulary), 1))
    return vocabulary, sparse.csr_matrix((np.array(values, dtype=np.float32), columns, ends), shape=shape).tocsc()


def _bm25(counts: sparse.csc_matrix) -> sparse.csc_matrix:
    """BM25 weights (n, words) of the counts, with the idf that never falls below 0."""
    n = counts.shape[0]
    spread = np.diff(counts.indptr)
    rarity = np.log1p((n - spread + 0.5) / (spread + 0.5)).astype(np.float32)
    length = np.asarray(counts.sum(axis=1), dtype=np.float32).ravel()
    relative = length / max(float(length.mean()) if n else 0.0, 1e-9)
    floor = _SATURATION * (1 - _LENGTH + _LENGTH * relative)
    weights = counts.copy()
    weights.data = counts.data * (_SATURATION + 1) / (counts.data + floor[counts.indices])
    weights.data *= np.repeat(rarity, spread)
    return weights


def _spans(text: str, sought: set[str]) -> tuple[Span, ...]:
    return tuple(match.span() for match in _WORD.finditer(text) if fold(match[0]) in sought)
