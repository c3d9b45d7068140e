"""Starred papers of this session, and papers to take away in the usual formats."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

import streamlit as st

from core.abstracts import Abstract, export

_KEY = "reading_list"


def starred() -> dict[str, Abstract]:
    """The starred papers by id, in the order in which they were starred."""
    return st.session_state.setdefault(_KEY, {})


def add(abstracts: Iterable[Abstract]) -> None:
    """A callback: star these papers."""
    starred().update({a.id: a for a in abstracts})


def toggle(abstract: Abstract) -> None:
    """A callback: star a paper, or take the star away."""
    if starred().pop(abstract.id, None) is None:
        add([abstract])


def star(abstract: Abstract) -> None:
    """The button that stars a paper."""
    on = abstract.id in starred()
    st.button(
        "Saved" if on else "Save",
        type="tertiary",
        icon=":material/star:" if on else ":material/star_border:",
        key=f"star.{abstract.id}",
        help="Take it off the reading list" if on else "Put it on the reading list (see Collection)",
        on_click=toggle,
        args=(abstract,),
    )


def take_away(abstracts: Sequence[Abstract], name: str, key: str) -> None:
    """Download buttons for papers in every format; the text is written when a button is pressed."""
    with st.container(horizontal=True, gap="small"):
        for label, write, ending, mime in (
            ("CSV", export.to_csv, "csv", "text/csv"),
            ("JSONL", export.to_jsonl, "jsonl", "application/jsonl"),
            ("BibTeX", export.to_bibtex, "bib", "application/x-bibtex"),
            ("Markdown", export.to_markdown, "md", "text/markdown"),
        ):
            st.download_button(
                label,
                partial(write, abstracts),
                f"{name}.{ending}",
                mime,
                type="tertiary",
                icon=":material/download:",
                on_click="ignore",
                key=f"{key}.{ending}",
            )
