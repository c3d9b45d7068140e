r"""Which cells of a time series made the classifier decide as it did? Let $x\in\mathbb R^{T\times D}$ be a series of
$T$ steps and $D$ channels, $F(x)=p_c(x)$ the probability of the predicted class $c$, and $x'=0$ a baseline.
*Integrated gradients* (IG) walk from $x'$ to $x$ along $\alpha_k=k/n$, $k=0,\dots,n-1$ (`n_alpha`), average the
gradient of $F$ and multiply by $x-x'$. Half-faded series on this straight way look like nothing the model knows.

**TIMING** keeps pieces of the real series on the way. At every step, and for every series anew, it draws
`nseg` segments: one channel, a length between `lmin` and `lmax`, a start. The mask $M^{(k)}$ (`free`) is 0 inside
the segments and 1 elsewhere:

$$z^{(k)}=M^{(k)}\odot\big(x'+\alpha_k(x-x')\big)+(1-M^{(k)})\odot x,\qquad
A_{t,d}=(x-x')_{t,d}\,\frac{\sum_k M^{(k)}_{t,d}\,\partial_{t,d}F(z^{(k)})}{\sum_k M^{(k)}_{t,d}} .$$

A cell counts only in the steps in which it is free. *RandIG* retains as many cells, but each by itself: what
is left between the two is the work of the segments.

**How good is an order of cells?** Remove them (set to 0) one after the other by falling $|A|$; $x^{(j)}$ lacks the
first $j$. With $C$ classes,

$$\mathrm{CPD}=\sum_{j=1}^{K}\tfrac1C\lVert p(x^{(j)})-p(x^{(j-1)})\rVert_1 ;$$

CPP is the same sum over half of all cells, smallest $|A|$ first. Metrics that remove $K$ cells at once see only
$\tfrac1C\lVert p(x^{(K)})-p(x)\rVert_1$, in which ups and downs cancel.

Data and network are ours. So is the reading of "out of distribution": the energy distance
$2E|a-b|-E|a-a'|-E|b-b'|$ between windows of five steps of path points and of training series.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Self

import numpy as np
import plotly.graph_objects as go
from pydantic import model_validator

from core.demos._timing_model import D, Explained, T, switch_data, train
from core.demos._timing_rivals import dynamask, gradient_shap, occlusion
from core.demos._timing_scores import at_once, path_distances, remove, stepwise
from core.lab import charts, thumbnails
from core.lab import demo as lab
from core.lab.demo import Claim, Demo, Measure, Measures, Paper, across_seeds, choice, control
from core.lab.nets import accuracy
from core.lab.verdicts import Rule, Samples, Verdict, above, all_of, beyond, difference, join

TRAIN, TEST = 300, 32
TIMING, IG, RANDOM_IG, GRADIENT, SHAP = "TIMING", "IG", "RandIG", "grad × input", "GradientSHAP"
OCCLUSION, DYNAMASK, CHANCE, SIGNED = "occlusion", "Dynamask", "random order", "IG, signed order"
ROLES = charts.roles(TIMING, (IG, RANDOM_IG, DYNAMASK, GRADIENT, SHAP, OCCLUSION), CHANCE)
BASELINES = (IG, GRADIENT, SHAP, OCCLUSION, DYNAMASK)
CPD_MARGIN, CPP_MARGIN, ENERGY_MARGIN = 0.02, 0.005, 0.05
CHANNELS = ("state", "A", "B", "distractor")


class Settings(lab.Settings):
    nseg: int = control(3, "Segments per path step", 0, 12, 1, help="0: TIMING is plain IG.")
    lmin: int = control(16, "Shortest segment", 1, T, 1, unit="time steps")
    lmax: int = control(32, "Longest segment", 1, T, 1, unit="time steps")
    n_alpha: int = control(50, "Path steps n", 5, 100, 5, help="The same for every path method.")
    frac: int = control(10, "Cells removed for CPD", 5, 30, 1, unit="%")
    gate: float = control(1.0, "Switch strength", 0, 1, 0.1, help="0: the state channel does not matter.")
    model: Literal["conv", "linear"] = choice("conv", "Classifier", labels={"conv": "convolutional net"})
    target: Literal["probability", "logit"] = choice("probability", "Output explained")

    @model_validator(mode="after")
    def _lengths(self) -> Self:
        if self.lmin > self.lmax:
            raise ValueError(f"lmin: the shortest segment ({self.lmin}) cannot be above lmax ({self.lmax})")
        return self

    @property
    def removed(self) -> int:
        """How many cells are removed for CPD."""
        return round(self.frac / 100 * T * D)


def segment_masks(rng: np.random.Generator, n: int, series: int, nseg: int, lmin: int, lmax: int) -> np.ndarray:
    """Masks (n, series, T, D), True where free: `nseg` segments are retained at every step of every series."""
    if nseg < 0:
        raise ValueError(f"nseg cannot be negative, not {nseg}")
    if not 1 <= lmin <= lmax <= T:
        raise ValueError(f"lmin and lmax must be 1 <= lmin <= lmax <= {T}, not {lmin} and {lmax}")
    free = np.ones((n, series, T, D), dtype=bool)
    for _ in range(nseg):
        channel = rng.integers(0, D, (n, series, 1, 1))
        length = rng.integers(lmin, lmax + 1, (n, series, 1, 1))
        start = rng.integers(0, T - length + 1)
        time = np.arange(T)[:, None]
        free &= ~((channel == np.arange(D)) & (time >= start) & (time < start + length))
    return free


def path(x: np.ndarray, free: np.ndarray, base: np.ndarray | None = None) -> np.ndarray:
    """Path points (n, series, T, D) from the baseline (default 0) towards x (series, T, D); the rest stays x."""
    base = np.zeros_like(x) if base is None else base
    if base.shape != x.shape:
        raise ValueError(f"baseline has shape {base.shape}, x has {x.shape}")
    if not np.isfinite(x).all():
        raise ValueError("x must be finite: it has NaN or infinite cells")
    if len(free) < 2:
        raise ValueError(f"n_alpha must be at least 2, not {len(free)}")
    alpha = (np.arange(len(free)) / len(free))[:, None, None, None]
    return np.where(free, base + alpha * (x - base), x)


def integrated_gradients(
    f: Explained, x: np.ndarray, free: np.ndarray, base: np.ndarray | None = None
) -> np.ndarray:
    """Signed attribution (series, T, D) (the A of the text above); 0 for a cell that is never free."""
    total = (free * f.gradient(path(x, free, base))).sum(axis=0)
    return (x - (0 if base is None else base)) * total / np.maximum(free.sum(axis=0), 1)


@dataclass(frozen=True)
class Run:
    settings: Settings
    series: np.ndarray
    """the test series shown, (T, D)"""
    scores: dict[str, np.ndarray]
    """method -> signed scores of that series (T, D)"""
    retained: np.ndarray
    """cells that TIMING keeps at one step of that series (T, D)"""
    curves: dict[str, np.ndarray]
    """method -> cumulative prediction difference after 0, 1, … removed cells"""
    drops: dict[str, np.ndarray]
    """method -> difference seen when that many cells are removed at once"""
    measures: Measures


def run(settings: Settings, seed: int) -> Run:
    """Train the classifier, explain 32 test series in every way, remove cells in every order."""
    for_data, for_model, for_masks, for_rest = (
        np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(4)
    )
    train_x, labels = switch_data(for_data, TRAIN, settings.gate)
    x, truth = switch_data(for_data, TEST, settings.gate)
    model = train(settings.model, train_x, labels, for_model)
    f = Explained(model, np.argmax(model.logits(x), axis=1), settings.target)
    n = settings.n_alpha
    segments = segment_masks(for_masks, n, TEST, settings.nseg, settings.lmin, settings.lmax)
    masks = {
        TIMING: segments,
        IG: np.ones_like(segments),
        RANDOM_IG: for_masks.random(segments.shape) < segments.mean(),
    }
    signed = {name: integrated_gradients(f, x, free) for name, free in masks.items()}
    signed[GRADIENT] = x * f.gradient(x)
    signed[SHAP] = gradient_shap(f, x, n, for_rest)
    signed[OCCLUSION] = occlusion(f, x)
    ties = for_rest.random((TEST, T * D))
    signed[DYNAMASK] = dynamask(model, x, ties)
    size = {name: np.abs(a) for name, a in signed.items()} | {CHANCE: np.zeros_like(x)}
    first = {m: remove(model, x, s, ties, settings.removed) for m, s in {**size, SIGNED: signed[IG]}.items()}
    curves = {name: stepwise(p).mean(axis=1) for name, p in first.items()}
    drops = {name: at_once(p).mean(axis=1) for name, p in first.items()}
    paths = {name: path(x, free) for name, free in masks.items()} | {"real series": x[None]}
    measures: Measures = {
        "cpd": {name: float(c[-1]) for name, c in curves.items()},
        "cpp": {m: float(stepwise(remove(model, x, -s, ties, T * D // 2))[-1].mean()) for m, s in size.items()},
        "drop": {name: float(d[-1]) for name, d in drops.items()},
        "cancel": {name: float(drops[name][-1] / curves[name][-1]) for name in curves},
        "energy": path_distances(for_rest, train_x, paths),
        "accuracy": {settings.model: accuracy(model.logits(x), truth)},
    }
    shown = {name: a[0] for name, a in signed.items()}
    return Run(settings, x[0], shown, ~segments[n // 2, 0], curves, drops, measures)


@across_seeds
def scores_figure(run: Run, samples: Samples | None) -> go.Figure:
    """The best explanation is furthest right in the left panel and furthest left in the right one.

    Change of the prediction while cells are removed one by one: most important first (CPD), then least
    important first (CPP), with 95 % intervals over seeds.
    """
    titles = [f"CPD, {run.settings.removed} cells (higher is better)", f"CPP, {T * D // 2} cells (lower is better)"]
    fig = charts.panels(titles, "probability")
    for column, measure in enumerate(("cpd", "cpp"), 1):
        found = {m: charts.interval_of(samples, measure, m, run.measures[measure][m]) for m in ROLES}
        charts.dots(fig, found, ROLES, row=1, col=column)
        for name, (value, _, high) in found.items():
            text = f"<b>{value:.2f}</b>" if name == TIMING else f"{value:.2f}"
            font = {"size": 13, "color": charts.TEXT[ROLES[name]]}
            fig.add_annotation(
                x=high, y=name, text=text, xanchor="left", xshift=9, showarrow=False, font=font, row=1, col=column
            )
        top = max(high for *_, high in found.values())
        fig.update_xaxes(range=[0, 1.18 * top], nticks=5, row=1, col=column)
    return fig.update_yaxes(dtick=1)


def heatmap_figure(run: Run) -> go.Figure:
    """Blue cells speak for the predicted class, orange cells against it.

    A test series (blue above 0) and what three methods make of it, each on its own scale. Frames: the segments
    that TIMING keeps at one of its path steps. Dynamask knows no sign.
    """
    fig = charts.blank("time step", height=460)
    tops = {"the series": 0.0, IG: 6.0, TIMING: 12.0, DYNAMASK: 18.0}
    for name, top in tops.items():
        z = run.scores.get(name, run.series)
        rows = top + np.arange(D)
        charts.picture(
            fig, z.T / (np.abs(z).max() or 1.0), scale=charts.DIVERGING, limits=(-1, 1), y=rows, name=name
        )
        text = f"<b>{name}</b>" if name == TIMING else name
        place = {"x": -0.5, "y": top - 0.6, "xanchor": "left", "yanchor": "bottom"}
        fig.add_annotation(text=text, showarrow=False, font={"size": 14, "color": charts.SOFT}, **place)
    edges = np.diff(np.pad(run.retained, ((1, 1), (0, 0))).astype(int), axis=0)
    for d in range(D):
        for start, end in zip(np.flatnonzero(edges[:, d] == 1), np.flatnonzero(edges[:, d] == -1), strict=True):
            corner = {
                "x0": start - 0.5,
                "x1": end - 0.5,
                "y0": tops[TIMING] + d - 0.5,
                "y1": tops[TIMING] + d + 0.5,
            }
            fig.add_shape(type="rect", line={"color": charts.INK, "width": 2}, **corner)
    fig.update_traces(xgap=1, ygap=1)
    at = [top + d for top in tops.values() for d in range(D)]
    fig.update_yaxes(range=[21.5, -1.6], tickvals=at, ticktext=CHANNELS * len(tops), showgrid=False)
    return fig.update_layout(margin_t=4)


def cancel_figure(run: Run) -> go.Figure:
    """Removing cells all at once hides most of what removing them one by one shows.

    The same attribution (IG) in two orders; mean over 32 test series of one run. Ordered by sign, ups never
    meet downs, and the two ways agree.
    """
    fig = charts.panels(["change of probability, largest |A| first", "largest signed A first"], "cells removed")
    cells = np.arange(run.settings.removed + 1)
    for column, name in enumerate((IG, SIGNED), 1):
        for kind, curve, dash in (("one by one", run.curves[name], None), ("all at once", run.drops[name], "dash")):
            charts.line(fig, kind, cells, curve, ROLES[IG], dash=dash, row=1, col=column)
            if column == 1:
                font = {"size": 14, "color": charts.TEXT[ROLES[IG]]}
                place = {"x": cells[-1], "y": curve[-1], "xanchor": "right", "yanchor": "bottom", "yshift": 4}
                fig.add_annotation(text=kind, showarrow=False, font=font, **place, row=1, col=1)
    top = max(c.max() for c in (run.curves[IG], run.curves[SIGNED]))
    return fig.update_yaxes(range=[-0.02 * top, 1.15 * top], nticks=5)


def removal_figure(run: Run) -> go.Figure:
    """The steeper a curve, the earlier a method names the cells that matter.

    Cumulative change of the prediction while the most important cells are removed one by one; mean over the
    32 test series of one run.
    """
    fig = charts.blank("cells removed", "cumulative change of probability")
    for name in sorted(ROLES, key=lambda m: m == TIMING):
        charts.line(fig, name, np.arange(run.settings.removed + 1), run.curves[name], ROLES[name])
    top = max(curve[-1] for curve in run.curves.values())
    fig.update_yaxes(range=[-0.03 * top, 1.3 * top])  # room for names that are pushed apart
    charts.end_labels(fig)
    return fig


def thumbnail(run: Run) -> str:
    """The heat map of one series for TIMING above the same for IG."""
    maps = [run.scores[m].T for m in (TIMING, IG)]
    return thumbnails.pictures(
        [[thumbnails.coloured(z, charts.DIVERGING, -np.abs(z).max(), np.abs(z).max())] for z in maps], gap=14
    )


def beats(a: str, b: str) -> Rule:
    """Ahead of b on both metrics."""
    return all_of(
        beyond(difference("cpd", a, b, digits=3, label=f"CPD against {b}"), CPD_MARGIN),
        beyond(difference("cpp", a, b, digits=3, label=f"CPP against {b}"), CPP_MARGIN, side=-1),
    )


def cancels(samples: Samples) -> Verdict:
    """The old metric gains from the signed order, and by more than the cells in it are really better."""
    better_cells = difference("cpd", SIGNED, IG)(samples)
    gain = difference("drop", SIGNED, IG, digits=3, label="all at once, signed order against |A| order")
    found = above(gain, max(0.0, better_cells.high), fails_below=better_cells.low)(samples)
    return replace(found, note=found.note or f"one by one the difference is {better_cells}")


def beats_ig(samples: Samples) -> Verdict:
    """Ahead of IG; the note says how much of it RandIG has too."""
    found = beats(TIMING, IG)(samples)
    over = [difference(m, TIMING, RANDOM_IG, digits=3, label=m.upper())(samples) for m in ("cpd", "cpp")]
    shape = f"the segments' own share, TIMING − RandIG: {over[0]}, {over[1]}"
    return replace(found, note="; ".join(filter(None, (found.note, shape))))


def beats_all(samples: Samples) -> Verdict:
    """Ahead of every baseline; the note names those it does not beat."""
    parts = {b: beats(TIMING, b)(samples) for b in BASELINES}
    left = [f"{b} ({v.word})" for b, v in parts.items() if v.outcome != "holds"]
    return join(list(parts.values()), "not beaten: " + ", ".join(left) if left else "")


def _needs_segments(settings: Settings) -> str:
    return "" if settings.nseg else "without segments TIMING is plain IG"


DEMO = Demo(
    name="TIMING",
    line="Heat maps of a time series, scored by removing cells one by one.",
    topic="Explainability",
    abstract="Recent explainable artificial intelligence (XAI) methods for time series",
    paper=Paper(
        "TIMING: Temporality-Aware Integrated Gradients for Time Series Explanation",
        "https://icml.cc/virtual/2025/poster/43941",
        "https://github.com/drumpt/TIMING",
    ),
    settings=Settings,
    run=run,
    measures={
        "cpd": Measure("Cumulative prediction difference (CPD)", "probability", "higher"),
        "cpp": Measure("Cumulative prediction preservation (CPP)", "probability", "lower"),
        "drop": Measure("Difference when all are removed at once", "probability"),
        "cancel": Measure("Share of CPD that is left when removed at once", digits=2),
        "energy": Measure("Energy distance of path windows to training windows", better="lower"),
        "accuracy": Measure("Test accuracy of the classifier", better="higher"),
    },
    figures=(scores_figure, heatmap_figure, cancel_figure, removal_figure),
    thumbnail=thumbnail,
    claims=(
        Claim(
            "they inadvertently cancel out opposing feature contributions",
            "Removing the top cells all at once lets ups and downs cancel; one by one they add up",
            cancels,
        ),
        Claim(
            "conventional IG outperforms recent counterparts",
            "Plain IG beats Dynamask, a learned mask without signs, on CPD and CPP",
            beats(IG, DYNAMASK),
        ),
        Claim(
            "introduce out-of-distribution samples",
            "Keeping segments brings the path points closer to real series",
            beyond(
                difference("energy", TIMING, IG, digits=3, label="energy distance against IG"),
                ENERGY_MARGIN,
                side=-1,
            ),
            applies=_needs_segments,
        ),
        Claim(
            "enhances IG by incorporating temporal awareness",
            "TIMING beats plain IG on CPD and CPP",
            beats_ig,
            applies=_needs_segments,
        ),
        Claim(
            "outperforms existing time series XAI baselines",
            "TIMING beats every baseline shown on CPD and CPP",
            beats_all,
            applies=_needs_segments,
        ),
    ),
    presets={
        "Break it: a constant gradient": Settings(model="linear", gate=0.0, target="logit"),
        "Saturation only": Settings(model="linear", gate=0.0),
    },
    break_it="Break it: a constant gradient",
    why_it_breaks="With a linear model and a logit target the gradient is the same at every path point, so "
    "keeping segments changes nothing.",
    simplified="A small convolutional net (300 training series of 32 steps, 4 channels, 2 classes) instead of "
    "transformers and GRUs on real data; of the learned explainers only Dynamask, for the family of masks: no FIT, "
    "WinIT, ContraLSP or TimeX. In the preset “Saturation only” a linear model with the probability "
    "as target has no structure in time at all: what TIMING gains there comes from the softmax's saturation.",
    seeds=8,
)
