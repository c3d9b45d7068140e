"""Verdicts on claims: estimates over seeds with 95 % intervals, and rules with three outcomes.

An *estimator* turns the samples of a study into an `Estimate`; a *rule* compares estimates with bounds
stated beforehand and returns a `Verdict`: holds, fails, unclear, or untestable. Seeds are independent draws
of data and initialisation, so pairing by seed is a paired design and the intervals are t-intervals; shares
of counted events pool their trials and use Wilson's interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy import stats

Outcome = Literal["holds", "fails", "unclear", "untestable"]
MARKS: dict[Outcome, str] = {"holds": "✓", "fails": "✗", "unclear": "~", "untestable": "○"}
WORDS: dict[Outcome, str] = {
    "holds": "holds",
    "fails": "does not hold",
    "unclear": "unclear",
    "untestable": "not testable here",
}
LEAST_SEEDS = 8
REACHES_OVER = "the interval reaches over the bound"


class Samples:
    """Values of a study by measure and method, one number per seed.

    `values` maps (measure, method) to an array (seeds,) in the order of `seeds`.
    """

    def __init__(self, values: Mapping[tuple[str, str], np.ndarray], seeds: Sequence[int]):
        self.values = {key: np.asarray(v, dtype=float) for key, v in values.items()}
        self.seeds = tuple(seeds)

    def __call__(self, measure: str, method: str) -> np.ndarray:
        """The values (seeds,) of one method; `ValueError` names what there is otherwise."""
        if (measure, method) not in self.values:
            there = ", ".join(f"{a}/{b}" for a, b in self.values)
            raise ValueError(f"no samples of measure {measure!r}, method {method!r}; there are {there}")
        return self.values[measure, method]

    def methods(self, measure: str) -> list[str]:
        """The methods that have this measure, in their order."""
        return [method for name, method in self.values if name == measure]


@dataclass(frozen=True)
class Estimate:
    """A value with its 95 % interval; `sd` between seeds on the scale of the test (log for ratios)."""

    value: float
    low: float
    high: float
    sd: float
    n: int
    kind: Literal["ratio", "difference", "value", "share"] = "value"
    unit: str = ""
    digits: int = 2
    label: str = ""

    @property
    def defined(self) -> bool:
        return math.isfinite(self.value)

    def __str__(self) -> str:
        """'0.65× [0.50, 0.84]', '+0.28 [0.21, 0.35] accuracy'; a true minus sign, never −0."""
        if not self.defined:
            return "not defined"
        sign = self.kind == "difference"
        lead = f"{self.label} " if self.label else ""
        tail = "×" if self.kind == "ratio" else ""
        unit = f" {self.unit}" if self.unit else ""
        low, high = (number(v, self.digits) for v in (self.low, self.high))
        return f"{lead}{number(self.value, self.digits, sign)}{tail} [{low}, {high}]{unit}"


def number(value: float, digits: int = 2, sign: bool = False) -> str:
    """A number for reading: fixed digits, thousands marked, true minus, '∞' and 'n/a' spelled."""
    if math.isnan(value):
        return "n/a"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    text = f"{abs(value):,.{digits}f}"
    if float(text.replace(",", "")) == 0:
        return text if value == 0 or digits == 0 or abs(value) > 1e-12 else f"{0:.{digits}f}"
    return ("−" if value < 0 else "+" if sign else "") + text


def t_interval(values: np.ndarray, kind: str = "value", **text) -> Estimate:
    """Mean of independent values (n,) with its 95 % t-interval; one value gives an unbounded interval."""
    values = np.asarray(values, dtype=float)
    n = len(values)
    if n == 0 or not np.isfinite(values).all():
        return Estimate(math.nan, math.nan, math.nan, math.nan, n, kind, **text)  # type: ignore[arg-type]
    mean = float(values.mean())
    if n == 1:
        return Estimate(mean, -math.inf, math.inf, math.nan, 1, kind, **text)  # type: ignore[arg-type]
    sd = float(values.std(ddof=1))
    half = float(stats.t.ppf(0.975, n - 1)) * sd / math.sqrt(n)
    return Estimate(mean, mean - half, mean + half, sd, n, kind, **text)  # type: ignore[arg-type]


def ratio_interval(values: np.ndarray, **text) -> Estimate:
    """Geometric mean of positive ratios (n,) with the t-interval of the mean log ratio."""
    with np.errstate(divide="ignore", invalid="ignore"):
        log = t_interval(np.log(np.asarray(values, dtype=float)))
    value, low, high = (0.0 if v == -math.inf else float(np.exp(v)) for v in (log.value, log.low, log.high))
    return Estimate(value, low, high, log.sd, log.n, "ratio", **text)


def wilson_interval(successes: float, trials: float, **text) -> Estimate:
    """A share of counted events with Wilson's 95 % interval."""
    if trials <= 0:
        return Estimate(math.nan, math.nan, math.nan, math.nan, 0, "share", **text)
    z = float(stats.norm.ppf(0.975))
    p = successes / trials
    middle = (p + z * z / (2 * trials)) / (1 + z * z / trials)
    half = z * math.sqrt(p * (1 - p) / trials + z * z / (4 * trials**2)) / (1 + z * z / trials)
    return Estimate(p, middle - half, middle + half, math.sqrt(p * (1 - p)), int(trials), "share", **text)


Estimator = Callable[[Samples], Estimate]


def mean(measure: str, method: str, **text) -> Estimator:
    """The mean of a measure over seeds."""
    return lambda s: t_interval(s(measure, method), **text)


def difference(measure: str, a: str, b: str, *, scale: float = 1.0, **text) -> Estimator:
    """a − b, paired by seed; `scale` 100 turns shares into points."""
    return lambda s: t_interval(scale * (s(measure, a) - s(measure, b)), "difference", **text)


def ratio(measure: str, a: str, b: str, **text) -> Estimator:
    """a / b, paired by seed, as a geometric mean."""
    return lambda s: ratio_interval(_divide(s(measure, a), s(measure, b)), **text)


def share(measure: str, method: str, trials: int, **text) -> Estimator:
    """A rate measured on `trials` cases per seed, pooled over seeds (Wilson)."""

    def estimate(s: Samples) -> Estimate:
        rates = s(measure, method)
        return wilson_interval(float(rates.sum() * trials), trials * len(rates), **text)

    return estimate


def per_seed(values: Callable[[Samples], np.ndarray], kind: str = "value", **text) -> Estimator:
    """Any number per seed (seeds,) computed from the samples; kind 'ratio' uses the log scale."""
    if kind == "ratio":
        return lambda s: ratio_interval(values(s), **text)
    return lambda s: t_interval(values(s), kind, **text)


def best_rival(samples: Samples, measure: str, rivals: Sequence[str], better: str = "higher") -> str:
    """The rival with the best mean of a measure."""
    means = {r: float(np.mean(samples(measure, r))) for r in rivals}
    return max(means, key=means.__getitem__) if better == "higher" else min(means, key=means.__getitem__)


def _divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return a / b


@dataclass(frozen=True)
class Verdict:
    """The outcome of one claim, with the effect that decided it.

    `margin` is how far the estimate lies beyond its own bound in standard deviations between seeds, positive
    on the claim's side; `margin_low` and `margin_high` are its 95 % interval. `parts` are the verdicts that
    were joined, shown apart.
    """

    outcome: Outcome
    effect: Estimate | None = None
    bound: float | None = None
    note: str = ""
    margin: float = math.nan
    margin_low: float = math.nan
    margin_high: float = math.nan
    parts: tuple[Verdict, ...] = ()

    @property
    def mark(self) -> str:
        return MARKS[self.outcome]

    @property
    def word(self) -> str:
        return WORDS[self.outcome]

    @property
    def p_value(self) -> float:
        """One-sided p of the null that the effect is at its bound, from the same t (or normal) scale."""
        if self.parts:
            return max((p.p_value for p in self.parts), key=lambda p: -1.0 if math.isnan(p) else p)
        if self.effect is None or not math.isfinite(self.margin):
            return math.nan
        t = self.margin * math.sqrt(self.effect.n)
        return float(stats.norm.sf(t) if self.effect.kind == "share" else stats.t.sf(t, self.effect.n - 1))


Rule = Callable[[Samples], Verdict]


def above(
    estimator: Estimator,
    bound: float,
    *,
    fails_below: float | None = None,
    least: float | None = None,
    same: tuple[float, float] | None = None,
) -> Rule:
    """Holds if the interval lies above `bound` (and the value is at least `least`).

    Fails if the interval lies below `fails_below` (default: the bound). An interval inside `same` is unclear:
    no practical difference.
    """
    return _one_sided(estimator, bound, +1, bound if fails_below is None else fails_below, least, same)


def below(
    estimator: Estimator,
    bound: float,
    *,
    fails_above: float | None = None,
    most: float | None = None,
    same: tuple[float, float] | None = None,
) -> Rule:
    """Holds if the interval lies below `bound` (and the value is at most `most`); the mirror of `above`."""
    return _one_sided(estimator, bound, -1, bound if fails_above is None else fails_above, most, same)


def beyond(estimator: Estimator, margin: float, *, side: int = 1) -> Rule:
    """Holds if surely above 0 (`side` −1: below) and at least the margin away on average; fails as the mirror.

    A mean within the margin is unclear, no practical difference, whatever the interval.
    """
    surely = above(estimator, 0, least=margin) if side > 0 else below(estimator, 0, most=-margin)

    def rule(samples: Samples) -> Verdict:
        found = surely(samples)
        small = found.effect is not None and abs(found.effect.value) < margin
        if small and found.outcome != "untestable" and len(samples.seeds) >= LEAST_SEEDS:
            return replace(found, outcome="unclear", note=f"no practical difference (margin {margin:g})")
        return found

    return rule


def _one_sided(estimator, bound, side, fails_at, mean_bound, same) -> Rule:
    def rule(samples: Samples) -> Verdict:
        e = estimator(samples)
        if not e.defined:
            return Verdict("untestable", e, bound, "not defined at these settings")
        margins = _margins(e, bound, side)
        if e.n < LEAST_SEEDS and e.kind != "share":
            return Verdict("unclear", e, bound, f"not enough runs: {e.n} of {LEAST_SEEDS} seeds", *margins)
        near, far = (e.low, e.high) if side > 0 else (e.high, e.low)
        large_enough = mean_bound is None or side * (e.value - mean_bound) >= 0
        if same and same[0] <= e.low and e.high <= same[1]:
            return Verdict("unclear", e, bound, "no practical difference", *margins)
        if side * (near - bound) > 0 and large_enough:
            return Verdict("holds", e, bound, "", *margins)
        if side * (far - fails_at) < 0:
            return Verdict("fails", e, bound, "", *margins)
        if side * (near - bound) > 0:
            return Verdict("unclear", e, bound, "the effect is smaller than its stated margin", *margins)
        return Verdict("unclear", e, bound, REACHES_OVER, *margins)

    return rule


def _margins(e: Estimate, bound: float, side: int) -> tuple[float, float, float]:
    """Distance beyond the bound in standard deviations between seeds, with its interval."""
    log = e.kind == "ratio"
    if log and bound <= 0:
        return math.nan, math.nan, math.nan
    scale = e.sd if e.sd and math.isfinite(e.sd) else math.nan

    def at(v: float) -> float:
        if log and v <= 0:
            return math.nan
        shift = math.log(v) - math.log(bound) if log else v - bound
        if math.isnan(scale):  # no spread: exactly on one side
            return math.copysign(math.inf, side * shift) if shift else 0.0
        return side * shift / scale

    low, high = (e.low, e.high) if side > 0 else (e.high, e.low)
    return at(e.value), at(low), at(high)


def within(estimator: Estimator, low: float, high: float) -> Rule:
    """Holds if the interval lies in [low, high]; fails if it lies wholly outside."""

    def rule(samples: Samples) -> Verdict:
        e = estimator(samples)
        if not e.defined:
            return Verdict("untestable", e, None, "not defined at these settings")
        up, down = _margins(e, low, +1), _margins(e, high, -1)
        bound, margins = (low, up) if not up[0] > down[0] else (high, down)
        if e.n < LEAST_SEEDS and e.kind != "share":
            return Verdict("unclear", e, bound, f"not enough runs: {e.n} of {LEAST_SEEDS} seeds", *margins)
        if low <= e.low and e.high <= high:
            return Verdict("holds", e, bound, "", *margins)
        if e.high < low or e.low > high:
            return Verdict("fails", e, bound, "", *margins)
        return Verdict("unclear", e, bound, REACHES_OVER, *margins)

    return rule


def in_seeds(
    good: Callable[[Samples], np.ndarray | np.bool_],
    estimator: Estimator,
    *,
    holds_from: float = 1.0,
    fails_to: float = 0.5,
    bound: float | None = None,
) -> Rule:
    """A property checked seed by seed: `good` gives booleans (seeds,).

    Holds if it is true in at least the share `holds_from` of the seeds, fails if in less than `fails_to`.
    `estimator` gives the number shown beside it.
    """

    def rule(samples: Samples) -> Verdict:
        ok = np.asarray(good(samples), dtype=bool)
        e = estimator(samples)
        note = f"true in {int(ok.sum())} of {len(ok)} seeds"
        if len(ok) < LEAST_SEEDS:
            return Verdict("unclear", e, bound, f"not enough runs: {len(ok)} of {LEAST_SEEDS} seeds")
        if ok.mean() >= holds_from:
            return Verdict("holds", e, bound, note)
        return Verdict("fails" if ok.mean() < fails_to else "unclear", e, bound, note)

    return rule


def all_of(*rules: Rule, note: str = "") -> Rule:
    """Holds if all hold, fails if one fails, else unclear; the weakest part is the effect shown."""

    def rule(samples: Samples) -> Verdict:
        return join([r(samples) for r in rules], note)

    return rule


def join(parts: Sequence[Verdict], note: str = "") -> Verdict:
    """Verdicts of parts that must all hold, as one; an untestable part leaves the rest to decide."""
    tested = [p for p in parts if p.outcome != "untestable"]
    if not tested:
        return replace(parts[0], parts=tuple(parts))
    outcomes = {p.outcome for p in tested}
    outcome: Outcome = "fails" if "fails" in outcomes else "unclear" if "unclear" in outcomes else "holds"
    deciding = [p for p in tested if p.outcome == outcome]
    shown = min(deciding, key=lambda p: p.margin if math.isfinite(p.margin) else math.inf)
    return replace(shown, parts=tuple(parts), note=note or shown.note)


def untestable(reason: str) -> Rule:
    """A claim that this demo cannot decide, with the reason."""
    return lambda _: Verdict("untestable", note=reason)
