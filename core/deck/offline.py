"""A deck as one HTML file that opens from disk without a network: same slides, live figures, prints as a handout."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import plotly.graph_objects as go
from latex2mathml.converter import convert
from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin
from plotly.offline import get_plotlyjs

from core.abstracts import Abstract, Collection
from core.deck import text
from core.deck.figures import SCALE, for_slide, same_axes
from core.deck.slides import Slide, headline, plan
from core.lab import charts
from core.lab.demo import Demo, caption
from core.lab.verdicts import Verdict
from core.topics import TopicMap, map_figure
from core.topics.map_picture import Canvas

HERE = Path(__file__).parent
SIDE = 18 / charts.FONT_SIZE
"""Scale of two figures side by side."""
GROUND = {"light": "#FFFFFF", "dark": "#14171B"}

_MACROS = {r"\arg\m": r"\argm", r"\|": "‖"}
"""What the library does not know, said in its words."""
_TAGS = re.compile(
    "math|m(row|i|n|o|s|space|text|frac|sqrt|root|style|su[bp]|subsup|under|over|underover|table|t[rd]|padded)"
)

Drawn = Callable[[Demo, str], go.Figure]
"""(demo, preset) -> its first figure in the light palette."""
Judged = Callable[[Demo, str], Sequence[Verdict]]
"""(demo, preset) -> the verdicts on its claims."""


def claim_figure(fig: go.Figure, scale: float = 1.0) -> go.Figure:
    """The figure of a claim slide; `scale` is how many times the screen holds 1280 × 720 pixels."""
    return for_slide(fig, 728 * scale, 560 * scale, SCALE * scale)


def break_figures(default: go.Figure, broken: go.Figure, scale: float = 1.0) -> list[go.Figure]:
    """The two figures of a break-it slide, on the same axes."""
    return [for_slide(f, 560 * scale, 390 * scale, SIDE * scale) for f in same_axes(default, broken)]


def deck_map(
    topic_map: TopicMap,
    names: Sequence[str],
    runs: Sequence[int],
    lit: Sequence[int],
    dark: bool,
    *,
    narrow: bool = False,
    scale: float = 1.0,
) -> go.Figure:
    """The map of a deck: the papers `lit` are named and bright, all others faint; `narrow` for a phone."""
    named = [name if i in set(lit) else "" for i, name in enumerate(names)]
    canvas = Canvas(370, 430) if narrow else Canvas(830, 390)
    fig = map_figure.figure(
        topic_map, named, runs, canvas=canvas, dark=dark, lit=lit, topic_size=15 if narrow else 18
    ).update_layout(dragmode=False)
    return fig if narrow else for_slide(fig, 1168 * scale, 560 * scale, 1168 / 830 * scale)


class Page:
    """The parts of a file while it is written: slides as HTML, figures as JSON, each figure once."""

    def __init__(self, drawn: Drawn, judged: Judged, abstract_of: Callable[[Demo], Abstract | None], dark: bool):
        self.drawn, self.judged, self.abstract_of, self.dark = drawn, judged, abstract_of, dark
        self.figures: list[str] = []

    def figure(self, fig: go.Figure, alt: str, *, themed: bool = False) -> str:
        """A place for a figure; the figure itself goes to the end of the file."""
        fig = fig if themed else charts.in_theme(fig, self.dark)
        self.figures.append(_compact(fig))
        return (
            f'<div class="figure" data-figure="{len(self.figures) - 1}" role="img" '
            f'style="height:{fig.layout.height:.0f}px" aria-label="{escape(alt)}"></div>'
        )

    def claim(self, demo: Demo, fig: go.Figure) -> str:
        default = self.judged(demo, "Default")
        index = headline(default, self.judged(demo, demo.break_it))
        words = text.claim(demo, index, default[index], self.abstract_of(demo))
        drawn = self.figure(claim_figure(fig), caption(demo.figures[0]))
        return (
            f'{text.head(demo.name, demo.line)}<div class="halves claim"><div>{words}</div><div>{drawn}</div></div>'
        )

    def broken(self, demo: Demo, figs: list[go.Figure]) -> str:
        default, broken = self.judged(demo, "Default"), self.judged(demo, demo.break_it)
        index = headline(default, broken)
        said = demo.claims[index]
        sides = "".join(
            f"<div>{text.side(name)}{self.figure(fig, caption(demo.figures[0]))}{text.sentence(said, found[index])}</div>"
            for name, fig, found in zip(("Default", text.broken_name(demo)), figs, (default, broken), strict=True)
        )
        head = text.head("Break it", f"{demo.name}: {text.broken_name(demo)}")
        return f'{head}<div class="halves">{sides}</div>{text.why(demo, said)}'


def write(
    demos: Sequence[Demo],
    collection: Collection,
    map_of_deck: go.Figure,
    drawn: Drawn,
    judged: Judged,
    abstract_of: Callable[[Demo], Abstract | None],
    *,
    dark: bool = False,
    progress: Callable[[int], None] = lambda done: None,
) -> str:
    """The whole file as text. `map_of_deck` is in its theme already; `progress` hears of each method done."""
    page = Page(drawn, judged, abstract_of, dark)
    found = {d.id: judged(d, "Default") for d in demos}
    slides: list[str] = []
    for slide in plan(demos):
        if slide.kind == "cover":
            body = text.cover(collection.name, demos, text.counts(found))
        elif slide.kind == "map":
            head = text.head("The map", f"{len(collection)} abstracts by topic, this deck's methods lit")
            body = head + page.figure(map_of_deck, "Map of the collection by topic", themed=True)
        elif slide.kind == "verdicts":
            head = text.head("What held", "Every claim of this deck, at the default settings")
            body = head + text.verdict_table(demos, found)
        else:
            body = _method_slide(page, slide)
            if slide.kind == "break":
                progress(1 + next(i for i, d in enumerate(demos) if d is slide.demo))
        slides.append(_section(slide, len(slides) + 1, body, page))
    return _file(collection.name, slides, page.figures, dark)


def _method_slide(page: Page, slide: Slide) -> str:
    demo = slide.demo
    assert demo is not None
    default = page.drawn(demo, "Default")
    if slide.kind == "claim":
        return page.claim(demo, default)
    return page.broken(demo, break_figures(default, page.drawn(demo, demo.break_it)))


def _section(slide: Slide, number: int, body: str, page: Page) -> str:
    notes = ""
    if slide.demo is not None:
        abstract = page.abstract_of(slide.demo)
        words = html_of(abstract.display) if abstract else ""
        notes = f'<aside class="notes"><div class="paper">{words}</div>{html_of(slide.demo.how_it_works)}</aside>'
    return f'<section class="slide" id="{number}" data-kind="{slide.kind}"><main>{body}</main>{notes}</section>'


def _file(name: str, slides: Sequence[str], figures: Sequence[str], dark: bool) -> str:
    theme = "dark" if dark else "light"
    style = (HERE / "slide.css").read_text(encoding="utf-8") + (HERE / "offline.css").read_text(encoding="utf-8")
    script = (HERE / "offline.js").read_text(encoding="utf-8")
    # nothing may be fetched, whatever a text or a figure says
    policy = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
    figures_json = "[" + ",".join(figures).replace("</", "<\\/") + "]"
    return (
        f'<!doctype html>\n<html lang="en" class="{theme}"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<title>Abstracts that run · {escape(name)}</title><style>:root{{color-scheme:{theme};"
        f"--ground:{GROUND[theme]}}}{style}</style></head><body>\n" + "\n".join(slides) + f"\n<footer><span>"
        f'Runnable Abstracts · {escape(name)}</span><nav><button data-go="break">Break it</button>'
        '<button data-go="notes">Notes</button><button data-go="back" aria-label="Previous slide">‹</button>'
        '<output></output><button data-go="next" aria-label="Next slide">›</button></nav></footer>\n'
        f"<script>{get_plotlyjs()}</script>\n"
        f'<script type="application/json" id="figures">{figures_json}</script>\n'
        f"<script>{script}</script>\n</body></html>\n"
    )


def _compact(fig: go.Figure) -> str:
    """A figure as JSON, numbers with seven digits."""
    return go.Figure(_single(fig.to_dict())).to_json()


def _single(node):
    if isinstance(node, dict):
        if "bdata" in node and node.get("dtype") == "f8":
            return charts.array_of(node).astype(np.float32)
        return {k: _single(v) for k, v in node.items()}
    if isinstance(node, list | tuple):
        return [_single(v) for v in node]
    if isinstance(node, np.ndarray) and node.dtype == np.float64:
        return node.astype(np.float32)
    return node


def mathml(latex: str, *, display: bool = False) -> str:
    """A formula as MathML, or its source where it cannot be read or would become anything but a formula."""
    for macro, meaning in _MACROS.items():
        latex = latex.replace(macro, meaning)
    try:
        found = convert(latex, display="block" if display else "inline")
        if all(_is_formula(node) for node in ElementTree.fromstring(found).iter()):
            return found
    except Exception:  # the library raises many kinds on unknown input; the deck must still be written
        pass
    return f"<code>{escape(latex)}</code>"


def _is_formula(node: ElementTree.Element) -> bool:
    """Whether an element belongs to MathML and does nothing."""
    name = str(node.tag).removeprefix("{http://www.w3.org/1998/Math/MathML}")
    return bool(_TAGS.fullmatch(name)) and not any(a.startswith("on") or "href" in a for a in node.attrib)


def html_of(markdown: str) -> str:
    """Markdown with formulas as HTML; tags and pictures in it are shown as text."""
    return _MARKDOWN.render(markdown)


_MARKDOWN = (
    MarkdownIt("commonmark", {"html": False})
    .use(dollarmath_plugin, renderer=lambda latex, options: mathml(latex, display=options["display_mode"]))
    .enable("table")
    .disable("image")
)
