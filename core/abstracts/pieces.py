"""The flat list that mark-up is parsed into: pieces of one style, settled from text and toggles."""

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from core.abstracts.latex import BOLD, CODE, ITALIC

PARAGRAPH = "\n\n"  # stands in `Piece.latex` where a paragraph ends


class Piece(NamedTuple):
    """Words of one style: `text` for models, `latex` if it is a formula, `start:end` in the source."""

    text: str
    start: int
    end: int
    style: int = 0
    link: str | None = None
    latex: str | None = None

    @property
    def verbatim(self) -> bool:
        """Whether the text stands in the source character by character."""
        return self.latex is None and len(self.text) == self.end - self.start


@dataclass(slots=True, eq=False)
class Toggle:
    """Where a style or link begins (+1) or ends (-1); while undecided (0), it is its text."""

    text: str
    start: int
    end: int
    style: int = 0
    step: int = 0
    link: str | None = None
    limit: int = sys.maxsize  # a link reaches no further, even if its end is never met

    def cancel(self) -> None:
        """It turned out to be mark-up without an effect."""
        self.text, self.step = "", 0


def settle(items: Iterable[Piece | Toggle]) -> list[Piece]:
    """The pieces with every style and link decided and white space single."""
    counts = {BOLD: 0, ITALIC: 0, CODE: 0}
    style, link = 0, None
    spaced = True
    settled: list[Piece] = []
    for item in items:
        if isinstance(item, Toggle):
            if item.step and item.link is not None:
                link = item if item.step > 0 else None
            elif item.step:
                for flag in counts:
                    counts[flag] += item.step if item.style & flag else 0
                style = sum(flag for flag, count in counts.items() if count > 0)
            if not item.text or item.step:
                continue
            item = Piece(item.text, item.start, item.end)
        if spaced and item.text[:1] == " ":
            if item.latex == PARAGRAPH and settled:  # the break outlives the space before it
                settled[-1] = _without_end(settled[-1])
            elif len(item.text) == 1:
                continue
            else:
                item = item._replace(text=item.text[1:], start=item.start + 1)
        if style or link is not None:
            url = link.link if link is not None and item.start < link.limit else item.link
            item = item._replace(style=style | item.style, link=url)
        settled.append(item)
        spaced = item.text[-1:] == " " if item.text else spaced
    return _trimmed(settled)


def _without_end(piece: Piece) -> Piece:
    if piece.text[-1:] == " " and piece.latex is None:
        return piece._replace(text=piece.text[:-1], end=piece.end - 1 if piece.verbatim else piece.end)
    return piece


def _trimmed(settled: list[Piece]) -> list[Piece]:
    """Without white space or breaks at the end, without pieces that say nothing, without twin breaks."""
    while settled and not settled[-1].text.strip() and settled[-1].latex in (None, PARAGRAPH):
        settled.pop()
    if settled:
        settled[-1] = _without_end(settled[-1])
    kept: list[Piece] = []
    for piece in settled:
        twin = piece.latex == PARAGRAPH and (not kept or kept[-1].latex == PARAGRAPH)
        if not twin and (piece.text or piece.latex):
            kept.append(piece)
    return kept
