r"""A $b$-bit number (`bits`) knows only $2^b$ levels, spread from the smallest to the largest entry of a row. One
entry that is far larger than the rest, an *outlier channel*, takes the levels for itself: the others land on one or
two of them.

**Rotation.** For an orthogonal $R$, $XW=(XR)(R^\top W)$, so a layer can compute

$$\mathrm{LIN}(X)=Q_x(XR)\;Q_w(R^\top W)$$

with quantizers $Q_x$ (per token) and $Q_w$ (per output column). $R=H$, random signs times a Hadamard matrix over
$\sqrt d$, spreads an outlier over all $d$ entries. The caches of keys and values are rotated per head.

**Straight-through (STE).** Fine-tuning runs with quantized values; backward, $Q$ counts as the identity, so
$\partial W=R\,Q_x(XR)^\top\partial Y$.

**RoSTE** repeats `rounds` times:

1. At the current weights, on $n=128$ calibration images, compute for every layer $i$ the error
   $E_i(R)=\lVert Q_w(R^\top W_i)-R^\top W_i\rVert^2+\frac1n\sum_j\lVert Q_x(X_{ij}R)-X_{ij}R\rVert^2$ with all $R=I$
   and with all $R=H$ (`choose`); set $R_i=H$ where $E_i(H)<E_i(I)$.
2. Fine-tune the quantized network with straight-through gradients (`train`).

**Theory.** Least squares on quantized features with Gram matrix $G$: straight-through descent should settle at a
loss near $\tfrac12\lVert e\rVert_G^2$, where $e=Q_w(Rw)-Rw$ is the error of its weights (`least_squares`).

Outliers are planted after pre-training and leave the float network's function unchanged: a channel is multiplied by
$\alpha$ (`alpha`), what reads it is divided by $\alpha$. Network, outliers, Adam with a cosine and the grouping of
entries that share a step are our choices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import plotly.graph_objects as go

from core.demos import _roste_net as net
from core.demos._roste_quantizers import SIZES, least_squares, levels_of
from core.demos._roste_rivals import Batches, Model, batches, gptq_weights, scores, tasks
from core.lab import charts, thumbnails, verdicts
from core.lab import demo as lab
from core.lab.demo import Claim, Demo, Measure, Measures, Paper, across_seeds, control
from core.lab.verdicts import Rule, Samples, Verdict

FLOAT, RTN, GPTQ, ROSTE, STE = "float", "RTN", "GPTQ", "RoSTE", "STE"
EVERYWHERE, QUAROT_RTN, QUAROT_GPTQ = "STE, rotated everywhere", "QuaRot, RTN weights", "QuaRot, GPTQ weights"
ROLES = charts.roles(ROSTE, (STE, EVERYWHERE, QUAROT_GPTQ, QUAROT_RTN, GPTQ, RTN), FLOAT)
POST_HOC = (RTN, GPTQ, QUAROT_RTN, QUAROT_GPTQ)
CALIBRATION, PRETRAIN_STEPS, PRETRAIN_RATE, TUNE_RATE = 128, 150, 5e-3, 3e-3
MARGIN, NO_DIFFERENCE, LESS_ERROR = 0.02, 0.05, 0.9
SLOPE, CORRELATION = (0.85, 1.15), 0.95
TURNED = ("plain", "rotated")


class Settings(lab.Settings):
    bits: int = control(4, "Bits", 2, 8, 1, help="of weights, activations and caches")
    alpha: float = control(30.0, "Outlier size α", 1, 50, 1, help="1: no outliers")
    channels: int = control(1, "Outlier channels", 0, 4, 1, help="at each of four places")
    steps: int = control(100, "Fine-tuning steps", 40, 200, 10)
    rounds: int = control(1, "Rounds of choosing rotations", 1, 4, 1)


@dataclass(frozen=True)
class Tuned:
    """Fine-tuned weights by method, RoSTE's rotations, and the errors (plain, rotated) they were chosen by."""

    weights: dict[str, net.Weights]
    chosen: net.Rotations
    errors: dict[str, tuple[float, float]]


def fine_tune(
    w: net.Weights, gains: np.ndarray, steps: Batches, calibration: np.ndarray, turns: net.Rotations, bits: int,
    rounds: int = 1,
) -> Tuned:  # fmt: skip
    """All trained variants side by side, from the same weights on the same batches."""
    if not 1 <= rounds <= len(steps):
        raise ValueError(f"rounds cannot be {rounds}: it may be 1 to the number of steps, {len(steps)}")
    names = (FLOAT, STE, EVERYWHERE, ROSTE)
    many = {name: np.repeat(x, len(names), 0) for name, x in w.items()}
    quantized = [name != FLOAT for name in names]
    s = net.scheme(bits, [{}, {}, turns, {}], quantized, quantized)
    last: list[tuple[dict[str, tuple[float, float]], net.Rotations]] = []
    starts = {k * len(steps) // rounds for k in range(rounds)}

    def turn(step: int, now: net.Weights) -> None:
        if step in starts:
            last[:] = [net.choose({n: x[-1:] for n, x in now.items()}, gains, calibration, turns, bits)]
            for site, d in net.SITES.items():
                s.rotations[site][-1] = last[0][1].get(site, np.eye(d))

    net.train(many, gains, steps, s, TUNE_RATE, turn)
    tuned = {name: {n: x[i : i + 1] for n, x in many.items()} for i, name in enumerate(names)}
    return Tuned(tuned, last[0][1], last[0][0])


def all_models(
    tuned: Tuned, gains: np.ndarray, calibration: np.ndarray, bits: int, turns: net.Rotations
) -> dict[str, Model]:
    """What was fine-tuned quantized, and the float network quantized afterwards in four ways."""
    w = tuned.weights
    plain, rotated = (gptq_weights(w[FLOAT], gains, calibration, bits, r) for r in ({}, turns))
    return {
        FLOAT: (w[FLOAT], {}, False),
        RTN: (w[FLOAT], {}, True),
        GPTQ: (plain, {}, False),
        QUAROT_RTN: (w[FLOAT], turns, True),
        QUAROT_GPTQ: (rotated, turns, False),
        STE: (w[STE], {}, True),
        EVERYWHERE: (w[EVERYWHERE], turns, True),
        ROSTE: (w[ROSTE], tuned.chosen, True),
    }


@dataclass(frozen=True)
class Run:
    settings: Settings
    errors: dict[str, tuple[float, float]]
    """site -> quantization error without and with rotation, when the rotations were last chosen"""
    token: np.ndarray
    """input of the K layer before fine-tuning, plain and rotated (2, 32): the token with the median largest value"""
    measures: Measures


def run(settings: Settings, seed: int) -> Run:
    """Pre-train, plant outliers, fine-tune and quantize in every way; and the least squares."""
    for_data, for_start, for_steps, for_outliers, for_turns, for_tuning, for_theory = (
        np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(7)
    )
    first, second, test = tasks(for_data)
    w = net.draw(for_start)
    net.train(w, net.plain_gains(), batches(for_steps, first, 64, PRETRAIN_STEPS), net.floating(), PRETRAIN_RATE)
    w, gains = net.plant(for_outliers, w, settings.alpha, settings.channels)
    turns, calibration = net.rotations(for_turns), second[0][:CALIBRATION]
    steps = batches(for_tuning, second, 24, settings.steps)
    tuned = fine_tune(w, gains, steps, calibration, turns, settings.bits, settings.rounds)
    models = all_models(tuned, gains, calibration, settings.bits, turns)
    inputs = net.Pass(w, gains, calibration, net.floating()).kept["K"][0][0]
    token = inputs[np.argsort(np.abs(inputs).max(1))[len(inputs) // 2]]
    loss, error = least_squares(for_theory, settings.bits)
    points = [(f"α = {a:g}, {t}", i, j) for i, a in enumerate(SIZES) for j, t in enumerate(TURNED)]
    slope = float(np.polyfit(np.log(error.ravel()), np.log(loss.ravel()), 1)[0])
    measures: Measures = {
        **scores(models, FLOAT, gains, calibration, test, settings.bits),
        "rotated": {
            **{site: float(site in tuned.chosen) for site in net.SITES},
            "all": len(tuned.chosen) / len(net.SITES),
        },
        "slope": {"least squares": slope},
        "ls_loss": {name: float(loss[i, j]) for name, i, j in points},
        "ls_error": {name: float(error[i, j]) for name, i, j in points},
    }
    return Run(settings, tuned.errors, np.stack([token, token @ turns["K"]]), measures)


# --- figures ------------------------------------------------------------------------------------------


def seed_dots(fig: go.Figure, x: np.ndarray, y: Sequence | np.ndarray, role: charts.Role) -> float:
    """Small dots, one a seed; returns the largest x."""
    marker = {"size": 5, "color": charts.MARK[role], "opacity": 0.55}
    fig.add_scatter(x=x, y=y, mode="markers", name="seeds", hoverinfo="skip", marker=marker)
    return float(x.max())


@across_seeds
def loss_figure(run: Run, samples: Samples | None) -> go.Figure:
    """Further left is better; the dotted line is fine-tuning without quantization. Test cross-entropy of the digit
    classifier: small dots are seeds, large ones their mean with its 95 % interval. RoSTE and the two STE rows
    fine-tune the quantized network, the others quantize afterwards."""
    fig = charts.blank("Test cross-entropy (nats)", height=370)
    loss = run.measures["cross_entropy"]
    rows = {m: charts.interval_of(samples, "cross_entropy", m, loss[m]) for m in ROLES if m != FLOAT}
    charts.dots(fig, rows, ROLES)
    right = max(high for *_, high in rows.values())
    for m, (value, *_) in rows.items():
        if samples is not None:
            right = max(right, seed_dots(fig, samples("cross_entropy", m), [m] * len(samples.seeds), ROLES[m]))
        fig.add_annotation(
            x=1, xref="paper", y=m, text=f"<b>{value:.2f}</b>" if m == ROSTE else f"{value:.2f}", showarrow=False,
            xanchor="right", font={"color": charts.TEXT[ROLES[m]]},
        )  # fmt: skip
    best = charts.interval_of(samples, "cross_entropy", FLOAT, loss[FLOAT])[0]
    fig.add_vline(x=best, line={"color": charts.MARK["oracle"], "width": 1.6, "dash": "dot"})
    charts.name_y(fig, f"{FLOAT} {best:.2f}", xref="x", x=best)
    left = min(best, *(low for _, low, _ in rows.values()))
    return fig.update_xaxes(range=[left - 0.06 * (right - left), right + 0.17 * (right - left)])


def layers_figure(run: Run) -> go.Figure:
    """Filled is what RoSTE chose: the smaller error of the two. Quantization error of each layer and cache in one
    run, without rotation (orange) and with it (blue), at the weights at which the choice was last made."""
    fig = charts.blank("Quantization error E (log scale)", log_x=True)
    sites = [s if "cache" in s else f"{s} layer" for s in run.errors]
    ways = {"x": [v for pair in run.errors.values() for v in (*pair, None)], "y": np.repeat(sites, 3)}
    fig.add_scatter(**ways, mode="lines", hoverinfo="skip", name="both", line={"color": charts.GRID, "width": 5})
    for j, (name, role) in enumerate(zip(TURNED, ("baseline1", "method"), strict=True)):
        taken = [(turned < plain) == bool(j) for plain, turned in run.errors.values()]
        fig.add_scatter(
            x=[pair[j] for pair in run.errors.values()], y=sites, mode="markers", name=name,
            marker={"size": 14, "color": [charts.MARK[role] if t else charts.GROUND for t in taken]},
            marker_line={"color": charts.MARK[role], "width": 2.5},
            hovertemplate=f"%{{y}}, {name}: %{{x:.3~g}}<extra></extra>",
        )  # fmt: skip
    fig.update_yaxes(autorange="reversed", type="category", dtick=1, tickfont={"color": charts.INK})
    every = np.log10([v for pair in run.errors.values() for v in pair])
    ticks = np.outer(10.0 ** np.arange(-6, 6), [1, 3]).ravel()
    fig.update_xaxes(tickvals=ticks, ticktext=[f"{t:g}" for t in ticks], showgrid=True, gridcolor=charts.GRID)
    return fig.update_xaxes(range=[every.min() - 0.15, every.max() + 0.15])


def token_figure(run: Run) -> go.Figure:
    """Each bar is a level of the quantizer: values that share a bar become the same number. The 32 channels
    of one token on its way into the K layer, before fine-tuning, as they are and rotated."""
    total = 2**run.settings.bits
    codes, step, zero = levels_of(run.token, run.settings.bits)
    words = zip(("as they are", "rotated"), codes, strict=True)
    titles = [f"{t}: {len(np.unique(c))} of {total} levels used" for t, c in words]
    fig = charts.panels(titles, shared_y=False, rows=2, height=400)
    for j, role in enumerate(("baseline1", "method")):
        level, count = np.unique(codes[j], return_counts=True)
        values = step[j] * (level - zero[j])
        fig.add_bar(
            x=values, y=count, width=0.9 * float(step[j, 0]), marker_color=charts.MARK[role], name=TURNED[j],
            hovertemplate="level %{x:.2f}: %{y} values<extra></extra>", row=j + 1, col=1,
        )  # fmt: skip
        every = step[j] * (np.arange(total) - zero[j])
        fig.add_scatter(
            x=every, y=np.zeros(total), mode="markers", hoverinfo="skip", name="levels", cliponaxis=False,
            marker={"symbol": "line-ns", "size": 9, "line": {"color": charts.SOFT, "width": 1}}, row=j + 1, col=1,
        )  # fmt: skip
    pad = 0.6 * float(step.max())
    ends = [np.min(-zero * step) - pad, np.max((total - 1 - zero) * step) + pad]
    fig.update_xaxes(range=ends, ticklabelstandoff=7).update_xaxes(showticklabels=False, row=1)
    fig.update_xaxes(title_text="value of a channel (ticks: levels)", row=2)
    return fig.update_yaxes(nticks=4, rangemode="tozero")


@across_seeds
def theory_figure(run: Run, samples: Samples | None) -> go.Figure:
    """On the dotted line the loss is half the error of the rounded weights, as theory has it. Quantized least squares
    without rotation (orange) and with it (blue), one dot for α = 1, 3, 10 and 30 each, larger for larger α; the
    smallest dots are seeds. Points fall below where all small weights are rounded to 0."""
    fig = charts.blank(
        "Error ‖e‖² of the converged weights (log scale)", "Loss (log scale)", log_x=True, log_y=True
    )
    loss, error = run.measures["ls_loss"], run.measures["ls_error"]
    every = [np.array(list(error.values()))]
    for name in loss:
        j = name.endswith(TURNED[1])
        role: charts.Role = "method" if j else "baseline1"
        x = charts.interval_of(samples, "ls_error", name, error[name], log=True)[0]
        y = charts.interval_of(samples, "ls_loss", name, loss[name], log=True)[0]
        size = 8 + 4 * SIZES.index(float(name.split(",")[0][4:]))
        fig.add_scatter(
            x=[x], y=[y], mode="markers", name=name,
            marker={"size": size, "color": charts.MARK[role], "line": {"color": charts.GROUND, "width": 1}},
            hovertemplate=f"{name}: ‖e‖² %{{x:.3~g}}, loss %{{y:.3~g}}<extra></extra>",
        )  # fmt: skip
        if samples is not None:
            every.append(samples("ls_error", name))
            seed_dots(fig, samples("ls_error", name), samples("ls_loss", name), role)
        if size > 12:  # the names of the small ones would touch
            fig.add_annotation(
                x=np.log10(x), y=np.log10(y), text=name.split(",")[0], showarrow=False, yshift=-9 if j else 16,
                xanchor="left" if j else "right", xshift=(size / 2 + 4) * (1 if j else -1),
                font={"color": charts.TEXT[role], "size": 13},
            )  # fmt: skip
    ends = np.array([np.concatenate(every).min() / 1.6, np.concatenate(every).max() * 1.3])
    charts.line(fig, "½‖e‖²", ends, ends / 2, "oracle", end_label=False)
    return fig


def thumbnail(run: Run) -> str:
    """One token's channels in bins of equal width: far apart as they are (grey), compact after the rotation."""
    ends = float(np.abs(run.token).max()) * 1.05
    body, pad, bottom = "", thumbnails.PAD, thumbnails.HEIGHT - thumbnails.PAD
    bin_width = (thumbnails.WIDTH - 2 * pad) / 31
    for values, role in zip(run.token, ("oracle", "method"), strict=True):
        count, _ = np.histogram(values, bins=31, range=(-ends, ends))
        for k, share in enumerate(count / count.max()):
            tall = (bottom - pad) * np.sqrt(share)  # the root keeps a single outlier visible
            body += (
                f'<rect class="f-{role}" x="{pad + k * bin_width:.1f}" y="{bottom - tall:.1f}" opacity=".7" '
                f'width="{bin_width - 1:.1f}" height="{tall:.1f}"/>'
            )
    return thumbnails.svg(body)


# --- claims -------------------------------------------------------------------------------------------


def costs_more(rival: str) -> Rule:
    """The rival's loss is above RoSTE's by the margin; says so if both are practically the same."""
    gap = verdicts.difference("cross_entropy", rival, ROSTE, unit="nats", label=f"{rival} − RoSTE:")
    rule = verdicts.above(gap, MARGIN)

    def judge(samples: Samples) -> Verdict:
        found = rule(samples)
        e = found.effect
        if e is not None and found.outcome == "unclear" and max(-e.low, e.high) <= NO_DIFFERENCE:
            return replace(found, note="no practical difference")
        return found

    return judge


def choice_rule(samples: Samples) -> Verdict:
    """Against STE without rotation; the note says what rotating everywhere does."""
    found = costs_more(STE)(samples)
    other = verdicts.difference("cross_entropy", EVERYWHERE, ROSTE, unit="nats")(samples)
    return replace(found, note="; ".join(filter(None, (found.note, f"rotated everywhere − RoSTE: {other}"))))


def worst_ratio(samples: Samples) -> np.ndarray:
    """Loss with rotation over loss without, the larger one of α = 10 and 30, per seed."""
    found = [samples("ls_loss", f"α = {a}, rotated") / samples("ls_loss", f"α = {a}, plain") for a in (10, 30)]
    return np.max(found, axis=0)


def theory_rule(samples: Samples) -> Verdict:
    """Slope near 1 with a close correlation, and rotation lowers the loss where there are outliers."""
    names = samples.methods("ls_loss")
    pooled = [np.log(np.concatenate([samples(m, n) for n in names])) for m in ("ls_error", "ls_loss")]
    correlation = float(np.corrcoef(*pooled)[0, 1])
    slope = verdicts.per_seed(lambda s: s("slope", "least squares"), label="slope of log loss on log ‖e‖²:")
    lower = verdicts.per_seed(worst_ratio, "ratio", label="loss rotated / plain, α ≥ 10:")
    helps = verdicts.in_seeds(lambda s: worst_ratio(s) < 1, lower, bound=1)
    found = verdicts.all_of(verdicts.within(slope, *SLOPE), helps)(samples)
    note = "; ".join(filter(None, (found.note, f"correlation {correlation:.3f} over all points and seeds")))
    if found.outcome == "holds" and not correlation > CORRELATION:
        return replace(found, outcome="unclear", note=note)
    return replace(found, note=note)


DEMO = Demo(
    name="RoSTE",
    line="Fine-tune a 4-bit network, rotating layers only where that lowers error.",
    topic="Model compression",
    abstract="Supervised fine-tuning is a standard method for adapting pre-trained large language models",
    paper=Paper(
        "RoSTE: An Efficient Quantization-Aware Supervised Fine-Tuning Approach for Large Language Models",
        "https://icml.cc/virtual/2025/poster/44438",
        "https://github.com/OptimAI-Lab/RoSTE",
    ),
    settings=Settings,
    run=run,
    measures={
        "cross_entropy": Measure("Test cross-entropy", "nats", "lower"),
        "accuracy": Measure("Test accuracy", "", "higher"),
        "error": Measure("Quantization error E of the trained model", "", "lower", 1),
        "rotated": Measure("Rotated by RoSTE", "share", digits=2),
        "slope": Measure("Slope of log loss on log ‖e‖²", digits=2),
        "ls_loss": Measure("Loss of quantized least squares", "", "lower", 2),
        "ls_error": Measure("Error ‖e‖² of its weights", "", "lower", 2),
    },
    figures=(loss_figure, layers_figure, token_figure, theory_figure),
    thumbnail=thumbnail,
    claims=(
        Claim(
            "Compared to existing post-SFT quantization baselines, our method consistently achieves superior "
            "performances",
            "Quantizing after fine-tuning loses more than RoSTE, for every way to quantize",
            verdicts.all_of(*(costs_more(rival) for rival in POST_HOC)),
        ),
        Claim(
            "an adaptive rotation strategy that identifies an effective rotation configuration to reduce "
            "activation outliers",
            "Straight-through training is better with the chosen rotations than without any",
            choice_rule,
        ),
        Claim(
            "the prediction error is directly proportional to the quantization error of the converged weights",
            "In quantized least squares the loss is proportional to ‖e‖², and rotation lowers it",
            theory_rule,
        ),
        Claim(
            "low-bit quantization of weights, activations and KV caches in LLMs",
            "RoSTE ends with less quantization error than straight-through training without rotation",
            verdicts.below(verdicts.ratio("error", ROSTE, STE, label="error RoSTE / STE:"), LESS_ERROR),
        ),
    ),
    presets={
        "Break it: no outliers": Settings(alpha=1.0),
        "Too few bits": Settings(bits=3, alpha=20.0),
        "Four outlier channels": Settings(channels=4),
        "Twice the steps": Settings(steps=200),
    },
    break_it="Break it: no outliers",
    why_it_breaks="Without outlier channels the rotation has nothing to spread out, so all ways of quantizing end "
    "within a few hundredths of a nat of each other.",
    simplified="A classifier of 8×8 digits with one attention block (width 32, 100 fine-tuning steps on 500 transposed "
    "digits) instead of language models of up to 8 billion weights; made outliers; one learning rate for all. "
    "SpinQuant (learned rotations) is missing, and GPTQ works without groups. QuaRot is shown with rounded weights "
    "and with GPTQ weights, its usual form, which is the strongest rival here: with 100 steps it beats RoSTE, with "
    "200 the two are level. The sum of squared errors is only a stand-in for the loss: with four outlier channels, "
    "rotating everywhere does better than the rotations chosen by it.",
    seeds=8,
)
