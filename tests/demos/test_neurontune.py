"""NeuronTune: right values by hand, from invariants, finite differences and plain loops."""

import math
from functools import cache

import numpy as np
import pytest
from autograd import grad
from autograd import numpy as anp
from sklearn.metrics import precision_score, recall_score

from core.demos import _neurontune_net as net
from core.demos import _neurontune_rivals as rivals
from core.demos.neurontune import (
    DEMO,
    LAST,
    RANDOM,
    ROLES,
    TRAINED,
    TUNED,
    Settings,
    flag,
    flag_quality,
    follows,
    heads,
    make_world,
    neuron_scores,
    outcome,
    run,
)
from core.lab.nets import cross_entropy
from core.lab.verdicts import Samples

SMALL = Settings(n=400, n_val=300, n_test=200, units=16)


@pytest.fixture
def rng():
    return np.random.default_rng(11)


@cache
def world(seed=3):
    return make_world(SMALL, np.random.default_rng(seed), np.random.default_rng(seed + 1))


def embedded(part):
    """Activations, labels and the trained network's predictions of one data set."""
    model, data = world().model, world().parts[part]
    v = model.embed(data.x)
    return v, data.y, np.argmax(v @ model.w + model.b, axis=1)


# --- scores and flags ---------------------------------------------------------------------------------


def test_scores_by_hand():
    """Class 0 has hits (1,0), (2,0), (3,1) with medians 2 and 0 and the mistake (10,5); class 1 has no mistake."""
    v = np.array([[1.0, 0], [2, 0], [3, 1], [10, 5], [0, 7], [0, 9]])
    delta = neuron_scores(v, np.array([0, 0, 0, 0, 1, 1]), np.array([0, 0, 0, 1, 1, 1]))
    assert delta[0].tolist() == [8, 5]
    assert np.isnan(delta[1]).all()
    score, _ = flag(delta, 0.25)
    assert score.tolist() == [8, 5]
    assert flag(delta, 0.5)[1].tolist() == [True, True]
    assert flag(delta, 0.7)[1].tolist() == [True, False]


def test_scores_against_a_loop():
    """Brute force: sort the activations of each neuron and take the middle of the two sets."""

    def middle(values):
        values = sorted(values)
        return (values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2

    v, y, predicted = embedded(net.VALIDATION)
    delta = neuron_scores(v, y, predicted)
    for c in (0, 1):
        for i in range(v.shape[1]):
            wrong = [a for a, label, p in zip(v[:, i], y, predicted, strict=True) if label == c != p]
            right = [a for a, label, p in zip(v[:, i], y, predicted, strict=True) if label == c == p]
            assert delta[c, i] == pytest.approx(middle(wrong) - middle(right), abs=1e-6)


def test_threshold_is_strict_and_needs_a_positive_score():
    """λ = 1 flags nobody, not even the largest; where all scores are negative nobody is flagged at any λ."""
    v, y, predicted = embedded(net.VALIDATION)
    delta = neuron_scores(v, y, predicted)
    assert not flag(delta, 1)[1].any()
    score, flagged = flag(delta, 0)
    assert (flagged == (score > 0)).all()
    assert flagged.any()
    assert not flag(-np.ones((2, 5)), 0)[1].any()


@pytest.mark.parametrize("lam", [0, 0.25, 0.7])
def test_permuting_and_scaling_the_neurons(rng, lam):
    """Invariants: a permutation permutes δ; a factor c > 0 (a power of two: exact) scales δ, flags stay."""
    v, y, predicted = embedded(net.VALIDATION)
    delta = neuron_scores(v, y, predicted)
    order = rng.permutation(v.shape[1])
    assert (neuron_scores(v[:, order], y, predicted) == delta[:, order]).all()
    assert (neuron_scores(8 * v, y, predicted) == 8 * delta).all()
    assert (flag(8 * delta, lam)[1] == flag(delta, lam)[1]).all()


def test_no_mistakes_flags_nobody_and_says_so():
    """All δ undefined: nothing is silenced; a run on clean, clear digits goes through with a message."""
    v, y, _ = embedded(net.VALIDATION)
    score, flagged = flag(neuron_scores(v, y, y), 0.25)
    assert np.isnan(score).all()
    assert not flagged.any()
    clear = SMALL.replace(corr=0.5, val_corr=0.5, contrast=1, noise=0, n_val=40, steps=300)
    found = next(r for r in (run(clear, seed) for seed in range(8)) if not np.isfinite(r.score).any())
    assert "no mistakes" in outcome(found)
    assert found.measures["worst"][TUNED] == found.measures["worst"][LAST]
    for figure in DEMO.figures:
        assert DEMO.draw(figure, found).data


def test_what_a_neuron_follows_by_hand():
    """Activations (0, 0, 2, 2) with classes (0, 0, 1, 1): difference 2, sd 1; the attribute (0, 1, 0, 1): 0."""
    v = np.array([[0.0], [0], [2], [2]])
    assert follows(v, np.array([0, 0, 1, 1])) == pytest.approx(2)
    assert follows(v, np.array([0, 1, 0, 1])) == pytest.approx(0)


def test_flag_quality_against_scikit_learn(rng):
    """Library: precision and recall; no flag leaves the precision undefined."""
    strength, flagged = rng.random((50, 2)), rng.random(50) < 0.4
    truth = strength[:, 1] > strength[:, 0]
    found = flag_quality(strength, flagged)
    assert found["precision"] == pytest.approx(precision_score(truth, flagged))
    assert found["recall"] == pytest.approx(recall_score(truth, flagged))
    assert found["base rate"] == pytest.approx(truth.mean())
    assert math.isnan(flag_quality(strength, np.zeros(50, dtype=bool))["precision"])


# --- data ---------------------------------------------------------------------------------------------


def test_pools_are_disjoint_and_of_the_right_size(rng):
    """⌊n/2⌋ and ⌊3n/4⌋ of the 183, 174, 178 and 182 images of the digits 3, 8, 0 and 1."""
    pools = net.make_pools(rng)
    assert {d: tuple(map(len, parts)) for d, parts in pools.items()} == {
        3: (91, 46, 46), 8: (87, 43, 44), 0: (89, 44, 45), 1: (91, 45, 46),
    }  # fmt: skip
    every = np.concatenate([part for parts in pools.values() for part in parts])
    assert len(set(every)) == len(every) == 183 + 174 + 178 + 182


def test_attribute_agrees_with_class_as_often_as_asked(rng):
    """Binomial share over 40,000 draws: sd below 0.0025; the test set is balanced exactly."""
    for corr in (0.5, 0.8, 0.95, 1.0):
        y, a = net.draw_labels(rng, 40_000, corr)
        assert (y == a).mean() == pytest.approx(corr, abs=0.01)
        assert y.mean() == pytest.approx(0.5, abs=0.01)
    assert (np.bincount(world().parts[net.TEST].groups) == 50).all()


def test_pairs_hold_the_digits_and_noise_they_should(rng):
    """Without noise the right half is contrast × an image of the class's digit; the flip leaves it untouched."""
    pools = net.make_pools(rng)
    y, a = net.draw_labels(rng, 60, 0.8)
    data = net.draw_pairs(rng, pools, net.TEST, y, a, 0.3, 0.0)
    for x, label in zip(data.x[:, 64:], y, strict=True):
        images = net.digits()[0][pools[net.CLASS[label]][net.TEST]]
        assert np.abs(0.3 * images - x).max(axis=1).min() < 1e-6
    test, other = world().parts[net.TEST], world().other
    assert (test.x[:, 64:] == other.x[:, 64:]).all()
    assert (test.a == 1 - other.a).all()
    assert not np.isclose(test.x[:, :64], other.x[:, :64]).all(axis=1).any()


# --- training and retraining --------------------------------------------------------------------------


def test_gradient_against_autograd(rng):
    """Library: autograd on cross-entropy + decay/2 · (‖W1‖² + ‖W‖²) with the view inside the forward pass."""
    seen = net.view(6, 0.2)
    x, y = rng.normal(size=(20, 128)), rng.integers(0, 2, 20)
    p = [rng.normal(size=(128, 6)), rng.normal(size=6), rng.normal(size=(6, 2)), rng.normal(size=2)]

    def loss(p):
        logits = anp.maximum(x @ (seen * p[0]) + p[1], 0) @ p[2] + p[3]
        return cross_entropy(logits, y) + 0.05 * (anp.sum(p[0] ** 2) + anp.sum(p[2] ** 2))

    for ours, theirs in zip(net.gradient(p, seen, x, y, 0.1), grad(loss)(p), strict=True):
        assert np.allclose(ours, theirs, atol=1e-10)


def test_view_lets_half_of_the_units_look_left():
    """A unit of the first half sees left pixels fully and right ones by `mix`, one of the second the mirror."""
    seen = net.view(5, 0.25)
    assert (seen[:64, :2] == 1).all()
    assert (seen[64:, :2] == 0.25).all()
    assert (seen[:64, 2:] == 0.25).all()
    assert (seen[64:, 2:] == 1).all()


def test_stacked_retraining_against_one_head_at_a_time(rng):
    """Second way: Adam written out from its paper, for one masked head, with autograd's gradient."""
    v, y = rng.random((50, 4)), rng.integers(0, 2, 50)
    masks = np.array([[1.0, 1, 1, 1], [0, 1, 0, 1]])
    rows = rng.integers(0, 50, (2, 15, 8))
    start = rng.normal(size=(4, 2)), rng.normal(size=2)
    w, b = net.retrain(v, y, masks, rows, start)
    for k in range(2):
        theta, m, s = np.vstack(start), 0.0, 0.0
        for t in range(15):
            batch = rows[k, t]
            h = np.hstack([v[batch] * masks[k], np.ones((8, 1))])
            g = grad(lambda q, h=h, batch=batch: cross_entropy(h @ q, y[batch]))(theta)
            m, s = 0.9 * m + 0.1 * g, 0.999 * s + 0.001 * g**2
            theta = theta - 0.01 * (m / (1 - 0.9 ** (t + 1))) / (np.sqrt(s / (1 - 0.999 ** (t + 1))) + 1e-8)
        assert np.allclose(np.vstack([w[k], b[k]]), theta, atol=1e-10)
    assert (w[1, [0, 2]] == start[0][[0, 2]]).all()  # no gradient reaches a silenced neuron


def test_a_silenced_neuron_has_no_influence(rng):
    """Exactly: whatever its activation at test time, no logit and no prediction moves."""
    v, y = rng.random((30, 4)), rng.integers(0, 2, 30)
    masks = np.array([[1.0, 0, 1, 1]])
    w, b = net.retrain(v, y, masks, rng.integers(0, 30, (1, 20, 8)), (rng.normal(size=(4, 2)), np.zeros(2)))
    changed = v.copy()
    changed[:, 1] = 1e6 * rng.random(30)
    assert ((v @ (masks[0][:, None] * w[0])) == (changed @ (masks[0][:, None] * w[0]))).all()
    assert (net.predict(v, masks, w, b) == net.predict(changed, masks, w, b)).all()


def test_permuting_the_neurons_changes_no_prediction(rng):
    """Invariant of retraining: the neurons have no order (sums in float64, so up to rounding)."""
    v, y, order = rng.random((40, 6)), rng.integers(0, 2, 40), rng.permutation(6)
    masks, rows, w0 = (rng.random((1, 6)) < 0.6) * 1.0, rng.integers(0, 40, (1, 30, 8)), rng.normal(size=(6, 2))
    w, b = net.retrain(v, y, masks, rows, (w0, np.zeros(2)))
    w2, b2 = net.retrain(v[:, order], y, masks[:, order], rows, (w0[order], np.zeros(2)))
    assert np.allclose(w[:, order], w2, atol=1e-9)
    assert np.allclose(b, b2, atol=1e-9)


def test_batches_are_balanced_and_follow_their_weights(rng):
    """Equal runs per class or group; inside a class the shares are the weights (20,000 draws: sd 0.004)."""
    y = np.array([0, 0, 0, 1, 1])
    weights = np.array([1.0, 2, 1, 3, 1])
    rows = net.draw_batches(rng.random((1250, 32)), y, 2, weights)
    assert (y[rows].sum(axis=1) == 16).all()
    assert np.allclose(np.bincount(rows.ravel()) / rows.size, [1 / 8, 2 / 8, 1 / 8, 3 / 8, 1 / 8], atol=0.015)
    tune = world().parts[net.TRAIN]
    rows = rivals.dfr(rng.random((50, 64)), tune)
    assert all((np.bincount(tune.groups[batch], minlength=4) == 16).all() for batch in rows)


def test_afr_and_jtt_draw_by_their_weights(rng):
    """By hand: with p = ½ and p ≈ 1 AFR's odds are e² to 1; JTT draws a mistake 20 times as often as a hit."""
    tune = net.Pairs(np.zeros((4, 128)), np.array([0, 0, 1, 1]), np.array([0, 0, 1, 1]))
    u = rng.random((2000, 64))
    half = np.array([[0.0, 0], [40, 0], [0, 0], [0, 40]])
    share = np.bincount(rivals.afr(u, tune, half).ravel(), minlength=4)
    assert share[0] / share[1] == pytest.approx(math.e**2, rel=0.06)
    mistaken = np.array([[0.0, 1], [1, 0], [1, 0], [0, 1]])
    share = np.bincount(rivals.jtt(u, tune, mistaken).ravel(), minlength=4)
    assert share[0] / share[1] == pytest.approx(20, rel=0.1)


def test_dfr_with_classes_as_groups_is_the_last_layer(rng):
    """Same numbers, same strata: exactly the same batches, so exactly the same head."""
    tune, u = world().parts[net.TRAIN], rng.random((20, 64))
    assert (net.draw_batches(u, tune.y, 2, name="groups") == rivals.class_balanced(u, tune)).all()


# --- runs ---------------------------------------------------------------------------------------------


def test_threshold_one_is_the_last_layer_exactly():
    """Nothing is silenced, batches are the same: NeuronTune, random mask and last layer are one method."""
    found = run(SMALL.replace(lam=1), 2).measures
    for measure in ("worst", "average", "flip"):
        assert found[measure][TUNED] == found[measure][LAST] == found[measure][RANDOM]
    assert found["silenced"][TUNED] == 0


def test_without_a_flag_the_claim_on_precision_gains_nothing():
    """A seed without flags counts as a gain of 0, so the verdict is no practical difference, not a success."""
    values = {("flags", "precision"): np.full(8, np.nan), ("flags", "base rate"): np.full(8, 0.5),
              ("silenced", TUNED): np.zeros(8)}  # fmt: skip
    assert DEMO.claims[0].judge(Samples(values, range(8)), Settings()).outcome == "unclear"


def test_all_neurons_masked_leaves_a_constant_prediction():
    """v = 0 for everybody: one class for all, so the worst group has accuracy 0 and nothing flips."""
    found = next(
        r for r in (run(SMALL.replace(lam=0, units=2), k) for k in range(60)) if r.measures["silenced"][TUNED] == 2
    )
    assert "all neurons masked" in outcome(found)
    assert found.measures["worst"][TUNED] == 0
    assert found.measures["average"][TUNED] == 0.5
    assert found.measures["flip"][TUNED] == 0
    for figure in DEMO.figures:
        assert DEMO.draw(figure, found).data


@pytest.mark.parametrize("seed", [0, 1])
def test_worst_group_is_at_most_the_average(seed):
    """The test set is balanced, so the average is the mean of the groups and the worst is their least."""
    found = run(SMALL, seed).measures
    for m in ROLES:
        groups = [by[m] for name, by in found.items() if name.startswith("group")]
        assert found["worst"][m] == pytest.approx(min(groups))
        assert found["average"][m] == pytest.approx(np.mean(groups))
        assert found["worst"][m] <= found["average"][m] <= 1


def test_the_curve_over_thresholds_agrees_with_runs_at_them():
    """The worst group at λ on the curve is what a run with this λ measures."""
    curve = run(SMALL, 4).measures["worst_at"]
    for lam in (0.0, 0.2, 0.7):
        assert curve[f"λ = {lam:g}"] == run(SMALL.replace(lam=lam), 4).measures["worst"][TUNED]


def test_the_attribute_and_the_test_data_do_not_enter():
    """Shuffled attributes and other test data leave every head but DFR's as it was."""
    w = world()
    v, y, predicted = embedded(net.VALIDATION)
    delta = neuron_scores(v, y, predicted)
    blind = tuple(net.Pairs(p.x, p.y, np.roll(p.a, 1)) for p in w.parts[:2])
    other = type(w)((*blind, w.parts[net.TRAIN]), w.other, w.model)
    one, two = (heads(SMALL, q, np.random.default_rng(0), delta) for q in (w, other))
    for m in one:
        same = all((a == b).all() for a, b in zip(one[m], two[m], strict=True))
        assert same == (not m.startswith("DFR")), m


def test_break_it_removes_the_advantage():
    """Four seeds, paired: ahead of the trained network by default, behind it where there is nothing to fix."""
    gains = {}
    for preset in ("Default", DEMO.break_it):
        found = [run(DEMO.presets[preset], seed).measures["worst"] for seed in range(4)]
        gains[preset] = np.mean([f[TUNED] - f[TRAINED] for f in found])
    assert gains["Default"] > 0 > gains[DEMO.break_it]


# --- bad input ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [("corr", 0.4), ("corr", 1.1), ("val_corr", 0.4), ("val_corr", 1.1), ("lam", -0.1), ("lam", 1.1), ("contrast", 0),
     ("contrast", -1), ("noise", -0.1), ("units", 1), ("n", 39), ("n_val", 39), ("noise", math.nan),
     ("tune_on", "test")],
)  # fmt: skip
def test_bad_settings_are_named(name, value):
    with pytest.raises(ValueError, match=f"^{name} cannot be .*: it may be "):
        Settings.checked({name: value})


def test_bad_input_is_named(rng):
    v, y, predicted = embedded(net.VALIDATION)
    with pytest.raises(ValueError, match="labels"):
        neuron_scores(v, np.ones_like(y), predicted)
    with pytest.raises(ValueError, match="activations"):
        neuron_scores(np.where(v == v.max(), np.nan, v), y, predicted)
    for lam in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match="lam"):
            flag(neuron_scores(v, y, predicted), lam)
    for corr in (0.4, 1.1):
        with pytest.raises(ValueError, match="corr"):
            net.draw_labels(rng, 50, corr)


def test_a_perfect_correlation_leaves_dfr_without_groups(rng):
    """corr = 1: two groups have no training sample; DFR says so, the others still draw their batches."""
    y, a = net.draw_labels(rng, 100, 1.0)
    tune, u = net.Pairs(np.zeros((100, 128)), y, a), rng.random((5, 64))
    with pytest.raises(ValueError, match="groups"):
        rivals.dfr(u, tune)
    logits = rng.normal(size=(100, 2))
    for rows in (rivals.class_balanced(u, tune), rivals.afr(u, tune, logits), rivals.jtt(u, tune, logits)):
        assert (y[rows].sum(axis=1) == 32).all()
