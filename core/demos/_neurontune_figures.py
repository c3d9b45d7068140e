"""Drawings of the NeuronTune demo: neurons in the plane of what they follow, and rows of methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from core.lab import charts

Interval = tuple[float, float, float]


def draw_neurons(strength: np.ndarray, score: np.ndarray, flagged: np.ndarray, text: str) -> go.Figure:
    """Neurons (n, 2) coloured by their score (n,), silenced ones ringed, with what became of them in words."""
    fig = charts.blank(
        "how strongly a neuron follows the class (difference of means / sd)",
        "how strongly it follows the left digit",
    )
    top = 1.06 * max(2.0, float(strength.max(initial=0)))
    equal = {"color": charts.MARK["oracle"], "dash": "dot", "width": 1.6}
    fig.add_scatter(x=[0, top], y=[0, top], mode="lines", line=equal, hoverinfo="skip", name="equally")
    colour = np.nan_to_num(score)
    limit = float(np.abs(colour).max(initial=0)) or 1.0
    rings = {"kept": (~flagged, charts.SOFT, 0.7), "silenced": (flagged, charts.INK, 2.6)}
    for name, (part, ring, width) in rings.items():
        fig.add_scatter(
            x=strength[part, 0],
            y=strength[part, 1],
            mode="markers",
            name=name,
            customdata=score[part],
            marker={
                "size": 12,
                "color": colour[part],
                "colorscale": charts.DIVERGING,
                "cmin": -limit,
                "cmax": limit,
                "line": {"color": ring, "width": width},
            },
            hovertemplate=f"{name}, score %{{customdata:.3~f}}<extra></extra>",
        )
    fig.add_annotation(x=0.56 * top, y=0.97 * top, yanchor="top", showarrow=False, text=text, font_color=charts.INK)
    fig.update_yaxes(range=[-0.04 * top, top])
    return fig.update_xaxes(range=[-0.04 * top, top], showgrid=True, gridcolor=charts.GRID)


def draw_methods(
    worst: Mapping[str, Interval],
    groups: Mapping[str, Sequence[float]],
    flip: Mapping[str, Interval],
    of: Mapping[str, charts.Role],
) -> go.Figure:
    """A row a method: worst-group accuracy over the accuracies of the groups, and the flip rate beside it."""
    fig = charts.panels(["worst-group accuracy", "flip rate"])
    for name, values in groups.items():
        ring = {"size": 8, "symbol": "circle-open", "color": charts.SOFT, "line": {"width": 1.4}}
        fig.add_scatter(
            x=values, y=list(of), mode="markers", marker=ring, name=f"left and right digit {name}", row=1, col=1
        )
    for column, found in enumerate((worst, flip), 1):
        charts.dots(fig, found, of, row=1, col=column)
        for name, (value, low, high) in found.items():
            text = f"<b>{value:.2f}</b>" if of[name] == "method" else f"{value:.2f}"
            edge, anchor, shift = (low, "right", -9) if column == 1 else (high, "left", 9)
            fig.add_annotation(
                x=edge,
                y=name,
                text=text,
                xanchor=anchor,
                xshift=shift,
                showarrow=False,
                font={"size": 13, "color": charts.TEXT[of[name]]},
                row=1,
                col=column,
            )
    ticks = {"tickvals": [0, 0.5, 1], "ticktext": ["0", "0.5", "1"]}
    lowest = min(low for _, low, _ in worst.values())
    fig.update_xaxes(range=[min(-0.03, lowest - 0.28), 1.04], **ticks, row=1, col=1)
    return fig.update_xaxes(
        range=[-0.04, max(1.0, 0.22 + max(high for *_, high in flip.values()))], **ticks, row=1, col=2
    )
