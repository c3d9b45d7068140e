"""The figure template: one look for every chart, drawn in the light palette and recoloured for the dark one.

The method of the paper is always blue and thicker, baselines take the next colours in a fixed order, bounds
and oracles are dotted grey. Lines are named at their right end, the y axis is named on top of it.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from core.lab.palette import (
    DIVERGING,
    FAIL,
    GREYS,
    GRID,
    GROUND,
    INK,
    MARK,
    SEQUENTIAL,
    SOFT,
    TEXT,
    Role,
    in_theme,
    tint,
)
from core.lab.verdicts import Samples, ratio_interval, t_interval

FONT_SIZE = 14
HEIGHT = 350
WIDTH = 685
FONT = "Source Sans, sans-serif"
END_LABEL = "end label"

__all__ = [  # the palette is part of the template: demos find everything here
    "DIVERGING",
    "FAIL",
    "GREYS",
    "GRID",
    "GROUND",
    "INK",
    "MARK",
    "SEQUENTIAL",
    "SOFT",
    "TEXT",
    "Role",
    "array_of",
    "blank",
    "data_table",
    "dots",
    "end_labels",
    "in_theme",
    "interval_of",
    "level",
    "line",
    "moment",
    "name_y",
    "panels",
    "picture",
    "roles",
    "tint",
]


def roles(method: str, baselines: Sequence[str] = (), oracle: Sequence[str] | str = ()) -> dict[str, Role]:
    """Roles of named methods for every figure and thumbnail of a demo; at most six baselines."""
    if len(baselines) > 6:
        raise ValueError(f"baselines: at most 6 have a colour, {len(baselines)} given")
    out: dict[str, Any] = {method: "method"}
    out |= {name: f"baseline{i + 1}" for i, name in enumerate(baselines)}
    out |= dict.fromkeys([oracle] if isinstance(oracle, str) else oracle, "oracle")
    return out


def blank(
    x: str = "",
    y: str = "",
    *,
    log_x: bool = False,
    log_y: bool = False,
    height: int = HEIGHT,
    right: int = 24,
) -> go.Figure:
    """An empty figure of the template. `x` and `y` name the axes with their units."""
    fig = go.Figure()
    fig.update_layout(
        height=height,
        margin={"l": 8, "b": 8, "t": round(2.1 * FONT_SIZE) + 8, "r": right},
        showlegend=False,
        dragmode=False,
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": FONT, "size": FONT_SIZE, "color": SOFT},
        hoverlabel={"font": {"family": FONT, "size": FONT_SIZE}},
        bargap=0.35,
    )
    _style_axes(fig, log_x, log_y)
    fig.update_xaxes(title_text=x)
    if y:
        name_y(fig, y)
    return fig


def _style_axes(fig: go.Figure, log_x: bool = False, log_y: bool = False) -> None:
    """The template's look for all axes of a figure."""
    common = {
        "showline": False,
        "zeroline": False,
        "ticks": "",
        "tickfont": {"size": FONT_SIZE - 1, "color": SOFT},
        "automargin": True,
        "separatethousands": True,
        "exponentformat": "power",
    }
    title = {"font": {"size": FONT_SIZE, "color": SOFT}, "standoff": 6}
    fig.update_xaxes(
        title=title, type="log" if log_x else None, showgrid=False, dtick=1 if log_x else None, **common
    )
    fig.update_yaxes(type="log" if log_y else None, gridcolor=GRID, nticks=6, dtick=1 if log_y else None, **common)


def panels(
    titles: Sequence[str], x: str = "", y: str = "", *, shared_y: bool = True, rows: int = 1, height: int = HEIGHT
) -> go.Figure:
    """Small multiples of the template with a title on each panel; add traces with `row=` and `col=`, from 1."""
    columns = -(-len(titles) // rows)
    fig = blank(height=height)
    fig.set_subplots(rows, columns, shared_yaxes=shared_y, horizontal_spacing=0.05, vertical_spacing=0.16)
    _style_axes(fig)
    for i, text in enumerate(titles):
        k = "" if i == 0 else str(i + 1)
        name_y(fig, text, xref=f"x{k} domain", yref=f"y{k} domain")
    fig.update_xaxes(title_text=x, row=rows)
    fig.update_yaxes(title_text=y, col=1)
    return fig


def name_y(fig: go.Figure, text: str, *, xref: str = "paper", yref: str = "paper", x: float = 0) -> None:
    """Name a y axis on top of it, horizontally."""
    fig.add_annotation(
        text=text,
        xref=xref,
        yref=yref,
        x=x,
        y=1,
        xanchor="left",
        yanchor="bottom",
        showarrow=False,
        yshift=0.45 * FONT_SIZE,
        font={"size": FONT_SIZE, "color": SOFT},
    )


def line(
    fig: go.Figure,
    name: str,
    x: np.ndarray,
    y: np.ndarray,
    role: Role = "method",
    *,
    band: tuple[np.ndarray, np.ndarray] | None = None,
    dash: str | None = None,
    markers: bool = False,
    end_label: bool = True,
    **subplot: Any,
) -> None:
    """A line (n,) in the colour and width of its role, with an optional band (low, high)."""
    colour = MARK[role]
    x, y = np.asarray(x), np.asarray(y, dtype=float)
    if band is not None:
        low, high = (np.asarray(b, dtype=float) for b in band)
        fig.add_scatter(
            x=np.r_[x, x[::-1]],
            y=np.r_[high, low[::-1]],
            fill="toself",
            fillcolor=tint(colour, 0.16),
            line={"width": 0},
            hoverinfo="skip",
            mode="lines",
            name=f"{name} interval",
            **subplot,
        )
    fig.add_scatter(
        x=x,
        y=y,
        name=name,
        mode="lines+markers" if markers else "lines",
        line={
            "color": colour,
            "width": 3.6 if role == "method" else 2,
            "dash": dash or ("dot" if role == "oracle" else "solid"),
        },
        marker={"size": 8 if role == "method" else 6, "color": colour},
        meta={"role": role, "end_label": end_label},
        hovertemplate=f"{name}: %{{y:.4~g}}<extra></extra>",
        **subplot,
    )


def end_labels(fig: go.Figure, *, right: int = 150) -> None:
    """Name each line at its right end, pushed apart so that no two names touch; again after a new range."""
    fig.layout.annotations = [a for a in fig.layout.annotations if a.name != END_LABEL]
    ends = []
    log = fig.layout.yaxis.type == "log"
    for trace in fig.data:
        meta = trace.meta or {}
        if trace.type != "scatter" or not meta.get("end_label"):
            continue
        y = array_of(trace.y).astype(float)
        good = np.isfinite(y) & ((y > 0) if log else True)
        if good.any():
            ends.append((trace, y[good][-1]))
    if not ends:
        return
    low, high = _y_range(fig, log)
    scale = (fig.layout.height - fig.layout.margin.t - 48) / ((high - low) or 1.0)
    place = [(np.log10(v) if log else v) for _, v in ends]
    pixel = _push_apart(np.array([(p - low) * scale for p in place]), FONT_SIZE + 4.0)
    fig.update_layout(margin_r=right)
    for (trace, _), p in zip(ends, pixel, strict=True):
        role = trace.meta["role"]
        text = f"<b>{trace.name}</b>" if role == "method" else trace.name
        fig.add_annotation(
            x=1,
            xref="paper",
            y=p / scale + low,
            yref="y",
            text=text,
            name=END_LABEL,
            showarrow=False,
            xanchor="left",
            xshift=8,
            font={"size": FONT_SIZE, "color": TEXT[role]},
        )
    edge = 6 / scale  # a name pushed past the last tick still needs room
    fig.update_yaxes(
        range=[min(low, pixel.min() / scale + low - edge), max(high, pixel.max() / scale + low + edge)]
    )


def _y_range(fig: go.Figure, log: bool) -> tuple[float, float]:
    if fig.layout.yaxis.range is not None:
        return tuple(fig.layout.yaxis.range)
    values = [array_of(t.y).astype(float).ravel() for t in fig.data if t.y is not None and t.type == "scatter"]
    values += [np.array([s.y0, s.y1], dtype=float) for s in fig.layout.shapes if s.yref == "y"]
    y = np.concatenate(values)
    y = y[np.isfinite(y) & ((y > 0) if log else True)]
    y = np.log10(y) if log else y
    pad = 0.05 * (y.max() - y.min() or 1.0)
    return float(y.min() - pad), float(y.max() + pad)


def _push_apart(pixel: np.ndarray, gap: float) -> np.ndarray:
    """Positions (n,) moved as little as needed until neighbours are `gap` apart."""
    order = np.argsort(pixel, kind="stable")
    p = pixel[order].astype(float)
    for _ in range(60):
        short = np.maximum(gap - np.diff(p), 0) / 2
        p[:-1] -= short
        p[1:] += short
    out = np.empty_like(p)
    out[order] = p
    return out


def level(fig: go.Figure, y: float, text: str, **subplot: Any) -> None:
    """A dotted horizontal line for a bound, named at its left end above the line."""
    fig.add_hline(y=y, line={"color": MARK["oracle"], "width": 1.6, "dash": "dot"}, **subplot)
    at = np.log10(y) if fig.layout.yaxis.type == "log" else y
    fig.add_annotation(
        x=0,
        xref="paper",
        y=at,
        text=text,
        showarrow=False,
        xanchor="left",
        yanchor="bottom",
        font={"size": FONT_SIZE - 1, "color": TEXT["oracle"]},
    )


def moment(fig: go.Figure, x: float, text: str, *, role: Role = "oracle", top: float = 1.0) -> None:
    """A dotted vertical line at x, named beside its top."""
    fig.add_vline(x=x, line={"color": MARK[role], "width": 1.6, "dash": "dot"})
    at = np.log10(x) if fig.layout.xaxis.type == "log" else x
    fig.add_annotation(
        x=at,
        y=top,
        yref="paper",
        text=text,
        showarrow=False,
        xanchor="left",
        yanchor="top",
        xshift=5,
        font={"size": FONT_SIZE - 1, "color": TEXT[role]},
    )


def dots(
    fig: go.Figure,
    rows: Mapping[str, tuple[float, float, float]],
    of: Mapping[str, Role],
    **subplot: Any,
) -> None:
    """One row a method: a dot with its interval, the method's row first.

    `rows` maps names to (value, low, high); low = high = value draws no interval.
    """
    names = sorted(rows, key=lambda n: of[n] != "method")
    for name in names:
        value, low, high = rows[name]
        role = of[name]
        fig.add_scatter(
            x=[value],
            y=[name],
            mode="markers",
            name=name,
            error_x={
                "type": "data",
                "symmetric": False,
                "array": [high - value],
                "arrayminus": [value - low],
                "color": MARK[role],
                "width": 0,
                "thickness": 3,
            },
            marker={
                "color": MARK[role],
                "size": 13 if role == "method" else 9,
                "symbol": "diamond" if role == "oracle" else "circle",
            },
            hovertemplate=f"{name}: %{{x:.4~g}} [{low:.4g}, {high:.4g}]<extra></extra>",
            **subplot,
        )
    fig.update_yaxes(autorange="reversed", type="category", dtick=1, tickfont={"size": FONT_SIZE, "color": INK})
    fig.update_xaxes(showgrid=True, gridcolor=GRID)


def interval_of(
    samples: Samples | None, measure: str, method: str, value: float, *, log: bool = False
) -> tuple[float, float, float]:
    """(mean, low, high) over seeds where there are samples, else the one run's value three times.

    `log` takes the geometric mean, for positive values on a logarithmic axis.
    """
    if samples is None or (measure, method) not in samples.values or len(samples.seeds) < 2:
        return value, value, value
    e = (ratio_interval if log else t_interval)(samples(measure, method))
    return e.value, e.low, e.high


def picture(
    fig: go.Figure,
    z: np.ndarray,
    *,
    scale: Any = None,
    limits: tuple[float, float] = (0.0, 1.0),
    hover: str = "%{z:.3~g}",
    **subplot: Any,
) -> None:
    """A matrix or grey picture (rows, columns), first row on top, square cells left to the caller."""
    fig.add_heatmap(
        z=np.asarray(z),
        colorscale=scale or SEQUENTIAL,
        zmin=limits[0],
        zmax=limits[1],
        showscale=False,
        hovertemplate=hover + "<extra></extra>",
        **subplot,
    )
    where = {k: v for k, v in subplot.items() if k in ("row", "col")}
    fig.update_yaxes(autorange="reversed", showgrid=False, **where)


def data_table(fig: go.Figure) -> list[dict[str, Any]]:
    """The numbers of a figure as rows (trace, x, y or z), for a CSV download."""
    rows = []
    for i, trace in enumerate(fig.data):
        name = trace.name or f"{trace.type} {i + 1}"
        if trace.type == "heatmap":
            z = array_of(trace.z)
            rows += [{"trace": name, "x": c, "y": r, "value": z[r, c]} for r, c in np.ndindex(z.shape[:2])]
        elif getattr(trace, "x", None) is not None and getattr(trace, "y", None) is not None:
            pairs = zip(array_of(trace.x), array_of(trace.y), strict=False)
            rows += [{"trace": name, "x": a, "y": b} for a, b in pairs]
    return rows


def array_of(values: Any) -> np.ndarray:
    """A trace's values; a figure that was stored and loaded holds them as encoded bytes."""
    if not isinstance(values, dict):
        return np.asarray(values)
    flat = np.frombuffer(base64.b64decode(values["bdata"]), dtype=values["dtype"])
    shape = [int(n) for n in str(values.get("shape", len(flat))).split(",")]
    return flat.reshape(shape)
