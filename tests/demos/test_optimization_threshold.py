"""Optimization threshold: gradients by differences, invariants of the flow, limits of the kernel."""

import numpy as np
import pytest

from core.demos._optimization_threshold_net import Nets, alignment, directions, gradients, kernel
from core.demos.optimization_threshold import (
    KERNEL,
    LAST,
    NET,
    SIZES,
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
    found = run(ThresholdSettings(noise=0.0), 0).measures
    assert found["train"][f"{NET}, n = 128"] < 1e-3
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


@pytest.mark.parametrize(
    ("changes", "name"),
    [({"noise": -1}, "noise"), ({"inputs": 1}, "inputs"), ({"width": 2}, "width"), ({"width": 33}, "width"),
     ({"scale": 0}, "scale"), ({"most_steps": 0}, "most_steps"), ({"teacher": "cubic"}, "teacher")],
)  # fmt: skip
def test_bad_settings_are_named(changes, name):
    with pytest.raises(ValueError, match=name):
        ThresholdSettings.checked(changes)
