"""Real text for the STAMP demo: the abstracts, a background of docstrings, a vocabulary, synonym groups."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from itertools import islice, pairwise

import numpy as np

from core.abstracts import read_collection
from core.abstracts.readers import DATA

FILES = ("000_4501c98dc2863876.txt", "002_d982ebe23136f0af.txt")
BACKGROUND, BASE = 60_000, 40_000
"""Words of background, and those of them that the base model reads."""
COMMON = 1500
"""So many of the commonest background words are in the vocabulary whatever the abstracts hold."""
UNKNOWN = 0
_LISTED = """
approach/method/technique approaches/methods/techniques show/demonstrate/illustrate
shows/demonstrates/illustrates propose/introduce/present proposes/introduces/presents
proposed/introduced/presented existing/current/previous often/frequently/commonly however/nevertheless/yet
various/diverse/several different/distinct/varied while/whereas novel/new address/tackle framework/scheme
significant/substantial/considerable significantly/substantially/considerably across/over/throughout
important/essential/vital experiments/evaluations/tests results/findings/outcomes achieves/attains/reaches
achieve/attain/reach enhance/improve/strengthen enhances/improves/strengthens using/employing/utilizing
enables/permits/allows performance/quality effective/useful effectively/successfully efficient/economical
multiple/many/numerous challenging/difficult/hard challenges/difficulties/obstacles large/big
complex/intricate/complicated rely/depend relies/depends capture/represent study/investigate/examine
develop/devise/build work/study also/additionally/moreover validate/verify/confirm
extensive/thorough/comprehensive leads/results consider/regard such/similar reduce/decrease/lower
reduces/decreases/lowers primarily/mainly/mostly specifically/particularly/precisely fundamental/basic/central
recent/latest theoretical/formal provide/give/offer provides/gives/offers standard/usual/conventional
suboptimal/inferior/imperfect consistently/reliably/invariably remains/stays identify/detect/recognize
outperforms/surpasses/exceeds task/problem tasks/problems highlight/emphasize/underline key/crucial/main
high/elevated general/broad robust/resilient/stable making/rendering limited/restricted through/via
within/inside simple/plain/easy increasingly/progressively further/additional focus/concentrate
directly/immediately motivated/prompted/driven perform/conduct accurate/precise/exact
accurately/precisely/exactly reveal/uncover/expose ensure/guarantee requires/needs/demands
underlying/hidden/latent analysis/examination findings/insights despite/notwithstanding during/amid
therefore/thus/hence available/accessible based/founded towards/toward well/properly goal/aim/objective
strategy/policy overcome/resolve practical/applied
"""
GROUPS = tuple(tuple(group.split("/")) for group in _LISTED.split())
SYNONYMS = {word: group for group in GROUPS for word in group}
"""word -> its synonyms with itself; a word of two groups belongs to the last."""


def words_of(text: str) -> list[str]:
    """Lower-case words; `ValueError` if there are none."""
    found = re.findall("[a-z']+", text.lower())
    if not found:
        raise ValueError("text: it has no words")
    return found


def slots_of(words: list[str]) -> list[int]:
    """Places that hold a word with synonyms; `ValueError` if there are none."""
    slots = [i for i, word in enumerate(words) if word in SYNONYMS]
    if not slots:
        raise ValueError("documents: one has no word with a synonym, so all its versions would be the same")
    return slots


def docstring_words():
    """Words between triple double quotes in the modules one folder deep in scikit-learn, by path."""
    root = files("sklearn")
    modules = {
        f"{folder.name}/{file.name}": file
        for folder in root.iterdir()
        if folder.is_dir()
        for file in folder.iterdir()
        if file.name.endswith(".py")
    }
    for name in sorted(modules):
        for piece in re.findall('"""(.*?)"""', modules[name].read_text(encoding="utf-8"), re.DOTALL):
            yield from re.findall("[a-z']+", piece.lower())


@dataclass(frozen=True)
class Corpus:
    """`documents` are lists of words, `background` the numbers (60 000,) of its words in `vocabulary`.

    `words` and `pairs` count the background's words and pairs of neighbours, for the rephraser; `familiar` (documents,)
    is the share of each document's words that occur more than 5 times in the background.
    """

    documents: tuple[list[str], ...]
    background: np.ndarray
    vocabulary: dict[str, int]
    words: Counter
    pairs: Counter
    familiar: np.ndarray

    def numbers(self, words: list[str]) -> np.ndarray:
        """Numbers (n,) of words (n,); 0 for one that the vocabulary lacks."""
        return np.array([self.vocabulary.get(word, UNKNOWN) for word in words])


@lru_cache(maxsize=1)
def corpus() -> Corpus:
    """The text of all runs, read once."""
    documents = tuple(words_of(a.text) for a in read_collection(*(DATA / name for name in FILES)))
    background = list(islice(docstring_words(), BACKGROUND))
    counts = Counter(background)
    common = [word for word, _ in counts.most_common(COMMON)]
    known = dict.fromkeys([*(w for d in documents for w in d), *SYNONYMS, *common])
    vocabulary = {word: i for i, word in enumerate(known, 1)}
    numbers = np.array([vocabulary.get(word, UNKNOWN) for word in background])
    numbers.setflags(write=False)
    familiar = np.array([np.mean([counts[w] > 5 for w in d]) for d in documents])
    familiar.setflags(write=False)
    pairs = Counter(pairwise(background))
    return Corpus(documents, numbers, vocabulary, counts, pairs, familiar)
