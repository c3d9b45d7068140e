"""MERGE³: right values from closed forms, invariants, scipy, finite differences and a plain loop."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

from core.demos import _merge3_world as world
from core.demos import merge3
from core.demos._merge3_irt import GP, Bank, Estimator, calibrate, estimates, fit, logistic
from core.demos._merge3_search import TOP, evolve, offspring
from core.demos.merge3 import FULL, GMP, MEAN, MP, P, Settings
from core.lab.verdicts import Samples


@pytest.fixture
def rng():
    return np.random.default_rng(17)


@cache
def built():
    return world.build(np.random.SeedSequence(3), 12)


def random_estimator(rng, items=60, dimension=5, endpoints=3):
    bank = Bank(rng.normal(size=(items, dimension)), rng.normal(size=items))
    return Estimator(bank, rng.normal(size=(endpoints, dimension)))


def likelihood(bank, ability, answers):
    p = bank.chance(ability)
    return np.log(np.where(answers > 0, p, 1 - p)).sum(-1)


# --- estimates ----------------------------------------------------------------------------------------


def test_all_items_give_the_exact_accuracy(rng):
    """Identity: n = N leaves nothing to predict, for any blend."""
    estimator = random_estimator(rng)
    seen = (rng.random((7, 60)) < 0.6).astype(float)
    for blend in (0.0, 0.3, 1.0):
        found, _ = estimates(estimator, seen, np.tile(rng.permutation(60), (7, 1)), blend)
        assert all(np.allclose(v, seen.mean(1), rtol=0, atol=1e-12) for v in found.values())


@pytest.mark.parametrize(("blend", "gp", "gmp"), [(1.0, MEAN, MEAN), (0.0, P, MP)])
def test_ends_of_the_blend(rng, blend, gp, gmp):
    """Identity: c = 1 is the subset mean, c = 0 the prediction."""
    estimator = random_estimator(rng)
    items = np.argsort(rng.random((7, 60)), 1)[:, :20]
    seen = (rng.random((7, 20)) < 0.6).astype(float)
    found, _ = estimates(estimator, seen, items, blend)
    assert np.allclose(found[GP], found[gp], rtol=0, atol=1e-12)
    assert np.allclose(found[GMP], found[gmp], rtol=0, atol=1e-12)
    assert not np.allclose(found[P], found[MP], atol=1e-3)


def test_the_estimate_agrees_with_the_formula_item_by_item(rng):
    """A plain loop over seen and unseen items, for one model."""
    estimator = random_estimator(rng)
    items = rng.permutation(60)[:20]
    seen = (rng.random(20) < 0.6).astype(float)
    ability = estimator.ability(seen[None], items[None], True)
    bank = estimator.bank
    unseen = [
        1 / (1 + np.exp(bank.difficulty[i] - bank.slopes[i] @ ability[0])) for i in range(60) if i not in items
    ]
    p = 20 / 60 * seen.mean() + (1 - 20 / 60) * np.mean(unseen)
    expected = 0.3 * seen.mean() + 0.7 * p
    assert estimator.accuracy(seen[None], items[None], ability, 0.3)[0] == pytest.approx(expected, abs=1e-12)


def test_one_common_item_curve_in_closed_form(rng):
    """Closed form, D = 1, a = 1, b = β: ability β + log(ȳ / (1 − ȳ)), and the estimate is ȳ."""
    estimator = Estimator(Bank(np.ones((50, 1)), np.full(50, 0.7)), np.empty((0, 1)))
    items = np.arange(20)[None]
    seen = (np.arange(20) < 13).astype(float)[None]
    ability = estimator.ability(seen, items, False, 1e-6)
    assert ability[0, 0] == pytest.approx(0.7 + np.log(13 / 7), abs=1e-3)
    assert estimator.accuracy(seen, items, ability, 0.0)[0] == pytest.approx(13 / 20, abs=1e-4)


@pytest.mark.parametrize("answer", [0.0, 1.0])
def test_all_right_or_all_wrong_is_finite(rng, answer):
    """Without the ridge the ability would be infinite."""
    estimator = random_estimator(rng)
    items = np.argsort(rng.random((4, 60)), 1)[:, :7]
    found, ability = estimates(estimator, np.full((4, 7), answer), items, 0.5)
    for value in (*found.values(), *ability.values()):
        assert np.isfinite(value).all()
    for value in found.values():
        assert ((value >= 0) & (value <= 1)).all()


# --- abilities ----------------------------------------------------------------------------------------


def test_abilities_agree_with_scipy(rng):
    """Library: BFGS on the penalised likelihood, free and mixed."""
    estimator = random_estimator(rng)
    items = rng.permutation(60)[:28]
    seen = (rng.random(28) < 0.6).astype(float)
    for mixed in (False, True):
        basis = estimator.endpoints if mixed else np.eye(5)
        start = np.full(len(basis), 1 / 3 if mixed else 0.0)
        x, b = estimator.bank.slopes[items] @ basis.T, estimator.bank.difficulty[items]

        def loss(z, x=x, b=b, start=start):
            logits = x @ z - b
            return (np.logaddexp(0, logits) - seen * logits).sum() + 0.005 * ((z - start) ** 2).sum()

        theirs = minimize(loss, start, method="BFGS", options={"gtol": 1e-8}).x @ basis
        ours = estimator.ability(seen[None], items[None], mixed)[0]
        assert np.allclose(ours, theirs, atol=1e-4)


def test_many_fits_at_once_are_single_fits(rng):
    """Invariant: rows do not see each other."""
    x, b = rng.normal(size=(5, 28, 4)), rng.normal(size=(5, 28))
    y = (rng.random((5, 28)) < 0.6).astype(float)
    together = fit(x, b, y, np.zeros(4))
    single = [fit(x[i : i + 1], b[i : i + 1], y[i : i + 1], np.zeros(4))[0] for i in range(5)]
    assert np.allclose(together, single, rtol=0, atol=1e-8)


def test_a_known_ability_is_found(rng):
    """Simulation: 5,000 items drawn from the model, D = 5; each coordinate within 0.25 (about six standard errors)."""
    for _ in range(3):
        a, b, theta = rng.normal(size=(5000, 5)), rng.normal(size=5000), rng.normal(size=5)
        y = (rng.random(5000) < logistic(a @ theta - b)).astype(float)
        assert np.abs(fit(a[None], b[None], y[None], np.zeros(5))[0] - theta).max() < 0.25


def test_as_many_independent_endpoints_as_dimensions_are_a_free_fit(rng):
    """Identity: with M = D the mixtures are all of R^D, so the greatest likelihood is the same."""
    estimator = random_estimator(rng, items=200, dimension=4, endpoints=4)
    items = np.arange(200)[None]
    seen = (rng.random((1, 200)) < 0.6).astype(float)
    free, mixed = (estimator.ability(seen, items, m, 1e-9) for m in (False, True))
    assert likelihood(estimator.bank, free, seen) == pytest.approx(
        likelihood(estimator.bank, mixed, seen), abs=1e-6
    )


def test_calibration_is_ridge_regression_on_its_abilities(rng):
    """Library, D = 1: at the end the items are scikit-learn's penalised fits on some common ability scale.

    The gradient of the joint objective must vanish; abilities are recovered from the items as their own fits.
    """
    truth = rng.normal(size=(40, 1))
    chance = logistic(truth @ rng.uniform(0.5, 2, (1, 80)) - rng.normal(size=80))
    y = (rng.random(chance.shape) < chance).astype(float)
    bank = calibrate(y, 1)
    inputs = np.broadcast_to(bank.slopes, (40, 80, 1))
    ability = fit(inputs, np.broadcast_to(bank.difficulty, (40, 80)), y, np.zeros(1), 1.0)
    for i in range(0, 80, 9):
        x = np.column_stack([ability, np.ones(40)])
        model = LogisticRegression(C=1 / 0.3, fit_intercept=False, tol=1e-10).fit(x, y[:, i])
        assert np.allclose(model.coef_[0], [bank.slopes[i, 0], -bank.difficulty[i]], atol=0.02)
    assert abs(np.corrcoef(ability[:, 0], truth[:, 0])[0, 1]) > 0.9


def test_items_answered_alike_by_all_are_kept(rng):
    """They get finite parameters, easy or hard, not dropped."""
    y = (rng.random((12, 30)) < 0.5).astype(float)
    y[:, 0], y[:, 1] = 1, 0
    bank = calibrate(y, 5)
    assert bank.slopes.shape == (30, 5)
    assert np.isfinite(bank.slopes).all()
    assert bank.difficulty[0] < bank.difficulty[2:].min()
    assert bank.difficulty[1] > bank.difficulty[2:].max()


# --- networks and merges ------------------------------------------------------------------------------


def test_gradient_by_finite_differences(rng):
    """Central differences of the mean cross-entropy of each network, at random weights."""
    nets = tuple(rng.normal(0, 0.3, (2, *w.shape[1:])) for w in world.draw(rng, 64))
    x, y = rng.random((2, 6, 64)), rng.integers(0, 10, (2, 6))

    def loss(m):
        logits = world.forward(nets, x)[1][m]
        top = logits.max(-1)
        return (top + np.log(np.exp(logits - top[:, None]).sum(-1)) - logits[np.arange(6), y[m]]).mean()

    slopes = world.gradient(nets, x, y)
    for w, g in zip(nets, slopes, strict=True):
        for flat in rng.choice(w.size, 12, replace=False):
            at = np.unravel_index(flat, w.shape)
            kept, values = w[at], []
            for shift in (1e-5, -1e-5):
                w[at] = kept + shift
                values.append(loss(at[0]))
            w[at] = kept
            assert g[at] == pytest.approx((values[0] - values[1]) / 2e-5, abs=1e-6)


def test_training_together_is_training_alone(rng):
    """Invariant: with one batch order (a pool of one image), side by side or alone gives the same network."""
    images, labels = world.languages()
    items = images[0], labels
    start = world.draw(rng, 64)
    pools, steps = [np.array([3]), np.array([8]), np.array([5])], np.array([4, 9, 6])
    together = world.fine_tune(rng, start, items, pools, steps)
    for m in range(3):
        alone = world.fine_tune(rng, start, items, pools[m : m + 1], steps[m : m + 1])
        assert all(np.allclose(a[0], t[m], atol=1e-12) for a, t in zip(alone, together, strict=True))


def test_merges_at_the_corners_are_exact():
    """Identity: c = 0 is the base, one-hot c is that endpoint."""
    w = built()
    genomes = np.vstack([np.zeros(6), np.kron(np.eye(3), np.ones(2))])
    merged = world.merge(w.base, w.endpoints, genomes)
    for b, e, m in zip(w.base, w.endpoints, merged, strict=True):
        assert (m[0] == b[0]).all()
        assert (m[1:] == e).all()


def test_a_merge_is_task_arithmetic_per_layer(rng):
    """The formula written out, layer by layer."""
    w = built()
    c = rng.uniform(0, TOP, (3, 2))
    merged = world.merge(w.base, w.endpoints, c.reshape(1, -1))
    for i in range(4):
        expected = w.base[i][0] + sum(c[m, i // 2] * (w.endpoints[i][m] - w.base[i][0]) for m in range(3))
        assert np.allclose(merged[i][0], expected, atol=1e-12)


def test_answers_are_the_forward_pass():
    """A second way through the networks, one at a time."""
    w = built()
    x, y = w.search[0][:50], w.search[1][:50]
    found = world.answers(w.endpoints, (x, y))
    for m in range(3):
        w1, b1, w2, b2 = (part[m] for part in w.endpoints)
        assert (found[m] == (np.argmax(np.maximum(x @ w1 + b1, 0) @ w2 + b2, 1) == y)).all()


def test_no_image_is_trained_on_and_scored():
    """The three parts of the split are disjoint, and the item set is the same images in two languages."""
    w = built()
    assert w.search[0].shape == (1400, 64)
    assert w.test[0].shape == (2 * 597, 64)
    assert (w.search[1][:700] == w.search[1][700:]).all()
    upright, transposed = w.search[0][:700].reshape(-1, 8, 8), w.search[0][700:].reshape(-1, 8, 8)
    assert (upright.transpose(0, 2, 1) == transposed).all()


# --- the search ---------------------------------------------------------------------------------------


def test_the_search_never_loses_its_best_and_counts_right(rng):
    """Elitism: best fitness never falls; evaluations are population × generations; genes stay in the box."""
    asked = []

    def fitness(genomes):
        asked.append(len(genomes))
        assert ((genomes >= 0) & (genomes <= TOP)).all()
        return -((genomes - 0.4) ** 2).sum(1)

    genomes, best = evolve(rng, fitness, 6, 12, 10)
    assert (np.diff(best) >= 0).all()
    assert sum(asked) == 12 * 10
    assert np.allclose(fitness(genomes), best)
    assert best[-1] > best[0]


def test_crossover_keeps_the_mean_of_a_pair(rng):
    """Invariant of simulated binary crossover: without mutation and clipping, each pair's sum is kept."""
    parents = rng.uniform(0.55, 0.65, (8, 3))

    class NoMutation:
        def __init__(self):
            self.rng = np.random.default_rng(5)
            self.calls = 0

        def integers(self, *args):
            return self.rng.integers(*args)

        def random(self, shape):
            self.calls += 1
            return np.ones(shape) if self.calls == 5 else self.rng.random(shape)

    score = np.arange(8.0)
    children = offspring(NoMutation(), parents, score)
    rivals = np.random.default_rng(5).integers(0, 8, (2, 4, 2)).max(-1)  # the higher number is the fitter here
    assert np.allclose(children[:4] + children[4:], parents[rivals[0]] + parents[rivals[1]])
    assert not np.allclose(children[:4], parents[rivals[0]])


def test_counters_of_the_default_run():
    """By hand: 12 × 10 × 1400 = 168,000; 12 × 10 × 28 = 3,360 (50×); + 3 × 1400 = 7,560 with the endpoints (22×)."""
    measures = merge3.run(Settings(), 0).measures
    assert measures["evaluations"][FULL] == measures["searched"][FULL] == 168_000
    assert measures["evaluations"][MEAN] == measures["searched"][GMP] == 3_360
    assert measures["evaluations"][GMP] == measures["evaluations"][MP] == 7_560


# --- bad input and verdicts ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("items", 0),
        ("items", 1401),
        ("dimension", 0),
        ("calibration", 1),
        ("blend", -0.1),
        ("blend", 1.1),
        ("generations", 0),
        ("population", 1),
    ],
)
def test_bad_settings_are_named(name, value):
    with pytest.raises(ValueError, match=f"^{name} cannot be "):
        Settings.checked({name: value})


def test_bad_input_is_named(rng):
    estimator = random_estimator(rng)
    items, seen, ability = np.arange(20)[None], np.ones((1, 20)), np.zeros((1, 5))
    with pytest.raises(ValueError, match="endpoints"):
        replace(estimator, endpoints=estimator.endpoints[:1]).ability(seen, items, True)
    with pytest.raises(ValueError, match="blend"):
        estimator.accuracy(seen, items, ability, 1.1)
    for n in (0, 61):
        with pytest.raises(ValueError, match="items"):
            estimator.accuracy(np.ones((1, n)), np.zeros((1, n), dtype=int), ability, 0.5)
    with pytest.raises(ValueError, match="calibration"):
        calibrate(np.ones((1, 30)), 5)
    with pytest.raises(ValueError, match="dimension"):
        calibrate(np.ones((8, 30)), 0)
    with pytest.raises(ValueError, match="population"):
        evolve(rng, lambda g: g.sum(1), 6, 1, 10)
    with pytest.raises(ValueError, match="generations"):
        evolve(rng, lambda g: g.sum(1), 6, 12, 0)
    with pytest.raises(ValueError, match="genomes"):
        world.merge(built().base, built().endpoints, np.zeros((2, 5)))


def made_up(rng, gap=0.0, fold=50, kept=0.9):
    """Samples of 16 seeds with a given error gap, saving and retained share."""
    noise = rng.normal(0, 0.001, 16)
    flat = np.ones(16)
    error = {MEAN: 0.07 * flat, GMP: 0.07 + gap + noise, MP: 0.07 + noise, GP: 0.06 + noise}
    values = {("error", name): v for name, v in error.items()}
    values |= {("test", n): 0.8 * flat for n in (FULL, merge3.BEST, merge3.BASE)} | {
        ("test", GMP): 0.8 * kept + noise
    }
    for measure in ("searched", "evaluations"):
        values |= {(measure, FULL): 100 * fold * flat, (measure, GMP): 100 * flat}
    return Samples(values, range(16))


@pytest.mark.parametrize(
    ("change", "claim", "outcome"),
    [
        ({"fold": 50}, 0, "holds"),
        ({"fold": 49}, 0, "fails"),
        ({"gap": -0.01}, 1, "holds"),
        ({"gap": -0.005}, 1, "unclear"),
        ({"gap": 0.0}, 1, "fails"),
        ({"gap": 0.01}, 1, "fails"),
        ({"kept": 0.9}, 3, "holds"),
        ({"kept": 0.8}, 3, "unclear"),
        ({"kept": 0.7}, 3, "fails"),
    ],
)
def test_rules_give_every_outcome(change, claim, outcome):
    """By construction of the samples."""
    samples = made_up(np.random.default_rng(2), **change)
    assert merge3.DEMO.claims[claim].judge(samples, Settings()).outcome == outcome


def test_a_mixture_of_three_says_nothing_in_three_dimensions():
    claim = merge3.DEMO.claims[2]
    assert claim.judge(made_up(np.random.default_rng(0)), Settings(dimension=3)).outcome == "untestable"


def test_plenty_of_items_take_the_advantage_away():
    """Break it: on the same three seeds gmp-IRT errs less than the mean at n = 28, and not by half a point at 280."""
    gaps = {28: [], 280: []}
    for seed in range(3):
        run = merge3.run(Settings(generations=2), seed)
        for n, found in gaps.items():
            found.append(run.errors[GMP][n] - run.errors[MEAN][n])
    assert np.mean(gaps[28]) < -0.005 < np.mean(gaps[280])
