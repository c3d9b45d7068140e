"""Pictures of RIP's prompts: strips beside their answers, and the thumbnail."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from core.demos._rip_policy import SKIP
from core.lab import charts, thumbnails

TEXT_AT, RIGHT, ROW = 33, 69.5, 10
"""Where the words begin and end beside a strip of 32 pixels, and how far rows are apart, in pixels."""


def examples(kinds: Sequence[np.ndarray], kept: np.ndarray, number: int = 6) -> np.ndarray:
    """Indices of prompts to show: as many of each kind there is (its indices), kept and dropped where possible."""
    present = [indices for indices in kinds if len(indices)]
    share = number // len(present)
    chosen: list[int] = []
    for indices in present:
        yes, no = indices[kept[indices]], indices[~kept[indices]]
        some = min(len(yes), max(share // 2, share - len(no)))
        chosen += [*yes[:some], *no[: share - some]]
    return np.array(chosen)


def spelled(answer: np.ndarray) -> str:
    """An answer for reading, the skip as an en dash."""
    return " ".join("–" if token == SKIP else str(token) for token in answer)


def draw_prompts(strips: np.ndarray, texts: Sequence[tuple[str, ...]], kept: np.ndarray) -> go.Figure:
    """Strips (rows, 8, 32) with three lines of text beside each, the first blue where the prompt is kept."""
    fig = charts.blank(height=460)
    for row, (strip, lines) in enumerate(zip(strips, texts, strict=True)):
        place: Any = {"x": np.arange(32), "y": ROW * row + np.arange(8), "name": f"prompt {row + 1}"}
        charts.picture(fig, strip, scale=charts.GREYS, **place)
        for i, text in enumerate(lines):
            colour = charts.SOFT if i else charts.TEXT["method"] if kept[row] else charts.INK
            at = {"x": TEXT_AT, "y": ROW * row + 0.9 + 2.6 * i, "xanchor": "left"}
            fig.add_annotation(text=text, showarrow=False, font={"size": 13, "color": colour}, **at)
    charts.name_y(fig, "prompt")
    charts.name_y(fig, "what became of it", x=TEXT_AT / RIGHT)
    fig.update_yaxes(visible=False, range=[ROW * len(strips) - 2, -1], autorange=False)
    return fig.update_xaxes(visible=False, range=[-0.5, RIGHT])


def draw_corner(points: np.ndarray, roles: Sequence[charts.Role], edge: tuple[float, float]) -> str:
    """Thumbnail: points (n, 2) of reward (at most 0) and gap; shaded from the reward edge[0] on, up to the gap
    edge[1]."""
    wide, high, pad = thumbnails.WIDTH, thumbnails.HEIGHT, thumbnails.PAD
    low, top = float(points[:, 0].min()), float(points[:, 1].max()) or 1.0

    def place(reward: np.ndarray, gap: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x = pad + (reward - low) / -low * (wide - 2 * pad)
        return np.maximum(x, 0), np.maximum(high - pad - gap / top * (high - 2 * pad), 0)

    left, upper = place(*np.array(edge))
    body = (
        f'<rect class="f-method" opacity=".2" x="{left:.1f}" y="{upper:.1f}" width="{wide - left:.1f}" '
        f'height="{high - upper:.1f}"/>'
    )
    for role, x, y in zip(roles, *place(*points.T), strict=True):
        body += f'<circle class="f-{role}" cx="{x:.1f}" cy="{y:.1f}" r="2.4" opacity=".75"/>'
    return thumbnails.svg(body)
