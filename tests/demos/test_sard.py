"""SARD: the surrogate's known values, gradients by differences, limits of the attacks."""

import numpy as np
import pytest

from core.demos import _sard_rejector as rejector
from core.demos._sard_rejector import Training, comp_sum, margin_change, sard_gradient, scores
from core.demos.sard import ORACLE, SARD, STANDARD, TRAINED, DeferralSettings, attack, make_data, routed, run


@pytest.fixture
def small():
    rng = np.random.default_rng(2)
    w = rejector.init(6, 5, 3, rng)
    return w, rng.random((9, 6)), rng.random((9, 3)), rng


def test_surrogate_by_hand():
    """r = (1, 0, −1), τ = (0.2, 1, 0.5): values and gradient worked out on paper."""
    r, tau = np.array([[1.0, 0, -1]]), np.array([[0.2, 1, 0.5]])
    value, g = comp_sum(r, tau)
    assert value[0] == pytest.approx(2.692930, abs=1e-5)
    assert g[0] == pytest.approx([0.930910, -0.583962, -0.346948], abs=1e-5)
    assert comp_sum(r, tau, 2.0)[0][0] == pytest.approx(1.277208, abs=1e-5)
    assert comp_sum(r, tau, 0.5)[0][0] == pytest.approx(4.466041, abs=1e-5)


@pytest.mark.parametrize("u", [0.5, 1.0, 2.0])
def test_surrogate_gradient_and_invariance(small, u):
    _, _, tau, rng = small
    r, direction = rng.normal(size=(2, 9, 3))
    step = 1e-6
    slope = (comp_sum(r + step * direction, tau, u)[0] - comp_sum(r - step * direction, tau, u)[0]).sum() / (
        2 * step
    )
    g = comp_sum(r, tau, u)[1]
    assert slope == pytest.approx((g * direction).sum(), rel=1e-5)
    assert np.abs(g.sum(1)).max() < 1e-12
    assert np.allclose(comp_sum(r + 5.0, tau, u)[0], comp_sum(r, tau, u)[0])


def test_margin_change_is_a_norm_and_its_gradient(small):
    rng = small[3]
    new, old, direction = rng.normal(size=(3, 7, 4))
    j = rng.integers(0, 4, 7)
    value, g = margin_change(new, old, j)
    e = new - old
    expected = [np.linalg.norm(np.delete(e[i, j[i]] - e[i], j[i])) for i in range(7)]
    assert value == pytest.approx(expected)
    step = 1e-6
    slope = (
        margin_change(new + step * direction, old, j)[0] - margin_change(new - step * direction, old, j)[0]
    ) / (2 * step)
    assert slope == pytest.approx((g * direction).sum(1), rel=1e-5)
    assert margin_change(new, new, j)[0].max() == 0


def test_whole_objective_against_differences(small):
    """Inner points held fixed, every weight block in a random direction."""
    w, x, tau, rng = small
    moved = np.clip(x + rng.uniform(-0.1, 0.1, (3, *x.shape)), 0, 1)
    _, g = sard_gradient(w, x, tau, moved, 0.3, 1.7)
    direction, step = [rng.normal(size=p.shape) for p in w], 1e-6

    def value(s):
        return sard_gradient([p + s * d for p, d in zip(w, direction, strict=True)], x, tau, moved, 0.3, 1.7)[0]

    slope = (value(step) - value(-step)) / (2 * step)
    assert slope == pytest.approx(sum((a * b).sum() for a, b in zip(g, direction, strict=True)), rel=1e-5)


def test_without_robustness_it_is_the_standard_rejector():
    s = DeferralSettings(nu=0.0)
    d = make_data(s, 0)
    plain = rejector.train(d.x, d.cost, Training(0.1, steps=40), 0)
    same = rejector.train(d.x, d.cost, Training(0.1, nu=0.0, rho=1.0, steps=40), 0)
    assert all((a == b).all() for a, b in zip(plain, same, strict=True))
    other = rejector.train(d.x, d.cost, Training(0.1, nu=0.2, steps=40), 0)
    assert not all((a == b).all() for a, b in zip(plain, other, strict=True))


def test_attacked_images_stay_in_their_ball():
    d = make_data(DeferralSettings(), 1)
    w = rejector.train(d.x, d.cost, Training(0.1, steps=30), 1)
    a = attack(w, d, 0.07, np.random.default_rng(0), 5)
    for image in a.images.values():
        assert np.abs(image - d.test_x).max() <= 0.07 + 1e-12
        assert image.min() >= 0
        assert image.max() <= 1


def test_radius_zero_changes_nothing():
    d = make_data(DeferralSettings(), 2)
    w = rejector.train(d.x, d.cost, Training(0.1, steps=30), 2)
    a = attack(w, d, 0.0, np.random.default_rng(0), 3)
    assert (a.worst == a.clean).all()
    assert all((t == a.clean).all() for t in a.targeted)


def test_a_constant_rejector_cannot_be_moved():
    d = make_data(DeferralSettings(), 3)
    w = [np.zeros((64, 4)), np.zeros(4), np.zeros((4, 3)), np.array([0.0, 1.0, 0.0])]
    a = attack(w, d, 0.3, np.random.default_rng(0), 5)
    assert set(a.worst) == {1}
    assert all(set(t) == {1} for t in a.targeted)


def test_attacks_raise_what_they_ascend(small):
    w, x, tau, _ = small
    before = comp_sum(scores(w, x)[0], tau)[0].sum()
    after = comp_sum(scores(w, rejector.untargeted(w, x, tau, x, 0.1, 20))[0], tau)[0].sum()
    assert after > before
    aimed = rejector.targeted(w, x, 2, 0.3, 20)
    gap = lambda z: (scores(w, z)[0][:, 2] - np.delete(scores(w, z)[0], 2, 1).max(1)).mean()  # noqa: E731
    assert gap(aimed) > gap(x)


def test_costs_are_bounded_by_the_oracle():
    found = run(DeferralSettings(), 0).measures
    for m in TRAINED:
        assert found["clean"][ORACLE] <= found["clean"][m] <= 1.05
    assert found["untargeted"][SARD] < found["untargeted"][STANDARD]


def test_experts_know_their_half():
    d = make_data(DeferralSettings(), 4)
    wrong = (d.cost[:, 1:] - 0.05).round(6)
    assert set(np.unique(wrong)) == {0.0, 1.0}
    assert 0.3 < wrong.mean() < 0.55
    assert (
        routed([np.zeros((64, 2)), np.zeros(2), np.zeros((2, 3)), np.array([0, 0, 1.0])], d.x).tolist() == [2] * 600
    )


@pytest.mark.parametrize(
    ("changes", "name"),
    [({"radius": -0.1}, "radius"), ({"radius": 2}, "radius"), ({"nu": -1}, "nu"), ({"rho": 0}, "rho"), ({"steps": 0}, "steps"),
     ({"hidden": 0}, "hidden"), ({"labelled": 5}, "labelled"), ({"shown": "all"}, "shown")],
)  # fmt: skip
def test_bad_settings_are_named(changes, name):
    with pytest.raises(ValueError, match=name):
        DeferralSettings.checked(changes)
