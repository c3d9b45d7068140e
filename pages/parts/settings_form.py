"""The settings of a demo as widgets; their values live in session state under the demo's own keys."""

from __future__ import annotations

from typing import Any

import numpy as np
import streamlit as st

from core.lab.demo import Control, Demo, controls
from pages.parts.link import SEED, key_of


def draw(demo: Demo) -> None:
    """All controls in two columns, choices first, the seed last."""
    shown = [c for c in controls(demo.settings) if c.shown]
    for c in (c for c in shown if c.kind in ("choice", "bool")):
        _choice(demo, c)
    numbers = [c for c in shown if c.kind in ("int", "float")]
    if numbers:
        columns = st.columns(2, gap="medium")
        for i, c in enumerate(numbers):
            with columns[i % 2]:
                _number(demo, c)
    st.number_input(
        SEED.title,
        min_value=0,
        max_value=int(SEED.high),
        step=1,
        key=key_of(demo, "seed"),
        help=SEED.help,
        width=160,
    )


def words_for(c: Control, value: Any) -> str:
    """A setting's value as it is shown."""
    if c.kind == "bool":
        return "on" if value else "off"
    return c.labels.get(value, str(value)) if c.kind == "choice" else f"{value:.4g}"


def _choice(demo: Demo, c: Control) -> None:
    key = key_of(demo, c.name)
    if c.kind == "bool":
        st.toggle(c.title, key=key, help=c.help or None)
        return
    words = {o: words_for(c, o) for o in c.options}
    if sum(len(w) for w in words.values()) > 52:
        st.selectbox(c.title, c.options, format_func=words.__getitem__, key=key, help=c.help or None)
    else:
        st.segmented_control(
            c.title, c.options, format_func=words.__getitem__, key=key, help=c.help or None, required=True
        )


def _number(demo: Demo, c: Control) -> None:
    key = key_of(demo, c.name)
    title = f"{c.title} ({c.unit})" if c.unit else c.title
    if c.log:
        st.select_slider(
            title,
            log_steps(c, st.session_state.get(key, c.default)),
            key=key,
            format_func=lambda v: f"{v:.4g}",
            help=c.help or None,
        )
    elif c.kind == "int":
        st.slider(title, int(c.low), int(c.high), step=int(c.step or 1), key=key, help=c.help or None)
    else:
        step = c.step or (c.high - c.low) / 100
        st.slider(
            title,
            float(c.low),
            float(c.high),
            step=float(step),
            key=key,
            help=c.help or None,
            format=f"%.{_digits(step)}f",
        )


def log_steps(c: Control, now: float) -> list[float]:
    """Positions of a logarithmic slider: 1, 2, 5 of each decade in range, both ends, the present value."""
    decades = np.arange(np.floor(np.log10(max(c.low, 1e-12))), np.ceil(np.log10(c.high)) + 1)
    steps = {float(f"{m * 10**d:.6g}") for d in decades for m in (1, 2, 5)}
    steps = {s for s in steps if c.low <= s <= c.high} | {c.low, c.high, float(c.default), float(now)}
    return sorted(int(s) for s in steps) if c.kind == "int" else sorted(steps)


def _digits(step: float) -> int:
    return max(0, min(4, len(f"{step:.4f}".rstrip("0").split(".")[1])))
