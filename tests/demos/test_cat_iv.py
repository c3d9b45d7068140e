"""CAT condition: population ratios, the independence test against permutations, two-stage least squares by hand."""

import numpy as np
import pytest

from core.demos._cat_iv_rivals import sisvive, tsht, two_stage
from core.demos.cat_iv import (
    CAT,
    Data,
    InstrumentSettings,
    auxiliary,
    cat_p_values,
    correlation_p_values,
    draw,
    independence_p,
    kernel,
    largest_clique,
    ratios,
    run,
)


def p_of(a, b):
    return independence_p(kernel(np.asarray(a, float)), kernel(np.asarray(b, float)))


def test_population_ratios():
    """By construction cov(Y, Z)/cov(X, Z) is β = 1 for valid and β + ρ = 2 for invalid candidates."""
    s = InstrumentSettings.model_construct(**{**InstrumentSettings().model_dump(), "n": 200_000})
    data = draw(s, 0)
    found = ratios(data.z, data.x, data.y)
    assert np.abs(found[data.valid] - 1).max() < 0.03
    assert np.abs(found[~data.valid] - 2).max() < 0.03


def test_independence_test_on_known_pairs():
    """A parabola is uncorrelated with x and yet dependent; sin(37k) has nothing to do with it."""
    x = np.linspace(-1, 1, 50)
    assert p_of(x, x**2) == pytest.approx(1.0725e-5, rel=1e-3)
    assert p_of(x, np.sin(37 * np.arange(50))) == pytest.approx(0.9473, abs=1e-3)
    assert abs(np.corrcoef(x, x**2)[0, 1]) < 1e-12


def test_gamma_p_value_against_permutations():
    """Second way: the share of 2,000 permutations with a larger statistic."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=120)
    y = 0.15 * x**2 + rng.normal(size=120)
    a, b = kernel(x).centred, kernel(y).centred
    seen = (a * b).sum()
    count = 0
    for _ in range(2000):
        order = rng.permutation(120)
        count += (a * b[np.ix_(order, order)]).sum() >= seen
    assert p_of(x, y) == pytest.approx(count / 2000, abs=0.03)


def test_the_test_ignores_units_and_order():
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(2, 80))
    assert p_of(x, y) == pytest.approx(p_of(y, x), abs=1e-12)
    assert p_of(5 * x - 3, y) == pytest.approx(p_of(x, y), abs=1e-10)


def test_cross_tests_ignore_units():
    data = draw(InstrumentSettings(n=200), 2)
    scaled = Data(-2.5 * data.z, data.x, 3 * data.y + 2, data.valid)
    assert np.allclose(cat_p_values(data, 200), cat_p_values(scaled, 200), atol=1e-10)


def test_a_candidate_never_correlates_with_its_own_residual():
    """By construction of β̂_i, so the diagonal can be no test."""
    data = draw(InstrumentSettings(), 4)
    a = auxiliary(data)
    own = [np.cov(a[:, i], data.z[:, i])[0, 1] for i in range(a.shape[1])]
    assert np.abs(own).max() < 1e-10


def test_two_stage_least_squares():
    """One instrument alone gives the ratio; all of them give textbook 2SLS (fit x on z, then y on the fit)."""
    data = draw(InstrumentSettings(n=300), 5)
    z = data.z[:, :1]
    assert two_stage(z, data.x, data.y, np.array([True])) == pytest.approx(ratios(z, data.x, data.y)[0], abs=1e-10)
    design = np.column_stack([np.ones(300), data.z])
    fitted = design @ np.linalg.solve(design.T @ design, design.T @ data.x)
    textbook = np.polyfit(fitted, data.y, 1)[0]
    assert two_stage(data.z, data.x, data.y, np.ones(5, dtype=bool)) == pytest.approx(textbook, abs=1e-10)


def test_false_rejections_of_valid_pairs_stay_near_the_level():
    """With the true β in the auxiliary variable, valid pairs are independent: p-values are near uniform."""
    p = []
    for seed in range(30):
        data = draw(InstrumentSettings(n=400), seed)
        first, second = np.flatnonzero(data.valid)
        p.append(p_of(data.y - data.x, data.z[:, first]))
        p.append(p_of(data.y - data.x, data.z[:, second]))
    assert np.mean(np.array(p) < 0.01) <= 0.05
    assert 0.3 < np.mean(p) < 0.7


def test_cliques_by_hand():
    p = np.ones((4, 4))
    p[0, 1] = p[1, 2] = p[2, 3] = 1e-4
    assert largest_clique(p, 0.01).tolist() in (
        [True, False, True, False],
        [True, False, False, True],
        [False, True, False, True],
    )
    p[0, 2], p[0, 3], p[1, 3] = 0.2, 0.9, 0.3
    assert largest_clique(p, 0.01).tolist() == [True, False, False, True]
    assert not largest_clique(np.full((3, 3), 1e-5), 0.01).any()


def test_one_valid_among_liars_gives_no_answer():
    """No second valid candidate: no pair can pass, the set is empty."""
    for seed in range(4):
        assert not run(InstrumentSettings(valid=1, invalid=4), seed).chosen[CAT].any()


def test_rivals_find_a_valid_majority():
    """Their own assumption, a plurality of valid candidates, is met: both must then work in most draws."""
    s = InstrumentSettings(valid=4, invalid=2)
    hits = np.zeros(2)
    for seed in range(8):
        d = draw(s, seed)
        hits += [(f(d.z, d.x, d.y) == d.valid).all() for f in (tsht, sisvive)]
    assert hits.min() >= 5


def test_correlation_cannot_see_what_independence_sees():
    """Ablation: the bend of a direct effect is uncorrelated with its candidate, so the wrong block passes."""
    d = draw(InstrumentSettings(), 0)
    assert largest_clique(cat_p_values(d, 400), 0.01).tolist() == d.valid.tolist()
    assert largest_clique(correlation_p_values(d), 0.01).tolist() != d.valid.tolist()


def test_bad_candidates_are_named():
    rng = np.random.default_rng(0)
    z, x = rng.normal(size=(100, 2)), rng.normal(size=100)
    with pytest.raises(ValueError, match="candidate 1 is constant"):
        ratios(np.column_stack([z[:, 0], np.ones(100)]), x, x)
    orthogonal = z[:, 1] - z[:, 1].mean()
    centred = x - x.mean()
    orthogonal -= centred * (orthogonal @ centred) / (centred @ centred)
    with pytest.raises(ValueError, match="candidate 0 is irrelevant"):
        ratios(orthogonal[:, None], x, x)
    with pytest.raises(ValueError, match="finite"):
        ratios(z, np.full(100, np.nan), x)


@pytest.mark.parametrize(
    ("changes", "name"),
    [({"n": 40}, "n"), ({"level": 0}, "level"), ({"level": 1.0}, "level"), ({"curvature": -1}, "curvature"),
     ({"valid": 1, "invalid": 0}, "valid")],
)  # fmt: skip
def test_bad_settings_are_named(changes, name):
    with pytest.raises(ValueError, match=name):
        InstrumentSettings.checked(changes)


def test_no_invalid_candidates_is_legal():
    found = run(InstrumentSettings(valid=3, invalid=0), 1)
    assert found.measures["precision"][CAT] in (0.0, 1.0)
