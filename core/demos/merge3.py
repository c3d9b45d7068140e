r"""Merging adds what networks have learnt: with a common base $w^{\rm base}$ and endpoints $w^{(m)}$ fine-tuned from
it, each layer $\ell$ becomes (`merge`)

$$w_\ell=w_\ell^{\rm base}+\sum_m c_{m,\ell}\,\big(w^{(m)}_\ell-w^{\rm base}_\ell\big),\qquad c_{m,\ell}\in[0,1.2].$$

Good coefficients $c$ are searched by a genetic algorithm (`evolve`). Every candidate has to be scored on $N=1400$
items, and that is what costs.

**Extract.** Draw $n\ll N$ items $S$ (`items`) once, and score candidates on these only.

**Estimate.** Item response theory gives an item $i$ a slope $a_i$ and a difficulty $b_i$, and a model an ability
$\theta\in\mathbb R^D$ (`dimension`): it is right with probability $P_i(\theta)=\sigma(a_i^\top\theta-b_i)$. Items are
calibrated beforehand on models whose complete answers are known (`calibrate`). From a candidate's answers $y_S$ the
ability follows by maximum likelihood (`fit`):

- *p-IRT*: $\hat\theta$ is free.
- *mp-IRT*: $\hat\theta=\sum_m\lambda_m\theta_m$ mixes the endpoints' abilities $\theta_m$, which were fitted on all
  items; only the $\lambda_m$ are free.

Both predict the unseen items,

$$\hat p=\frac nN\,\bar y_S+\Big(1-\frac nN\Big)\,\overline{P_i(\hat\theta)}_{\,i\notin S},$$

and *gp-IRT* and *gmp-IRT* (the method) blend this with the plain mean: $c\,\bar y_S+(1-c)\,\hat p$, with the blend
$c$ (`blend`, not to be confused with $c_{m,\ell}$).

**Evolve** with the estimate as fitness; the result is the best of the last population by that same estimate.

The networks, the ridge of all fits (0.01 for abilities, so that all-right answers give a finite one), the
calibration by alternating Newton steps and the details of the search are our choices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import plotly.graph_objects as go

from core.demos._merge3_irt import ESTIMATORS, GMP, GP, MEAN, MIXED, MP, Estimator, P, calibrate, estimates
from core.demos._merge3_search import TOP, evolve
from core.demos._merge3_world import LAYERS, Nets, World, answers, build, merge
from core.lab import charts, thumbnails
from core.lab import demo as lab
from core.lab.demo import Claim, Demo, Measure, Measures, Paper, across_seeds, control, fixed
from core.lab.verdicts import Rule, Samples, Verdict, above, below, difference, in_seeds, ratio

FULL, BEST, AVERAGE, BASE = "full evaluation", "best endpoint", "plain average", "base network"
ROLES = charts.roles(GMP, (MEAN, GP, P, MP, BEST, AVERAGE), (FULL, BASE))
SIZES = (7, 14, 28, 70, 140, 280)
PROBES, SUBSETS = 60, 5
LESS_ERROR, FOLD, KEPT, BETTER = 0.005, 50, 0.8, 0.01


class Settings(lab.Settings):
    items: int = control(28, "Items scored per candidate", 7, 280, 7, help="of 1,400")
    dimension: int = control(5, "Ability dimension D", 1, 8, 1)
    calibration: int = control(60, "Calibration models", 8, 120, 4, help="models with complete answers")
    generations: int = control(10, "Generations", 2, 15, 1)
    blend: float = control(0.5, "Weight of the plain mean", 0, 1, 0.1, help="0: prediction only, 1: mean only")
    population: int = fixed(12, "Population", ge=2, le=40)


@dataclass(frozen=True)
class Trace:
    """One search: its genome, and the held-out accuracy of its best after each generation."""

    genome: np.ndarray
    evaluations: np.ndarray
    """item evaluations so far (generations,), with the endpoints' pass where the method needs it"""
    test: np.ndarray


@dataclass(frozen=True)
class Run:
    settings: Settings
    truth: np.ndarray
    """accuracy of the random merges on all items (60,)"""
    guesses: dict[str, np.ndarray]
    """estimator -> its estimates of them, each from another subset (60,)"""
    errors: dict[str, dict[int, float]]
    """estimator -> n -> mean absolute error"""
    traces: dict[str, Trace]
    measures: Measures


def fitness_of(
    name: str, world: World, estimator: Estimator, subset: np.ndarray, blend: float
) -> Callable[[np.ndarray], np.ndarray]:
    """The fitness (p,) of genomes (p, 6) that a search with this estimator sees; only `subset` is evaluated."""
    scored = world.search if name == FULL else (world.search[0][subset], world.search[1][subset])

    def fitness(genomes: np.ndarray) -> np.ndarray:
        seen = answers(merge(world.base, world.endpoints, genomes), scored)
        if name in (FULL, MEAN):
            return seen.mean(1)
        items = np.tile(subset, (len(seen), 1))
        ability = estimator.ability(seen, items, name in MIXED)
        return estimator.accuracy(seen, items, ability, blend if name in (GP, GMP) else 0.0)

    return fitness


def search(s: Settings, world: World, estimator: Estimator, seed: np.random.SeedSequence) -> dict[str, Trace]:
    """Evolve merges once for each fitness: the same subset, the same random numbers."""
    total, endpoints = len(world.search[1]), len(world.endpoints[0])
    for_subset, for_genes = seed.spawn(2)
    subset = np.random.default_rng(for_subset).choice(total, s.items, replace=False)
    traces = {}
    for name in (FULL, *ESTIMATORS):
        fitness = fitness_of(name, world, estimator, subset, s.blend)
        rng = np.random.default_rng(for_genes)
        best, _ = evolve(rng, fitness, endpoints * LAYERS, s.population, s.generations)
        cost = s.population * np.arange(1, s.generations + 1) * (total if name == FULL else s.items)
        test = answers(merge(world.base, world.endpoints, best), world.test).mean(1)
        traces[name] = Trace(best[-1], cost + (endpoints * total if name in MIXED else 0), test)
    return traces


def run(settings: Settings, seed: int) -> Run:
    """Train the networks, calibrate the items, test the estimators on random merges, evolve with each of them."""
    for_world, for_probes, for_search = np.random.SeedSequence(seed).spawn(3)
    world = build(for_world, settings.calibration)
    bank = calibrate(answers(world.calibration, world.search), settings.dimension)
    known = answers(world.endpoints, world.search)
    every = np.tile(np.arange(known.shape[1]), (PROBES, 1))
    estimator = Estimator(bank, Estimator(bank, np.empty((0, 0))).ability(known, every[: len(known)], False))

    rng = np.random.default_rng(for_probes)
    genomes = rng.uniform(0, TOP, (PROBES, len(known) * LAYERS))
    full = answers(merge(world.base, world.endpoints, genomes), world.search)
    target = np.repeat(estimator.ability(full, every, False), SUBSETS, 0)
    full = np.repeat(full, SUBSETS, 0)
    order = np.argsort(rng.random(full.shape), axis=1)
    errors: dict[str, dict[int, float]] = {name: {} for name in ESTIMATORS}
    for n in sorted({*SIZES, settings.items}):
        items = order[:, :n]
        found, ability = estimates(estimator, np.take_along_axis(full, items, 1), items, settings.blend)
        for name, value in found.items():
            errors[name][n] = float(np.abs(value - full.mean(1)).mean())
        if n == settings.items:
            guesses = {name: value[::SUBSETS] for name, value in found.items()}
            distance = {name: float(np.linalg.norm(a - target, axis=1).mean()) for name, a in ability.items()}
    traces = search(settings, world, estimator, for_search)
    measures = {"error": {name: by[settings.items] for name, by in errors.items()}, "ability": distance}
    measures |= results(traces, world, known)
    measures |= {f"error_{n}": {name: by[n] for name, by in errors.items()} for n in SIZES}
    return Run(settings, full.mean(1)[::SUBSETS], guesses, errors, traces, measures)


def results(traces: dict[str, Trace], world: World, known: np.ndarray) -> Measures:
    """Held-out accuracy of what was evolved and of what needs no search; the best endpoint is the best by `known`."""

    def test(nets: Nets) -> np.ndarray:
        return answers(nets, world.test).mean(1)

    third = np.full((1, len(known) * LAYERS), 1 / 3)
    found = {name: float(t.test[-1]) for name, t in traces.items()}
    found[BEST] = float(test(world.endpoints)[np.argmax(known.mean(1))])
    found[AVERAGE] = float(test(merge(world.base, world.endpoints, third))[0])
    found[BASE] = float(test(world.base)[0])
    once = {name: known.size if name in MIXED else 0 for name in traces}
    return {
        "test": found,
        "retained": {name: found[name] / found[FULL] for name in ESTIMATORS},
        "searched": {name: float(t.evaluations[-1] - once[name]) for name, t in traces.items()},
        "evaluations": {name: float(t.evaluations[-1]) for name, t in traces.items()},
    }


@across_seeds
def error_figure(run: Run, samples: Samples | None) -> go.Figure:
    """Lower is better: compare the blue line with the orange one at few items and at many.

    Mean absolute error of a merge's estimated accuracy, over 60 random merges with five subsets each. Bands, where
    several seeds are known, are 95 % intervals.
    """
    fig = charts.blank("items scored per merge, n", "estimation error, accuracy points", log_x=True)
    for name in ESTIMATORS:
        found = [charts.interval_of(samples, f"error_{n}", name, run.errors[name][n]) for n in SIZES]
        middle, low, high = (100 * np.array(v) for v in zip(*found, strict=True))
        band = (low, high) if name in (MEAN, GMP) and (high > low).any() else None
        charts.line(fig, name, np.array(SIZES), middle, ROLES[name], band=band, markers=True)
    fig.update_xaxes(tickvals=SIZES, ticktext=[str(n) for n in SIZES], range=np.log10([6.5, 300]))
    fig.update_yaxes(rangemode="tozero")
    charts.end_labels(fig, right=110)
    return fig


def scatter_figure(run: Run) -> go.Figure:
    """The closer the dots to the dotted diagonal, the better the estimate.

    Estimated accuracy (upward) of 60 random merges; both panels score a merge on the same few items.
    """
    n = run.settings.items
    fig = charts.panels([f"{MEAN} of {n} items", f"{GMP}, {n} items"], "accuracy on all 1,400 items")
    values = np.concatenate([run.truth, run.guesses[MEAN], run.guesses[GMP]])
    ends = [values.min() - 0.02, values.max() + 0.02]
    for column, name in enumerate((MEAN, GMP), 1):
        charts.line(fig, "exact", np.array(ends), np.array(ends), "oracle", end_label=False, row=1, col=column)
        fig.add_scatter(
            x=run.truth,
            y=run.guesses[name],
            mode="markers",
            name=name,
            marker={"color": charts.MARK[ROLES[name]], "size": 8, "opacity": 0.75},
            hovertemplate="true %{x:.3f}, estimated %{y:.3f}<extra></extra>",
            row=1,
            col=column,
        )
    fig.update_yaxes(range=ends, tickformat=".1f")
    return fig.update_xaxes(range=ends, tickformat=".1f")


def search_figure(run: Run) -> go.Figure:
    """Further left is cheaper, higher is better.

    Held-out accuracy of the best candidate by its own fitness after each generation of one run. gmp-IRT starts later
    because it first scores its three endpoints on all items.
    """
    fig = charts.blank("item evaluations so far", "held-out accuracy", log_x=True)
    levels = sorted((run.measures["test"][name], name) for name in (BEST, AVERAGE))
    for (at, name), side in zip(levels, ("top", "bottom"), strict=True):  # names above and below the pair
        charts.level(fig, at, name)
        fig.layout.annotations[-1].update(x=1, xanchor="right", yanchor=side)
    for name in (MEAN, FULL, GMP):
        x, y = run.traces[name].evaluations, run.traces[name].test
        charts.line(fig, name, x, y, ROLES[name], markers=True, end_label=False)
        end = 0 if name == MEAN else -1  # only there its name has room at every n
        place = {MEAN: ("right", "middle", -8, 0), GMP: ("left", "bottom", 0, 6), FULL: ("right", "bottom", 0, 6)}
        fig.add_annotation(
            x=np.log10(x[end]),
            y=y[end],
            text=f"<b>{name}</b>" if name == GMP else name,
            showarrow=False,
            font={"size": 14, "color": charts.TEXT[ROLES[name]]},
            **dict(zip(("xanchor", "yanchor", "xshift", "yshift"), place[name], strict=True)),
        )
    ends = [*(at for at, _ in levels), *(v for n in (MEAN, FULL, GMP) for v in run.traces[n].test)]
    pad = 0.12 * (max(ends) - min(ends))
    fig.update_yaxes(range=[min(ends) - pad, max(ends) + pad])
    first = run.traces[MEAN].evaluations[0]  # room for a name before the first line
    return fig.update_xaxes(range=np.log10([0.2 * first, 1.2 * run.traces[FULL].evaluations[-1]]))


@across_seeds
def accuracy_figure(run: Run, samples: Samples | None) -> go.Figure:
    """Compare each search with full evaluation, and with the networks that need no search.

    Held-out accuracy on both languages, mean with 95 % interval where several seeds are known.
    """
    fig = charts.blank("held-out accuracy")
    names = (GMP, MEAN, P, GP, MP, FULL, BEST, AVERAGE, BASE)
    found = run.measures["test"]
    charts.dots(fig, {n: charts.interval_of(samples, "test", n, found[n]) for n in names}, ROLES)
    return fig


def genome_figure(run: Run) -> go.Figure:
    """The larger the number, the more a merge takes of that endpoint.

    Evolved coefficients of one run, for each language's endpoint and layer. The mirrored language is not scored: its
    endpoint is a distractor.
    """
    names = (FULL, GMP, MEAN)
    fig = charts.panels(names)
    for column, name in enumerate(names, 1):
        z = run.traces[name].genome.reshape(-1, LAYERS)
        charts.picture(fig, z, limits=(0, TOP), row=1, col=column, name=name)
        fig.update_traces(
            texttemplate="%{z:.1f}", textfont={"size": 14}, xgap=2, ygap=2, selector={"type": "heatmap"}
        )
    fig.update_xaxes(tickvals=[0, 1], ticktext=["layer 1", "layer 2"])
    fig.update_yaxes(tickvals=[0, 1, 2], ticktext=["upright", "transposed", "mirrored"])
    return fig


def thumbnail(run: Run) -> str:
    """Estimated against true accuracy of 60 merges: the mean's wide cloud, gmp-IRT's tight one, the diagonal."""
    left, right, top, bottom = 12, thumbnails.WIDTH - 12, 12, thumbnails.HEIGHT - 12
    values = np.concatenate([run.truth, run.guesses[MEAN], run.guesses[GMP]])
    x = np.interp(run.truth, (values.min(), values.max()), (left, right))
    body = f'<line class="s-oracle" x1="{left}" y1="{bottom}" x2="{right}" y2="{top}" stroke-width="1.5"/>'
    for name in (MEAN, GMP):
        y = np.interp(run.guesses[name], (values.min(), values.max()), (bottom, top))
        dots = "".join(f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3.5"/>' for a, b in zip(x, y, strict=True))
        body += f'<g class="f-{ROLES[name]}">{dots}</g>'
    return thumbnails.svg(body)


def fifty_fold(samples: Samples) -> Verdict:
    """Item evaluations inside the two searches; the note counts the endpoints' pass too."""
    saved = ratio("searched", FULL, GMP, digits=0, label="evaluations in the search, full / reduced:")
    found = in_seeds(
        lambda s: s("searched", FULL) >= FOLD * s("searched", GMP), saved, holds_from=1, fails_to=1, bound=FOLD
    )(samples)
    total = ratio("evaluations", FULL, GMP)(samples).value
    return replace(found, note=f"{found.note}; {total:.0f}× with the endpoints' pass over all items")


def gain(name: str, label: str) -> Rule:
    """Lower estimation error than the subset mean, by more than half an accuracy point."""
    return below(difference("error", name, MEAN, scale=100, unit="points", label=label), -100 * LESS_ERROR)


def better_estimates(samples: Samples) -> Verdict:
    """gmp-IRT against the subset mean; the note says what blending and mixing do apart."""
    found = gain(GMP, "error, gmp-IRT − subset mean:")(samples)
    e = found.effect
    same = e is not None and max(abs(e.low), abs(e.high)) <= 100 * LESS_ERROR
    reason = f"no practical difference (margin {LESS_ERROR:g})" if same else found.note
    mixed, blended = (gain(name, f"{name} − subset mean")(samples) for name in (MP, GP))
    beside = f"not blended: {mixed.effect}, {mixed.word}; without endpoints: {blended.effect}, {blended.word}"
    return replace(found, note="; ".join(filter(None, (reason, beside))))


def retains(samples: Samples) -> Verdict:
    """A large part of what full evaluation reaches; the note compares with networks that need no search."""
    found = above(ratio("test", GMP, FULL, label="gmp-IRT / full evaluation:"), KEPT)(samples)
    over = [difference("test", GMP, name, digits=3, label=f"gmp-IRT − {name}")(samples) for name in (BEST, BASE)]
    return replace(found, note="; ".join(filter(None, (found.note, *map(str, over)))))


def _few_weights(settings: Settings) -> str:
    return "" if settings.dimension > 3 else "with D ≤ 3, mixtures of three abilities can be any ability"


DEMO = Demo(
    name="MERGE³",
    line="Evolving merged networks while scoring each on 28 of 1400 items.",
    topic="Model merging",
    abstract="Evolutionary model merging enables the creation of high-performing multi-task models",
    paper=Paper(
        "MERGE³: Efficient Evolutionary Merging on Consumer-grade GPUs",
        "https://icml.cc/virtual/2025/poster/43950",
        "https://github.com/tommasomncttn/merge3",
    ),
    settings=Settings,
    run=run,
    measures={
        "error": Measure("Estimation error of random merges", "accuracy", "lower"),
        "ability": Measure("Distance of the ability from the fit on all items", "", "lower", 2),
        "test": Measure("Held-out accuracy of the merge", "", "higher"),
        "retained": Measure("Held-out accuracy relative to full evaluation", "", "higher"),
        "searched": Measure("Item evaluations inside the search", "", "lower", 0),
        "evaluations": Measure("Item evaluations with the endpoints' pass", "", "lower", 0),
        **{f"error_{n}": Measure(f"Estimation error from {n} items", "accuracy", "lower") for n in SIZES},
    },
    figures=(error_figure, scatter_figure, search_figure, accuracy_figure, genome_figure),
    thumbnail=thumbnail,
    claims=(
        Claim(
            "reducing fitness computation costs 50×",
            "Scoring candidates on the reduced set takes at most a fiftieth of the item evaluations",
            fifty_fold,
        ),
        Claim(
            "IRT-based performance estimators",
            "gmp-IRT estimates a merge's accuracy better than the mean of the same items (by half a point)",
            better_estimates,
        ),
        Claim(
            "**E**stimating model abilities using Item Response Theory (IRT)",
            "A mixture of the endpoints' abilities comes nearer to the ability on all items than a free fit",
            below(difference("ability", MP, P, label="distance, mp-IRT − p-IRT:"), 0),
            applies=_few_weights,
        ),
        Claim(
            "retaining a large fraction of the original performance",
            "The merge evolved on few items keeps over 80 % of what full evaluation reaches",
            retains,
        ),
        Claim(
            "**E**volving optimal merges",
            "Evolving by gmp-IRT gives a better merge than evolving by the mean of the same items",
            above(
                difference("retained", GMP, MEAN, digits=3, label="retained, gmp-IRT − subset mean:"),
                0,
                least=BETTER,
                same=(-BETTER, BETTER),
            ),
        ),
    ),
    presets={
        "20-fold, n = 70": Settings(items=70),
        "Break it: plenty of items": Settings(items=280),
        "Poor item bank": Settings(calibration=8),
    },
    break_it="Break it: plenty of items",
    why_it_breaks="With 280 items the plain mean is already exact enough, and the fitted curves only add bias.",
    simplified="Networks with 64–32–10 units on the digits in three “languages” (upright, transposed, mirrored) instead "
    "of 7-billion-parameter LLMs on benchmarks; 60 calibration models instead of a public leaderboard, their answers "
    "taken as given and not counted. One objective, task arithmetic only, 12 candidates in 10 generations. Our base "
    "network has seen both languages, so merging wins back what fine-tuning on one of them forgot; on average no "
    "evolved merge beats the base, and nothing here tests transfer between languages.",
    seeds=16,
)
