"""Rényi neural processes: right values from closed forms, invariants, finite differences and plain loops."""

import math
from functools import cache

import numpy as np
import pytest
from autograd import grad
from scipy import stats
from scipy.special import logsumexp
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from core.demos import renyi_np
from core.demos._renyi_np_network import SHAPES, Z, decode, encode, initial, kl_divergence, predict
from core.demos._renyi_np_scores import EXACT, score
from core.demos._renyi_np_tasks import NOISE, corrupt, draw_tasks, exact_posterior
from core.demos.renyi_np import NP, RNP, WEIGHTED, Settings, loss, renyi_bound, run, train
from core.lab.verdicts import Samples

WEIGHTS = 2 * np.random.default_rng(0).normal(size=(6, 5)).T
"""Log weights of five tasks with six draws each."""


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def network(rng, models=2, dtype=np.float64):
    """Untrained networks whose models differ, biases included."""
    _, p = initial(rng, models, dtype)
    return [a + 0.1 * rng.normal(size=a.shape) for a in p]


def batch(rng, n=5):
    """Context, x, y and noise of two tasks with three draws, in float64."""
    tasks = draw_tasks(rng, "sine", 2, 9)
    return (tasks.x[:, :n], tasks.y[:, :n]), tasks.x, tasks.y, rng.normal(size=(2, 3, Z))


# --- the bound ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("alpha", "value"), [(0.0, 0.6749), (0.3, 0.4779), (0.7, 0.1074), (0.9, -0.1218), (1.0, -0.2430)]
)
def test_bound_of_given_weights(alpha, value):
    """Reference values of log-mean-exp((1 − α) log w)/(1 − α), mean over rows; SciPy's logsumexp gives the same."""
    found = renyi_bound(WEIGHTS, alpha)
    assert found.mean() == pytest.approx(value, abs=1e-3)
    if alpha < 1:
        theirs = (logsumexp((1 - alpha) * WEIGHTS, axis=1) - math.log(6)) / (1 - alpha)
        assert np.allclose(found, theirs, atol=1e-12)


def test_bound_falls_with_alpha_towards_the_elbo():
    """Theory: power means of fixed weights are monotone; at α = 0.999 nearly the mean of the log weights."""
    found = np.array([renyi_bound(WEIGHTS, a) for a in np.linspace(0, 1, 21)])
    assert (np.diff(found, axis=0) <= 1e-12).all()
    assert renyi_bound(WEIGHTS, 0.999).mean() == pytest.approx(WEIGHTS.mean(), abs=2e-3)


def test_one_draw_gives_the_same_bound_for_every_alpha(rng):
    """Closed form: the log of a one-term mean is the term; the gradient is exactly 1."""
    log_w = rng.normal(size=(4, 1)) * 50
    for alpha in (0.0, 0.3, 0.7, 0.95, 1.0):
        assert np.allclose(renyi_bound(log_w, alpha), log_w[:, 0], atol=1e-12)
        assert (grad(lambda w, a=alpha: renyi_bound(w, a).sum())(log_w) == 1).all()


def test_gaussians_without_likelihood_give_the_renyi_divergence():
    """Closed form (Gil et al. 2013) of D_α between normals: 0.2638 at α = 0.7; KL is 0.3158."""
    m, s, alpha = 0.5, 0.6, 0.7
    mixed = (1 - alpha) * s**2 + alpha
    divergence = alpha * m**2 / (2 * mixed) - math.log(s) - math.log(1 / mixed) / (2 * (1 - alpha))
    assert divergence == pytest.approx(0.2638, abs=5e-5)
    z = np.random.default_rng(1).normal(m, s, 2_000_000)
    log_w = (stats.norm.logpdf(z) - stats.norm.logpdf(z, m, s))[None]
    assert -renyi_bound(log_w, alpha)[0] == pytest.approx(divergence, abs=3e-3)
    kl = kl_divergence(*(np.array([v]) for v in (m, s, 0.0, 1.0)))
    assert kl == pytest.approx(0.3158, abs=5e-5)
    assert -renyi_bound(log_w, 1.0)[0] == pytest.approx(kl, abs=3e-3)


# --- the network --------------------------------------------------------------------------------------


def test_the_loss_written_as_loops(rng):
    """Independent second way: densities from SciPy, one model, task and draw at a time."""
    p, (context, x, y, noise), alphas = network(rng), batch(rng), np.array([1.0, 0.7])
    prior, posterior = encode(p, *context), encode(p, x, y)
    expected = 0.0
    for i, alpha in enumerate(alphas):
        for b in range(2):
            (m0, s0), (m, s) = ([v[i, b] for v in d] for d in (prior, posterior))
            log_w = []
            for e in noise[b]:
                z = m + s * e
                mean, sd = decode(p, np.broadcast_to(z, (2, 1, 1, Z)), x[b : b + 1])
                log_w.append(
                    stats.norm.logpdf(y[b], mean[i, 0, 0], sd[i, 0, 0]).sum()
                    + stats.norm.logpdf(z, m0, s0).sum()
                    - stats.norm.logpdf(z, m, s).sum()
                )
            w = np.array(log_w)
            expected -= w.mean() if alpha == 1 else np.log(np.exp((1 - alpha) * w).mean()) / (1 - alpha)
    assert loss(p, context, x, y, noise, alphas) == pytest.approx(expected / x.size, rel=1e-10)


@pytest.mark.parametrize("alpha", [0.0, 0.7, 1.0])
def test_gradient_against_central_differences(rng, alpha):
    """Finite differences in float64 along random directions of every array, relative error 1e-5."""
    p, data, alphas = network(rng), batch(rng), np.array([alpha, 0.4])
    found = grad(loss)(p, *data, alphas)
    step = 1e-6
    for k, array in enumerate(p):
        direction = rng.normal(size=array.shape)
        ends = [loss([*p[:k], array + h * direction, *p[k + 1 :]], *data, alphas) for h in (step, -step)]
        numeric = (ends[0] - ends[1]) / (2 * step)
        assert (found[k] * direction).sum() == pytest.approx(numeric, rel=1e-5, abs=1e-8)


def test_encoder_does_not_mind_the_order_of_points(rng):
    """Invariant: an average over points."""
    p, (context, *_) = network(rng), batch(rng)
    order = rng.permutation(5)
    for a, b in zip(encode(p, *context), encode(p, *(v[:, order] for v in context)), strict=True):
        assert np.allclose(a, b, atol=1e-5)


def test_a_context_of_all_points_makes_prior_and_posterior_one(rng):
    """Identity: the same encoder sees the same points, so KL is exactly 0; and 0 < KL for a part of them."""
    p, (context, x, y, _) = network(rng), batch(rng)
    assert (kl_divergence(*encode(p, x, y), *encode(p, x, y)) == 0).all()
    assert (kl_divergence(*encode(p, x, y), *encode(p, *context)) > 0).all()


def test_standard_deviations_keep_their_limits(rng):
    """Definition: latent sd in (0.1, 1), decoder's sd above 0.1, so log densities stay below 1.384."""
    p = [30 * a for a in network(rng)]
    context, x, y, noise = batch(rng)
    _, sigma = encode(p, *context)
    assert ((sigma >= 0.1) & (sigma <= 1.0)).all()
    found = predict(p, context, x, y, noise)
    assert (found.noise >= 0.1).all()
    assert (found.spread >= found.noise - 1e-9).all()
    assert (found.log_density < math.log(1 / (0.1 * math.sqrt(2 * math.pi))) + 1e-9).all()


def test_prediction_is_a_mixture(rng):
    """Second way: density, mean and variance of the mixture by explicit sums over the draws."""
    p = network(rng, 1)
    context, x, y, noise = batch(rng)
    mu, sigma = encode(p, *context)
    m, s = (v[0] for v in decode(p, mu[:, :, None] + sigma[:, :, None] * noise, x))
    found = predict(p, context, x, y, noise)
    assert np.allclose(found.log_density[0], np.log(stats.norm.pdf(y[:, None], m, s).mean(axis=1)), atol=1e-10)
    assert np.allclose(found.spread[0] ** 2, (s**2 + m**2).mean(axis=1) - m.mean(axis=1) ** 2, atol=1e-10)


def test_all_models_start_alike():
    """Paired comparison: the stacked networks begin with the same weights, and the views share the flat vector."""
    flat, p = initial(np.random.default_rng(0), 3)
    assert all((a == a[:1]).all() for a in p)
    assert len(p) == 2 * len(SHAPES) - 1
    flat[:] = 0
    assert not any(a.any() for a in p)


# --- tasks --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("corruption", [0.0, 0.3])
def test_exact_posterior_against_scikit_learn(rng, corruption):
    """Library: GaussianProcessRegressor with fixed kernel; labels divided by 1 − c have noise c/(1 − c)."""
    tasks = draw_tasks(rng, "gp", 3, 12)
    labels = corrupt(rng, tasks.y[:, :5], corruption)
    mean, sd = exact_posterior(tasks, labels, 5, corruption)
    own = NOISE**2 + 1e-6
    for b in range(3):
        form = ConstantKernel(tasks.scale[b, 0, 0] ** 2) * RBF(tasks.length[b, 0, 0])
        noise = own + (corruption / (1 - corruption)) ** 2
        gp = GaussianProcessRegressor(form, alpha=noise, optimizer=None)
        gp.fit(tasks.x[b, :5, None], labels[b] / (1 - corruption))
        theirs, spread = gp.predict(tasks.x[b, 5:, None], return_std=True)
        assert np.allclose(mean[b], theirs, atol=1e-7)
        assert np.allclose(sd[b] ** 2, spread**2 + own, atol=1e-7)


def test_no_network_beats_the_exact_posterior():
    """Bound: the exact Gaussian process has the highest expected log-likelihood."""
    found = run(Settings(family="gp", steps=80), 0).measures["ll_target"]
    assert found[EXACT] > max(found[m] for m in (NP, RNP, WEIGHTED))


def test_corruption_by_formula(rng):
    """Formula: (1 − c) y + c·N(0, 1) has this mean and variance; c = 0 changes nothing."""
    y = np.full((1, 200_000), 2.0)
    assert (corrupt(rng, y, 0.0) == y).all()
    seen = corrupt(rng, y, 0.3)
    assert seen.mean() == pytest.approx(1.4, abs=0.005)
    assert seen.std() == pytest.approx(0.3, abs=0.005)


def test_family_gp_has_its_covariance(rng):
    """Simulation: y/scale at a point has variance 1 + own noise; neighbours are correlated as the kernel says."""
    tasks = draw_tasks(rng, "gp", 20_000, 2)
    f = tasks.f / tasks.scale[:, :, 0]
    distance = np.diff(tasks.x)[:, 0] / tasks.length[:, 0, 0]
    near = np.abs(distance) < 0.5
    expected = np.exp(-0.5 * distance[near] ** 2).mean()
    assert f.var() == pytest.approx(1, abs=0.03)
    assert np.mean(f[near, 0] * f[near, 1]) == pytest.approx(expected, abs=0.05)


# --- settings, errors, break it -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("alpha", -0.1),
        ("alpha", 1.0),
        ("alpha", math.nan),
        ("corruption", -0.1),
        ("corruption", 1.0),
        ("K", 0),
        ("K", 2.5),
        ("steps", 0),
        ("family", "matern"),
        ("N", 7),
    ],
)
def test_bad_settings_are_named(name, value):
    with pytest.raises(ValueError, match=f"^{name} cannot be .*: it may be "):
        Settings.checked({name: value})


def test_bad_arguments_are_named(rng):
    for alpha in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match=r"^alpha cannot be"):
            renyi_bound(WEIGHTS, alpha)
    for share in (-0.1, 1.0):
        with pytest.raises(ValueError, match=r"^corruption cannot be"):
            corrupt(rng, np.zeros((1, 3)), share)
    with pytest.raises(ValueError, match=r"^family cannot be 'matern'"):
        draw_tasks(rng, "matern", 1, 3)
    with pytest.raises(ValueError, match=r"^family cannot be 'sine'"):
        exact_posterior(draw_tasks(rng, "sine", 1, 5), np.zeros((1, 3)), 3, 0.0)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_a_loss_that_is_not_finite_stops_training(monkeypatch):
    """The error names the step: labels of the third batch are not numbers."""

    def spoilt(rng, family, count, n, grid=None):
        tasks = draw_tasks(rng, family, count, n, grid)
        tasks.y[2 * renyi_np.BATCH :] = math.nan
        return tasks

    monkeypatch.setattr(renyi_np, "draw_tasks", spoilt)
    with pytest.raises(RuntimeError, match="not finite at step 3 of 80"):
        train(Settings(steps=80), np.array([1.0, 0.7]), np.random.SeedSequence(0))


@cache
def trained(**changes):
    s = Settings(steps=80, **changes)
    return s, train(s, np.array([1.0, s.alpha, 0.0]), np.random.SeedSequence(3))


def test_break_it_one_draw_makes_all_objectives_one():
    """Closed form: with K = 1 all weights and scores are equal bit for bit; with K = 6 they are not."""
    s, p = trained(K=1)
    assert all((a == a[:1]).all() for a in p)
    found = score(p, s.family, s.corruption, s.N, 6, np.random.default_rng(0)).models
    assert all((v == v[:1]).all() for v in found.values())
    _, p = trained()
    assert not any((a[0] == a[1]).all() for a in p)


def test_alpha_zero_is_the_importance_weighted_bound():
    """Identity: RNP at α = 0 and the importance-weighted bound are the same objective on the same data."""
    measures = run(Settings(alpha=0.0, steps=80), 1).measures
    assert all(by[RNP] == by[WEIGHTED] for by in measures.values())
    assert measures["ll_target"][RNP] != measures["ll_target"][NP]


def test_context_scores_use_clean_labels(rng):
    """Second way: scores of one task set from a direct call of predict with the corrupted context."""
    s, p = trained(corruption=0.3)
    found = score(p, s.family, 0.3, s.N, 3, np.random.default_rng(8)).models
    again = np.random.default_rng(8)
    tasks = draw_tasks(again, "sine", 128, s.N)
    labels = corrupt(again, tasks.y[:, :3], 0.3)
    x, y, seen = (a.astype(np.float32) for a in (tasks.x, tasks.y, labels))
    noise = again.standard_normal((128, 32, Z), dtype=np.float32)
    direct = predict(p, (x[:, :3], seen), x, y, noise).log_density
    assert np.allclose(found["ll_context"], direct[..., :3].mean(axis=-1))
    assert np.allclose(found["ll_target"], direct[..., 3:].mean(axis=-1))


@pytest.mark.parametrize(
    ("gain", "spread", "outcome"),
    [(0.02, 0.001, "holds"), (-0.02, 0.001, "fails"), (0.002, 0.001, "unclear"), (0.02, 0.1, "unclear")],
)
def test_the_first_claim_can_come_out_every_way(gain, spread, outcome):
    """The rule on made-up seeds: sure gain, sure loss, gain inside the margin, gain drowned in noise."""
    base = np.linspace(-1, 1, 8)
    moved = base + gain + spread * np.array([1, -1] * 4)
    measures = ("ll_target", "ll_context")
    values = {(m, k): v for m in measures for k, v in ((NP, base), (RNP, moved), (WEIGHTED, moved))}
    assert renyi_np.likelier(Samples(values, range(8))).outcome == outcome
