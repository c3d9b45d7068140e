"""Verdicts: intervals against SciPy and by simulation, rules at and around their bounds."""

import math

import numpy as np
import pytest
from scipy import stats

from core.lab.family import CHANCE, chance_holds, holm
from core.lab.verdicts import (
    Samples,
    above,
    all_of,
    below,
    best_rival,
    beyond,
    difference,
    in_seeds,
    join,
    mean,
    number,
    per_seed,
    ratio,
    ratio_interval,
    share,
    t_interval,
    untestable,
    wilson_interval,
    within,
)

N = 4000


def samples(**columns):
    """Samples of measure "m" with one method a keyword."""
    values = {("m", k): np.asarray(v, dtype=float) for k, v in columns.items()}
    return Samples(values, range(len(next(iter(values.values())))))


def test_t_interval_agrees_with_scipy():
    v = np.random.default_rng(0).normal(3, 2, 9)
    e = t_interval(v)
    low, high = stats.t.interval(0.95, 8, v.mean(), stats.sem(v))
    assert (e.value, e.low, e.high) == pytest.approx((v.mean(), low, high))


def test_wilson_interval_agrees_with_scipy():
    for k, n in ((0, 20), (7, 20), (20, 20), (3, 400)):
        ours, theirs = wilson_interval(k, n), stats.binomtest(k, n).proportion_ci(method="wilson")
        assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=1e-9)
    assert not wilson_interval(0, 0).defined


def test_one_value_has_no_bounds_and_nan_is_not_defined():
    assert t_interval(np.array([2.0])).low == -math.inf
    assert not t_interval(np.array([1.0, np.nan])).defined
    assert str(t_interval(np.array([np.nan]))) == "not defined"


def coverage(kind):
    """Share of simulated studies of 8 seeds whose interval holds the truth."""
    rng = np.random.default_rng(12)
    hits = 0
    for _ in range(N):
        if kind == "mean":
            e, truth = t_interval(rng.normal(1, 2, 8)), 1.0
        elif kind == "difference":
            base = rng.normal(0, 3, 8)
            e, truth = t_interval(base + rng.normal(0.5, 1, 8) - base, "difference"), 0.5
        elif kind == "ratio":
            e, truth = ratio_interval(np.exp(rng.normal(0.3, 0.7, 8))), math.exp(0.3)
        else:
            e, truth = wilson_interval(rng.binomial(8 * 50, 0.2), 400), 0.2
        hits += e.low <= truth <= e.high
    return hits / N


@pytest.mark.parametrize("kind", ["mean", "difference", "ratio", "share"])
def test_intervals_cover_what_they_say(kind):
    """Nominal 95 %: between 93 and 97 % of 4,000 simulated studies of 8 seeds."""
    assert 0.93 <= coverage(kind) <= 0.97


def test_a_true_null_holds_by_chance_as_often_as_stated():
    """At the bound itself a one-sided rule says "holds" in about 2.5 % of the studies."""
    rng = np.random.default_rng(5)
    rule = above(mean("m", "a"), 0.0)
    rate = np.mean([rule(samples(a=rng.normal(size=8))).outcome == "holds" for _ in range(N)])
    assert rate == pytest.approx(CHANCE, abs=0.009)
    assert chance_holds(40) == pytest.approx(1.0)


def test_rules_on_both_sides_of_the_bound():
    up, down = samples(a=5 + 0.1 * np.arange(8)), samples(a=-5 - 0.1 * np.arange(8))
    wide = samples(a=np.array([-9, 9, -8, 8, -7, 7, -6, 6.5]))
    assert [above(mean("m", "a"), 0)(s).outcome for s in (up, down, wide)] == ["holds", "fails", "unclear"]
    assert [below(mean("m", "a"), 0)(s).outcome for s in (up, down, wide)] == ["fails", "holds", "unclear"]
    assert above(mean("m", "a"), 0, least=6)(up).outcome == "unclear"
    assert above(mean("m", "a"), 0, fails_below=-10)(down).outcome == "unclear"
    assert above(mean("m", "a"), 0, same=(4, 7))(up).note == "no practical difference"


def test_a_ratio_of_one_half():
    base = np.linspace(1, 2, 8)
    s = samples(a=base / 2, b=base)
    verdict = below(ratio("m", "a", "b"), 1, most=0.95)(s)
    assert verdict.outcome == "holds"
    assert verdict.effect.value == pytest.approx(0.5)
    assert str(verdict.effect) == "0.50× [0.50, 0.50]"


def test_within():
    s = samples(a=1 + 0.01 * np.arange(8))
    assert within(mean("m", "a"), 0.5, 1.5)(s).outcome == "holds"
    assert within(mean("m", "a"), 2, 3)(s).outcome == "fails"
    assert within(mean("m", "a"), 1.03, 1.5)(s).outcome == "unclear"


def test_too_few_seeds_never_decide():
    s = samples(a=np.full(4, 9.0))
    for rule in (
        above(mean("m", "a"), 0),
        within(mean("m", "a"), 0, 10),
        in_seeds(lambda s: s("m", "a") > 0, mean("m", "a")),
    ):
        verdict = rule(s)
        assert verdict.outcome == "unclear"
        assert "not enough runs" in verdict.note


def test_undefined_values_are_untestable():
    assert above(mean("m", "a"), 0)(samples(a=[np.nan] * 8)).outcome == "untestable"


def test_in_seeds_counts():
    good = samples(a=[1] * 7 + [0])
    rule = in_seeds(lambda s: s("m", "a") > 0, mean("m", "a"))
    assert rule(samples(a=[1] * 8)).outcome == "holds"
    assert rule(good).outcome == "unclear"
    assert rule(samples(a=[0] * 5 + [1] * 3)).outcome == "fails"
    assert "7 of 8" in rule(good).note


def test_joined_verdicts():
    hold, fail = above(mean("m", "a"), 0), below(mean("m", "a"), 0)
    s = samples(a=5 + 0.1 * np.arange(8))
    assert all_of(hold, hold)(s).outcome == "holds"
    assert all_of(hold, fail)(s).outcome == "fails"
    assert join([hold(s), untestable("no data")(s)]).outcome == "holds"
    assert join([untestable("no data")(s)]).note == "no data"
    assert len(all_of(hold, fail)(s).parts) == 2


def test_p_value_is_the_one_sided_t_test():
    a, b = np.random.default_rng(1).normal(size=(2, 10)) + np.array([[0.8], [0.0]])
    verdict = above(difference("m", "a", "b"), 0)(samples(a=a, b=b))
    assert verdict.p_value == pytest.approx(stats.ttest_rel(a, b, alternative="greater").pvalue, rel=1e-6)


def test_shares_pool_their_trials():
    s = samples(a=[0.1, 0.3, 0.2, 0.2, 0.1, 0.3, 0.2, 0.2])
    e = share("m", "a", 50)(s)
    assert e.value == pytest.approx(0.2)
    assert e.n == 400


def test_missing_samples_are_named():
    with pytest.raises(ValueError, match="no samples of measure 'x', method 'y'"):
        samples(a=[1.0])("x", "y")


def test_best_rival_by_direction():
    s = samples(a=[1, 2], b=[5, 6])
    assert best_rival(s, "m", ("a", "b")) == "b"
    assert best_rival(s, "m", ("a", "b"), "lower") == "a"
    assert per_seed(lambda s: s("m", "a"))(s).value == 1.5
    assert s.methods("m") == ["a", "b"]


def test_holm_by_hand():
    """p = 0.01, 0.04, 0.03: sorted × (3, 2, 1) with running maximum gives 0.03, 0.06, 0.06."""
    assert holm(np.array([0.01, 0.04, 0.03])) == pytest.approx([0.03, 0.06, 0.06])
    assert np.isnan(holm(np.array([np.nan, 0.2]))[0])
    assert holm(np.array([np.nan, 0.2]))[1] == pytest.approx(0.2)
    assert len(holm(np.array([]))) == 0


@pytest.mark.parametrize(
    ("value", "text"),
    [(-0.001, "0.00"), (1234.5, "1,234.50"), (-2, "−2.00"), (math.inf, "∞"), (-math.inf, "−∞"), (math.nan, "n/a")],
)
def test_numbers_for_reading(value, text):
    assert number(value) == text


def test_differences_carry_their_sign():
    assert number(0.5, 1, True) == "+0.5"
    assert str(t_interval(np.full(8, 2.0), "difference", unit="points")) == "+2.00 [2.00, 2.00] points"


@pytest.mark.parametrize(
    ("mean_gap", "side", "outcome"),
    [(0.5, 1, "holds"), (-0.5, 1, "fails"), (0.05, 1, "unclear"), (-0.05, 1, "unclear"), (-0.5, -1, "holds")],
)
def test_beyond_a_margin_has_all_outcomes(mean_gap, side, outcome):
    """Spread 0.01 over 8 seeds: every gap is surely off 0, but 0.05 lies within the margin 0.1."""
    gap = mean_gap + 0.01 * np.array([-1, 1] * 4)
    samples = Samples({("m", "a"): gap, ("m", "b"): np.zeros(8)}, range(8))
    found = beyond(difference("m", "a", "b"), 0.1, side=side)(samples)
    assert found.outcome == outcome
    assert ("no practical difference" in found.note) == (outcome == "unclear")
    few = Samples({("m", "a"): gap[:4], ("m", "b"): np.zeros(4)}, range(4))
    assert "not enough runs" in beyond(difference("m", "a", "b"), 0.1, side=side)(few).note
    lost = Samples({("m", "a"): gap * np.nan, ("m", "b"): np.zeros(8)}, range(8))
    assert beyond(difference("m", "a", "b"), 0.1, side=side)(lost).outcome == "untestable"
