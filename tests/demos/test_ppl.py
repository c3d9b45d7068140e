"""Policy-labeled preferences: the regret identity, occupancies by simulation, gradients by differences."""

import numpy as np
import pytest
from scipy.special import softmax

from core.demos import _ppl_grid as grid
from core.demos.ppl import (
    BEST,
    CPL,
    PPL,
    SHUFFLED,
    Pairs,
    PreferenceSettings,
    _judged,
    behaviours,
    compare,
    fit,
    loss_gradient,
    run,
    weights,
)

UNIFORM = np.full((grid.STATES, grid.ACTIONS), 0.25)


@pytest.fixture
def world():
    return grid.make_world(0.2, 4.0, 0.9, np.random.default_rng(0))


def pairs_of(s, seed):
    rng = np.random.default_rng(seed)
    w = grid.make_world(s.slip, s.scale, s.gamma, rng)
    q, v, optimal = grid.soft_optimal(w)
    policies = behaviours(s, q, optimal, w.alpha)
    return w, policies, optimal, compare(s, w, policies, v, rng)


@pytest.mark.parametrize("k", [1.0, 0.3, 0.0, -0.5])
def test_regret_identity(world, k):
    """−Reg = α[log π* − D̄] for any behaviour, D̄ from the exact occupancy."""
    q, v, optimal = grid.soft_optimal(world)
    behaviour = softmax(k * q / world.alpha, axis=1)
    regret = v[:, None] - grid.soft_q(world, behaviour)
    later = grid.future(world.move, behaviour, world.gamma) @ grid.divergence(behaviour, optimal)
    assert np.abs(-regret - world.alpha * (np.log(optimal) - later)).max() < 1e-7


def test_soft_optimal_policy_evaluates_to_itself(world):
    q, v, optimal = grid.soft_optimal(world)
    assert np.abs(grid.soft_q(world, optimal) - q).max() < 1e-7
    assert np.allclose(optimal.sum(1), 1)
    assert np.allclose(v, (optimal * (q - world.alpha * np.log(optimal))).sum(1))


def test_random_walk_has_a_known_value():
    """Mean cell reward −0.2·4 over 1 − γ: −8 for every seed (a doubly stochastic chain)."""
    for seed in range(4):
        w = grid.make_world(0.2, 4.0, 0.9, np.random.default_rng(seed))
        assert grid.plain_return(w, UNIFORM) == pytest.approx(-8.0, abs=1e-9)


def test_occupancy_against_simulated_walks(world):
    """Second way: average γ^l over 40,000 walks from one state and action."""
    q, _, _ = grid.soft_optimal(world)
    behaviour = softmax(0.3 * q / world.alpha, axis=1)
    rng, n = np.random.default_rng(1), 40_000
    state = (world.move[7, 2].cumsum() < rng.random((n, 1))).sum(1)
    total = np.zeros(grid.STATES)
    for lag in range(1, 60):
        total += 0.9**lag * np.bincount(state, minlength=grid.STATES) / n
        action = (behaviour[state].cumsum(1) < rng.random((n, 1))).sum(1).clip(max=3)
        state = (world.move[state, action].cumsum(1) < rng.random((n, 1))).sum(1).clip(max=24)
    assert np.abs(total - grid.future(world.move, behaviour, 0.9)[7, 2]).max() < 0.03


def test_scores_end_at_zero_and_one():
    found = run(PreferenceSettings(), 0).measures["score"]
    assert found[BEST] == pytest.approx(1, abs=1e-12)


def test_without_a_future_ppl_is_cpl():
    """γ → 0 removes the KL term."""
    w, policies, _, p = pairs_of(PreferenceSettings(gamma=0.0), 3)
    occupancy = np.stack([grid.future(w.move, b, 0.0) for b in policies])
    a, c = weights(p, policies, occupancy, p.who)
    assert np.allclose(a, _judged(p))
    assert np.allclose(c, 0)


def test_a_walker_like_the_learner_needs_no_correction():
    """π_b = π_θ: D̄ = 0, so the PPL score equals the CPL score."""
    w, policies, _, p = pairs_of(PreferenceSettings(skills="equal"), 4)
    a, c = weights(p, policies, np.stack([grid.future(w.move, b, 0.9) for b in policies]), p.who)
    log = np.log(policies[0]).ravel()
    assert np.allclose(a @ log + c, _judged(p) @ log, atol=1e-9)


def test_gradient_against_central_differences():
    w, policies, _, p = pairs_of(PreferenceSettings(pairs=100), 5)
    a, c = weights(p, policies, np.stack([grid.future(w.move, b, 0.9) for b in policies]), p.who)
    gap, offset = a[0] - a[1], c[0] - c[1]
    rng = np.random.default_rng(6)
    theta, direction = rng.normal(size=(2, grid.STATES, grid.ACTIONS))
    step = 1e-6
    up, down = (loss_gradient(theta + s * direction, gap, offset, w.alpha)[0] for s in (step, -step))
    inner = (loss_gradient(theta, gap, offset, w.alpha)[1] * direction).sum()
    assert (up - down) / (2 * step) == pytest.approx(inner, abs=1e-5)


def test_swapping_sides_negates_the_logit_and_cpl_starts_at_log_two():
    _, _, _, p = pairs_of(PreferenceSettings(), 7)
    j = _judged(p)
    theta = np.zeros((grid.STATES, grid.ACTIONS))
    assert loss_gradient(theta, j[0] - j[1], np.zeros(len(j[0])), 0.8)[0] == pytest.approx(np.log(2))
    swapped = Pairs(p.states[::-1], p.actions[::-1], p.who[::-1])
    k = _judged(swapped)
    assert np.allclose(k[0] - k[1], -(j[0] - j[1]))


def test_a_constant_per_state_changes_nothing():
    _, _, _, p = pairs_of(PreferenceSettings(), 8)
    j = _judged(p)
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(grid.STATES, grid.ACTIONS))
    shifted = theta + rng.normal(size=(grid.STATES, 1))
    decay = [1e-3 / theta.size * (t**2).sum() for t in (theta, shifted)]
    losses = [
        loss_gradient(t, j[0] - j[1], np.zeros(len(j[0])), 0.8)[0] - d
        for t, d in zip((theta, shifted), decay, strict=True)
    ]
    assert losses[0] == pytest.approx(losses[1], abs=1e-10)
    assert np.allclose(fit(j[0] - j[1], np.zeros(len(j[0])), 0.8).sum(1), 1)


def test_many_pairs_reach_the_optimum():
    """A consistent estimator: with 2,000 comparisons the score is at least 0.97."""
    for seed in range(3):
        assert run(PreferenceSettings(pairs=2000), seed).measures["score"][PPL] >= 0.95


def test_labels_matter():
    found = run(PreferenceSettings(), 1).measures["score"]
    assert found[SHUFFLED] < 0.5 < found[PPL]
    assert found[CPL] < found[PPL]


@pytest.mark.parametrize(
    ("changes", "name"),
    [({"pairs": 5}, "pairs"), ({"slip": 1.2}, "slip"), ({"scale": 0}, "scale"), ({"gamma": 1.0}, "gamma"),
     ({"skills": "wise"}, "skills"), ({"judge": "mood"}, "judge")],
)  # fmt: skip
def test_bad_settings_are_named(changes, name):
    with pytest.raises(ValueError, match=name):
        PreferenceSettings.checked(changes)
