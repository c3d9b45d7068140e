"""What every page shares: page config, list of pages, navigation, style, and the guard for first visits.

A folder called `pages/` beside the entry file makes Streamlit serve the first visitor of a fresh server in
its old multipage mode: a deep link then runs the page's file without `app.py`. `begin()`, called first by
every page, notices that, registers the real navigation and starts the run again.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import streamlit as st

NAME = "Runnable Abstracts"
WIDTH = 1240
_HERE = Path(__file__).parent
_PAGES = (
    # file, title, help
    ("overview.py", "Overview", "The collection at a glance: search, verdicts, and every method that runs."),
    ("topic_map.py", "Map", "The abstracts by topic: search, neighbours, and a click opens a paper."),
    ("method.py", "Methods", "One abstract, its method computed, and the verdict on each of its claims."),
    ("claims.py", "Claims", "Every claim of every abstract with its verdict and effect size."),
    ("collection.py", "Collection", "Bring your own list of abstracts, or take this one away."),
    ("present.py", "Present", "Slides for a talk, made from the methods you choose."),
)
_app_has_run = False


def pages() -> list:
    """The pages that exist, in the order of the navigation."""
    folder = _HERE.parent
    return [
        st.Page(folder / file, title=title, help=help, default=file == "overview.py")
        for file, title, help in _PAGES
        if (folder / file).exists()
    ]


def run_app() -> None:
    """The whole of `app.py`."""
    global _app_has_run
    _app_has_run = True
    st.set_page_config(page_title=NAME, layout="wide", page_icon=str(_HERE / "icon.svg"))
    page = st.navigation(pages(), position="top")
    st.logo(str(_HERE / "logo.svg"), size="large")
    st.html(f"<style>{(_HERE / 'style.css').read_text(encoding='utf-8')}</style>")
    page.run()


def begin() -> None:
    """Call first on every page: makes sure that the page runs inside the app."""
    global _app_has_run
    if not _app_has_run:
        _app_has_run = True
        st.navigation(pages(), position="top")
        st.rerun()


@contextmanager
def sheet(key: str) -> Iterator[None]:
    """The centred column that every page lives in."""
    with st.container(horizontal_alignment="center"), st.container(width=WIDTH, key=key, gap="small"):
        yield


def page_path(file: str) -> str:
    """A page's path as `st.page_link` and `st.switch_page` take it."""
    return f"pages/{file}"


def chart_config(name: str) -> dict:
    """Plotly's options for a figure: one button, which saves a picture sized for a slide under this name."""
    return {
        "displayModeBar": "hover",
        "displaylogo": False,
        "modeBarButtons": [["toImage"]],
        "toImageButtonOptions": {"filename": name, "width": 1280, "height": 720, "scale": 2},
    }


def is_dark() -> bool:
    """Whether the viewer's page is dark; a switch in the menu shows at the next run."""
    return st.context.theme.type == "dark"


def data_uri(svg: str) -> str:
    """SVG text as an address for an image."""
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()
