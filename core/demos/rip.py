r"""A model is trained on preferences: for every prompt $x$ it samples $N$ answers, a reward model $r$ scores them, and
the best answer $y_w=\arg\max r$ is set against the worst, $y_l=\arg\min r$. Which prompts are worth training on?

**RIP** judges a prompt by its answers. If the prompt is poor, the argument goes, the worst answer is poor too, and
far from the best one. So RIP keeps $x$ if and only if

$$r(x,y_l)\ge\tau_1,\qquad \mathrm{len}(y_l)\ge\tau_2,\qquad r(x,y_w)-r(x,y_l)\le\tau_3 .$$

Each $\tau$ is a quantile over all prompts (`reward_quantile`, `length_quantile`, `gap_quantile`). Note the third: the
gap must be *small*.

**Training** on the survivors is DPO. With the sampling policy $\pi_0$ and $\sigma$ the logistic function, the loss of a
pair is $-\log\sigma(m)$ with the margin

$$m=\beta\Big[\log\tfrac{\pi(y_w|x)}{\pi_0(y_w|x)}-\log\tfrac{\pi(y_l|x)}{\pi_0(y_l|x)}\Big].$$

**The small world.** A prompt is a strip of four handwritten digits $x_1,\dots,x_4$, an answer names each digit or skips
it; $\mathrm{len}$ counts what is not skipped. The policy is $\pi(y|x)=\prod_j\mathrm{softmax}(x_jW)_{y_j}$, so its
normalisers cancel in $m$: with one-hot tokens $e_y$ and $\Delta_j=e_{y_{w,j}}-e_{y_{l,j}}$ (`contrast`),

$$m=\beta\sum_j x_j(W-W_0)\Delta_j^\top,\qquad
\nabla_W=-\frac{\beta}{B}\sum_{x}\sigma(-m)\sum_jx_j^\top\Delta_j$$

over batches of $B$ prompts. If best and worst are the same answer, $\Delta=0$ and the pair teaches nothing. Some
prompts are made poor: *noise* hides the digits, a *blend* is the mean of two strips. Nobody is told which.

**Compared** at the same number of prompts: a random choice; the prompts whose best answer has the least *perplexity*
under $\pi_0$; those whose best answer gains least from the prompt (*IFD*: its loss given the prompt minus that from
token frequencies); most *similarity* between the $N$ answers; highest *chosen reward* $r(x,y_w)$; and an *oracle* that
takes clean prompts. Every policy trains equally long and is then compared with $\pi_0$ on clean test strips by counting
right digits, not by the reward model, which it learns to please.

The three tests and their direction are the paper's. The quantiles and the world are ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
from sklearn.metrics import roc_auc_score, roc_curve

from core.demos._rip_pictures import draw_corner, draw_prompts, examples, spelled
from core.demos._rip_policy import LENGTH, SKIP, TOKENS, sample, train
from core.demos._rip_rivals import (
    CHANCE,
    CHOSEN,
    EVERY,
    IFD,
    ORACLE,
    PERPLEXITY,
    RIP,
    SIMILARITY,
    kept_sets,
)
from core.demos._rip_world import BLEND, CLEAN, NOISE, make_world
from core.lab import charts
from core.lab import demo as lab
from core.lab.demo import Claim, Demo, Measure, Measures, Paper, across_seeds, control, fixed
from core.lab.verdicts import Samples, above, all_of, difference, mean, number

START, TESTS = "before training", 500
ROLES = charts.roles(RIP, (EVERY, CHANCE, PERPLEXITY, IFD, SIMILARITY, CHOSEN), ORACLE)
REJECTED, SHORT, GAP = "rejected reward", "rejected length", "gap"
KINDS = (CLEAN, BLEND, NOISE)
USEFUL_AUC, CLEANER, BETTER = 0.6, 0.1, 0.01
"""Least AUC of a signal of practical use, gain in the share of clean prompts, gain in win rate."""


class Settings(lab.Settings):
    low_share: float = control(0.5, "Share of low-quality prompts", 0, 0.9, 0.05, help="Half noise, half blends.")
    reward_quantile: float = control(0.5, "Reward quantile τ₁", 0, 0.9, 0.05, help="0 keeps any worst answer.")
    length_quantile: float = control(0.25, "Length quantile τ₂", 0, 0.75, 0.05, help="0 keeps any length.")
    gap_quantile: float = control(0.5, "Gap quantile τ₃", 0.1, 1, 0.05, help="1 keeps any gap.")
    beta: float = control(0.5, "DPO strength β", 0.05, 2, log=True, help="Small: the policy may go far from π₀.")
    samples: int = fixed(8, "Answers sampled per prompt N", ge=1, le=64)
    prompts: int = fixed(2000, "Prompts", ge=2, le=20_000)
    temperature: float = fixed(0.6, "Temperature of sampling", ge=1e-3, le=10)


# --- the method -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pairs:
    """Best and worst answer (n, LENGTH) of each prompt, their rewards (n,), and the rejected length (n,)."""

    best: np.ndarray
    worst: np.ndarray
    best_reward: np.ndarray
    worst_reward: np.ndarray

    @property
    def length(self) -> np.ndarray:
        return (self.worst != SKIP).sum(axis=-1)

    @property
    def gap(self) -> np.ndarray:
        return self.best_reward - self.worst_reward

    @property
    def contrast(self) -> np.ndarray:
        """Δ (n, LENGTH, TOKENS): one-hot best minus one-hot worst."""
        one_hot = np.eye(TOKENS)
        return one_hot[self.best] - one_hot[self.worst]

    @property
    def signals(self) -> dict[str, np.ndarray]:
        """What may tell a clean prompt, larger being better."""
        return {REJECTED: self.worst_reward, SHORT: self.length, GAP: -self.gap, CHOSEN: self.best_reward}


def pair(answers: np.ndarray, rewards: np.ndarray) -> Pairs:
    """Best against worst of N answers (N, n, LENGTH) with rewards (N, n); the first one if several tie."""
    if not len(answers):
        raise ValueError("samples must be at least 1, not 0")
    prompt, best, worst = np.arange(rewards.shape[1]), rewards.argmax(axis=0), rewards.argmin(axis=0)
    return Pairs(answers[best, prompt], answers[worst, prompt], rewards[best, prompt], rewards[worst, prompt])


def thresholds(pairs: Pairs, reward_quantile: float, length_quantile: float, gap_quantile: float) -> np.ndarray:
    """τ₁, τ₂, τ₃ as quantiles over the pool."""
    asked = {
        "reward_quantile": (pairs.worst_reward, reward_quantile),
        "length_quantile": (pairs.length, length_quantile),
        "gap_quantile": (pairs.gap, gap_quantile),
    }
    for name, (_, q) in asked.items():
        if not 0 <= q <= 1:
            raise ValueError(f"{name} must be in 0…1, not {q:g}")
    return np.array([np.quantile(values, q) for values, q in asked.values()])


def survivors(pairs: Pairs, tau: np.ndarray) -> np.ndarray:
    """Which prompts RIP keeps (n,); `ValueError` if none."""
    keep = (pairs.worst_reward >= tau[0]) & (pairs.length >= tau[1]) & (pairs.gap <= tau[2])
    if not keep.any():
        raise ValueError(
            "thresholds keep no prompt: lower reward_quantile or length_quantile, or raise gap_quantile"
        )
    return keep


# --- one run --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    pairs: Pairs
    kind: np.ndarray
    """true kind of each prompt (n,), known to nobody but the figures, the oracle and the measures"""
    tau: np.ndarray
    kept: np.ndarray
    """which prompts RIP keeps (n,)"""
    shown: np.ndarray
    """indices of prompts for the picture"""
    strips: np.ndarray
    """their pixels (…, 8, 32)"""
    measures: Measures


def run(settings: Settings, seed: int) -> Run:
    """Sample, judge and filter the prompts; train on every filter's choice; count right digits."""
    s = settings
    for_world, for_answers, for_sets, for_batches, for_test = (
        np.random.default_rng(k) for k in np.random.SeedSequence(seed).spawn(5)
    )
    world = make_world(for_world, s.prompts, s.low_share, TESTS)
    uniform = for_answers.random((s.samples, s.prompts, LENGTH))
    answers = sample(world.start, world.pool, uniform, s.temperature)
    rewards = np.take_along_axis(world.table[None], answers[..., None], axis=-1)[..., 0].mean(axis=-1)
    pairs = pair(answers, rewards)
    tau = thresholds(pairs, s.reward_quantile, s.length_quantile, s.gap_quantile)
    kept = survivors(pairs, tau)
    sets = kept_sets(world, pairs.best, pairs.best_reward, answers, kept, for_sets)
    policies = {START: world.start} | train(world.start, world.pool, pairs.contrast, sets, s.beta, for_batches)
    uniform = for_test.random(world.truth.shape)
    right = {
        m: (sample(w, world.test, uniform, s.temperature) == world.truth).sum(axis=-1) for m, w in policies.items()
    }
    clean = world.kind == CLEAN
    measures: Measures = {
        "win_rate": {m: float((1 + np.sign(right[m] - right[START])).mean() / 2) for m in sets},
        "accuracy": {m: float(r.mean() / LENGTH) for m, r in right.items()},
        "good_share": {m: float(clean[indices].mean()) for m, indices in sets.items()},
        "idle_share": {m: float((pairs.gap[indices] == 0).mean()) for m, indices in sets.items()},
        "kept_share": {RIP: float(kept.mean())},
        "auc": {m: auc(clean, signal) for m, signal in pairs.signals.items()},
        "rejected_reward": {k: average(pairs.worst_reward[world.kind == k]) for k in KINDS},
        "gap": {k: average(pairs.gap[world.kind == k]) for k in KINDS},
    }
    shown = examples([np.flatnonzero(world.kind == k) for k in KINDS], kept)
    pixels = world.pool[shown, :, :-1].reshape(-1, LENGTH, 8, 8)
    strips = pixels.transpose(0, 2, 1, 3).reshape(-1, 8, 8 * LENGTH)
    return Run(pairs, world.kind, tau, kept, shown, strips, measures)


def auc(clean: np.ndarray, signal: np.ndarray) -> float:
    """Area under the ROC curve of a signal for "clean"; NaN if all prompts are of one sort."""
    return float(roc_auc_score(clean, signal)) if 0 < clean.sum() < len(clean) else float("nan")


def average(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else float("nan")


# --- figures --------------------------------------------------------------------------------------------------


@across_seeds
def filters_figure(run: Run, samples: Samples | None) -> go.Figure:
    """A cleaner choice of prompts (left) pays only if the model trained on it wins more often (right).

    Clean share of the prompts kept, and win rate on clean test strips against the policy before training, ties
    counting half (dotted: no gain). With 95 % intervals over seeds.
    """
    fig = charts.panels(["clean share", "win rate"])
    for column, measure in enumerate(("good_share", "win_rate"), 1):
        values = run.measures[measure]
        found = {m: charts.interval_of(samples, measure, m, values[m]) for m in ROLES if m in values}
        charts.dots(fig, found, ROLES, row=1, col=column)
        low, high = min(v[1] for v in found.values()), max(v[2] for v in found.values())
        low, high = (0.0, 1.0) if measure == "good_share" else (min(low, 0.5), max(high, 0.5))
        for name, (value, _, end) in found.items():
            text = f"<b>{value:.2f}</b>" if name == RIP else f"{value:.2f}"
            place: Any = {"x": end, "y": name, "xanchor": "left", "xshift": 9, "row": 1, "col": column}
            font = {"size": 13, "color": charts.TEXT[ROLES[name]]}
            fig.add_annotation(text=text, font=font, showarrow=False, **place)
        span = high - low
        fig.update_xaxes(range=[low - 0.06 * span, high + 0.4 * span], nticks=5, row=1, col=column)
    fig.add_vline(x=0.5, line={"color": charts.MARK["oracle"], "width": 1.6, "dash": "dot"}, row=1, col=2)
    fig.update_xaxes(tickvals=[0, 0.5, 1], row=1, col=1)
    return fig


def corner_figure(run: Run) -> go.Figure:
    """RIP keeps the blue prompts: their worst answer scores high enough and near enough to their best.

    One point a prompt; a panel, with the share kept, for each true kind, which RIP does not know. Shaded: where
    reward and gap pass; grey points in it have too short a worst answer.
    """
    present = [k for k in KINDS if (run.kind == k).any()]
    titles = [f"{k}: {run.kept[run.kind == k].mean():.0%}" for k in present]
    fig = charts.panels(titles, y="gap to the best answer")
    worst, gap = run.pairs.worst_reward, run.pairs.gap
    low, top = worst.min() - 0.2, gap.max() * 1.05 + 0.05
    for column, k in enumerate(present, 1):
        for kept, colour, name in (
            (False, charts.MARK["oracle"], "dropped"),
            (True, charts.MARK["method"], "kept"),
        ):
            here = (run.kind == k) & (run.kept == kept)
            marker = {"size": 4, "color": colour, "opacity": 0.6 if kept else 0.3}
            place: Any = {"row": 1, "col": column, "name": f"{k}, {name}"}
            fig.add_scatter(x=worst[here], y=gap[here], mode="markers", marker=marker, **place)
        corner: Any = {"x0": run.tau[0], "x1": 0.15, "y0": -0.03 * top, "y1": run.tau[2]}
        fill = charts.tint(charts.MARK["method"], 0.12)
        fig.add_shape(type="rect", line={"width": 0}, fillcolor=fill, layer="below", **corner, row=1, col=column)
    fig.update_yaxes(range=[-0.03 * top, top], title_font_size=charts.FONT_SIZE)
    fig.update_xaxes(range=[low, 0.15], nticks=4, title_text="")
    return fig.update_xaxes(title_text="reward of the worst answer", col=(len(present) + 1) // 2)


def prompts_figure(run: Run) -> go.Figure:
    """A prompt is kept or dropped by what the policy answers to it, never by how it looks.

    The best and the worst of the sampled answers (– is a skip) with their rewards. Dropped for the first test that
    the prompt fails: the worst answer is too poor or too short, or the gap too wide.
    """
    tau, pairs = run.tau, run.pairs
    texts = []
    for i in run.shown:
        failed = {
            "too poor": pairs.worst_reward[i] < tau[0],
            "too short": pairs.length[i] < tau[1],
            "wide gap": pairs.gap[i] > tau[2],
        }
        reason = next((text for text, bad in failed.items() if bad), "")
        texts.append(
            (
                f"{run.kind[i]}: " + (f"dropped, {reason}" if reason else "<b>kept</b>"),
                f"best: {spelled(pairs.best[i])} ({number(pairs.best_reward[i])})",
                f"worst: {spelled(pairs.worst[i])} ({number(pairs.worst_reward[i])})",
            )
        )
    return draw_prompts(run.strips, texts, run.kept[run.shown])


def roc_figure(run: Run) -> go.Figure:
    """The further a curve bends to the upper left, the better its signal tells clean prompts from the others.

    Share of clean prompts found against share of low-quality ones let through, as the threshold moves. The number
    is the area under the curve (AUC); a useless signal has 0.5 (dotted).
    """
    clean = run.kind == CLEAN
    mixed = 0 < clean.sum() < len(clean)
    titles = [f"{m}: {f'{v:.2f}' if mixed else 'all clean'}" for m, v in run.measures["auc"].items()]
    fig = charts.panels(titles, "others let through", "clean found", rows=2, height=460)
    for i, (name, signal) in enumerate(run.pairs.signals.items()):
        place: Any = {"row": 1 + i // 2, "col": 1 + i % 2}
        charts.line(fig, "no use", np.array([0, 1]), np.array([0, 1]), "oracle", end_label=False, **place)
        if mixed:
            passed, found, _ = roc_curve(clean, signal)
            charts.line(fig, name, passed, found, ROLES.get(name, "method"), **place)
    fig.update_xaxes(range=[-0.02, 1.02], tickvals=[0, 0.5, 1])
    return fig.update_yaxes(range=[-0.02, 1.04], tickvals=[0, 0.5, 1], title_font_size=charts.FONT_SIZE)


def thumbnail(run: Run) -> str:
    """Prompts by reward of the worst answer and gap, coloured by true kind; the kept corner shaded."""
    some = slice(0, 400)  # the pool is in random order
    points = np.stack([run.pairs.worst_reward, run.pairs.gap], axis=1)[some]
    colours: dict[str, charts.Role] = {CLEAN: "method", BLEND: "baseline1", NOISE: "baseline2"}
    return draw_corner(points, [colours[k] for k in run.kind[some]], (run.tau[0], run.tau[2]))


# --- claims ---------------------------------------------------------------------------------------------------


def tells(signal: str):
    """Whether a signal tells clean prompts well enough to be of use."""
    return above(mean("auc", signal, label=f"AUC of {signal}:"), USEFUL_AUC)


def gains(rival: str):
    """Whether training on RIP's prompts wins more often than training on a rival's."""
    return above(difference("win_rate", RIP, rival, label=f"against {rival}:", digits=3), BETTER)


def all_clean(settings: Settings) -> str:
    """Why there are no low-quality prompts to find, or ""."""
    return "" if settings.low_share > 0 else "every prompt is clean here"


DEMO = Demo(
    name="RIP",
    line="Prompts survive only if even their worst sampled answer scores well.",
    topic="Language models",
    abstract="Training data quality is one of the most important drivers",
    paper=Paper(
        "R.I.P.: Better Models by Survival of the Fittest Prompts", "https://icml.cc/virtual/2025/poster/44431"
    ),
    settings=Settings,
    run=run,
    measures={
        "win_rate": Measure("Win rate against the policy before training", better="higher"),
        "accuracy": Measure("Right digits on clean test strips", better="higher"),
        "good_share": Measure("Clean prompts among the kept", better="higher", digits=2),
        "idle_share": Measure("Kept prompts without a gap, which teach nothing", digits=2),
        "kept_share": Measure("Share of prompts kept", digits=2),
        "auc": Measure("AUC of a signal for clean prompts", better="higher"),
        "rejected_reward": Measure("Reward of the worst answer", "nats", digits=2),
        "gap": Measure("Gap between best and worst answer", "nats", digits=2),
    },
    figures=(filters_figure, corner_figure, prompts_figure, roc_figure),
    thumbnail=thumbnail,
    claims=(
        Claim(
            "low-quality input prompts result in high variance and low quality responses",
            "Both the reward of the worst answer and the gap to the best one tell clean prompts from others",
            all_of(tells(REJECTED), tells(GAP)),
            applies=all_clean,
        ),
        Claim(
            "can be used to filter prompts from existing training sets",
            "What RIP keeps is cleaner than the pool, by at least 0.1",
            above(difference("good_share", RIP, EVERY, label="clean prompts:"), CLEANER),
            applies=all_clean,
        ),
        Claim(
            "yielding large performance gains across various benchmarks compared to unfiltered data",
            "Training on RIP's prompts wins more often than training on all, or on as many random ones",
            all_of(gains(EVERY), gains(CHANCE)),
        ),
    ),
    presets={
        "Break it: all prompts good": Settings(low_share=0.0),
        "Over-optimised": Settings(beta=0.1),
    },
    break_it="Break it: all prompts good",
    why_it_breaks="When every prompt is good, filtering only throws away the ones with something left to learn.",
    simplified="Strips of four 8×8 digits and answers of four tokens instead of instructions and text: a log-linear "
    "policy of 715 weights, 2,000 prompts, 8 answers each, 150 DPO steps; the paper filters about 20,000 prompts for "
    "Llama models of 8 and 70 billion weights. Length is the number of answered positions. Neither the quantiles nor "
    "any rival was tuned; every filter keeps as many prompts as RIP and trains as many steps (the oracle has fewer "
    "prompts where there are not as many clean ones). Similarity counts equal tokens instead of Jaccard's index. No "
    "model as a judge of prompts, no InsTag, and no Self-RIP, the writing of new prompts.",
    seeds=16,
)
