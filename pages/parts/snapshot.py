"""Figures of a page as SVG; each figure's own button saves a PNG."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

_HTML = """<button title="Save every figure of this page as SVG; the button on a figure saves a PNG">
<span>↓</span> SVG</button>"""
_CSS = """button { all: unset; cursor: pointer; font: 0.875rem/1.6 var(--st-font); padding: .5rem 0; color: var(--st-text-color); }
button:hover, button:focus-visible { color: var(--st-primary-color); }
span { padding-right: .35rem; }"""
_mount = st.components.v2.component(
    "runnable_abstracts.snapshot",
    html=_HTML,
    css=_CSS,
    js=(Path(__file__).parent / "snapshot.js").read_text(encoding="utf-8"),
)


def svg() -> None:
    """The button that saves all figures of the page as SVG."""
    _mount(key="snapshot", width="content")
