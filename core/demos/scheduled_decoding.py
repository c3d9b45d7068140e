r"""An image is $T=16$ codes from a codebook of $K=16$ (k-means on $2\times2$ pixel patches of digits). A
transformer without causal order reads all positions, known or MASK, and predicts the masked ones. Generation
starts from masks only and takes $S$ `steps`.

**Nested sizes.** Size $1/p$, $p\in\{1,2,4\}$, uses the first $D/p$ columns of $W_q,W_k,W_v$ (the first heads),
the first $D/p$ rows of $W_o$ and the first $H/p$ hidden units; embeddings and output are shared. Each training step
adds the full model's cross-entropy and a smaller size's, whose target is
$(1-\alpha)\,\text{truth}+\alpha\,p_\text{full}$ with $\alpha$ rising from 0 to 1.

**Schedule.** Step $k$ runs size $1/p_k$ (`schedule`): quarter, half, then full. Each masked position draws a code
from its softmax; its confidence is

$$\log p(\text{code})+\gamma\,(1-k/S)\cdot\text{Gumbel noise}.$$

The $\lfloor T\cos(\tfrac\pi2\tfrac kS)\rfloor$ least confident stay masked (at least one is fixed), the others are
fixed for good.

**Cache.** Keys and values of all $T+1$ entries (a start or class row comes first) are kept. Only $n_k$ `active`
tokens are computed: the masked ones and those fixed one step ago, whose cached key is still that of MASK. The keys
of another size are useless, so a change of size computes all again. With $m_k$ masked positions and $L$ blocks a
step costs, in multiply-adds (`cost`),

$$n_k\Big[L\,\frac{4D^2+2DH}{p_k}+2L(T+1)\frac{D}{p_k}\Big]+m_kDK .$$

All methods of a run share weights and random numbers. Slicing heads at a fixed width, emptying the cache at each
change of size, computing a fixed token once more and the rise of $\alpha$ are our reading of the idea.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Self

import numpy as np
import plotly.graph_objects as go
from pydantic import model_validator

from core.demos import _scheduled_decoding_images as images
from core.demos import _scheduled_decoding_network as nested
from core.demos._scheduled_decoding_network import LAYERS, MASK, SIZES, Cache, K, T, network, softmax
from core.demos._scheduled_decoding_pictures import bars, quality, strip, thumbnail_of
from core.lab import charts, verdicts
from core.lab import demo as lab
from core.lab.demo import Claim, Demo, Measure, Measures, Paper, across_seeds, choice, control
from core.lab.verdicts import Rule, Samples, Verdict, above, all_of, below, difference, in_seeds, ratio

GENERATED, TEST_MASKED, SHOWN = 200, 6, 3
METHOD, UP, DOWN = "growing + cache", "growing", "shrinking + cache"
FULL, FULL_CACHE, HALF, QUARTER, FEW = "full", "full + cache", "half", "quarter", "full, fewer steps"
REAL, TOGETHER, SEPARATE = "unseen digits", "all sizes together", "three separate models"
NAMES = {1: FULL, 2: HALF, 4: QUARTER}
ROLES = charts.roles(METHOD, (FULL, FULL_CACHE, HALF, QUARTER, UP, DOWN), REAL) | {FEW: "baseline1"}
MARGIN, CACHE_LOSS, NEAR, SAVED, SAVED_LEAST, LEARNED = 0.01, 0.05, 1.3, 2.5, 2.0, 1.45


class Settings(lab.Settings):
    steps: int = control(12, "Decoding steps S", 3, T, 1)
    quarter: float = control(0.33, "Share of the steps for the quarter size", 0, 0.66, 0.01)
    half: float = control(
        0.33, "Share of the steps for the half size", 0, 0.66, 0.01, help="The full size gets the rest."
    )
    gamma: float = control(12.0, "Noise in the order of fixing γ", 4, 20, 1, help="The same for every method.")
    label: bool = choice(False, "Class label", labels={False: "not given", True: "given"}, help="Trains anew.")

    @model_validator(mode="after")
    def _shares(self) -> Self:
        schedule(self.steps, self.quarter, self.half)
        return self


def schedule(steps: int, quarter: float, half: float) -> tuple[int, ...]:
    """The divisors p of all steps: the quarter size first, then half, then full."""
    for name, share in (("quarter", quarter), ("half", half)):
        if share < 0:
            raise ValueError(f"{name}: a share of the steps cannot be negative, not {share:g}")
    if quarter + half > 1 + 1e-9:
        raise ValueError(f"half: the shares of quarter and half ({quarter:g} + {half:g}) cannot sum to more than 1")
    first, second = round(steps * quarter), round(steps * (quarter + half))
    return (4,) * first + (2,) * (second - first) + (1,) * (steps - second)


def still_masked(steps: int) -> list[int]:
    """How many tokens are masked after each step; every step fixes at least one, the last one all."""
    if not 1 <= steps <= T:
        raise ValueError(f"steps: from 1 to {T} (one token a step), not {steps}")
    left = [T]
    for k in range(1, steps + 1):
        wanted = int(T * np.cos(np.pi / 2 * k / steps) + 1e-9)
        left.append(min(wanted, left[-1] - 1) if k < steps else 0)
    return left[1:]


@dataclass(frozen=True)
class Decoded:
    """What one way of decoding did; counts are the same for every image."""

    tokens: np.ndarray
    """(S + 1, images, T) after each step, MASK where nothing is fixed yet"""
    sizes: tuple[int, ...]
    active: tuple[int, ...]
    costs: tuple[int, ...]


def decode(
    flat: np.ndarray, classes: np.ndarray, sizes: Sequence[int], cached: bool, gamma: float, noise: np.ndarray
) -> Decoded:
    """Generate one image per class row with the sizes (divisors p) of the schedule.

    `noise` (2, S, images, T): uniform numbers pick the codes, Gumbel noise disturbs the order of fixing.
    """
    n, steps = len(classes), len(sizes)
    if noise.shape[1] != steps:
        raise ValueError(f"schedule: {steps} sizes, but there are {noise.shape[1]} steps")
    if gamma < 0:
        raise ValueError(f"gamma: cannot be negative, not {gamma:g}")
    nets = {p: network(flat, p) for p in sizes}
    ids = np.column_stack([nested.FIRST_CLASS + classes, np.full((n, T), MASK)])
    stale = np.zeros(ids.shape, dtype=bool)
    cache: Cache = []
    tokens, counts, costs = [ids[:, 1:].copy()], [], []
    for k, (p, left) in enumerate(zip(sizes, still_masked(steps), strict=True)):
        if not cached or k == 0 or p != sizes[k - 1]:
            stale[:] = True
            cache = nested.empty_cache(nets[p], n)
        masked = ids == MASK
        active = np.nonzero(masked | stale)[1].reshape(n, -1)
        y = nested.compute(nets[p], ids, active, cache)
        found = softmax(y[np.take_along_axis(masked, active, axis=1)] @ nets[p].head)
        counts.append(active.shape[1])
        costs.append(nested.cost(active.shape[1], len(found) // n, p, len(cache)))
        uniform, gumbel = noise[:, k][:, masked[:, 1:]]
        code = (found.cumsum(axis=1) < uniform[:, None]).sum(axis=1).clip(max=K - 1)
        confidence = np.log(found[np.arange(len(code)), code]) + gamma * (1 - (k + 1) / steps) * gumbel
        stale = fix(ids, masked, code, confidence, left)
        tokens.append(ids[:, 1:].copy())
    return Decoded(np.array(tokens), tuple(sizes), tuple(counts), tuple(costs))


def fix(ids: np.ndarray, masked: np.ndarray, code: np.ndarray, confidence: np.ndarray, left: int) -> np.ndarray:
    """Write the codes of all masked tokens but the `left` least confident of each image; where that was done."""
    order, proposed = np.full(ids.shape, np.inf), ids.copy()
    order[masked], proposed[masked] = confidence, code
    fixed = masked.copy()
    np.put_along_axis(fixed, order.argsort(axis=1)[:, :left], False, axis=1)
    ids[fixed] = proposed[fixed]
    return fixed


def ways(settings: Settings) -> dict[str, tuple[tuple[int, ...], bool]]:
    """Every way of decoding: its sizes and whether it keeps a cache."""
    s = settings.steps
    up = schedule(s, settings.quarter, settings.half)
    return {
        METHOD: (up, True),
        FULL: ((1,) * s, False),
        FULL_CACHE: ((1,) * s, True),
        HALF: ((2,) * s, False),
        QUARTER: ((4,) * s, False),
        UP: (up, False),
        DOWN: (up[::-1], True),
        FEW: ((1,) * max(1, round(s / 3)), False),
    }


@lru_cache(maxsize=16)
def trained(label: bool, seed: int) -> tuple[images.Digits, np.ndarray, dict[str, float]]:
    """Digits, trained numbers and test cross-entropy of every size; steps, shares and γ do not matter here."""
    for_data, for_training, for_test = (
        np.random.default_rng(s) for s in np.random.SeedSequence([seed, 1]).spawn(3)
    )
    data = images.load(for_data)
    flat = nested.train(for_training, data.train, data.train_labels * label)
    flat.setflags(write=False)
    hidden = for_test.random(data.test.shape).argsort(axis=1).argsort(axis=1) < TEST_MASKED
    loss = {
        name: nested.cross_entropy(flat, p, data.test, data.test_labels * label, hidden)
        for p, name in NAMES.items()
    }
    return data, flat, loss


@dataclass(frozen=True)
class Run:
    settings: Settings
    decoded: dict[str, Decoded]
    """method -> its steps, with the tokens of the first images only"""
    book: images.Codebook
    measures: Measures


def run(settings: Settings, seed: int) -> Run:
    """Train all sizes at once, generate 200 images in every way, compare them with real digits."""
    data, flat, loss = trained(settings.label, seed)
    rng = np.random.default_rng(np.random.SeedSequence([seed, 2]))
    shape = (settings.steps, GENERATED, T)
    noise = np.stack([rng.random(shape), rng.gumbel(size=shape)])
    classes = np.arange(GENERATED) % nested.CLASSES * settings.label
    decoded = {
        name: decode(flat, classes, sizes, cached, settings.gamma, noise[:, : len(sizes)])
        for name, (sizes, cached) in ways(settings).items()
    }
    made = {name: data.book.images(d.tokens[-1]) for name, d in decoded.items()} | {
        REAL: data.book.images(data.test)
    }
    work = {name: sum(d.costs) for name, d in decoded.items()}
    own = {name: float(nested.counted(LAYERS, [p])) for p, name in NAMES.items()}
    measures: Measures = {
        "fd": {name: data.distance(pixels) for name, pixels in made.items()},
        "compute": {name: c / 1e6 for name, c in work.items()},
        "saving": {name: work[FULL] / c for name, c in work.items()},
        "confidence": {name: data.confidence(pixels) for name, pixels in made.items()},
        "cross_entropy": dict(loss),
        "parameters": own | {TOGETHER: float(nested.counted(LAYERS, SIZES)), SEPARATE: sum(own.values())},
    }
    shown = {name: replace(d, tokens=d.tokens[:, :SHOWN]) for name, d in decoded.items()}
    return Run(settings, shown, data.book, measures)


@across_seeds
def quality_figure(run: Run, samples: Samples | None) -> go.Figure:
    """Best is bottom left: few multiply-adds and a small distance to real digits.

    Fréchet distance of 200 generated digits to the training digits, with 95 % intervals over seeds. The dotted
    line is what digits never seen in training reach.
    """
    points = {
        m: (run.measures["compute"][m], *charts.interval_of(samples, "fd", m, run.measures["fd"][m]))
        for m in run.decoded
    }
    fig = quality(points, ROLES, "multiply-adds per image, million", "Fréchet distance")
    charts.level(fig, charts.interval_of(samples, "fd", REAL, run.measures["fd"][REAL])[0], REAL)
    return fig


def active_figure(run: Run) -> go.Figure:
    """The lower bars add up to the compute of one image.

    Entries that pass through the network at each step and what they cost, full model left, growing with cache
    right; the colour is the size in use. At each change of size the cache is empty and all 17 entries are computed.
    """
    shown = [run.decoded[name] for name in (FULL, METHOD)]
    entries: list[tuple[str, Sequence[float]]] = [(f"entries: {FULL}", shown[0].active), (METHOD, shown[1].active)]
    work = [[c / 1000 for c in d.costs] for d in shown]
    costs: list[tuple[str, Sequence[float]]] = [("thousand multiply-adds", work[0]), (" ", work[1])]
    return bars([entries, costs], [[NAMES[p] for p in d.sizes] for d in shown], ROLES)


def strip_figure(run: Run) -> go.Figure:
    """Every row starts from masks only, sees the same random numbers and fills in its own way.

    The first three digits of the run after a quarter, half, three quarters and all of the steps; blue patches
    are still masked.
    """
    rows = {}
    for name, d in run.decoded.items():
        after = [len(d.sizes) * quarter // 4 for quarter in (1, 2, 3, 4)]
        rows[name] = d.tokens[after]
    return strip(rows, run.book)


def thumbnail(run: Run) -> str:
    """One digit from all masked to finished; the frame has the colour of the size that was at work."""
    d = run.decoded[METHOD]
    after = [len(d.sizes) * third // 3 for third in range(4)]
    colours = [charts.MARK[ROLES[NAMES[d.sizes[k - 1]]] if k else "oracle"] for k in after]
    return thumbnail_of(d.tokens[after, 0], colours, run.book)


def learned(rule: Rule) -> Rule:
    """Judge only networks that have learned the digits: of sizes that know nothing all are alike."""

    def checked(samples: Samples) -> Verdict:
        found = float(np.mean(samples("cross_entropy", FULL)))
        if not found < LEARNED:
            return Verdict(
                "untestable", note=f"the full size has not learned the digits (cross-entropy {found:.2f})"
            )
        return rule(samples)

    return checked


def closer_than(rival: str) -> Rule:
    """The method's distance is smaller by at least the margin; a mean within the margin is no difference."""
    one_sided = above(difference("fd", rival, METHOD, digits=3, label=f"{rival} − {METHOD}"), 0, least=MARGIN)

    def rule(samples: Samples) -> Verdict:
        found = one_sided(samples)
        if found.effect is not None and abs(found.effect.value) < MARGIN and found.effect.n >= verdicts.LEAST_SEEDS:
            return replace(found, outcome="unclear", note=f"no practical difference (margin {MARGIN:g})")
        return found

    return rule


def cheaper_than(rival: str) -> Rule:
    """The method costs less; dearer fails, the same is unclear."""
    return below(ratio("compute", METHOD, rival, label=f"compute against {rival}"), 1)


def little_loss(samples: Samples) -> Verdict:
    """The cache changes the distance of the full model by less than its bound; a gain beyond it is unclear."""
    found = verdicts.within(difference("fd", FULL_CACHE, FULL, digits=3), -CACHE_LOSS, CACHE_LOSS)(samples)
    if found.outcome == "fails" and found.effect is not None and found.effect.value < 0:
        found = replace(found, outcome="unclear")
    saved = f"the cache saves {float(np.mean(samples('saving', FULL_CACHE))):.2f}× compute"
    return replace(found, note="; ".join(filter(None, (found.note, saved))))


def near_full(samples: Samples) -> Verdict:
    """Close to the full model at a fraction of its compute; the note compares with simply taking fewer steps."""
    close = below(ratio("fd", METHOD, FULL, label=f"distance against {FULL}"), NEAR)
    saved = above(verdicts.mean("saving", METHOD, label="compute saved, factor"), SAVED, fails_below=SAVED_LEAST)
    found = all_of(close, saved)(samples)
    rival = difference("fd", FEW, METHOD, digits=3)(samples)
    word = "level" if rival.low <= 0 <= rival.high else "better" if rival.high < 0 else "worse"
    less = float(np.mean(samples("saving", FEW)))
    note = f"{FEW} is {word} at {less:.1f}× less compute: {rival} against {METHOD}"
    return replace(found, note="; ".join(filter(None, (found.note, note))))


def _one_size(settings: Settings) -> str:
    sizes = set(schedule(settings.steps, settings.quarter, settings.half))
    return "every step has the same size" if len(sizes) == 1 else ""


DEMO = Demo(
    name="Scheduled decoding",
    line="Draw digits token by token: small model first, full model last, keys cached.",
    topic="Generative models",
    abstract="Recent advances in visual generation have made significant strides",
    paper=Paper(
        "Masked Generative Nested Transformers with Decode Time Scaling",
        "https://icml.cc/virtual/2025/poster/44435",
    ),
    settings=Settings,
    run=run,
    measures={
        "fd": Measure("Fréchet distance to the training digits", better="lower"),
        "compute": Measure("Multiply-adds per image", "million", "lower", digits=2),
        "saving": Measure("Compute saved against the full model, factor", better="higher", digits=2),
        "confidence": Measure("Mean confidence of a digit classifier", better="higher"),
        "cross_entropy": Measure("Cross-entropy of 6 masked tokens on test digits", "nats", "lower", digits=2),
        "parameters": Measure("Numbers in the network", digits=0),
    },
    figures=(quality_figure, active_figure, strip_figure),
    thumbnail=thumbnail,
    claims=(
        Claim(
            "not all parts of the generation process need equal compute",
            "Growing the model during decoding beats a constant half-size model and shrinking it, at less compute",
            learned(all_of(*(make(rival) for rival in (HALF, DOWN) for make in (closer_than, cheaper_than)))),
            applies=_one_size,
        ),
        Claim(
            "we can cache and reuse some of the intermediate computation",
            "Caching keys and values lets the full model compute fewer tokens at little loss of quality",
            learned(little_loss),
        ),
        Claim(
            "less compute than baseline, our model obtains competitive performance",
            "Growing with the cache stays within 1.3 times the full model's distance at 2.5 times less compute",
            learned(near_full),
            applies=_one_size,
        ),
        Claim(
            "These different-sized models do not increase the parameter size, as they share parameters",
            "All sizes together have no more numbers than the largest alone",
            in_seeds(
                lambda s: s("parameters", TOGETHER) == s("parameters", FULL), ratio("parameters", TOGETHER, FULL)
            ),
        ),
    ),
    presets={
        "Break it: few steps": Settings(steps=3),
        "Label given": Settings(label=True),
    },
    break_it="Break it: few steps",
    why_it_breaks="With three steps the size changes at every step, so the cache is refreshed each time and saves "
    "nothing (compute saved: 1.7 times).",
    simplified="Digits of 8 × 8 pixels as 16 codes of plain k-means instead of a learned tokenizer on ImageNet and "
    "video; a network of 14,176 numbers; three sizes; no guidance; Fréchet distance on 12 principal components of the "
    "pixels instead of Inception features, against digits decoded from their own codes (quantisation left out). At this "
    "size a full model that takes a third of the steps costs no more than the method and comes close to it.",
    seeds=16,
)
