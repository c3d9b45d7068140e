r"""A coreset is a small weighted set of rows that stands in for all of them. Here the cost forgives outliers:
for rows $a_1,\dots,a_n\in\mathbb R^d$ and $F_i(x)=(a_i^\top x)^2$ the *robust* cost

$$F^{(m)}(x)=\sum_i F_i(x)-\text{the } m \text{ largest terms}$$

drops the $m$ worst rows (`ignored`), and which rows are worst depends on $x$. Regression is the case
$a_i=(\text{features},\text{target})$, $x=(\beta,-1)$.

**What must be kept.** The sensitivity of row $i$ within a set $S$ is its leverage score
$\sigma_i(S)=\sup_x F_i(x)/\sum_{j\in S}F_j(x)=a_i^\top(A_S^\top A_S)^{+}a_i$. Leverage in the full data is
useless: a few outliers make every other heavy row look light. But deal the rows at random into about $2m$
groups. With constant probability the $m$ worst rows of a given $x$ miss a row's group, and a row that could
carry a share $\epsilon/m$ of $F^{(m)}$ then shows a leverage of about $\epsilon$ *inside its group*.

**The construction.** For $R$ rounds, shuffle the rows into groups and mark every row with in-group leverage
at least $\epsilon/(1+\epsilon)$. The marked rows $H$ stay with weight 1; each group has at most $T/\epsilon$ of
them ($T=\sum_i\sigma_i\le d$), so $|H|=\tilde O(mT/\epsilon)$. No row outside $H$ matters much even if it is
among the dropped, so the rest is sampled: $s$ rows with probability $p_j$, half by leverage and half
uniform, each with weight $1/(s\,p_j)$.

**Trimming by weight.** On the coreset not $m$ rows but weight $m$ is dropped from the top, the last row
fractionally: the kept weight is $\mathrm{clip}(\mathrm{cumsum}(w)-m,\,0,\,w)$.

The paper's abstract states size and guarantee; the random groups are our reading of how to reach them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import numpy as np
import plotly.graph_objects as go
from pydantic import model_validator

from core.demos._robust_coresets_rows import (
    Coreset,
    group_leverage,
    leverage,
    load,
    queries,
    robust_coreset,
    robust_cost,
    sensitivity_sample,
    trimmed_fit,
)
from core.lab import charts, thumbnails
from core.lab.demo import Claim, Demo, Measure, Measures, Paper, Settings, choice, control, fixed
from core.lab.verdicts import Rule, Samples, Verdict, all_of, below, in_seeds, mean, ratio

ROBUST, UNIFORM, SENSITIVITY = "robust coreset", "uniform sample", "plain sensitivity"
ROLES = charts.roles(ROBUST, (UNIFORM, SENSITIVITY))
LAW_M, LAW_EPS = (5, 10, 20, 40), (0.15, 0.3, 0.6)


class CoresetSettings(Settings):
    data: Literal["breast_cancer", "digits", "synthetic", "power_law"] = choice(
        "breast_cancer", "Rows", labels={"breast_cancer": "breast cancer", "power_law": "power law"}
    )
    ignored: int = control(5, "Outliers ignored m", 1, 40, 1, unit="rows")
    epsilon: float = control(0.3, "Allowed error ε", 0.1, 0.8, 0.05)
    sampled: int = control(80, "Sampled rows s", 20, 400, 10, unit="rows")
    planted: int = control(5, "Planted outliers", 0, 40, 1, unit="rows")
    rare: int = fixed(80, "Rows with a rare feature (synthetic)", ge=0, le=5000)
    rounds: int = fixed(12, "Rounds of random groups", ge=1, le=100)

    @model_validator(mode="after")
    def _fits(self):
        if self.ignored >= len(load(self.data, 0, self.rare)):
            raise ValueError("ignored: fewer rows than the data has")
        return self


@dataclass(frozen=True)
class Run:
    """Errors per query by method, and what the groups saw."""

    errors: dict[str, np.ndarray]
    full_leverage: np.ndarray
    group_leverage: np.ndarray
    epsilon: float
    law: dict[float, list[int]]
    measures: Measures


def run(settings: CoresetSettings, seed: int) -> Run:
    """Build the three samples of equal size and compare their robust costs with the full data's."""
    s = settings
    rng = np.random.default_rng(seed)
    rows = load(s.data, seed, s.rare).copy()
    rows[rng.choice(len(rows), s.planted, replace=False)] = 30 * rng.normal(size=(s.planted, rows.shape[1]))
    grouped = group_leverage(rows, s.ignored, s.rounds, rng)
    heavy = grouped >= s.epsilon / (1 + s.epsilon)
    sets = {ROBUST: robust_coreset(rows, heavy, s.sampled, rng)}
    size = len(sets[ROBUST].rows)
    uniform = rng.choice(len(rows), min(size, len(rows)), replace=False)
    sets[UNIFORM] = Coreset(uniform, np.full(len(uniform), len(rows) / len(uniform)))
    sets[SENSITIVITY] = sensitivity_sample(rows, np.arange(len(rows)), size, rng)
    if size == len(rows):  # no compression: nothing to compare at this size
        sets[UNIFORM] = sets[SENSITIVITY] = sets[ROBUST]
    ones = np.ones(len(rows))
    best = trimmed_fit(rows, ones, s.ignored, rng)
    x = queries(rows, s.ignored, best, rng)
    truth = robust_cost((rows @ x) ** 2, ones, s.ignored)
    defined = truth > 0
    if not defined.any():
        raise ValueError("ignored: the robust cost is 0 for every query, so relative errors are not defined")
    x, truth = x[:, defined], truth[defined]
    errors, fits = {}, {}
    optimum = robust_cost(((rows @ best) ** 2)[:, None], ones, s.ignored)[0]
    for name, c in sets.items():
        part = rows[c.rows]
        errors[name] = np.abs(robust_cost((part @ x) ** 2, c.weights, s.ignored) / truth - 1)
        found = trimmed_fit(part, c.weights, s.ignored, rng)
        fits[name] = float(robust_cost(((rows @ found) ** 2)[:, None], ones, s.ignored)[0] / optimum)
    measures: Measures = {
        "max_error": {n: float(e.max()) for n, e in errors.items()},
        "mean_error": {n: float(e.mean()) for n, e in errors.items()},
        "fit": fits,
        "size": {ROBUST: float(size), "all rows": float(len(rows))},
        "kept": {ROBUST: float(heavy.sum())},
        "allowed": {"ε": s.epsilon},
    }
    law = {e: [size_law(m, e, seed) for m in LAW_M] for e in LAW_EPS}
    return Run(errors, leverage(rows), grouped, s.epsilon, law, measures)


@lru_cache(maxsize=32)
def _law_groups(ignored: int, seed: int) -> np.ndarray:
    rows = load("power_law", seed)
    return group_leverage(rows, ignored, 12, np.random.default_rng([seed, ignored]))


def size_law(ignored: int, epsilon: float, seed: int) -> int:
    """|H| on the power law without planted rows."""
    return int((_law_groups(ignored, seed) >= epsilon / (1 + epsilon)).sum())


def size_law_probe(settings: CoresetSettings, seed: int) -> Measures:
    """Log-log slope of |H| in m for each ε, and |H| against m·T/ε, always on the power law."""
    slopes, loads = {}, {}
    for e in LAW_EPS:
        kept = np.array([size_law(m, e, seed) for m in LAW_M], dtype=float)
        slopes[f"ε = {e:g}"] = float(np.polyfit(np.log(LAW_M), np.log(kept), 1)[0])
        loads[f"ε = {e:g}"] = float((kept / (np.array(LAW_M) * 6 / e)).max())
    return {"law_slope": slopes, "law_load": loads}


def unplanted_probe(settings: CoresetSettings, seed: int) -> Measures:
    """Maximal errors on breast_cancer as it is, no planted rows: the real-data comparison."""
    real = CoresetSettings(epsilon=settings.epsilon)
    found = run(real.replace(planted=0), seed).measures
    return {"real_max_error": found["max_error"]}


# --- figures ------------------------------------------------------------------------------------------


def error_figure(run: Run) -> go.Figure:
    """The robust coreset stays under the allowed error ε for every direction asked. Each line sorts the
    relative errors of one sample over all queries; the three samples have the same number of rows."""
    fig = charts.blank(
        "Queries x, sorted by error (share)", "Relative error of the robust cost (log scale)", log_y=True
    )
    for name, errors in run.errors.items():
        share = np.arange(1, len(errors) + 1) / len(errors)
        charts.line(fig, name, share, np.maximum(np.sort(errors), 1e-6), ROLES[name])
    charts.end_labels(fig)
    charts.level(fig, run.epsilon, "allowed: ε")
    fig.update_xaxes(tickformat=".0%")
    return fig


def leverage_figure(run: Run) -> go.Figure:
    """Rows that look light in the full data turn out heavy inside a small random group. Blue rows pass the
    threshold in some group and are kept; many of them have hardly any leverage among all rows."""
    fig = charts.blank("Leverage among all rows (log scale)", "Largest leverage within a group", log_x=True)
    kept = run.group_leverage >= run.epsilon / (1 + run.epsilon)
    for chosen, role, name, size in ((~kept, "oracle", "sampled from", 4), (kept, "method", "kept", 6)):
        fig.add_scatter(
            x=np.maximum(run.full_leverage[chosen], 1e-9),
            y=run.group_leverage[chosen],
            mode="markers",
            name=name,
            marker={"size": size, "color": charts.MARK[role], "opacity": 0.75},
            hovertemplate="all rows %{x:.2~g}, in a group %{y:.2f}<extra></extra>",
        )
    charts.level(fig, run.epsilon / (1 + run.epsilon), "kept from here")
    fig.update_yaxes(range=[0, 1.04])
    return fig


def size_figure(run: Run) -> go.Figure:
    """The number of kept rows grows in proportion to the outliers ignored. Power-law rows, three allowed
    errors; dotted: m·T/ε with T = 6, the shape that the paper promises."""
    fig = charts.blank("Outliers ignored m (log scale)", "Kept rows |H| (log scale)", log_x=True, log_y=True)
    roles = ("method", "baseline1", "baseline2")
    for (e, kept), role in zip(run.law.items(), roles, strict=True):
        charts.line(fig, f"ε = {e:g}", np.array(LAW_M), np.array(kept), role, markers=True)  # type: ignore[arg-type]
        charts.line(fig, f"mT/{e:g}", np.array(LAW_M), np.array(LAW_M) * 6 / e, "oracle", end_label=False)
    charts.end_labels(fig, right=90)
    fig.update_xaxes(tickvals=LAW_M, ticktext=[str(m) for m in LAW_M])
    fig.update_yaxes(tickvals=[50, 100, 200, 500, 1000], ticktext=["50", "100", "200", "500", "1,000"])
    return fig


def thumbnail(run: Run) -> str:
    kept = run.group_leverage >= run.epsilon / (1 + run.epsilon)
    place = np.column_stack([np.log10(np.maximum(run.full_leverage, 1e-6)), run.group_leverage])
    return thumbnails.points(
        [(place[~kept][:400], "oracle"), (place[kept][:300], "method")], radius=2.5, square=False
    )


# --- claims -------------------------------------------------------------------------------------------


WHOLE = "the coreset is the whole data: no compression"


def error_rule(samples: Samples) -> Verdict:
    """Holds if the largest error is within ε in every seed; fails if its mean is above."""
    worst, allowed = samples("max_error", ROBUST), samples("allowed", "ε")
    if (samples("size", ROBUST) == samples("size", "all rows")).all():
        return Verdict("unclear", note=WHOLE)
    bound = float(allowed[0])
    found = in_seeds(lambda _: worst <= allowed, mean("max_error", ROBUST), fails_to=0.0, bound=bound)(samples)
    shown = below(mean("max_error", ROBUST), bound)(samples)
    outcome = "fails" if worst.mean() > bound else found.outcome
    note = f"{found.note}, worst {worst.max():.2f}"
    return replace(shown, outcome=outcome, note=note)


def uniform_rule(measure: str) -> Rule:
    """The error against a uniform sample's, as a ratio."""
    decide = below(ratio(measure, ROBUST, UNIFORM), 1, most=0.8, same=(0.8, 1.25))

    def rule(samples: Samples) -> Verdict:
        if not (samples(measure, UNIFORM) > 0).all():
            return Verdict("untestable", note=WHOLE)
        return decide(samples)

    return rule


def size_rule(samples: Samples) -> Verdict:
    """Slope of |H| in m at most 1.2 and |H| at most 3·mT/ε, for each ε."""
    laws = [slope_and_load_rule(f"ε = {e:g}") for e in LAW_EPS]
    return all_of(*laws)(samples)


def slope_and_load_rule(method: str) -> Rule:
    slope = below(mean("law_slope", method, label=f"slope at {method}:"), 1.2)
    load_ = in_seeds(
        lambda s: s("law_load", method) <= 3, mean("law_load", method, label=f"|H| / (mT/ε) at {method}:"), bound=3
    )
    return all_of(slope, load_)


def fit_rule(samples: Samples) -> Verdict:
    """The fit found on the coreset costs at most 1+ε of the full data's."""
    bound = 1 + float(samples("allowed", "ε")[0])
    return below(mean("fit", ROBUST), bound)(samples)


DEMO = Demo(
    name="Robust coresets",
    line="Keep few rows so that trimmed costs stay right for every direction.",
    topic="Learning theory",
    abstract="Robustness to outliers is important in machine learning",
    paper=Paper("Robust Sparsification via Sensitivity", "https://icml.cc/virtual/2025/poster/43947"),
    settings=CoresetSettings,
    run=run,
    measures={
        "max_error": Measure("Largest relative error", better="lower", digits=3),
        "mean_error": Measure("Mean relative error", better="lower", digits=4),
        "fit": Measure("Robust cost of the fit against the full data's", "×", "lower", 2),
        "size": Measure("Rows in the sample", "rows", digits=0),
        "kept": Measure("Rows kept for sure |H|", "rows", digits=0),
        "allowed": Measure("Allowed error"),
        "law_slope": Measure("Growth of |H| in m, power law", "log–log slope", "lower", 2),
        "law_load": Measure("|H| against m·T/ε, power law", "×", "lower", 2),
        "real_max_error": Measure("Largest error on breast cancer, nothing planted", better="lower"),
    },
    figures=(error_figure, leverage_figure, size_figure),
    thumbnail=thumbnail,
    claims=(
        Claim(
            quote="provides a $(1+\\epsilon)$-approximation to $F(x)$",
            says="The robust cost stays within 1 ± ε for every direction asked",
            rule=error_rule,
        ),
        Claim(
            quote="constructs an $\\epsilon$-coreset of size $\\tilde{O}(\\frac{mT}{\\epsilon})+S$",
            says="The kept rows grow in proportion to mT/ε",
            rule=size_rule,
            probe=size_law_probe,
        ),
        Claim(
            quote="our coresets outperform uniform sampling on real-world data sets",
            says="Beats a uniform sample of the same size on real data, nothing planted",
            rule=uniform_rule("real_max_error"),
            probe=unplanted_probe,
        ),
        Claim(
            quote="our coresets outperform uniform sampling",
            says="Beats a uniform sample of the same size at these settings",
            rule=uniform_rule("max_error"),
        ),
        Claim(
            quote="leads to new or improved algorithms for the robust optimization problems",
            says="The robust fit found on the coreset is near the full data's",
            rule=fit_rule,
        ),
    ),
    presets={
        "Break it: no heavy rows": CoresetSettings(data="synthetic", rare=0, planted=0, ignored=20, sampled=200),
        "Too small": CoresetSettings(ignored=40),
        "Power law": CoresetSettings(data="power_law", ignored=20, sampled=200, planted=0),
    },
    break_it="Break it: no heavy rows",
    why_it_breaks="Without heavy rows there is nothing to keep, and every sample of the same size is equally good.",
    simplified=(
        "Squared costs only (ℓ₂ rows; the paper also treats clustering and PCA). Constants are ours, 12 rounds "
        "of random groups. “Every direction” is a finite set of about 160: random ones, those of heavy rows, the "
        "weakest directions and the robust optimum. The robust fit is a heuristic with six starts, so its ratio can "
        "fall below 1. No running times here: they are in the benchmark."
    ),
    seeds=16,
)
