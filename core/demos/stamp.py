r"""Was a set of documents in the training text of a language model? STAMP prepares the answer before publishing.

**Rephrase.** A rephraser writes every document several times, each time under another secret key $k_j$. At each
place where it has a choice, a hash of the key, the three words before and the candidate $w$ puts $w$ into the
green set $G_{k_j}$ with probability $\gamma$ (`gamma`); green candidates get a bonus $\delta$ (`delta`) on their
logit $\ell$:

$$p(w)\propto\exp\{\ell(w)+\delta\,1[w\in G_{k_j}]\}.$$

The version of the random key $k_0$ is published, the twins of $k_1,\dots,k_J$ (`keys`) stay private.

**Test.** $L_{ij}$ (`table`) is the log-perplexity that a model gives to version $j$ of document $i$: the mean
negative log-probability per word. With $n$ documents,

$$d_i=\frac1J\sum_{j=1}^J L_{ij}-L_{i0},\qquad t=\frac{\bar d}{s_d/\sqrt n},$$

and a one-sided $t$ test asks whether $\bar d>0$. A model that never saw the published version has no reason to
prefer it to its twins; one that was trained on it finds it cheaper. Taking differences within a document removes
how hard its topic is, which matters far more than one reading does.

**Rivals** compare the published documents with *other*, held-out ones: by log-perplexity (unpaired test) or by the
fifth of the words that are least likely (Min-K %). The order test asks whether the model prefers the published
order of the documents to 39 shuffles. The exact key rank is the place of the published version among all $J+1$.

**Here** the rephraser swaps synonyms in real abstracts; the model predicts a word from the two before it. It
learns from 40,000 words of scikit-learn's documentation, then reads 20,000 more and the documents, all once. The
constants, the one-sided test and the whole small model are our choice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import plotly.graph_objects as go
from scipy import stats

from core.demos import _stamp_model as lm
from core.demos._stamp_rephrase import green_slots
from core.demos._stamp_tests import differences
from core.demos._stamp_text import corpus, slots_of
from core.demos._stamp_world import (
    EASY,
    HARD,
    MIN_K,
    ONE,
    ORDER,
    PLAIN,
    RANDOM,
    RANK,
    STAMP,
    UNPAIRED,
    Arm,
    World,
    costs,
    judge,
    learn,
    make_world,
    model_order,
)
from core.lab import charts, thumbnails
from core.lab import demo as lab
from core.lab.demo import Claim, Demo, Measure, Measures, Paper, across_seeds, choice, control, fixed
from core.lab.verdicts import LEAST_SEEDS, Samples, Verdict, above, all_of, below, difference, join, mean, share

ROLES = charts.roles(STAMP, (ONE, PLAIN, UNPAIRED, MIN_K, ORDER), RANK)
RIVALS = (UNPAIRED, MIN_K, ORDER)
ON, OFF = "trained on", "not trained on"
OWN, WRONG = "own key", "wrong key"
LEVEL, CLEAR_P, DETECTED, NET_MARGIN = 0.05, 0.01, 0.5, 0.05
KEPT, DIFFICULTY, MODELS = 0.85, 0.9, 0.9
FLOOR = 1e-8
"""Smaller p-values are drawn here."""


class Settings(lab.Settings):
    trained: bool = choice(True, "In the training text?", help="Which model the first figure shows.")
    documents: int = control(14, "Published documents n", 3, 18, 1)
    delta: float = control(2.0, "Watermark strength δ", 0, 4, 0.5, help="0: synonyms are chosen without key.")
    keys: int = control(5, "Private versions J", 1, 20, 1)
    rate: float = control(0.05, "Learning rate", 0.005, 0.1, 0.005, help="Of the pass that holds the documents.")
    held_out: Literal["random", "easy members", "hard members"] = choice(
        RANDOM,
        "Held-out documents",
        labels={EASY: "harder than the published", HARD: "easier than the published"},
        help="What the unpaired tests compare with.",
    )
    one_file: bool = choice(False, "Published as one file", help="The model then reads the documents in order.")
    gamma: float = fixed(0.5, "Share of green words γ", ge=0.05, le=0.95)


def both_arms(s: Settings, seed: int, how: str, variants: bool = True) -> tuple[World, lm.Model, dict[str, Arm]]:
    """A world, its clean model, and what the tests say with and without the documents in the training text."""
    world = make_world(seed, s.documents, s.keys, s.delta, s.gamma, how)
    clean = learn(world, [], s.rate, s.one_file)
    models = {ON: learn(world, world.versions[0], s.rate, s.one_file), OFF: clean}
    plain = {ON: learn(world, world.plain[0], s.rate, s.one_file), OFF: clean} if variants else {}
    return world, clean, {arm: judge(world, model, plain.get(arm)) for arm, model in models.items()}


@dataclass(frozen=True)
class Run:
    settings: Settings
    arms: dict[str, Arm]
    """trained on or not -> log-perplexities and p-values"""
    green: dict[str, np.ndarray]
    """own or wrong key -> share of slots that are green (n,)"""
    original: list[str]
    """the document with the most slots"""
    versions: list[list[str]]
    """its versions, published first"""
    lit: np.ndarray
    """whether each slot of each version is green under its own key (versions, slots)"""
    measures: Measures


def run(settings: Settings, seed: int) -> Run:
    """Rephrase, train with and without the published documents, test both models."""
    world, clean, arms = both_arms(settings, seed, settings.held_out)
    originals = [corpus().documents[i] for i in world.members]
    published, gamma = world.versions[0], settings.gamma
    pairs = list(zip(originals, published, strict=True))
    green, z = {}, {}
    for name, key in ((OWN, world.keys[0]), (WRONG, world.keys[-1])):
        slots = [green_slots(a, b, key, gamma) for a, b in pairs]
        green[name] = np.array([g.mean() for g in slots])
        z[name] = float(
            np.mean([(g.sum() - gamma * len(g)) / np.sqrt(len(g) * gamma * (1 - gamma)) for g in slots])
        )
    gaps = {arm: differences(found.table) for arm, found in arms.items()}
    measures: Measures = {
        "p_on": arms[ON].p,
        "p_off": arms[OFF].p,
        "detected": {m: float(p < LEVEL) for m, p in arms[ON].p.items()},
        "false_alarm": {m: float(p < LEVEL) for m, p in arms[OFF].p.items()},
        "gap": {arm: float(d.mean()) for arm, d in gaps.items()},
        "effect": {arm: float(d.mean() / d.std(ddof=1)) for arm, d in gaps.items()},
        "perplexity": {arm: float(np.exp(found.table[:, 0].mean())) for arm, found in arms.items()},
        "watermark": z,
        "kept": {STAMP: float(np.mean([a == b for pair in pairs for a, b in zip(*pair, strict=True)]))},
        "difficulty": {STAMP: float(stats.spearmanr(costs(clean, originals), arms[OFF].table[:, 0])[0])},
        "models": {STAMP: model_order(originals, published)},
    }
    k = max(range(len(originals)), key=lambda i: len(slots_of(originals[i])))
    shown = [version[k] for version in world.versions]
    lit = [green_slots(originals[k], words, key, gamma) for words, key in zip(shown, world.keys, strict=False)]
    return Run(settings, arms, green, originals[k], shown, np.array(lit), measures)


def three_choices(settings: Settings, seed: int) -> Measures:
    """Detections minus false alarms, averaged over three choices of documents, and for the random choice alone."""
    net = {}
    for how in (RANDOM, EASY, HARD):
        arms = both_arms(settings, seed, how, variants=False)[2]
        net[how] = {m: float(arms[ON].p[m] < LEVEL) - float(arms[OFF].p[m] < LEVEL) for m in (STAMP, *RIVALS)}
    return {
        "net": {m: float(np.mean([by[m] for by in net.values()])) for m in (STAMP, *RIVALS)},
        "net_random": net[RANDOM],
    }


def documents_figure(run: Run) -> go.Figure:
    """Points below the dotted line are documents whose published wording is cheaper than its private twins.

    Left: log-perplexity of both in nats per word, one point a document. Right: the distance to the line, sorted, with
    its mean and 95 % interval over documents.
    """
    table = run.arms[ON if run.settings.trained else OFF].table
    private, d = table[:, 1:].mean(axis=1), np.sort(differences(table))
    fig = charts.panels(["published", "private − published"], shared_y=False)
    ends = np.array([table.min() - 0.1, table.max() + 0.1])
    charts.line(fig, "equal", ends, ends, "oracle", row=1, col=1)
    dot = {"color": charts.MARK["method"], "size": 10, "line": {"color": charts.GROUND, "width": 1}}
    found = {"mode": "markers", "marker": dot, "hovertemplate": "%{x:.3f}, %{y:.3f}<extra></extra>"}
    fig.add_scatter(x=private, y=table[:, 0], name="documents", **found, row=1, col=1)
    fig.update_xaxes(title_text="mean of private twins", range=list(ends), nticks=5, showgrid=True, row=1, col=1)
    fig.update_xaxes(gridcolor=charts.GRID)
    fig.update_yaxes(range=list(ends), nticks=5, row=1, col=1)
    fig.add_scatter(x=np.arange(1, len(d) + 1), y=d, name="difference", **found, row=1, col=2)
    half = stats.t.ppf(0.975, len(d) - 1) * d.std(ddof=1) / np.sqrt(len(d))
    blue = charts.MARK["method"]
    fig.add_hrect(d.mean() - half, d.mean() + half, fillcolor=charts.tint(blue, 0.16), line_width=0, row=1, col=2)
    fig.add_hline(d.mean(), line={"color": blue, "width": 3}, row=1, col=2)
    fig.add_hline(0, line={"color": charts.MARK["oracle"], "width": 1.6, "dash": "dot"}, row=1, col=2)
    edge = 1.15 * max(np.abs(d).max(), abs(d.mean()) + half)
    fig.update_yaxes(range=[-edge, edge], row=1, col=2)
    fig.update_xaxes(title_text="documents, sorted", nticks=5, row=1, col=2)
    return fig.update_layout(xaxis_domain=[0, 0.44], xaxis2_domain=[0.56, 1])


@across_seeds
def tests_figure(run: Run, samples: Samples | None) -> go.Figure:
    """Left of the dotted line (p = 0.05) a test says “trained on”: a hit in the left panel, a false alarm in the other.

    Every small dot is one run, the large one their median. The numbers count runs left of the line.
    """
    fig = charts.panels([ON, OFF], "log<sub>10</sub> p")
    rng = np.random.default_rng(0)  # only spreads the dots of a row
    for column, (measure, arm) in enumerate((("p_on", ON), ("p_off", OFF)), 1):
        for row, name in enumerate(ROLES):
            p = np.array([run.arms[arm].p[name]]) if samples is None else samples(measure, name)
            colour = charts.MARK[ROLES[name]]
            x, at = np.maximum(p, FLOOR), {"row": 1, "col": column}
            y = row + rng.uniform(-0.25, 0.25, len(x)) if len(x) > 1 else [row]
            hover = {"customdata": p, "hovertemplate": f"{name}: p = %{{customdata:.2g}}<extra></extra>"}
            small = {"color": charts.tint(colour, 0.4), "size": 6}
            fig.add_scatter(x=x, y=y, mode="markers", marker=small, name=name, **hover, **at)
            large = {"color": colour, "size": 13, "symbol": "diamond" if name == RANK else "circle"}
            fig.add_scatter(x=[np.median(x)], y=[row], mode="markers", marker=large, name=name, **at)
            text = f"{(p < LEVEL).sum()}/{len(p)}"
            font = {"size": 13, "color": charts.TEXT[ROLES[name]]}
            fig.add_annotation(x=0.6, y=row, text=text, xanchor="left", xshift=4, showarrow=False, font=font, **at)
        fig.add_vline(LEVEL, line={"color": charts.MARK["oracle"], "width": 1.6, "dash": "dot"}, row=1, col=column)
    words = ["≤ −8", "−4", "0"]
    fig.update_xaxes(type="log", range=[-8.9, 3.2], tickvals=[FLOOR, 1e-4, 1], ticktext=words, tickangle=0)
    names = [f"<b>{n}</b>" if n == STAMP else n for n in ROLES]
    return fig.update_yaxes(
        tickvals=list(range(len(names))), ticktext=names, range=[len(names) - 0.5, -0.6], showgrid=False
    )


def words_figure(run: Run) -> go.Figure:
    """Every version is the same text with its own choice of synonyms.

    Up to twelve slots of one document, with the word before each. Shaded: green under the key of that version; bold:
    not the author's word.
    """
    slots = slots_of(run.original)[:12]
    columns = {"original": run.original, "published": run.versions[0], "a private twin": run.versions[1]}
    z = np.zeros((len(slots), len(columns)))
    z[:, 1:] = 0.35 * run.lit[:2, : len(slots)].T
    fig = charts.blank(height=380)
    charts.picture(fig, z, x=list(range(len(columns))), y=list(range(len(slots))), hover="")
    fig.update_traces(xgap=2, ygap=2, hoverinfo="skip", hovertemplate=None)
    for c, words in enumerate(columns.values()):
        for r, i in enumerate(slots):
            text = words[i] if words[i] == run.original[i] else f"<b>{words[i]}</b>"
            fig.add_annotation(x=c, y=r, text=text, showarrow=False, font={"size": 12, "color": charts.INK})
    before = [f"{run.original[i - 1]} …" if i else "…" for i in slots]
    fig.update_yaxes(tickvals=list(range(len(slots))), ticktext=before)
    fig.update_xaxes(tickvals=list(range(len(columns))), ticktext=list(columns), side="top", tickangle=0)
    return fig


def green_figure(run: Run) -> go.Figure:
    """How far the own key's dots lie right of chance is the watermark; a wrong key sees none.

    Share of the published version's slots that hold a word green under its key and under a key that was never used;
    one small dot a document, the large dots are means.
    """
    fig = charts.blank("share of slots with a green word", height=220)
    rng = np.random.default_rng(0)  # only spreads the dots of a row
    for row, (name, role) in enumerate(((OWN, "method"), (WRONG, "baseline1"))):
        values, colour = run.green[name], charts.MARK[role]
        small = {"color": charts.tint(colour, 0.45), "size": 8}
        fig.add_scatter(
            x=values, y=row + rng.uniform(-0.2, 0.2, len(values)), mode="markers", marker=small, name=name
        )
        large = {"color": colour, "size": 14, "line": {"color": charts.GROUND, "width": 1.5}}
        fig.add_scatter(x=[values.mean()], y=[row], mode="markers", marker=large, name=f"{name}, mean")
    fig.update_yaxes(tickvals=[0, 1], ticktext=[f"<b>{OWN}</b>", WRONG], range=[1.5, -0.5], showgrid=False)
    fig.update_xaxes(range=[-0.02, 1.02], showgrid=True, gridcolor=charts.GRID)
    charts.moment(fig, run.settings.gamma, "chance")
    return fig


def thumbnail(run: Run) -> str:
    """The documents against the diagonal of equal cost, stretched across it so that the gap can be seen."""
    table = run.arms[ON].table
    private, d = table[:, 1:].mean(axis=1), differences(table)
    x = 20 + 260 * (private - private.min()) / np.ptp(private)
    rise = 56 - 72 * (x - 20) / 260 + 36  # the diagonal
    y = rise + 26 * d / np.abs(d).max()
    body = '<line class="s-oracle" x1="12" y1="94" x2="288" y2="18" stroke-width="2" stroke-dasharray="2 5"/>'
    for a, b, below_line in zip(x, y, d > 0, strict=True):
        role = "method" if below_line else "baseline1"
        body += f'<circle class="f-{role}" cx="{a:.1f}" cy="{b:.1f}" r="5"/>'
    return thumbnails.svg(body)


def detects(samples: Samples) -> Verdict:
    """More than half of the runs detect, and the median p is clear; fails if fewer than half do."""
    median = float(np.median(samples("p_on", STAMP)))
    found = above(share("detected", STAMP, 1, label="detection rate"), DETECTED)(samples)
    found = replace(found, note=f"median p = {median:.1g}")
    if found.outcome == "holds" and (median >= CLEAR_P or len(samples.seeds) < LEAST_SEEDS):
        return replace(found, outcome="unclear")
    return found


def rarely_accuses(samples: Samples) -> Verdict:
    """Holds if the false alarm rate is below one half and may be the nominal one; fails if it is above that."""
    rate = share("false_alarm", STAMP, 1, label="false alarm rate")
    nominal, half = below(rate, LEVEL)(samples), below(rate, DETECTED)(samples)
    found = nominal if nominal.outcome == "fails" else half
    if found.outcome == "holds" and len(samples.seeds) < LEAST_SEEDS:
        found = replace(found, outcome="unclear")
    return replace(found, note=f"nominal rate {LEVEL:g}; bound of the interval {found.bound:g}")


def beats_rivals(samples: Samples) -> Verdict:
    """Ahead of every rival in detections minus false alarms; unclear if only of some."""
    parts = {
        m: above(difference("net", STAMP, m, label=f"detections − false alarms against {m}"), NET_MARGIN)(samples)
        for m in RIVALS
    }
    won = sum(v.outcome == "holds" for v in parts.values())
    alone = "; ".join(str(difference("net_random", STAMP, m, label=m)(samples)) for m in RIVALS)
    note = f"beats {won} of {len(RIVALS)}; with random held-out documents alone: {alone}"
    found = join(list(parts.values()), note)
    return replace(found, outcome="unclear") if 0 < won < len(RIVALS) else found


DEMO = Demo(
    name="STAMP",
    line="Private twins of a text reveal that its published version was trained on.",
    topic="Language models",
    abstract="Given how large parts of publicly available text are crawled",
    paper=Paper(
        "STAMP Your Content: Proving Dataset Membership via Watermarked Rephrasings",
        "https://icml.cc/virtual/2025/poster/43951",
        "https://github.com/codeboy5/STAMP",
    ),
    settings=Settings,
    run=run,
    measures={
        "detected": Measure("Detection rate (p < 0.05 when trained on)", better="higher", digits=2),
        "false_alarm": Measure("False alarm rate (p < 0.05 when not)", better="lower", digits=2),
        "net": Measure("Detections − false alarms, three choices of documents", better="higher", digits=2),
        "net_random": Measure("Detections − false alarms, random choice", better="higher", digits=2),
        "p_on": Measure("p-value when trained on", digits=4),
        "p_off": Measure("p-value when not trained on", digits=2),
        "gap": Measure("Gap, private − published", "nats per word"),
        "effect": Measure("Gap in standard deviations between documents", digits=2),
        "perplexity": Measure("Perplexity of the published text", digits=0),
        "watermark": Measure("Watermark z of the published text", digits=2),
        "kept": Measure("Share of words kept", better="higher"),
        "difficulty": Measure("Order of documents by difficulty kept (Spearman)", better="higher"),
        "models": Measure("Order of five models kept (Kendall)", better="higher", digits=2),
    },
    figures=(documents_figure, tests_figure, words_figure, green_figure),
    thumbnail=thumbnail,
    claims=(
        Claim(
            "which appear only once in the training data and constitute less than 0.001% of the total tokens",
            "Documents that were read only once are detected (a few percent of all words, not 0.001 %)",
            detects,
        ),
        Claim(
            "outperforming several contamination detection and dataset inference baselines",
            "More detections and fewer false alarms than the unpaired, Min-K % and order tests",
            beats_rivals,
            probe=three_choices,
        ),
        Claim(
            "STAMP preserves both the semantic meaning and utility of the original data",
            "Rephrasing keeps most words, the order of documents and the order of models",
            all_of(
                above(mean("kept", STAMP, label="words kept", digits=3), KEPT),
                above(mean("difficulty", STAMP, label="order of documents", digits=3), DIFFICULTY),
                above(mean("models", STAMP, label="order of models"), MODELS),
            ),
        ),
        Claim(
            "compare model likelihoods between public and private versions using paired statistical tests to prove membership",
            "A model that never saw the documents is accused in about 5 % of the runs",
            rarely_accuses,
        ),
    ),
    presets={
        "Break it: slow learner": Settings(rate=0.01),
        "Wrong yardstick": Settings(trained=False, held_out="easy members"),
        "One file, in order": Settings(one_file=True),
    },
    break_it="Break it: slow learner",
    why_it_breaks="A model that learns slowly hardly favours the published wording, so public and private versions "
    "cost the same.",
    simplified="Synonyms from 101 groups in place of free paraphrase by a language model; a model of 24 numbers a word "
    "that looks two words back in place of Pythia-1B; 14 documents that are 3.7 % of all training words in place of "
    "benchmarks below 0.001 %. Three rivals of our own making for the paper's baselines. Each document is a text of its "
    "own, as crawled pages are: that leaves the order test nothing to find, so the preset “One file, in order” gives "
    "it what it needs. With a fair (random) held-out set the unpaired tests are as good as STAMP here; its advantage "
    "is that it needs none. The watermark adds no power at this scale: twins without one do as well.",
    seeds=16,
)
