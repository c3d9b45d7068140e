"""Share links of a method page: URL -> validated settings -> widgets -> URL, in one place.

A link names the method always and every setting that differs from its default: `?method=bass&agents=20`.
The pure functions `read` and `write` know nothing of Streamlit; `settings_from_page` keeps
the widgets and the address bar in step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import streamlit as st

from core.lab.demo import Control, Demo, Settings, controls

SEED = Control("seed", "Seed", "int", 0, 0, 9999, 1, help="Draws other data and other initial weights.")
RESERVED = {"method", "seed", "sweep", "embed", "embed_options"}
_WORDS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


@dataclass(frozen=True)
class Link:
    """What a link asks for, validated; `messages` name what was wrong and what is shown instead."""

    demo: Demo
    settings: Settings
    seed: int = 0
    sweep: str = ""
    messages: tuple[str, ...] = field(default=())


def read(params: Mapping[str, Sequence[str]], demos: Mapping[str, Demo], fallback: str) -> Link:
    """A link from raw query parameters (name -> all its values). Never raises on anything in `params`."""
    messages: list[str] = []
    wanted = list(params.get("method", []))
    name = wanted[0] if wanted else fallback
    if name not in demos:
        messages.append(f"There is no method {_shown(name)}; this is {demos[fallback].name}.")
        name = fallback
    demo = demos[name]
    known = {c.name: c for c in controls(demo.settings)}
    values: dict[str, Any] = {}
    for key, given in params.items():
        if key in known:
            _take(known[key], given, values, messages)
        elif key not in RESERVED:
            messages.append(f"{demo.name} has no setting {_shown(key)} (any more); the rest is as in the link.")
    seed: dict[str, Any] = {}
    if "seed" in params:
        _take(SEED, params["seed"], seed, messages)
    try:
        settings = demo.settings.checked(values)
    except ValueError as error:  # single values are fine, together they are not
        messages.append(f"{error} The defaults are shown instead.")
        settings = demo.settings()
    sweep = next(iter(params.get("sweep", [])), "")
    if sweep and (sweep not in known or known[sweep].kind not in ("int", "float") or not known[sweep].shown):
        messages.append(f"sweep cannot be {_shown(sweep)}: it may be a number setting of {demo.name}.")
        sweep = ""
    return Link(demo, settings, int(seed.get("seed", 0)), sweep, tuple(messages))


def _take(control: Control, given: Sequence[str], values: dict[str, Any], messages: list[str]) -> None:
    """Add one setting to `values`, or a sentence to `messages`."""
    raw = given[0] if len(given) == 1 else None
    value = None if raw is None else parse(control, raw)
    if value is None:
        text = _shown(raw) if raw is not None else f"given {len(given)} times"
        messages.append(
            f"{control.name} cannot be {text}: it may be {control.may_be}. {_word(control.default)} is shown."
        )
    else:
        values[control.name] = value


def parse(control: Control, raw: str) -> Any:
    """The typed value of a raw string within the control's range, or None."""
    if control.kind == "bool":
        return _WORDS.get(raw.strip().lower())
    if control.kind == "choice":
        return next((o for o in control.options if str(o) == raw), None)
    if len(raw) > 40 or not raw.isascii():
        return None
    try:
        value = float(raw)
    except ValueError:
        return None
    if not math.isfinite(value) or not control.low <= value <= control.high:
        return None
    if control.kind == "int":
        return int(value) if value == int(value) else None
    return value


def write(demo: Demo, settings: Settings, seed: int = 0, sweep: str = "") -> dict[str, str]:
    """The query parameters of a link: the method always, defaults left out."""
    params = {"method": demo.id}
    params |= {name: _word(value) for name, value in settings.changed().items()}
    if seed:
        params["seed"] = str(seed)
    if sweep:
        params["sweep"] = sweep
    return params


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)


def _shown(text: str) -> str:
    return "“" + (text if len(text) <= 40 else text[:39] + "…") + "”"


# --- keeping the page in step -------------------------------------------------------------------------


def key_of(demo: Demo, name: str) -> str:
    """The widget key of a setting: it carries the demo, since Streamlit shares state by key."""
    return f"{demo.id}.{name}"


def settings_from_page(demos: Mapping[str, Demo], fallback: str) -> Link:
    """The link that the page shows now: from the address bar if it is news, else from the widgets."""
    state = st.session_state
    params = {k: st.query_params.get_all(k) for k in st.query_params}
    flat = {k: v[-1] for k, v in params.items()}
    if flat != state.get("link.written"):
        if "method" not in params and "link.last" in state and not params:
            params = {k: [v] for k, v in state["link.last"].items()}
        link = read(params, demos, fallback)
        show(link)
        state["link.messages"] = link.messages
        return link
    demo = demos[flat["method"]]
    values = {c.name: state[key_of(demo, c.name)] for c in controls(demo.settings) if key_of(demo, c.name) in state}
    hidden = state.get(f"{demo.id}/hidden", {})
    seed, sweep = state.get(key_of(demo, "seed"), 0), state.get(key_of(demo, "sweep")) or ""
    last = state.get(f"{demo.id}/settings") or demo.settings()
    try:
        settings = demo.settings.checked({**last.model_dump(), **hidden, **values})
    except ValueError as error:
        state["link.refused"] = str(error)
        return Link(demo, last, seed, sweep)
    state["link.refused"] = ""
    if settings != last:
        state["link.messages"] = ()
    return Link(demo, settings, seed, sweep, state.get("link.messages", ()))


def show(link: Link) -> None:
    """Set the widgets of a method to a link (also from a callback)."""
    state = st.session_state
    for c in controls(link.demo.settings):
        value = getattr(link.settings, c.name)
        if c.shown:
            state[key_of(link.demo, c.name)] = float(value) if c.kind == "float" else value
    state[f"{link.demo.id}/hidden"] = {
        c.name: getattr(link.settings, c.name) for c in controls(link.demo.settings) if not c.shown
    }
    state[f"{link.demo.id}/settings"] = link.settings
    state[key_of(link.demo, "seed")] = link.seed
    state[key_of(link.demo, "sweep")] = link.sweep or None
    state["link.refused"] = ""


def go_to(link: Link) -> None:
    """A callback's way to another method, preset or setting on the method page."""
    show(link)
    st.session_state["link.messages"] = ()
    _write_address(link)


def remember(link: Link) -> None:
    """Call once per run after the widgets: puts the shown settings into the address bar."""
    st.session_state[f"{link.demo.id}/settings"] = link.settings
    _write_address(link)


def _write_address(link: Link) -> None:
    params = write(link.demo, link.settings, link.seed, link.sweep)
    kept = {k: v for k, v in st.query_params.items() if k.startswith("embed")}
    params |= kept
    if dict(st.query_params.items()) != params:
        st.query_params.from_dict(params)
    st.session_state["link.written"] = params
    st.session_state["link.last"] = params
