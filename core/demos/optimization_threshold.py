r"""A wide network can fit any training set exactly. Does gradient descent do it? For two-layer ReLU networks that
start from *small* weights the answer changes with the number of samples.

The network is $f(x)=\sum_{j=1}^m a_j\,\mathrm{relu}(w_j^\top x)$, the data $y_k=\beta^\top x_k+\sigma\varepsilon_k$
(`noise` $\sigma$). Weights start at scale $\lambda$ (`scale`) and balanced, $|a_j|=\|w_j\|$; full-batch gradient
descent trains both layers.

**Early alignment.** While $f\approx0$ each neuron only turns. Its direction follows

$$D_n(w)=\tfrac1n\sum_k 1[w^\top x_k>0]\,y_kx_k,$$

with the sign of $a_j$. For symmetric inputs the average over many samples is $\beta/2$ *whatever $w$ is*, so for
large $n$ all positive neurons turn to $+\beta$ and all negative ones to $-\beta$. For small $n$ there are many
stable directions and the neurons stay diverse enough to interpolate.

**Afterwards** the aligned network acts like two neurons. It can no longer reach zero training loss; it ends near
the least-squares fit, which ignores the noise. The sample size from which this happens is the *optimization
threshold* $n^*$: here the smallest $n$ of the grid from which the training error stays above $0.2\,\sigma^2$.

The comparison that does interpolate is the minimum-norm solution in the tangent space of the same architecture at
infinite width (arc-cosine kernels), which also certifies that zero training loss can be had. Ordinary least squares
is the simple model itself. Grid, threshold rule and this comparison are ours.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import plotly.graph_objects as go
from pydantic import model_validator

from core.demos._optimization_threshold_net import (
    Nets,
    alignment,
    directions,
    gradients,
    kernel,
    neurons,
    onset,
)
from core.lab import charts, thumbnails
from core.lab.demo import Claim, Demo, Measure, Measures, Paper, Settings, choice, control, fixed
from core.lab.verdicts import Estimator, Outcome, Samples, Verdict, above, below, in_seeds, join, mean, per_seed

NET, KERNEL, OLS, TWO = "trained network", "interpolator", "least squares", "two-piece fit"
ROLES = charts.roles(NET, (KERNEL, OLS), TWO)
SIZES = np.array([4, 8, 16, 32, 64, 128, 256])
TEST, LAST = 2000, "n = 256"


class ThresholdSettings(Settings):
    noise: float = control(0.5, "Noise σ", 0.0, 1.0, 0.05)
    inputs: int = control(5, "Dimension d", 2, 8, 1)
    width: int = control(64, "Width m", 32, 128, 2, unit="neurons")
    scale: float = control(1e-3, "Initial scale λ", 1e-4, 3.0, log=True)
    teacher: Literal["linear", "absolute"] = choice(
        "linear", "Teacher", labels={"linear": "βᵀx", "absolute": "|βᵀx|"}
    )
    most_steps: int = fixed(2000, "Most steps", ge=25, le=20000)

    @model_validator(mode="after")
    def _wide(self):
        if self.width % 2:
            raise ValueError("width: must be even, half of the neurons are positive")
        if self.width * (self.inputs + 1) <= SIZES[-1]:
            least = 2 * (SIZES[-1] // (self.inputs + 1) // 2 + 1)
            raise ValueError(
                f"width: network is not overparametrized, {SIZES[-1]} samples in dimension {self.inputs} need at least "
                f"{least} neurons"
            )
        return self

    @property
    def rate(self) -> float:
        """Step size of gradient descent: smaller from large starts."""
        return 0.05 if self.scale >= 0.5 else 0.3


@dataclass(frozen=True)
class Data:
    """Nested samples: x (256, d), y (256,), a noiseless test set, the teacher's direction β (d,)."""

    x: np.ndarray
    y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray
    beta: np.ndarray


def draw(s: ThresholdSettings, seed: int) -> Data:
    """One stream of 256 samples; smaller sizes take its beginning."""
    rng = np.random.default_rng([seed, 51])
    beta = rng.normal(size=s.inputs)
    beta /= np.linalg.norm(beta)
    teach = (lambda v: v) if s.teacher == "linear" else np.abs
    x, test_x = rng.normal(size=(SIZES[-1], s.inputs)), rng.normal(size=(TEST, s.inputs))
    y = teach(x @ beta) + s.noise * rng.normal(size=SIZES[-1])
    return Data(x, y, test_x, teach(test_x @ beta), beta)


def start(s: ThresholdSettings, count: int, rng: np.random.Generator) -> Nets:
    """The same balanced initial network, `count` times."""
    w = (s.scale / np.sqrt(s.width) * rng.normal(size=(s.width, s.inputs))).astype(np.float32)
    a = np.linalg.norm(w, axis=1) * np.where(np.arange(s.width) % 2, -1, 1)
    return Nets(np.repeat(w[None], count, 0), np.repeat(a[None], count, 0).astype(np.float32))


@dataclass
class Trained:
    """End of training for every sample size: networks, those at the end of early alignment, error paths."""

    final: Nets
    early: Nets
    error: np.ndarray
    fall: np.ndarray
    steps: np.ndarray


def train(s: ThresholdSettings, data: Data, seed: int) -> Trained:
    """Full-batch gradient descent for all sample sizes at once; sizes that have settled leave the batch.

    Raises ValueError naming the step size where the loss is not finite.
    """
    k = len(SIZES)
    live = np.arange(k)
    nets = start(s, k, np.random.default_rng([seed, 52]))
    mask = np.arange(SIZES[-1]) < SIZES[:, None]
    x, y = (data.x * mask[..., None]).astype(np.float32), (data.y * mask).astype(np.float32)
    final, early = Nets(nets.w.copy(), nets.a.copy()), Nets(nets.w.copy(), nets.a.copy())
    turned = np.zeros(k, dtype=bool)
    paths: list[list[float]] = [[] for _ in range(k)]
    steps = np.full(k, s.most_steps)
    sizes = SIZES.astype(np.float32)
    for step in range(s.most_steps + 1):
        with np.errstate(over="ignore", invalid="ignore"):  # a diverging run is reported below
            gw, ga, error = gradients(nets, x[live], y[live], sizes[live])
        if step % 25 == 0:
            if not np.isfinite(error).all():
                raise ValueError(f"scale: training diverged at step size {s.rate}; choose a smaller initial scale")
            done = []
            for row, i in enumerate(live):
                paths[i].append(float(error[row]))
                if not turned[i] and (error[row] < 0.9 * paths[i][0] or step == s.most_steps):
                    early.w[i], early.a[i], turned[i] = nets.w[row], nets.a[row], True
                settled = len(paths[i]) > 16 and paths[i][-17] - error[row] < 1e-5 * paths[i][-17]
                if error[row] < 1e-4 or settled or step == s.most_steps:
                    final.w[i], final.a[i], steps[i] = nets.w[row], nets.a[row], step
                    done.append(row)
            if done:
                keep = np.setdiff1d(np.arange(len(live)), done)
                nets, live, gw, ga = Nets(nets.w[keep], nets.a[keep]), live[keep], gw[keep], ga[keep]
                if not len(live):
                    break
        nets = Nets(nets.w - s.rate * gw, nets.a - s.rate * ga)
    last = [p[-1] for p in paths]
    fifth = [p[-min(len(p), max(2, len(p) // 5))] for p in paths]
    fall = np.array([(b - e) / b if b > 0 else 0.0 for b, e in zip(fifth, last, strict=True)])
    return Trained(final, early, np.array(last), fall, steps)


def rivals(data: Data, n: int) -> dict[str, tuple[float, np.ndarray]]:
    """Training error and test outputs of the interpolator, least squares, and least squares on each side of β."""
    x, y = data.x[:n], data.y[:n]
    k = kernel(x, x)
    weights = np.linalg.lstsq(k, y, rcond=1e-12)[0]
    found = {KERNEL: (float(np.mean((k @ weights - y) ** 2)), kernel(data.test_x, x) @ weights)}
    beta = np.linalg.lstsq(x, y, rcond=None)[0]
    found[OLS] = (float(np.mean((x @ beta - y) ** 2)), data.test_x @ beta)
    train_out, test_out = np.zeros(n), np.zeros(TEST)
    for side in (1, -1):
        here, there = side * (x @ data.beta) > 0, side * (data.test_x @ data.beta) > 0
        if here.any():
            piece = np.linalg.lstsq(x[here], y[here], rcond=None)[0]
            train_out[here], test_out[there] = x[here] @ piece, data.test_x[there] @ piece
    found[TWO] = (float(np.mean((train_out - y) ** 2)), test_out)
    return found


@dataclass(frozen=True)
class Run:
    """Errors by method and sample size, and neuron directions for a small and a large sample."""

    train: dict[str, np.ndarray]
    excess: dict[str, np.ndarray]
    neurons: dict[str, np.ndarray]
    noise: float
    threshold: float
    measures: Measures


def run(settings: ThresholdSettings, seed: int) -> Run:
    """Train for all sample sizes, compare with interpolator and least squares."""
    s, data = settings, draw(settings, seed)
    t = train(s, data, seed)
    others = [rivals(data, int(n)) for n in SIZES]
    errors = {NET: t.error} | {m: np.array([o[m][0] for o in others]) for m in (KERNEL, OLS, TWO)}
    outputs = t.final.outputs(data.test_x)
    excess = {NET: np.mean((outputs - data.test_y) ** 2, axis=1)}
    excess |= {m: np.array([np.mean((o[m][1] - data.test_y) ** 2) for o in others]) for m in (KERNEL, OLS, TWO)}
    threshold = onset(SIZES, t.error > 0.2 * s.noise**2) if s.noise > 0 else np.nan
    simple = errors[OLS if s.teacher == "linear" else TWO][-1]
    early = [alignment(t.early.w[i], t.early.a[i], data.beta) for i in range(len(SIZES))]
    names = [f"n = {n}" for n in SIZES]
    measures: Measures = {
        "train": {f"{m}, {n}": float(e) for m in errors for n, e in zip(names, errors[m], strict=True)},
        "excess": {f"{m}, {n}": float(e) for m in excess for n, e in zip(names, excess[m], strict=True)},
        "kept": {LAST: float(t.error[-1] / simple) if s.noise > 0 else np.nan},
        "align_early": dict(zip(names, early, strict=True)),
        "align_end": {LAST: alignment(t.final.w[-1], t.final.a[-1], data.beta)},
        "dirs": {n: float(directions(t.final.w[i], t.final.a[i])) for i, n in enumerate(names)},
        "distance": {LAST: float(np.mean((outputs[-1] - others[-1][TWO][1]) ** 2))},
        "fall": {LAST: float(t.fall[-1])},
        "threshold": {"n*": threshold},
        "noise_level": {"σ²": s.noise**2},
    }
    shown = {"n = 8, early": neurons(t.early, 1, data.beta), "n = 8, end": neurons(t.final, 1, data.beta),
             "n = 256, early": neurons(t.early, 6, data.beta), "n = 256, end": neurons(t.final, 6, data.beta)}  # fmt: skip
    return Run(errors, excess, shown, s.noise, threshold, measures)


# --- figures ------------------------------------------------------------------------------------------


def _ticks(fig: go.Figure) -> None:
    fig.update_xaxes(tickvals=SIZES, ticktext=[str(n) for n in SIZES], dtick=None)


def excess_figure(run: Run) -> go.Figure:
    """Lower is better: beyond the threshold n* the network that stopped interpolating should be far below the one
    that interpolates. Just before it, it is often worse."""
    fig = charts.blank("Training samples n (log scale)", "Excess test error (log scale)", log_x=True, log_y=True)
    for m, y in run.excess.items():
        charts.line(fig, m, SIZES, np.maximum(y, 1e-6), ROLES[m], markers=m == NET)
    if np.isfinite(run.threshold):
        charts.moment(fig, run.threshold, "n*")
    _ticks(fig)
    charts.end_labels(fig)
    return fig


def training_figure(run: Run) -> go.Figure:
    """Look where the training error of the network lifts off zero, if it does. From there on a network that could
    fit every sample no longer does; after a small start it ends near a simple fit, at about the noise σ²."""
    fig = charts.blank("Training samples n (log scale)", "Training error (mean square)", log_x=True)
    for m, y in run.train.items():
        charts.line(fig, m, SIZES, y, ROLES[m], markers=m == NET)
    if max(y.max() for y in run.train.values()) < 0.01:  # all fit exactly: do not magnify nothing
        fig.update_yaxes(range=[-0.005, 0.1])
    if run.noise:
        charts.level(fig, run.noise**2, "noise σ²")
    if np.isfinite(run.threshold):
        charts.moment(fig, run.threshold, "n*")
    _ticks(fig)
    charts.end_labels(fig)
    return fig


def neuron_figure(run: Run) -> go.Figure:
    """Each dot is a neuron's direction; the teacher β points to the right, height is one direction across it. Early
    in training from a small start, few samples leave many directions and many samples only two. Blue: positive
    neurons, orange: negative; larger dots carry more weight."""
    fig = charts.panels(list(run.neurons), shared_y=False, height=245)
    for col, dots in enumerate(run.neurons.values(), 1):
        weight = dots[:, 2] / max(dots[:, 2].max(), 1e-30)
        colours = np.where(dots[:, 3] > 0, charts.MARK["method"], charts.MARK["baseline1"])
        fig.add_scatter(x=dots[:, 0], y=dots[:, 1], mode="markers", hoverinfo="skip", row=1, col=col,
                        marker={"size": (4 + 12 * np.sqrt(weight)).tolist(), "color": colours.tolist(), "opacity": 0.7, "line": {"width": 0}})  # fmt: skip
        fig.add_shape(type="circle", x0=-1, x1=1, y0=-1, y1=1, line={"color": charts.GRID}, row=1, col=col)
        fig.update_yaxes(scaleanchor=f"x{'' if col == 1 else col}", row=1, col=col)
    fig.update_xaxes(range=[-1.15, 1.15], tickvals=[-1, 0, 1], title_text="cosine to β", constrain="domain")
    fig.update_yaxes(range=[-1.15, 1.15], showgrid=False, tickvals=[], constrain="domain")
    return fig


def thumbnail(run: Run) -> str:
    """Directions at the end of early alignment: scattered for 8 samples, gathered at ±β for 256."""
    body, r = "", thumbnails.HEIGHT / 2 - thumbnails.PAD
    for x, name, role in ((0.27, "n = 8, early", "oracle"), (0.73, "n = 256, early", "method")):
        x, y = x * thumbnails.WIDTH, thumbnails.HEIGHT / 2
        body += f'<circle cx="{x:.0f}" cy="{y:.0f}" r="{r:.0f}" fill="none" stroke="#7f7f7f" opacity=".4"/>'
        for c, across in run.neurons[name][:, :2]:
            body += f'<circle class="f-{role}" cx="{x + r * c:.1f}" cy="{y - r * across:.1f}" r="4.5"/>'
    return thumbnails.svg(body)


# --- claims -------------------------------------------------------------------------------------------


def needs_noise(s: ThresholdSettings) -> str:
    return "" if s.noise > 0 else "without noise interpolating is right"


def interpolation_rule(samples: Samples) -> Verdict:
    """At n = 256 the training error is over half of the simple model's, while zero can be had."""
    kept = above(per_seed(lambda s: s("kept", LAST), "ratio", label="to the simple fit:"), 0.5)(samples)
    kept = replace(kept, note=f"the error fell by {samples('fall', LAST).mean():.1%} in the last fifth of training")
    possible = in_seeds(
        lambda s: s("train", f"{KERNEL}, {LAST}") < 1e-6,
        mean("train", f"{KERNEL}, {LAST}", digits=6, label="interpolator:"),
    )
    return join([kept, possible(samples)])


def threshold_rule(samples: Samples) -> Verdict:
    """Four samples are fitted, and from some larger size on the error stays."""
    found, noise = samples("threshold", "n*"), float(samples("noise_level", "σ²")[0])
    exists = np.isfinite(found) & (found > SIZES[0])
    small = below(mean("train", f"{NET}, n = 4", digits=4, label="error at n = 4:"), 0.05 * noise)(samples)
    later = above(mean("threshold", "n*", digits=0, label="n*:", unit="samples"), SIZES[0])(samples)
    shown = later if np.isfinite(found).all() else small
    outcome: Outcome = "holds" if small.outcome == "holds" and exists.all() else "unclear"
    note = f"n* exists in {int(exists.sum())} of {len(found)} seeds"
    return replace(shown, outcome="fails" if exists.mean() < 0.5 else outcome, note=note, parts=(small, later))


def lead_rule(samples: Samples) -> Verdict:
    """At n = 256 the excess error is at most half of the interpolator's; the note says where it is larger."""

    def to_interpolator(n: int) -> Estimator:
        a, b = f"{NET}, n = {n}", f"{KERNEL}, n = {n}"
        return per_seed(lambda s: s("excess", a) / s("excess", b), "ratio", label="to the interpolator:")

    verdict = below(to_interpolator(SIZES[-1]), 0.5, fails_above=0.9)(samples)
    worse = [str(n) for n in SIZES if to_interpolator(n)(samples).low > 1]
    note = f"worse than the interpolator at n = {', '.join(worse)}" if worse else ""
    return replace(verdict, note="; ".join(n for n in (verdict.note, note) if n))


DEMO = Demo(
    name="Optimization threshold",
    line="More noisy samples, and a small-init network stops memorising and predicts better.",
    topic="Learning theory",
    abstract="Understanding generalization of overparametrized models remains a fundamental challenge",
    paper=Paper(
        "Simplicity Bias and Optimization Threshold in Two-Layer Networks",
        "https://icml.cc/virtual/2025/poster/43957",
    ),
    settings=ThresholdSettings,
    run=run,
    measures={
        "train": Measure("Training error", "mean square", digits=4),
        "excess": Measure("Excess test error", "mean square", "lower", 4),
        "kept": Measure("Training error at n = 256, relative to the simple fit"),
        "align_early": Measure("Alignment with ±β after early training", better="higher", digits=2),
        "align_end": Measure("Alignment with ±β at the end", digits=2),
        "dirs": Measure("Directions that carry 99 % of the weight", "cones", digits=0),
        "distance": Measure("Distance to the two-piece fit", "mean square", digits=4),
        "fall": Measure("Fall of the training error over the last fifth", "share"),
        "threshold": Measure("Optimization threshold n*", "samples", digits=0),
        "noise_level": Measure("Noise σ²"),
    },
    figures=(excess_figure, training_figure, neuron_figure),
    thumbnail=thumbnail,
    claims=(
        Claim(
            quote="networks might converge towards simpler solutions rather than interpolating training data",
            says="With many samples it ends with training error, though zero can be had",
            rule=interpolation_rule,
            applies=needs_noise,
        ),
        Claim(
            quote="an optimization threshold from which interpolation is not reached anymore",
            says="There is a sample size from which interpolation stops",
            rule=threshold_rule,
            applies=needs_noise,
        ),
        Claim(
            quote="neurons align toward specific directions",
            says="Early in training the neurons turn to ±β",
            rule=above(mean("align_early", LAST, label="alignment"), 0.9),
            applies=lambda s: "" if s.teacher == "linear" else "this teacher has no two ends",
        ),
        Claim(
            quote="which leads to a drastic improvement on the test loss",
            says="Past the threshold its test error is at most half of the interpolator's",
            rule=lead_rule,
            applies=needs_noise,
        ),
    ),
    presets={
        "Break it: large initial scale": ThresholdSettings(scale=3.0),
        "No noise": ThresholdSettings(noise=0.0),
        "Teacher |βᵀx|": ThresholdSettings(teacher="absolute"),
    },
    break_it="Break it: large initial scale",
    why_it_breaks=(
        "With a large initial scale the neurons hardly turn (lazy regime), so there is no alignment, the network keeps "
        "fitting the noise and loses its lead over the interpolator."
    ),
    simplified=(
        "Gradient descent with a finite step for gradient flow; dimension at most 8; at most 2,000 steps, so small "
        "neurons may still be turning at the end (the fall of the error over the last fifth of training stands "
        "beside the first claim). The paper's study with GeLU and Adam is left out."
    ),
)
