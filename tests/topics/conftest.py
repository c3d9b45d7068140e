"""Collections for the tests of the topic map: the built-in one, and made-up ones."""

from dataclasses import dataclass

import numpy as np
import pytest

from core.abstracts import read_collection
from core.topics import TopicMap, build_map


@dataclass(frozen=True)
class Paper:
    """The fields of an abstract that the map reads."""

    id: str
    plain: str
    title: str = ""
    title_is_derived: bool = False


@dataclass(frozen=True)
class Papers:
    """A collection made by hand."""

    abstracts: tuple[Paper, ...]


def papers(texts) -> Papers:
    """Untitled papers of these texts, with ids p0, p1, …"""
    return Papers(tuple(Paper(f"p{number}", text) for number, text in enumerate(texts)))


@pytest.fixture(scope="session")
def seeds():
    """The built-in 38 abstracts."""
    return read_collection()


@pytest.fixture(scope="session")
def seed_map(seeds) -> TopicMap:
    return build_map(seeds)


@pytest.fixture(scope="session")
def find(seeds):
    """Looks an abstract up by a piece of its text."""

    def one(piece: str):
        (found,) = [abstract for abstract in seeds.abstracts if piece in abstract.plain]
        return found

    return one


THEMES = {
    "bandit": "bandit arm regret exploration reward pull confidence horizon",
    "graph": "graph node edge message passing neighbour adjacency spectral",
    "protein": "protein folding residue amino sequence structure docking ligand",
    "speech": "speech audio phoneme acoustic speaker microphone transcription voice",
    "privacy": "privacy differential noise budget leakage membership attack secret",
}


@pytest.fixture(scope="session")
def themed():
    """150 papers of made-up words in five plain themes, and the theme of each."""
    rng = np.random.default_rng(3)
    names, texts = [], []
    for number in range(150):
        name = list(THEMES)[number % len(THEMES)]
        words = rng.choice(THEMES[name].split(), 30).tolist() + [f"w{rng.integers(10**6)}x" for _ in range(10)]
        names.append(name)
        texts.append(" ".join(rng.permutation(words)))
    return papers(texts), np.array(names)
