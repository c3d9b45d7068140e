"""TIMING: right values from the mathematics of integrated gradients and of cumulative removal."""

from functools import cache

import numpy as np
import pytest

from core.demos._timing_model import CLASSES, D, Explained, Model, T, switch_data, train
from core.demos._timing_scores import at_once, energy_distance, remove, stepwise
from core.demos.timing import (
    CHANCE,
    IG,
    RANDOM_IG,
    SIGNED,
    TIMING,
    Settings,
    integrated_gradients,
    path,
    run,
    segment_masks,
)


@cache
def trained(kind="conv", target="probability", seed=5):
    """A trained model, what it explains, and 8 test series."""
    rng = np.random.default_rng(seed)
    x, labels = switch_data(rng, 300, 1.0)
    test, _ = switch_data(rng, 8, 1.0)
    model = train(kind, x, labels, rng)
    return model, Explained(model, np.argmax(model.logits(test), axis=1), target), test


def every(n, series):
    return np.ones((n, series, T, D), dtype=bool)


@pytest.fixture
def rng():
    return np.random.default_rng(11)


def test_logits_against_a_convolution_written_as_loops(rng):
    """Independent second way: the definition of a zero-padded convolution, cell by cell."""
    model, _, x = trained()
    kernel, b1, w2, b2, w3, b3 = model.parameters
    half = len(kernel) // 2
    expected = []
    for series in x:
        hidden = []
        for t in range(T):
            taps = [series[t + i] @ kernel[half + i] for i in range(-half, half + 1) if 0 <= t + i < T]
            hidden.append(np.maximum(np.maximum(sum(taps) + b1, 0) @ w2 + b2, 0))
        expected.append(4 * np.mean(hidden, axis=0) @ w3 + b3)
    assert np.allclose(model.logits(x), expected, atol=1e-12)


@pytest.mark.parametrize("target", ["probability", "logit"])
def test_input_gradient_against_central_differences(target):
    """Finite differences of step 1e-5, error below 1e-8 (the median: a few cells may straddle a ReLU kink)."""
    _, f, x = trained(target=target)
    steps = 1e-5 * np.eye(T * D).reshape(T * D, 1, T, D)
    numeric = ((f(x + steps) - f(x - steps)) / 2e-5).T.reshape(x.shape)
    error = np.abs(f.gradient(x) - numeric)
    assert np.quantile(error, 0.99) < 1e-8


@pytest.mark.parametrize(("n", "most"), [(50, 0.05), (200, 0.012), (1000, 0.003)])
def test_completeness(n, most):
    """Axiom of integrated gradients: attributions add up to F(x) − F(0), with an error of order 1/n."""
    _, f, x = trained()
    a = integrated_gradients(f, x, every(n, len(x)))
    assert np.abs(f(x) - f(np.zeros_like(x)) - a.sum(axis=(1, 2))).max() <= most


@pytest.mark.parametrize(("n", "most"), [(50, 0.08), (200, 0.02), (1000, 0.004)])
def test_completeness_of_one_fixed_mask(rng, n, most):
    """With one mask for all steps the path runs from x with its free cells at 0 to x: same axiom."""
    _, f, x = trained()
    mask = segment_masks(rng, 1, len(x), 3, 16, 32)
    a = integrated_gradients(f, x, np.repeat(mask, n, axis=0))
    start = np.where(mask[0], 0, x)
    assert np.abs(f(x) - f(start) - (a * mask[0]).sum(axis=(1, 2))).max() <= most
    assert (a[~mask[0]] == 0).all()


def test_attribution_against_a_loop_over_steps_and_cells(rng):
    """Brute force: the formula, one path point and one free cell at a time."""
    _, f, x = trained()
    free = segment_masks(rng, 6, len(x), 3, 4, 20)
    total, count = np.zeros_like(x), np.zeros_like(x)
    for k in range(6):
        z = np.array([[[x[i, t, d] * (k / 6 if free[k, i, t, d] else 1) for d in range(D)] for t in range(T)]
                      for i in range(len(x))])  # fmt: skip
        total += np.where(free[k], f.gradient(z), 0)
        count += free[k]
    expected = x * np.divide(total, count, out=np.zeros_like(x), where=count > 0)
    assert np.allclose(integrated_gradients(f, x, free), expected, atol=1e-12)


def test_no_segments_is_plain_ig(rng):
    _, f, x = trained()
    none = segment_masks(rng, 50, len(x), 0, 16, 32)
    assert np.abs(integrated_gradients(f, x, none) - integrated_gradients(f, x, every(50, len(x)))).max() < 1e-12


@pytest.mark.parametrize(("nseg", "lmin", "lmax"), [(1, 1, 1), (3, 16, 32), (12, 4, 24)])
def test_a_linear_logit_leaves_nothing_to_gain(rng, nseg, lmin, lmax):
    """Closed form: F = w·x + b, so every attribution is (w_c)ₜ,d xₜ,d whatever is retained."""
    model, f, x = trained("linear", "logit")
    a = integrated_gradients(f, x, segment_masks(rng, 50, len(x), nseg, lmin, lmax))
    closed = x * model.parameters[0][:, f.classes].T.reshape(x.shape)
    assert np.abs(a - closed).max() < 1e-12
    assert np.abs(a - integrated_gradients(f, x, every(50, len(x)))).max() < 1e-12


@pytest.mark.parametrize("nseg", [1, 3, 12])
def test_retained_share(rng, nseg):
    """Closed form: with q(t) the chance that one segment covers a cell at t, the share is mean 1 − (1 − q)ⁿ."""
    covered = np.zeros(T)
    for length in range(16, 33):
        starts = np.arange(T - length + 1)
        hit = (starts[:, None] <= np.arange(T)) & (np.arange(T) < starts[:, None] + length)
        covered += hit.mean(axis=0) / 17 / D
    assert covered.mean() == pytest.approx(24 / 128)
    share = 1 - segment_masks(rng, 400, 20, nseg, 16, 32).mean()
    assert share == pytest.approx(np.mean(1 - (1 - covered) ** nseg), abs=0.005)


def test_segments_are_runs_of_one_channel_of_the_right_length(rng):
    kept = ~segment_masks(rng, 50, 20, 1, 5, 9).reshape(-1, T, D)
    assert (kept.any(axis=1).sum(axis=1) == 1).all()
    assert set(kept.sum(axis=(1, 2))) == {5, 6, 7, 8, 9}
    assert (np.abs(np.diff(np.pad(kept, ((0, 0), (1, 1), (0, 0))).astype(int), axis=1)).sum(axis=(1, 2)) == 2).all()


def test_path_points_keep_retained_cells_and_start_at_the_baseline(rng):
    *_, x = trained()
    free = segment_masks(rng, 50, len(x), 3, 16, 32)
    z = path(x, free)
    assert (z[~free] == np.broadcast_to(x, z.shape)[~free]).all()
    assert (z[0][free[0]] == 0).all()


def test_a_cell_that_is_never_free_gets_zero():
    _, f, x = trained()
    free = every(10, len(x))
    free[:, :, 3, 2] = False
    a = integrated_gradients(f, x, free)
    assert np.isfinite(a).all()
    assert (a[:, 3, 2] == 0).all()


def test_a_cell_at_zero_counts_for_nothing(rng):
    """A = (x − 0)·… = 0, and to remove it changes no prediction."""
    model, f, x = trained()
    x = x.copy()
    x[:, 7, 1] = 0
    assert (integrated_gradients(f, x, every(20, len(x)))[:, 7, 1] == 0).all()
    score = np.zeros_like(x)
    score[:, 7, 1] = 1
    assert (stepwise(remove(model, x, score, rng.random((len(x), T * D)), 1)) == 0).all()


def test_one_by_one_is_at_least_all_at_once(rng):
    """Triangle inequality, for every series; equality where the path of p is monotone."""
    model, _, x = trained()
    for score in rng.normal(size=(5, *x.shape)):
        p = remove(model, x, score, rng.random((len(x), T * D)), T * D)
        assert (stepwise(p) >= at_once(p) - 1e-12).all()
        empty = np.abs(model.probabilities(x) - model.probabilities(np.zeros_like(x))).mean(axis=1)
        assert np.allclose(at_once(p)[-1], empty, atol=1e-12)
    linear, f, x = trained("linear", "logit")
    signed = integrated_gradients(f, x, every(2, len(x)))
    falling = remove(linear, x, np.where(signed > 0, signed, -1e9), rng.random((len(x), T * D)), 10)
    assert np.allclose(stepwise(falling), at_once(falling), atol=1e-12)
    rising_too = remove(linear, x, np.abs(signed), rng.random((len(x), T * D)), 60)
    assert (stepwise(rising_too)[-1] > at_once(rising_too)[-1]).all()


def test_removal_against_a_loop_over_cells(rng):
    """Brute force: remove cells from a copy, ask the model each time."""
    model, _, x = trained()
    score = rng.normal(size=x.shape)
    p = remove(model, x, score, np.zeros((len(x), T * D)), 20)
    for i, series in enumerate(x):
        left, total, before = series.copy().ravel(), 0.0, model.probabilities(series[None])[0]
        for cell in np.argsort(-score[i].ravel())[:20]:
            left[cell] = 0
            after = model.probabilities(left.reshape(1, T, D))[0]
            total += np.abs(after - before).sum() / CLASSES
            before = after
        assert stepwise(p)[-1, i] == pytest.approx(total, abs=1e-12)


def test_energy_distance_by_hand():
    """a = {0, 2}, b = {1, 3}: 2·(1 + 3 + 1 + 1)/4 − 2 − 2 = −1 over pairs of different points."""
    a, b = np.array([[0.0], [2.0]]), np.array([[1.0], [3.0]])
    assert energy_distance(a, b) == pytest.approx(-1)


def test_energy_distance_of_shifted_normals(rng):
    """Closed form: for N(0, 1) and N(m, 1), 2E|a−b| − 4/√π with E|N(m, 2)| from the folded normal."""
    from scipy.stats import foldnorm

    m, s = 1.5, np.sqrt(2)
    closed = 2 * foldnorm.mean(m / s, scale=s) - 4 / np.sqrt(np.pi)
    found = energy_distance(rng.normal(size=(2000, 1)), rng.normal(m, 1, (2000, 1)))
    assert found == pytest.approx(closed, abs=0.08)


def test_data_is_stationary_and_labelled_by_the_driving_channel(rng):
    """Channels 1-3 are AR(1) with unit variance and lag-1 correlation 0.9; the state flips in 5 % of steps."""
    x, labels = switch_data(rng, 4000, 0.0)
    for t in (0, T - 1):
        assert np.allclose(x[:, t, 1:].var(axis=0), 1, atol=0.1)
    assert np.allclose((x[:, 1:, 1:] * x[:, :-1, 1:]).mean(axis=(0, 1)), 0.9, atol=0.03)
    assert x[:, :, 0].var() == pytest.approx(2, abs=0.1)
    assert (labels == (x[:, :, 1:3].mean(axis=(1, 2)) > 0)).all()


def test_break_it_makes_all_gradient_methods_one():
    """A constant gradient: the same order of cells, hence exactly the same scores."""
    broken = run(Settings(model="linear", gate=0.0, target="logit"), 3).measures
    for measure in ("cpd", "cpp"):
        assert broken[measure][TIMING] == broken[measure][IG] == broken[measure][RANDOM_IG]


def test_no_method_is_below_chance_and_signs_do_not_cancel():
    """Removing in order of |A| must beat removing at random; a signed order moves p one way only at first."""
    found = run(Settings(), 3).measures
    assert all(found["cpd"][m] > found["cpd"][CHANCE] for m in found["cpp"] if m != CHANCE)
    assert all(0 <= ratio <= 1 + 1e-12 for ratio in found["cancel"].values())
    assert found["cancel"][SIGNED] > found["cancel"][IG]


@pytest.mark.parametrize(
    ("setting", "value"),
    [("lmin", 0), ("lmin", T + 1), ("lmax", T + 1), ("nseg", -1), ("nseg", 1.5), ("n_alpha", 1), ("frac", 0),
     ("frac", 51), ("gate", 1.1), ("gate", float("nan")), ("model", "gru"), ("target", "loss")],
)  # fmt: skip
def test_bad_settings_are_named(setting, value):
    with pytest.raises(ValueError, match=setting):
        Settings.checked({setting: value})


def test_bad_input_is_named(rng):
    _, f, x = trained()
    with pytest.raises(ValueError, match="lmin"):
        Settings.checked({"lmin": 20, "lmax": 10})
    for lengths in ((0, 5), (6, 5), (5, T + 1)):
        with pytest.raises(ValueError, match="lmin"):
            segment_masks(rng, 5, 2, 1, *lengths)
    with pytest.raises(ValueError, match="nseg"):
        segment_masks(rng, 5, 2, -1, 1, 5)
    with pytest.raises(ValueError, match="n_alpha"):
        integrated_gradients(f, x, every(1, len(x)))
    with pytest.raises(ValueError, match="baseline"):
        integrated_gradients(f, x, every(5, len(x)), np.zeros(D))
    with pytest.raises(ValueError, match="x must be finite"):
        integrated_gradients(f, np.where(x == x[0, 0, 0], np.nan, x), every(5, len(x)))
    with pytest.raises(ValueError, match="gate"):
        switch_data(rng, 5, 1.5)
    with pytest.raises(ValueError, match="labels"):
        train("conv", x, np.ones(len(x), dtype=int), rng)


def test_a_baseline_of_the_series_itself_gives_nothing():
    """Path from x to x: every attribution is 0."""
    model, f, x = trained()
    assert isinstance(model, Model)
    assert (integrated_gradients(f, x, every(5, len(x)), x) == 0).all()
