"""Two agents that pull random arms: when does pooling begin to hurt, and when does a test part them?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from core.demos._bass_network import ridge_estimate
from core.lab import charts

PAIRS, HORIZON = 20, 150
"""Pairs of agents averaged over, and samples that each agent draws."""

Test = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
"""(V (2, m, d, d), estimates (2, m, d), S (m,)) -> who is told apart (m,)"""


@dataclass(frozen=True)
class TradeOff:
    """Mean squared error (150,) of agent 1 of 2 after n samples each; both counts are 151 for "never"."""

    alone: np.ndarray
    pooled: np.ndarray
    hurts_from: int
    told_apart: float


def squared_error(grams: np.ndarray, bias: np.ndarray, ridge: float, noise: float) -> np.ndarray:
    """E‖θ̂ − θ‖² (…,) of ridge regression given its arms: σ² tr(BVB) + ‖B bias‖² with B = (λI + V)⁻¹."""
    inverse = np.linalg.inv(grams + ridge * np.eye(grams.shape[-1]))
    variance = noise**2 * np.trace(inverse @ grams @ inverse, axis1=-2, axis2=-1)
    return variance + ((inverse @ bias[..., None])[..., 0] ** 2).sum(-1)


def trade_off(
    gap: float, test: Test, rng: np.random.Generator, *, dimension: int, ridge: float, noise: float
) -> TradeOff:
    """Exact errors of agent 1, alone and with the samples of an agent at distance `gap`, and the test's verdict."""
    d = dimension
    first, way = rng.normal(size=(2, PAIRS, d))
    thetas = np.stack([first, first + gap * way / np.linalg.norm(way, axis=1, keepdims=True)])
    x = rng.normal(size=(2, PAIRS, HORIZON, d))
    rewards = np.einsum("apnd,apd->apn", x, thetas) + noise * rng.normal(size=x.shape[:3])
    grams = np.cumsum(x[..., :, None] * x[..., None, :], axis=2)
    moments = np.cumsum(rewards[..., None] * x, axis=2)

    shrink = -ridge * np.broadcast_to(first[:, None, :], x.shape[1:])
    strange = np.einsum("pnde,pe->pnd", grams[1], thetas[1] - thetas[0])
    alone = squared_error(grams[0], shrink, ridge, noise).mean(0)
    pooled = squared_error(grams.sum(0), strange + shrink, ridge, noise).mean(0)
    helps = np.flatnonzero(pooled < alone)
    hurts_from = int(helps[-1]) + 2 if len(helps) else 1  # the sample after the last at which it helped

    norm = np.repeat(np.linalg.norm(thetas, axis=-1).max(0), HORIZON)
    estimates = ridge_estimate(grams, moments, ridge)
    apart = test(grams.reshape(2, -1, d, d), estimates.reshape(2, -1, d), norm).reshape(PAIRS, HORIZON)
    told = np.where(apart.any(1), apart.argmax(1) + 1, HORIZON + 1)
    return TradeOff(alone, pooled, hurts_from, float(np.median(told)))


def draw_trade_offs(trades: Mapping[float, TradeOff]) -> go.Figure:
    """One panel a gap: both errors, and two uprights for the counts."""
    fig = charts.blank(height=420)
    fig.set_subplots(1, len(trades), shared_yaxes=True, horizontal_spacing=0.05)
    n = np.arange(1, HORIZON + 1)
    for column, (gap, trade) in enumerate(trades.items(), 1):
        charts.line(fig, "alone", n, trade.alone, "baseline1", row=1, col=column)
        charts.line(fig, "pooled", n, trade.pooled, "method", row=1, col=column)
        title = [f"<b>gap {gap:g}</b>"]
        counts = ((trade.hurts_from, "oracle", "pooling hurts"), (trade.told_apart, "method", "told apart"))
        for count, role, what in counts:
            title.append(f'<span style="color:{charts.TEXT[role]}">{in_words(what, count)}</span>')
            if count <= HORIZON:
                upright = {"color": charts.MARK[role], "width": 2, "dash": "dot" if role == "oracle" else "solid"}
                fig.add_vline(x=count, line=upright, row=1, col=column)
        title.append("squared error (log scale)" if column == 1 else " ")
        charts.name_y(fig, "<br>".join(title), xref="x domain" if column == 1 else f"x{column} domain")
    first = next(iter(trades.values()))
    for name, errors, role, side, shift in (
        ("alone", first.alone, "baseline1", "left", 10),
        ("pooled", first.pooled, "method", "right", -8),
    ):
        place = {"x": np.log10(6), "y": np.log10(errors[5]), "xanchor": side, "xshift": shift, "row": 1, "col": 1}
        font = {"size": charts.FONT_SIZE, "color": charts.TEXT[role]}
        fig.add_annotation(text=name, showarrow=False, font=font, **place)
    small = {"size": charts.FONT_SIZE - 1, "color": charts.SOFT}
    ticks = [0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30]
    fig.update_xaxes(type="log", tickvals=[1, 10, 100], tickfont=small, showgrid=False)
    fig.update_xaxes(title={"text": "Samples of each agent (log scale)", "font": small}, row=1, col=2)
    fig.update_yaxes(
        type="log", tickvals=ticks, ticktext=[str(v) for v in ticks], tickfont=small, gridcolor=charts.GRID
    )
    fig.update_annotations(align="left")
    fig.update_layout(margin_t=92)
    return fig


def in_words(what: str, count: float) -> str:
    """'told apart from 15', or 'never told apart' beyond the horizon."""
    return f"never {what}" if count > HORIZON else f"{what} from {count:g}"
