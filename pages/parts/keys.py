"""Keys of a deck: a clicker's keys press the slide's own buttons, whatever was touched last.

Streamlit's shortcuts give a key to one button and leave it to a control that has the focus. Here the
document listens first, so that space after a click on a button turns the page and does not press it again;
form fields keep their keys.
"""

from __future__ import annotations

from pathlib import Path

import streamlit as st

_JS = (Path(__file__).parent / "keys.js").read_text(encoding="utf-8")
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


def listen(presses: dict[str, str], stage: str = "") -> None:
    """Let keys press buttons: key name -> key of the button's widget. `stage` is enlarged to the window."""
    _mount(key="keys", data={"presses": presses, "stage": stage}, height=1)
