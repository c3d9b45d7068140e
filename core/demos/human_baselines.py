r""" "Super-human" is a claim about two numbers: the model's accuracy and people's. This position paper argues that
the second is usually measured too loosely. Here its statistics are simulated.

**The world.** Person $h$ of stratum $s$ has ability $\theta_h=\mu+\text{shift}_s+sd_h\,N(0,1)$, item $i$ has
difficulty $b_i$, and $P(\text{correct})=g+(1-g)\,\sigma(\theta_h-b_i)$ with a guessing rate $g$. The true human level
$H$ is the population's mean accuracy; the AI's ability is set so that its expected accuracy is $H+\delta$ (`lead`).
With $\delta=0$ there is a tie, and every claim of superiority is false.

**A study** draws $k$ raters from a pool, gives each $q$ random items, and compares with the AI's answers to the same
items. Four ways to judge it:

- *point*: claim if the AI's mean is higher;
- *pooled*: a two-proportion interval that takes all answers as independent;
- *clustered*: with $D_{hi}=\text{AI}_i-\text{human}_{hi}$ and weights $w$, deviations $e=w(D-\bar D)$ are summed
  within raters and within items,
  $$V=\tfrac{k}{k-1}\sum_h\Big(\sum_i e\Big)^2+\tfrac{m}{m-1}\sum_i\Big(\sum_h e\Big)^2-\sum e^2,$$
  with a $t$ interval on $k-1$ degrees of freedom;
- *weighted*: the same after post-stratification to the population's shares.

**Planning.** $\mathrm{Var}(\bar D)=s_r^2/k+s_e^2/(kq)+s_i^2/M$: if the item term alone is too large, no number of
raters will do. The checklist below the figures scores a study's reporting against 115 reviewed ones. The paper has
no algorithm: simulation, scoring rule and percentiles are ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import plotly.graph_objects as go

from core.demos._human_baselines_checklist import QUANTILES, SHARES, STAGES
from core.demos._human_baselines_study import (
    CLUSTERED,
    GUESS,
    POINT,
    POOLED,
    WEIGHTED,
    human_level,
    judged,
    raters_needed,
    simulate,
)
from core.lab import charts, thumbnails
from core.lab.demo import Claim, Demo, Measure, Measures, Paper, Settings, choice, control, fixed
from core.lab.verdicts import Samples, Verdict, join, untestable, wilson_interval

ROLES = charts.roles(CLUSTERED, (POINT, POOLED, WEIGHTED))
STUDIES = 300
CURVE = (1, 3, 8, 20, 50, 100, 200)


class StudySettings(Settings):
    raters: int = control(8, "Raters k", 1, 500, log=True, unit="people")
    items: int = control(200, "Items M", 20, 2000, log=True, unit="items")
    lead: float = control(0.0, "True lead of the AI δ", -0.2, 0.3, 0.01, unit="accuracy")
    pool: Literal["representative", "crowd", "own lab"] = choice("representative", "Where raters come from")
    spread: float = control(0.8, "Spread of people", 0.0, 2.0, 0.1, unit="logits")
    each: int = fixed(50, "Items per rater", ge=1, le=2000)


@dataclass(frozen=True)
class Run:
    """Claim rates against the number of raters, forty studies' intervals, the truth."""

    curve: dict[str, list[float]]
    intervals: dict[str, tuple[np.ndarray, np.ndarray]]
    lead: float
    needed: float
    measures: Measures


def rates(s: StudySettings, n: int, rng: np.random.Generator) -> tuple[Measures, dict]:
    """Claim rate, coverage, bias and median width of each way of judging over n studies."""
    found = judged(simulate(s, n, rng))
    truth = float(np.clip(human_level(s.spread) + s.lead, GUESS + 0.005, 0.995)) - human_level(s.spread)
    measures: Measures = {"claim": {}, "coverage": {}, "bias": {}, "width": {}}
    for m, (d, half) in found.items():
        measures["claim"][m] = float(np.mean(d - half > 0))
        measures["bias"][m] = float(np.mean(d) - truth)
        if m != POINT:
            measures["coverage"][m] = float(np.mean(np.abs(d - truth) <= half))
            measures["width"][m] = float(np.median(2 * half)) if s.raters > 1 or m == POOLED else float("nan")
    return measures, found


def run(settings: StudySettings, seed: int) -> Run:
    """300 studies at the settings, and the claim rate for other numbers of raters."""
    s, rng = settings, np.random.default_rng([seed, 71])
    measures, found = rates(s, STUDIES, rng)
    curve: dict[str, list[float]] = {m: [] for m in ROLES}
    for k in CURVE:
        there, _ = rates(s.replace(raters=k), 60 if k >= 100 else 150, rng)
        for m in ROLES:
            curve[m].append(there["claim"][m])
    forty = {m: (found[m][0][:40], found[m][1][:40]) for m in (POOLED, CLUSTERED)}
    measures["lead"] = {"δ": s.lead}
    return Run(
        curve, forty, s.lead, raters_needed(s.spread, s.lead, s.items, s.each) if s.lead > 0 else np.inf, measures
    )


def crowd_probe(settings: StudySettings, seed: int) -> Measures:
    """A tie judged by 200 crowd workers, with and without weights."""
    crowd = settings.replace(pool="crowd", raters=200, lead=0.0)
    found, _ = rates(crowd, 100, np.random.default_rng([seed, 72]))
    return {"crowd_claim": {m: found["claim"][m] for m in (CLUSTERED, WEIGHTED)}}


# --- figures ------------------------------------------------------------------------------------------


def intervals_figure(run: Run) -> go.Figure:
    """Orange intervals miss the truth (dotted). Forty studies of the same question, sorted by their estimate:
    answers taken as independent on the left, raters and items respected on the right."""
    fig = charts.panels([POOLED, CLUSTERED], x="AI − people (accuracy)", height=400)
    for col, (d, half) in enumerate(run.intervals.values(), 1):
        order = np.argsort(d)
        d, half = d[order], np.minimum(half[order], 1.0)
        wrong = np.abs(d - run.lead) > half
        for bad, colour, name in (
            (False, charts.MARK["method"], "covers the truth"),
            (True, charts.FAIL, "misses the truth"),
        ):
            rows = np.flatnonzero(wrong == bad)
            fig.add_scatter(
                x=d[rows],
                y=rows,
                mode="markers",
                name=name,
                row=1,
                col=col,
                hovertemplate="%{x:.3f}<extra></extra>",
                marker={"size": 5, "color": colour},
                error_x={"type": "data", "array": half[rows], "color": colour, "thickness": 1.6, "width": 0},
            )
        fig.add_vline(
            x=run.lead, line={"color": charts.MARK["oracle"], "dash": "dot", "width": 1.6}, row=1, col=col
        )
    fig.update_yaxes(showgrid=False, tickvals=[])
    fig.update_xaxes(matches="x")
    return fig


def claims_figure(run: Run) -> go.Figure:
    """How often would a study claim that the AI is better? At a tie every claim is false and an honest rule stays
    near 2.5 %, however few the raters; above a tie the same curve is the rule's power."""
    fig = charts.blank("Raters k (log scale)", "Studies that claim “super-human” (share)", log_x=True)
    for m, role in ROLES.items():
        charts.line(fig, m, np.array(CURVE), np.array(run.curve[m]), role, markers=m == CLUSTERED)
    if run.lead == 0:
        charts.level(fig, 0.025, "2.5 %")
    fig.update_xaxes(tickvals=CURVE, ticktext=[str(k) for k in CURVE])
    fig.update_yaxes(range=[-0.03, 1.03], tickformat=".0%")
    if run.lead > 0:
        text = (
            "no number of raters is enough, only more items"
            if np.isinf(run.needed)
            else f"80 % power needs {run.needed:.0f} raters"
        )
        fig.add_annotation(
            x=0.02,
            y=0.9,
            xref="paper",
            yref="paper",
            text=text,
            showarrow=False,
            xanchor="left",
            font={"size": 13, "color": charts.SOFT},
        )
    charts.end_labels(fig)
    return fig


def checklist_figure(run: Run) -> go.Figure:
    """What published studies report: share of 115 human baselines that fulfil each stage of the checklist. Counts
    from the paper, not computed here; dots are single items."""
    fig = charts.blank("Studies that fulfil an item (%)", height=280)
    for stage, items in STAGES.items():
        values = [SHARES[i] for i in items]
        fig.add_scatter(
            x=values,
            y=[stage] * len(values),
            mode="markers",
            name=stage,
            text=list(items.values()),
            hovertemplate="%{text}: %{x} %<extra></extra>",
            marker={"size": 8, "color": charts.MARK["oracle"], "opacity": 0.7},
        )
        fig.add_scatter(
            x=[np.mean(values)],
            y=[stage],
            mode="markers",
            name=f"{stage}, mean",
            marker={"size": 14, "color": charts.MARK["method"]},
            hovertemplate="mean %{x:.0f} %<extra></extra>",
        )
    fig.update_yaxes(autorange="reversed", type="category", tickfont={"color": charts.INK})
    fig.update_xaxes(range=[0, 100])
    fig.add_annotation(
        x=1,
        y=0,
        xref="paper",
        yref="paper",
        xanchor="right",
        yanchor="bottom",
        showarrow=False,
        text=f"median total score {QUANTILES[0.5]:.2f} of 1",
        font={"size": 13, "color": charts.SOFT},
    )
    return fig


def thumbnail(run: Run) -> str:
    d, half = (v[:20] for v in run.intervals[POOLED])
    order = np.argsort(d)
    body = '<line x1="150" x2="150" y1="6" y2="122" stroke="#8a8f94" stroke-dasharray="3 3"/>'
    for row, i in enumerate(order):
        y, low, high = (
            9 + 5.8 * row,
            150 + 420 * (d[i] - half[i] - run.lead),
            150 + 420 * (d[i] + half[i] - run.lead),
        )
        style = 'stroke="#D55E00"' if abs(d[i] - run.lead) > half[i] else 'class="s-method"'
        body += f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{y:.1f}" y2="{y:.1f}" stroke-width="2.6" {style}/>'
    return thumbnails.svg(body)


# --- claims -------------------------------------------------------------------------------------------


def pooled_share(samples: Samples, measure: str, method: str, trials: int = STUDIES, label: str = ""):
    """A rate over all studies of all seeds with Wilson's interval."""
    values = samples(measure, method)
    return wilson_interval(float(values.sum() * trials), trials * len(values), label=label, digits=3)


def false_claims(method: str):
    """Holds if the rule claims superiority at a tie in more than 5 % of the studies."""

    def rule(samples: Samples) -> Verdict:
        if samples("lead", "δ")[0] > 0:
            return Verdict("untestable", note="the AI really is ahead at these settings")
        e = pooled_share(samples, "claim", method, label="false claims:")
        return Verdict("holds" if e.low > 0.05 else "fails" if e.high < 0.05 else "unclear", e, 0.05)

    return rule


def crowd_rule(samples: Samples) -> Verdict:
    """Crowd workers bias the comparison, and weights cure it."""
    plain = pooled_share(samples, "crowd_claim", CLUSTERED, 100, "200 crowd workers:")
    cured = pooled_share(samples, "crowd_claim", WEIGHTED, 100, "weighted:")
    first = Verdict("holds" if plain.low > 0.10 else "fails" if plain.high < 0.10 else "unclear", plain, 0.10)
    second = Verdict("holds" if cured.high < 0.06 else "fails" if cured.low > 0.06 else "unclear", cured, 0.06)
    return join([first, second])


def coverage_rule(samples: Samples) -> Verdict:
    """The clustered interval covers as it says, the pooled one does not."""
    ours = pooled_share(samples, "coverage", CLUSTERED, label="clustered coverage:")
    theirs = pooled_share(samples, "coverage", POOLED, label="pooled coverage:")
    first = "holds" if ours.high >= 0.95 and ours.low > 0.93 else "fails" if ours.high < 0.93 else "unclear"
    second = "holds" if theirs.high < 0.93 else "fails" if theirs.low > 0.93 else "unclear"
    return join([Verdict(first, ours, 0.93), Verdict(second, theirs, 0.93)])  # type: ignore[arg-type]


DEMO = Demo(
    name="Human baselines",
    line="Eight raters, one tie, and half of all studies shout “super-human”.",
    topic="Evaluation",
    abstract="In this position paper, we argue that human baselines",
    paper=Paper(
        "Position: Human Baselines in Model Evaluations Need Rigor and Transparency",
        "https://icml.cc/virtual/2025/poster/40115",
        "https://github.com/kevinlwei/human-baselines",
    ),
    settings=StudySettings,
    run=run,
    measures={
        "claim": Measure("Studies that claim superiority", "share"),
        "coverage": Measure("Coverage of the 95 % interval", "share"),
        "bias": Measure("Bias of the estimate", "accuracy", "lower"),
        "width": Measure("Median width of the interval", "accuracy", "lower"),
        "lead": Measure("True lead of the AI", "accuracy", digits=2),
        "crowd_claim": Measure("False claims with 200 crowd workers", "share", "lower"),
    },
    figures=(intervals_figure, claims_figure, checklist_figure),
    thumbnail=thumbnail,
    claims=(
        Claim(
            quote='Models are often claimed to achieve "super-human" performance',
            says="Comparing two means calls a tie super-human far too often (half the time, by symmetry)",
            rule=false_claims(POINT),
        ),
        Claim(
            quote="existing baselining methods are neither sufficiently rigorous",
            says="So does an interval that takes all answers as independent",
            rule=false_claims(POOLED),
        ),
        Claim(
            quote="derive a framework with recommendations for designing, executing, and reporting human baselines",
            says="An ill-chosen pool misleads even with 200 raters; weighting cures it",
            rule=crowd_rule,
            probe=crowd_probe,
        ),
        Claim(
            quote="more rigorous and more transparent to enable meaningful comparisons of human vs. AI performance",
            says="An interval that respects raters and items covers the truth as it says",
            rule=coverage_rule,
        ),
        Claim(
            quote="systematically review 115 human baselines (studies) in foundation model evaluations",
            says="Published studies fall short of the checklist",
            rule=untestable("a count taken from the paper's table, shown but not computed here"),
        ),
    ),
    presets={
        "Crowd, many raters": StudySettings(pool="crowd", raters=200),
        "Break it: twenty points ahead": StudySettings(lead=0.2),
        "No differences between people": StudySettings(spread=0.0),
    },
    break_it="Break it: twenty points ahead",
    why_it_breaks=(
        "With a lead of twenty points every rule finds it, so careful intervals change the conclusion of hardly any study."
    ),
    simplified=(
        "Simulated people and items, one accuracy metric, no cheating, fatigue or prompt effects; strata are known "
        "without error; the AI answers once per item. 300 studies per seed. Shares and quantiles of the 115 studies "
        "are counts from the paper; the items of the checklist are paraphrased."
    ),
    extra="checklist",
)
