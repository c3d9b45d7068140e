"""Page state in the address bar, in one place: query parameter <-> session state, wrong values named."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st


@dataclass(frozen=True)
class Field:
    """One piece of a page's state that its link carries.

    `key` is the widget's or state's key, `default` what is left out of the link, `options` the values there
    are (none: any text), `many` a list of options joined by commas. `wrong` words the message on a value
    that does not exist.
    """

    param: str
    key: str
    default: Any = ""
    options: Callable[[], Sequence[str]] | None = None
    many: bool = False
    wrong: Callable[[str], str] | None = None

    def take(self, raw: str, messages: list[str]) -> Any:
        """The state that a raw value stands for, or the default and a sentence in `messages`."""
        if self.options is None:
            return raw
        options = self.options()
        parts = [p for p in raw.split(",") if p] if self.many else [raw]
        for part in [p for p in parts if p not in options]:
            short = part[:40]
            messages.append(
                self.wrong(short)
                if self.wrong
                else f"{self.param} cannot be “{short}”: it may be {' or '.join(options)}."
            )
        good = [p for p in parts if p in options]
        return good if self.many else good[0] if good else self.default

    def word(self, value: Any) -> str:
        """The value as it stands in a link, "" where it is left out."""
        if value is None or value == self.default:
            return ""
        return ",".join(value) if self.many else str(value).strip()


def read(page: str, fields: Sequence[Field]) -> list[str]:
    """Take the state from the address where that is news; returns a sentence for each wrong value."""
    params = st.query_params.to_dict()
    if params == st.session_state.get(f"{page}.written"):
        return []
    messages: list[str] = []
    for f in fields:
        st.session_state[f.key] = f.take(params[f.param], messages) if f.param in params else f.default
    known = {f.param for f in fields}
    for name in params:
        if name not in known and not name.startswith("embed"):
            messages.append(f"This page has no setting “{name[:40]}”; the rest is as in the link.")
    return messages


def write(page: str, fields: Sequence[Field]) -> None:
    """Put what is shown into the address, defaults left out; call after the widgets."""
    params = {f.param: word for f in fields if (word := f.word(st.session_state.get(f.key)))}
    params |= {k: v for k, v in st.query_params.items() if k.startswith("embed")}
    if st.query_params.to_dict() != params:
        st.query_params.from_dict(params)
    st.session_state[f"{page}.written"] = params


def messages(found: Sequence[str]) -> None:
    """Show what was wrong with a link."""
    for message in found:
        st.info(message, icon=":material/link:")
