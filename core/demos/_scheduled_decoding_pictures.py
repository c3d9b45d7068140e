"""Pictures of half-finished digits, and names beside points that do not cover each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from core.demos._scheduled_decoding_images import Codebook, pixels_of
from core.demos._scheduled_decoding_network import MASK
from core.lab import charts, thumbnails
from core.lab.palette import Role

PLOT_WIDTH, PLOT_HEIGHT = 310, 300
CHARACTER, LINE = 7.4, 18
TICKS = (0.1, 0.2, 0.3, 0.5, 1, 2, 3, 5)
MASKED = str(charts.SEQUENTIAL[1][1])


def halves(tokens: np.ndarray, book: Codebook) -> tuple[np.ndarray, np.ndarray]:
    """Pixels (n, 8, 8) of tokens (n, 16), NaN where masked, and the mask (n, 8, 8)."""
    masked = tokens == MASK
    pixels = book.images(np.where(masked, 0, tokens))
    hidden = pixels_of(np.repeat(masked[..., None], 4, axis=-1)).astype(bool)
    return np.where(hidden, np.nan, pixels).reshape(-1, 8, 8), hidden.reshape(-1, 8, 8)


def strip(rows: Mapping[str, np.ndarray], book: Codebook) -> go.Figure:
    """One row a method: tokens (stages, images, 16) as pictures side by side, masked patches blue."""
    stages, count = next(iter(rows.values())).shape[:2]
    wide = count * 9 + 4
    canvas = np.full((len(rows) * 10, stages * wide), np.nan)
    mask = canvas.copy()
    for i, tokens in enumerate(rows.values()):
        pixels, hidden = halves(tokens.reshape(-1, 16), book)
        for j, (picture, where) in enumerate(zip(pixels, hidden, strict=True)):
            left = j // count * wide + j % count * 9
            canvas[i * 10 : i * 10 + 8, left : left + 8] = picture
            mask[i * 10 : i * 10 + 8, left : left + 8] = np.where(where, 0.5, np.nan)
    fig = charts.blank(height=460)
    charts.picture(fig, canvas, scale=charts.GREYS, name="pixels")
    charts.picture(fig, mask, name="masked")
    names = [f"<b>{name}</b>" if i == 0 else name for i, name in enumerate(rows)]
    fig.update_yaxes(
        tickvals=[i * 10 + 3.5 for i in range(len(rows))], ticktext=names, tickfont={"color": charts.INK}
    )
    fig.update_traces(hoverinfo="skip", hovertemplate=None)
    at = [j * wide + count * 4.5 - 1 for j in range(stages)]
    fig.update_xaxes(tickvals=at, ticktext=["¼", "½", "¾", "all"], side="top", title_text="share of the steps done")
    return fig


def bars(
    rows: Sequence[Sequence[tuple[str, Sequence[float]]]], sizes: Sequence[Sequence[str]], roles: Mapping[str, Role]
) -> go.Figure:
    """Two rows of panels (title, one bar a step), coloured by the size in use; sizes are named in the first row."""
    fig = charts.panels([title for row in rows for title, _ in row], rows=len(rows), height=460)
    for i, row in enumerate(rows, 1):
        for j, ((_, values), used) in enumerate(zip(row, sizes, strict=True), 1):
            step = np.arange(1, len(used) + 1)
            colours = [charts.MARK[roles[name]] for name in used]
            hover = "step %{x}: %{y:.0f}<extra></extra>"
            fig.add_bar(
                x=step, y=values, marker={"color": colours}, name=used[0], hovertemplate=hover, row=i, col=j
            )
            for name in dict.fromkeys(used) if i == 1 else ():
                at = step[np.array(used) == name].mean()
                font = {"size": charts.FONT_SIZE, "color": charts.TEXT[roles[name]]}
                fig.add_annotation(
                    x=at, y=max(values), yshift=10, text=name, showarrow=False, font=font, row=i, col=j
                )
        top = max(max(values) for _, values in row)
        fig.update_yaxes(range=[0, 1.2 * top], nticks=5, row=i)
    every = np.arange(1, len(sizes[0]) + 1)
    fig.update_xaxes(tickvals=every if len(every) < 9 else every[1::2], range=[0.4, len(every) + 0.6])
    fig.update_xaxes(title_text="", row=1)
    return fig.update_xaxes(title_text="step", row=len(rows))


def thumbnail_of(tokens: np.ndarray, colours: Sequence[str], book: Codebook) -> str:
    """Frames (frames, 16) of one digit, each with a border of its colour."""
    pixels, hidden = halves(tokens, book)
    frames = []
    for picture, where, colour in zip(pixels, hidden, colours, strict=True):
        frame = np.empty((40, 40, 3))
        frame[:] = rgb(colour)
        inner = np.where(where[..., None], rgb(MASKED), np.nan_to_num(picture)[..., None])
        frame[4:36, 4:36] = inner.repeat(4, axis=0).repeat(4, axis=1)
        frames.append(frame)
    return thumbnails.pictures([frames], gap=8)


def rgb(colour: str) -> np.ndarray:
    """A hex colour as three numbers 0…1."""
    return np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])


Points = Mapping[str, tuple[float, float, float, float]]
"""name -> (x, y, low, high)"""


def quality(points: Points, roles: Mapping[str, Role], x: str, y: str) -> go.Figure:
    """Points with intervals on a log x axis, named in place; a second point of one colour is a square."""
    fig = charts.blank(x, y, log_x=True, height=400)
    seen: set[str] = set()
    for name in sorted(points, key=lambda n: roles[n] == "method"):  # the method on top
        at, value, low, high = points[name]
        colour = charts.MARK[roles[name]]
        bar = {"array": [high - value], "arrayminus": [value - low], "color": colour, "width": 0, "thickness": 3}
        symbol = "square" if colour in seen else "circle"
        seen.add(colour)
        fig.add_scatter(
            x=[at],
            y=[value],
            name=name,
            mode="markers",
            error_y={"type": "data", "symmetric": False, **bar},
            marker={"color": colour, "size": 14 if roles[name] == "method" else 10, "symbol": symbol},
            hovertemplate=f"{name}: %{{y:.3f}} at %{{x:.2f}}<extra></extra>",
        )
    label_points(fig, points, roles)
    return fig


def label_points(fig: go.Figure, points: Points, roles: Mapping[str, Role]) -> None:
    """Set the ranges and name the points, each where it is free even on a narrow screen; x is logarithmic."""
    x = {name: float(np.log10(p[0])) for name, p in points.items()}
    left, right = min(x.values()) - 0.12, max(x.values()) + 0.12
    top = 1.15 * max(max(p[1:]) for p in points.values())
    fig.update_xaxes(range=[left, right], tickvals=TICKS, ticktext=[f"{t:g}" for t in TICKS], dtick=None)
    fig.update_yaxes(range=[0, top])
    across, up = PLOT_WIDTH / (right - left), PLOT_HEIGHT / top
    taken = []
    for name, (_, y, low, high) in points.items():
        place = (x[name] - left) * across
        taken.append((place - 7, place + 7, min(low * up, y * up - 7), max(high * up, y * up + 7)))
    for name, (_, y, low, high) in points.items():
        width, place = len(name) * CHARACTER, (x[name] - left) * across
        beside = [(place + 12, y * up + d) for d in (0, 9, -9)] + [
            (place - 12 - width, y * up + d) for d in (0, 9, -9)
        ]
        over = [
            (place - width * share, level)
            for level in (high * up + 14, low * up - 14, high * up + 32, low * up - 32)
            for share in (0.5, 0.1, 0.9)
        ]
        boxes = [(a, a + width, b - LINE / 2, b + LINE / 2) for a, b in beside + over]
        best = min(boxes, key=lambda box: _covered(box, taken))
        taken.append(best)
        fig.add_annotation(
            x=x[name],
            xshift=best[0] - (x[name] - left) * across,
            y=(best[2] + best[3]) / 2 / up,
            text=f"<b>{name}</b>" if roles[name] == "method" else name,
            xanchor="left",
            showarrow=False,
            font={"size": charts.FONT_SIZE, "color": charts.TEXT[roles[name]]},
        )


def _covered(box: tuple[float, ...], taken: Sequence[tuple[float, ...]]) -> float:
    """The area of other boxes, or of the outside, that a box (left, right, bottom, top) covers."""
    area = 0.0
    for other in taken:
        width = min(box[1], other[1]) - max(box[0], other[0])
        height = min(box[3], other[3]) - max(box[2], other[2])
        area += max(width, 0) * max(height, 0)
    outside = max(-box[0], 0) + max(box[1] - PLOT_WIDTH, 0) + max(-box[2], 0) + max(box[3] - PLOT_HEIGHT, 0)
    return area + LINE * outside
