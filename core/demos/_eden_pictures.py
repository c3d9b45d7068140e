"""Pictures of the EDEN demo: a tree as an icicle of all nodes, coarse modules, fine modules, the classes within."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from core.demos._eden_tree import Tree
from core.lab import charts, thumbnails

COLOURS: tuple[charts.Role, ...] = ("method", "baseline1", "baseline2", "baseline3")
NAMES = "ABCD"
HEADS = ("all", "coarse", "fine", "classes")
CLASS_DEPTH = 3
PALEST = 0.1


@dataclass(frozen=True)
class Piece:
    """Neighbouring nodes (start, size) at one depth of the icicle, how many of each class, and the piece they are in."""

    depth: int
    start: int
    size: int
    counts: np.ndarray
    parent: str

    @property
    def key(self) -> str:
        return f"{self.depth}-{self.start}"

    @property
    def majority(self) -> int:
        return int(self.counts.argmax())

    @property
    def strength(self) -> float:
        """Opacity: 1 for a single class, pale for an even mixture."""
        even = 1 / len(self.counts)
        return PALEST + (1 - PALEST) * (self.counts.max() / self.size - even) / (1 - even)


def pieces(tree: Tree, classes: np.ndarray) -> list[Piece]:
    """The rectangles of a tree, modules ordered by their most frequent class; a fine module may be in pieces."""
    fine, coarse = (level.modules for level in tree)
    counts = np.stack([np.bincount(classes[coarse == p], minlength=len(COLOURS)) for p in range(coarse.max() + 1)])
    place = np.argsort(np.argsort(counts.argmax(axis=1), kind="stable"))[coarse]
    order = np.lexsort((classes, fine, place))
    columns = np.stack([np.zeros_like(place), place, fine, classes])[:, order]
    out: list[Piece] = []
    for depth in range(len(columns)):
        new = (np.diff(columns[: depth + 1], axis=1) != 0).any(axis=0)
        starts = np.flatnonzero(np.r_[True, new])
        outer = [piece for piece in out if piece.depth == depth - 1]
        inside = np.searchsorted([piece.start for piece in outer], starts, side="right") - 1
        for i, a, n in zip(inside, starts, np.diff(np.r_[starts, len(classes)]), strict=True):
            within = np.bincount(columns[-1, a : a + n], minlength=len(COLOURS))
            out.append(Piece(depth, int(a), int(n), within, outer[i].key if outer else ""))
    return out


def _words(piece: Piece) -> str:
    share = 100 * piece.counts.max() / piece.size
    return f"{piece.size} nodes, {share:.0f} % class {NAMES[piece.majority]}"


def draw_icicles(of: Mapping[str, Tree], classes: np.ndarray) -> go.Figure:
    """Icicles of trees side by side, with a name on each."""
    fig = charts.blank(height=430)
    wide = (1 - 0.06 * (len(of) - 1)) / len(of)
    for i, (name, tree) in enumerate(of.items()):
        left = i * (wide + 0.06)
        shown = pieces(tree, classes)
        colours = [
            charts.tint(charts.MARK[COLOURS[p.majority] if p.depth else "oracle"], p.strength if p.depth else 0.25)
            for p in shown
        ]
        fig.add_icicle(
            ids=[p.key for p in shown],
            labels=[NAMES[p.majority] if p.depth == CLASS_DEPTH else _words(p) for p in shown],
            parents=[p.parent for p in shown],
            values=[p.size for p in shown],
            hovertext=[_words(p) for p in shown],
            hovertemplate="%{hovertext}<extra></extra>",
            branchvalues="total",
            sort=False,
            textinfo="none",
            marker={"colors": colours, "line": {"color": charts.GROUND, "width": 1}},
            leaf={"opacity": 1},
            pathbar={"visible": False},
            domain={"x": [left, left + wide], "y": [0, 1]},
            name=name,
        )
        charts.name_y(fig, name, x=left)
        for column, head in enumerate(HEADS):
            fig.add_annotation(
                text=head,
                x=left + (column + 0.5) / len(HEADS) * wide,
                y=0,
                xref="paper",
                yref="paper",
                xanchor="center",
                yanchor="top",
                showarrow=False,
                font={"size": 13, "color": charts.SOFT},
            )
    dots = "class " + " ".join(
        f"<span style='color:{charts.MARK[role]}'>●</span> {name}"
        for role, name in zip(COLOURS, NAMES, strict=True)
    )
    key = {"x": 0.5, "y": 0, "xref": "paper", "yref": "paper", "xanchor": "center", "yanchor": "top", "yshift": -20}
    fig.add_annotation(text=dots, showarrow=False, font={"size": 13, "color": charts.SOFT}, **key)
    return fig.update_layout(margin_b=52)


def thumbnail_of(tree: Tree, classes: np.ndarray) -> str:
    """The icicle without its last column, as SVG."""
    pad, scale = thumbnails.PAD, (thumbnails.HEIGHT - 2 * thumbnails.PAD) / len(classes)
    edges = pad + np.array([0, 0.16, 0.58, 1]) * (thumbnails.WIDTH - 2 * pad)
    body = ""
    for piece in pieces(tree, classes):
        if piece.depth < CLASS_DEPTH:
            role = COLOURS[piece.majority] if piece.depth else "oracle"
            opacity = piece.strength if piece.depth else 0.25
            left, right = edges[piece.depth : piece.depth + 2]
            body += (
                f'<rect class="f-{role}" opacity="{opacity:.2f}" x="{left:.1f}" '
                f'y="{pad + piece.start * scale:.1f}" width="{right - left - 2:.1f}" '
                f'height="{max(piece.size * scale - 1, 0.6):.1f}"/>'
            )
    return thumbnails.svg(body)


def name_where_apart(fig: go.Figure, first: str, second: str) -> None:
    """Name two lines with common x where they are furthest apart, the higher one above."""
    lines = {t.name: t for t in fig.data}
    a, b = (charts.array_of(lines[name].y) for name in (first, second))
    at = int(np.abs(a - b).argmax())
    for name, y, up in ((first, a, a[at] > b[at]), (second, b, a[at] <= b[at])):
        role = lines[name].meta["role"]
        text = f"<b>{name}</b>" if role == "method" else name
        font = {"size": 14, "color": charts.TEXT[role]}
        place = {"x": lines[name].x[at], "y": y[at], "yanchor": "bottom" if up else "top", "xanchor": "left"}
        fig.add_annotation(text=text, xshift=8, showarrow=False, font=font, **place, row=1, col=1)
