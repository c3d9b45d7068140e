"""Which collections there are in this session, which one is shown, and its map, made aside where it takes long.

The built-in collection is shared by all viewers; an own list belongs to its session and goes with it.
"""

from __future__ import annotations

import multiprocessing
import os
import textwrap
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import plotly.graph_objects as go
import streamlit as st

from core.abstracts import Abstract, Collection
from core.abstracts.together import merged
from core.topics import Neighbour, TopicMap, build_map, levels, place_new, refit
from core.topics.aside import OnMap, made
from core.topics.map_figure import safe
from core.topics.search import Found, SearchIndex
from pages.parts import library

Choice = Literal["built-in", "own", "both"]
AT_ONCE = 300
"""Up to so many abstracts a map is made while the page waits; more are mapped by another process."""
NAMED = 150
"""Up to so many papers have their names on the map."""
DRAWN = 12
"""So many figures of a collection are kept."""
DESCRIBED = 2000
"""Up to so many papers a hover label tells more than the title."""
SECONDS_PER_THOUSAND = 4.0
"""What a map takes, about; told to those who wait."""


@dataclass(eq=False)
class Shown:
    """A collection with what the pages need of it; `topic_map` is None while it is being made."""

    collection: Collection
    topic_map: TopicMap | None = None
    problem: str = ""
    job: Future[TopicMap] | None = field(default=None, repr=False)
    drawn: OrderedDict[Hashable, go.Figure] = field(default_factory=OrderedDict, repr=False)
    _broad: tuple[TopicMap, TopicMap] | None = field(default=None, repr=False)

    @cached_property
    def mapped(self) -> tuple[Abstract, ...]:
        """The abstracts that say something: those on the map, in its order."""
        return tuple(a for a in self.collection if not a.is_placeholder)

    @cached_property
    def names(self) -> list[str]:
        """Short names (n,) of the papers on the map, "" for all where they are too many to be named."""
        few = len(self.mapped) <= NAMED
        return [library.short_name(a) if few else "" for a in self.mapped]

    @cached_property
    def hover(self) -> list[str]:
        """Texts for hover labels (n,), already safe: the title, and the first sentence where papers are few."""
        out = []
        for a in self.mapped:
            text = f"<b>{safe(a.title)}</b>"
            if len(self.mapped) <= DESCRIBED:
                lines = textwrap.wrap(library.first_sentence(a.plain, 220), 60)
                text += "".join(f"<br>{safe(line)}" for line in lines)
            out.append(text)
        return out

    @cached_property
    def runs(self) -> list[int]:
        """Indices on the map of the papers whose methods run here."""
        return [i for i, a in enumerate(self.mapped) if library.demo_of(a) is not None]

    @cached_property
    def index(self) -> SearchIndex:
        """The search index, there before the map is; one and the same with the map's, if that is there."""
        if self.topic_map is not None:
            return self.topic_map.search_index
        return SearchIndex([a.title for a in self.mapped], [a.plain for a in self.mapped])

    def search(self, query: str, most: int | None = None) -> Found:
        """Papers on the map that fit a query, the best first."""
        return self.index(query, most)

    def broad(self) -> TopicMap:
        """The map at the coarser level of topics; made once for each map."""
        assert self.topic_map is not None
        if self._broad is None or self._broad[0] is not self.topic_map:
            self._broad = self.topic_map, levels.broader(self.topic_map)
        return self._broad[1]

    def figure(self, key: Hashable, draw: Callable[[], go.Figure]) -> go.Figure:
        """A figure of this collection from the last ones drawn; nobody may change it."""
        found = self.drawn.pop(key, None) or draw()
        self.drawn[key] = found
        while len(self.drawn) > DRAWN:
            self.drawn.popitem(last=False)
        return found

    def ready(self) -> bool:
        """Whether the map is there; takes it from its process when that is done."""
        if self.job is not None and self.job.done():
            job, self.job = self.job, None
            try:
                self.topic_map = job.result()
                self.drawn.clear()  # they show the map before
            except BrokenProcessPool:
                _workers.clear()
                self.problem = "The map could not be made: its process ended, most likely for want of memory."
            except Exception as error:  # a fault of the map must not take the list away
                self.problem = f"The map could not be made: {type(error).__name__}: {error}"
        return self.topic_map is not None

    def start(self, make: Callable[..., TopicMap], *given: object) -> None:
        """Have the map made: at once for a small list, by another process for a larger one."""
        self.problem = ""
        self.drawn.clear()
        if self.job is not None:
            self.job.cancel()
        if len(self.mapped) <= AT_ONCE:
            self.job, self.topic_map = None, make(*given)
        else:
            self.job = _workers().submit(made, make, *given)


@st.cache_resource(show_spinner=False)
def _workers() -> ProcessPoolExecutor:
    """One process at low priority that makes maps, one after another, and gives its memory back each time."""
    return ProcessPoolExecutor(
        1,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=os.nice,
        initargs=(10,),
        max_tasks_per_child=1,
    )


@st.cache_resource(show_spinner=False, max_entries=2)
def _built_in(catalogue: str) -> Shown:
    return Shown(library.collection(), library.topic_map())


def built_in() -> Shown:
    """The collection that comes with the app; its names and runs follow the catalogue."""
    return _built_in(library.catalogue_key())


def built_in_near(text: str, most: int = 20) -> list[Neighbour]:
    """Papers of the built-in collection that a text is close to, the nearest first."""
    return [n for n in library.topic_map().place(text, k=most).neighbours if n.close]


def own() -> Shown | None:
    """The reader's own list, or None."""
    return st.session_state.get("shelf.own")


def choice() -> Choice:
    """Which collection is shown; the built-in one where there is no own list."""
    return st.session_state.get("shelf.choice", "built-in") if own() is not None else "built-in"


def shown() -> Shown:
    """The collection that the reader chose to see."""
    now, list_of_own = choice(), own()
    if now == "built-in" or list_of_own is None:
        return built_in()
    if now == "own":
        return list_of_own
    both = st.session_state.get("shelf.both")
    if both is None and not list_of_own.ready():
        return list_of_own  # the map of both starts from the larger one's
    if both is None:
        both = Shown(merged((library.collection(), list_of_own.collection)))
        assert list_of_own.topic_map is not None
        larger = max(library.topic_map(), list_of_own.topic_map, key=len)
        both.start(place_new, larger, OnMap(both.mapped))
        st.session_state["shelf.both"] = both
    return both


def put(collection: Collection, *, add: bool = False) -> None:
    """Make a collection the own list and show it; with `add` its papers join those that are there already.

    Papers that are on the map stay exactly where they are.
    """
    before = own()
    keep = before.topic_map if add and before is not None and before.ready() else None
    if add and before is not None:
        collection = merged((before.collection, collection))
    fresh = Shown(collection)
    if keep is not None:
        fresh.start(place_new, keep, OnMap(fresh.mapped))
    else:
        fresh.start(build_map, OnMap(fresh.mapped))
    st.session_state["shelf.own"], st.session_state["shelf.both"] = fresh, None
    st.session_state["shelf.choice"] = "own"


def settle() -> None:
    """Make the map of what is shown anew, close in shape to the old one."""
    now = shown()
    if now.topic_map is not None and now is not built_in():
        now.start(refit, now.topic_map, OnMap(now.mapped))


def drop() -> None:
    """Forget the own list."""
    for key in ("shelf.own", "shelf.both", "shelf.choice"):
        st.session_state.pop(key, None)


def heading(now: Shown) -> None:
    """Which collection this is and a way to choose another, where there is a choice."""
    mine = own()
    if mine is None:
        return
    names: dict[str, str] = {
        "built-in": library.collection().name,
        "own": mine.collection.name,
        "both": "Both together",
    }
    st.session_state["shelf.pick"] = choice()

    def pick() -> None:
        st.session_state["shelf.choice"] = st.session_state["shelf.pick"]

    st.segmented_control(
        "Showing",
        list(names),
        key="shelf.pick",
        format_func=lambda c: names[c][:40],
        required=True,
        label_visibility="collapsed",
        on_change=pick,
    )


def expected_seconds(count: int) -> float:
    """About how long the map of so many papers takes."""
    return max(1.0, SECONDS_PER_THOUSAND * count / 1000)
