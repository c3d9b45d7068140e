r"""A long document lies on a device with a weak reader; a strong reader in the cloud charges by the word. A question
asks for the sum of a few facts, its *parts*. With $P$ words read and $D$ words written by the remote reader, and a
price ratio $a$ (`price`), an answer costs $P+a\,D$; the local reader is free.

**MINION** chats: the remote sends all open parts as one message, the local reader searches the full document and
replies with as many sentences, the remote keeps what it can verify and asks again, reading the whole chat anew.

**MinionS** runs up to $R$ rounds (`rounds`) of three steps.
*Plan*: without seeing the document, the remote writes one task for each open part, and the chunk size.
*Execute*: every pair of task and chunk is a job of the local reader: it returns its best sentence with the value, or
abstains if its score is below $\tau$.
*Aggregate*: only these lines are sent. The remote scores them with its own reader, notes verified parts in a memo and
plans the rest with half the chunk size and a lower $\tau$. In the last round it takes the best line.

**Readers.** Sentences and requests are centred 0/1 word vectors, the rows of $B$ and $A$. From $n$ pairs $(B_p,A)$
among $N$ sentences a ridge regression learns (`ridge_map`)

$$T=\big(\tfrac1N B^\top B+\lambda I\big)^{-1}\,\tfrac1n B_p^\top A=U S W^\top;$$

a score is the cosine of $bU_r\sqrt{S_r}$ (`sentence_map`) and $qW_r\sqrt{S_r}$ (`request_map`) for a sentence $b$ and
a request $q$. The remote has all 17 directions of $T$, the local reader only $r$ (`rank`): companies, metrics or years
look alike. A request is one code, so its parts blend. Nothing else is made worse. $\tau$ is the score that 2 %
(`abstain`) of the training pairs miss, later a third of that.

Readers, documents and the rules for $\tau$ and for verifying are our stand-ins for language models. In *MINION, no
repeats*, our stronger chat, the local reader passes over sentences already sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import plotly.graph_objects as go

from core.demos import _minions_figures as figures
from core.demos._minions_documents import ask, make_document
from core.demos._minions_protocols import Answer, Case, cases_of, jobs, local_only, minion, minions, remote_only
from core.demos._minions_readers import FULL_RANK, Reader, level, reader
from core.lab import charts
from core.lab import demo as lab
from core.lab.demo import Claim, Demo, Measure, Measures, Paper, across_seeds, control, fixed
from core.lab.verdicts import (
    REACHES_OVER,
    Estimator,
    Rule,
    Samples,
    Verdict,
    above,
    all_of,
    below,
    difference,
    mean,
    ratio,
)

MINIONS, MINION, NO_REPEATS, LOCAL, REMOTE = "MinionS", "MINION", "MINION, no repeats", "local only", "remote only"
ROLES = charts.roles(MINIONS, (MINION, NO_REPEATS, LOCAL), REMOTE)
DOCUMENTS, QUESTIONS = 3, 15
"""Documents of a run, questions about each."""
ACCEPT = 0.02
"""Share of the training pairs that the remote itself would not verify."""
LENGTHS, PARTS = (20, 50, 100, 200, 400), (1, 2, 3, 4)
SHORT, LONG = 20, 200
KNOBS: dict[str, tuple[str, str]] = {
    "chunk size": ("chunks of 40", "chunks of 2"),
    "rounds": ("1 round", "3 rounds"),
    "abstention": ("τ at 15 %", "τ at 2 %"),
}
"""Each design choice with two values of it."""


class Settings(lab.Settings):
    rank: int = control(14, "Rank of the local reader r", 4, FULL_RANK, 1, help="17: as good as the remote reader.")
    sentences: int = control(200, "Sentences of the document", 20, 400, 20)
    parts: int = control(2, "Parts of a question", 1, 4, 1)
    chunk: int = control(10, "Chunk size in the first round", 2, 100, 1, unit="sentences")
    rounds: int = control(3, "Rounds R", 1, 4, 1, help="At most so many, for MINION and MinionS.")
    price: float = fixed(4.0, "Price of a word written, in words read a", ge=0, le=100)
    abstain: float = fixed(0.02, "Share of the training pairs below τ in round 1", ge=0, le=0.5)

    def taus(self, seed: int) -> tuple[float, float]:
        """τ in the first round and in later ones, for the reader trained with this seed."""
        return level(self.rank, self.abstain, seed), level(self.rank, self.abstain / 3, seed)


def make_cases(settings: Settings, rng: np.random.Generator, seed: int = 0) -> list[Case]:
    """All questions of a run with the scores of both readers, which are trained with the seed."""
    remote, accepted = reader(FULL_RANK, seed), level(FULL_RANK, ACCEPT, seed)
    out = []
    for _ in range(DOCUMENTS):
        document = make_document(rng, settings.sentences)
        questions = [ask(rng, document, settings.parts) for _ in range(QUESTIONS)]
        out += cases_of(document, questions, reader(settings.rank, seed), remote, accepted)
    return out


def is_right(case: Case, answer: Answer) -> bool:
    """Exactly the sum of the facts asked for; a fact that the document lacks cannot be answered right."""
    truth = [case.document.facts.get(c) for c in case.cells]
    return None not in truth and answer.value == sum(v for v in truth if v is not None)


def answers(case: Case, s: Settings, seed: int = 0) -> dict[str, Answer]:
    """The question answered in every way."""
    return {
        MINIONS: minions(case, s.price, s.rounds, s.chunk, s.taus(seed)),
        MINION: minion(case, s.price, s.rounds),
        NO_REPEATS: minion(case, s.price, s.rounds, repeats=False),
        LOCAL: local_only(case),
        REMOTE: remote_only(case, s.price),
    }


def variants(s: Settings) -> dict[str, Settings]:
    """The settings with one design choice of MinionS changed."""
    changed = [s.replace(chunk=40), s.replace(chunk=2), s.replace(rounds=1), s.replace(rounds=3)]
    changed += [s.replace(abstain=0.15), s.replace(abstain=0.02)]
    return dict(zip((name for pair in KNOBS.values() for name in pair), changed, strict=True))


def reads_alone(local: Reader, rng: np.random.Generator) -> Iterator[tuple[int, int, float]]:
    """(parts, sentences, share right) of the local reader with one request over a whole text, as in local only."""
    for n in LENGTHS:
        right: dict[int, list[bool]] = {p: [] for p in PARTS}
        for _ in range(DOCUMENTS):
            document = make_document(rng, n)
            questions = [ask(rng, document, p) for p in PARTS for _ in range(QUESTIONS)]
            for case in cases_of(document, questions, local, local, 0.0):
                right[len(case.cells)].append(is_right(case, local_only(case)))
        yield from ((p, n, float(np.mean(r))) for p, r in right.items())


@dataclass(frozen=True)
class Run:
    settings: Settings
    case: Case
    """the question whose transcript is shown"""
    answer: Answer
    sent: list[tuple[int, int]]
    """(part, sentence) of the lines sent in its first round"""
    measures: Measures


def run(settings: Settings, seed: int) -> Run:
    """45 questions on three documents in every way, MinionS with other design choices, the local reader alone."""
    for_documents, for_alone = (np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(2))
    cases = make_cases(settings, for_documents, seed)
    given = [answers(c, settings, seed) for c in cases]
    right = {m: float(np.mean([is_right(c, a[m]) for c, a in zip(cases, given, strict=True)])) for m in ROLES}
    charged = [m for m in ROLES if m != LOCAL]
    cost = {m: float(np.mean([a[m].bill.cost for a in given])) for m in charged}
    tried_accuracy, tried_cost = {}, {}
    for name, s in variants(settings).items():
        found = [minions(c, s.price, s.rounds, s.chunk, s.taus(seed)) for c in cases]
        tried_accuracy[name] = float(np.mean([is_right(c, a) for c, a in zip(cases, found, strict=True)]))
        tried_cost[name] = float(np.mean([a.bill.cost for a in found]))
    measures: Measures = {
        "accuracy": right,
        "recovery": {m: right[m] / right[REMOTE] if right[REMOTE] else np.nan for m in ROLES if m != REMOTE},
        "cost": cost,
        "cheaper": {m: cost[REMOTE] / cost[m] for m in charged if m != REMOTE},
        "read": {m: float(np.mean([a[m].bill.read for a in given])) for m in charged},
        "written": {m: float(np.mean([a[m].bill.written for a in given])) for m in charged},
        "tried_recovery": {k: v / right[REMOTE] if right[REMOTE] else np.nan for k, v in tried_accuracy.items()},
        "tried_cost": tried_cost,
        "alone": {alone(p, n): v for p, n, v in reads_alone(reader(settings.rank, seed), for_alone)},
    }
    tau = settings.taus(seed)[0]
    sent = [(k, i) for k, scores in enumerate(cases[0].local) for _, i in jobs(scores, settings.chunk, tau)]
    return Run(settings, cases[0], given[0][MINIONS], sent, measures)


def alone(parts: int, sentences: int) -> str:
    """What the local reader alone is called at a number of parts and of sentences."""
    return f"{parts} part{'s' if parts > 1 else ''}, {sentences} sentences"


# --- figures ------------------------------------------------------------------------------------------

PLACES: dict[str, dict] = {
    MINIONS: {"xanchor": "right", "xshift": -12},
    MINION: {"yanchor": "top", "yshift": -9},
    NO_REPEATS: {"yanchor": "bottom", "yshift": 8},
    LOCAL: {"xanchor": "left", "xshift": 10},
    REMOTE: {"yanchor": "top", "yshift": -8},
}
"""Where each method's name stands beside its marker."""


@across_seeds
def cost_figure(run: Run, samples: Samples | None) -> go.Figure:
    """Best is high and far left: as often right as remote only, for fewer words.

    Accuracy against remote cost, with 95 % intervals over seeds; local only costs nothing. A number and × say how
    much cheaper than remote only.
    """

    def found(measure: str, log: bool = False) -> dict[str, figures.Interval]:
        values = run.measures[measure]
        return {m: charts.interval_of(samples, measure, m, values[m], log=log) for m in ROLES if m in values}

    texts = {m: f"{m}, {times:.2g}×" for m, (times, *_) in found("cheaper", log=True).items()}
    texts = {m: texts.get(m, m) for m in ROLES}
    texts[MINIONS] = f"<b>{texts[MINIONS]}</b>"
    return figures.scatter(found("cost", log=True), found("accuracy"), texts, ROLES, PLACES)


def transcript_figure(run: Run) -> go.Figure:
    """Only the marked sentences leave the device in the first round.

    Above: the local reader's score of every sentence for each part of the first question (strong colour: high);
    up to 60 chunks are set apart by lines. Below: what MinionS says, with chunk, part and value before a sentence sent.
    """
    return figures.transcript(run.case.local, run.settings.chunk, run.sent, run.answer.bill.log)


@across_seeds
def alone_figure(run: Run, samples: Samples | None) -> go.Figure:
    """The local reader alone: each line is a number of parts, further right are longer texts.

    Share of whole requests answered right, with a 95 % band over seeds for one part. MinionS asks for one part at a
    time, in chunks.
    """
    fig = charts.blank("sentences of the text (log scale)", "share answered right", log_x=True)
    colours: tuple[charts.Role, ...] = ("method", "baseline1", "baseline2", "baseline3")
    for parts, role in zip(PARTS, colours, strict=True):
        names = [alone(parts, n) for n in LENGTHS]
        found = [charts.interval_of(samples, "alone", m, run.measures["alone"][m]) for m in names]
        value, low, high = np.array(found).T
        name = "1 part" if parts == 1 else f"{parts} parts"
        band = (low, high) if parts == 1 else None
        charts.line(fig, name, np.array(LENGTHS), value, role, band=band, markers=True)
    fig.update_yaxes(range=[-0.03, 1.05])
    charts.end_labels(fig, right=84)
    return fig.update_xaxes(tickvals=LENGTHS, ticktext=[str(n) for n in LENGTHS])


@across_seeds
def choices_figure(run: Run, samples: Samples | None) -> go.Figure:
    """A design choice matters to quality and cost if both its dots lie off the dotted lines.

    MinionS when one choice changes: difference of recovery, and cost after relative to before, with 95 % intervals
    over seeds. Right on both sides: better, but dearer.
    """
    better, dearer = {}, {}
    for name, (before, after) in KNOBS.items():
        recovery, cost = run.measures["tried_recovery"], run.measures["tried_cost"]
        row = f"{name}<br>{before} → {after}"
        better[row] = (recovery[after] - recovery[before],) * 3
        dearer[row] = (cost[after] / cost[before],) * 3
        if samples is not None and len(samples.seeds) > 1:
            for rows, effect in ((better, gain(before, after)), (dearer, surcharge(before, after))):
                e = effect(samples)
                rows[row] = (e.value, e.low, e.high)
    return figures.changes({"recovery: difference": (0, better), "cost: ratio": (1, dearer)})


def thumbnail(run: Run) -> str:
    """Accuracy against cost: remote only, MINION, MinionS and local only, joined by arrows."""
    cost, accuracy = run.measures["cost"], run.measures["accuracy"]
    at = {m: (cost.get(m, 0.0), accuracy[m]) for m in (REMOTE, MINION, LOCAL, MINIONS)}
    return figures.arrows_thumbnail(at, [(REMOTE, MINION), (MINION, MINIONS), (LOCAL, MINION)], ROLES)


# --- claims -------------------------------------------------------------------------------------------

LOSS, SAME_RECOVERY, SAME_COST = 0.02, (-0.02, 0.02), (1 / 1.02, 1.02)
"""The least loss of a share that counts, and what is no practical difference."""


def cheaper(method: str, bound: float) -> Rule:
    return above(ratio("cost", REMOTE, method, label=f"{method}, times cheaper:", digits=1), bound)


def recovery(method: str) -> Estimator:
    return mean("recovery", method, label=f"{method}, recovery:", digits=3)


def drop(before: str, after: str, label: str) -> Rule:
    """The local reader alone loses from one case to another."""
    return above(difference("alone", before, after, label=label, digits=3), LOSS)


def gain(before: str, after: str) -> Estimator:
    return difference("tried_recovery", after, before, label=f"{before} → {after}, recovery:", digits=3)


def surcharge(before: str, after: str) -> Estimator:
    return ratio("tried_cost", after, before, label=f"{before} → {after}, cost:")


def moves(effect: Estimator, none: float, same: tuple[float, float]) -> Rule:
    """Holds if an effect surely differs from `none`, either way; fails if it surely is too small to matter."""

    def rule(samples: Samples) -> Verdict:
        verdict = max((above(effect, none)(samples), below(effect, none)(samples)), key=lambda v: v.margin)
        e = verdict.effect
        flat = verdict.note == REACHES_OVER and e is not None and same[0] < e.low and e.high < same[1]
        return replace(verdict, outcome="fails", note="no practical difference") if flat else verdict

    return rule


def matters(before: str, after: str) -> Rule:
    """A design choice changes recovery and cost."""
    return all_of(
        moves(gain(before, after), 0, SAME_RECOVERY),
        moves(surcharge(before, after), 1, SAME_COST),
    )


def some_choice_matters(samples: Samples) -> Verdict:
    """Holds if one of the design choices matters, fails if none does; the clearest one is shown."""
    found = {name: matters(*values)(samples) for name, values in KNOBS.items()}
    order = ("holds", "unclear", "fails", "untestable")
    shown = min(found.values(), key=lambda v: (order.index(v.outcome), -v.margin if np.isfinite(v.margin) else 0))
    note = "; ".join(f"{name}: {v.word}" for name, v in found.items())
    return replace(shown, note=note)


DEMO = Demo(
    name="MinionS",
    line="Two readers share a long document; only found sentences go out.",
    topic="Language models",
    abstract="We investigate an emerging setup in which a small, on-device language model",
    paper=Paper(
        "Minions: Cost-efficient Collaboration Between On-device and Cloud Language Models",
        "https://icml.cc/virtual/2025/poster/43949",
        "https://github.com/HazyResearch/minions",
    ),
    settings=Settings,
    run=run,
    measures={
        "accuracy": Measure("Questions with exactly the right sum", "share", "higher"),
        "recovery": Measure("Accuracy relative to remote only", "share", "higher"),
        "cost": Measure("Remote cost of a question", "words", "lower", 0),
        "cheaper": Measure("Times cheaper than remote only", "×", "higher", 1),
        "read": Measure("Words the remote reads", "words", "lower", 0),
        "written": Measure("Words the remote writes", "words", "lower", 0),
        "tried_recovery": Measure("MinionS with one design choice changed: recovery", "share", "higher"),
        "tried_cost": Measure("MinionS with one design choice changed: remote cost", "words", "lower", 0),
        "alone": Measure("The local reader alone: requests answered right", "share", "higher", 2),
    },
    figures=(cost_figure, transcript_figure, alone_figure, choices_figure),
    thumbnail=thumbnail,
    claims=(
        Claim(
            "recovers only 87% of the performance of the frontier model",
            "The chat (MINION) is over 2 times cheaper than remote only, but recovers less than 97 % of its accuracy",
            all_of(cheaper(MINION, 2), below(recovery(MINION), 0.97)),
        ),
        Claim(
            "the local model struggles to (1) follow the remote model's multi-step instructions and "
            "(2) reason over long contexts",
            "Alone, the local reader loses by a second part, and by a text of 200 instead of 20 sentences",
            all_of(
                drop(alone(1, LONG), alone(2, LONG), "lost from 1 to 2 parts:"),
                drop(alone(1, SHORT), alone(1, LONG), f"lost from {SHORT} to {LONG} sentences:"),
            ),
        ),
        Claim(
            "MINIONS reduces costs by 5.7× on average while recovering 97.9% of the remote-only performance",
            "MinionS is over 3 times cheaper than remote only, recovers over 90 %, and more than MINION",
            all_of(
                above(recovery(MINIONS), 0.9),
                above(difference("recovery", MINIONS, MINION, label="MinionS − MINION, recovery:", digits=3), LOSS),
                cheaper(MINIONS, 3),
            ),
        ),
        Claim(
            "several key design choices that influence the trade-off between cost and performance",
            "Chunk size, rounds or abstention: at least one changes both recovery and cost",
            some_choice_matters,
        ),
        Claim(
            "this protocol reduces cloud costs by 30.4x",
            "Of the two protocols the chat (MINION) is the cheaper one, as 30.4× against 5.7× says",
            below(ratio("cost", MINION, MINIONS, label="MINION / MinionS, cost:"), 1),
        ),
    ),
    presets={
        "Break it: short document": Settings(sentences=20),
        "Local rank 10": Settings(rank=10),
        "Small local model": Settings(rank=6),
    },
    break_it="Break it: short document",
    why_it_breaks="When the whole document is twenty sentences, sending all of it costs hardly more than talking "
    "about it.",
    simplified="Linear readers instead of language models of 1 to 8 billion weights and GPT-4o; questions are sums of "
    "facts in generated sentences, and the remote reader never errs. Templates in place of generated code, one worker "
    "a job, words in place of sub-word tokens. Citations are single sentences and the chat is re-read every turn, so "
    "MINION is dearer than MinionS here. MINION's loss by default comes mostly from its local reader sending the same "
    "sentence again; “MINION, no repeats” recovers as much as MinionS there, but not at rank 10.",
    seeds=16,
)
