"""Drawings of the MinionS demo that need more than the common template."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import plotly.graph_objects as go

from core.lab import charts, thumbnails

Interval = tuple[float, float, float]
Log = list[tuple[str, str, float]]
MOST_CHUNKS = 60
"""Lines between more chunks than that would hide the sentences."""


def scatter(
    cost: Mapping[str, Interval],
    accuracy: Mapping[str, Interval],
    texts: Mapping[str, str],
    of: Mapping[str, charts.Role],
    places: Mapping[str, dict],
) -> go.Figure:
    """One named marker a method, with intervals; a method without `cost` is free and stands at the left edge."""
    least, dearest = min(v for v, *_ in cost.values()), max(v for v, *_ in cost.values())
    free = least / 3.5
    fig = charts.blank("remote cost of a question in words (log scale)", "accuracy", log_x=True)
    for name, (y, y0, y1) in accuracy.items():
        x, x0, x1 = cost.get(name, (free, free, free))
        role = of[name]
        bar = {"type": "data", "symmetric": False, "color": charts.MARK[role], "width": 0, "thickness": 3}
        fig.add_scatter(
            x=[x],
            y=[y],
            name=name,
            mode="markers",
            error_x=bar | {"array": [x1 - x], "arrayminus": [x - x0]},
            error_y=bar | {"array": [y1 - y], "arrayminus": [y - y0]},
            marker={
                "color": charts.MARK[role],
                "size": 14 if role == "method" else 10,
                "symbol": "diamond" if role == "oracle" else "circle",
            },
            hovertemplate=f"{name}: accuracy {y:.3f}, cost {x if name in cost else 0:,.0f}<extra></extra>",
        )
        font = {"size": charts.FONT_SIZE, "color": charts.TEXT[role]}
        fig.add_annotation(x=np.log10(x), y=y, text=texts[name], showarrow=False, font=font, **places[name])
    ticks = [v for v in (50, 100, 200, 500, 1000, 2000, 5000) if least / 1.6 < v < 1.4 * dearest]
    fig.update_xaxes(tickvals=[free, *ticks], ticktext=["free", *(f"{v:,}" for v in ticks)])
    fig.update_xaxes(range=list(np.log10([free / 1.15, dearest * (dearest / free) ** 0.13])))
    return fig.update_yaxes(range=[-0.1, 1.12], tickvals=[0, 0.25, 0.5, 0.75, 1])


def transcript(scores: np.ndarray, chunk: int, sent: list[tuple[int, int]], log: Log) -> go.Figure:
    """Scores (parts, sentences) in chunks with the sentences sent as (part, sentence), and what was said below."""
    parts, n = scores.shape
    fig = charts.blank(height=460)
    rows = [f"part {k + 1}" for k in range(parts)]
    charts.picture(
        fig, scores, x=np.arange(1, n + 1), y=rows, limits=(-0.2, 1), hover="%{y}, sentence %{x}: %{z:.2f}"
    )
    for edge in range(chunk, n, chunk) if n <= MOST_CHUNKS * chunk else ():
        fig.add_vline(edge + 0.5, line={"color": charts.SOFT, "width": 0.8})
    fig.add_scatter(
        x=[i + 1 for _, i in sent],
        y=[rows[k] for k, _ in sent],
        mode="markers",
        name="sent",
        marker={
            "size": 11,
            "color": charts.MARK["baseline1"],
            "line": {"color": charts.GROUND, "width": 1.5},
        },
        hovertemplate="sent: sentence %{x}<extra></extra>",
    )
    fig.update_yaxes(domain=[0.78, 1], tickvals=rows)
    fig.update_xaxes(range=[0.5, n + 0.5], nticks=6)
    charts.name_y(fig, "sentences of the document, in their order")
    shown = shortened(log)
    colours = [charts.TEXT["method"] if text.startswith("sends") else charts.INK for _, text, _ in shown]
    look = {"fill": {"color": "rgba(0,0,0,0)"}, "line": {"color": charts.GRID}, "align": ["left", "left", "right"]}
    font = {"family": charts.FONT, "size": charts.FONT_SIZE - 1}
    fig.add_table(
        domain={"x": [0, 1], "y": [0, 0.68]},
        columnwidth=[15, 71, 14],
        header={"values": ["", "", "cost"], "font": {**font, "color": charts.SOFT}, "height": 22, **look},
        cells={
            "values": [[w for w, _, _ in shown], [t for _, t, _ in shown], [f"{c:,.0f}" for *_, c in shown]],
            "font": {**font, "color": [colours]},
            "height": 22,
            **look,
        },
    )
    return fig


def shortened(log: Log, most: int = 3) -> Log:
    """The log with at most so many sent lines in a row, the others counted."""
    out: Log = []
    streak = 0
    for who, text, cost in log:
        streak = streak + 1 if text.startswith("sends") else 0
        if streak > most + 1:
            out.pop()
        extra = streak - most
        out.append((who, text if extra <= 0 else f"sends {extra} more line{'s' if extra > 1 else ''}", cost))
    return out


def changes(panels: Mapping[str, tuple[float, Mapping[str, Interval]]]) -> go.Figure:
    """Panel title -> (where nothing changes, row -> interval), side by side."""
    fig = charts.panels(list(panels))
    for column, (none, rows) in enumerate(panels.values(), 1):
        roles: dict[str, charts.Role] = dict.fromkeys(rows, "method")
        charts.dots(fig, rows, roles, row=1, col=column)
        dotted = {"color": charts.MARK["oracle"], "width": 1.6, "dash": "dot"}
        fig.add_vline(none, line=dotted, row=1, col=column)
        ends = [none, *(v for row in rows.values() for v in row)]
        edge = 0.1 * (max(ends) - min(ends)) or 0.1
        fig.update_xaxes(range=[min(ends) - edge, max(ends) + edge], nticks=5, row=1, col=column)
    return fig


def arrows_thumbnail(
    at: Mapping[str, tuple[float, float]], arrows: list[tuple[str, str]], of: Mapping[str, charts.Role]
) -> str:
    """Dots (cost, accuracy) on a logarithmic scale of cost, joined by arrows; a dot of cost 0 stands at the left."""
    paid = [cost for cost, _ in at.values() if cost > 0]
    span = np.log(max(paid) / min(paid)) or 1.0
    place = {
        name: np.array([90 + 180 * np.log(cost / min(paid)) / span if cost > 0 else 28.0, 106 - 86 * accuracy])
        for name, (cost, accuracy) in at.items()
    }
    body = ""
    for start, end in arrows:
        along = place[end] - place[start]
        along = along / (np.linalg.norm(along) or 1)
        tail, tip, side = place[start] + 9 * along, place[end] - 12 * along, np.array([-along[1], along[0]])
        barbs = [tip - 8 * along + sign * 4.5 * side for sign in (1, -1)]
        a, b, c, d = (f"{x:.1f},{y:.1f}" for x, y in (tail, tip, *barbs))
        body += f'<path class="s-oracle" fill="none" stroke-width="2" d="M{a} L{b} M{c} L{b} L{d}"/>'
    for name, (x, y) in place.items():
        size = 8 if of[name] == "method" else 5.5
        body += f'<circle class="f-{of[name]}" cx="{x:.1f}" cy="{y:.1f}" r="{size}"/>'
    return thumbnails.svg(body)
