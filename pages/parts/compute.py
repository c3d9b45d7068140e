"""Runs and studies for pages: cached within bounds, with a message in place of a traceback."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from core.lab import study
from core.lab.demo import Demo, Measures, Settings
from core.lab.verdicts import Samples
from pages.parts import library

_slots = threading.BoundedSemaphore(2)
"""Two runs at once on the whole server, so that long work leaves the cached pages their turn."""


@dataclass(frozen=True)
class Shown:
    """What a page shows of one run; `problem` is set instead where the run failed."""

    figures: list[go.Figure] = field(default_factory=list)
    measures: Measures = field(default_factory=dict)
    sound: dict[str, bytes] = field(default_factory=dict)
    problem: str = ""


@st.cache_resource(show_spinner=False, max_entries=80)
def run(demo_id: str, settings: Settings, seed: int, preset: str | None, stamp: float) -> Shown:
    """One run drawn in the light palette. `preset` names the ledger's samples for the intervals.

    All sessions share the result without a copy: nobody may change its figures.
    """
    demo = library.demos()[demo_id]
    try:
        with _slots:
            result = demo.run(settings, seed)
        samples = _samples(demo, preset)
        figures = [demo.draw(f, result, samples) for f in demo.figures]
        sound = demo.sound(result) if demo.sound else {}
    except ValueError as error:
        return Shown(problem=str(error))
    except Exception as error:  # a demo's fault must not take the page down
        return Shown(problem=f"core/demos/{demo_id}.py stopped: {type(error).__name__}: {error}")
    return Shown(figures, result.measures, sound)


def _samples(demo: Demo, preset: str | None) -> Samples | None:
    book = library.book(demo) if preset else None
    return book.samples(preset) if book and preset and len(book.rows(preset)) else None


def shown(demo: Demo, settings: Settings, seed: int) -> Shown:
    """The figures and measures of a run, from the cache where it was run before."""
    return run(demo.id, settings, seed, demo.preset_of(settings), library.stamp(demo))


@st.cache_data(show_spinner=False, max_entries=2000, max_size="40MB")
def seed_rows(demo_id: str, settings: Settings, seed: int) -> pd.DataFrame:
    """The tidy rows of one seed with the probes of its claims."""
    with _slots:
        return study.run_seed(library.demos()[demo_id], settings, seed)


def live_study(demo: Demo, settings: Settings, seeds: int, progress: Callable[[int, int], None]) -> pd.DataFrame:
    """A study at any settings, seed by seed; stopping between seeds keeps the finished ones cached."""
    frames = []
    for seed in range(seeds):
        progress(seed, seeds)
        frames.append(seed_rows(demo.id, settings, seed))
    progress(seeds, seeds)
    return pd.concat(frames, ignore_index=True)
