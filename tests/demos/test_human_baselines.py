"""Human baselines: quadrature values, the clustered variance against loops and regression, planning by simulation."""

import numpy as np
import pytest

from core.demos._human_baselines_checklist import ANSWERS, SHARES, STAGES, score, standing
from core.demos._human_baselines_study import (
    CLUSTERED,
    POINT,
    POOLS,
    Studies,
    ai_ability,
    clustered,
    expected,
    human_level,
    judged,
    rater_weights,
    raters_needed,
    simulate,
    variance_parts,
)
from core.demos.human_baselines import StudySettings


@pytest.fixture
def rng():
    return np.random.default_rng(9)


def test_human_level_by_quadrature():
    assert human_level(0.8) == pytest.approx(0.687773, abs=1e-5)
    assert human_level(0.8, POOLS["crowd"]) == pytest.approx(0.6446, abs=1e-4)
    assert human_level(0.8, POOLS["own lab"]) == pytest.approx(0.8255, abs=1e-4)


def test_quadrature_against_simulation(rng):
    theta = 0.3
    draws = 0.25 + 0.75 / (1 + np.exp(-(theta - 1.2 * rng.normal(size=400_000))))
    assert float(expected(theta, 1.2)) == pytest.approx(draws.mean(), abs=2e-3)


def test_a_tie_is_a_tie_in_expected_accuracy():
    """Not in ability: accuracy is not linear in it."""
    assert float(expected(ai_ability(0.8, 0.0), 1.2)) == pytest.approx(human_level(0.8), abs=1e-9)


def test_variance_components():
    assert variance_parts(0.8, 0.05) == pytest.approx((0.01747, 0.16664, 0.17406), abs=1e-4)


@pytest.mark.parametrize(
    ("lead", "items", "needed"),
    [(0.1, 200, 39), (0.1, 1000, 19), (0.05, 200, np.inf), (0.05, 1000, 138), (0.05, 5000, 74), (0.2, 200, 5)],
)
def test_raters_needed(lead, items, needed):
    assert raters_needed(0.8, lead, items) == needed


def test_planned_power_is_reached(rng):
    """Second way: simulate studies of the planned size and count the clustered rule's finds."""
    s = StudySettings(raters=39, lead=0.1)
    d, half = judged(simulate(s, 250, rng))[CLUSTERED]
    assert np.mean(d - half > 0) == pytest.approx(0.8, abs=0.08)


def test_point_comparison_is_a_coin_at_a_tie(rng):
    for k in (2, 30):
        d, _ = judged(simulate(StudySettings(raters=k), 300, rng))[POINT]
        assert np.mean(d > 0) == pytest.approx(0.5, abs=0.09)


def test_clustered_variance_against_a_double_loop(rng):
    t = simulate(StudySettings(raters=5, items=30).model_copy(update={"each": 12}), 3, rng)
    w = rater_weights(t.stratum)
    mean, se = clustered(t, w)
    for n in range(3):
        k, q = t.right[n].shape
        d = np.array([[float(t.ai[n, t.shown[n, h, j]]) - t.right[n, h, j] for j in range(q)] for h in range(k)])
        centre = sum(w[n, h] / q * d[h, j] for h in range(k) for j in range(q))
        e = np.array([[w[n, h] / q * (d[h, j] - centre) for j in range(q)] for h in range(k)])
        raters = k / (k - 1) * sum(e[h].sum() ** 2 for h in range(k))
        items: dict[int, float] = {}
        for h in range(k):
            for j in range(q):
                items[t.shown[n, h, j]] = items.get(t.shown[n, h, j], 0.0) + e[h, j]
        m = len(items)
        by_item = m / (m - 1) * sum(v * v for v in items.values())
        variance = max(raters + by_item - (e**2).sum(), raters, by_item)
        assert mean[n] == pytest.approx(centre)
        assert se[n] == pytest.approx(np.sqrt(variance))


def test_equal_weights_are_no_weights(rng):
    t = simulate(StudySettings(), 4, rng)
    plain, given = clustered(t), clustered(t, np.full((4, 8), 1 / 8))
    assert np.allclose(plain, given)


def test_identical_raters_leave_only_the_items(rng):
    ai = rng.random((1, 20)) < 0.7
    right = np.repeat(rng.random((1, 1, 20)) < 0.6, 6, 1)
    t = Studies(ai, np.broadcast_to(np.arange(20), (1, 6, 20)), right, np.zeros((1, 6), int))
    mean, se = clustered(t)
    d = ai[0].astype(float) - right[0, 0]
    assert mean[0] == pytest.approx(d.mean())
    assert se[0] ** 2 == pytest.approx(20 / 19 * ((d - d.mean()) ** 2).sum() / 400, abs=1e-12)


def test_one_rater_decides_nothing(rng):
    d, half = judged(simulate(StudySettings(raters=1), 20, rng))[CLUSTERED]
    assert np.isinf(half).all()
    assert not (d - half > 0).any()


def test_weights_restore_the_population():
    stratum = np.array([[0, 0, 0, 1, 2]])
    w = rater_weights(stratum)[0]
    assert w[:3].sum() == pytest.approx(0.5)
    assert w[3] == pytest.approx(0.35)
    missing = rater_weights(np.array([[1, 1, 2]]))[0]
    assert missing.sum() == pytest.approx(1)


def test_scores_at_their_ends():
    everything = dict.fromkeys(SHARES, "Yes")
    assert score({})[0] == 0
    assert score(everything)[0] == pytest.approx(29 / 30)
    assert score({**everything, "2.4": "No"})[0] == 1
    assert score(dict.fromkeys(SHARES, "Not applicable"))[0] is None
    assert score({**dict.fromkeys(STAGES["Design"], "Not applicable")})[1]["Design"] is None
    assert sum(len(v) for v in STAGES.values()) == 30
    assert standing(0.9).startswith("at or above the best")
    assert standing(0.26) == "at or above 50% of the 115 reviewed studies"
    assert standing(0.0).startswith("below")


def test_wrong_answers_are_named():
    with pytest.raises(ValueError, match=r"answer to 1\.5 cannot be 'maybe'"):
        score({"1.5": "maybe"})
    with pytest.raises(ValueError, match=r"item '9\.9' is not on the checklist"):
        score({"9.9": ANSWERS[1]})


@pytest.mark.parametrize(
    ("changes", "name"),
    [({"raters": 0}, "raters"), ({"items": 1}, "items"), ({"each": 0}, "each"), ({"spread": -1}, "spread"),
     ({"pool": "friends"}, "pool"), ({"lead": 0.9}, "lead")],
)  # fmt: skip
def test_bad_settings_are_named(changes, name):
    with pytest.raises(ValueError, match=name):
        StudySettings.checked(changes)
