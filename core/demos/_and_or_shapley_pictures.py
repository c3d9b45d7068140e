"""The drawing of the coalition figures, from plain arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from core.demos._and_or_shapley_sets import members
from core.demos._and_or_shapley_split import Attribution, Interactions
from core.lab import charts, thumbnails

FLOOR, TINY = 1e-4, 1e-9
ROWS = 12
KINDS: dict[str, charts.Role] = {"AND": "method", "OR": "baseline1"}


def draw_ranking(
    q: np.ndarray,
    meaningful: np.ndarray,
    auc: Mapping[str, tuple[float, float, float]],
    roles: Mapping[str, charts.Role],
) -> go.Figure:
    """Bars of Q (G,), largest first, above a row of AUC (value, low, high) for each score."""
    fig = charts.panels(
        ["faithfulness Q", "AUC: meaningful groups ranked first"], rows=2, shared_y=False, height=460
    )
    order = np.argsort(-q, kind="stable")
    colours = np.where(
        meaningful[order], charts.MARK["method"], charts.MARK["oracle"]
    ).tolist()  # the theme swaps text
    rank = np.arange(1, len(q) + 1)
    opacity = np.where(meaningful[order], 1, 0.45)
    marker = {"color": colours, "opacity": opacity, "line": {"width": 0}}
    hover = "rank %{x}: Q %{y:.2f}<extra></extra>"
    fig.add_bar(x=rank, y=np.maximum(q[order], 0.008), marker=marker, hovertemplate=hover, name="Q", row=1, col=1)
    charts.dots(fig, auc, roles, row=2, col=1)
    fig.update_layout(bargap=0.2, yaxis={"domain": [0.62, 1]}, yaxis2={"domain": [0, 0.47]})
    fig.update_xaxes(showticklabels=False, title_text="candidate groups, most faithful first", row=1, col=1)
    fig.update_yaxes(autorange=False, range=[0, 1.02], type="linear", dtick=0.5, row=1, col=1)
    fig.update_yaxes(tickfont={"size": charts.FONT_SIZE - 1}, row=2, col=1)
    low = min(0.4, *(v[1] for v in auc.values()))
    fig.update_xaxes(showgrid=False, row=1, col=1)
    fig.update_xaxes(range=[max(low, 0) - 0.02, 1.03], nticks=6, row=2, col=1)
    fig.add_vline(x=0.5, line={"color": charts.MARK["oracle"], "width": 1.6, "dash": "dot"}, row=2, col=1)
    fig.layout.annotations[1].y = 0.47  # the title of the second panel follows its new domain
    fig.layout.annotations[1].yref = "paper"
    return fig


def named(subset: int, n: int) -> str:
    """The members of a subset, counted from 1."""
    return ", ".join(str(i + 1) for i in np.flatnonzero(members(n)[subset]))


def draw_conflicts(parts: Attribution, names: Sequence[str], q: np.ndarray) -> go.Figure:
    """A slider over coalitions (G,): φ(S), what partial interactions add, Σφ(i); starts at the largest conflict."""
    order = np.argsort(-q, kind="stable")
    whole, partial, total = parts.whole[order], parts.partial[order], parts.members[order]
    rows = ["coalition φ(S)", "partial interactions", "members Σφ(i)"]
    paint = [charts.MARK["method"], charts.MARK["baseline1"], charts.MARK["oracle"]]

    def bars(i: int) -> dict:
        length = [whole[i], partial[i], total[i]]
        text = [_signed(v) for v in length]
        if q[order[i]] == 0:
            text[0] = "no interaction holds all of S"
        return {"type": "bar", "x": length, "base": [0, whole[i], 0], "y": rows, "text": text}

    fig = charts.blank("contribution to the output", height=360)
    first = int(np.argmax(np.abs(whole - total)))
    fig.add_trace(
        go.Bar(
            **bars(first),
            orientation="h",
            marker={"color": paint},
            textposition="outside",
            textfont={"size": charts.FONT_SIZE, "color": charts.INK},
            cliponaxis=False,
            hovertemplate="%{y}: %{text}<extra></extra>",
            name="coalition",
        )
    )
    ends = np.r_[0, whole, total]
    pad = 0.16 * (np.ptp(ends) or 1)
    fig.update_xaxes(range=[ends.min() - pad, ends.max() + pad], showgrid=True, gridcolor=charts.GRID)
    fig.update_yaxes(autorange="reversed", showgrid=False, tickfont={"size": charts.FONT_SIZE, "color": charts.INK})
    fig.add_vline(x=0, line={"color": charts.SOFT, "width": 1})
    fig.frames = [go.Frame(name=str(i), data=[bars(i)], traces=[0]) for i in range(len(names))]
    at_once = {"mode": "immediate", "frame": {"duration": 0, "redraw": True}, "transition": {"duration": 0}}
    steps = [
        {"label": f"{names[k]} (Q = {_plain(q[k])})", "method": "animate", "args": [[str(i)], at_once]}
        for i, k in enumerate(order)
    ]
    fig.update_layout(
        sliders=[
            {
                "steps": steps,
                "active": first,
                "currentvalue": {"prefix": "S: ", "font": {"size": charts.FONT_SIZE, "color": charts.INK}},
                "font": {"size": 1, "color": "rgba(0,0,0,0)"},
                "ticklen": 0,
                "minorticklen": 0,
                "bgcolor": charts.GRID,
                "pad": {"t": 52},
            }
        ]
    )
    return fig


def draw_board(
    found: Interactions,
    blocks: Sequence[int],
    planted: Mapping[tuple[str, int], float],
    image: np.ndarray | None,
) -> go.Figure:
    """The strongest interactions: members as joined dots, weight as a bar; beside a digit if there is one."""
    both, some = ([(kind, t, w) for t, w in enumerate(x)] for kind, x in (("AND", found.both), ("OR", found.some)))
    atoms = sorted((a for a in both + some if abs(a[2]) > TINY), key=lambda a: -abs(a[2]))[:ROWS]
    fig = charts.panels(["variables" if image is None else "patches", "interaction I"], height=440)
    table = members(sum(blocks).bit_length())
    place = np.arange(1, table.shape[1] + 1, dtype=float)
    for k, block in enumerate(blocks):
        place[table[block]] += 0.7 * k
    row = np.arange(len(atoms))
    grid = {"size": 9, "color": charts.GRID}
    everywhere = np.tile(place, len(row)), np.repeat(row, len(place))
    fig.add_scatter(x=everywhere[0], y=everywhere[1], mode="markers", marker=grid, hoverinfo="skip", row=1, col=1)
    for r, (kind, subset, _) in enumerate(atoms):
        at, style = place[table[subset]], {"color": charts.MARK[KINDS[kind]], "width": 3}
        fig.add_scatter(
            x=at, y=np.full(len(at), r), mode="lines+markers", line=style, marker={"size": 11},
            name=kind, hoverinfo="skip", row=1, col=1,
        )  # fmt: skip
    colours = [charts.MARK[KINDS[kind]] for kind, *_ in atoms]
    weights = [w for *_, w in atoms]
    fig.add_bar(
        x=weights, y=row, orientation="h", marker={"color": colours}, name="I", row=1, col=2,
        hovertemplate="I = %{x:.2f}<extra></extra>",
    )  # fmt: skip
    true = [planted.get((kind, s), np.nan) for kind, s, _ in atoms]
    diamond = {"symbol": "diamond", "size": 9, "color": charts.GROUND, "line": {"width": 2, "color": charts.INK}}
    hover = "planted %{x:.2f}<extra></extra>"
    fig.add_scatter(
        x=true, y=row, mode="markers", marker=diamond, hovertemplate=hover, name="planted", row=1, col=2
    )
    letter = "x<sub>{}</sub>" if image is None else "{}"
    fig.update_xaxes(tickvals=place, ticktext=[letter.format(i + 1) for i in range(len(place))], row=1, col=1)
    fig.update_yaxes(range=[ROWS - 0.4, -0.6], showgrid=False)
    fig.update_yaxes(tickvals=row, ticktext=[kind for kind, *_ in atoms], row=1, col=1)
    fig.update_xaxes(domain=[0, 0.46], row=1, col=1)
    fig.update_xaxes(
        domain=[0.52, 1], nticks=5, zeroline=True, zerolinecolor=charts.SOFT, showgrid=True, gridcolor=charts.GRID,
        row=1, col=2,
    )  # fmt: skip
    if image is not None:
        _draw_patches(fig, image)
    return fig


def _draw_patches(fig: go.Figure, image: np.ndarray) -> None:
    """The digit with its numbered patches, to the right of the two panels."""
    fig.update_xaxes(domain=[0, 0.38], row=1, col=1)
    fig.update_xaxes(domain=[0.42, 0.7], row=1, col=2)
    fig.add_heatmap(
        z=image.reshape(8, 8),
        colorscale=charts.SEQUENTIAL,
        showscale=False,
        hoverinfo="skip",
        xaxis="x3",
        yaxis="y3",
    )
    hidden = {"visible": False, "showgrid": False, "zeroline": False}
    fig.update_layout(
        xaxis3={"domain": [0.74, 1], "anchor": "y3", **hidden},
        yaxis3={"domain": [0.3, 0.8], "anchor": "x3", "autorange": "reversed", **hidden},
    )
    rim = {"color": charts.SOFT, "width": 1}
    for k in range(8):
        top, left = 2 * (k // 2) - 0.5, 4 * (k % 2) - 0.5
        fig.add_shape(type="rect", x0=left, x1=left + 4, y0=top, y1=top + 2, line=rim, xref="x3", yref="y3")
        fig.add_annotation(
            x=left, y=top, text=f"<b>{k + 1}</b>", showarrow=False, xanchor="left", yanchor="top", xref="x3",
            yref="y3", font={"size": charts.FONT_SIZE - 2, "color": charts.INK}, bgcolor=charts.GROUND, borderpad=0,
        )  # fmt: skip


def draw_strengths(sizes: Mapping[str, np.ndarray], scale: float, salient: float) -> go.Figure:
    """Sorted |I| relative to max |v| for each kind of interactions, with the bound of the salient ones."""
    fig = charts.blank("rank (log scale)", "|I| / max |v| (log scale)", log_x=True, log_y=True)
    for k, (name, size) in enumerate(sizes.items()):
        relative = np.maximum(size[:255] / (scale or 1), FLOOR)
        charts.line(fig, name, np.arange(1, 256), relative, "method" if k == 0 else "baseline1")
    top = max(2.0, *(1.5 * s[0] / (scale or 1) for s in sizes.values()))
    fig.update_yaxes(range=[np.log10(FLOOR) - 0.1, np.log10(top)])
    charts.end_labels(fig, right=100)
    charts.level(fig, salient, "salient above this line")
    fig.layout.annotations[-1].yanchor = "top"  # the lines start above it
    return fig


def draw_bars(q: np.ndarray, meaningful: np.ndarray) -> str:
    """Bars of Q (G,), largest first, the meaningful groups in the accent colour, as SVG."""
    order = np.argsort(-q, kind="stable")
    step = (thumbnails.WIDTH - 2 * thumbnails.PAD) / len(order)
    body = ""
    for k, i in enumerate(order):
        high = max(1.5, (thumbnails.HEIGHT - 2 * thumbnails.PAD) * q[i])
        body += (
            f'<rect class="f-{"method" if meaningful[i] else "oracle"}" x="{thumbnails.PAD + k * step:.1f}" '
            f'y="{thumbnails.HEIGHT - thumbnails.PAD - high:.1f}" width="{0.75 * step:.2f}" height="{high:.1f}"/>'
        )
    return thumbnails.svg(body)


def _signed(value: float) -> str:
    text = f"{abs(value):.2f}"
    return text if float(text) == 0 else ("−" if value < 0 else "+") + text


def _plain(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.2f}"
