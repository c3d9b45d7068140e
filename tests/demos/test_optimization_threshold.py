"""Optimization threshold: gradients by differences, invariants of the flow, limits of the kernel."""

import numpy as np
import pytest

from core.demos._optimization_threshold_net import Nets, alignment, directions, gradients, kernel, neurons, onset
from core.demos.optimization_threshold import (
    DEMO,
    KERNEL,
    LAST,
    NET,
    OLS,
    SIZES,
    Data,
    ThresholdSettings,
    draw,
    rivals,
    run,
    start,
    train,
)


def single(w, a):
    return Nets(w[None].astype(float), a[None].astype(float))


def test_gradients_against_central_differences():
    rng = np.random.default_rng(0)
    w, a, x, y = rng.normal(size=(5, 3)), rng.normal(size=5), rng.normal(size=(20, 3)), rng.normal(size=20)
    gw, ga, error = gradients(single(w, a), x[None], y[None], np.array([20.0]))
    assert error[0] == pytest.approx(np.mean((np.maximum(x @ w.T, 0) @ a - y) ** 2))
    dw, da, step = rng.normal(size=w.shape), rng.normal(size=5), 1e-6

    def loss(s):
        return 0.5 * np.mean((single(w + s * dw, a + s * da).outputs(x)[0] - y) ** 2)

    slope = (loss(step) - loss(-step)) / (2 * step)
    assert slope == pytest.approx((gw[0] * dw).sum() + (ga[0] * da).sum(), rel=1e-5)


def test_balanced_weights_stay_balanced():
    """Gradient flow keeps a_j² − ‖w_j‖²; small steps nearly do."""
    s = ThresholdSettings()
    data, nets = draw(s, 0), start(s, 1, np.random.default_rng(1))
    for _ in range(500):
        gw, ga, _ = gradients(nets, data.x[None], data.y[None], np.array([256.0]))
        nets = Nets(nets.w - 0.01 * gw, nets.a - 0.01 * ga)
    length = np.linalg.norm(nets.w[0], axis=1)
    assert np.abs(nets.a[0] ** 2 - length**2).max() < 1e-3 * length.max()


@pytest.mark.parametrize("d", [3, 5])
def test_early_direction_is_half_the_teacher_whatever_the_neuron(d):
    """Population value of D(w) for symmetric inputs: β/2."""
    rng = np.random.default_rng(2)
    beta = rng.normal(size=d)
    beta /= np.linalg.norm(beta)
    x = rng.normal(size=(50_000, d))
    y = x @ beta + 0.5 * rng.normal(size=50_000)
    for w in rng.normal(size=(3, d)):
        assert np.linalg.norm(((x @ w > 0) * y) @ x / len(x) - beta / 2) < 0.02


def test_kernel_in_closed_form():
    x = np.random.default_rng(3).normal(size=(30, 4))
    k = kernel(x, x)
    assert np.allclose(np.diag(k), (x**2).sum(1))
    assert np.abs(np.diag(kernel(x, -x))).max() < 1e-6
    assert np.allclose(k, k.T)
    assert np.linalg.eigvalsh(k).min() > -1e-10
    assert (kernel(np.zeros((1, 4)), x) == 0).all()


def test_kernel_against_a_wide_network():
    """Second way: the tangent kernel of a random network of 400,000 neurons, gradients of both layers summed."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(4, 3))
    w = rng.normal(size=(400_000, 3))
    on = x @ w.T > 0
    hidden = np.maximum(x @ w.T, 0)
    for_w = (on.astype(float) @ on.T.astype(float)) * (x @ x.T) / len(w)
    assert np.allclose(hidden @ hidden.T / len(w) + for_w, kernel(x, x), rtol=0.02, atol=0.02)


def test_interpolator_fits_every_sample():
    data = draw(ThresholdSettings(), 1)
    assert rivals(data, 64)[KERNEL][0] < 1e-8


def test_without_noise_the_network_learns_the_teacher_exactly():
    """A linear teacher is two neurons, one at each of ±β; 128 samples settle it in a few hundred steps."""
    s = ThresholdSettings(noise=0.0)
    assert train(s, draw(s, 0), 0).steps[SIZES == 128] <= 300
    found = run(s, 0).measures
    assert found["train"][f"{NET}, n = 128"] < 1e-4
    assert found["excess"][f"{NET}, n = 128"] < 1e-3
    assert found["align_end"][LAST] > 0.999
    assert found["dirs"][LAST] == 2


def test_a_network_of_zeros_never_moves():
    """λ = 0 is a saddle."""
    x, y = np.random.default_rng(5).normal(size=(1, 10, 3)), np.ones((1, 10))
    gw, ga, error = gradients(Nets(np.zeros((1, 4, 3)), np.zeros((1, 4))), x, y, np.array([10.0]))
    assert not gw.any()
    assert not ga.any()
    assert error[0] == 1.0


def test_rotating_the_inputs_changes_no_error():
    """Orthogonal symmetry: inputs and initial weights turned together give the same losses."""
    rng = np.random.default_rng(6)
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    x, y, w = rng.normal(size=(40, 3)), rng.normal(size=40), 0.1 * rng.normal(size=(8, 3))
    a = np.linalg.norm(w, axis=1) * np.tile([1, -1], 4)
    ends = []
    for inputs, weights in ((x, w), (x @ turn, w @ turn)):
        nets = single(weights, a)
        for _ in range(200):
            gw, ga, error = gradients(nets, inputs[None], y[None], np.array([40.0]))
            nets = Nets(nets.w - 0.1 * gw, nets.a - 0.1 * ga)
        ends.append(error[0])
    assert ends[0] == pytest.approx(ends[1], abs=1e-4)


def test_alignment_and_directions_by_hand():
    beta = np.array([1.0, 0.0])
    w, a = np.array([[2.0, 0], [-1, 0], [0, 1e-9]]), np.array([1.0, -1, 1])
    assert alignment(w, a, beta) == pytest.approx(1)
    assert directions(w, a) == 2
    assert alignment(w, -a, beta) == pytest.approx(-1)


def test_sizes_finish_and_share_their_samples():
    s = ThresholdSettings()
    data = draw(s, 2)
    t = train(s, data, 2)
    assert len(t.error) == len(SIZES)
    assert (t.steps % 25 == 0).all()
    assert (t.steps <= s.most_steps).all()
    assert t.error[0] < 1e-2 < t.error[-1]


def test_threshold_is_the_start_of_the_last_stretch():
    """By hand: a size that is reached once and lost again does not count."""
    sizes = np.array([4, 8, 16, 32])
    assert onset(sizes, np.array([False, True, False, True])) == 32
    assert onset(sizes, np.array([False, True, True, True])) == 8
    assert onset(sizes, np.ones(4, dtype=bool)) == 4
    assert np.isnan(onset(sizes, np.array([True, True, True, False])))


def test_neurons_lie_in_the_unit_disc_and_at_its_ends_along_the_teacher():
    beta = np.array([0.6, 0.8, 0.0])
    nets = Nets(np.stack([np.vstack([2 * beta, -beta, [0, 0, 3.0]])]), np.array([[2.0, -1, 3]]))
    found = neurons(nets, 0, beta)
    assert found[:, 0] == pytest.approx([1, -1, 0])
    assert np.abs(found[:, 1]) == pytest.approx([0, 0, 1])
    assert found[:, 2] == pytest.approx([4, 1, 9])
    assert found[:, 3].tolist() == [1, -1, 1]


def test_least_squares_has_the_error_that_theory_gives():
    """E[training error] = σ²(1 − d/n); over 200 draws of 16 samples its standard error is about 2 %."""
    s = ThresholdSettings()
    errors = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(16, 5))
        y = x[:, 0] + s.noise * rng.normal(size=16)
        errors.append(rivals(Data(x, y, np.zeros((2000, 5)), np.zeros(2000), np.eye(5)[0]), 16)[OLS][0])
    assert np.mean(errors) == pytest.approx(0.25 * 11 / 16, rel=0.1)


def test_a_large_start_loses_the_alignment_and_the_lead():
    """Lazy regime: at the breaking preset the neurons keep their directions, and the network nearly fits the noise."""
    usual, broken = (DEMO.run(DEMO.preset(p), 3).measures for p in ("Default", DEMO.break_it))
    assert broken["align_early"][LAST] < 0.2 < 0.9 < usual["align_early"][LAST]
    assert broken["kept"][LAST] < 0.6 < usual["kept"][LAST]

    def lead(found):
        return found["excess"][f"{NET}, {LAST}"] / found["excess"][f"{KERNEL}, {LAST}"]

    assert lead(broken) > 2 * lead(usual)


def test_a_diverging_run_names_the_step_size():
    s = ThresholdSettings()
    data = draw(s, 0)
    huge = Data(data.x, 1e6 * data.y, data.test_x, data.test_y, data.beta)
    with pytest.raises(ValueError, match=r"step size 0\.3"):
        train(s, huge, 0)


def test_a_network_with_too_few_weights_is_refused():
    """m(d + 1) must exceed the 256 samples; the message says how many neurons would do."""
    with pytest.raises(ValueError, match=r"width: network is not overparametrized.*at least 66"):
        ThresholdSettings.checked({"inputs": 3})
    assert ThresholdSettings.checked({"inputs": 3, "width": 66}).width == 66
    with pytest.raises(ValueError, match="at least 44"):
        ThresholdSettings.checked({"width": 42})
    assert ThresholdSettings.checked({"width": 44}).width == 44


@pytest.mark.parametrize(
    ("changes", "name"),
    [({"noise": -1}, "noise"), ({"inputs": 1}, "inputs"), ({"width": 2}, "width"), ({"width": 33}, "width"),
     ({"scale": 0}, "scale"), ({"most_steps": 0}, "most_steps"), ({"teacher": "cubic"}, "teacher")],
)  # fmt: skip
def test_bad_settings_are_named(changes, name):
    with pytest.raises(ValueError, match=name):
        ThresholdSettings.checked(changes)
