"""Every claim of every abstract: a forest plot, a table, totals that are true."""

from __future__ import annotations

import html
import math
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from core.lab import charts
from core.lab.family import CHANCE, chance_holds
from core.lab.verdicts import MARKS, WORDS
from core.topics.map_figure import safe
from pages.parts import address, evidence, library, link, share, shell, snapshot
from pages.parts.address import Field

shell.begin()

VIEWS = ("Forest", "Table")
FIELDS = (
    Field("q", "claims.query"),
    Field("topic", "claims.topic", None, lambda: sorted({d.topic for d in library.demos().values()})),
    Field("verdict", "claims.verdicts", [], lambda: list(MARKS), many=True),
    Field("view", "claims.view", VIEWS[0], lambda: VIEWS),
)
ROW = 25
TICKS = (-5, -2, -1, 0, 1, 2, 5, 10, 30)
COLOUR = {
    "holds": charts.MARK["method"],
    "fails": charts.FAIL,
    "unclear": charts.SOFT,
    "untestable": charts.SOFT,
}


def totals(frame: pd.DataFrame) -> str:
    """Counts in words, coloured and marked."""
    words = {"holds": "hold", "fails": "do not hold"}
    return " &nbsp;&nbsp; ".join(
        f'<span class="{o}">{mark}</span> <b>{int((frame["outcome"] == o).sum())}</b> {words.get(o, WORDS[o])}'
        for o, mark in MARKS.items()
    )


def filtered(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows that pass the filters of the toolbar."""
    with st.container(horizontal=True, vertical_alignment="center"):
        query = st.text_input(
            "Filter",
            key="claims.query",
            icon=":material/search:",
            placeholder="Filter claims",
            label_visibility="collapsed",
            width=260,
        )
        topic = st.selectbox(
            "Topic",
            sorted(frame["topic"].unique()),
            index=None,
            placeholder="All topics",
            key="claims.topic",
            label_visibility="collapsed",
            width=200,
        )
        chosen = st.pills(
            "Verdict",
            list(MARKS),
            selection_mode="multi",
            format_func=lambda o: f"{MARKS[o]} {WORDS[o]}",
            key="claims.verdicts",
            label_visibility="collapsed",
        )
        st.space("stretch")
        st.segmented_control(
            "View",
            VIEWS,
            key="claims.view",
            required=True,
            label_visibility="collapsed",
        )
    for word in query.lower().split():
        text = frame["method"] + " " + frame["claim"] + " " + frame["quote"] + " " + frame["topic"]
        frame = frame[text.str.lower().str.contains(word, regex=False)]
    if topic:
        frame = frame[frame["topic"] == topic]
    return frame[frame["outcome"].isin(chosen)] if chosen else frame


def place(margin: float) -> float:
    """Position of a margin on the inverse-sinh axis, cut off at its ends."""
    return math.asinh(max(TICKS[0] - 1.0, min(float(TICKS[-1]), margin)))


@st.cache_resource(show_spinner=False, max_entries=12)
def drawn(stamp: str, claims: tuple[int, ...], dark: bool) -> go.Figure:
    """The forest plot of these rows of the table, shared by all sessions."""
    return charts.in_theme(forest(evidence.table(stamp).loc[list(claims)]), dark)


def forest(frame: pd.DataFrame) -> go.Figure:
    """One row a claim, grouped by method: margin beyond the claim's own bound with its interval."""
    rows: list[tuple[str, str, Any]] = []
    for method, group in evidence.by_method(frame):
        rows.append(("head", method, None))
        rows += [("claim", r.claim, r) for r in group]
    words = [
        _words(0.0, y, f"<b>{safe(text)}</b>", family="Source Serif", size=15)
        for y, (kind, text, _) in enumerate(rows)
        if kind == "head"
    ]
    claims = [(y, r) for y, (kind, _, r) in enumerate(rows) if kind == "claim"]
    for y, r in claims:
        words += _row_words(y, r)
    layout = {
        "height": ROW * len(rows) + 60,
        "margin": {"l": 0, "r": 0, "t": 34, "b": 6},
        "showlegend": False,
        "dragmode": False,
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "clickmode": "event+select",
        "font": {"family": charts.FONT, "size": 13.5, "color": charts.INK},
        "xaxis": {
            "domain": [0.36, 0.80],
            "side": "top",
            "range": [place(TICKS[0] - 1), place(TICKS[-1])],
            "zeroline": False,
            "tickvals": [place(t) for t in TICKS],
            "gridcolor": charts.GRID,
            "fixedrange": True,
            "ticktext": ["bound" if t == 0 else str(t).replace("-", "−") for t in TICKS],
            "tickfont": {"size": 13, "color": charts.SOFT},
        },
        "yaxis": {"range": [len(rows) - 0.4, -0.8], "visible": False, "fixedrange": True},
        "annotations": words,
    }
    # built in one go: hundreds of single additions take seconds
    fig = go.Figure(_marks([(y, r) for y, r in claims if not math.isnan(r.margin)]), layout)
    fig.add_vline(x=0, line={"color": charts.INK, "width": 1.4})
    return fig


def _words(x: float, y: float, text: str, anchor: str = "left", colour: str = charts.INK, **font) -> dict:
    return {
        "x": x,
        "xref": "paper",
        "y": y,
        "text": text,
        "showarrow": False,
        "xanchor": anchor,
        "align": anchor,
        "font": {"color": colour, **font},
    }


def _row_words(y: float, r) -> list[dict]:
    """Mark, claim and effect of one row."""
    quiet = {} if r.effect else {"colour": charts.SOFT, "style": "italic"}
    return [
        _words(0.012, y, MARKS[r.outcome], colour=COLOUR[r.outcome]),
        _words(0.036, y, safe(r.claim if len(r.claim) <= 62 else r.claim[:60] + " …")),
        _words(1.0, y, safe(r.effect or _short(r.note)), "right", **quiet),
    ]


def _marks(claims: list[tuple[int, Any]]) -> list[go.Scatter]:
    """Intervals and points of all rows (y, claim), the break-it preset's tied to the default's."""
    broken = [(y, r) for y, r in claims if r.broken_outcome == "fails" and not math.isnan(r.broken_margin)]
    found = [_lines([(y, r.broken_margin, r.margin) for y, r in broken], charts.SOFT, 1, "dot")]
    for outcome in COLOUR:
        intervals = [(y, r.margin_low, r.margin_high) for y, r in claims if r.outcome == outcome]
        found.append(_lines(intervals, COLOUR[outcome], 3))
    diamond = {"symbol": "diamond-open", "size": 11, "color": charts.FAIL, "line": {"width": 2}}
    found.append(
        _points(
            [(y, r.broken_margin, f"{r.id}|{r.break_it}", f"{r.break_it}: {r.broken_effect}") for y, r in broken],
            diamond,
        )
    )
    hollow = [r.outcome == "unclear" for _, r in claims]
    colours = [COLOUR[r.outcome] for _, r in claims]
    dot = {
        "size": 10,
        "color": [charts.GROUND if h else c for h, c in zip(hollow, colours, strict=True)],
        "line": {"width": [2 if h else 0 for h in hollow], "color": colours},
    }
    found.append(_points([(y, r.margin, f"{r.id}|", f"{r.claim}: {r.effect}") for y, r in claims], dot))
    return found


def _points(parts: list[tuple[int, float, str, str]], marker: dict) -> go.Scatter:
    """Points (y, margin, what a click opens, what hover says) as one trace."""
    return go.Scatter(
        x=[place(margin) for _, margin, *_ in parts],
        y=[y for y, *_ in parts],
        mode="markers",
        cliponaxis=False,
        customdata=[target for *_, target, _ in parts],
        marker=marker,
        text=[safe(words) for *_, words in parts],
        hovertemplate="%{text}<extra></extra>",
    )


def _lines(parts: list[tuple[int, float, float]], colour: str, width: float, dash: str = "solid") -> go.Scatter:
    """Horizontal pieces (y, from, to) of one colour as one trace."""
    return go.Scatter(
        x=[v for _, a, b in parts for v in (place(a), place(b), None)],
        y=[v for y, *_ in parts for v in (y, y, None)],
        mode="lines",
        hoverinfo="skip",
        line={"color": colour, "width": width, "dash": dash},
    )


def _short(note: str, most: int = 58) -> str:
    return note if len(note) <= most else note[: most - 2].rsplit(" ", 1)[0] + " …"


def phone_rows(frame: pd.DataFrame) -> str:
    """The same claims for a narrow screen: method heads and verdict rows."""
    out = ""
    for method, group in evidence.by_method(frame):
        out += f'<h4>{html.escape(method)}</h4><div class="vrs">'
        for r in group:
            tail = html.escape(r.effect) if r.effect else f'<span class="aside">{html.escape(r.note)}</span>'
            out += (
                f'<div class="vr"><span class="{r.outcome}" title="{r.verdict}">{MARKS[r.outcome]}'
                f'</span><span>{html.escape(r.claim)}</span><span class="effect">{tail}</span></div>'
            )
        out += "</div>"
    return out


def open_method(target: str) -> None:
    """Go to a method, at the preset that a mark belongs to."""
    demo_id, _, preset = target.partition("|")
    demo = library.demos()[demo_id]
    params = link.write(demo, demo.preset(preset or "Default"))
    st.switch_page(shell.page_path("method.py"), query_params=params)


def show_forest(frame: pd.DataFrame) -> None:
    with st.container(key="wide"):
        event = st.plotly_chart(
            drawn(evidence.stamp(), tuple(frame.index), shell.is_dark()),
            key="claims.forest",
            on_select="rerun",
            selection_mode="points",
            config={"displayModeBar": False},
            alt="Forest plot: " + "; ".join(f"{r.method}, {r.claim}: {r.verdict}" for r in evidence.rows_of(frame)),
        )
    with st.container(key="narrow"):
        st.html(phone_rows(frame))
    points = event["selection"]["points"]
    if points:
        target = points[0]["customdata"]
        open_method(target[0] if isinstance(target, list) else target)
    st.caption(
        "Margin beyond the claim's own bound, in standard deviations between seeds, with its 95 % interval over "
        "paired seeds (inverse-sinh axis). Right of the line: holds. ◇ the same claim at its “break it” preset. "
        "A point opens its method with the preset that decides it."
    )


def show_table(frame: pd.DataFrame) -> None:
    shown = frame.assign(
        verdict=[f"{MARKS[o]} {WORDS[o]}" for o in frame["outcome"]],
        broken=[f"{MARKS[o]} {WORDS[o]}" if o else "" for o in frame["broken_outcome"]],
        interval=[shell.data_uri(s) if s else "" for s in frame["interval"]],
    )
    columns = [
        "method",
        "claim",
        "verdict",
        "interval",
        "effect",
        "broken",
        "margin",
        "seeds",
        "p_holm",
        "topic",
        "link",
    ]
    st.dataframe(
        shown[columns],
        hide_index=True,
        row_height=35,
        height=min(38 + 35 * len(shown), 700),
        alt="All claims with verdict, effect and interval",
        column_config={
            "method": st.column_config.TextColumn("Method", width=130),
            "claim": st.column_config.TextColumn("Claim in this demo", width=330),
            "verdict": st.column_config.TextColumn("Verdict", width=120),
            "interval": st.column_config.ImageColumn("fails ← bound → holds", width=150),
            "effect": st.column_config.TextColumn("Effect, 95 %", width=190),
            "broken": st.column_config.TextColumn("When broken", width=120),
            "margin": st.column_config.NumberColumn("Margin (sd)", format="%.2f"),
            "seeds": st.column_config.NumberColumn("Seeds"),
            "p_holm": st.column_config.NumberColumn(
                "p (Holm)", format="%.3f", help="One-sided, adjusted over all claims on this page"
            ),
            "topic": "Topic",
            "link": st.column_config.LinkColumn("Open", display_text="open"),
        },
    )


def reading(frame: pd.DataFrame) -> None:
    """How to read so many verdicts at once."""
    tested = frame[frame["outcome"] != "untestable"]
    held = frame[(frame["outcome"] == "holds") & (frame["broken_outcome"] != "")]
    gone = int((held["broken_outcome"] != "holds").sum())
    methods = frame["id"].nunique()
    broken = held[held["broken_outcome"] != "holds"]["id"].nunique()
    strict = int(((frame["outcome"] == "holds") & (frame["p_holm"] < CHANCE)).sum())
    chance = chance_holds(len(tested))
    st.caption(
        f"At each method's “break it” preset {gone} of the {len(held)} claims that hold by default no longer do "
        f"(in {broken} of {methods} methods). {len(tested)} claims were tested: were none of them true and "
        f"each exactly at its bound, about {chance:.1f} would still show as “holds” by chance; {strict} hold "
        "after Holm's correction for all of them."
    )


def main() -> None:
    frame = evidence.table(evidence.stamp())
    wrong = address.read("claims", FIELDS)
    with shell.sheet("claims"):
        address.messages(wrong)
        if frame.empty:
            st.info("There are no measured claims yet. Run `make study` to fill the ledger.")
            return
        head, get = st.columns([5, 2], vertical_alignment="center")
        with head, st.container(horizontal=True, vertical_alignment="bottom"):
            st.title("Claims", anchor=False, width="content")
            st.html(totals(frame), width="content")
        with get, st.container(horizontal=True, horizontal_alignment="right"):
            plain = frame.drop(columns=["interval", "link"])
            for label, text, name in (
                ("CSV", plain.to_csv(index=False), "claims.csv"),
                ("Markdown", evidence.markdown(frame), "claims.md"),
                ("Ledger", evidence.ledger_csv, "ledger.csv"),
            ):
                st.download_button(
                    label, text, name, type="tertiary", icon=":material/download:", on_click="ignore"
                )
            snapshot.svg()
            to_share = st.container(width="content")
        rows = filtered(frame)
        if rows.empty:
            st.info("No claim passes these filters.")
        elif st.session_state.get("claims.view") == "Table":
            show_table(rows)
        else:
            show_forest(rows)
        reading(frame)
        address.write("claims", FIELDS)
        with to_share:
            share.button()


main()
