"""Copies of one abstract, exact or nearly so."""

from __future__ import annotations

import hashlib
import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Sequence

import numpy as np

from core.abstracts.record import URL

_WORDS = 5  # in a shingle
_SKETCH = 8  # smallest shingles by which candidates are found; texts this alike share one almost surely
_CANDIDATES = 20  # earlier texts that a text is compared with at most, those with the most shared shingles first
ALIKE = 0.9  # Jaccard similarity of the shingles from which texts count as copies
_LONG = 80  # words
_ONE_WORD = 20  # words from which a single changed word makes no other abstract

_PUNCTUATION = re.compile(r"[^\w\s]+|_+")
_ASCII = {sign: None for sign in range(128) if not chr(sign).isalnum() and not chr(sign).isspace()}
_CJK = re.compile("([\u3040-\u30ff\u3400-\u9fff])")
_POWERS = np.array([0x9E3779B97F4A7C15], dtype=np.uint64) ** np.arange(_WORDS, dtype=np.uint64)


def copies(texts: Sequence[str]) -> dict[int, int]:
    """For each plain text that repeats an earlier one: its index and that of the first.

    Copies have the same letters and digits, or shingles of five words with a Jaccard similarity
    of 0.9, or 20 words and more of which one differs. Chinese and Japanese characters count as words.
    Time is near linear: a text is compared with at most 20 others, found by their smallest shingles.
    """
    keys: list[bytes] = []
    words: list[np.ndarray] = []
    known = _Hashes()
    for text in texts:
        parts = _words_of(text)
        keys.append(hashlib.blake2b("".join(parts).encode("utf-8", "replace"), digest_size=16).digest())
        words.append(np.fromiter(map(known.__getitem__, parts), dtype=np.uint64, count=len(parts)))
    first_with: dict[bytes, int] = {}
    found: dict[int, int] = {}
    sketches = _Sketches(words)
    for index, key in enumerate(keys):
        if not len(words[index]):
            continue
        if key in first_with:
            found[index] = first_with[key]
            continue
        near = [other for other in sketches.candidates(index) if other not in found]
        twin = next((other for other in sorted(near) if _alike(words[other], words[index])), None)
        first_with[key] = index if twin is None else twin
        if twin is not None:
            found[index] = twin
    return found


def _words_of(text: str) -> list[str]:
    """The words without case and punctuation, web addresses left out."""
    text = URL.sub("", text)
    if text.isascii():
        return text.lower().translate(_ASCII).split()
    text = _PUNCTUATION.sub("", unicodedata.normalize("NFKC", text).casefold())
    return _CJK.sub(r" \1 ", text).split()


class _Hashes(dict[str, int]):
    """A number for each word, the same in every run, remembered."""

    def __missing__(self, word: str) -> int:
        number = self[word] = zlib.crc32(word.encode("utf-8", "replace")) + (len(word) << 32)
        return number


def _shingles(words: np.ndarray) -> np.ndarray:
    """Sorted distinct numbers (n,) of all runs of five words."""
    count = len(words) - _WORDS + 1
    if count < 1:
        return words[:0]
    mixed = words[:count] * _POWERS[0]
    for at in range(1, _WORDS):
        mixed += words[at : at + count] * _POWERS[at]
    mixed ^= mixed >> np.uint64(29)
    mixed.sort()
    return mixed[np.r_[True, mixed[1:] != mixed[:-1]]]


class _Sketches:
    """Which earlier texts share some of a text's smallest shingles."""

    def __init__(self, words: Sequence[np.ndarray]):
        self.lengths = [len(text) for text in words]
        sketches = [_shingles(text)[:_SKETCH] for text in words]
        self.begins = np.r_[0, np.cumsum([len(sketch) for sketch in sketches], dtype=int)]
        shingles = np.concatenate([*sketches, np.zeros(0, np.uint64)])
        owners = np.repeat(np.arange(len(sketches)), np.diff(self.begins))
        order = np.lexsort((owners, shingles))
        self.owners = owners[order]  # those of one shingle stand together, in order
        self.place = np.empty(len(order), int)
        self.place[order] = np.arange(len(order))
        self.first = np.searchsorted(shingles[order], shingles)  # where the owners of a shingle begin

    def candidates(self, index: int) -> list[int]:
        """At most 20, those that share the most first."""
        near: Counter[int] = Counter()
        for at in range(self.begins[index], self.begins[index + 1]):
            first, place = self.first[at], self.place[at]
            if place > first:
                closest = self.owners[max(first, place - _CANDIDATES) : place].tolist()
                near.update({*closest, *self.owners[first : min(place, first + _CANDIDATES)].tolist()})
        least = 1 if self.lengths[index] < _LONG else 3  # of long texts that are alike most smallest shingles agree
        return [other for other, shared in near.most_common(_CANDIDATES) if shared >= least]


def _alike(words: np.ndarray, others: np.ndarray) -> bool:
    shingles, other_shingles = _shingles(words), _shingles(others)
    common = len(np.intersect1d(shingles, other_shingles, assume_unique=True))
    if common and common >= ALIKE * (len(shingles) + len(other_shingles) - common):
        return True
    if len(words) != len(others) or len(words) < _ONE_WORD:
        return False
    return int(np.count_nonzero(words != others)) <= 1
