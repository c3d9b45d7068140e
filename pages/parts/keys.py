"""Keys of a deck: a clicker's keys press the slide's own buttons, whatever was touched last.

Streamlit's shortcuts give a key to one button and leave it to a control that has the focus. Here the
document listens first, so that space after a click on a button turns the page and does not press it again;
form fields keep their keys.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

import streamlit as st

_JS = (Path(__file__).parent / "keys.js").read_text(encoding="utf-8")
_KEY = "keys"
_mount = st.components.v2.component("runnable_abstracts.keys", js=_JS)

DECK = {
    "ArrowRight": "deck-next",
    "PageDown": "deck-next",
    " ": "deck-next",
    "ArrowLeft": "deck-back",
    "PageUp": "deck-back",
    "Home": "deck-first",
    "End": "deck-last",
    "b": "deck-break",
    "n": "deck-notes",
    "Escape": "deck-leave",
}


@dataclass(frozen=True)
class Window:
    """The viewer's window as the browser told it: a phone's, or how many times it holds 1280 × 720 pixels."""

    narrow: bool = False
    scale: float = 1.0


def listen(presses: dict[str, str]) -> None:
    """Let keys press buttons: key name -> key of the button's widget."""
    data = {"presses": presses, "window": asdict(window())}
    _mount(key=_KEY, data=data, height=1, on_window_change=lambda: None)


def window() -> Window:
    """The window, as far as the browser has told; Streamlit itself does not know."""
    told = (st.session_state.get(_KEY) or {}).get("window") or {}
    return Window(bool(told.get("narrow", False)), float(told.get("scale", 1.0)))
