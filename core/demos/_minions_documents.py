"""Long documents about invented companies, filled up with real sentences, and questions about them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from sklearn import datasets as sk

COMPANIES = ("alder", "birch", "cedar", "dogwood", "elm", "fir", "ginkgo", "hazel")
METRICS = (
    ("revenue", "sales", "turnover"),
    ("profit", "earnings", "surplus"),
    ("debt", "borrowing", "liabilities"),
    ("headcount", "staff", "employees"),
    ("inventory", "stock", "goods"),
    ("cash", "liquidity", "reserves"),
)
"""Wordings of each metric; questions use the first one only."""
YEARS = ("2018", "2019", "2020", "2021", "2022", "2023")
FORMS = (
    "in {y} the {m} of {c} was {v} million",
    "{c} reported {m} of {v} million for {y}",
    "for the year {y} {c} stated a {m} of {v}",
    "the {m} at {c} reached {v} during {y}",
)
FILLERS = ("digits", "wine", "iris", "breast_cancer", "diabetes", "linnerud")
LEAST_SENTENCES = 4
SHAPE = (len(COMPANIES), len(METRICS), len(YEARS))
Cell = tuple[int, int, int]
"""A fact's place: company, metric, year."""


def words(text: str) -> int:
    """What a text costs: its number of words."""
    return len(text.split())


def value_of(sentence: str) -> int | None:
    """The first number of a sentence that is not a year 20xx, if there is one."""
    return next((int(n) for n in re.findall(r"\b\d+\b", sentence) if not re.fullmatch(r"20\d\d", n)), None)


@lru_cache(maxsize=1)
def filler() -> tuple[str, ...]:
    """Sentences of 5 to 25 words without digits from the descriptions that come with scikit-learn's data."""
    found = []
    for name in FILLERS:
        plain = re.sub(r"[^\w\s.!?',;:-]", " ", getattr(sk, f"load_{name}")().DESCR.lower())
        for sentence in re.split(r"(?<=[.!?])\s+", plain):
            tokens = re.findall(r"[a-z][a-z']*", sentence)
            if not re.search(r"\d", sentence) and 5 <= len(tokens) <= 25:
                found.append(" ".join(tokens))
    return tuple(found)


def fact_sentences(rng: np.random.Generator, cells: np.ndarray) -> tuple[list[str], np.ndarray]:
    """A sentence for each cell (n, 3), of random form and wording, and the values (n,) they state."""
    n = len(cells)
    values, wording, form = rng.integers(100, 1000, n), rng.integers(0, 3, n), rng.integers(0, len(FORMS), n)
    sentences = [
        FORMS[f].format(c=COMPANIES[c], m=METRICS[m][w], y=YEARS[y], v=v)
        for (c, m, y), v, w, f in zip(cells, values, wording, form, strict=True)
    ]
    return sentences, values


@dataclass(frozen=True)
class Document:
    """Sentences in their order, the value read off each, and the truth by cell, which no reader may see."""

    sentences: tuple[str, ...]
    facts: dict[Cell, int]

    def __post_init__(self) -> None:
        if not self.sentences:
            raise ValueError("document: it has no sentences, so there is nothing to read")

    @property
    def text(self) -> str:
        return " ".join(self.sentences)


def make_document(rng: np.random.Generator, sentences: int) -> Document:
    """Half facts about different cells, half filler drawn with replacement, shuffled."""
    most = 2 * int(np.prod(SHAPE))
    if not LEAST_SENTENCES <= sentences <= most:
        raise ValueError(f"sentences: a document has {LEAST_SENTENCES} to {most}, not {sentences}")
    n = sentences // 2
    chosen = rng.choice(int(np.prod(SHAPE)), n, replace=False)
    cells = np.stack(np.unravel_index(chosen, SHAPE), axis=1)
    stated, values = fact_sentences(rng, cells)
    every = stated + [filler()[i] for i in rng.integers(0, len(filler()), sentences - n)]
    facts = {(int(c), int(m), int(y)): int(v) for (c, m, y), v in zip(cells, values, strict=True)}
    return Document(tuple(every[i] for i in rng.permutation(sentences)), facts)


def single_request(cell: Cell) -> str:
    """'revenue of alder in 2018': what is asked about one cell."""
    company, metric, year = cell
    return f"{METRICS[metric][0]} of {COMPANIES[company]} in {YEARS[year]}"


def request(cells: list[Cell] | tuple[Cell, ...]) -> str:
    """One message that asks for several cells at once."""
    return " and ".join(single_request(c) for c in cells)


def ask(rng: np.random.Generator, document: Document, parts: int) -> tuple[Cell, ...]:
    """A question: different cells of the document whose values are to be added up."""
    cells = list(document.facts)
    if not 1 <= parts <= len(cells):
        raise ValueError(f"parts: this document has {len(cells)} facts, so 1 to {len(cells)}, not {parts}")
    return tuple(cells[i] for i in rng.choice(len(cells), parts, replace=False))
