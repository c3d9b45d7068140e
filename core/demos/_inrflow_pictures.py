"""Rows of digits or of closed curves, drawn the same way whatever the number of their points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from core.lab import charts, thumbnails
from core.lab.palette import Role

PITCH, STEP = 1.5, 1.12
"""Distance of rows and of columns; a picture is 1 wide and 1 high."""


def square(f: np.ndarray) -> np.ndarray:
    """Grey values (n², 1) as a picture (n, n)."""
    n = round(len(f) ** 0.5)
    return f.reshape(n, n)


def strips(
    kind: str,
    rows: Mapping[str, Sequence[np.ndarray]],
    of: Mapping[str, Role],
    columns: Sequence[str] = (),
    *,
    height: int,
) -> go.Figure:
    """One row a name, its functions (points, d_y) side by side; `columns` are names below the last row."""
    fig = charts.blank(height=height)
    every = np.concatenate([np.abs(f).ravel() for fs in rows.values() for f in fs])
    span = 2.1 * float(np.quantile(every, 0.99))  # a few points of pure noise may lie outside
    for i, (name, functions) in enumerate(rows.items()):
        if kind == "digits":
            _pixels(fig, name, functions, i * PITCH)
        else:
            _lines(fig, name, functions, i * PITCH, span, charts.MARK[of[name]])
        text = f"<b>{name}</b>" if of[name] == "method" else name
        font = {"size": charts.FONT_SIZE, "color": charts.TEXT[of[name]]}
        place = {"x": 0, "y": i * PITCH - 0.03, "xanchor": "left", "yanchor": "bottom", "xshift": -4}
        fig.add_annotation(text=text, showarrow=False, font=font, **place)
    count = len(next(iter(rows.values())))
    fig.update_yaxes(visible=False, autorange=False, range=[(len(rows) - 1) * PITCH + 1.08, -0.4])
    at = [STEP * j + 0.5 for j in range(len(columns))]
    fig.update_xaxes(range=[-0.05, STEP * count - 0.07], tickvals=at, ticktext=list(columns))
    return fig.update_layout(margin_t=4)


def _pixels(fig: go.Figure, name: str, functions: Sequence[np.ndarray], top: float) -> None:
    """One heat map with empty columns between the pictures, given by the edges of its cells."""
    pictures = [square(f) for f in functions]
    n = len(pictures[0])
    edges = np.concatenate([STEP * j + np.arange(n + 1) / n for j in range(len(pictures))])
    z = np.concatenate([np.pad(p, ((0, 0), (0, 1)), constant_values=np.nan) for p in pictures], axis=1)[:, :-1]
    charts.picture(fig, z, scale=charts.GREYS, limits=(-1, 1), x=edges, y=top + np.arange(n + 1) / n, name=name)


def _lines(
    fig: go.Figure, name: str, functions: Sequence[np.ndarray], top: float, span: float, colour: str
) -> None:
    """Closed curves, one after the other, with dots where the points are few."""
    x, y = [], []
    for j, f in enumerate(functions):
        x += [*(STEP * j + 0.5 + np.r_[f[:, 0], f[0, 0]] / span), None]
        y += [*(top + 0.5 - np.r_[f[:, 1], f[0, 1]] / span), None]
    few = len(functions[0]) <= 48
    fig.add_scatter(
        x=x,
        y=y,
        name=name,
        mode="lines+markers" if few else "lines",
        line={"color": colour, "width": 1 if few else 1.8},
        marker={"size": 4, "color": colour},
        hoverinfo="skip",
    )


def distances(
    titles: Sequence[str],
    rows: Sequence[Mapping[str, tuple[float, float, float]]],
    of: Mapping[str, Role],
    floor: str,
) -> go.Figure:
    """One panel a grid: (value, low, high) by method as named dots; the row `floor` becomes a line."""
    fig = charts.panels(titles, "distance (data units)")
    for column, found in enumerate(rows, 1):
        where = {"row": 1, "col": column}
        charts.dots(fig, {k: v for k, v in found.items() if k != floor}, of, **where)
        line = {"color": charts.MARK["oracle"], "width": 1.6, "dash": "dot"}
        fig.add_vline(x=found[floor][0], line=line, **where)
        for name, (value, _, high) in found.items():
            font = {"size": charts.FONT_SIZE, "color": charts.TEXT[of[name]]}
            place = {"x": high, "y": name, "xanchor": "left", "xshift": 9}
            text = f"<b>{value:.3f}</b>" if of[name] == "method" else f"{value:.3f}"
            if name == floor:
                text = f"{floor}<br>{value:.3f}"
                place = {"x": value, "y": 2.5, "xanchor": "right", "xshift": -5, "align": "right"}
            fig.add_annotation(text=text, showarrow=False, font=font, **place, **where)
    top = max(high for found in rows for *_, high in found.values())
    return fig.update_xaxes(range=[0, 1.3 * top], nticks=5).update_yaxes(dtick=1)


def thumbnail_of(kind: str, coarse: np.ndarray, fine: np.ndarray) -> str:
    """A sample on two grids, side by side."""
    if kind == "digits":
        return thumbnails.pictures([[(square(f) + 1) / 2 for f in (coarse, fine)]], gap=28)
    aside = np.array([1.6, 0])
    return thumbnails.points([(coarse - aside, "oracle"), (fine + aside, "method")], radius=2.2)
