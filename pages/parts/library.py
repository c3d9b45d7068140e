"""What pages read: the collection, its map, the demos and their ledgers, each loaded once and shared."""

from __future__ import annotations

import re
from functools import cache

import streamlit as st

from core import demos as demo_files
from core.abstracts import Abstract, Collection, read_collection
from core.lab import ledger
from core.lab.demo import Demo
from core.lab.verdicts import Verdict
from core.topics import TopicMap, build_map
from core.topics.topic_map import Paper


@st.cache_resource(show_spinner=False)
def collection() -> Collection:
    """The built-in collection, read-only and shared by all viewers."""
    return read_collection()


@st.cache_resource(show_spinner="Drawing the map …")
def topic_map() -> TopicMap:
    """The map of the built-in collection."""
    return build_map(collection())


def demos() -> dict[str, Demo]:
    """The runnable methods by id."""
    return demo_files.catalogue()


def broken() -> dict[str, str]:
    """Demo files that do not load, with the reason."""
    return demo_files.broken()


def demo_of(abstract: Paper) -> Demo | None:
    """The demo of an abstract, wherever it comes from."""
    return demo_files.demo_of(abstract.plain)


@st.cache_resource(show_spinner=False)
def _abstracts_by_demo() -> dict[str, Abstract]:
    found = {}
    for abstract in collection().abstracts:
        demo = demo_of(abstract)
        if demo is not None:
            found[demo.id] = abstract
    return found


def abstract_of(demo: Demo) -> Abstract | None:
    """The built-in abstract of a demo."""
    return _abstracts_by_demo().get(demo.id)


@st.cache_resource(show_spinner=False, max_entries=80)
def _book(demo_id: str, stamp: float) -> ledger.Ledger | None:
    return ledger.read(demos()[demo_id])


def book(demo: Demo) -> ledger.Ledger | None:
    """The ledger of a demo, None if there is none or it cannot be read (see `book_problem`)."""
    try:
        return _book(demo.id, stamp(demo))
    except ValueError:
        return None


def book_problem(demo: Demo) -> str:
    """Why there are no verdicts from the ledger, or ""."""
    try:
        found = _book(demo.id, stamp(demo))
    except ValueError as error:
        return f"{error}. Run `make study` to rebuild it."
    return "" if found else f"{demo.name} has no ledger yet. Run `make study`, or check the claims here."


def stamp(demo: Demo) -> float:
    file = ledger.LEDGER / f"{demo.id}.csv"
    return file.stat().st_mtime if file.exists() else 0.0


@st.cache_resource(show_spinner=False, max_entries=400)
def _verdicts(demo_id: str, preset: str, stamp: float) -> tuple[Verdict, ...]:
    found = _book(demo_id, stamp)
    return tuple(found.verdicts(preset)) if found is not None and len(found.rows(preset)) else ()


def verdicts(demo: Demo, preset: str = "Default") -> list[Verdict]:
    """Verdicts of a preset from the ledger, empty where it has none."""
    try:
        return list(_verdicts(demo.id, preset, stamp(demo)))
    except ValueError:
        return []


def seeds(demo: Demo, preset: str = "Default") -> int:
    """Over how many seeds a preset was measured."""
    found = book(demo)
    return int(found.rows(preset)["seed"].nunique()) if found is not None else 0


@cache
def thumbnail(demo_id: str) -> str:
    """The gallery picture as SVG text, or ""."""
    file = ledger.THUMBNAILS / f"{demo_id}.svg"
    return file.read_text(encoding="utf-8") if file.exists() else ""


def short_name(abstract: Paper) -> str:
    """A name short enough for the map."""
    return demo_files.short_name(abstract.title, abstract.plain)


@st.cache_resource(show_spinner=False, max_entries=8)
def names_and_runs(key: str) -> tuple[list[str], list[int]]:
    """Short names of the built-in abstracts and the indices of those that run; `key` names the catalogue."""
    abstracts = collection().abstracts
    return [short_name(a) for a in abstracts], [i for i, a in enumerate(abstracts) if demo_of(a) is not None]


def catalogue_key() -> str:
    """Changes when the set of runnable methods does."""
    return ",".join(demos())


def totals() -> dict[str, int]:
    """Counts of claims by outcome over all methods, at their default presets."""
    counts = dict.fromkeys(("holds", "fails", "unclear", "untestable"), 0)
    for demo in demos().values():
        for verdict in verdicts(demo):
            counts[verdict.outcome] += 1
    return counts


def first_sentence(text: str, most: int = 160) -> str:
    """The first sentence of a plain text, cut at a word where it is long."""
    sentence = re.split(r"(?<=[.!?])\s", text.strip(), maxsplit=1)[0]
    return sentence if len(sentence) <= most else sentence[:most].rsplit(" ", 1)[0] + " …"
