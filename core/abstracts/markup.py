"""Mark-up of abstracts: one parse, from which the plain text and safe Markdown for a page are rendered.

The Markdown is for `st.markdown`: formulas in `$…$`, everything outside them escaped, links only
to http and https. Quotes of the text can be wrapped as coloured links to the verdicts about them.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate, groupby, pairwise

from core.abstracts.latex import BOLD, CODE, ITALIC
from core.abstracts.pieces import PARAGRAPH, Piece
from core.abstracts.scan import scan
from core.abstracts.urls import markdown_target

Span = tuple[int, int]

_COLORS = ("blue", "red", "gray")
_ESCAPES = {ord(sign): f"\\{sign}" for sign in "\\`*_{}[]()<>#+-.!|~$:&=^"}
_JOINER = "\u2060"  # invisible; keeps signs apart that Markdown or Streamlit would read together
_SHORTCODE = re.compile(r":(?=[\w+/-]{1,80}:|material/)")
_MAIL = re.compile(r"(?<=[\w.+-])@(?=[\w-])")
_OPEN, _CLOSE = "\x02", "\x03"  # stand before delimiters until all is known
_DELIMITERS = re.compile(f"((?:[{_OPEN}{_CLOSE}]\\*{{1,2}})+)")
_FORMULA, _END = "\x04", "\x05"  # stand before and behind a formula
_FORMULA_EDGE = re.compile(f"{_END}(?=[0-9{_FORMULA}])|(?<=[$]){_FORMULA}")
_SENTINEL = re.compile(f"[{_FORMULA}{_END}]")
_ANCHOR = re.compile(r"[A-Za-z][\w.-]*")


@dataclass(frozen=True)
class Quote:
    """A piece of an abstract to mark on a page.

    `mark` stands behind it, a tap leads to the page element with the id `anchor`, hover shows `tip`.
    """

    quote: str
    color: str
    mark: str
    anchor: str
    tip: str = ""

    def __post_init__(self) -> None:
        if self.color not in _COLORS:
            raise ValueError(f"color {self.color!r} of the quote {self.quote!r} is none of {', '.join(_COLORS)}")
        if not _ANCHOR.fullmatch(self.anchor):
            raise ValueError(f"anchor {self.anchor!r} of the quote {self.quote!r} is no id of a page element")


@dataclass(frozen=True)
class Parsed:
    """A parsed text and its renderings."""

    source: str
    pieces: tuple[Piece, ...]

    @cached_property
    def plain(self) -> str:
        """The words alone: no mark-up, formulas as Unicode, single spaces."""
        return "".join(piece.text for piece in self.pieces)

    @cached_property
    def display(self) -> str:
        """Markdown that is safe on a page."""
        return render(self.pieces)

    @cached_property
    def links(self) -> tuple[str, ...]:
        """The addresses in order, each once."""
        return tuple(dict.fromkeys(piece.link for piece in self.pieces if piece.link))

    @cached_property
    def starts(self) -> list[int]:
        """Where each piece begins in `plain`; one more at the end."""
        return [0, *accumulate(len(piece.text) for piece in self.pieces)]


def parse(text: str) -> Parsed:
    """Parse the mark-up of a text; never raises, whatever the string."""
    return Parsed(text, tuple(scan(text)))


@lru_cache(maxsize=128)
def _parsed(text: str) -> Parsed:
    return parse(text)


def find_quote(text: str, quote: str) -> Span | None:
    """Where the quote stands in the plain form of the text, or None.

    The quote may be given as it stands in the text, mark-up included, or as it reads.
    """
    parsed = _parsed(text)
    words = " ".join(quote.split())
    for candidate in (words, parse(quote).plain):
        at = parsed.plain.find(candidate) if candidate else -1
        if at >= 0:
            return at, at + len(candidate)
    at = text.find(quote) if words else -1
    return _plain_span(parsed, at, at + len(quote)) if at >= 0 else None


def _plain_span(parsed: Parsed, first: int, last: int) -> Span | None:
    """The plain span of the source span `first:last`; what was replaced as a whole counts as a whole."""
    span: list[int] = []
    for piece, at in zip(parsed.pieces, parsed.starts, strict=False):
        if piece.end > first and piece.start < last:
            if piece.verbatim:
                span += at + max(first - piece.start, 0), at + min(last, piece.end) - piece.start
            else:
                span += at, at + len(piece.text)
    return (span[0], span[-1]) if span and span[0] < span[-1] else None


def display_with_quotes(text: str, quotes: Sequence[Quote]) -> str:
    """Page Markdown of the text with its quotes marked: `[:blue-background[quote ✓]](#anchor "tip")`.

    Of quotes that overlap, each stretch belongs to the shortest one, and a mark stands behind the
    last stretch of its quote. ValueError names a quote that does not occur in the text.
    """
    parsed = _parsed(text)
    if not quotes:
        return parsed.display
    spans: list[Span] = []
    for quote in quotes:
        span = find_quote(text, quote.quote)
        if span is None:
            raise ValueError(f"the abstract does not contain the quote {quote.quote!r}")
        spans.append(_whole_pieces(parsed, span))
    cuts = sorted({0, len(parsed.plain), *(edge for span in spans for edge in span)})
    owners = [_owner(spans, first, last) for first, last in pairwise(cuts)]
    out: list[str] = []
    for index, (first, last) in enumerate(pairwise(cuts)):
        owner = owners[index]
        part = _between(parsed, first, last)
        ends_here = owner is not None and owner not in owners[index + 1 :]
        out.append(_linked(part) if owner is None else _wrapped(part, quotes[owner], ends_here))
        out += [_lone_mark(quotes[k]) for k, s in enumerate(spans) if s[1] == last and k not in owners]
    return _settled("".join(out))


def _owner(spans: Sequence[Span], first: int, last: int) -> int | None:
    covering = [k for k, span in enumerate(spans) if span[0] <= first and last <= span[1]]
    return min(covering, key=lambda k: (spans[k][1] - spans[k][0], k), default=None)


def _whole_pieces(parsed: Parsed, span: Span) -> Span:
    """The span, widened to whole formulas and other pieces that cannot be cut."""
    first, last = span
    for piece, at in zip(parsed.pieces, parsed.starts, strict=False):
        end = at + len(piece.text)
        if piece.latex is not None:
            first = at if at < first < end else first
            last = end if at < last < end else last
    return first, last


def _between(parsed: Parsed, first: int, last: int) -> list[Piece]:
    """The pieces of the plain span, the first and last one cut to fit."""
    part: list[Piece] = []
    for piece, at in zip(parsed.pieces, parsed.starts, strict=False):
        end = at + len(piece.text)
        if at >= first and end <= last and (piece.text or at < last or at == len(parsed.plain)):
            part.append(piece)
        elif at < last and end > first:
            part.append(piece._replace(text=piece.text[max(first - at, 0) : last - at]))
    return part


def _wrapped(part: Sequence[Piece], quote: Quote, with_mark: bool) -> str:
    """A marked stretch: coloured, linked to its verdict, without links of its own."""
    out: list[str] = []
    blocks = [(is_break, list(run)) for is_break, run in groupby(part, lambda piece: piece.latex == PARAGRAPH)]
    for index, (is_break, block) in enumerate(blocks):
        if is_break:
            out.append(PARAGRAPH)
            continue
        words = _styled([piece._replace(link=None, latex=_bracketed(piece.latex)) for piece in block])
        mark = f"\u2009{escape(quote.mark)}" if with_mark and index == len(blocks) - 1 and quote.mark else ""
        out.append(f"[:{quote.color}-background[{words}{mark}]]({_target(quote)})")
    return "".join(out)


def _bracketed(latex: str | None) -> str | None:
    """A formula whose brackets pair up: a single one would end the coloured stretch around it."""
    depth = 0
    for sign in re.findall(r"[\[\]]", latex or ""):
        depth += 1 if sign == "[" else -1
        if depth < 0:
            break
    if not latex or depth == 0:
        return latex
    return latex.replace("[", r"\lbrack ").replace("]", r"\rbrack ").strip()


def _lone_mark(quote: Quote) -> str:
    return f"[:{quote.color}-background[\u2009{escape(quote.mark)}]]({_target(quote)})"


def _target(quote: Quote) -> str:
    tip = escape(" ".join(quote.tip.split())).replace('"', '\\"')
    return f'#{quote.anchor} "{tip}"' if tip else f"#{quote.anchor}"


def render(pieces: Iterable[Piece]) -> str:
    """Safe Markdown of some pieces."""
    return _settled(_linked(pieces))


def _linked(pieces: Iterable[Piece]) -> str:
    out: list[str] = []
    for url, run in groupby(pieces, lambda piece: piece.link):
        words = _styled(list(run))
        out.append(f"[{words}]({markdown_target(url)})" if url and words.strip() else words)
    return "".join(out)


def _styled(pieces: Sequence[Piece]) -> str:
    out: list[str] = []
    for bold, bold_run in groupby(pieces, lambda piece: piece.style & BOLD and piece.latex != PARAGRAPH):
        inner: list[str] = []
        for italic, run in groupby(bold_run, lambda piece: piece.style & ITALIC and piece.latex != PARAGRAPH):
            words = _flat(list(run))
            inner.append(_emphasised(words, "*") if italic else words)
        out.append(_emphasised("".join(inner), "**") if bold else "".join(inner))
    return "".join(out)


def _flat(pieces: Sequence[Piece]) -> str:
    """Pieces of one style: escaped text, code and formulas."""
    out: list[str] = []
    for kind, run in groupby(pieces, _kind):
        if kind == "formula":
            out += [f"{_FORMULA}${piece.latex}${_END}" for piece in run]
        elif kind == "break":
            out.append(PARAGRAPH)
        else:
            text = "".join(piece.text for piece in run)
            core = text.strip()
            out.append(text.replace(core, f"`{core}`") if kind == "code" and core else escape(text))
    return "".join(out)


def _kind(piece: Piece) -> str:
    if piece.latex is not None:
        return "break" if piece.latex == PARAGRAPH else "formula"
    return "code" if piece.style & CODE and not re.search(r"[`\\\[\]]|:material/", piece.text) else "text"


def _emphasised(words: str, sign: str) -> str:
    """The words between delimiters, white space outside them."""
    core = words.strip()
    if not core:
        return words
    head = words[: len(words) - len(words.lstrip())]
    return f"{head}{_OPEN}{sign}{core}{_CLOSE}{sign}{words[len(words.rstrip()) :]}"


def _settled(markdown: str) -> str:
    """The Markdown with its delimiters and formulas kept apart from neighbours that would change them.

    Emphasis must not begin before or end behind punctuation where a word is on the other side, and
    the dollar sign of a formula must touch neither a digit nor another dollar sign.
    """
    parts = _DELIMITERS.split(markdown)
    for index in range(1, len(parts), 2):
        closing, _, opening = parts[index].partition(_OPEN)
        closing, opening = closing.replace(_CLOSE, ""), opening.replace(_OPEN, "")
        before, after = _joins(parts[index - 1][-1:]), _joins(parts[index + 1][:1])
        end = _JOINER if closing and not before and (after or opening) else ""
        between = _JOINER if closing and opening else ""
        start = _JOINER if opening and not after and (before or closing) else ""
        parts[index] = f"{end}{closing}{between}{opening}{start}"
    joined = "".join(parts).replace("\\``", f"\\`{_JOINER}`")  # text that ends in a backtick before code
    return _SENTINEL.sub("", _FORMULA_EDGE.sub(_JOINER, joined))


def _joins(sign: str) -> bool:
    """Whether Markdown sees a word here rather than white space, punctuation or the end."""
    return sign == _JOINER or sign.isalnum()


def escape(text: str) -> str:
    """Text as Markdown that shows exactly this text: no mark-up, formula, shortcode, address or tag."""
    text = _MAIL.sub("@" + _JOINER, _SHORTCODE.sub(":" + _JOINER, text))
    return text.translate(_ESCAPES)
