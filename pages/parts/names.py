"""Names of papers on a live map, placed in the browser so that they follow zoom and selection."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

_mount = st.components.v2.component(
    "runnable_abstracts.names", js=(Path(__file__).parent / "names.js").read_text(encoding="utf-8")
)


def follow(place: str) -> None:
    """Name the papers of the map that stands in the container with this key."""
    with st.container(key="hidden-names"):
        _mount(key="names", data={"place": place}, height=1)
