"""Verdicts as people see them: rows with an interval, badges, marks, and the annotated abstract."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

import streamlit as st

from core.abstracts import Abstract, Quote, display_with_quotes
from core.lab.demo import Claim, Demo
from core.lab.verdicts import MARKS, REACHES_OVER, WORDS, Verdict
from pages.parts.shell import data_uri

COLOURS = {"holds": "blue", "fails": "red", "unclear": "gray", "untestable": "gray"}
_STROKE = {
    "holds": ("#0072B2", "#56B4E9"),
    "fails": ("#D55E00", "#F08A3C"),
    "unclear": ("#6B7076", "#9AA0A6"),
    "untestable": ("#6B7076", "#9AA0A6"),
}


def marks(verdicts: Sequence[Verdict], claims: Sequence[Claim]) -> str:
    """The coloured marks of a demo's claims as HTML, each with its word and claim on hover."""
    return " ".join(
        f'<span class="{v.outcome}" title="{html.escape(v.word + ": " + c.says, quote=True)}">{v.mark}</span>'
        for v, c in zip(verdicts, claims, strict=True)
    )


def interval_svg(verdict: Verdict, width: int = 140, height: int = 16) -> str:
    """The margin beyond the claim's bound with its interval, on an inverse-sinh scale; "" if undefined."""
    if not math.isfinite(verdict.margin):
        return ""

    def at(margin: float) -> float:
        m = max(-30.0, min(30.0, margin)) if not math.isnan(margin) else 0.0
        return width / 2 + math.asinh(m) / math.asinh(30) * (width / 2 - 8)

    light, dark = _STROKE[verdict.outcome]
    low, high, middle = at(verdict.margin_low), at(verdict.margin_high), at(verdict.margin)
    style = (
        f".a{{stroke:{light}}}.d{{fill:{light}}}.b{{stroke:#9a9a96}}"
        f"@media (prefers-color-scheme:dark){{.a{{stroke:{dark}}}.d{{fill:{dark}}}.b{{stroke:#6d7278}}}}"
    )
    y = height / 2
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}"><style>{style}</style>'
        f'<line class="b" x1="{width / 2}" x2="{width / 2}" y1="1" y2="{height - 1}" stroke-width="1.5"/>'
        f'<line class="a" x1="{low:.1f}" x2="{high:.1f}" y1="{y}" y2="{y}" stroke-width="3" '
        f'stroke-linecap="round"/><circle class="d" cx="{middle:.1f}" cy="{y}" r="5"/></svg>'
    )


def effect_text(verdict: Verdict) -> str:
    """The effect with its interval, or what stands in its place."""
    return str(verdict.effect) if verdict.effect is not None and verdict.effect.defined else ""


def anchor(index: int, verdict: Verdict) -> str:
    """The id of a verdict row, the target of its quote's link."""
    return f"{verdict.outcome}-{index + 1}"


def rows(demo: Demo, verdicts: Sequence[Verdict], by_default: Sequence[Verdict] = ()) -> str:
    """Verdict rows as HTML; `by_default` adds '✓ by default' where the default's verdict differs."""
    head = (
        '<div class="vr vr-head"><span></span><span>Claim in this demo</span>'
        '<span class="interval">fails ← bound → holds</span><span class="effect">effect, 95 %</span></div>'
    )
    body = [
        _row(i, claim, v, by_default[i] if i < len(by_default) else None)
        for i, (claim, v) in enumerate(zip(demo.claims, verdicts, strict=True))
    ]
    return f'<div class="vrs" role="list" aria-label="Verdicts on the claims">{head}{"".join(body)}</div>'


def _row(index: int, claim: Claim, verdict: Verdict, default: Verdict | None) -> str:
    says = html.escape(claim.says)
    if default is not None and default.outcome != verdict.outcome:
        says += f' <span class="aside">{default.mark} by default</span>'
    word = html.escape(verdict.word)
    note = html.escape(verdict.note)
    effect = html.escape(effect_text(verdict))
    picture = interval_svg(verdict)
    if not effect:
        rest = f'<span class="reason aside">{note or word}</span>'
    else:
        image = f'<img src="{data_uri(picture)}" alt="" width="140" height="16">' if picture else ""
        rest = f'<span class="interval">{image}</span><span class="effect" title="{note}">{effect}</span>'
        if note and verdict.outcome != "holds" and verdict.note != REACHES_OVER:
            says += f' <span class="aside">({note})</span>'
    return (
        f'<div class="vr" role="listitem" id="{anchor(index, verdict)}">'
        f'<span class="{verdict.outcome}" role="img" aria-label="{word}" title="{word}">{verdict.mark}</span>'
        f"<span>{says}</span>{rest}</div>"
    )


def annotated(demo: Demo, abstract: Abstract, verdicts: Sequence[Verdict]) -> str:
    """The abstract as Markdown with each claim's quote marked in the colour of its verdict."""
    quotes = [
        Quote(
            quote=claim.quote,
            color=COLOURS[v.outcome],
            mark=v.mark,
            anchor=anchor(i, v),
            tip=f"{v.mark} {v.word}: {claim.says}. {effect_text(v) or v.note}".strip(),
        )
        for i, (claim, v) in enumerate(zip(demo.claims, verdicts, strict=True))
    ]
    return display_with_quotes(abstract.text, quotes)


def legend() -> None:
    """What the marks mean."""
    st.html(
        '<div class="aside" style="font-size:.88rem">'
        + " &nbsp; ".join(f'<span class="{o}">{MARKS[o]} {WORDS[o]}</span>' for o in MARKS)
        + "</div>"
    )
