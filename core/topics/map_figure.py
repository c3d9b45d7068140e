"""The topic map as a Plotly figure in pixel coordinates, for the map page, the overview and slides."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from core.lab.thumbnails import png_uri
from core.topics import map_picture
from core.topics.map_picture import Canvas
from core.topics.topic_map import TopicMap

INK = ("#1D2126", "#E9E7E2")
GROUND = ("#FFFFFF", "#14171B")
WEBGL_FROM = 2000


def figure(
    topic_map: TopicMap,
    names: Sequence[str],
    runs: Sequence[int],
    *,
    canvas: Canvas | None = None,
    dark: bool = False,
    chosen: int | None = None,
    linked: Sequence[int] = (),
    lit: Sequence[int] | None = None,
    paper_names: bool = True,
    colours: Sequence[str] | None = None,
    topic_size: int = 18,
    hover: Sequence[str] = (),
) -> go.Figure:
    """The map: glow, neighbour lines, rings for abstracts, filled points for the ones that run, names.

    `names` (n,) are short names, `runs` indices of runnable papers; `lit` dims all others; `colours` (n,)
    override the topic's hue; `hover` (n,) are the texts on hover, already safe to show.
    """
    canvas = canvas or Canvas()
    picture = map_picture.draw(
        topic_map, canvas, names if paper_names else None, first=runs, chosen=chosen, linked=linked
    )
    hues = colours or map_picture.colours_of(topic_map, picture.hue_of_topic, dark)
    ink, ground = INK[dark], GROUND[dark]
    fig = go.Figure()
    fig.add_layout_image(
        source=png_uri(map_picture.glow(picture, topic_map.topic_of, dark)),
        xref="x",
        yref="y",
        x=0,
        y=0,
        sizex=canvas.width,
        sizey=canvas.height,
        sizing="stretch",
        layer="below",
    )
    _lines(fig, picture.points, chosen, linked, ink)
    _points(fig, topic_map, picture.points, names, hues, set(runs), lit, ground, hover)
    if chosen is not None:
        x, y = picture.points[chosen]
        fig.add_scatter(
            x=[x],
            y=[y],
            mode="markers",
            hoverinfo="skip",
            marker={"size": 22, "symbol": "circle-open", "color": ink, "line": {"width": 2}},
        )
    for name in picture.paper_names:
        faint = lit is not None and name.index not in set(lit)
        colour = ink if name.index in set(runs) else ("#5C6167", "#A9AEB4")[dark]
        _text(fig, name.x, name.y, name.text, 13, colour, ground, opacity=0.25 if faint else 1.0)
    for name in picture.topic_names:
        colour = map_picture.hue_colour(picture.hue_of_topic[name.index], dark)
        _text(
            fig,
            name.x,
            name.y,
            "<br>".join(safe(line) for line in name.lines),
            topic_size,
            colour,
            ground,
            serif=True,
            opacity=0.35 if lit is not None else 1.0,
        )
    fig.update_xaxes(range=[0, canvas.width], visible=False)
    fig.update_yaxes(range=[canvas.height, 0], visible=False)
    fig.update_layout(
        height=canvas.height,
        margin={"l": 0, "r": 0, "t": 0, "b": 0},
        showlegend=False,
        dragmode="pan",
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        clickmode="event+select",
        hoverlabel={"font": {"family": "Source Sans, sans-serif", "size": 13}},
    )
    return fig


def _lines(fig: go.Figure, points: np.ndarray, chosen: int | None, linked: Sequence[int], ink: str) -> None:
    if chosen is None:
        return
    for index in linked:
        fig.add_scatter(
            x=[points[chosen, 0], points[index, 0]],
            y=[points[chosen, 1], points[index, 1]],
            mode="lines",
            line={"color": ink, "width": 1.3},
            hoverinfo="skip",
        )


def _points(
    fig: go.Figure,
    topic_map: TopicMap,
    points: np.ndarray,
    names: Sequence[str],
    hues: Sequence[str],
    runs: set[int],
    lit: Sequence[int] | None,
    ground: str,
    hover: Sequence[str],
) -> None:
    """One trace of all papers, so that a click or a lasso gives their ids in `customdata`."""
    n = len(topic_map)
    on = set(range(n)) if lit is None else set(lit)
    scatter = fig.add_scattergl if n > WEBGL_FROM else fig.add_scatter
    small = n > 300
    scatter(
        x=points[:, 0],
        y=points[:, 1],
        mode="markers",
        name="papers",
        customdata=[a.id for a in topic_map.abstracts],
        meta=list(names) if any(names) else None,
        text=list(hover) or [safe(a.title) for a in topic_map.abstracts],
        hovertemplate="%{text}<extra></extra>",
        marker={
            "size": [5 if small else 13 if i in runs else 10 for i in range(n)],
            "color": [hues[i] if i in runs or small else ground for i in range(n)],
            "opacity": [1.0 if i in on else 0.18 for i in range(n)],
            "line": {
                "width": [0 if small else 1.2 if i in runs else 2 for i in range(n)],
                "color": [ground if i in runs else hues[i] for i in range(n)],
            },
        },
        selected={"marker": {"opacity": 1}},
        unselected={"marker": {"opacity": 1 if lit is None else 0.3}},
    )


def _text(fig, x, y, text, size, colour, ground, *, serif=False, opacity=1.0) -> None:
    fig.add_annotation(
        x=x,
        y=y,
        text=f"<b>{text}</b>" if serif else safe(text),
        showarrow=False,
        opacity=opacity,
        font={
            "size": size,
            "color": colour,
            "family": "Source Serif" if serif else "Source Sans",
            "shadow": f"0 0 3px {ground}, 0 0 3px {ground}, 0 0 5px {ground}",
        },
    )


def safe(text: str) -> str:
    """Text for Plotly, which reads a small HTML."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
