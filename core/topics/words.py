"""Words of an abstract: tokens, stop words, singular forms, and the real phrases they stand in."""

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

WORD = re.compile(r"\b[^\W\d_][^\W_]+(?:-[^\W_]+)*\b")
"""A word of the vectors and labels: two signs or more, starts with a letter, may hold hyphens."""

_ADDRESS = re.compile(r"(?:https?://|www\.)\S+|\b\w[\w.-]*\.(?:com|org|io|net|edu|ai)(?:/\S*)?", re.IGNORECASE)
_SEVERAL = re.compile(r"\s+")
_SAME_IN_PLURAL = frozenset({"analysis", "bias", "basis", "series", "species", "news", "physics", "lens"})
_IRREGULAR = {
    "analyses": "analysis",
    "axes": "axis",
    "biases": "bias",
    "caches": "cache",
    "hypotheses": "hypothesis",
    "indices": "index",
    "matrices": "matrix",
    "vertices": "vertex",
}
_NOT_PLURAL = ("ss", "us", "is", "as", "ics")
_UNDECOMPOSED = str.maketrans({"µ": "u", "μ": "u", "ø": "o", "ł": "l", "đ": "d", "æ": "ae", "œ": "oe", "ı": "i"})


def _words(file: str) -> frozenset[str]:
    return frozenset(Path(__file__).with_name(file).read_text(encoding="utf-8").split())


STOP_WORDS = frozenset(ENGLISH_STOP_WORDS) | _words("boilerplate_words.txt")

VAGUE = _words("vague_words.txt")
"""Words of nearly every paper in the field: good inside a phrase, no topic and no reason alone."""


def without_addresses(text: str) -> str:
    """Text with web addresses taken out and white space made single."""
    return _SEVERAL.sub(" ", _ADDRESS.sub(" ", text)).strip()


@lru_cache(maxsize=200_000)
def singular(word: str) -> str:
    """Singular of a lower-case English noun, by its ending; other words come back as they are."""
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if word in _SAME_IN_PLURAL or len(word) < 3 or not word.endswith("s"):
        return word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "xes", "ches", "shes", "zzes")):
        return word[:-2]
    return word if word.endswith(_NOT_PLURAL) else word[:-1]


@lru_cache(maxsize=200_000)
def fold(word: str) -> str:
    """Word without case and accents: `Rényi` becomes `renyi`, `µnit` becomes `unit`."""
    bare = unicodedata.normalize("NFKD", word.casefold().translate(_UNDECOMPOSED))
    return "".join(sign for sign in bare if not unicodedata.combining(sign))


def tokens(text: str) -> list[str]:
    """Lower-case singular words of a text in order, stop words left out."""
    words = WORD.findall(without_addresses(text).lower())
    return [singular(word) for word in words if word not in STOP_WORDS]


def runs(text: str) -> Iterator[list[tuple[str, bool]]]:
    """Unbroken runs of telling words: neither a stop word nor a sign stands between two of them.

    Each word comes as written, with True if it opens a sentence (its capital then means nothing).
    """
    text = without_addresses(text)
    run: list[tuple[str, bool]] = []
    end = 0
    for match in WORD.finditer(text):
        gap = text[end : match.start()]
        telling = match[0].lower() not in STOP_WORDS
        if run and (not telling or gap != " "):
            yield run
            run = []
        if telling:
            run.append((match[0], end == 0 or any(sign in gap for sign in ".?!:")))
        end = match.end()
    if run:
        yield run


def phrase_forms(text: str, longest: int = 3) -> Iterator[tuple[str, str]]:
    """Phrases of one to `longest` words, each as (key, form).

    The key is lower-case and singular and so the same for all spellings; the form is as written, but for
    the capital of a sentence's first word.
    """
    for run in runs(text):
        keys = [singular(word.lower()) for word, _ in run]
        forms = [word.lower() if opens and word[1:].islower() else word for word, opens in run]
        for length in range(1, longest + 1):
            for start in range(len(run) - length + 1):
                stop = start + length
                yield " ".join(keys[start:stop]), " ".join(forms[start:stop])
