"""Maps of the bay: truth, forecast and error."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go

from core.demos._coastbench_sea import DX, OCEAN, Sea
from core.lab import charts, thumbnails

LAND = 178  # a grey that is neither the page's nor one of the map's


def draw_maps(sea: Sea, truth: np.ndarray, forecast: np.ndarray, variable: str, lead: int) -> go.Figure:
    """Truth, forecast and error (4, ny, nx) in m or g/kg; salinity with arrows of the current."""
    unit, k = ("m", 0) if variable == "level" else ("g/kg", 3)
    titles = [f"{variable} after {lead} h", "<b>ViT forecast</b>", "error of the forecast"]
    fig = charts.panels(titles, height=330)
    reach = max(float(np.abs(a[0][sea.wet]).max()) for a in (truth, forecast))
    limits = (-reach, reach) if k == 0 else (min(5 * np.floor(truth[3][sea.wet].min() / 5), OCEAN - 5), OCEAN)
    wrong = forecast[k] - truth[k]
    edge = float(np.abs(wrong[sea.wet]).max()) or 1.0
    x = (np.arange(sea.wet.shape[1]) + 0.5) * DX / 1000
    y = (np.arange(sea.wet.shape[0]) + 0.5) * DX / 1000
    shown = ((truth, truth[k], limits), (forecast, forecast[k], limits), (forecast - truth, wrong, (-edge, edge)))
    for column, (state, z, bounds) in enumerate(shown, 1):
        at: dict[str, Any] = {"x": x, "y": y, "row": 1, "col": column}
        land = np.where(sea.wet, np.nan, 1.0)
        charts.picture(fig, land, scale=[[0, charts.GRID], [1, charts.GRID]], hover="land", **at)
        scale = charts.DIVERGING if k == 0 or column == 3 else charts.SEQUENTIAL
        charts.picture(
            fig, np.where(sea.wet, z, np.nan), scale=scale, limits=bounds, hover=f"%{{z:.2f}} {unit}", **at
        )
        if k and column < 3:
            _arrows(fig, sea, state, x, y, column)
    for trace, (left, width) in ((fig.data[1], (0.0, 0.64)), (fig.data[-1], (0.7, 0.3))):
        trace.update(showscale=True, colorbar=_bar(left, width, unit))
    tick = float(f"{0.7 * edge:.1g}")
    fig.data[-1].colorbar.update(tickvals=[-tick, 0, tick])
    fig.update_yaxes(autorange=True, showgrid=False, nticks=4)
    fig.update_xaxes(title_text="km", nticks=4, constrain="domain")
    fig.update_yaxes(title_text="km", col=1)
    return fig.update_layout(margin_b=84)


def _bar(left: float, width: float, unit: str) -> dict:
    """A flat colour bar under the panels."""
    return {
        "orientation": "h",
        "x": left,
        "xanchor": "left",
        "len": width,
        "y": -0.24,
        "yanchor": "top",
        "thickness": 8,
        "nticks": 5,
        "tickangle": 0,
        "outlinewidth": 0,
        "tickfont": {"size": charts.FONT_SIZE - 1, "color": charts.SOFT},
        "ticksuffix": f" {unit}",
    }


def _arrows(fig: go.Figure, sea: Sea, state: np.ndarray, x: np.ndarray, y: np.ndarray, column: int) -> None:
    """Arrows of the current in every third cell."""
    rows, columns = np.nonzero(sea.wet)
    keep = (rows % 3 == 1) & (columns % 3 == 1)
    rows, columns = rows[keep], columns[keep]
    u, v = state[1, rows, columns], state[2, rows, columns]
    fig.add_scatter(
        x=x[columns],
        y=y[rows],
        mode="markers",
        name="current",
        marker={
            "symbol": "arrow",
            "angle": np.degrees(np.arctan2(u, v)),
            "size": np.clip(30 * np.hypot(u, v), 4, 14),
            "color": charts.GROUND,  # salt water is dark on a light page and light on a dark one
            "line": {"width": 0},
        },
        hovertemplate="%{text} m/s<extra></extra>",
        text=[f"{s:.2f}" for s in np.hypot(u, v)],
        row=1,
        col=column,
    )


def draw_thumbnail(sea: Sea, truth: np.ndarray, forecast: np.ndarray) -> str:
    """Level of truth and forecast side by side, north up, land in grey."""
    reach = max(float(np.abs(state[0][sea.wet]).max()) for state in (truth, forecast))
    maps = []
    for state in (truth, forecast):
        image = thumbnails.coloured(state[0], charts.DIVERGING, -reach, reach)
        image[~sea.wet] = LAND
        maps.append(image[::-1])
    return thumbnails.pictures([maps], gap=28)
