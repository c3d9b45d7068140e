r"""A model $f$ with $n$ input variables $N=\{1,\dots,n\}$ is asked on all $2^n$ inputs in which the variables outside
$T$ are masked. Let $v(T)=f(x_T)-f(x_\emptyset)$. When may a group $S$, a *coalition*, count as one unit of the model?

Here $f$ is, by default, a net trained on planted AND and OR terms over blocks of two or three of $n=8$ binary
variables: groups inside a block are the meaningful ones, and a good score ranks them first.

**Interactions.** Split $v=v_{and}+v_{or}$. An AND interaction acts if all of $S$ is there, an OR interaction if any
of it is:

$$I_{and}(S)=\sum_{T\subseteq S}(-1)^{|S|-|T|}v_{and}(T),\qquad
I_{or}(S)=-\sum_{T\subseteq S}(-1)^{|S|-|T|}v_{or}(N\setminus T).$$

In the code these are `both` and `some`. Every split explains $v$ exactly; we take the sparsest: least
$\sum_S(1+\varepsilon(|S|-1))(|I_{and}(S)|+|I_{or}(S)|)$ with $\varepsilon=10^{-3}$ (`TILT`), a linear programme. The
tilt prefers $x_1+x_2$ to its equal, one AND plus one OR. AND and OR of one variable are the same and count once.

**Attribution.** With $I=I_{and}+I_{or}$, each interaction is shared equally by its members, and a coalition receives
the shares of the interactions that hold *all* of it:

$$\phi(i)=\sum_{T\ni i}\frac{I(T)}{|T|},\qquad\phi(S)=\sum_{T\supseteq S}\frac{|S|}{|T|}I(T).$$

$\phi(i)$ is the Shapley value, whatever the split. What remains is the *conflict*

$$\phi(S)-\sum_{i\in S}\phi(i)=-\sum_{T\cap S\ne\emptyset,\;T\not\supseteq S}\frac{|T\cap S|}{|T|}I(T).$$

**Faithfulness**, 1 at best. With $a=\sum_{T\supseteq S}I(T)/|T|$ and $J=|I_{and}|+|I_{or}|$, for a member $i$

$$R(i)=\frac{|a|}{|a|+|\phi(i)-a|},\qquad R'(i)=\frac{\sum_{T\supseteq S}J(T)/|T|}{\sum_{T\ni i}J(T)/|T|},\qquad
Q(S)=\frac{\sum_{T\supseteq S}|S|\,J(T)/|T|}{\sum_{T\cap S\ne\emptyset}|T\cap S|\,J(T)/|T|};$$

$R$ and $R'$ are averaged over $i\in S$. A group that no interaction holds gets 0. The rivals know AND interactions of
$v$ only: $Q$ from these, the size of the Shapley interaction index, and the conflict when $S$ is merged to one player.

The abstract gives no formula. $\phi(S)$ is our reading: it makes the stated cause of conflicts an identity. So are the
three metrics, of which only the names R, R′, Q and the purpose are public.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
import plotly.graph_objects as go
from sklearn.metrics import roc_auc_score

from core.demos import _and_or_shapley_pictures as pictures
from core.demos import _and_or_shapley_rivals as rivals
from core.demos._and_or_shapley_models import DigitGames, N, Planted, digit_games, fitted, plant, share_edge
from core.demos._and_or_shapley_sets import groups, members, moebius_inverse, or_inverse, per_member, players, sizes
from core.demos._and_or_shapley_split import Attribution, Explanation, Interactions, explain
from core.lab import charts
from core.lab import demo as lab
from core.lab.demo import Claim, Demo, Measure, Measures, Paper, across_seeds, choice, control
from core.lab.verdicts import Samples, Verdict, above, below, beyond, difference, in_seeds, join, mean, ratio

SALIENT = 0.02
"""An interaction above this share of max |v| counts as salient."""
TINY = 1e-9
"""Sums below this share of max |v| are rounding."""
IMAGES = 3
"""Digits explained with each net."""
AND_OR, AND_ONLY, PLANTED = "AND-OR", "AND only", "planted terms"
Q, R_MEMBER, R_STRENGTH = "Q", "R", "R′"
Q_AND, INDEX, MERGED = "Q, AND only", "interaction index", "merged player"
CONFLICT, RELATIVE = "|conflict|", "relative conflict"
METRICS, RIVALS = (Q, R_STRENGTH, R_MEMBER), (Q_AND, INDEX, MERGED)
ROLES: dict[str, charts.Role] = {
    **dict.fromkeys(METRICS, "method"),
    **charts.roles(Q, (*RIVALS, CONFLICT, RELATIVE)),
}
MEANINGFUL, OTHER = "meaningful groups", "other groups"
NEIGHBOURS, APART = "neighbouring patches", "other patches"
AUC_LEAST, AUC_MARGIN, Q_MARGIN, L1_MARGIN = 0.7, 0.01, 0.02, 0.1
ERROR = "10⁻¹⁵ of the largest |v|"
ROUNDING, IDENTITY_MOST = 1e-15, 1e-8
"""Unit in which rounding errors are shown, and the largest one allowed, relative to max |v|."""


class Settings(lab.Settings):
    explain: Literal["net", "function", "digits"] = choice(
        "net",
        "What is explained",
        labels={"net": "net trained on it", "function": "the function itself", "digits": "net that reads digits"},
        help="The planted terms do not matter for the net that reads digits.",
    )
    n_terms: int = control(8, "Terms over whole blocks", 2, 16, 1)
    crossing: int = control(0, "Terms that cut through blocks", 0, 20, 1)
    steps: int = control(600, "Training steps", 60, 1000, 20)
    frac: float = control(1.0, "Share of the training data seen", 0.3, 1, 0.05)


# --- the method ---------------------------------------------------------------------------------------


def attribute(interactions: np.ndarray, phi: np.ndarray, subsets: np.ndarray) -> Attribution:
    """φ(S) of coalitions (G,) from I (2^n,), beside the sum of their members' Shapley values `phi` (n,)."""
    n = len(phi)
    common = sizes(n)[np.arange(2**n) & subsets[:, None]]
    shares = common * per_member(n)
    full = common == sizes(n)[subsets][:, None]
    return Attribution((shares * full) @ interactions, members(n)[subsets] @ phi, (shares * ~full) @ interactions)


def faithfulness(found: Interactions, subsets: np.ndarray, scale: float) -> dict[str, np.ndarray]:
    """Q, R′ and R (G,) of coalitions; 0 where no interaction holds one, NaN for a constant function (scale 0)."""
    n = players(found.some)
    if scale == 0:
        return {name: np.full(len(subsets), np.nan) for name in METRICS}
    t, member = np.arange(2**n), members(n)[subsets]
    full = ((t & subsets[:, None]) == subsets[:, None]) * per_member(n)  # 1/|T| for T ⊇ S
    single = members(n) * per_member(n)[:, None]
    a, phi = (full @ found.net)[:, None], found.net @ single
    held, each = (full @ found.strength)[:, None], found.strength @ single

    def share(part: np.ndarray, total: np.ndarray) -> np.ndarray:
        safe = total > TINY * scale
        return np.where(safe & (part > TINY * scale), part / np.where(safe, total, 1), 0)

    count = member.sum(axis=1)
    r = share(np.abs(a), np.abs(a) + np.abs(phi - a))
    return {
        Q: share(held[:, 0] * count, member @ each),
        R_STRENGTH: (share(held, each) * member).sum(axis=1) / count,
        R_MEMBER: (r * member).sum(axis=1) / count,
    }


# --- one run ------------------------------------------------------------------------------------------


def scored(e: Explanation, subsets: np.ndarray) -> dict[str, np.ndarray]:
    """All scores (G,) of coalitions, larger for a more faithful one."""
    parts = attribute(e.found.net, e.phi, subsets)
    conflict = np.abs(parts.whole - parts.members)
    total = np.abs(parts.whole) + np.abs(parts.members)
    return {
        **faithfulness(e.found, subsets, e.scale),
        Q_AND: faithfulness(e.and_only, subsets, e.scale)[Q],
        INDEX: rivals.interaction_index(e.v, subsets),
        MERGED: -rivals.merged_conflict(e.v, subsets, members(players(e.v))[subsets]),
        CONFLICT: -conflict,
        RELATIVE: -np.where(total > TINY * e.scale, conflict / np.where(total > 0, total, 1), 0),
    }


def _auc(meaningful: np.ndarray, score: np.ndarray) -> float:
    """Chance that a meaningful group scores above another one; ties (to nine decimals) count half."""
    return float(roc_auc_score(meaningful, np.round(score, 9))) if np.isfinite(score).all() else float("nan")


def measured(e: Explanation, subsets: np.ndarray, meaningful: np.ndarray) -> Measures:
    """What one explanation says of candidate groups (G,), of which some are `meaningful` (G,)."""
    parts, scores = attribute(e.found.net, e.phi, subsets), scored(e, subsets)
    conflict, scale = parts.whole - parts.members, e.scale or np.nan
    rebuilt = moebius_inverse(e.found.both) + or_inverse(e.found.some)
    sides = ((MEANINGFUL, meaningful), (OTHER, ~meaningful))
    ways = {AND_OR: e.found, AND_ONLY: e.and_only}
    return {
        "auc": {m: _auc(meaningful, s) for m, s in scores.items()},
        "q": {name: float(scores[Q][rows].mean()) for name, rows in sides},
        "conflict": {name: float(np.abs(conflict[rows]).mean()) for name, rows in sides},
        "salient": {name: float((w.magnitudes > SALIENT * scale).sum()) for name, w in ways.items()},
        "l1": {name: float(w.magnitudes.sum()) for name, w in ways.items()},
        "identity": {AND_OR: float(np.abs(conflict + parts.partial).max() / scale / ROUNDING)},
        "rebuilt": {AND_OR: float(np.abs(rebuilt - e.v).max() / scale / ROUNDING)},
    }


@dataclass(frozen=True)
class Run:
    shown: Explanation
    """the function of the figures; the first image of several"""
    subsets: np.ndarray
    """candidate groups (G,)"""
    meaningful: np.ndarray
    """which of them lie inside a block or are neighbours on the board (G,)"""
    q: np.ndarray
    """their Q, averaged over the functions explained (G,)"""
    planted: Planted | None
    image: np.ndarray | None
    measures: Measures


def run(settings: Settings, seed: int) -> Run:
    """Explain a net trained on a planted function, the function itself, or some digits of a net that reads them."""
    s = settings
    if s.explain == "digits":
        return _digits_run(s, seed)
    for_function, for_net = (np.random.default_rng(k) for k in np.random.SeedSequence(seed).spawn(2))
    planted = plant(for_function, s.n_terms, s.crossing)
    truth = planted.values()
    values = fitted(truth, s.steps, s.frac, for_net) if s.explain == "net" else truth
    subsets = groups(N, 2, 3)
    e, meaningful = explain(values), planted.inside(subsets)
    measures = measured(e, subsets, meaningful)
    measures["salient"][PLANTED] = float(len(planted.terms))
    measures["net_error"] = {s.explain: float(np.sqrt(np.mean((values - truth) ** 2)) / truth.std())}
    return Run(e, subsets, meaningful, scored(e, subsets)[Q], planted, None, measures)


@lru_cache(maxsize=2)
def _digits(steps: int, frac: float, seed: int) -> tuple[DigitGames, tuple[Explanation, ...], np.ndarray]:
    """Test images, their explanations, and the mean Q of all pairs of patches; shared by the run and the probe."""
    games = digit_games(IMAGES, steps, frac, seed)
    explained = tuple(explain(values) for values in games.values)
    q = np.mean([faithfulness(e.found, groups(N, 2, 2), e.scale)[Q] for e in explained], axis=0)
    q.setflags(write=False)
    return games, explained, q


def _digits_run(s: Settings, seed: int) -> Run:
    """Pairs of patches; measures and Q averaged over the images."""
    games, explained, q = _digits(s.steps, s.frac, seed)
    pairs = groups(N, 2, 2)
    near = share_edge(pairs)
    each = [measured(e, pairs, near) for e in explained]
    measures = {m: {k: float(np.mean([one[m][k] for one in each])) for k in by} for m, by in each[0].items()}
    return Run(explained[0], pairs, near, q, None, games.images[0], measures)


def digits_probe(settings: Settings, seed: int) -> Measures:
    """Q of neighbouring and of other pairs of patches of digits, whatever the demo itself explains."""
    games, _, q = _digits(settings.steps, settings.frac, seed)
    near = share_edge(groups(N, 2, 2))
    return {
        "digits_q": {NEIGHBOURS: float(q[near].mean()), APART: float(q[~near].mean())},
        "accuracy": {"net that reads digits": games.accuracy},
    }


# --- figures ------------------------------------------------------------------------------------------


@across_seeds
def faithful_figure(run: Run, samples: Samples | None) -> go.Figure:
    """Blue bars should stand on the left: the groups that belong together. Above, the faithfulness Q of every
    candidate group of one run; blue: inside a planted block (digits: neighbouring patches). Below, how well each
    score ranks these first (1: perfectly, 0.5: chance), with 95 % intervals over seeds."""
    auc = {m: charts.interval_of(samples, "auc", m, run.measures["auc"][m]) for m in ROLES}
    return pictures.draw_ranking(run.q, run.meaningful, auc, ROLES)


def conflict_figure(run: Run) -> go.Figure:
    """The gap between the blue and the grey bar is the conflict, and the orange bar fills it. Interactions that
    hold only a part of the coalition count for its members, but not for the coalition. The slider goes through all
    coalitions of two to four variables, from the most to the least faithful, and starts at the largest conflict."""
    subsets = groups(N, 2, 4)
    parts = attribute(run.shown.found.net, run.shown.phi, subsets)
    q = faithfulness(run.shown.found, subsets, run.shown.scale)[Q]
    word = "patches " if run.planted is None else "variables "
    return pictures.draw_conflicts(parts, [word + pictures.named(k, N) for k in subsets], q)


def board_figure(run: Run) -> go.Figure:
    """Each row is an interaction that was found: the variables it joins, and how much it adds to the output. The
    twelve strongest; AND acts if all its variables are there, OR if any is. Gaps part the planted blocks, diamonds
    are planted weights; digits: the numbers are the patches of the picture."""
    blocks, terms = (run.planted.blocks, run.planted.terms) if run.planted else ((2**N - 1,), {})
    return pictures.draw_board(run.shown.found, blocks, terms, run.image)


def strength_figure(run: Run) -> go.Figure:
    """The faster a line falls, the fewer interactions describe the model. Sizes of all interactions, largest first,
    relative to the largest |v|; those below 0.0001 lie on the floor."""
    return pictures.draw_strengths(
        {AND_OR: run.shown.found.magnitudes, AND_ONLY: run.shown.and_only.magnitudes}, run.shown.scale, SALIENT
    )


def thumbnail(run: Run) -> str:
    """Q of all candidate groups, largest first; the meaningful ones in the accent colour."""
    return pictures.draw_bars(run.q, run.meaningful)


# --- claims -------------------------------------------------------------------------------------------


def causes_conflict(samples: Samples) -> Verdict:
    """The identity in every seed, and larger conflicts where blocks are cut."""
    most = IDENTITY_MOST / ROUNDING
    identity = mean("identity", AND_OR, label="error of the formula", unit=ERROR, digits=1)
    exact = in_seeds(lambda s: s("identity", AND_OR) < most, identity, fails_to=1, bound=most)
    larger = beyond(
        difference("conflict", OTHER, MEANINGFUL, digits=2, label="mean |conflict|, other − meaningful groups:"), 0
    )
    return join([exact(samples), larger(samples)])


def sparser(samples: Samples) -> Verdict:
    """Less L1 norm, and fewer salient interactions."""
    less = ratio("l1", AND_OR, AND_ONLY, label="L1 norm, AND-OR / AND only:")
    fewer = beyond(difference("salient", AND_ONLY, AND_OR, digits=1, label="salient interactions saved:"), 0)
    return join([below(less, 1, most=1 - L1_MARGIN)(samples), fewer(samples)])


def tells_apart(samples: Samples) -> Verdict:
    """Each metric well above chance, Q above its rivals; the note says what the bare conflict does."""
    parts = [above(mean("auc", m, label=f"AUC of {m}"), AUC_LEAST)(samples) for m in METRICS]
    parts += [
        beyond(difference("auc", Q, b, digits=3, label=f"AUC of Q − {b}:"), AUC_MARGIN)(samples) for b in RIVALS
    ]
    beside = difference("auc", Q, CONFLICT, digits=3, label="AUC of Q − |conflict| alone:")(samples)
    return join(parts, f"{beside}")


def _needs_blocks(settings: Settings) -> str:
    return "digits have no planted blocks" if settings.explain == "digits" else ""


DEMO = Demo(
    name="AND-OR coalitions",
    line="Which variables belong together, judged by how a trained net combines them.",
    topic="Explainability",
    abstract="This paper focuses on the fundamental challenge of partitioning input variables",
    paper=Paper(
        "Towards Attributions of Input Variables in a Coalition", "https://icml.cc/virtual/2025/poster/44434"
    ),
    settings=Settings,
    run=run,
    measures={
        "auc": Measure("Meaningful groups ranked first (AUC)", "", "higher"),
        "q": Measure("Mean faithfulness Q", "", "", 2),
        "conflict": Measure("Mean |conflict|", "units of the output", "", 2),
        "salient": Measure("Salient interactions", "", "lower", 1),
        "l1": Measure("L1 norm of all interactions", "units of the output", "lower", 1),
        "identity": Measure("Error of the formula of the conflict", ERROR, "lower", 1, drift=1e6),
        "rebuilt": Measure("Error of v as the sum of its interactions", ERROR, "lower", 1, drift=1e6),
        "net_error": Measure("Error of what is explained, relative to the planted function's spread", "", "lower"),
        "digits_q": Measure("Digits: mean faithfulness Q of pairs of patches", "", "", 3),
        "accuracy": Measure("Digits: test accuracy", "", "higher", 3),
    },
    figures=(faithful_figure, conflict_figure, board_figure, strength_figure),
    thumbnail=thumbnail,
    claims=(
        Claim(
            "specific interactions cause attribution conflicts",
            "Conflict comes from interactions that cut a coalition, and is larger outside the planted blocks",
            causes_conflict,
            applies=_needs_blocks,
        ),
        Claim(
            "numerical effects of AND-OR interactions in AI models",
            "AND and OR interactions describe the model more sparsely than AND alone",
            sparser,
        ),
        Claim(
            "three metrics to evaluate coalition faithfulness",
            "Q, R′ and R find the planted blocks, and Q does so better than three rivals",
            tells_apart,
            applies=_needs_blocks,
        ),
        Claim(
            "demonstrating consistency with human intuition",
            "On digits, neighbouring patches are more faithful pairs than others",
            beyond(
                difference("digits_q", NEIGHBOURS, APART, digits=3, label="Q, neighbouring − other pairs:"),
                Q_MARGIN,
            ),
            probe=digits_probe,
        ),
    ),
    presets={
        "Break it: crossing terms": Settings(crossing=20),
        "Undertrained": Settings(steps=60),
        "Digits": Settings(explain="digits"),
    },
    break_it="Break it: crossing terms",
    why_it_breaks="When many interactions cut through every block, no group is a unit of the model, and the metrics "
    "have little left to find.",
    simplified="Eight variables, all 256 masks asked, and a linear programme for the sparsest split; no language "
    "model, no Go. The images are 8 × 8 digits in 8 patches, three for each net. The noise terms of the authors' "
    "public code are left out. That a conflict equals its formula is algebra; the finding is how large it is, and "
    "where. AND-OR cannot have more L1 norm than AND alone, which is one of its splits; the finding is how much less.",
    seeds=8,
)
