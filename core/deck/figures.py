"""Figures for slides: everything larger in proportion, and two figures on the same axes."""

from __future__ import annotations

import copy
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from core.lab import charts

SCALE = 20 / charts.FONT_SIZE
"""Makes the template's text 20 pixels high, readable from the back of a room."""
LEFT, LEFT_WORDS = 50, 110
"""About how much room (px) the ticks of a vertical axis take: numbers, and names of rows."""
_PIXELS = {"standoff", "xshift", "yshift", "borderpad", "borderwidth", "arrowwidth", "thickness", "height"}


def for_slide(fig: go.Figure, width: float, height: float, scale: float = SCALE) -> go.Figure:
    """A copy for a place of `width` × `height` pixels: text, lines, markers and margins times `scale`.

    The figure gets as high as the place at most; names of panels are broken into lines that fit.
    """
    fig = go.Figure(fig)
    if fig.layout.height and fig.layout.height * scale > height:
        fig.update_layout(height=height / scale)
        _renew_labels(fig)
    _break_names(fig, width / scale)
    plain = _scaled(copy.deepcopy(fig.to_dict()), "", scale)
    plain["layout"].pop("width", None)
    return go.Figure(plain)


def _renew_labels(fig: go.Figure) -> None:
    """Place the names at the lines' ends again after a new height or range."""
    if any(note.name == charts.END_LABEL for note in fig.layout.annotations):
        charts.end_labels(fig, right=int(fig.layout.margin.r))


def _break_names(fig: go.Figure, width: float) -> None:
    """Break the names on top of axes into lines as wide as their panel in a figure `width` pixels wide."""
    width -= LEFT_WORDS if fig.layout.yaxis.type == "category" else LEFT
    room = width - (fig.layout.margin.r or 0)
    lines = 1
    for note in fig.layout.annotations:
        if note.yanchor != "bottom" or note.y != 1 or not str(note.xref).endswith(("domain", "paper")):
            continue
        axis = fig.layout[f"xaxis{str(note.xref).split()[0].removeprefix('x')}"] if note.xref != "paper" else None
        share = axis.domain[1] - axis.domain[0] if axis is not None and axis.domain else 1
        letters = max(8, int((share * room if axis else width) / (0.47 * charts.FONT_SIZE)))
        words = textwrap.wrap(note.text, letters, break_long_words=False) if "<" not in note.text else [note.text]
        note.text = "<br>".join(words)
        lines = max(lines, len(words))
    if lines > 1:
        fig.layout.margin.t += (lines - 1) * 1.25 * charts.FONT_SIZE


def _scaled(node: Any, parent: str, k: float) -> Any:
    if isinstance(node, dict):
        return {key: _one(key, v, parent, node, k) for key, v in node.items()}
    if isinstance(node, list | tuple):
        return [_scaled(v, parent, k) for v in node]
    return node


def _one(key: str, value: Any, parent: str, node: dict, k: float) -> Any:
    """One entry, scaled if it is a length in pixels."""
    lengths = (
        key in _PIXELS
        or (key == "size" and (parent == "marker" or parent.endswith("font")))
        or (key == "width" and parent in ("line", "error_x", "error_y", "marker"))
        or (key in "lrtb" and parent in ("margin", "pad"))
        or (key in ("ax", "ay") and f"{key}ref" not in node)
    )
    if lengths and isinstance(value, dict) and "bdata" in value:
        value = charts.array_of(value)
    if not lengths or isinstance(value, dict):
        return _scaled(value, key, k)
    if isinstance(value, list | tuple | np.ndarray):
        return [v if v is None else v * k for v in value]
    return value * k if isinstance(value, int | float) and not isinstance(value, bool) else value


def same_axes(a: go.Figure, b: go.Figure) -> tuple[go.Figure, go.Figure]:
    """Copies of two figures whose value axes have the same range, so that they can be read side by side."""
    a, b = go.Figure(a), go.Figure(b)
    names = [name for name in _axes(a) if name in _axes(b)]
    _set_common(a, b, names)
    for fig in (a, b):
        _renew_labels(fig)
    _set_common(a, b, names)  # a name pushed past the end of one figure needs the room in both
    return a, b


def _set_common(a: go.Figure, b: go.Figure, names: Sequence[str]) -> None:
    """Give each of these axes the range that holds both figures."""
    for name in names:
        one, other = _range(a, name), _range(b, name)
        if one is not None and other is not None:
            for fig in (a, b):
                fig.layout[name].range = [min(one[0], other[0]), max(one[1], other[1])]


def _axes(fig: go.Figure) -> list[str]:
    """Names of the value axes: the horizontal ones where rows are named, else the vertical ones."""
    rows_named = fig.layout.yaxis.type == "category"
    return [name for name in fig.layout if str(name).startswith("xaxis" if rows_named else "yaxis")]


def _range(fig: go.Figure, name: str) -> tuple[float, float] | None:
    """The range of an axis as set or as its data need it; None for pictures, words and followers."""
    axis = fig.layout[name]
    if axis.matches or axis.type == "category" or axis.autorange == "reversed" or axis.visible is False:
        return None
    if axis.range is not None:
        return float(axis.range[0]), float(axis.range[1])
    short = name.replace("axis", "")
    others = [n for n in fig.layout if str(n).startswith(f"{short[0]}axis")]
    followers = {short} | {str(n).replace("axis", "") for n in others if fig.layout[n].matches == short}
    parts = [list(_values(t, short[0])) for t in fig.data if (t[f"{short[0]}axis"] or short[0]) in followers]
    if not parts or any(not p for p in parts):
        return None
    values = np.concatenate([v for p in parts for v in p])
    values = values[np.isfinite(values) & ((values > 0) if axis.type == "log" else True)]
    if not len(values):
        return None
    values = np.log10(values) if axis.type == "log" else values
    pad = 0.05 * (np.ptp(values) or 1.0)
    bars = any(t.type == "bar" for t in fig.data)
    low, high = float(values.min()), float(values.max())
    return (low if bars and low == 0 else low - pad), high + pad


def _values(trace: Any, letter: str) -> Iterator[np.ndarray]:
    """The numbers that a trace puts on its x or y axis, its error bars included; nothing if it has none."""
    if trace.type not in ("scatter", "bar"):
        return
    try:
        values = charts.array_of(trace[letter]).astype(float)
    except (TypeError, ValueError):
        return
    yield values
    if trace.type == "bar":
        yield np.zeros(1)
    error = trace[f"error_{letter}"]
    if error is not None and error.array is not None:
        up = charts.array_of(error.array).astype(float)
        yield values + up
        yield values - (charts.array_of(error.arrayminus).astype(float) if error.arrayminus is not None else up)
