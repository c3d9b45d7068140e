"""Colours of figures: Okabe–Ito hues by role for the light page, and their partners on the dark one."""

from __future__ import annotations

import copy
import re
from typing import Any, Literal

import plotly.graph_objects as go

Role = Literal["method", "baseline1", "baseline2", "baseline3", "baseline4", "baseline5", "baseline6", "oracle"]
MARK: dict[str, str] = {
    "method": "#0072B2",
    "baseline1": "#E69F00",
    "baseline2": "#009E73",
    "baseline3": "#CC79A7",
    "baseline4": "#8C7A55",
    "baseline5": "#7B62B5",
    "baseline6": "#5B7F2A",
    "oracle": "#5C6167",
}
TEXT: dict[str, str] = {
    "method": "#005F96",
    "baseline1": "#8F6200",
    "baseline2": "#00724F",
    "baseline3": "#A14B7E",
    "baseline4": "#6E5F41",
    "baseline5": "#62489E",
    "baseline6": "#48651F",
    "oracle": "#5C6168",
}
INK = "#1D2126"
SOFT = "#5C6166"
GROUND = "#FEFEFE"
FAIL = "#D55E00"
GRID = "rgba(127,127,127,.25)"
DIVERGING = [[0, "#B35806"], [0.25, "#F1A340"], [0.5, "#F7F7F6"], [0.75, "#6BAED6"], [1, "#08519C"]]
"""Signed values around 0."""
SEQUENTIAL = [[0, "#F3F6F9"], [0.5, "#6CA6D0"], [1, "#084A86"]]
"""Amounts from 0 up."""
GREYS = [[0, "#000000"], [1, "#FFFFFF"]]
"""Pictures."""

DARK = {
    "#0072B2": "#56B4E9",
    "#E69F00": "#F0B429",
    "#009E73": "#2FC49A",
    "#CC79A7": "#E3A1C6",
    "#8C7A55": "#B8A27A",
    "#7B62B5": "#B09BE8",
    "#5B7F2A": "#9CC664",
    "#5C6167": "#A9AEB4",
    "#005F96": "#8CCBF2",
    "#8F6200": "#F0B428",
    "#00724F": "#2FC499",
    "#A14B7E": "#E3A1C5",
    "#6E5F41": "#B8A279",
    "#62489E": "#B09BE7",
    "#48651F": "#9CC663",
    "#5C6168": "#A9AEB3",
    INK: "#E9E7E2",
    SOFT: "#A9AEB5",
    GROUND: "#14171B",
    FAIL: "#F08A3C",
    "#F7F7F6": "#22272D",
    "#F3F6F9": "#1A2027",
    "#6CA6D0": "#3D7FB0",
    "#084A86": "#A8DBFF",
    "#08519C": "#A3D4FA",
    "#B35806": "#FFB56B",
}


def tint(colour: str, alpha: float) -> str:
    """A hex colour with transparency, as Plotly's rgba()."""
    r, g, b = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({r},{g},{b},{alpha:g})"


def in_theme(fig: go.Figure, dark: bool) -> go.Figure:
    """The same figure for a light or dark page: the palette's colours replaced one for one."""
    if not dark:
        return fig
    table = {k.lower(): v for k, v in DARK.items()}
    rgb = {tint(k, 0).rsplit(",", 1)[0].lower(): tint(v, 0).rsplit(",", 1)[0] for k, v in DARK.items()}
    pattern = re.compile("|".join(re.escape(k) for k in [*table, *rgb]), re.IGNORECASE)

    def swap(node: Any) -> Any:
        if isinstance(node, str):
            return pattern.sub(lambda m: table.get(m[0].lower()) or rgb[m[0].lower()], node)
        if isinstance(node, dict):
            return {k: v if k in _DATA else swap(v) for k, v in node.items()}
        if isinstance(node, list | tuple):
            return [swap(v) for v in node]
        return node

    return go.Figure(swap(copy.deepcopy(fig.to_dict())), skip_invalid=True)


_DATA = {"x", "y", "z", "customdata", "ids"}
