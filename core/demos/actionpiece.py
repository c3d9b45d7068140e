r"""A shop sees which items a user takes, one after the other. Each item is an unordered set of $m$ features. A
recommender reads tokens; which tokens should an action become?

**Learning the vocabulary.** Write a sequence as a chain *set, slot, set, slot, …, set* with empty slots. All
single features are tokens. A pair of tokens in a set of $M$ weighs $2/M$. A pair across an empty slot, between sets
of $M_1$ and $M_2$, weighs $1/(M_1M_2)$; across a filled slot only pairs of the slot's token and one of
a neighbour count, each $1/M$. Again and again, the pair with the largest total over all sequences (its
`priority`) becomes a new token (a `rule`) and is merged wherever it is found:
inside a set into that set, across a gap into the slot. Totals are kept up where the chain changed.

**Cutting a history into tokens.** *Naive*: on its chain, always the merge of largest priority × weight; one fixed
result. *Set permutation regularisation* (SPR): shuffle every set, join them, merge the flat list, earliest rule
first. Shuffling again gives another segmentation of the same features: a new one in each training epoch, and a
vote of several when recommending, $\sum 1/\log_2(\mathrm{rank}+1)$ for each item.

**The recommender** is ours, and the same for every tokeniser. The tokens of two actions, weighted by recency, make a
bag $x$; $h=xE+b$, or the $\tanh$ of it; the next item's features follow one by one, given the earlier ones:

$$p(f_j\mid h,f_{<j})=\mathrm{softmax}\Big(hW_j+\sum_{i<j}U_{ij}[f_i]+c_j\Big).$$

In our synthetic shop the next item depends, with probability $\rho$ (`context`), on the first feature
of the action before *and* the second of the last one, else on the last action's first feature alone. A linear $h$ adds
up what tokens say: only a token of both actions can stand for the combination.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from core.demos import _actionpiece_tokens as tokens
from core.demos import _actionpiece_world as world
from core.demos._actionpiece_strips import Strip, draw, strips, tiles
from core.demos._actionpiece_tokens import Chain, Vocabulary
from core.demos._actionpiece_world import Data, Encoder
from core.lab import charts
from core.lab import demo as lab
from core.lab.demo import Claim, Demo, Measure, Measures, Paper, across_seeds, choice, control, fixed
from core.lab.verdicts import Samples, above, all_of, difference, mean, number, t_interval

ITEM, FEATURES, IN_SET, IN_SET_SPR = "item id", "features", "in-set merges", "in-set merges + SPR"
FIXED, ACTIONPIECE, ORACLE = "ActionPiece, no SPR", "ActionPiece", "oracle"
RIVALS = (ITEM, FEATURES, IN_SET, IN_SET_SPR, FIXED)
ROLES = charts.roles(ACTIONPIECE, RIVALS, ORACLE)
LEVELS = (0, 40, 120, 250, 400)
MARGIN, LEAST_CROSSING, LEAST_CARRIERS, LEAST_USED = 0.005, 0.05, 1.05, 0.01
SEEN = 5
DECAY = {ITEM: 3e-3, FEATURES: 1e-4, IN_SET: 3e-3, IN_SET_SPR: 1e-3, FIXED: 3e-3, ACTIONPIECE: 1e-4}
"""L2 penalty of the recommender: for each tokeniser the best of 1e-4, 1e-3, 3e-3 at Default on eight other seeds."""


class Settings(lab.Settings):
    context: float = control(0.8, "Context dependence ρ", 0, 1, 0.1, help="0: the last action alone decides.")
    merges: int = control(250, "Learned merges", 0, 400, 10)
    segmentations: int = control(4, "Segmentations in training", 1, 8, 1, help="For the two methods with SPR.")
    ensemble: int = control(5, "Segmentations that vote", 1, 10, 1, help="For the two methods with SPR.")
    encoder: Encoder = choice("linear", "Encoder", help="tanh can multiply features by itself.")
    users: int = fixed(300, "Users", ge=2, le=600)
    length: int = fixed(9, "Actions of each user", ge=4, le=20)


@dataclass(frozen=True)
class Tokeniser:
    """`segment(histories (n, 2), rng)` gives rows of tokens below `size`, filled up with `size`."""

    size: int
    segment: Callable[[np.ndarray, np.random.Generator], np.ndarray]
    spr: bool = False
    """Whether the segmentation is another one each time."""


# --- tokenisers ---------------------------------------------------------------------------------------


def naive_chains(histories: np.ndarray, features: np.ndarray, v: Vocabulary) -> dict[tuple[int, int], Chain]:
    """The fixed segmentation of every distinct history."""
    ranks = {rule: rank for rank, rule in enumerate(v.rules)}
    distinct = np.unique(histories, axis=0)
    return {(a, b): tokens.naive(features[[a, b]].tolist(), v, ranks) for a, b in distinct.tolist()}


def in_context(features: np.ndarray, v: Vocabulary) -> Tokeniser:
    """SPR over the whole history: tokens may reach from one action into the next."""
    table = v.table()

    def segment(histories: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        shuffled = rng.permuted(features[histories], axis=2)
        return tokens.bpe(shuffled.reshape(len(histories), -1), v, table)

    return Tokeniser(v.size, segment, spr=True)


def alone(features: np.ndarray, v: Vocabulary) -> Tokeniser:
    """SPR of each action by itself, then joined: no token of two actions."""
    table = v.table()

    def segment(histories: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        shuffled = rng.permuted(features[histories], axis=2).reshape(-1, features.shape[1])
        return tokens.bpe(shuffled, v, table).reshape(len(histories), -1)

    return Tokeniser(v.size, segment, spr=True)


def tokenisers(
    f: np.ndarray, own: Vocabulary, context: Vocabulary, chains: dict[tuple[int, int], Chain]
) -> dict[str, Tokeniser]:
    """All tokenisers: `own` has merges inside actions only, `context` also across neighbours.

    `f` are the features of the items, `chains` the fixed segmentations with `context`.
    """
    ranks = {rule: rank for rank, rule in enumerate(own.rules)}
    by_item = tokens.padded([tokens.naive([s], own, ranks)[0] for s in f.tolist()], own.size)

    def fixed_chains(histories: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return tokens.padded([sum(chains[a, b], ()) for a, b in histories.tolist()], context.size)

    return {
        ITEM: Tokeniser(len(f), lambda h, rng: h),
        FEATURES: Tokeniser(own.base, lambda h, rng: f[h].reshape(len(h), -1)),
        IN_SET: Tokeniser(own.size, lambda h, rng: by_item[h].reshape(len(h), -1)),
        IN_SET_SPR: alone(f, own),
        FIXED: Tokeniser(context.size, fixed_chains),
        ACTIONPIECE: in_context(f, context),
    }


# --- one run ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    settings: Settings
    strips: tuple[Strip, ...]
    """histories that end in the same item"""
    measures: Measures


def evaluate(
    s: Settings, data: Data, tokeniser: Tokeniser, seed: int, decay: float = DECAY[ACTIONPIECE]
) -> dict[str, float]:
    """Train the recommender on a tokeniser's bags; how well it ranks, and what tokens were seen."""
    rng = np.random.default_rng([seed, 1])
    often, votes = (s.segmentations, s.ensemble) if tokeniser.spr else (1, 1)
    rows = [tokeniser.segment(data.histories, rng) for _ in range(often)]
    x = np.stack([world.bags(r, tokeniser.size) for r in rows])
    model = world.train(seed, x, world.one_hot(data.shop.features[data.targets]), s.encoder, decay)
    tests = [world.bags(tokeniser.segment(data.test, rng), tokeniser.size) for _ in range(votes)]
    score = [world.scores(model, t, data.shop.features, s.encoder) for t in tests]
    ndcg, recall = world.ranking(world.ensemble(np.stack(score)), data.test_targets)
    seen = np.unique(np.concatenate([r.ravel() for r in rows]))
    return {
        "ndcg": ndcg,
        "recall": recall,
        "length": float(np.mean([(r < tokeniser.size).sum(axis=1).mean() / 2 for r in rows])),
        "used": float((seen < tokeniser.size).sum() / tokeniser.size),
    }


def crossing_share(v: Vocabulary) -> float:
    """Merged tokens in which a feature's category occurs twice, which no single action has (a lower bound)."""
    category = np.repeat(np.arange(len(world.VALUES)), world.VALUES)
    merged = [category[list(f)] for f in v.features()[v.base :]]
    return float(np.mean([len(set(c)) < len(c) for c in merged])) if merged else float("nan")


def different_tokens(histories: np.ndarray, chains: dict[tuple[int, int], Chain], v: Vocabulary) -> float:
    """In how many ways an item is cut into tokens, the mean over items seen at least five times."""
    sizes = [len(f) for f in v.features()]
    ways: dict[int, set] = defaultdict(set)
    times: Counter[int] = Counter(histories.ravel().tolist())
    for first, second in np.unique(histories, axis=0).tolist():
        left, both, right = tokens.split(chains[first, second], sizes, len(world.VALUES))
        ways[first].add(tuple(sorted(left + both)))
        ways[second].add(tuple(sorted(both + right)))
    often = [len(ways[item]) for item, n in times.items() if n >= SEEN]
    return float(np.mean(often)) if often else float("nan")


def run(settings: Settings, seed: int) -> Run:
    """Every tokeniser under the same recommender, and ActionPiece with other numbers of merges."""
    s = settings
    data = world.make_data(np.random.default_rng([seed, 0]), s.context, s.users, s.length)
    base = sum(world.VALUES)
    sets = data.features[data.sequences]
    most = tokens.learn(base, sets.tolist(), max(*LEVELS, s.merges))
    own = tokens.learn(base, sets.reshape(-1, 1, len(world.VALUES)).tolist(), s.merges)
    context = most.first(s.merges)
    chains = naive_chains(np.concatenate([data.histories, data.test]), data.features, context)
    every = tokenisers(data.features, own, context, chains)
    found = {m: evaluate(s, data, t, seed, DECAY[m]) for m, t in every.items()}
    by_merges = {
        level: found[ACTIONPIECE] if level == s.merges else evaluate(s, data, in_context(data.features, v), seed)
        for level, v in ((n, most.first(n)) for n in sorted({*LEVELS, s.merges}))
    }
    truth = data.shop.following(data.test[:, 0], data.test[:, 1])
    best = dict(zip(("ndcg", "recall"), world.ranking(truth, data.test_targets), strict=True))
    measures: Measures = {
        key: {m: f[key] for m, f in (found | ({ORACLE: best} if key in best else {})).items()}
        for key in ("ndcg", "recall", "length", "used")
    }
    measures |= {
        "crossing": {ACTIONPIECE: crossing_share(context)},
        "learned": {ACTIONPIECE: float(len(context.rules))},
        "ways": {ACTIONPIECE: different_tokens(data.histories, chains, context)},
        "ndcg_merges": {f"{n} merges": f["ndcg"] for n, f in by_merges.items()},
        "length_merges": {f"{n} merges": f["length"] for n, f in by_merges.items()},
    }
    return Run(s, strips(data, context, chains), measures)


# --- figures ------------------------------------------------------------------------------------------


def paired(run: Run, samples: Samples | None, measure: str, a: str, b: str) -> tuple[float, float, float]:
    """a − b: mean and 95 % interval over seeds where there are samples, else the one run's value three times."""
    if samples is None or len(samples.seeds) < 2:
        value = run.measures[measure][a] - run.measures[measure][b]
        return value, value, value
    e = t_interval(samples(measure, a) - samples(measure, b))
    return e.value, e.low, e.high


@across_seeds
def ranking_figure(run: Run, samples: Samples | None) -> go.Figure:
    """ActionPiece is ahead of a tokeniser whose dot on the right lies to the right of 0.

    How well the recommender ranks the true next item with each tokeniser, and ActionPiece minus the others on the
    same data; over seeds with 95 % intervals. The oracle knows the true probabilities.
    """
    fig = charts.panels(["NDCG@10, 0–1 (higher is better)", "lead of ActionPiece (NDCG@10)"])
    at = run.measures["ndcg"]
    found = {m: charts.interval_of(samples, "ndcg", m, at[m]) for m in ROLES}
    ahead = {rival: paired(run, samples, "ndcg", ACTIONPIECE, rival) for rival in RIVALS}
    charts.dots(fig, found, ROLES, row=1, col=1)
    charts.dots(fig, ahead, ROLES, row=1, col=2)
    for column, rows, digits in ((1, found, 2), (2, ahead, 3)):
        for name, (value, low, high) in rows.items():
            text = number(value, digits, sign=column == 2)
            side = -1 if value < 0 else 1  # away from 0, so that no number stands on the line there
            fig.add_annotation(
                x=high if side > 0 else low,
                y=name,
                text=f"<b>{text}</b>" if name == ACTIONPIECE else text,
                xanchor="left" if side > 0 else "right",
                xshift=9 * side,
                showarrow=False,
                font={"size": 13, "color": charts.TEXT[ROLES[name]]},
                row=1,
                col=column,
            )
    fig.add_vline(x=0, line={"color": charts.MARK["oracle"], "width": 1.6, "dash": "dot"}, row=1, col=2)
    least, most = min(v[1] for v in ahead.values()), max(v[2] for v in ahead.values())
    room = 0.4 * (max(most, 0) - min(least, 0))  # for the numbers
    fig.update_xaxes(range=[0, 1.25 * max(v[2] for v in found.values())], nticks=5, row=1, col=1)
    sides = [least - room if least < 0 else -room / 5, most + room if most > 0 else room / 5]
    return fig.update_xaxes(range=sides, nticks=4, row=1, col=2)


@across_seeds
def merges_figure(run: Run, samples: Samples | None) -> go.Figure:
    """Each merge makes the sequences shorter; the ranking has gained where the left curve is above 0.

    ActionPiece with other numbers of learned merges, on the left against itself without merges; over seeds with
    a 95 % band. Without merges it reads the plain features in random order.
    """
    fig = charts.panels(["NDCG@10, gain over no merges", "tokens per action"], "learned merges", shared_y=False)
    ndcg, length = run.measures["ndcg_merges"], run.measures["length_merges"]
    gain = [paired(run, samples, "ndcg_merges", name, "0 merges") for name in ndcg]
    long = [charts.interval_of(samples, "length_merges", name, value) for name, value in length.items()]
    levels = np.array([int(name.split()[0]) for name in ndcg])
    for column, rows in enumerate((gain, long), 1):
        middle, low, high = np.array(rows).T
        charts.line(fig, ACTIONPIECE, levels, middle, band=(low, high), markers=True, row=1, col=column)
    fig.add_hline(y=0, line={"color": charts.MARK["oracle"], "width": 1.6, "dash": "dot"}, row=1, col=1)
    fig.update_yaxes(title_text="").update_xaxes(tickvals=LEVELS)
    return fig.update_yaxes(range=[0, 3.2], row=1, col=2)


def strips_figure(run: Run) -> go.Figure:
    """Blue tiles are tokens of both actions; they give the item on the right other tokens in other contexts.

    One item after up to four actions, cut by the fixed segmentation; each tile is a token and names its
    features (of the kinds A, B and C). Histories cut into different shapes come first.
    """
    return draw(run.strips)


def thumbnail(run: Run) -> str:
    """One item after four actions as strips of tiles, the tile of both actions in the accent colour."""
    return tiles(run.strips)


# --- claims -------------------------------------------------------------------------------------------


def ahead_of(rival: str):
    """ActionPiece's NDCG@10 is above a rival's by more than the margin."""
    gap = difference("ndcg", ACTIONPIECE, rival, unit="NDCG@10", digits=3, label=f"against {rival}")
    return above(gap, MARGIN, same=(-MARGIN, MARGIN))


def no_merges(settings: Settings) -> str:
    """Why there is no token that could depend on the context, or ""."""
    return "" if settings.merges else "without merges every token is a single feature"


DEMO = Demo(
    name="ActionPiece",
    line="The same purchase gets different tokens depending on what came just before.",
    topic="Recommender systems",
    abstract="Generative recommendation (GR) is an emerging paradigm",
    paper=Paper(
        "ActionPiece: Contextually Tokenizing Action Sequences for Generative Recommendation",
        "https://icml.cc/virtual/2025/poster/44439",
        "https://github.com/google-deepmind/action_piece",
    ),
    settings=Settings,
    run=run,
    measures={
        "ndcg": Measure("NDCG@10", "", "higher", 3),
        "recall": Measure("Recall@10", "", "higher", 3),
        "length": Measure("Tokens per action in training", "", "lower", 2),
        "used": Measure("Share of the vocabulary seen in training", "", "higher", 2),
        "learned": Measure("Merges learned (fewer if the pairs run out)", "", "", 0),
        "crossing": Measure("Merged tokens that surely reach over two actions", "share", "", 2),
        "ways": Measure("Different token sets of an item, by context (1 without context)", "", "", 1),
        "ndcg_merges": Measure("NDCG@10 of ActionPiece by learned merges", "", "higher", 3),
        "length_merges": Measure("Tokens per action of ActionPiece by learned merges", "", "lower", 2),
    },
    figures=(ranking_figure, strips_figure, merges_figure),
    thumbnail=thumbnail,
    claims=(
        Claim(
            quote="This lack of context-awareness can lead to suboptimal performance",
            says="Ranks the next item better than plain features and than merges inside actions, SPR included",
            rule=all_of(ahead_of(IN_SET_SPR), ahead_of(FEATURES)),
        ),
        Claim(
            quote="the same action may hold different meanings depending on its surrounding context",
            says="The same item gets different tokens in different contexts",
            rule=all_of(
                above(mean("crossing", ACTIONPIECE, label="tokens of two actions", unit="share"), LEAST_CROSSING),
                above(mean("ways", ACTIONPIECE, label="token sets of an item", digits=1), LEAST_CARRIERS),
            ),
            applies=no_merges,
        ),
        Claim(
            quote="produces multiple segmentations of action sequences with the same semantics",
            says="Many segmentations rank better than the one fixed one, and use more of the vocabulary",
            rule=all_of(
                ahead_of(FIXED),
                above(
                    difference("used", ACTIONPIECE, FIXED, unit="of the vocabulary", label="seen in training"),
                    LEAST_USED,
                ),
            ),
            applies=no_merges,
        ),
    ),
    presets={
        "Break it: no context": Settings(context=0.0),
        "Strong encoder": Settings(encoder="tanh"),
    },
    break_it="Break it: no context",
    why_it_breaks=(
        "When the next action depends on one feature of the last one, tokens that mix actions only split the counts."
    ),
    simplified=(
        "240 synthetic items with three given features and 300 users with 9 actions, in place of Amazon reviews with "
        "features from quantised sentence embeddings; at most 400 merges instead of a vocabulary of 40,000. The "
        "recommender is a bag of tokens with an autoregressive decoder instead of a T5 with 4 + 4 layers. It reads "
        "histories of two actions instead of 20, and scores all items exactly instead of by beam search. Each "
        "tokeniser has its own L2 penalty, chosen on other seeds."
    ),
    seeds=16,
)
