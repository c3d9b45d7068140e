"""Which slides a deck has, and which claim stands for a method on them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from core.abstracts import Abstract, find_quote
from core.lab.demo import Demo
from core.lab.verdicts import Verdict

Kind = Literal["cover", "map", "claim", "break", "verdicts"]
CONTEXT = 190
"""About how many letters of the abstract a quote is shown with."""
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z(])")


@dataclass(frozen=True)
class Slide:
    """One slide; `demo` is None on the cover, the map and the closing slide."""

    kind: Kind
    demo: Demo | None = None


def plan(demos: Sequence[Demo]) -> tuple[Slide, ...]:
    """Cover, map, a claim and a break-it slide for each method, and all verdicts."""
    pairs = [Slide(kind, demo) for demo in demos for kind in ("claim", "break")]
    return Slide("cover"), Slide("map"), *pairs, Slide("verdicts")


def headline(default: Sequence[Verdict], broken: Sequence[Verdict]) -> int:
    """Index of the claim that a method's slides are about.

    The first one that holds by default and no longer at the preset that breaks it, else the first one with
    an effect, else the first.
    """
    for i, (before, after) in enumerate(zip(default, broken, strict=False)):
        if before.outcome == "holds" and after.outcome != "holds" and before.effect and after.effect:
            return i
    return next((i for i, v in enumerate(default) if v.effect is not None and v.effect.defined), 0)


def in_context(abstract: Abstract, quote: str, most: int = CONTEXT) -> tuple[str, str, str]:
    """The abstract's sentence around a quote as plain text: (before, quote, after), cut to about `most` letters."""
    span = find_quote(abstract.text, quote)
    if span is None:
        return "", quote, ""
    plain, (first, last) = abstract.plain, span
    ends = [m.end() for m in _SENTENCE_END.finditer(plain)]
    start = max((e for e in ends if e <= first), default=0)
    stop = min((e for e in ends if e >= last), default=len(plain))
    room = max(0, most - (last - first))
    before, after = plain[start:first], plain[last:stop].rstrip()
    left = min(len(before), max(room // 2, room - len(after)))
    return _tail(before, left), plain[first:last], _head(after, room - left)


def _tail(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    kept = text[len(text) - most :].split(" ", 1)
    return "… " + (kept[1] if len(kept) > 1 else "")


def _head(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    kept = text[:most].rsplit(" ", 1)
    return (kept[0] if len(kept) > 1 else "") + " …"
