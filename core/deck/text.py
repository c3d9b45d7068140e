"""The words of slides as HTML, for the page and for the file: every text from outside is escaped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from core.abstracts import Abstract
from core.deck.slides import in_context
from core.lab.demo import Claim, Demo
from core.lab.verdicts import MARKS, WORDS, Estimate, Verdict, number

EVIDENCE = "small re-implementation"
ROWS = 17
"""Most lines of the closing slide that spells the claims out."""
_COUNTED = {"holds": "hold", "fails": "do not hold"}


def counts(found: Mapping[str, Sequence[Verdict]]) -> dict[str, int]:
    """How many claims have which outcome; `found` maps ids to verdicts."""
    return {o: sum(v.outcome == o for verdicts in found.values() for v in verdicts) for o in MARKS}


def head(title: str, line: str = "") -> str:
    """The top of a slide: a name and one line."""
    return f'<div class="slide-head"><h1>{escape(title)}</h1> <span>{escape(line)}</span></div>'


def foot(left: str) -> str:
    """The quiet line at the bottom."""
    return f'<div class="slide-foot">{escape(left)}</div>'


def cover(collection: str, demos: Sequence[Demo], counts: Mapping[str, int]) -> str:
    """Title, what the deck holds, and the names of its methods."""
    methods = f"{len(demos)} method" + ("s" if len(demos) != 1 else "")
    totals = " ".join(
        f'<span class="{o}">{MARKS[o]} {n} {_COUNTED.get(o, WORDS[o])}</span>'  # type: ignore[index]
        for o, n in counts.items()
        if n
    )
    names = " · ".join(escape(d.name) for d in demos)
    small = " small" if len(demos) > 12 else ""
    return (
        f'<div class="slide-cover"><h1>Abstracts that run</h1><p class="what">{methods} of {escape(collection)}, '
        f'each computed small, each claim put to the test</p><p class="totals">{totals}</p>'
        f'<p class="names{small}">{names}</p></div>'
    )


def claim(demo: Demo, index: int, verdict: Verdict, abstract: Abstract | None, where: str = "") -> str:
    """The abstract's sentence with its claim marked, the verdict, the number and what it is.

    `where` says at which settings the verdict was found, if not at the default ones.
    """
    said = demo.claims[index]
    before, quote, after = in_context(abstract, said.quote) if abstract else ("", said.quote, "")
    long = " long" if len(before + quote + after) > 130 else ""
    parts = [
        f'<div class="slide-claim"><p class="said{long}">“{escape(before)}<mark class="{verdict.outcome}">'
        f"{escape(quote)}</mark>{escape(after)}”</p>",
        f'<p class="verdict {verdict.outcome}">{verdict.mark} {escape(verdict.word)}</p>',
    ]
    effect = verdict.effect
    if effect is not None and effect.defined:
        parts.append(f'<p class="number {verdict.outcome}">{escape(big(effect))}<small>{unit(effect)}</small></p>')
    parts.append(f'<p class="says">{escape(said.says)}</p>')
    if effect is not None and effect.defined:
        parts.append(f'<p class="aside">95 % interval {escape(interval(effect))}</p>')
    elif verdict.note:
        parts.append(f'<p class="aside">{escape(verdict.note)}</p>')
    parts.append(f'<p class="aside">{demo.seeds} seeds, {EVIDENCE}</p>')
    if where:
        parts.append(f'<p class="aside">{escape(where)}</p>')
    return "".join(parts) + "</div>"


def big(effect: Estimate) -> str:
    """The effect alone, for the large type: '0.65×', '+31.2'."""
    sign = effect.kind == "difference"
    return number(effect.value, effect.digits, sign) + ("×" if effect.kind == "ratio" else "")


def unit(effect: Estimate) -> str:
    return f" {escape(effect.unit)}" if effect.unit else ""


def interval(effect: Estimate) -> str:
    """'0.50 to 0.84'."""
    return f"{number(effect.low, effect.digits)} to {number(effect.high, effect.digits)}"


def side(heading: str) -> str:
    """The name over one of two figures."""
    return f'<div class="slide-side">{escape(heading)}</div>'


def sentence(said: Claim, verdict: Verdict) -> str:
    """Mark and effect under a figure of the break-it slide."""
    effect = verdict.effect
    low_high = f" [{number(effect.low, effect.digits)}, {number(effect.high, effect.digits)}]" if effect else ""
    words = verdict.word + (f": {big(effect)}{low_high}{unit(effect)}" if effect and effect.defined else "")
    note = f" {verdict.note}" if effect is None and verdict.note else ""
    return (
        f'<div class="slide-sentence" title="{escape(said.says)}"><span class="{verdict.outcome}">{verdict.mark}'
        f"</span> {escape(words + note)}</div>"
    )


def why(demo: Demo, said: Claim) -> str:
    """The claim that is broken and the reason."""
    return f'<div class="slide-why"><b>{escape(said.says)}.</b> {escape(demo.why_it_breaks)}</div>'


def broken_name(demo: Demo) -> str:
    """The preset that breaks a method, without its leading words."""
    name = demo.break_it.removeprefix("Break it: ")
    return name[:1].upper() + name[1:]


def verdict_table(demos: Sequence[Demo], found: Mapping[str, Sequence[Verdict]]) -> str:
    """All methods of the deck: their claims in words where there is room, else the marks alone."""
    in_words = sum(1 + len(found[d.id]) for d in demos) <= ROWS
    rows = "".join((_in_words if in_words else _marks)(d, found[d.id]) for d in demos)
    size = " words" if in_words else " dense" if len(demos) > 24 else " many"
    legend = " &nbsp; ".join(f'<span class="{o}">{MARKS[o]} {escape(WORDS[o])}</span>' for o in MARKS)
    return f'<div class="slide-verdicts{size}">{rows}</div><div class="slide-legend">{legend}</div>'


def _in_words(demo: Demo, verdicts: Sequence[Verdict]) -> str:
    lines = "".join(
        f'<div class="row"><span class="{v.outcome}">{v.mark}</span><span>{escape(c.says)}</span>'
        f'<span class="effect">{escape(str(v.effect) if v.effect and v.effect.defined else v.word)}</span></div>'
        for v, c in zip(verdicts, demo.claims, strict=False)
    )
    return f"<h2>{escape(demo.name)}</h2>{lines}"


def _marks(demo: Demo, verdicts: Sequence[Verdict]) -> str:
    marks = " ".join(
        f'<span class="{v.outcome}" title="{escape(f"{v.word}: {c.says}")}">{v.mark}</span>'
        for v, c in zip(verdicts, demo.claims, strict=False)
    )
    return f'<div class="row"><span>{escape(demo.name)}</span><span class="marks">{marks}</span></div>'
