"""Groups to topics: a short name made of real phrases, the telling terms, the most central paper."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from core.topics.words import VAGUE, fold, phrase_forms

MIXED = "mixed"
TERMS = 10
_COUNTED = 5_000
"""So many texts are read for phrases; of a larger collection, a seeded draw."""
_LONGER_IS_BETTER = 0.8
_MIN_LIFT = 2.0
_ADJECTIVE = re.compile(
    r".+(?:ous|ive|ical|eral|ional|oral|atial|ic|able|ible|ary|ful|less|ated|ized|uted|vex|ent|ant|ly|er)$"
)
_NOUNS = frozenset(
    {"agent", "client", "content", "environment", "gradient", "logic", "music", "patient", "topic", "traffic"}
)
"""Words that end like adjectives but can name a topic alone."""


@dataclass(frozen=True)
class Term:
    """A phrase of a topic: its weight (1 for the best), its share of papers in and out of the topic."""

    text: str
    weight: float
    inside: float
    outside: float

    def relevance(self, balance: float) -> float:
        """Score between frequent (balance 1) and exclusive (balance 0) in the topic."""
        inside, lift = max(self.inside, 1e-9), max(self.inside, 1e-9) / max(self.outside, 1e-9)
        return balance * math.log(inside) + (1.0 - balance) * math.log(lift)


@dataclass(frozen=True)
class Topic:
    """A group of papers.

    label: short name; "mixed" where its papers share no telling phrase.
    phrases: the phrases the label is made of, the best first; none for a mixed topic.
    terms: the most telling phrases with their weights.
    members: indices of its papers. central: index of the paper most like the group's mean.
    """

    label: str
    phrases: tuple[str, ...]
    terms: tuple[Term, ...]
    members: tuple[int, ...]
    central: int
    mixed: bool


class PhraseBook:
    """The phrases of a collection: which paper holds which, and how each is written most often.

    documents: (title, text) of every paper; of more than 5,000 a seeded draw is read.
    """

    def __init__(self, documents: Sequence[tuple[str, str]]):
        n = len(documents)
        self._documents = documents
        self.read = np.arange(n)
        if n > _COUNTED:
            self.read = np.sort(np.random.default_rng(0).choice(n, _COUNTED, replace=False))
        self._phrases: dict[int, frozenset[str]] = {}
        seen: Counter[str] = Counter()
        for index in self.read.tolist():
            keys = self._keys(index)
            seen.update(keys)
            self._phrases[index] = keys
        self.least = 2 if n < 1000 else 3
        self._counts = {key: count for key, count in seen.items() if count >= self.least}
        self._phrases = {
            index: frozenset(key for key in keys if key in self._counts) for index, keys in self._phrases.items()
        }

    def _keys(self, index: int) -> frozenset[str]:
        return frozenset(key for part in self._documents[index] for key, _ in phrase_forms(part))

    def count(self, members: Iterable[int]) -> tuple[Counter, int]:
        """Papers among `members` that hold each phrase, and how many of the members were read at all."""
        read = [index for index in members if index in self._phrases]
        return Counter(key for index in read for key in self._phrases[index]), len(read)

    def total(self, key: str) -> int:
        """Papers of the whole (read) collection that hold the phrase."""
        return self._counts.get(key, 0)

    def holders(self, members: Iterable[int], keys: Iterable[str]) -> float:
        """Share of the read members that hold at least one of the phrases."""
        wanted = set(keys)
        read = [self._phrases[index] for index in members if index in self._phrases]
        return sum(not wanted.isdisjoint(phrases) for phrases in read) / max(len(read), 1)

    def written(self, members: Iterable[int], keys: Iterable[str]) -> dict[str, str]:
        """The phrases as the members mostly write them; running text counts before titles."""
        wanted = set(keys)
        forms: dict[str, Counter] = defaultdict(Counter)
        for index in members:
            if index not in self._phrases or wanted.isdisjoint(self._phrases[index]):
                continue
            title, text = self._documents[index]
            found = {key: form for key, form in phrase_forms(title) if key in wanted}
            forms_here = {key: form.lower() if form.istitle() else form for key, form in found.items()}
            forms_here.update({key: form for key, form in phrase_forms(text) if key in wanted})
            for key, form in forms_here.items():
                forms[key][form] += 1
        return {key: _usual(forms[key], key) for key in wanted}


def describe(book: PhraseBook, groups: np.ndarray, rows: np.ndarray) -> tuple[list[Topic], np.ndarray]:
    """Topics, the largest first and mixed ones last, and the topic (n,) of each paper.

    groups: (n,) group numbers from 0. rows: (n, d) unit vectors, for the central paper.
    """
    topics = []
    for number in range(int(groups.max(initial=-1)) + 1):
        members = np.flatnonzero(groups == number)
        topics.append(_topic(book, members, rows, len(groups)))
    topics.sort(key=lambda topic: (topic.mixed, -len(topic.members), topic.members[0]))
    topic_of = np.zeros(len(groups), dtype=np.int64)
    for number, topic in enumerate(topics):
        topic_of[list(topic.members)] = number
    return topics, topic_of


def telling(book: PhraseBook, members: Sequence[int], most: int = TERMS) -> list[tuple[str, Term]]:
    """The most telling phrases of some papers against the rest, as (key, term), the best first.

    Score p·ln(p/q), p the share of the papers that hold the phrase and q that of the others, a third more
    for two words or more. Of overlapping phrases only the best is kept.
    """
    counts, size = book.count(members)
    if not size:
        return []
    others = len(book.read) - size
    least = max(book.least if size > 2 else 2, 0.08 * size)
    scored = []
    for key, count in counts.items():
        inside = count / size
        outside = (book.total(key) - count + 0.5) / (others + 0.5)
        if count >= least and inside > outside:
            longer = 1.35 if " " in key else 0.5 if key in VAGUE else 1.0
            scored.append((inside * math.log(inside / outside) * longer, key, inside, outside))
    scored.sort(key=lambda entry: (-entry[0], -len(entry[1]), entry[1]))
    scored = _without_cut_phrases(scored, counts)
    picked: list[tuple[float, str, float, float]] = []
    for entry in scored:
        if len(picked) == most:
            break
        if not any(_overlap(entry[1], other[1]) for other in picked):
            picked.append(entry)
    written = book.written(members, [entry[1] for entry in picked])
    best = picked[0][0] if picked else 1.0
    return [(key, Term(written[key], score / best, inside, outside)) for score, key, inside, outside in picked]


def _topic(book: PhraseBook, members: np.ndarray, rows: np.ndarray, n: int) -> Topic:
    mean = rows[members].mean(axis=0)
    central = int(members[int(np.argmax(rows[members] @ mean))])
    own = members.tolist()
    terms = telling(book, own)
    names = _name(book, own, terms, n)
    shown = tuple(term for _, term in terms)
    label = ", ".join(names) if names else MIXED
    return Topic(label, tuple(names), shown, tuple(own), central, not names)


def _name(book: PhraseBook, members: list[int], terms: list[tuple[str, Term]], n: int) -> list[str]:
    """One to three phrases that name the group; none if too few of its papers share a telling phrase."""
    fit = [(key, term) for key, term in terms if _can_name(key) and term.inside >= _MIN_LIFT * term.outside]
    if n < 100:
        fit = [(key, term) for key, term in fit if term.inside >= 0.5]
        most = 1 if fit and " " in fit[0][0] else 2
    else:
        most = 2 if fit and " " in fit[0][0] else 3
    chosen = fit[:most]
    if not chosen or len(members) < 2 or book.holders(members, [key for key, _ in chosen]) < 0.5:
        return []
    return [term.text for _, term in chosen]


def _can_name(key: str) -> bool:
    """False for a lone vague word or adjective, and for words of the whole field (`deep neural network`)."""
    words = key.split()
    if len(words) > 1:
        return not all(word in VAGUE for word in words) or key.endswith("language model")
    return key not in VAGUE and (key in _NOUNS or not _ADJECTIVE.fullmatch(key))


def _without_cut_phrases(scored: list[tuple], counts: Counter) -> list[tuple]:
    """Phrases without those that are mostly a piece of a longer one (`large language` of `… model`)."""
    longer: dict[str, int] = defaultdict(int)
    for _, key, *_rest in scored:
        words = key.split()
        for length in range(1, len(words)):
            for start in range(len(words) - length + 1):
                piece = " ".join(words[start : start + length])
                longer[piece] = max(longer[piece], counts[key])
    return [entry for entry in scored if longer[entry[1]] < _LONGER_IS_BETTER * counts[entry[1]]]


def _usual(forms: Counter, key: str) -> str:
    """The form written most often; one without capitals wins where it is at least a third as frequent."""
    return max(sorted(forms), key=lambda form: forms[form] * (3 if form.islower() else 1), default=key)


def _overlap(key: str, other: str) -> bool:
    """True if the phrases share a word, spell one another's initials, or differ only in ending."""
    words, others = key.split(), other.split()
    if set(words) & set(others):
        return True
    short, long = sorted((words, others), key=len)
    initials = "".join(part[0] for word in long for part in word.split("-") if part)
    if len(short) == 1 and len(long) > 1 and fold(short[0]) == fold(initials):
        return True
    return len(short) == len(long) == 1 and _same_stem(short[0], long[0])


def _same_stem(word: str, other: str) -> bool:
    shared = 0
    for sign, other_sign in zip(word, other, strict=False):
        if sign != other_sign:
            break
        shared += 1
    return shared >= 5 and shared >= 0.7 * max(len(word), len(other))
