"""Active sampling: barriers and probabilities, exactness without noise, the walk's and the network's design."""

import numpy as np
import pytest

from core.demos import _active_causal_sampling_network as network
from core.demos._active_causal_sampling_design import (
    balanced_sample,
    cross_fitted,
    gram_schmidt_walk,
    half_treated,
    leverage_sample,
    orthonormal,
    plug_in,
)
from core.demos.active_causal_sampling import ACTIVE, DIM, SamplingSettings, populate, rmse


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def test_barriers_hold_and_probabilities_add_up(rng):
    """ΣD = 1 and l < eigenvalues of B < u at every step, as the analysis of the sampler requires."""
    v = orthonormal(rng.normal(size=(200, 6)))
    seen = []

    def watch(p, values, low, high):
        seen.append(1)
        assert p.sum() == pytest.approx(1, abs=1e-9)
        assert low < values.min()
        assert values.max() < high

    rows, w = balanced_sample(v, 60, rng, watch)
    assert len(rows) == len(set(rows)) == 60
    assert (w > 0).all()
    assert len(seen) >= 60


def test_sample_looks_like_the_population(rng):
    """Σ w v vᵀ ≈ I: the point of the sampler, in every direction at once."""
    v = orthonormal(np.column_stack([np.ones(400), rng.standard_t(4, (400, 12))]))
    rows, w = balanced_sample(v, 80, rng)
    values = np.linalg.eigvalsh((v[rows] * w[:, None]).T @ v[rows])
    assert values.min() > 0.15
    assert values.max() < 2.2


def test_with_a_constant_only_every_unit_is_equal(rng):
    v = orthonormal(np.ones((50, 1)))
    balanced_sample(v, 10, rng, lambda p, *_: np.testing.assert_allclose(p, 1 / 50))


def test_everybody_can_be_chosen(rng):
    rows, _ = balanced_sample(orthonormal(rng.normal(size=(30, 3))), 30, rng)
    assert sorted(rows) == list(range(30))
    assert len(leverage_sample(orthonormal(rng.normal(size=(100, 3))), 40, rng)[0]) == 40


def test_without_noise_a_constant_effect_is_found_exactly(rng):
    x = np.column_stack([np.ones(80), rng.normal(size=(80, 5))])
    z = (rng.random(80) < 0.5).astype(float)
    y = x @ rng.normal(size=6) + 1.7 * z
    w = rng.uniform(0.5, 1.5, 80)
    assert cross_fitted(x, z, y, w, x.mean(0), rng) == pytest.approx(1.7, abs=1e-3)
    assert plug_in(x, z, y, np.ones(80), x.mean(0)) == pytest.approx(1.7, abs=1e-5)


def test_a_constant_in_all_outcomes_moves_nothing(rng):
    x = np.column_stack([np.ones(60), rng.normal(size=(60, 3))])
    z, y = half_treated(60, rng), rng.normal(size=60)
    ends = [cross_fitted(x, z, y + c, np.ones(60), x.mean(0), np.random.default_rng(1)) for c in (0, 100)]
    assert ends[0] == pytest.approx(ends[1], abs=1e-2)


def test_the_correction_is_unbiased_over_coins(rng):
    """Design-based: averaged over many coin flips the estimate is the sample's own effect (constant x only)."""
    y0, y1 = rng.normal(size=40), rng.normal(size=40) + 1
    x, found = np.ones((40, 1)), []
    for _ in range(3000):
        z = (rng.random(40) < 0.5).astype(float)
        found.append(cross_fitted(x, z, np.where(z > 0, y1, y0), np.ones(40), x.mean(0), rng))
    assert np.mean(found) == pytest.approx((y1 - y0).mean(), abs=4 * np.std(found) / np.sqrt(3000))


def test_lin_against_an_interacted_regression(rng):
    """Second way: ordinary least squares on z, x and z(x − x̄); the coefficient of z."""
    x = np.column_stack([np.ones(70), rng.normal(size=(70, 3))])
    z, y = half_treated(70, rng), rng.normal(size=70)
    centre = rng.normal(size=4) * np.array([0, 1, 1, 1]) + np.array([1, 0, 0, 0])
    design = np.column_stack([z, x, z[:, None] * (x - centre)[:, 1:]])
    assert plug_in(x, z, y, np.ones(70), centre) == pytest.approx(
        np.linalg.lstsq(design, y, rcond=None)[0][0], abs=1e-5
    )


def test_gram_schmidt_walk_is_fair_and_balanced(rng):
    x = rng.normal(size=(20, 4))
    walks = np.array([gram_schmidt_walk(x, rng) for _ in range(800)])
    assert set(np.unique(walks)) == {-1.0, 1.0}
    assert np.abs(walks.mean(0)).max() < 0.15
    coins = rng.choice([-1.0, 1.0], (800, 20))
    assert ((walks @ x) ** 2).mean() < 0.7 * ((coins @ x) ** 2).mean()


def small_network(n, links, rng):
    conflict = network.conflicts(links)
    order = np.argsort(-conflict.sum(1), kind="stable")
    return network.Network(links, conflict, order, np.ones((n, 1)), np.zeros(n), np.ones(n), 0.0)


def test_network_ends(rng):
    """Complete graph: one winner at most. No links: no conflicts, inclusion equals the wish."""
    full = ~np.eye(12, dtype=bool)
    net = small_network(12, full, rng)
    p = network.wanting(net, None)
    assert all(len(network.draw(net, p, rng)[0]) <= 1 for _ in range(50))
    bare = small_network(12, np.zeros((12, 12), bool), rng)
    p = network.wanting(bare, None)
    assert (p == 0.5).all()
    assert np.allclose(network.inclusion(bare, p), p)


def test_inclusion_against_simulated_draws(rng):
    net = network.make_network(60, 2.0, 1.0, 0.5, rng)
    p = network.wanting(net, (np.linalg.qr(net.x)[0] ** 2).sum(1))
    q, n = network.inclusion(net, p), 4000
    hits = np.zeros(60)
    for _ in range(n):
        winners, z = network.draw(net, p, rng)
        hits[winners] += 1
        closed = net.links | np.eye(60, dtype=bool)
        assert (closed[winners].sum(0) <= 1).all(), "winners' neighbourhoods overlap"
        assert all((z[net.links[i]] == z[i]).all() for i in winners)
    assert (np.abs(hits / n - q) < 4.5 * np.sqrt(q * (1 - q) / n) + 1e-9).all()


def test_total_effect_on_the_network_is_direct_plus_spill(rng):
    net = network.make_network(80, 3.0, 2.0, 0.0, rng)
    linked = (net.links.sum(1) > 0).mean()
    assert net.truth == pytest.approx(net.effect.mean() + 2.0 * linked)


def test_active_beats_a_plain_difference():
    found = rmse(SamplingSettings(), 80, 1, 10)[0]["rmse"]
    assert found[ACTIVE] < 0.6 * found[DIM]


def test_small_groups_are_in_the_population(rng):
    p = populate(SamplingSettings(groups=3), rng)
    assert p.rare.sum() >= 8
    assert np.allclose((p.x[:, 1:] ** 2).mean(0), 1)


def test_collinear_covariates_are_refused(rng):
    x = rng.normal(size=(50, 3))
    with pytest.raises(ValueError, match="collinear"):
        orthonormal(np.column_stack([x, x[:, 0] + x[:, 1]]))


@pytest.mark.parametrize(
    ("changes", "name"),
    [({"budget": 12}, "budget"), ({"budget": 500}, "budget"), ({"noise": -1}, "noise"), ({"degree": 0}, "degree"),
     ({"spill": -1}, "spill"), ({"groups": 9}, "groups")],
)  # fmt: skip
def test_bad_settings_are_named(changes, name):
    with pytest.raises(ValueError, match=name):
        SamplingSettings.checked(changes)
