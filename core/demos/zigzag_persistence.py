r"""A language model turns $N$ prompts into a cloud of $N$ points after every block: the state of the last word.
Which loops does this cloud have, and which of them live on in the next layer?

**One layer.** Join each point to its `k` nearest neighbours, and fill every triangle: the complex $K_l$. The loops
that no triangles fill are its 1-cycles, $\beta_l$ in number. Vertices are prompts, not places. So a loop can be
found again in another layer, whatever that layer did to the space.

**All layers.** Two layers share the simplices of $K_l\cap K_{l+1}$. In the zigzag

$$K_1\supseteq K_1\cap K_2\subseteq K_2\supseteq\dots\subseteq K_L$$

loops appear and vanish in either direction, and each has one bar from birth to death (`zigzag_barcode`, exact over
$\mathbb Z/2$). Intersections only carry; a bar counts in the layers $1..L$ that it covers.

**Descriptors.** With $\beta_{lj}$ bars alive in both $l$ and $j$, the *inter-layer persistence* (`persistence`) is

$$r_l=\frac1L\sum_j\frac{\beta_{lj}}{\beta_j}.$$

It is $1/L$ if nothing lasts, 1 if nothing changes. Births and lives of bars complete the picture.

**Pruning.** Where $r$ is high, layers change little. So cut the block of $m$ layers whose mean $r$ is highest (never
the first layer) and let the model run on without them, with no further training. Rivals: least *angular distance*
between the states before and after the cut; least *BI score*, the sum of $1-\cos$ over the cut layers; least change
of $\beta$, which looks at each layer by itself. The oracle tries all cuts. A tie counts as its mean; if all cuts tie,
there is no choice.

Language, model and the fixed block size are ours. Layer $l$ of the text is entry $l-1$ in the code.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import plotly.graph_objects as go
from scipy import stats

from core.demos import _zigzag_persistence_figures as figures
from core.demos._zigzag_persistence_barcode import cliques, layer_complexes, neighbour_graph
from core.demos._zigzag_persistence_holes import ANGULAR, BETTI, BI, ZIGZAG, Holes, best_cuts, scores, starts, track
from core.demos._zigzag_persistence_model import BLOCKS, HELD_OUT, Corpus, Kind, Language, language
from core.lab import charts
from core.lab import demo as lab
from core.lab.demo import Claim, Demo, Measure, Measures, Paper, across_seeds, choice, control
from core.lab.verdicts import (
    Estimator,
    Rule,
    Samples,
    Verdict,
    above,
    all_of,
    below,
    difference,
    join,
    number,
    per_seed,
)

RANDOM, ORACLE = "random cut", "oracle"
ROLES = charts.roles(ZIGZAG, (ANGULAR, BI, BETTI, RANDOM), ORACLE)
KEPT, PERMUTED = "rows kept", "rows permuted"
TRAINED, UNTRAINED, SHUFFLED = "trained", "untrained", "shuffled words"
MIDDLE = BLOCKS // 2
R_DROP, REACTION = 0.05, 10.0
"""Least drop of r that counts as lost tracking; least change of a descriptor, in %, that counts as a reaction."""
NO_CYCLES = "no cycles at this k and N"
ALL_TIE = "no choice: every cut has the same r"


class Settings(lab.Settings):
    prompts: int = control(300, "Prompts N", 40, HELD_OUT, 10)
    k: int = control(5, "Neighbours k", 2, 10, 1)
    block: int = control(2, "Layers cut m", 1, 3, 1)
    model: Kind = choice("trained", "Language model")
    corpus: Corpus = choice("grammar", "Text", labels={"shuffled": "shuffled words"})
    scramble: bool = choice(False, "Scramble the prompts in each layer", help="Every layer gets its own row order.")


@dataclass(frozen=True)
class Run:
    settings: Settings
    holes: Holes
    permuted: Holes
    """the same with the rows of the middle layer permuted"""
    untrained: Holes
    """those of the model before training"""
    increase: np.ndarray
    """rise of the held-out loss for every cut"""
    picks: dict[str, np.ndarray]
    """criterion -> positions of the cuts it chooses"""
    note: str
    """why zigzag chooses no cut, or nothing"""
    measures: Measures


def states_of(lm: Language, settings: Settings, rng: np.random.Generator) -> np.ndarray:
    """States (L, N, d) of the prompts' last word after each layer, scrambled if so set."""
    states = lm.streams[1:, : settings.prompts, -1]
    if not settings.scramble:
        return states
    return np.stack([rng.permutation(layer) for layer in states])


def run(settings: Settings, seed: int) -> Run:
    """Train the model, follow the holes of its prompts, and try every cut."""
    lm = language(settings.model, settings.corpus, seed)
    for_states, for_rows = (np.random.default_rng((seed, i)) for i in (1, 2))
    states = states_of(lm, settings, for_states)
    complexes = layer_complexes(states, settings.k)
    holes = track(complexes)
    middle = cliques(neighbour_graph(for_rows.permutation(states[MIDDLE]), settings.k), 2)
    permuted = track([*complexes[:MIDDLE], middle, *complexes[MIDDLE + 1 :]])
    untrained = (
        holes if settings.model == "untrained" else other_holes(settings, seed, "untrained", settings.corpus)
    )
    score = scores(states, holes, settings.block)
    picks = {name: best_cuts(values) for name, values in score.items()}
    increase = np.array([lm.loss_without(s, settings.block) for s in starts(BLOCKS, settings.block)]) - lm.loss
    note = "" if len(picks[ZIGZAG]) else ALL_TIE if len(holes.alive) else NO_CYCLES
    cost = {name: float(increase[at].mean()) if len(at) else np.nan for name, at in picks.items()}
    rank = np.nan if note else float(stats.spearmanr(-score[ZIGZAG], increase).statistic)
    measures: Measures = {
        "increase": cost | {RANDOM: float(increase.mean()), ORACLE: float(increase.min())},
        "rank": {ZIGZAG: rank},
        "life": {ZIGZAG: holes.mean_life},
        "betti": {ZIGZAG: float(holes.betti.mean())},
        "r_middle": {KEPT: holes.persistence[MIDDLE], PERMUTED: permuted.persistence[MIDDLE]},
        "betti_change": {PERMUTED: float(np.abs(permuted.betti - holes.betti).max())},
        "loss": {settings.model: lm.loss},
    }
    return Run(settings, holes, permuted, untrained, increase, picks, note, measures)


def other_holes(settings: Settings, seed: int, model: Kind, corpus: Corpus) -> Holes:
    """The holes of another model at the same N and k; prompts are scrambled alike."""
    lm = language(model, corpus, seed)
    return track(layer_complexes(states_of(lm, settings, np.random.default_rng((seed, 1))), settings.k))


def three_models(settings: Settings, seed: int) -> Measures:
    """Descriptors of the trained model, of its start, and of one trained on shuffled words."""
    which: dict[str, tuple[Kind, Corpus]] = {
        TRAINED: ("trained", "grammar"),
        UNTRAINED: ("untrained", "grammar"),
        SHUFFLED: ("trained", "shuffled"),
    }
    found = {name: other_holes(settings, seed, *pair) for name, pair in which.items()}
    return {
        "betti_of": {name: float(h.betti.mean()) for name, h in found.items()},
        "life_of": {name: h.mean_life for name, h in found.items()},
        "r_of": {name: float(h.persistence[MIDDLE]) for name, h in found.items()},
    }


@across_seeds
def cost_figure(run: Run, samples: Samples | None) -> go.Figure:
    """The further left a dot, the less harm does the cut that a criterion chooses.

    Rise of the held-out loss when the chosen layers are cut, without further training; 95 % intervals over
    seeds. The oracle tries every cut, the random cut is the mean of all.
    """
    fig = charts.blank("rise of the loss (nats per word)")
    found = {m: charts.interval_of(samples, "increase", m, run.measures["increase"][m]) for m in ROLES}
    charts.dots(fig, found, ROLES)
    known = {name: values for name, values in found.items() if np.isfinite(values[0])}
    left, right = min(0.0, *(v[1] for v in known.values())), max(v[2] for v in known.values())
    for name in found:
        value, _, high = known.get(name, (np.nan, left, left))
        text = number(value, 3) if name in known else "no choice"
        fig.add_annotation(
            x=high,
            y=name,
            text=f"<b>{text}</b>" if name == ZIGZAG else text,
            xanchor="left",
            xshift=9,
            showarrow=False,
            font={"size": 13, "color": charts.TEXT[ROLES[name]]},
        )
    width = right - left
    return fig.update_xaxes(range=[left - 0.03 * width, right + 0.15 * width], nticks=6)


def cuts_figure(run: Run) -> go.Figure:
    """A good criterion marks the place where the line is lowest.

    Above: rise of the held-out loss in one run, by the first layer of the cut. Below: the cut each criterion
    chooses; several marks are a tie.
    """
    first = starts(BLOCKS, run.settings.block) + 1
    levels = {name: run.measures["increase"][name] for name in (RANDOM, ORACLE)}
    fig = figures.cuts(first, run.increase, levels, run.picks, ROLES)
    if run.note:
        place = {"x": first.mean(), "y": ZIGZAG, "xref": "x2", "yref": "y2"}
        fig.add_annotation(text=run.note, showarrow=False, font={"color": charts.TEXT["method"]}, **place)
    return fig.update_xaxes(title_text="first layer of the cut", row=2, col=1)


def persistence_figure(run: Run) -> go.Figure:
    """The further right a loop stands, the more layers it lives through.

    Number of 1-cycles by the layer of their birth and the layers they cover, colour on a log scale; at the
    right, the share of all births that each layer has.
    """
    fig = figures.births_and_lives(run.holes)
    if run.note == NO_CYCLES:
        fig.add_annotation(text=NO_CYCLES, x=4.5, y=4.5, showarrow=False, font={"color": charts.INK, "size": 16})
    return fig


def layers_figure(run: Run) -> go.Figure:
    """Look at the cross: with the prompts of layer 5 permuted it has as many cycles, but hardly one is known elsewhere.

    Blue: this model. Grey: the same model before training. Where its r has the same arch, the arch comes from the
    average over layers (the middle is near to all of them), not from what was learned.
    """
    other = run.untrained if run.settings.model == "trained" else None
    return figures.layer_by_layer(run.holes, run.permuted, other, MIDDLE)


def thumbnail(run: Run) -> str:
    """The barcode of the 1-cycles over the layers, packed; bars of three layers and more in the accent colour."""
    return figures.packed_barcode(run.holes)


def follows_identity(samples: Samples) -> Verdict:
    """r at the permuted layer drops; to hold, no Betti number may change in any seed."""
    drop = difference("r_middle", PERMUTED, KEPT, digits=3, label="r at the permuted layer")
    found = below(drop, -R_DROP)(samples)
    changed = int((samples("betti_change", PERMUTED) != 0).sum())
    if found.outcome == "holds" and changed:
        return Verdict("unclear", found.effect, found.bound, f"Betti numbers change too, in {changed} seeds")
    return found


def relative(measure: str, name: str, what: str) -> Estimator:
    """Change of a descriptor against the trained model in %, by seed."""

    def change(s: Samples) -> np.ndarray:
        return 100 * (s(measure, name) / s(measure, TRAINED) - 1)

    return per_seed(change, "difference", label=f"{what}, {name}", unit="%", digits=0)


def reacts(name: str) -> Rule:
    """Holds if one descriptor changes by more than 10 %; fails if both surely change by less."""

    def rule(samples: Samples) -> Verdict:
        found = []
        for measure, what in (("betti_of", "mean β"), ("life_of", "mean life")):
            change = relative(measure, name, what)
            e = change(samples)
            test = above(change, REACTION) if not e.value < 0 else below(change, -REACTION)
            verdict = test(samples)
            inside = e.low >= -REACTION and e.high <= REACTION
            found.append((verdict, inside))
        clear = [v for v, _ in found if v.outcome == "holds"]
        if clear:
            return max(clear, key=lambda v: v.margin)
        tested = [v for v, _ in found if v.outcome != "untestable"]
        if not tested:
            return found[0][0]
        shown = max(tested, key=lambda v: v.margin)
        fails = all(inside for _, inside in found) and len(samples.seeds) >= 8
        outcome: Literal["fails", "unclear"] = "fails" if fails else "unclear"
        return Verdict(
            outcome, shown.effect, shown.bound, shown.note, shown.margin, shown.margin_low, shown.margin_high
        )

    return rule


def comparable(samples: Samples) -> Verdict:
    """Within half of what there is to gain of both established scores, and better than a random cut."""
    half = float(np.mean(samples("increase", RANDOM) - samples("increase", ORACLE))) / 2
    parts = [
        below(difference("increase", ZIGZAG, name, digits=3, label=f"against {name}"), bound)(samples)
        for name, bound in ((ANGULAR, half), (BI, half), (RANDOM, 0.0))
    ]
    found = join(parts)
    if found.outcome == "untestable":
        undefined = int(np.isnan(samples("increase", ZIGZAG)).sum())
        return replace(found, note=f"zigzag chooses no cut in {undefined} of {len(samples.seeds)} seeds")
    return replace(found, note=f"bound for the scores {half:.3f}, half of random − oracle")


DEMO = Demo(
    name="Zigzag persistence",
    line="Follow holes in the prompt cloud through a transformer, and prune accordingly.",
    topic="Interpretability",
    abstract="Understanding the decision-making processes of large language models",
    paper=Paper(
        "Persistent Topological Features in Large Language Models",
        "https://icml.cc/virtual/2025/poster/43958",
        "https://github.com/RitAreaSciencePark/ZigZagLLMs",
    ),
    settings=Settings,
    run=run,
    measures={
        "increase": Measure("Rise of the held-out loss by the chosen cut", "nats per word", "lower"),
        "rank": Measure("Rank correlation of r and loss rise over all cuts (−1 is best)", better="lower", digits=2),
        "life": Measure("Mean life of a 1-cycle", "layers", digits=2),
        "betti": Measure("1-cycles per layer", digits=1),
        "r_middle": Measure("Inter-layer persistence r of layer 5"),
        "betti_change": Measure("Largest change of a Betti number by permuting layer 5", digits=0),
        "loss": Measure("Held-out loss of the whole model", "nats per word", "lower"),
        "betti_of": Measure("1-cycles per layer, three models", digits=1),
        "life_of": Measure("Mean life of a 1-cycle, three models", "layers", digits=2),
        "r_of": Measure("Inter-layer persistence r of layer 5, three models"),
    },
    figures=(cost_figure, cuts_figure, persistence_figure, layers_figure),
    thumbnail=thumbnail,
    claims=(
        Claim(
            "our approach directly tracks the full evolutionary path of these features",
            "Permuting the prompts of one layer leaves every layer's count of holes alone, but r sees it",
            follows_identity,
        ),
        Claim(
            "how sensitive these descriptors are to different models and a variety of datasets",
            "The descriptors change by more than 10 % without training, and with shuffled words",
            all_of(reacts(UNTRAINED), reacts(SHUFFLED)),
            probe=three_models,
        ),
        Claim(
            "we use zigzag persistence to establish a criterion for layer pruning, achieving results comparable to "
            "state-of-the-art methods",
            "Cuts by r cost about as little as cuts by angular distance and BI score, and less than random ones",
            comparable,
        ),
    ),
    presets={
        "Break it: few prompts": Settings(prompts=60),
        "Break it: identity lost": Settings(scramble=True),
    },
    break_it="Break it: identity lost",
    why_it_breaks="When every layer has its own order of the prompts, no cycle of one layer is known in the next, so no "
    "layer persists more than another and no block can be chosen. With few prompts, the cycles are too few to choose "
    "better than chance.",
    simplified="A transformer of 8 small blocks (width 16, context 8) trained for 150 steps on 1,500 rows of a made-up "
    "language of 60 words, instead of large language models; 1-cycles only; held-out loss instead of benchmark tasks. "
    "The authors cut all layers with r near its maximum; here all criteria cut the same number of layers.",
    seeds=16,
)
