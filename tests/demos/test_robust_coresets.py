"""Robust coresets: right values from linear algebra and from hand-made costs."""

import numpy as np
import pytest

from core.demos._robust_coresets_rows import (
    group_leverage,
    leverage,
    load,
    robust_coreset,
    robust_cost,
    sensitivity_sample,
    trimmed_fit,
)
from core.demos.robust_coresets import ROBUST, CoresetSettings, run, size_law


@pytest.fixture
def rng():
    return np.random.default_rng(3)


def test_leverage_is_the_squared_row_norm_of_q_and_sums_to_the_rank(rng):
    """Closed form: A = QR gives a_iᵀ(AᵀA)⁻¹a_i = ‖q_i‖²; the trace of the hat matrix is the rank."""
    a = rng.normal(size=(40, 5))
    q, _ = np.linalg.qr(a)
    assert np.allclose(leverage(a), (q**2).sum(1), atol=1e-8)
    deficient = np.column_stack([a, a[:, 0] + a[:, 1]])
    assert leverage(deficient).sum() == pytest.approx(5, abs=1e-8)
    assert leverage(deficient).min() >= -1e-9
    assert leverage(deficient).max() <= 1 + 1e-9


def test_leverage_is_the_largest_share_over_directions(rng):
    """Definition: no direction gives row i a larger share than σ_i, and x = (AᵀA)⁻¹a_i reaches it."""
    a = rng.normal(size=(30, 4))
    x = np.column_stack([rng.normal(size=(4, 4000)), np.linalg.inv(a.T @ a) @ a.T])
    share = (a @ x) ** 2 / ((a @ x) ** 2).sum(0)
    assert np.allclose(share.max(1), leverage(a), atol=1e-12)


def test_cost_with_unit_weights_drops_the_m_largest(rng):
    values = rng.random((50, 7))
    expected = np.sort(values, axis=0)[:-6].sum(0)
    assert np.allclose(robust_cost(values, np.ones(50), 6), expected, atol=1e-10)
    assert np.allclose(robust_cost(values, np.ones(50), 0), values.sum(0), atol=1e-10)


def test_fractional_removal():
    """By hand: of weight 2 at value 9, 1.5 goes: 0.5·9 + 4 + 1 = 9.5."""
    cost = robust_cost(np.array([[9.0], [4.0], [1.0]]), np.array([2.0, 1.0, 1.0]), 1.5)
    assert cost[0] == pytest.approx(9.5, abs=0)


@pytest.mark.parametrize("ignored", [0, 1, 1.5, 2, 3.2])
def test_a_doubled_weight_is_two_rows(rng, ignored):
    values = rng.random((5, 3))
    once = robust_cost(values, np.array([1, 2, 1, 1, 1.0]), ignored)
    twice = robust_cost(np.vstack([values, values[1]]), np.ones(6), ignored)
    assert np.allclose(once, twice)


def test_a_row_that_alone_spans_a_direction_is_always_kept(rng):
    rows = np.column_stack([rng.normal(size=(200, 3)), np.zeros(200)])
    rows[17, 3] = 1e-3
    assert group_leverage(rows, 5, 3, rng)[17] == pytest.approx(1, abs=1e-6)


def test_enough_samples_give_the_whole_data(rng):
    rows = rng.normal(size=(100, 3))
    whole = robust_coreset(rows, np.zeros(100, dtype=bool), 100, rng)
    assert len(whole.rows) == 100
    assert (whole.weights == 1).all()


def test_sampled_weights_add_up_to_the_number_of_rows(rng):
    """Importance weights are unbiased: the expected total weight is the size of the pool."""
    rows = rng.normal(size=(300, 4)) * rng.exponential(size=(300, 1))
    totals = [sensitivity_sample(rows, np.arange(300), 40, rng).weights.sum() for _ in range(200)]
    assert np.mean(totals) == pytest.approx(300, rel=0.05)


def test_marks_do_not_depend_on_a_common_scale():
    rows = load("breast_cancer", 0)
    a = group_leverage(rows, 5, 4, np.random.default_rng(1)) >= 0.2
    b = group_leverage(1000 * rows, 5, 4, np.random.default_rng(1)) >= 0.2
    assert (a == b).all()


def test_group_leverage_against_a_loop_over_groups():
    """Second way: deal the same groups one by one with a plain pseudo-inverse."""
    rows = load("digits", 0)[:203]
    fast = group_leverage(rows, 4, 2, np.random.default_rng(5))
    rng, slow = np.random.default_rng(5), np.zeros(len(rows))
    count = min(8, len(rows) // (2 * rows.shape[1]))
    size = -(-len(rows) // count)
    for _ in range(2):
        order = np.concatenate([rng.permutation(len(rows)), np.arange(len(rows), count * size)])
        for g in range(count):
            own = order.reshape(size, count)[:, g]
            own = own[own < len(rows)]
            part = rows[own]
            hat = part @ np.linalg.pinv(part)
            slow[own] = np.maximum(slow[own], np.diag(hat))
    assert np.allclose(fast, slow, atol=1e-8)


def test_trimmed_fit_recovers_a_line_behind_outliers(rng):
    """Exact rows plus m gross outliers: trimming m of them leaves cost 0 and the true coefficients."""
    x = rng.normal(size=(120, 3))
    beta = np.array([1.0, -2.0, 0.5])
    rows = np.column_stack([x, x @ beta])
    rows[:5, 3] += 50
    assert np.allclose(trimmed_fit(rows, np.ones(120), 5, rng), [*beta, -1], atol=1e-8)


def test_size_grows_linearly_in_the_outliers_ignored():
    """The counting argument: |H| ≤ O(mT/ε), so doubling m at most doubles |H| (within a tenth)."""
    kept = [size_law(m, 0.3, 100) for m in (5, 10, 20, 40)]
    slope = np.polyfit(np.log([5, 10, 20, 40]), np.log(kept), 1)[0]
    assert 0.9 < slope < 1.1
    assert all(k <= 3 * m * 6 / 0.3 for k, m in zip(kept, (5, 10, 20, 40), strict=True))


def test_whole_data_has_no_error():
    found = run(CoresetSettings(ignored=40), 0).measures
    assert found["size"][ROBUST] == found["size"]["all rows"]
    assert found["max_error"][ROBUST] == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(
    ("setting", "value"),
    [("ignored", 0), ("ignored", 2.5), ("epsilon", 1.0), ("sampled", 0), ("planted", -1), ("data", "iris"),
     ("rounds", 0), ("epsilon", float("nan"))],
)  # fmt: skip
def test_bad_settings_are_named(setting, value):
    with pytest.raises(ValueError, match=setting):
        CoresetSettings.checked({setting: value})
