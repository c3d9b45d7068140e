r"""An *instrument* moves a treatment $X$ but touches the outcome $Y$ only through it; with a hidden confounder $U$
it is the way to a causal effect. Which of several candidates $Z_1,\dots,Z_q$ are valid is usually assumed. The
model here is additive and non-linear with a constant effect $\beta$,

$$X=\sum_i f_i(Z_i)+cU+\varepsilon_x,\qquad Y=\beta X+\sum_{k\ \text{invalid}}g_k(Z_k)+cU+\varepsilon_y .$$

**The cross test.** Treat candidate $i$ as if it were valid: $\hat\beta_i=\widehat{cov}(Y,Z_i)/\widehat{cov}(X,Z_i)$
(`ratios`), and form the auxiliary variable $A_i=Y-\hat\beta_iX$ (`auxiliary`). If $i$ and $j$ are both valid, $A_i$
contains only $U$, noise and other candidates' direct effects: it is *independent* of $Z_j$, not just uncorrelated.
If one of them is invalid, $A_i$ keeps $(\beta-\hat\beta_i)f_j(Z_j)+g_j(Z_j)$, which vanishes only if the direct
effect is proportional to the first stage. A pair passes if both independence tests, $A_i$ against $Z_j$ and $A_j$
against $Z_i$, have $p>\alpha$ (HSIC with Gaussian kernels and a gamma null).

**From pairs to a set.** Passing pairs are edges; the largest clique is the answer, and empty if no pair passes. The
effect is then estimated by two-stage least squares, the rejected candidates entering as covariates.

Rivals for linear models vote (TSHT) or shrink (sisVIVE): here the invalid candidates are made to agree on the same
wrong ratio $\beta+\rho$, which fools a vote. The clique search and the tie rule are our reading of how pairwise
tests become a set.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import plotly.graph_objects as go
from pydantic import model_validator
from scipy import special, stats

from core.demos._cat_iv_rivals import sisvive, tsht, two_stage
from core.lab import charts, thumbnails
from core.lab.demo import Claim, Demo, Measure, Measures, Paper, Settings, across_seeds, control, fixed
from core.lab.verdicts import Samples, Verdict, below, difference, t_interval, wilson_interval

CAT, CORR, TSHT, SISVIVE = "CAT", "correlation test", "TSHT", "sisVIVE"
ALL, OLS, ORACLE = "2SLS on all", "OLS", "true set"
ROLES = charts.roles(CAT, (TSHT, SISVIVE, CORR, ALL, OLS), ORACLE)
BETA, WRONG, CONFOUNDING = 1.0, 1.0, 1.0


class InstrumentSettings(Settings):
    n: int = control(600, "Samples n", 150, 1500, 50)
    valid: int = control(2, "Valid candidates", 1, 4, 1)
    invalid: int = control(3, "Invalid candidates", 0, 6, 1)
    curvature: float = control(
        1.0, "Curvature of direct effects κ", 0.0, 2.0, 0.05, help="0: proportional to the first stage"
    )
    level: float = control(0.01, "Test level α", 0.001, 0.1, log=True)
    rows: int = fixed(400, "Rows used in the independence test", ge=50, le=2000)

    @model_validator(mode="after")
    def _two_candidates(self):
        if self.valid + self.invalid < 2:
            raise ValueError("valid: there must be at least two candidates in all")
        return self


@dataclass(frozen=True)
class Data:
    """Candidates z (n, q), treatment x (n,), outcome y (n,), truth: which candidates are valid (q,)."""

    z: np.ndarray
    x: np.ndarray
    y: np.ndarray
    valid: np.ndarray


def draw(s: InstrumentSettings, seed: int) -> Data:
    """The model above with Gaussian candidates in shuffled order; all invalid ones agree on the ratio β + ρ."""
    rng = np.random.default_rng(seed)
    q = s.valid + s.invalid
    z, u = rng.normal(size=(s.n, q)), rng.normal(size=s.n)
    square, cubic = (z**2 - 1) / np.sqrt(2), (z**3 - 3 * z) / np.sqrt(6)
    first = z + 0.4 * square
    valid = rng.permutation(q) < s.valid
    x = first.sum(1) + CONFOUNDING * u + rng.normal(size=s.n)
    direct = np.zeros(s.n)
    for order, k in enumerate(np.flatnonzero(~valid)):
        bend = square[:, k] if order % 2 == 0 else cubic[:, k]
        direct += WRONG * first[:, k] + s.curvature * bend
    y = BETA * x + direct + CONFOUNDING * u + rng.normal(size=s.n)
    return Data(z, x, y, valid)


def ratios(z: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Each candidate's own estimate of the effect (q,). Raises ValueError for useless candidates."""
    if not all(np.isfinite(v).all() for v in (z, x, y)):
        raise ValueError("data: all values must be finite")
    centred = z - z.mean(0)
    spread = centred.std(0)
    for i in np.flatnonzero(spread < 1e-12):
        raise ValueError(f"candidate {i} is constant")
    with_x = centred.T @ (x - x.mean())
    for i in np.flatnonzero(np.abs(with_x) < 1e-8 * len(x) * spread * x.std()):
        raise ValueError(f"candidate {i} is irrelevant: it does not move the treatment")
    return centred.T @ (y - y.mean()) / with_x


def auxiliary(data: Data) -> np.ndarray:
    """A_i = Y − β̂_i X for every candidate (n, q)."""
    return data.y[:, None] - data.x[:, None] * ratios(data.z, data.x, data.y)


@dataclass(frozen=True)
class Kernel:  # centred Gaussian kernel matrix, mean of its off-diagonal entries before centring
    centred: np.ndarray
    mean: float


def kernel(v: np.ndarray) -> Kernel:
    """Gaussian kernel of a variable (n,) with the median non-zero distance as its width."""
    d = np.abs(v[:, None] - v)
    apart = d[np.triu_indices(len(v), 1)]
    width = np.median(apart[apart > 0])
    k = np.exp(-(d**2) / (2 * width**2))
    n = len(v)
    mean = (k.sum() - n) / (n * (n - 1))
    k = k - k.mean(0)
    return Kernel(k - k.mean(1, keepdims=True), float(mean))


def independence_p(a: Kernel, b: Kernel) -> float:
    """HSIC test (Gretton et al., 2007): p-value of independence from a gamma law with matched moments."""
    n = len(a.centred)
    product = a.centred * b.centred
    statistic = product.sum() / n
    centre = (1 + a.mean * b.mean - a.mean - b.mean) / n
    squares = (product / 6) ** 2
    spread = (squares.sum() - np.trace(squares)) / (n * (n - 1))
    spread *= 72 * (n - 4) * (n - 5) / (n * (n - 1) * (n - 2) * (n - 3))
    shape, scale = centre**2 / spread, spread * n / centre
    return float(special.gammaincc(shape, statistic / scale))


def cat_p_values(data: Data, rows: int) -> np.ndarray:
    """p_ij (q, q) of "A_i is independent of Z_j" on the first `rows` rows; the diagonal is no test and is 1."""
    a, z = auxiliary(data)[:rows], data.z[:rows]
    of_a, of_z = [kernel(c) for c in a.T], [kernel(c) for c in z.T]
    q = z.shape[1]
    return np.array([[independence_p(of_a[i], of_z[j]) if i != j else 1.0 for j in range(q)] for i in range(q)])


def correlation_p_values(data: Data) -> np.ndarray:
    """The same pairs tested for correlation only, on all rows: the ablation."""
    a, q = auxiliary(data), data.z.shape[1]
    return np.array(
        [[stats.pearsonr(a[:, i], data.z[:, j])[1] if i != j else 1.0 for j in range(q)] for i in range(q)]
    )


def largest_clique(p: np.ndarray, level: float) -> np.ndarray:
    """The largest set of candidates (q,) in which every pair passes both ways; ties by the larger least p."""
    both = np.minimum(p, p.T)
    q = len(p)
    for size in range(q, 1, -1):
        found = [c for c in combinations(range(q), size) if all(both[i, j] > level for i, j in combinations(c, 2))]
        if found:
            best = max(found, key=lambda c: min(both[i, j] for i, j in combinations(c, 2)))
            return np.isin(np.arange(q), best)
    return np.zeros(q, dtype=bool)


@dataclass(frozen=True)
class Run:
    """Pairwise p-values, each candidate's ratio, the sets found, the truth."""

    p: np.ndarray
    ratios: np.ndarray
    chosen: dict[str, np.ndarray]
    valid: np.ndarray
    level: float
    measures: Measures


def run(settings: InstrumentSettings, seed: int) -> Run:
    """CAT, its ablation, the two rivals and the reference estimates on one data set."""
    s, data = settings, draw(settings, seed)
    p = cat_p_values(data, min(s.rows, s.n))
    chosen = {
        CAT: largest_clique(p, s.level),
        TSHT: tsht(data.z, data.x, data.y),
        SISVIVE: sisvive(data.z, data.x, data.y),
        CORR: largest_clique(correlation_p_values(data), s.level),
        ALL: np.ones(len(data.valid), dtype=bool),
        ORACLE: data.valid,
    }
    effect = {m: two_stage(data.z, data.x, data.y, set_) if set_.any() else np.nan for m, set_ in chosen.items()}
    effect[OLS] = float(np.cov(data.x, data.y)[0, 1] / data.x.var(ddof=1))
    selectors = (CAT, TSHT, SISVIVE, CORR)
    measures: Measures = {
        "exact": {m: float((chosen[m] == data.valid).all()) for m in selectors},
        "precision": {m: float(data.valid[chosen[m]].mean()) if chosen[m].any() else 0.0 for m in selectors},
        "recall": {m: float(chosen[m][data.valid].mean()) for m in selectors},
        "error": {m: abs(v - BETA) for m, v in effect.items()},
        "empty": {m: float(not chosen[m].any()) for m in selectors},
    }
    return Run(p, ratios(data.z, data.x, data.y), chosen, data.valid, s.level, measures)


def limit_probe(settings: InstrumentSettings, seed: int) -> Measures:
    """Exact recovery when direct effects are proportional to first-stage effects."""
    here = settings.replace(curvature=0.0)
    data = draw(here, seed)
    found = largest_clique(cat_p_values(data, min(here.rows, here.n)), here.level)
    return {"limit_exact": {CAT: float((found == data.valid).all())}}


def _order(run: Run) -> np.ndarray:  # the valid candidates first
    return np.argsort(~run.valid, kind="stable")


def _names(run: Run) -> list[str]:
    return [f"Z<sub>{i + 1}</sub> {'valid' if run.valid[i] else 'invalid'}" for i in _order(run)]


def pairs_figure(run: Run) -> go.Figure:
    """Look for a dark block: its members pass each other's test and leave no trace in each other's residual.
    Smaller p-value of each pair, as a power of ten; the black frame is the set that CAT selects."""
    order = _order(run)
    p = np.log10(np.maximum(np.minimum(run.p, run.p.T), 1e-12))[np.ix_(order, order)]
    np.fill_diagonal(p, np.nan)
    fig = charts.blank(height=400, right=210)
    charts.picture(fig, p, limits=(-6, 0), hover="p = 10<sup>%{z:.1f}</sup>")
    names, chosen = _names(run), run.chosen[CAT][order]
    for i, j in np.argwhere(chosen[:, None] & chosen & ~np.eye(len(chosen), dtype=bool)):
        fig.add_shape(
            type="rect", x0=j - 0.48, x1=j + 0.48, y0=i - 0.48, y1=i + 0.48, line={"color": charts.INK, "width": 3}
        )
    ticks = list(range(len(names)))
    fig.update_xaxes(tickvals=ticks, ticktext=[n.split(" ")[0] for n in names], constrain="domain")
    fig.update_yaxes(tickvals=ticks, ticktext=names, scaleanchor="x", constrain="domain")
    fig.add_annotation(
        x=1,
        xref="paper",
        y=1,
        yref="paper",
        xanchor="left",
        yanchor="top",
        xshift=16,
        align="left",
        showarrow=False,
        text=f"dark: p near 1<br>pale: p ≤ 10<sup>−6</sup><br>passes above α = {run.level:g}",
        font={"size": 13, "color": charts.SOFT},
    )
    return fig


def ratios_figure(run: Run) -> go.Figure:
    """Each candidate's own estimate of the effect; the dotted line is the truth. Invalid ones agree on a wrong
    value, so a vote among estimates is misled."""
    order = _order(run)
    fig = charts.blank("Effect that the candidate suggests", height=80 + 36 * len(order))
    for y, i in enumerate(order):
        role = "method" if run.chosen[CAT][i] else "oracle"
        label = "selected by CAT" if run.chosen[CAT][i] else "not selected"
        fig.add_scatter(
            x=[run.ratios[i]],
            y=[y],
            mode="markers",
            name=label,
            marker={"size": 13, "color": charts.MARK[role]},
            hovertemplate=f"%{{x:.2f}}, {label}<extra></extra>",
        )
    charts.moment(fig, BETA, "true effect")
    fig.update_yaxes(tickvals=list(range(len(order))), ticktext=_names(run), autorange="reversed")
    return fig


@across_seeds
def error_figure(run: Run, samples: Samples | None) -> go.Figure:
    """Further left is better: distance of each method's effect from the truth, with 95 % intervals over seeds.
    Seeds in which a method names no set are left out."""
    rows = {}
    for m in ROLES:
        value = run.measures["error"][m]
        seen = samples("error", m)[np.isfinite(samples("error", m))] if samples is not None else np.empty(0)
        if len(seen) > 1:
            e = t_interval(seen)
            rows[m] = (e.value, max(e.low, 0.0), e.high)
        elif np.isfinite(value):
            rows[m] = (value, value, value)
    fig = charts.blank("Absolute error of the effect", height=80 + 36 * len(rows))
    charts.dots(fig, rows, ROLES)
    return fig


def thumbnail(run: Run) -> str:
    order = _order(run)
    p = np.log10(np.maximum(np.minimum(run.p, run.p.T), 1e-12))[np.ix_(order, order)]
    return thumbnails.pictures([[thumbnails.coloured(p, charts.SEQUENTIAL, -6, 0)]])


def recovery_rule(samples: Samples) -> Verdict:
    """CAT's exact recovery above both rivals', Wilson intervals apart, by at least 0.1."""
    n = len(samples.seeds)
    share = {m: wilson_interval(float(samples("exact", m).sum()), n, label=f"{m}:") for m in (CAT, TSHT, SISVIVE)}
    rival = max((TSHT, SISVIVE), key=lambda m: share[m].value)
    ours, theirs = share[CAT], share[rival]
    note = f"{rival} {theirs.value:.2f} [{theirs.low:.2f}, {theirs.high:.2f}]"
    if n < 8:
        return Verdict("unclear", ours, theirs.high, f"not enough runs: {n} of 8 seeds")
    if ours.low > theirs.high and ours.value - theirs.value >= 0.1:
        return Verdict("holds", ours, theirs.high, note)
    if ours.high < theirs.low or ours.value <= theirs.value:
        return Verdict("fails", ours, theirs.high, note)
    return Verdict("unclear", ours, theirs.high, note)


def error_rule(samples: Samples) -> Verdict:
    """The effect from CAT's set is within 0.1 of that from the true set, over seeds with an answer."""
    some = np.isfinite(samples("error", CAT))
    if some.sum() < 6:
        return Verdict("unclear", note=f"CAT names a set in only {int(some.sum())} seeds")
    kept = Samples({k: v[some] for k, v in samples.values.items()}, np.array(samples.seeds)[some].tolist())
    found = below(difference("error", CAT, ORACLE), 0.1)(kept)
    if found.note.startswith("not enough"):
        found = Verdict("holds" if found.effect and found.effect.high < 0.1 else "unclear", found.effect, 0.1)
    empty = int((~some).sum())
    return Verdict(**{**found.__dict__, "note": f"{empty} seeds without an answer" if empty else found.note})


def limit_rule(samples: Samples) -> Verdict:
    """Where direct effects are proportional to first-stage effects, recovery is below one half."""
    e = wilson_interval(float(samples("limit_exact", CAT).sum()), len(samples.seeds), label="recovery at κ = 0:")
    if len(samples.seeds) < 8:
        return Verdict("unclear", e, 0.5, "not enough runs")
    outcome = "holds" if e.high < 0.5 else "fails" if e.low > 0.5 else "unclear"
    return Verdict(outcome, e, 0.5)  # type: ignore[arg-type]


DEMO = Demo(
    name="CAT condition",
    line="Two honest instruments are found among five, though three liars agree.",
    topic="Causality",
    abstract="We consider the problem of selecting instrumental variables from observational data",
    paper=Paper(
        "Data-Driven Selection of Instrumental Variables for Additive Nonlinear, Constant Effects Models",
        "https://icml.cc/virtual/2025/poster/44429",
    ),
    settings=InstrumentSettings,
    run=run,
    measures={
        "exact": Measure("The true set is found", "share", "higher", 2),
        "precision": Measure("Precision of the set", "share", "higher", 2),
        "recall": Measure("Recall of the set", "share", "higher", 2),
        "error": Measure("Absolute error of the effect", better="lower"),
        "empty": Measure("No set named", "share", "lower", 2),
        "limit_exact": Measure("The true set is found at κ = 0", "share", digits=2),
    },
    figures=(pairs_figure, ratios_figure, error_figure),
    thumbnail=thumbnail,
    claims=(
        Claim(
            quote="testable condition, termed the Cross Auxiliary-based independent Test (CAT) condition",
            says="Finds the valid set where rules for linear models pick a wrong one",
            rule=recovery_rule,
        ),
        Claim(
            quote="under milder assumptions",
            says="Works even where invalid candidates outnumber the valid ones",
            rule=recovery_rule,
            applies=lambda s: (
                "" if s.invalid > s.valid else "the valid candidates are no minority at these settings"
            ),
        ),
        Claim(
            quote="the effectiveness and robustness of our proposed approach",
            says="The effect is as good as with the true set (within 0.1)",
            rule=error_rule,
        ),
        Claim(
            quote="both necessary and sufficient for identifying valid instrumental variable sets",
            says="Its limit is real: proportional direct effects cannot be told apart",
            rule=limit_rule,
            probe=limit_probe,
        ),
    ),
    presets={
        "Break it: proportional effects": InstrumentSettings(curvature=0.0),
        "Valid majority": InstrumentSettings(valid=4, invalid=2),
    },
    break_it="Break it: proportional effects",
    why_it_breaks=(
        "When direct effects are proportional to first-stage effects the invalid candidates leave no trace in each "
        "other's residuals, and the bigger block wins."
    ),
    simplified=(
        "Synthetic data only, no covariates and neither of the two real data sets. The independence test uses a gamma "
        "approximation on the first 400 rows; cliques are enumerated, so at most ten candidates. TSHT and sisVIVE "
        "stand for the linear methods that the abstract does not name."
    ),
    seeds=12,
)
