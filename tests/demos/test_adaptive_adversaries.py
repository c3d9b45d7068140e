"""Adaptive adversaries: distances in closed form, expectations over random halves, the rules of the game."""

import numpy as np
import pytest

from core.demos._adaptive_adversaries_play import (
    Received,
    adaptive,
    agreement,
    clean,
    consistent,
    half_set,
    lower_bound,
    mixture_error,
    oblivious,
    unknown_error,
)
from core.demos.adaptive_adversaries import ADAPTIVE, NONE, OBLIVIOUS, AdversarySettings, average, face


@pytest.fixture
def s():
    return AdversarySettings()


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def halves(domain, *starts):
    """Half-size sets that begin at these points and wrap."""
    out = np.zeros((len(starts), domain), dtype=bool)
    for row, start in zip(out, starts, strict=True):
        row[(start + np.arange(domain // 2)) % domain] = True
    return out


def test_distances_between_members(s):
    """TV is 0 to itself, a for disjoint halves, a(1−c)/2 + ac for a quarter of overlap."""
    sets = halves(s.domain, 0, s.domain // 2, s.domain // 4)
    assert mixture_error(sets[0], sets[[0]], True, s) == pytest.approx(0, abs=1e-12)
    assert mixture_error(sets[0], sets[[1]], False, s) == pytest.approx(s.mass, abs=1e-9)
    quarter = s.mass * (1 - s.code) / 2 + s.code_mass
    assert mixture_error(sets[0], sets[[2]], False, s) == pytest.approx(quarter, abs=1e-9)


def test_tv_against_the_whole_distribution(s):
    """Second way: half the L1 distance of the two full probability vectors, codes and origin included."""
    small = AdversarySettings(domain=200, code=0.1)
    sets = halves(200, 0, 30, 77)
    spread = small.mass * (1 - small.code) / 100

    def law(weights):
        points = sum(w * spread * a for w, a in zip(weights, sets, strict=True))
        return np.concatenate([[1 - small.mass], points, np.array(weights) * small.code_mass])

    full = 0.5 * np.abs(law([1, 0, 0]) - law([1 / 3] * 3)).sum()
    assert mixture_error(sets[0], sets, True, small) == pytest.approx(full, abs=1e-12)
    two = lower_bound(Received(np.empty(0, int), sets, np.ones(3, int), True, 0), small)
    pairs = [0.5 * np.abs(law(np.eye(3)[i]) - law(np.eye(3)[j])).sum() for i in range(3) for j in range(3)]
    assert two == pytest.approx(np.mean(pairs) / 2, abs=1e-6)


def test_guess_without_a_code(s):
    assert unknown_error(halves(s.domain, 0)[0], s) == pytest.approx(0.25125, abs=1e-9)


def test_mixture_of_random_halves(s, rng):
    """k independent halves, one true: (k−1)/k · (a(1−c)/2 + ac) in expectation."""
    sets = np.array([half_set(s.domain, rng) for _ in range(5)])
    assert mixture_error(sets[0], sets, True, s) == pytest.approx(0.2010, abs=0.005)


def test_fakes_are_perfect_and_within_budget(s):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        _, sample = clean(s, rng)
        seen = adaptive(sample, s, rng)
        assert (seen.sets.sum(1) == s.domain // 2).all()
        assert (agreement(seen) == 1).all()
        assert (seen.times == (sample.times[0] if sample.true_seen else 1)).all()
        assert seen.size - sample.size <= s.budget * s.n
        assert oblivious(sample, s, rng).size - sample.size <= s.budget * s.n


def test_how_often_the_code_is_seen():
    """1 − (1 − ac)ⁿ = 0.918 at n = 1000."""
    small = AdversarySettings(n=1000)
    seen = [clean(small, np.random.default_rng(k))[1].true_seen for k in range(400)]
    assert np.mean(seen) == pytest.approx(0.918, abs=0.045)


def test_without_an_adversary_a_seen_code_is_the_answer(s):
    for seed in range(6):
        truth, sample = clean(s, np.random.default_rng(seed))
        if sample.true_seen:
            assert consistent(sample, truth, s) == (pytest.approx(0, abs=1e-12), 1)


def test_oblivious_fakes_hold_half_of_the_points(s, rng):
    _, sample = clean(s, rng)
    fit = agreement(oblivious(sample, s, rng))[1:]
    assert len(fit) > 0
    assert np.abs(fit - 0.5).max() < 0.1


def test_a_budget_too_small_for_one_fake_changes_nothing():
    """⌊ηn⌋ < n_c: adaptive equals no adversary, exactly."""
    heavy = AdversarySettings(code=0.1)
    found = face(heavy, np.random.default_rng(3))
    assert found[ADAPTIVE]["consistent"] == found[NONE]["consistent"]


def test_separation_at_the_defaults():
    """By exchangeability with about a dozen fakes the error is near (k−1)/k · 0.251; the oblivious one is beaten."""
    found = average(AdversarySettings(), 1, 8)
    assert np.mean(found[ADAPTIVE]["consistent"]) > 0.18
    assert np.mean(found[OBLIVIOUS]["consistent"]) < 0.09
    assert np.mean(found[ADAPTIVE]["bound"]) <= np.mean(found[ADAPTIVE]["consistent"])


@pytest.mark.parametrize(
    ("changes", "name"),
    [({"domain": 201}, "domain"), ({"domain": 10}, "domain"), ({"n": 5}, "n"), ({"mass": 0}, "mass"), ({"mass": 1}, "mass"),
     ({"code": 0}, "code"), ({"code": 1}, "code"), ({"budget": 0.5}, "budget")],
)  # fmt: skip
def test_bad_settings_are_named(changes, name):
    with pytest.raises(ValueError, match=name):
        AdversarySettings.checked(changes)


def test_a_sample_without_codes_is_no_error(s):
    truth = halves(s.domain, 0)[0]
    empty = Received(np.array([1, 2]), np.empty((0, s.domain), bool), np.array([], int), False, 3)
    assert consistent(empty, truth, s) == (pytest.approx(0.25125), 0)
