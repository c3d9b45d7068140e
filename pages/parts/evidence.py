"""All claims as one table: what the claims page, the downloads and the slides read."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from core.lab.family import holm
from pages.parts import library, verdict_rows


@st.cache_data(show_spinner=False, max_entries=4)
def table(stamp: str) -> pd.DataFrame:
    """One row a claim: method, claim, verdict, effect, interval, margin, the same at the break-it preset."""
    rows = []
    for demo in library.demos().values():
        default = library.verdicts(demo)
        broken = library.verdicts(demo, demo.break_it)
        seeds = library.seeds(demo)
        for i, verdict in enumerate(default):
            claim, effect = demo.claims[i], verdict.effect
            after = broken[i] if broken else None
            rows.append(
                {
                    "id": demo.id,
                    "topic": demo.topic,
                    "method": demo.name,
                    "claim": claim.says,
                    "quote": claim.quote,
                    "verdict": verdict.word,
                    "outcome": verdict.outcome,
                    "effect": verdict_rows.effect_text(verdict),
                    "value": effect.value if effect else np.nan,
                    "low": effect.low if effect else np.nan,
                    "high": effect.high if effect else np.nan,
                    "bound": verdict.bound if verdict.bound is not None else np.nan,
                    "margin": verdict.margin,
                    "margin_low": verdict.margin_low,
                    "margin_high": verdict.margin_high,
                    "seeds": seeds,
                    "p": verdict.p_value if verdict.outcome != "untestable" else np.nan,
                    "note": verdict.note,
                    "break_it": demo.break_it,
                    "broken_outcome": after.outcome if after else "",
                    "broken_margin": after.margin if after else np.nan,
                    "broken_effect": verdict_rows.effect_text(after) if after else "",
                    "interval": verdict_rows.interval_svg(verdict),
                    "link": f"method?method={demo.id}",
                }
            )
    frame = pd.DataFrame(rows)
    if len(frame):
        frame["p_holm"] = holm(frame["p"].to_numpy(dtype=float))
    return frame


def ledger_csv() -> str:
    """All ledgers as one tidy CSV: demo, preset, seed, part, measure, method, value."""
    books = [(d.id, library.book(d)) for d in library.demos().values()]
    return pd.concat([b.frame.assign(demo=i) for i, b in books if b is not None]).to_csv(index=False)


def rows_of(frame: pd.DataFrame) -> list[Any]:
    """The rows with the columns as attributes."""
    return list(frame.itertuples())


def by_method(frame: pd.DataFrame) -> list[tuple[str, list[Any]]]:
    """The rows of each method, in the order of the table."""
    return [(name, list(rows)) for name, rows in groupby(rows_of(frame), key=lambda r: r.method)]


def stamp() -> str:
    """Changes when any ledger or the catalogue does."""
    return ",".join(f"{d.id}:{library.stamp(d):.0f}" for d in library.demos().values())


def markdown(frame: pd.DataFrame) -> str:
    """The claims as a Markdown table, keyed like BibTeX entries by method and number."""
    lines = ["| key | claim | verdict | effect, 95 % | seeds |", "| --- | --- | --- | --- | --- |"]
    count: dict[str, int] = {}
    for row in rows_of(frame):
        count[row.id] = count.get(row.id, 0) + 1
        cells = [f"{row.id}:{count[row.id]}", row.claim, row.verdict, row.effect or row.note, str(row.seeds)]
        lines.append("| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |")
    return "\n".join(lines) + "\n"
