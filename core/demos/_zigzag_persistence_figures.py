"""Drawings of the zigzag demo that need more than the common template."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import plotly.graph_objects as go

from core.demos._zigzag_persistence_holes import ZIGZAG, Holes
from core.lab import charts, thumbnails

LONG = 3
"""Bars of that many layers stand out in the small picture."""


def cuts(
    first: np.ndarray,
    increase: np.ndarray,
    levels: Mapping[str, float],
    picks: Mapping[str, np.ndarray],
    of: Mapping[str, charts.Role],
) -> go.Figure:
    """Cost of every cut by its first layer, above the cuts that each criterion picks (positions in `first`)."""
    fig = charts.panels(["rise of the loss (nats per word)", "chosen by"], rows=2, height=430)
    fig.add_scatter(
        x=first,
        y=increase,
        mode="lines+markers",
        name="every cut",
        line={"color": charts.INK, "width": 2},
        marker={"size": 7},
        row=1,
        col=1,
    )
    for (name, y), anchor in zip(levels.items(), ("bottom", "top"), strict=True):
        role = of[name]
        fig.add_hline(y=y, line={"color": charts.MARK[role], "width": 1.6, "dash": "dot"}, row=1, col=1)
        place = {"x": 1, "xref": "paper", "xanchor": "left", "xshift": 8, "y": y, "yref": "y", "yanchor": anchor}
        fig.add_annotation(text=name, showarrow=False, font={"color": charts.TEXT[role]}, **place)
    for name, at in picks.items():
        fig.add_scatter(
            x=first[at] if len(at) else [None],
            y=[name] * max(len(at), 1),
            mode="markers",
            name=name,
            marker={"color": charts.MARK[of[name]], "size": 13 if name == ZIGZAG else 10},
            row=2,
            col=1,
        )
    order = {"type": "category", "categoryorder": "array", "categoryarray": list(picks)[::-1]}
    fig.update_yaxes(**order, range=[-0.6, len(picks) - 0.4], row=2, col=1)
    fig.update_xaxes(range=[first[0] - 0.3, first[-1] + 0.3], dtick=1)
    fig.update_xaxes(title_text="", row=1, col=1)
    return fig.update_layout(margin_r=90)


def births_and_lives(holes: Holes) -> go.Figure:
    """Number of 1-cycles by layer of birth (rows) and life (columns); shares of births at the right."""
    layers = holes.alive.shape[1]
    fig = charts.blank("life (layers)", "layer of birth", height=380, right=70)
    counts = np.full((layers, layers), np.nan)
    for birth in range(layers):
        lives = np.bincount(holes.lives[holes.births == birth], minlength=layers + 1)
        counts[birth, : layers - birth] = lives[1 : layers - birth + 1]
    z = np.log10(1 + counts)
    at = np.arange(1, layers + 1)
    text = [["" if not c > 0 else f"{c:.0f}" for c in row] for row in counts]
    limits = (0.0, max(float(np.nanmax(z)), 1.0))
    charts.picture(fig, z, limits=limits, x=at, y=at, text=text, texttemplate="%{text}", hover="%{text} cycles")
    fig.update_traces(xgap=2, ygap=2)
    for birth, share in enumerate(np.nansum(counts, axis=1) / max(len(holes.alive), 1), 1):
        place = {"x": 1, "xref": "paper", "y": birth, "xanchor": "left", "xshift": 8}
        fig.add_annotation(text=f"{100 * share:.0f} %", showarrow=False, font={"color": charts.SOFT}, **place)
    charts.name_y(fig, "births", x=1)
    return fig.update_yaxes(dtick=1).update_xaxes(dtick=1)


def layer_by_layer(holes: Holes, permuted: Holes, other: Holes | None, at: int) -> go.Figure:
    """r and β by layer; a cross for layer `at` with permuted rows, a thin line for another model."""
    layers = holes.alive.shape[1]
    words: dict[charts.Role, str] = {"method": "this model", "baseline1": f"layer {at + 1} permuted"}
    if other is not None:
        words["oracle"] = "untrained"
    fig = charts.panels(["inter-layer persistence r", "1-cycles β"], "layer", shared_y=False)
    x = np.arange(1, layers + 1)
    for column, kind in enumerate(("persistence", "betti"), 1):
        if other is not None:
            charts.line(fig, "untrained", x, getattr(other, kind), "oracle", dash="solid", row=1, col=column)
        charts.line(fig, ZIGZAG, x, getattr(holes, kind), markers=True, row=1, col=column)
        cross = {"symbol": "x", "size": 12, "color": charts.MARK["baseline1"]}
        y = getattr(permuted, kind)[at]
        fig.add_scatter(x=[at + 1], y=[y], mode="markers", name="permuted", marker=cross, row=1, col=column)
    fig.add_hline(y=1 / layers, line={"color": charts.MARK["oracle"], "width": 1.6, "dash": "dot"}, row=1, col=1)
    place = {"x": layers, "y": 1 / layers, "xanchor": "right", "yanchor": "top"}
    fig.add_annotation(text="1/L", showarrow=False, font={"color": charts.TEXT["oracle"]}, **place)
    names = [f"<span style='color:{charts.TEXT[role]}'>{text}</span>" for role, text in words.items()]
    place = {"x": 0, "y": 1, "xref": "paper", "yref": "paper", "xanchor": "left", "yanchor": "bottom", "yshift": 28}
    fig.add_annotation(text=" · ".join(names), showarrow=False, **place)
    fig.update_yaxes(rangemode="tozero", nticks=6)
    return fig.update_xaxes(dtick=1).update_layout(margin_t=62, height=370)


def packed_barcode(holes: Holes) -> str:
    """Every bar over the layers as SVG, each in the first row that is free; long bars in the accent colour."""
    ends: list[int] = []  # last layer of each row so far
    placed = []
    for bar in np.lexsort((-holes.lives, holes.births)):
        first, life = int(holes.births[bar]), int(holes.lives[bar])
        row = next((i for i, end in enumerate(ends) if end < first), len(ends))
        ends[row : row + 1] = [first + life - 1]
        placed.append((row, first, life))
    high = (thumbnails.HEIGHT - 2 * thumbnails.PAD) / max(len(ends), 1)
    wide = (thumbnails.WIDTH - 2 * thumbnails.PAD) / holes.alive.shape[1]
    body = ""
    for row, first, life in placed:
        look = 'class="f-method"' if life >= LONG else 'class="f-oracle" opacity=".45"'
        body += (
            f'<rect {look} x="{thumbnails.PAD + wide * first + 1:.1f}" y="{thumbnails.PAD + high * row:.1f}" '
            f'width="{wide * life - 2:.1f}" height="{min(0.7 * high, 8):.2f}"/>'
        )
    return thumbnails.svg(body)
