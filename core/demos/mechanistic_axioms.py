r"""A *mechanistic interpretation* says: this network computes what that program computes, and in these steps. When is
such a reading right? Cut the network $t=t_3\circ t_2\circ t_1$ and the program $h=h_3\circ h_2\circ h_1$ into parts.
An abstraction $\alpha_i$ maps activations after part $i$ to values of the program, a concretisation $\gamma_i$ maps
values back to activations. With $t_{\le i}=t_i\circ\dots\circ t_1$, four axioms must hold for each $i$ on a share of
at least $1-\varepsilon$ of the inputs:

$$\begin{aligned}\text{prefix equivalence: }&\alpha_i(t_{\le i}(x))=h_{\le i}(x)\\
\text{component equivalence: }&\alpha_i(t_{\le i}(x))=h_i(\alpha_{i-1}(t_{\le i-1}(x)))\\
\text{prefix replaceability: }&t(x)=t_{>i}(\gamma_i(h_{\le i}(x)))\\
\text{component replaceability: }&t(x)=t_{>i}(\gamma_i(h_i(\alpha_{i-1}(t_{\le i-1}(x)))))\end{aligned}$$

From $k$ failures on $N$ (`tests`) held-out formulas, $\varepsilon$ is the one-sided 95 % Clopper–Pearson bound.

**The network** reads the literals of a 2-SAT formula and ':'. $t_1$ is a transformer block, $t_2$ attention from ':'
with a ReLU layer $u$, $t_3$ answers SAT where $w\cdot u+c>0$.

**The program.** $h_1$ (*parse*) lists the clauses, $h_2$ (*evaluate*) takes the truth table to one bit per
SAT-promoting neuron by decision trees, $h_3$ is OR. $\alpha_1$ picks the clause whose mean activation has the largest
cosine, $\gamma_1$ puts such means in place. $\alpha_2$ asks which neurons reach `tau` times their mean positive value,
$\gamma_2$ sets them to 0 or to that mean.

**Wrong readings.** *Permuted neurons* gives each tree to another neuron: OR does not notice. *First literal* reads
half of each clause; *literal counts* feeds the trees literal counts, with every tautology written $x_0\vee\neg x_0$.
These three are our own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Self

import numpy as np
import plotly.graph_objects as go
from pydantic import model_validator

from core.demos._mechanistic_axioms_net import Language, balanced, split, train
from core.demos._mechanistic_axioms_reading import (
    CHECKS,
    COUNTS,
    FIRST,
    PAPER,
    PERMUTED,
    check,
    correlations,
    fit_maps,
    lower_bound,
    observe,
    readings,
    upper_bound,
)
from core.lab import charts, thumbnails
from core.lab import demo as lab
from core.lab.demo import Claim, Demo, Measure, Measures, Paper, across_seeds, choice, control, fixed
from core.lab.verdicts import (
    LEAST_SEEDS,
    REACHES_OVER,
    Estimate,
    Outcome,
    Rule,
    Samples,
    Verdict,
    above,
    difference,
    join,
    within,
)

NAMES = {"paper": PAPER, "permuted": PERMUTED, "first": FIRST, "counts": COUNTS}
ROLES = charts.roles(PAPER, (PERMUTED, FIRST, COUNTS))
NETWORK = "network"
CONFIRMED = 0.1
"""an axiom counts as confirmed with ε below this"""
SHARES = {"tickvals": [0.001, 0.01, 0.1, 1], "ticktext": ["0.001", "0.01", "0.1", "1"]}
"""ticks of a logarithmic axis of shares"""
MARGIN = 0.02
"""the smallest difference between shares of failures that counts"""


class Settings(lab.Settings):
    reading: Literal["paper", "permuted", "first", "counts"] = choice(
        "paper", "Reading shown", labels=NAMES, help="All four are tested; this one is drawn large."
    )
    steps: int = control(1100, "Training steps", 300, 1600, 100)
    leaves: int = control(8, "Leaves per tree, at most", 2, 16, 1)
    clauses: int = control(3, "Clauses per formula", 3, 4, 1)
    tolerated: int = control(0, "Wrong neurons tolerated d", 0, 4, 1, help="In the equivalences of “evaluate”.")
    variables: int = fixed(2, "Variables", ge=2, le=3)
    tests: int = fixed(2000, "Held-out formulas N", ge=50, le=5000)
    tau: float = fixed(0.5, "Firing threshold, share of the mean", gt=0, le=1)
    effect: float = fixed(0.1, "Least vote of a selected neuron, share of the largest", gt=0, le=1)

    @model_validator(mode="after")
    def _can_be_listed(self) -> Self:
        Language(self.variables, self.clauses)
        return self

    @property
    def shown(self) -> str:
        return NAMES[self.reading]


@dataclass(frozen=True)
class Run:
    settings: Settings
    attention: np.ndarray
    """block 1, mean over formulas: second literals × tokens (clauses, length)"""
    readout: np.ndarray
    """the last token's, (heads, length)"""
    correlation: np.ndarray
    """assignments × selected neurons: does the neuron follow "this assignment satisfies the formula"?"""
    wrong: dict[str, np.ndarray]
    """reading -> wrong neurons per held-out formula (prefix)"""
    measures: Measures


def run(settings: Settings, seed: int) -> Run:
    """Train one network, fit all readings on training formulas, test every axiom on held-out ones."""
    s, language = settings, Language(settings.variables, settings.clauses)
    for_data, for_net, for_rest = (np.random.default_rng(q) for q in np.random.SeedSequence(seed).spawn(3))
    data = split(language, for_data)
    net = train(language, data, s.steps, for_net)
    fitted = observe(net, language, data.train[balanced(data.train_labels, s.tests, for_data)])
    rows = balanced(data.held_out_labels, s.tests, for_data)
    seen = observe(net, language, data.held_out[rows])
    maps = fit_maps(net, language, fitted, s.tau, s.effect)
    programs = readings(language, maps, fitted, s.leaves, for_rest)
    failures = {name: check(net, maps, program, seen, s.tolerated) for name, program in programs.items()}
    own = np.arange(s.clauses)
    attention = seen.attention[:, 1:-1:2].mean(axis=0)
    measures: Measures = {m: {n: float(f.fails[m].mean()) for n, f in failures.items()} for m in CHECKS}
    for m in CHECKS:
        measures[f"epsilon_{m}"] = {n: upper_bound(int(f.fails[m].sum()), s.tests) for n, f in failures.items()}
    wrong = {n: f.wrong["prefix_equivalence_2"] for n, f in failures.items()}
    measures["wrong"] = {n: float(w.mean() / len(maps.neurons)) for n, w in wrong.items()}
    measures["accuracy"] = {NETWORK: float((seen.answer == data.held_out_labels[rows]).mean())}
    measures["own_clause"] = {NETWORK: float((attention[own, 2 * own] + attention[own, 2 * own + 1]).mean())}
    measures["neurons"] = {NETWORK: float(len(maps.neurons))}
    measures["assignments"] = {PAPER: float(programs[PAPER].used)}
    correlation = correlations(language, seen, net, maps)
    return Run(s, attention, seen.readout.mean(axis=0), correlation, wrong, measures)


# --- figures ------------------------------------------------------------------------------------------


def _word(name: str, bold: bool) -> str:
    text = f"<b>{name}</b>" if bold else name
    return f'<span style="color:{charts.TEXT[ROLES[name]]}">● {text}</span>'


def axioms_figure(run: Run) -> go.Figure:
    """Further left is better: each dot is the bound ε of one axiom under one reading of the same network.

    A line runs from the share of failures on held-out formulas to ε; dotted: 0.1. Where two readings agree in “OR”
    but not in “evaluate”, only the parts tell them apart.
    """
    fig = charts.blank("share of failures to ε (log)", log_x=True, height=460)
    floor, shown = 4e-4, run.settings.shown
    for k, name in enumerate(ROLES):
        y = np.arange(len(CHECKS)) + 0.2 * (k - 1.5)
        share = np.array([run.measures[m][name] for m in CHECKS])
        bound = np.array([run.measures[f"epsilon_{m}"][name] for m in CHECKS])
        colour = charts.MARK[ROLES[name]]
        whisker = {"type": "data", "symmetric": False, "array": np.zeros(len(y)), "color": colour, "width": 0}
        fig.add_scatter(
            x=bound, y=y, mode="markers", name=name, customdata=share,
            error_x=whisker | {"arrayminus": bound - np.maximum(share, floor), "thickness": 2},
            marker={"color": colour, "size": 11 if name == shown else 7},
            hovertemplate=name + ": share %{customdata:.3g}, ε %{x:.3g}<extra></extra>",
        )  # fmt: skip
    fig.add_vline(x=CONFIRMED, line={"color": charts.MARK["oracle"], "width": 1.6, "dash": "dot"})
    words = [_word(name, name == shown) for name in ROLES]
    place = {"x": 0, "y": 1, "xref": "paper", "yref": "paper", "xanchor": "left", "yanchor": "bottom"}
    text = "   ".join(words[:2]) + "<br>" + "   ".join(words[2:])
    fig.add_annotation(text=text, align="left", showarrow=False, xshift=-130, yshift=4, font={"size": 14}, **place)
    titles = [title.split(", ") for title in CHECKS.values()]
    labels = [f"<b>{part}</b><br>{axiom.lower()}" for axiom, part in titles]
    fig.update_yaxes(tickvals=np.arange(len(labels)), ticktext=labels, range=[7.55, -0.55], showgrid=False)
    for edge in np.arange(len(CHECKS) - 1) + 0.5:
        fig.add_hline(y=edge, line={"color": charts.GRID, "width": 1})
    fig.update_xaxes(range=[np.log10(floor), 0.06], showgrid=True, gridcolor=charts.GRID, **SHARES)
    return fig.update_layout(margin_t=52)


@across_seeds
def seeds_figure(run: Run, samples: Samples | None) -> go.Figure:
    """Networks of nearly the same accuracy can differ in how well the paper’s program describes them.

    One dot per trained network. Filled: ε below 0.1 both for reading its clauses and for replacing its neurons,
    which counts as confirmed. Ringed: the network of the other figures.
    """
    fig = charts.blank("accuracy on held-out formulas", "ε of parsing (prefix equivalence, log scale)", log_y=True)
    measures = ("epsilon_prefix_equivalence_1", "epsilon_prefix_replaceability_2")
    own = tuple(np.array([run.measures[m][PAPER]]) for m in measures)
    x, (parse, replaceable) = np.array([run.measures["accuracy"][NETWORK]]), own
    ring = {"size": 20, "color": charts.INK, "symbol": "circle-open", "line": {"width": 1.6}}
    fig.add_scatter(x=x, y=parse, mode="markers", marker=ring, name="this network", hoverinfo="skip")
    if samples is not None:
        x = samples("accuracy", NETWORK)
        parse, replaceable = (samples(m, PAPER) for m in measures)
    confirmed = np.maximum(parse, replaceable) < CONFIRMED
    symbols = np.where(confirmed, "circle", "circle-open").tolist()
    fig.add_scatter(
        x=x, y=parse, mode="markers", name="networks",
        marker={"size": 10, "color": charts.MARK["method"], "symbol": symbols},
        hovertemplate="accuracy %{x:.3f}, ε %{y:.3g}<extra></extra>",
    )  # fmt: skip
    charts.level(fig, CONFIRMED, f"ε = {CONFIRMED}")
    fig.update_yaxes(range=[-3.05, 0.15], **SHARES)
    low = min(x.min(), run.measures["accuracy"][NETWORK])
    pad = 0.05 * max(1 - low, 0.02)
    return fig.update_xaxes(range=[min(low, 0.98) - pad, 1 + pad], nticks=6, showgrid=True, gridcolor=charts.GRID)


def attention_figure(run: Run) -> go.Figure:
    """Strong blue inside the boxes on the left means that a second literal looks at its own clause.

    Mean attention over held-out formulas; a₁ ∨ b₁ is the first clause. Left: the first block, from each second
    literal. Right: the two heads that gather everything at “:”, with the clauses framed.
    """
    clauses = run.settings.clauses
    letters = [f"{letter}{'₁₂₃₄'[i]}" for i in range(clauses) for letter in "ab"]
    fig = charts.panels(["block 1, from", "gathering at “:”, head"], "to", shared_y=False)
    fig.update_xaxes(tickvals=np.arange(2 * clauses + 1), ticktext=[*letters, ":"])
    for column, (z, names) in enumerate(((run.attention, letters[1::2]), (run.readout, ["1", "2"])), 1):
        charts.picture(fig, z, limits=(0, 1), row=1, col=column)
        fig.update_yaxes(tickvals=np.arange(len(names)), ticktext=names, row=1, col=column)
        for i in range(clauses):
            y0, y1 = (i - 0.5, i + 0.5) if column == 1 else (-0.5, len(names) - 0.5)
            corner = {"x0": 2 * i - 0.5, "x1": 2 * i + 1.5, "y0": y0, "y1": y1}
            fig.add_shape(type="rect", line={"color": charts.INK, "width": 2}, row=1, col=column, **corner)
    fig.update_traces(xgap=1, ygap=1, texttemplate="%{z:.1f}")
    return fig


def neurons_figure(run: Run) -> go.Figure:
    """Look for blue cells: such a neuron fires where that assignment satisfies the formula.

    Correlation of each selected neuron with the truth table on held-out formulas, blue for +1, orange for −1;
    strongest voters for SAT first.
    """
    fig = charts.blank("selected neuron, strongest vote first", "assignment, x₀ first", height=260)
    count, neurons = run.correlation.shape
    words = [f"{k:0{run.settings.variables}b}" for k in range(count)]
    charts.picture(fig, run.correlation, scale=charts.DIVERGING, limits=(-1, 1), x=np.arange(1, neurons + 1))
    fig.update_traces(xgap=1, ygap=1)
    fig.update_xaxes(tickvals=np.unique(np.r_[1, np.arange(5, neurons + 1, 5)]))
    return fig.update_yaxes(tickvals=np.arange(count), ticktext=words, type="linear")


def tolerance_figure(run: Run) -> go.Figure:
    """The faster a curve falls, the closer a reading comes to all neurons at once.

    Share of held-out formulas on which more than d of the selected neurons differ from the program’s bits (prefix
    equivalence, evaluate).
    """
    d = np.arange(9)
    fig = charts.blank("wrong neurons tolerated d", "share of inputs with more than d wrong")
    for name in sorted(ROLES, key=lambda n: n == run.settings.shown):
        y = (run.wrong[name][:, None] > d).mean(axis=0)
        charts.line(fig, name, d, y, ROLES[name], markers=name == run.settings.shown)
    fig.update_yaxes(range=[-0.02, 1.0])
    charts.moment(fig, run.settings.tolerated, f"d = {run.settings.tolerated}")
    charts.end_labels(fig)
    return fig.update_xaxes(dtick=1)


def thumbnail(run: Run) -> str:
    """Three boxes, parse – evaluate – OR, each filled as high as it disagrees with the network."""
    body, side, top = "", 68, 30
    for i, m in enumerate(list(CHECKS)[:3]):
        x = 22 + i * 94
        full = side * run.measures[m][run.settings.shown]
        body += f'<rect class="f-method" x="{x}" y="{top + side - full:.1f}" width="{side}" height="{full:.1f}"/>'
        body += (
            f'<rect x="{x}" y="{top}" width="{side}" height="{side}" rx="3" fill="none" stroke="#7f7f7f" '
            'stroke-width="2"/>'
        )
        if i:
            body += f'<path d="M{x - 22} {top + side / 2}h16m-6 -5l6 5l-6 5" fill="none" stroke="#7f7f7f" stroke-width="2"/>'
    return thumbnails.svg(body)


# --- claims -------------------------------------------------------------------------------------------


def confirmed_in_most(samples: Samples) -> Verdict:
    """More than half of the networks are described: one-sided 95 % Clopper–Pearson bounds of their share."""
    parse, evaluate = (samples(f"epsilon_{m}", PAPER) for m in ("prefix_equivalence_1", "prefix_replaceability_2"))
    good = np.maximum(parse, evaluate) < CONFIRMED
    k, n = int(good.sum()), len(good)
    low, high = lower_bound(k, n), upper_bound(k, n)
    share = Estimate(k / n, low, high, float(good.std()), n, "share", label="networks confirmed:")
    if n < LEAST_SEEDS:
        return Verdict("unclear", share, 0.5, f"not enough runs: {n} of {LEAST_SEEDS} seeds")
    outcome: Outcome = "holds" if low > 0.5 else "fails" if high < 0.5 else "unclear"
    note = f"true of {k} of {n} networks" + (f"; {REACHES_OVER}" if outcome == "unclear" else "")
    return Verdict(outcome, share, 0.5, note)


def only_the_parts_tell(samples: Samples) -> Verdict:
    """Permuting the neurons leaves the output-level shares within the margin and raises the share of its part."""

    def gap(measure: str, label: str):
        return difference(measure, PERMUTED, PAPER, digits=3, label=label)

    part = above(gap("component_equivalence_2", "evaluate, permuted − paper"), MARGIN)(samples)
    outputs = [
        within(gap(m, label), -MARGIN, MARGIN)(samples)
        for m, label in (("prefix_equivalence_3", "OR, equivalence"), ("prefix_replaceability_2", "replaceability"))
    ]
    same = all(v.outcome == "holds" for v in outputs)
    if part.outcome == "fails" or same:
        return replace(part, parts=(part, *outputs))
    shown = next(v for v in outputs if v.outcome != "holds")
    return replace(shown, outcome="unclear", parts=(part, *outputs), note="the outputs may differ as well")


def rejected(reading: str) -> Rule:
    """On at least one axiom the reading fails more often than the paper's program, by the margin."""

    def rule(samples: Samples) -> Verdict:
        found = {
            title: above(difference(m, reading, PAPER, digits=3, label=f"{reading}, {title[0].lower()}{title[1:]}:"), MARGIN)(samples)
            for m, title in CHECKS.items()
        }  # fmt: skip
        tested = [v for v in found.values() if v.effect is not None and v.effect.defined]
        if not tested:
            return Verdict("untestable", note="not defined at these settings")
        best = max(tested, key=lambda v: (v.effect.low, v.effect.value))  # type: ignore[union-attr]
        outcomes = {v.outcome for v in tested}
        outcome: Outcome = "holds" if "holds" in outcomes else "fails" if outcomes == {"fails"} else "unclear"
        return replace(best, outcome=outcome)

    return rule


def all_rejected(samples: Samples) -> Verdict:
    return join([rejected(reading)(samples) for reading in (PERMUTED, FIRST, COUNTS)])


DEMO = Demo(
    name="Mechanistic axioms",
    line="Check, part by part, whether a program really describes a trained transformer.",
    topic="Explainability",
    abstract="Mechanistic interpretability aims to reverse engineer the computation",
    paper=Paper(
        "Validating Mechanistic Interpretations: An Axiomatic Approach",
        "https://icml.cc/virtual/2025/poster/43956",
        "https://github.com/nilspalumbo/sat-mi",
    ),
    settings=Settings,
    run=run,
    measures={
        **{m: Measure(f"{title}: share of failures", better="lower") for m, title in CHECKS.items()},
        **{f"epsilon_{m}": Measure(f"{title}: bound ε", better="lower") for m, title in CHECKS.items()},
        "wrong": Measure("Wrong neurons, share of the selected", better="lower"),
        "accuracy": Measure("Accuracy on held-out formulas", better="higher"),
        "own_clause": Measure("Attention of second literals to their own clause"),
        "neurons": Measure("SAT-promoting neurons selected", digits=0),
        "assignments": Measure("Assignments that the trees ask for", digits=0),
    },
    figures=(axioms_figure, seeds_figure, attention_figure, neurons_figure, tolerance_figure),
    thumbnail=thumbnail,
    claims=(
        Claim(
            "validating mechanistic interpretations on an existing, well-known interpretability study as well as on a "
            "new case study",
            "Parse, evaluate, OR describes most trained 2-SAT transformers: ε < 0.1 for parsing and for replacing neurons",
            confirmed_in_most,
        ),
        Claim(
            "approximately captures the semantics of the neural network under analysis in a compositional manner",
            "Trees given to the wrong neurons leave the outputs as they are; only the axioms on the part notice",
            only_the_parts_tell,
        ),
        Claim(
            "axioms that formally characterize a mechanistic interpretation",
            "Each of three wrong readings fails some axiom more often than the paper’s program",
            all_rejected,
        ),
    ),
    presets={
        "Right answer, wrong parts": Settings(reading="permuted"),
        "Break it: undertrained": Settings(steps=300),
    },
    break_it="Break it: undertrained",
    why_it_breaks="A network stopped after 300 steps has not learnt to parse clauses yet, so even the right reading "
    "fails its first axiom.",
    simplified="2 variables and 3 clauses instead of 5 and 10; 1,100 small batches instead of 1,000 epochs; no "
    "parentheses in the formula; a bias instead of the direct path from the last token to the output; 2 heads "
    "instead of 4 in the second block. The existing study of the abstract (modular addition) and the two axioms that "
    "are not about agreement on inputs are left out. Half of the tested formulas are satisfiable, so ε speaks about "
    "that balanced distribution.",
    seeds=16,
)
