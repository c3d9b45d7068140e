"""Copies of one abstract, exact or nearly so."""

import zlib
from collections import defaultdict
from collections.abc import Sequence

from core.abstracts.record import squeezed

_WORDS = 5  # in a shingle
_SKETCH = 8  # smallest shingles by which candidates are found; texts this alike share one almost surely
ALIKE = 0.9  # Jaccard similarity of the shingles from which texts count as copies
_ONE_WORD = 20  # words from which a single changed word makes no other abstract


def copies(texts: Sequence[str]) -> dict[int, int]:
    """For each plain text that repeats an earlier one: its index and that of the first.

    Copies have the same letters and digits, or shingles of five words with a Jaccard similarity
    of 0.9, or 20 words and more of which one differs.
    """
    first_with: dict[str, int] = {}
    near: dict[int, list[int]] = defaultdict(list)
    kept: dict[int, tuple[list[str], frozenset[int]]] = {}
    found: dict[int, int] = {}
    for index, text in enumerate(texts):
        key = squeezed(text)
        if not key:
            continue
        if key in first_with:
            found[index] = first_with[key]
            continue
        words = [squeezed(word) for word in text.split()]
        words = [word for word in words if word]
        shingles = frozenset(
            zlib.crc32(" ".join(words[at : at + _WORDS]).encode("utf-8", "replace"))
            for at in range(len(words) - _WORDS + 1)
        )
        sketch = sorted(shingles)[:_SKETCH]
        candidates = sorted({other for shingle in sketch for other in near[shingle][:50]})
        twin = next((other for other in candidates if _alike(*kept[other], words, shingles)), None)
        first_with[key] = index if twin is None else twin
        if twin is not None:
            found[index] = twin
            continue
        kept[index] = (words, shingles)
        for shingle in sketch:
            near[shingle].append(index)
    return found


def _alike(words: list[str], shingles: frozenset[int], others: list[str], other_shingles: frozenset[int]) -> bool:
    common = len(shingles & other_shingles)
    if common >= ALIKE * (len(shingles) + len(other_shingles) - common):
        return True
    if len(words) != len(others) or len(words) < _ONE_WORD:
        return False
    return sum(a != b for a, b in zip(words, others, strict=True)) <= 1
