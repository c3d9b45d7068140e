"""STAMP: right values from SciPy, closed forms, finite differences, plain loops and invariants."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from core.demos import _stamp_model as lm
from core.demos import stamp
from core.demos._stamp_rephrase import fluency, green_slots, is_green, rephrase
from core.demos._stamp_tests import differences, lowest_mean, order_p, paired_p, rank_p, unpaired_p
from core.demos._stamp_text import BASE, GROUPS, SYNONYMS, corpus, slots_of, words_of
from core.demos._stamp_world import EASY, HARD, RANDOM, choose, joins, learn, make_world, training_rows
from core.demos.stamp import MIN_K, ONE, ORDER, PLAIN, STAMP, UNPAIRED, Settings
from core.lab.verdicts import Samples


@pytest.fixture
def rng():
    return np.random.default_rng(5)


@pytest.fixture(scope="module")
def world():
    return make_world(seed=7, n=14, private=5, delta=2.0, gamma=0.5, how=RANDOM)


def small_model(rng, words: int = 11) -> lm.Model:
    """A model of a few words in double precision, with rows of any size."""
    shapes = ((words, 3), (words, 3), (words, 3), (words,))
    return lm.Model(*(rng.normal(size=s) for s in shapes))


# --- the tests of membership --------------------------------------------------------------------------


def test_paired_p_is_scipys(rng):
    """Library: scipy.stats.ttest_rel of public against private mean, one-sided."""
    table = rng.normal(7, 0.3, (14, 6))
    expected = stats.ttest_rel(table[:, 0], table[:, 1:].mean(axis=1), alternative="less").pvalue
    assert paired_p(differences(table)) == pytest.approx(expected, abs=1e-12)


def test_equal_twins_count_once_and_difficulty_cancels(rng):
    """Invariants: copies of one twin change nothing; nor does a constant for all versions of a document."""
    table = rng.normal(7, 0.3, (14, 2))
    p = paired_p(differences(table))
    assert paired_p(differences(table[:, [0, 1, 1, 1, 1, 1]])) == pytest.approx(p, abs=1e-12)
    assert paired_p(differences(table + rng.normal(0, 5, (14, 1)))) == pytest.approx(p, abs=1e-10)


def test_equal_differences_have_no_spread():
    """Limit: without spread t is infinite with the sign of the mean, so p is 0 or 1; at 0 there is no evidence."""
    assert [paired_p(np.full(5, d)) for d in (0.1, 0.0, -0.1)] == [0.0, 1.0, 1.0]


def test_the_paired_test_is_calibrated(rng):
    """Under exchangeable versions p is uniform: 4,000 draws, 5 % ± 4 standard errors, with document difficulty."""
    tables = rng.normal(0, 1, (4000, 10, 4)) + rng.normal(0, 5, (4000, 10, 1))
    share = np.mean([paired_p(differences(t)) < 0.05 for t in tables])
    assert abs(share - 0.05) < 4 * np.sqrt(0.05 * 0.95 / 4000)


def test_ranks_and_low_words_by_hand():
    """By hand: one of three twins is as cheap as the published version, p = 2/4; lowest 20 % of 10 are two words."""
    assert rank_p(np.array([[2.0, 1.0, 3.0, 4.0]])) == 0.5
    assert lowest_mean(np.array([-1.0, -9, -2, -3, -7, -1, -1, -2, -1, -1])) == 8
    assert lowest_mean(np.array([-4.0, -1.0])) == 4


def test_unpaired_p_from_welchs_formula(rng):
    """Closed form of Welch's t and its degrees of freedom."""
    a, b = rng.normal(0, 1, 9), rng.normal(0.5, 2, 12)
    va, vb = a.var(ddof=1) / 9, b.var(ddof=1) / 12
    t, dof = (a.mean() - b.mean()) / np.sqrt(va + vb), (va + vb) ** 2 / (va**2 / 8 + vb**2 / 11)
    assert unpaired_p(a, b) == pytest.approx(stats.t.cdf(t, dof), abs=1e-12)


def test_order_p_finds_a_chain_and_nothing_in_noise(rng):
    """A join table that favours 0 → 1 → … has the smallest possible p, 1/40; one that cannot tell orders has 1."""
    chain = np.zeros((9, 8))
    chain[8, 0] = chain[np.arange(7), np.arange(1, 8)] = 1
    assert order_p(chain, rng) == 1 / 40
    assert order_p(np.zeros((9, 8)), rng) == 1


def test_joins_give_the_likelihood_of_an_order(world):
    """Plain scoring of the joined text: two orders differ by exactly what their joins differ by."""
    documents, model = world.versions[0][:4], lm.base_model()
    table = joins(model, documents)

    def plain(order):
        text = np.r_[0, 0, np.concatenate([corpus().numbers(documents[i]) for i in order])]
        return lm.log_probabilities(model, lm.triples(text)).sum(dtype=float)

    def by_joins(order):
        return table[np.r_[4, order[:-1]], order].sum()

    one, other = np.array([0, 1, 2, 3]), np.array([2, 0, 3, 1])
    assert by_joins(one) - by_joins(other) == pytest.approx(plain(one) - plain(other), abs=0.01)


# --- the rephraser ------------------------------------------------------------------------------------


def test_only_slots_change_and_only_to_synonyms(world):
    """Invariant, all documents and versions: same length, same other words, slots stay within their group."""
    for version in (*world.versions, *world.plain):
        for i, words in zip(world.members, version, strict=True):
            original = corpus().documents[i]
            slots = set(slots_of(original))
            assert len(words) == len(original)
            for at, (a, b) in enumerate(zip(original, words, strict=True)):
                assert b in SYNONYMS[a] if at in slots else a == b


def test_without_bonus_the_key_does_nothing(world):
    """δ = 0: equal streams give equal words under any key, and the watermark is not there."""
    document = corpus().documents[3]
    one, other = (rephrase(corpus(), document, k, 0, 0.5, np.random.default_rng(1)) for k in (1, 2))
    assert one == other
    z = []
    for i, words in zip(world.members, world.plain[0], strict=True):
        green = green_slots(corpus().documents[i], words, world.keys[0], 0.5)
        z.append((green.sum() - 0.5 * len(green)) / np.sqrt(len(green) / 4))
    assert abs(np.mean(z)) < 0.6


def test_a_huge_bonus_always_picks_green(rng):
    """δ = 50: a slot that has a green candidate holds a green word."""
    for key, document in enumerate(corpus().documents[:10]):
        words = rephrase(corpus(), document, key, 50.0, 0.5, rng)
        for i, green in zip(slots_of(document), green_slots(document, words, key, 0.5), strict=True):
            options = SYNONYMS[document[i]]
            assert green == any(is_green(key, words[max(0, i - 3) : i], w, 0.5) for w in options)


def test_slots_are_sampled_with_the_stated_probabilities(rng):
    """One slot after one word, 4,000 draws: shares follow (count of the pair + μ p₁) e^δ within 4 standard errors."""
    document, key, delta = ["of", "results"], 12, 1.0
    draws = [rephrase(corpus(), document, key, delta, 0.5, rng)[1] for _ in range(4000)]
    background = corpus()
    weight = {}
    for w in SYNONYMS["results"]:
        alone = (background.words[w] + 0.5) / (60_000 + 2870)
        weight[w] = (background.pairs["of", w] + 20 * alone) * np.exp(delta * is_green(key, ["of"], w, 0.5))
    for w, value in weight.items():
        p = value / sum(weight.values())
        assert abs(draws.count(w) / 4000 - p) < 4 * np.sqrt(p * (1 - p) / 4000)
    assert np.exp(fluency(background, "of", sorted(background.vocabulary))).sum() == pytest.approx(1, abs=0.05)


def test_half_of_all_words_are_green(rng):
    """γ = 0.5 over 20,000 random contexts and candidates; γ = 0.2 likewise."""
    names = list(corpus().vocabulary)
    picks = rng.integers(0, len(names), (20_000, 4))
    for gamma in (0.5, 0.2):
        share = np.mean([is_green(9, [names[i] for i in c[:3]], names[c[3]], gamma) for c in picks])
        assert abs(share - gamma) < 0.012


def test_green_is_the_same_in_a_new_process():
    """The hash does not depend on Python's salted `hash`."""
    code = (
        "from core.demos._stamp_rephrase import is_green\n"
        "print([is_green(k, ['we', 'also', 'then'], 'show', 0.5) for k in range(20)])"
    )
    root = Path(__file__).parents[2]
    told = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True).stdout
    assert told.strip() == str([is_green(k, ["we", "also", "then"], "show", 0.5) for k in range(20)])


def test_the_text_is_what_the_page_says():
    """Counts given in the text: 38 abstracts, 101 groups of 255 words, 2,869 words besides the unknown one."""
    text = corpus()
    assert (len(text.documents), len(GROUPS), len(SYNONYMS)) == (38, 101, 255)
    assert len(text.background) == 60_000
    assert all(w in text.vocabulary for d in text.documents for w in d)
    assert SYNONYMS["results"] == ("leads", "results")
    assert min(len(slots_of(d)) for d in text.documents) >= 1


# --- the language model -------------------------------------------------------------------------------


def test_scores_are_those_of_plain_scoring(world):
    """Second way: a whole softmax for every triple, none shared."""
    model = lm.base_model()
    rows = lm.triples(corpus().numbers(world.versions[0][0]))
    rows = np.concatenate([rows, rows[::2]])
    p = lm.softmax(model, model.hidden(rows))
    assert np.allclose(p.sum(axis=1), 1, atol=1e-5)
    plain = np.log(p[np.arange(len(rows)), rows[:, 2]])
    assert np.allclose(lm.log_probabilities(model, rows), plain, atol=1e-5)


def test_gradients_against_finite_differences(rng):
    """Central differences of the loss in double precision, every parameter, repeated words in the batch."""
    model, rows = small_model(rng), rng.integers(0, 11, (30, 3))
    for theta, (where, g) in zip(model.parameters, lm.gradients(model, rows), strict=True):
        full = np.zeros_like(theta)
        full[where] = g
        for at in np.ndindex(theta.shape):
            theta[at] += 1e-5
            up = lm.loss(model, rows)
            theta[at] -= 2e-5
            down = lm.loss(model, rows)
            theta[at] += 1e-5
            assert full[at] == pytest.approx((up - down) / 2e-5, rel=1e-3, abs=1e-6)


def test_training_agrees_with_a_dense_adagrad(rng):
    """A second implementation: one-hot matrices, no touched rows, one accumulator a row."""
    start, rows = small_model(rng), rng.integers(0, 11, (600, 3))
    found = lm.train(start, rows, 0.1, np.random.default_rng(3))
    e1, e2, w, b = (a.copy() for a in start.parameters)
    seen = [np.full((11, 1), 1e-3) for _ in range(3)] + [np.full(11, 1e-3)]
    order = np.random.default_rng(3).permutation(600)
    for batch in (order[:256], order[256:512], order[512:]):
        one, two, target = (np.eye(11)[rows[batch, k]] for k in (1, 0, 2))
        h = one @ e1 + two @ e2
        p = np.exp(h @ w.T + b)
        r = p / p.sum(1, keepdims=True) - target
        slopes = one.T @ r @ w, two.T @ r @ w, r.T @ h, r.sum(0)
        for theta, total, g in zip((e1, e2, w, b), seen, slopes, strict=True):
            total += (g**2).mean(1, keepdims=True) if g.ndim == 2 else g**2
            theta -= 0.1 * g / np.sqrt(total)
    for ours, theirs in zip(found.parameters, (e1, e2, w, b), strict=True):
        assert np.allclose(ours, theirs, atol=1e-10)


def test_the_second_pass_leaves_the_base_model_alone(world):
    """Invariant: the shared base model is copied, and a change of it would be refused."""
    before = [a.copy() for a in lm.base_model().parameters]
    learn(world, world.versions[0], 0.05, one_file=False)
    assert all((a == b).all() for a, b in zip(before, lm.base_model().parameters, strict=True))
    assert not lm.base_model().bias.flags.writeable


def test_what_is_in_the_training_text(world):
    """Only the released versions are added; no original of a published document and no held-out one is read."""
    without, rows = training_rows(world, [], False), training_rows(world, world.versions[0], False)
    added = np.concatenate([lm.triples(corpus().numbers(words)) for words in world.versions[0]])
    assert (rows[: len(without)] == without).all()
    assert (rows[len(without) :] == added).all()
    unused = sum(len(corpus().documents[i]) - 2 for i in world.unused)
    assert len(without) == len(corpus().background) - BASE - 2 + unused
    assert len(world.unused) == 10
    assert not set(world.unused) & set(world.members)
    in_file = training_rows(world, world.versions[0], True)
    assert len(in_file) == len(rows) + 2 * 13  # two words after each of 13 joins


@pytest.mark.parametrize("how", [RANDOM, EASY, HARD])
def test_published_and_held_out_documents(how, rng):
    """Disjoint and complete; easy members are easier than held-out ones, up to noise, and hard ones harder."""
    familiar = corpus().familiar
    members, held, unused = choose(14, how, familiar, rng)
    assert sorted([*members, *held, *unused]) == list(range(38))
    gap = familiar[members].mean() - familiar[held].mean()
    assert {RANDOM: abs(gap) < 0.06, EASY: gap > 0.06, HARD: gap < -0.06}[how]


# --- the whole demo -----------------------------------------------------------------------------------


def test_one_key_and_no_watermark_are_special_cases():
    """J = 1 is STAMP with one private key; δ = 0 is STAMP without watermark."""
    p = stamp.run(Settings(keys=1, delta=0.0, documents=6), 2).measures["p_on"]
    assert p[STAMP] == p[ONE] == p[PLAIN]


def test_a_slow_learner_hardly_remembers():
    """Break it: at a fifth of the learning rate the published wording is less than half as much cheaper."""
    gaps = {rate: stamp.run(Settings(rate=rate), 1).measures["gap"][stamp.ON] for rate in (0.05, 0.01)}
    assert gaps[0.05] > 0.01
    assert gaps[0.01] < gaps[0.05] / 2


@pytest.mark.parametrize(
    ("name", "value"),
    [("documents", 1), ("documents", 20), ("keys", 0), ("delta", -1), ("rate", 0), ("gamma", 0), ("gamma", 1)],
)
def test_bad_settings_are_named(name, value):
    with pytest.raises(ValueError, match=f"^{name} cannot be .*: it may be "):
        Settings.checked({name: value})


def test_bad_input_is_named(rng):
    for n in (1, 20):
        with pytest.raises(ValueError, match="documents"):
            choose(n, RANDOM, corpus().familiar, rng)
    with pytest.raises(ValueError, match="documents"):
        slots_of(["no", "word", "here", "has", "any"])
    with pytest.raises(ValueError, match="documents"):
        paired_p(np.array([0.1]))
    with pytest.raises(ValueError, match="keys"):
        differences(np.ones((5, 1)))
    with pytest.raises(ValueError, match="text"):
        words_of(" 12 … ")
    with pytest.raises(ValueError, match="delta"):
        rephrase(corpus(), ["results"], 1, -1.0, 0.5, rng)
    with pytest.raises(ValueError, match="rate"):
        lm.train(small_model(rng), np.zeros((3, 3), dtype=int), 0.0, rng)
    for gamma in (0.0, 1.0):
        with pytest.raises(ValueError, match="gamma"):
            is_green(1, [], "show", gamma)


# --- the verdicts -------------------------------------------------------------------------------------


def runs(count: int, of: int = 16) -> np.ndarray:
    return (np.arange(of) < count).astype(float)


@pytest.mark.parametrize(
    ("hits", "p", "outcome"),
    [(16, 1e-4, "holds"), (16, 0.03, "unclear"), (10, 1e-4, "unclear"), (2, 0.3, "fails")],
)
def test_detection_can_hold_and_fail(hits, p, outcome):
    """Wilson intervals: 16/16 is above one half, 10/16 reaches over it, 2/16 is below; a weak median does not hold."""
    samples = Samples({("detected", STAMP): runs(hits), ("p_on", STAMP): np.full(16, p)}, range(16))
    assert stamp.detects(samples).outcome == outcome


@pytest.mark.parametrize(("alarms", "of", "outcome"), [(0, 16, "holds"), (2, 16, "holds"), (4, 16, "fails")])
def test_false_alarms_can_be_too_many(alarms, of, outcome):
    """Wilson intervals: 2/16 is [0.03, 0.36], which holds 0.05; 4/16 is [0.10, 0.49], above it."""
    samples = Samples({("false_alarm", STAMP): runs(alarms, of)}, range(of))
    assert stamp.rarely_accuses(samples).outcome == outcome


def test_a_few_runs_decide_nothing():
    """Four runs without an alarm, or all with a detection, are too few to say so."""
    values = {("false_alarm", STAMP): runs(0, 4), ("detected", STAMP): runs(4, 4), ("p_on", STAMP): np.zeros(4)}
    samples = Samples(values, range(4))
    assert stamp.rarely_accuses(samples).outcome == stamp.detects(samples).outcome == "unclear"


@pytest.mark.parametrize(
    ("rivals", "outcome"),
    [((0.2, 0.3, 0.0), "holds"), ((0.2, 1.0, 0.0), "unclear"), ((1.0, 1.0, 1.0), "fails")],
)
def test_rivals_must_all_be_beaten(rivals, outcome, rng):
    """Against all: holds; against some: unclear; against none, with no practical difference: fails."""
    net = {STAMP: 1.0} | dict(zip((UNPAIRED, MIN_K, ORDER), rivals, strict=True))
    values = {(m, k): v + rng.normal(0, 0.01, 16) for m in ("net", "net_random") for k, v in net.items()}
    assert stamp.beats_rivals(Samples(values, range(16))).outcome == outcome
