"""The topic map of a collection: places, topics, neighbours with reasons, search, and how sure it is."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits

from core.topics import clusters, layout
from core.topics.labels import PhraseBook, Term, Topic, describe, telling
from core.topics.search import Found, SearchIndex
from core.topics.vectors import Vectors, nearest, vectorise
from core.topics.words import VAGUE, WORD, singular

_SHARED_TERMS = 5
_TELLING_SHARE = 0.2
_FLOOR, _FLOOR_LATENT = 0.06, 0.1
_DEVIATIONS, _DEVIATIONS_LATENT = 2.0, 4.0
_NEARLY_EQUAL = 0.6
_CANDIDATES = 10


class Paper(Protocol):
    """What the map needs of an abstract."""

    @property
    def id(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def plain(self) -> str: ...
    @property
    def title_is_derived(self) -> bool: ...


class Papers(Protocol):
    """What the map needs of a collection."""

    @property
    def abstracts(self) -> Sequence[Paper]: ...


@dataclass(frozen=True)
class Neighbour:
    """A paper near another.

    similarity: cosine of the two texts, in [-1, 1]. shared: the terms that make them alike, the strongest
    first, as this paper writes them. close: False where that is too little to call the two related.
    """

    abstract: Paper
    index: int
    similarity: float
    shared: tuple[str, ...]
    close: bool


@dataclass(frozen=True)
class Placed:
    """Where a text from outside falls: its place (2,), its topic's number (-1 if none) and its neighbours."""

    xy: np.ndarray
    topic: int
    neighbours: tuple[Neighbour, ...]


@dataclass(frozen=True, eq=False)
class TopicMap:
    """A collection laid out by what its papers are about.

    xy: (n, 2) places. has_map: False for fewer than 8 papers; they stand on a circle without meaning.
    topics: named ones first. topic_of: (n,) number of each paper's topic.
    """

    abstracts: tuple[Paper, ...]
    xy: np.ndarray
    has_map: bool
    topics: tuple[Topic, ...]
    topic_of: np.ndarray
    vectors: Vectors
    cut: float

    def __len__(self) -> int:
        return len(self.abstracts)

    @cached_property
    def index_of(self) -> dict[str, int]:
        """Index of each paper by its id; the first one where an id occurs twice."""
        return {abstract.id: index for index, abstract in reversed(list(enumerate(self.abstracts)))}

    def index(self, id: str) -> int:
        """Index of the paper with this id. Raises ValueError if there is none."""
        if id not in self.index_of:
            raise ValueError(f"abstract: no paper of this collection has the id {id!r}")
        return self.index_of[id]

    def neighbours(self, id: str, k: int = 5) -> list[Neighbour]:
        """The k papers nearest to the one with this id, the nearest first, each with the shared terms.

        Papers that share nothing with it are left out; if no neighbour is `close`, say "no close paper".
        Raises ValueError for an unknown id.
        """
        own = self.index(id)
        row, words = self.vectors.rows[own], self.vectors.words[own]
        return self._near(row, words, k, without=own)

    def search(self, query: str, k: int | None = None) -> Found:
        """The k abstracts that fit a query best (all that fit, if k is None), with the spans to mark."""
        return self.search_index(query, k)

    def place(self, text: str, title: str = "", k: int = 5) -> Placed:
        """Where a text that is not in the collection falls on the map; the map stays as it is."""
        rows, words = self.vectors.of([_text_of(title, text)])
        if not len(self) or not rows.any():
            return Placed(np.zeros(2), -1, ())
        xy = layout.place(rows, self.vectors.rows, self.xy)[0]
        topic = int(np.argmax(_centres(self) @ rows[0]))
        return Placed(xy, topic, tuple(self._near(rows[0], words, k, without=None)))

    def telling_terms(self, members: Sequence[int]) -> list[Term]:
        """The phrases that set a selection of papers apart from the others, the most telling first."""
        return [term for _, term in telling(self.phrase_book, list(members))]

    @cached_property
    def search_index(self) -> SearchIndex:
        """The search index, made at the first search."""
        return SearchIndex([a.title for a in self.abstracts], [a.plain for a in self.abstracts])

    @cached_property
    def phrase_book(self) -> PhraseBook:
        """The phrases of the collection, read when first needed."""
        return PhraseBook(_documents(self.abstracts))

    @cached_property
    def trust(self) -> float:
        """Share of the papers' true nearest ones that are also nearest on the map, in [0, 1]."""
        return self._kept[0]

    @cached_property
    def trustworthiness(self) -> float:
        """1 if no stranger stands near a paper on the map; strangers count by how far they really are."""
        return self._kept[1]

    @cached_property
    def _kept(self) -> tuple[float, float]:
        return layout.kept(self.vectors.rows, self.xy)

    @cached_property
    def lonely(self) -> np.ndarray:
        """(n,) True for each paper that has no close paper in this collection."""
        n = len(self)
        near, cosines = nearest(self.vectors.rows, self.vectors.rows, _CANDIDATES + 1)
        lonely = np.ones(n, dtype=bool)
        for own in range(n):
            for other, cosine in zip(near[own].tolist(), cosines[own].tolist(), strict=True):
                if other != own and self._is_close(float(cosine), self._reasons(self.vectors.words[own], other)):
                    lonely[own] = False
                    break
        return lonely

    def _near(self, row: np.ndarray, words: sparse.csr_matrix, k: int, without: int | None) -> list[Neighbour]:
        if not row.any() or k < 1:
            return []
        cosines = self.vectors.rows @ row
        found: list[Neighbour] = []
        for index in np.argsort(-cosines, kind="stable").tolist():
            if len(found) == k or cosines[index] <= 1e-6:
                break
            if index == without:
                continue
            similarity, reasons = float(cosines[index]), self._reasons(words, index)
            shared = _as_written([self.vectors.names[term] for term in reasons], self.abstracts[index])
            found.append(
                Neighbour(self.abstracts[index], index, similarity, shared, self._is_close(similarity, reasons))
            )
        return found

    def _reasons(self, words: sparse.csr_matrix, other: int) -> list[int]:
        """Terms (columns) that a row of words shares with a paper, by their part in the similarity."""
        product = words.multiply(self.vectors.words[other]).tocsr()
        order = np.lexsort((product.indices, -product.data))
        return product.indices[order].tolist()

    def _is_close(self, similarity: float, reasons: list[int]) -> bool:
        """Alike beyond what two papers of the collection usually are, by two telling terms or more."""
        if similarity >= _NEARLY_EQUAL and self.vectors.latent is None:
            return True
        most = max(2.0, _TELLING_SHARE * len(self))
        telling_terms = [
            term
            for term in reasons
            if self.vectors.counts[term] <= most and not all(w in VAGUE for w in self.vectors.names[term].split())
        ]
        return similarity >= self.cut and len(telling_terms) >= 2


def build_map(collection: Papers, topics: int | None = None) -> TopicMap:
    """Map of a collection of any size, 0 included; the same collection always gives the same map.

    topics: how many; by the collection's size if None. Raises ValueError if below 1.
    """
    return _build(tuple(collection.abstracts), topics, None)


def place_new(old: TopicMap, collection: Papers) -> TopicMap:
    """Map of `collection` in which every paper of `old` stays exactly where it was.

    New papers go to the mean of their 5 nearest old ones and join the topic whose papers they are most
    like; papers that are gone are left out. An old collection too small for a map is mapped anew.
    """
    abstracts = tuple(collection.abstracts)
    source = np.array([old.index_of.get(abstract.id, -1) for abstract in abstracts], dtype=np.int64)
    known = source >= 0
    if not old.has_map or known.sum() < layout.MAP_FROM:
        return build_map(collection)
    with threadpool_limits(1):
        vectors = _extended(old.vectors, abstracts, source)
        xy = np.empty((len(abstracts), 2))
        topic_of = np.empty(len(abstracts), dtype=np.int64)
        xy[known], topic_of[known] = old.xy[source[known]], old.topic_of[source[known]]
        if not known.all():
            rows = vectors.rows
            xy[~known] = layout.place(rows[~known], rows[known], xy[known])
            centres = np.stack([rows[known][topic_of[known] == t].sum(axis=0) for t in range(len(old.topics))])
            lengths = np.linalg.norm(centres, axis=1, keepdims=True)
            topic_of[~known] = np.argmax(rows[~known] @ (centres / np.maximum(lengths, 1e-9)).T, axis=1)
        topics, topic_of = _with_members(old.topics, topic_of, vectors.rows)
        return TopicMap(abstracts, xy, True, topics, topic_of, vectors, _cut(vectors))


def refit(old: TopicMap, collection: Papers, topics: int | None = None) -> TopicMap:
    """Map of `collection` made anew, but close to `old` in shape, so that a reader finds the way again.

    A small map is turned and scaled onto the old one; a larger one starts from it and settles.
    """
    return _build(tuple(collection.abstracts), topics, old)


def _build(abstracts: tuple[Paper, ...], count: int | None, old: TopicMap | None) -> TopicMap:
    with threadpool_limits(1):  # one thread adds in one order, so that a re-run is equal to the last digit
        vectors = vectorise([_text_of("" if a.title_is_derived else a.title, a.plain) for a in abstracts])
        groups = clusters.group(vectors.rows, count)
        book = PhraseBook(_documents(abstracts))
        topics, topic_of = describe(book, groups, vectors.rows)
        xy = layout.arrange(vectors.rows) if old is None else _resettled(old, abstracts, vectors)
        has_map = len(abstracts) >= layout.MAP_FROM
        made = TopicMap(abstracts, xy, has_map, tuple(topics), topic_of, vectors, _cut(vectors))
    made.__dict__["phrase_book"] = book  # the cached property, filled while it is at hand
    return made


def _resettled(old: TopicMap, abstracts: tuple[Paper, ...], vectors: Vectors) -> np.ndarray:
    source = np.array([old.index_of.get(abstract.id, -1) for abstract in abstracts], dtype=np.int64)
    shared = np.flatnonzero(source >= 0)
    if len(abstracts) < layout.SMALL or len(shared) < layout.MAP_FROM or not old.has_map:
        return layout.align(layout.arrange(vectors.rows), old.xy, shared, source[shared])
    xy = np.empty((len(abstracts), 2))
    xy[shared] = old.xy[source[shared]]
    new = np.flatnonzero(source < 0)
    if len(new):
        xy[new] = layout.place(vectors.rows[new], vectors.rows[shared], xy[shared])
    return layout.refine(vectors.rows, xy) if len(abstracts) <= layout.REFINED_TO else xy


def _extended(old: Vectors, abstracts: tuple[Paper, ...], source: np.ndarray) -> Vectors:
    """Vectors of `abstracts` in the dimensions of `old`; for a small collection they are learned anew."""
    texts = [_text_of("" if a.title_is_derived else a.title, a.plain) for a in abstracts]
    if old.latent is None:
        return vectorise(texts)
    new = np.flatnonzero(source < 0)
    fresh, fresh_words = old.of([texts[index] for index in new])
    order = source.copy()
    order[new] = len(old) + np.arange(len(new))
    rows = np.concatenate([old.rows, fresh])[order]
    words = sparse.vstack([old.words, fresh_words]).tocsr()[order]
    counts = np.bincount(words.indices, minlength=words.shape[1])
    return Vectors(rows, words, old.names, counts, old.vectoriser, old.latent)


def _with_members(
    old: Sequence[Topic], topic_of: np.ndarray, rows: np.ndarray
) -> tuple[tuple[Topic, ...], np.ndarray]:
    """The old topics with their present members; topics without any are left out and numbers close up."""
    topics: list[Topic] = []
    numbers = np.full(len(old), -1, dtype=np.int64)
    for number, topic in enumerate(old):
        members = np.flatnonzero(topic_of == number)
        if not len(members):
            continue
        numbers[number] = len(topics)
        central = int(members[int(np.argmax(rows[members] @ rows[members].mean(axis=0)))])
        topics.append(Topic(topic.label, topic.phrases, topic.terms, tuple(members.tolist()), central, topic.mixed))
    return tuple(topics), numbers[topic_of]


def _centres(topic_map: TopicMap) -> np.ndarray:
    centres = np.stack([topic_map.vectors.rows[list(t.members)].sum(axis=0) for t in topic_map.topics])
    return centres / np.maximum(np.linalg.norm(centres, axis=1, keepdims=True), 1e-9)


def _cut(vectors: Vectors) -> float:
    """Cosine from which two papers may count as close: far above the mean of all pairs.

    Two deviations for word vectors; four for latent ones, which are more alike to their nearest.
    """
    small = vectors.latent is None
    floor, deviations = (_FLOOR, _DEVIATIONS) if small else (_FLOOR_LATENT, _DEVIATIONS_LATENT)
    n = len(vectors)
    if n < layout.MAP_FROM:
        return floor
    some = np.arange(n) if n <= 1000 else np.random.default_rng(0).choice(n, 1000, replace=False)
    rows = vectors.rows[some]
    pairs = (rows @ rows.T)[np.triu_indices(len(rows), 1)]
    return min(0.95, max(floor, float(pairs.mean() + deviations * pairs.std())))


def _text_of(title: str, text: str) -> str:
    return f"{title}. {title}. {text}" if title else text


def _documents(abstracts: Sequence[Paper]) -> list[tuple[str, str]]:
    return [("" if a.title_is_derived else a.title, a.plain) for a in abstracts]


def _as_written(names: Sequence[str], paper: Paper) -> tuple[str, ...]:
    """The strongest terms as a paper writes them; a word that a longer term already holds is left out."""
    forms: dict[str, str] = {}
    for word in WORD.findall(f"{paper.plain} {paper.title}"):
        lower = word if not word[1:].islower() else word.lower()
        forms.setdefault(singular(word.lower()), lower)
    picked: list[str] = []
    held: set[str] = set()
    for name in names:
        parts = name.split()
        if held.isdisjoint(parts):
            picked.append(re.sub(r"\S+", lambda part: forms.get(part[0], part[0]), name))
            held.update(parts)
        if len(picked) == _SHARED_TERMS:
            break
    return tuple(picked)
