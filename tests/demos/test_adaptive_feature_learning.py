"""Adaptive feature learning: limits, saddle-point algebra by finite differences, sampling as a second way."""

import numpy as np
import pytest

from core.demos import _adaptive_feature_learning_erf as nonlinear
from core.demos.adaptive_feature_learning import (
    BEST,
    HIGH,
    LOOP,
    NNGP,
    TREE,
    TheorySettings,
    align,
    exact,
    ising,
    kernel_scale,
    one_loop,
    run,
    spectrum,
)


@pytest.fixture
def problem():
    return ising(12, 40, 0.1, np.random.default_rng(5))


def test_a_very_wide_network_is_the_gaussian_process():
    """N = 10⁶, χ = 1: features cannot move, every scale is g = 1 and all theories agree."""
    k, y = ising(20, 40, 0.1, np.random.default_rng(0))
    s = spectrum(k, y, 1_000_000, 1.0, 0.5, 1.0)
    tree, scaled = kernel_scale(s, False), kernel_scale(s, True)
    truth, _, q = exact(s)
    assert max(abs(v - 1) for v in (tree, scaled, q)) < 1e-4
    for f in (s.gp_mean(tree), s.gp_mean(scaled), s.gp_mean(1.0), one_loop(s, tree)):
        assert np.linalg.norm(f - truth) / np.linalg.norm(truth) < 1e-5


def test_scale_for_a_white_kernel():
    """K = I: Q solves Q = g_c(1 + Q/N ‖y‖²/(Q+κ_c)²), checked by substitution."""
    y = np.random.default_rng(1).normal(size=9)
    s = spectrum(np.eye(9), y, 30, 1.0, 0.5, 3.0)
    q = kernel_scale(s, False)
    assert q == pytest.approx(s.gc * (1 + q / 30 * (y @ y) / (q + s.kc) ** 2), rel=1e-6)
    assert q >= s.gc


def test_curvature_and_its_trace_by_finite_differences(problem):
    """M = W''(f̃) + κ_c I and t = ∇ tr-term of the generator W = −N/2 ln(1 − g_c/N f̃ᵀKf̃)."""
    k, y = problem
    n, chi = 40, 2.0
    s = spectrum(k, y, n, 1.0, 0.5, chi)
    q = kernel_scale(s, False)
    f = s.gp_mean(q)
    dual = (s.z - f) / s.kc
    lam = np.diag(s.values)

    def hessian(v):
        d = 1 - s.gc / n * v @ lam @ v
        return s.gc * lam / d + 2 * s.gc**2 / n * np.outer(lam @ v, lam @ v) / d**2

    def gradient(v):
        return s.gc * lam @ v / (1 - s.gc / n * v @ lam @ v)

    assert np.allclose(gradient(dual), f, atol=1e-9)
    step = 1e-5
    numeric = np.column_stack(
        [(gradient(dual + step * e) - gradient(dual - step * e)) / (2 * step) for e in np.eye(12)]
    )
    m = q * lam + 2 / n * np.outer(f, f)
    assert np.allclose(numeric, m, atol=1e-5)
    assert np.allclose(hessian(dual), m, atol=1e-8)
    inverse = np.linalg.inv(m + s.kc * np.eye(12))
    slope = [(hessian(dual + step * e) - hessian(dual - step * e)) / (2 * step) for e in np.eye(12)]
    t = np.array([np.trace(inverse @ d) for d in slope])
    expected = s.z - s.kc * (dual + 0.5 * inverse @ t)
    assert np.allclose(one_loop(s, q), expected, rtol=1e-5, atol=1e-8)


def test_tree_level_is_a_rescaled_gaussian_process(problem):
    """Algebra: the saddle's mean is the GP mean with kernel QK, in the original basis too."""
    k, y = problem
    s = spectrum(k, y, 40, 1.0, 0.5, 10.0)
    q = kernel_scale(s, False)
    direct = q * k @ np.linalg.solve(q * k + s.kc * np.eye(12), y)
    vectors = np.linalg.eigh(k)[1]
    assert np.allclose(vectors @ s.gp_mean(q), direct, atol=1e-10)


def test_quadrature_against_sampling_the_network(problem):
    """Second way: alternate exact Gaussian draws of the hidden layer and the readout of a linear network."""
    k, y = problem
    n, chi, rng = 40, 10.0, np.random.default_rng(2)
    gc, kc = 1 / chi, 0.5 / chi
    root = np.linalg.cholesky(k + 1e-12 * np.eye(12))
    w = rng.normal(0, np.sqrt(gc / n), n)
    total, kept = np.zeros(12), 0
    for sweep in range(4000):
        # h | w: prior draw corrected by conditioning y = Σ w_i h_i + noise (Matheron's rule)
        h = rng.normal(size=(n, 12)) @ root.T
        noise = rng.normal(0, np.sqrt(kc), 12)
        gap = np.linalg.solve((w @ w) * k + kc * np.eye(12), y - w @ h - noise)
        h = h + np.outer(w, k @ gap)
        # w | h: Bayesian linear regression
        precision = h @ h.T / kc + np.eye(n) * n / gc
        centre = np.linalg.solve(precision, h @ y / kc)
        w = centre + np.linalg.solve(np.linalg.cholesky(precision).T, rng.normal(size=n))
        if sweep >= 400:
            total += w @ h
            kept += 1
    s = spectrum(k, y, n, 1.0, 0.5, chi)
    truth = np.linalg.eigh(k)[1] @ exact(s)[0]
    assert np.linalg.norm(total / kept - truth) / np.linalg.norm(truth) < 0.01


def test_arcsine_kernel_against_monte_carlo(problem):
    from scipy.special import erf

    k = problem[0][:4, :4]
    h = np.random.default_rng(3).multivariate_normal(np.zeros(4), k, 200_000)
    assert np.abs(erf(h).T @ erf(h) / len(h) - nonlinear.arcsine_kernel(k)).max() < 5e-3


def test_walkers_without_a_field_keep_the_prior(problem):
    """a = 0: the single-neuron measure is N(0, K), so walkers reproduce K within sampling error."""
    k = problem[0]
    root, rng = np.linalg.cholesky(k + 1e-10 * np.eye(12)), np.random.default_rng(4)
    z, total = rng.normal(size=(400, 12)), np.zeros((12, 12))
    for _ in range(60):
        z, accepted = nonlinear.walk(z, root, np.zeros(12), rng)
        h = z @ root.T
        total += h.T @ h / 400 / 60
    assert accepted > 0.9
    assert np.abs(total - k).max() < 0.12


def test_alignment_ignores_scale_and_lies_in_its_range(problem):
    k, y = problem
    assert align(7.3 * k, y) == pytest.approx(align(k, y), abs=1e-12)
    assert align(np.outer(y, y), y) == pytest.approx(1)
    assert align(-np.outer(y, y), y) == pytest.approx(-1)


def test_loop_corrects_the_tree_and_rescaling_can_match_the_mean():
    found = run(TheorySettings(activation="linear"), 0).measures
    assert found[f"err {LOOP}"]["χ = 1"] < found[f"err {TREE}"]["χ = 1"] / 3
    assert all(v <= found[f"err {NNGP}"][c] + 1e-12 for c, v in found[f"err {BEST}"].items())
    assert np.isnan(found["erf_align"]["network"])


def test_no_labels_are_refused(problem):
    with pytest.raises(ValueError, match="y"):
        spectrum(problem[0], np.zeros(12), 40, 1.0, 0.5, 1.0)
    with pytest.raises(ValueError, match="y"):
        spectrum(problem[0], np.full(12, np.nan), 40, 1.0, 0.5, 1.0)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"width": 1}, "width"),
        ({"kappa": 0}, "kappa"),
        ({"g": 0}, "g"),
        ({"signal": 0.5}, "signal"),
        ({"samples": 1}, "samples"),
        ({"samples": 30, "inputs": 20}, "samples"),
        ({"activation": "tanh"}, "activation"),
    ],
)
def test_bad_settings_are_named(changes, name):
    with pytest.raises(ValueError, match=name):
        TheorySettings.checked(changes)


def test_scales_end_at_the_width():
    assert list(TheorySettings(width=5).scalings.values()) == [1.0, 2.0, 5.0]
    assert TheorySettings(width=40).scalings[HIGH] == 40.0
