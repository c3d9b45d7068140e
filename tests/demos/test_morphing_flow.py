"""Morphing-Flow: right values from inverses, finite differences, SciPy, scikit-learn and fixed points."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy import integrate, optimize, stats
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsRegressor

from core.demos import _morphing_flow_forecast as fc
from core.demos import morphing_flow as mof
from core.demos._morphing_flow_methods import Method, forecast, methods, to_normal
from core.demos._morphing_flow_spline import (
    Spline,
    fit,
    inner_loss,
    instance,
    knots,
    morph,
    spline,
    straight,
    transform,
)
from core.demos.morphing_flow import FLOW, MOF, MORPH, NONE, ORACLE, REVIN, Settings


@cache
def fitted() -> Spline:
    """A spline fitted to 4,000 draws of a Student t with 3 degrees of freedom."""
    return spline(fit(np.random.default_rng(3).standard_t(3, 4000), straight(8), 25))


def identity() -> Spline:
    """Knots −6…6 onto themselves with slopes 1."""
    even = np.linspace(-6, 6, 9)
    return Spline(even, even, np.ones(9))


@pytest.fixture
def rng():
    return np.random.default_rng(17)


def rough(rng) -> Spline:
    return spline(straight(8) + rng.normal(size=25))


# --- Flow ---------------------------------------------------------------------------------------------


def test_the_inverse_undoes_the_spline(rng):
    """Invariant: g⁻¹(g(u)) = u to 1e-9 on [−50, 50], tails included; the slope returned is g′(u)."""
    u = np.linspace(-50, 50, 4001)
    for g in (fitted(), rough(rng)):
        z = g.forward(u)
        back, slope = g.inverse(z)
        assert np.abs(back - u).max() < 1e-9
        assert np.allclose(np.log(slope), g.log_slope(u), atol=1e-9)
        assert (np.diff(z) > 0).all()


def test_the_inverse_agrees_with_root_finding(rng):
    """Library: Brent's method on g(u) − z."""
    g = rough(rng)
    for z in (-5.0, -3.4, -0.7, 0.0, 1.3, 3.49, 4.2):
        root = optimize.brentq(lambda u, z=z: float(g.forward(np.array(u))) - z, -1e3, 1e3, xtol=1e-13)
        assert g.inverse(np.array([z]))[0][0] == pytest.approx(root, abs=1e-9)


def test_slope_and_score_agree_with_central_differences(rng):
    """Finite differences away from the knots: g′ to 1e-7, ψ of the closed form to 1e-6, table to 2e-2."""
    g, h = rough(rng), 1e-5
    u = np.linspace(-8, 8, 1601) + 1e-3
    u = u[np.abs(u[:, None] - g.x).min(1) > 0.02]
    central = (g.forward(u + h) - g.forward(u - h)) / (2 * h)
    assert np.abs(np.exp(g.log_slope(u)) - central).max() < 1e-7
    low, high = (0.5 * g.forward(v) ** 2 - g.log_slope(v) for v in (u - h, u + h))
    assert np.allclose(g.score(u), (high - low) / (2 * h), rtol=1e-5, atol=1e-6)
    smooth = fitted()
    u = np.linspace(-30, 30, 2001)
    u = u[np.abs(u[:, None] - smooth.x).min(1) > 0.02]
    assert np.allclose(smooth.quick_score(u), smooth.score(u), atol=2e-2)


def test_a_flow_is_a_density(rng):
    """Closed form: φ(g(u)) g′(u) integrates to 1, whatever θ is."""
    g = rough(rng)
    density = lambda u: float(stats.norm.pdf(g.forward(np.array(u))) * np.exp(g.log_slope(np.array(u))))  # noqa: E731
    total = sum(integrate.quad(density, a, b)[0] for a, b in zip([-60, *g.x], [*g.x, 60], strict=True))
    assert total == pytest.approx(1, abs=1e-6)


def test_the_start_is_a_straight_line():
    """Closed form: at θ₀ g(u) = u · 3.5/6, to 1e-12 on [−9, 9]."""
    u = np.linspace(-9, 9, 721)
    for bins in (2, 8):
        assert np.abs(spline(straight(bins)).forward(u) - u * 3.5 / 6).max() < 1e-12


def test_the_likelihood_gradient_agrees_with_finite_differences(rng):
    """Finite differences: the fitted θ is a minimum of the penalised loss computed from the spline alone."""
    u = rng.standard_t(3, 500)
    theta = fit(u, straight(4), 500)

    def loss(t):
        z, log_slope = transform(u, *knots(t))
        return np.mean(0.5 * z**2 - log_slope) + 1e-3 * np.sum((t - straight(4)) ** 2)

    slopes = [(loss(theta + 1e-5 * e) - loss(theta - 1e-5 * e)) / 2e-5 for e in np.eye(13)]
    assert np.abs(slopes).max() < 2e-3
    assert loss(theta) < loss(straight(4)) - 0.05


def test_student_tails_are_slimmed():
    """Measured independently: fresh t(3) draws have kurtosis above 10; z has 1.3 ± 0.4 and sd 1.08 ± 0.1."""
    u = np.random.default_rng(4).standard_t(3, 20000)
    z = fitted().forward(u)
    assert stats.kurtosis(u) > 10
    assert stats.kurtosis(z) == pytest.approx(1.3, abs=0.4)
    assert z.std() == pytest.approx(1.08, abs=0.1)


# --- Morph --------------------------------------------------------------------------------------------


def test_with_the_identity_mean_and_sd_are_the_fixed_point(rng):
    """Closed form: g(u) = u makes ℓ smallest at mean and sd, so no inner step moves them."""
    windows = rng.normal(size=(40, 24)) ** 3
    start, *rest = morph(identity(), windows, 5)
    for b, a in rest:
        assert np.abs(b - start[0]).max() < 1e-9
        assert np.abs(a - start[1]).max() < 1e-9


def test_morph_moves_with_location_and_scale(rng):
    """Equivariance: morph(10 + 7X) gives 10 + 7b and 7a."""
    windows = rng.standard_t(3, (40, 24))
    b, a = morph(fitted(), windows, 5)[-1]
    moved_b, moved_a = morph(fitted(), 10 + 7 * windows, 5)[-1]
    assert np.allclose(moved_b, 10 + 7 * b, atol=1e-9)
    assert np.allclose(moved_a, 7 * a, atol=1e-9)


def test_inner_steps_go_down_the_loss(rng):
    """Finite differences of ℓ in b and log a: the first step is −η a² ∂ℓ/∂b and −½η ∂ℓ/∂log a."""
    g, windows, h = fitted(), rng.normal(size=(30, 24)), 1e-5
    (b, a), (new_b, new_a) = morph(g, windows, 1)
    in_b = (inner_loss(g, windows, b + h, a) - inner_loss(g, windows, b - h, a)) / (2 * h)
    up, down = a * np.exp(h), a * np.exp(-h)
    in_log_a = (inner_loss(g, windows, b, up) - inner_loss(g, windows, b, down)) / (2 * h)
    assert np.allclose((new_b - b)[:, 0], -0.5 * a[:, 0] ** 2 * in_b, atol=5e-3)
    assert np.allclose(np.log(new_a / a)[:, 0], -0.25 * in_log_a, atol=5e-3)


def test_the_inner_loss_falls():
    """At the default settings the mean loss of the test windows falls at once and is lower after five steps.

    Not at every step: the loss has kinks at the knots, so steps of a fixed size may overshoot.
    """
    for seed in (100, 101, 102):
        s, _, w = windows_of(seed)
        _, g, path = methods(s.bins, s.inner, w, np.random.default_rng(0))
        losses = [inner_loss(g, w.test_past, b, a).mean() for b, a in path]
        assert len(losses) == 6
        assert losses[1] < losses[0] - 0.01
        assert losses[5] < losses[1]


# --- forecasts ----------------------------------------------------------------------------------------


def windows_of(seed=2, **settings):
    s = Settings(**settings)
    series = fc.draw(np.random.default_rng(seed), s.length, s.kappa, s.skew, s.drift)
    return s, series, fc.cut(series.x, s.lookback, s.horizon)


def test_without_inner_steps_the_windows_are_instance_normalised():
    """Limit: n = 0 gives RevIN's (b, a); with the identity spline the forecasts are RevIN's exactly."""
    s, _, w = windows_of(inner=0, length=600)
    ways, _, path = methods(s.bins, s.inner, w, np.random.default_rng(0))
    assert len(path) == 1
    for name in (MOF, MORPH, FLOW):
        assert np.array_equal(ways[name].test_place[0], ways[REVIN].test_place[0])
        assert np.array_equal(ways[name].test_place[1], ways[REVIN].test_place[1])
    own = Method(identity(), morph(identity(), w.past, 5)[-1], morph(identity(), w.test_past, 5)[-1])
    one, other = (forecast(m, w, np.random.default_rng(1)) for m in (own, ways[REVIN]))
    assert np.allclose(one.linear, other.linear, atol=1e-9)
    assert np.allclose(one.neighbours, other.neighbours, atol=1e-9)


def test_the_fine_tuning_gradient_agrees_with_finite_differences(rng):
    """Finite differences of the squared error in data units, through g⁻¹ and (b, a)."""
    z, future = fc.with_one(rng.normal(size=(20, 5))), rng.normal(size=(20, 3))
    place = rng.normal(size=(20, 1)), rng.uniform(0.5, 2, (20, 1))
    weights = 0.3 * rng.normal(size=(6, 3))

    for g in (fitted(), fc.SignedLog(), fc.Identity()):

        def loss(v, g=g):
            return np.mean((place[0] + place[1] * g.inverse(z @ v)[0] - future) ** 2)

        found = fc.gradient(g, weights, z, future, place)
        for i, j in ((0, 0), (3, 1), (5, 2)):
            step = np.zeros_like(weights)
            step[i, j] = 1e-6
            assert found[i, j] == pytest.approx((loss(weights + step) - loss(weights - step)) / 2e-6, rel=1e-5)


def test_the_linear_stage_starts_at_ridge_regression(rng, monkeypatch):
    """Library: with a learning rate of 0 the weights are those of scikit-learn's Ridge."""
    monkeypatch.setattr(fc, "LEARNING_RATE", 0.0)
    past, future = rng.normal(size=(60, 6)), rng.normal(size=(60, 2))
    ours = fc.linear(fc.Identity(), past, future, (np.zeros((60, 1)), np.ones((60, 1))), rng)
    theirs = Ridge(alpha=1e-2).fit(past, future)
    assert np.allclose(ours, np.vstack([theirs.coef_.T, theirs.intercept_]), atol=1e-9)


def test_neighbours_agree_with_scikit_learn(rng):
    """Library: KNeighborsRegressor with 20 neighbours."""
    z, y, test_z = rng.normal(size=(200, 6)), rng.normal(size=(200, 3)), rng.normal(size=(30, 6))
    theirs = KNeighborsRegressor(20).fit(z, y).predict(test_z)
    assert np.allclose(fc.nearest(z, y, test_z), theirs, atol=1e-12)


def test_windows_do_not_look_ahead():
    """By hand: on a counting series all training windows end before 70 %, all test targets come after it."""
    count = np.tile(np.arange(400.0), (2, 1))
    w = fc.cut(count, 24, 12)
    assert w.future.max() < 280 <= w.test_future.min() == 280
    assert (w.future[:, 0] == w.past[:, -1] + 1).all()
    assert (w.test_future[:, 0] == w.test_past[:, -1] + 1).all()


def test_the_test_targets_change_no_forecast():
    """No leak: forecasts are the same when the targets of the test windows are replaced."""
    s, _, w = windows_of(length=600)
    found = []
    for v in (w, replace(w, test_future=100 + 0 * w.test_future)):
        ways, *_ = methods(s.bins, s.inner, v, np.random.default_rng(0))
        found.append(forecast(ways[MOF], v, np.random.default_rng(1)))
    assert np.array_equal(found[0].linear, found[1].linear)
    assert np.array_equal(found[0].neighbours, found[1].neighbours)


def test_nothing_beats_the_oracle_on_gaussian_data():
    """Theory: at κ = 0 without drift the oracle is the best linear forecast, up to 2 % of estimation error."""
    found = mof.run(Settings(kappa=0, drift=0), 5).measures["mse"]
    assert all(found[ORACLE] <= 1.02 * v for v in found.values())
    assert found[ORACLE] < found[NONE]


def test_distance_to_normal():
    """Closed form: exact normal quantiles have distance near 0; those shifted by ½ have ½."""
    z = stats.norm.ppf((np.arange(20000) + 0.5) / 20000)
    assert to_normal(z) < 1e-3
    assert to_normal(z + 0.5) == pytest.approx(0.5, abs=1e-3)


def test_fat_tail_limits():
    """Limits: κ → 0 gives z itself; skew 0 is odd."""
    z = np.linspace(-3, 3, 61)
    assert np.allclose(fc.fat_tail(z, 1e-6, 0.3), fc.fat_tail(z, 0, 0.3), atol=1e-5)
    assert np.allclose(fc.fat_tail(z, 2, 0), -fc.fat_tail(-z, 2, 0))


def test_gaussian_values_take_the_advantage_away():
    """Break it: MoF gains over RevIN with fat tails, and gains less than 1 % with Gaussian values."""
    seeds = (3, 4)
    fat = np.mean([mof.run(Settings(), s).measures["gain"][MOF] for s in seeds])
    plain = np.mean([mof.run(Settings(kappa=0), s).measures["gain"][MOF] for s in seeds])
    assert plain < 1 < fat


# --- bad input ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kappa", -0.1),
        ("skew", 1.1),
        ("skew", -0.1),
        ("drift", -0.1),
        ("drift", 1.6),
        ("lookback", 3),
        ("horizon", 0),
        ("bins", 1),
        ("inner", -1),
    ],
)
def test_bad_settings_are_named(name, value):
    with pytest.raises(ValueError, match=f"^{name} cannot be"):
        Settings.checked({name: value})


def test_bad_input_is_named(rng):
    with pytest.raises(ValueError, match=r"^length: the record T = 400 is shorter"):
        Settings.checked({"length": 400, "lookback": 96})
    values = rng.normal(size=(2, 400))
    with pytest.raises(ValueError, match="T = 100"):
        fc.cut(values[:, :100], 24, 12)
    with pytest.raises(ValueError, match="lookback"):
        fc.cut(values, 3, 12)
    with pytest.raises(ValueError, match="horizon"):
        fc.cut(values, 24, 0)
    values[1, 7] = np.nan
    with pytest.raises(ValueError, match="series"):
        fc.cut(values, 24, 12)
    with pytest.raises(ValueError, match="bins"):
        straight(1)
    with pytest.raises(ValueError, match="inner"):
        morph(identity(), values[:, :24], -1)
    for kappa, skew, drift, name in ((-1, 0, 0, "kappa"), (1, 2, 0, "skew"), (1, 0, -1, "drift")):
        with pytest.raises(ValueError, match=name):
            fc.draw(rng, 100, kappa, skew, drift)


def test_a_constant_window_is_forecast_as_the_constant():
    """Limit: a is held at 1e-6, so the forecast is the constant, without NaN."""
    flat = np.full((3, 24), 4.2)
    assert (instance(flat)[1] == 1e-6).all()
    g = fitted()
    b, a = morph(g, flat, 5)[-1]
    back = b + a * g.inverse(g.forward((flat - b) / a))[0]
    assert (a >= 1e-6).all()
    assert np.allclose(back, 4.2, atol=1e-9)
    assert np.allclose(b, 4.2, atol=1e-4)
    future = b + a * g.inverse(np.array([[-3.0, 0.0, 3.0]]))[0]
    assert np.allclose(future, 4.2, atol=1e-4)
