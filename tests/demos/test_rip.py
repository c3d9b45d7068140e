"""RIP: right values from the definition of the filter, from DPO's loss, and from scikit-learn."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from core.demos._rip_pictures import examples
from core.demos._rip_policy import (
    LENGTH,
    SKIP,
    TOKENS,
    dpo_gradient,
    fit_policy,
    log_probability,
    margin,
    sample,
    train,
)
from core.demos._rip_rivals import CHANCE, EVERY, IFD, ORACLE, PERPLEXITY, RIP, SIMILARITY, agreement, kept_sets
from core.demos._rip_world import BLEND, CLEAN, FLOOR, NOISE, World, make_pool, make_world, reward_table, with_bias
from core.demos.rip import START, Settings, pair, run, survivors, thresholds

TOGETHER = ("win_rate", "accuracy", "good_share")


@pytest.fixture
def rng():
    return np.random.default_rng(3)


@pytest.fixture
def small(rng):
    """A world of 60 prompts, 8 answers to each, their rewards and pairs."""
    world = make_world(rng, 60, 0.5, 40)
    answers = sample(world.start, world.pool, rng.random((8, 60, LENGTH)), 0.6)
    rewards = np.take_along_axis(world.table[None], answers[..., None], axis=-1)[..., 0].mean(axis=-1)
    return world, answers, rewards, pair(answers, rewards)


def loss(weights, start, x, pairs, beta):
    """DPO's mean loss written from its definition, with both normalisers of every log-probability."""

    def log_pi(w, tokens):
        logs = log_softmax(x @ w, axis=-1)
        return np.array([sum(logs[i, j, y[j]] for j in range(LENGTH)) for i, y in enumerate(tokens)])

    ratio = [log_pi(weights, y) - log_pi(start, y) for y in (pairs.best, pairs.worst)]
    return np.logaddexp(0, -beta * (ratio[0] - ratio[1])).mean()


# --- training -------------------------------------------------------------------------------------------------


def test_loss_at_the_start_is_log_2(small):
    """Closed form: π = π₀ gives m = 0 for every pair, −log σ(0) = log 2."""
    world, *_, pairs = small
    m = margin(np.zeros_like(world.start), world.pool, pairs.contrast, 0.5)
    assert (np.logaddexp(0, -m) == np.log(2)).all()


def test_margin_against_the_definition(small, rng):
    """The normalisers cancel: β Σⱼ xⱼ(W − W₀)Δⱼᵀ is the margin of log-probabilities."""
    world, *_, pairs = small
    change = rng.normal(size=world.start.shape)
    of = [
        log_probability(world.start + change, world.pool, y) - log_probability(world.start, world.pool, y)
        for y in (pairs.best, pairs.worst)
    ]
    assert np.allclose(margin(change, world.pool, pairs.contrast, 0.7), 0.7 * (of[0] - of[1]), atol=1e-10)
    assert np.logaddexp(0, -margin(change, world.pool, pairs.contrast, 0.7)).mean() == pytest.approx(
        loss(world.start + change, world.start, world.pool, pairs, 0.7), abs=1e-12
    )


@pytest.mark.parametrize("size", [0.0, 0.3])
def test_gradient_against_central_differences(small, rng, size):
    """Finite differences of the loss by definition, within 1e-8, at the start and away from it."""
    world, *_, pairs = small
    change = size * rng.normal(size=world.start.shape)
    gradient = dpo_gradient(change, world.pool, pairs.contrast, 0.5)
    for at in zip(rng.integers(0, 65, 25), rng.integers(0, TOKENS, 25), strict=True):
        step = np.zeros_like(change)
        step[at] = 1e-5
        up, down = (loss(world.start + change + s, world.start, world.pool, pairs, 0.5) for s in (step, -step))
        assert gradient[at] == pytest.approx((up - down) / 2e-5, abs=1e-8)


def test_gradient_at_the_start_is_half_beta_times_the_difference_of_scores(small):
    """Closed form: −β/2 (∇log π(y_w) − ∇log π(y_l)), with ∇log π = Σⱼ xⱼᵀ(e_y − softmax) written out."""
    world, *_, pairs = small
    x, p = world.pool, np.exp(log_softmax(world.pool @ world.start, axis=-1))
    score = [np.einsum("njf,njk->fk", x, np.eye(TOKENS)[y] - p) / len(x) for y in (pairs.best, pairs.worst)]
    found = dpo_gradient(np.zeros_like(world.start), x, pairs.contrast, 0.5)
    assert np.allclose(found, -0.25 * (score[0] - score[1]), atol=1e-12)


def test_stacked_sets_train_as_if_alone(small):
    """Independent second way: each set by itself, with its batches from the same uniform numbers."""
    world, *_, pairs = small
    sets = {"all": np.arange(60), "some": np.arange(7, 31)}
    together = train(world.start, world.pool, pairs.contrast, sets, 0.5, np.random.default_rng(4))
    for name, kept in sets.items():
        only = {name: kept}
        alone = train(world.start, world.pool, pairs.contrast, only, 0.5, np.random.default_rng(4))[name]
        assert np.allclose(alone, together[name], atol=1e-12)
        assert loss(alone, world.start, world.pool[kept], replace_pairs(pairs, kept), 0.5) < np.log(2)


def replace_pairs(pairs, kept):
    return replace(pairs, best=pairs.best[kept], worst=pairs.worst[kept])


def test_identical_pairs_change_nothing(small):
    """Δ = 0: gradient exactly 0, weights exactly those of the start."""
    world, answers, rewards, _ = small
    alike = pair(np.repeat(answers[:1], 8, axis=0), np.repeat(rewards[:1], 8, axis=0))
    assert (alike.gap == 0).all()
    assert (dpo_gradient(np.zeros_like(world.start), world.pool, alike.contrast, 0.5) == 0).all()
    trained = train(world.start, world.pool, alike.contrast, {RIP: np.arange(60)}, 0.5, np.random.default_rng(0))
    assert (trained[RIP] == world.start).all()


# --- the filter -----------------------------------------------------------------------------------------------


def test_pairs_and_filter_against_loops(small):
    """Brute force: best and worst by sorting, thresholds by sorted values, one prompt at a time."""
    _, answers, rewards, pairs = small
    tau = thresholds(pairs, 0.5, 0.25, 0.5)
    keep = survivors(pairs, tau)
    lows = [min(rewards[:, i]) for i in range(60)]
    assert tau[0] == pytest.approx((sorted(lows)[29] + sorted(lows)[30]) / 2)  # the median of 60
    for i in range(60):
        order = sorted(range(8), key=lambda a: rewards[a, i])
        assert pairs.worst_reward[i] == rewards[order[0], i]
        assert (pairs.worst[i] == answers[order[0], i]).all()
        top = max(rewards[:, i])
        assert (pairs.best[i] == answers[list(rewards[:, i]).index(top), i]).all()
        length = sum(token != SKIP for token in pairs.worst[i])
        passes = lows[i] >= tau[0], length >= tau[1], top - lows[i] <= tau[2]
        assert keep[i] == all(passes)


def test_ties_go_to_the_first_answer():
    answers = np.arange(3)[:, None, None] * np.ones((1, 2, LENGTH), dtype=int)
    pairs = pair(answers, np.array([[-1.0, -2.0], [-1.0, -1.0], [-3.0, -1.0]]))
    assert pairs.best[:, 0].tolist() == [0, 1]
    assert pairs.worst[:, 0].tolist() == [2, 0]


def test_open_thresholds_keep_every_prompt(small):
    *_, pairs = small
    assert survivors(pairs, thresholds(pairs, 0, 0, 1)).all()


def test_open_thresholds_make_rip_no_filter():
    """The same uniform numbers pick the batches: equal to the last digit."""
    found = run(Settings(reward_quantile=0, length_quantile=0, gap_quantile=1, prompts=300), 2).measures
    for measure in TOGETHER:
        assert found[measure][RIP] == found[measure][EVERY]
    assert found["kept_share"][RIP] == 1


def test_a_constant_for_one_prompt_moves_only_its_rejected_reward(small):
    _, answers, rewards, _ = small
    rewards = np.round(rewards * 64) / 64  # sums of such numbers are exact
    before = pair(answers, rewards)
    shift = np.where(np.arange(60) == 5, 0.75, 0)
    after = pair(answers, rewards + shift)
    assert (after.best == before.best).all()
    assert (after.worst == before.worst).all()
    assert (after.gap == before.gap).all()
    assert (after.worst_reward - before.worst_reward == shift).all()


def test_a_constant_for_all_prompts_moves_no_mask(small):
    _, answers, rewards, _ = small
    rewards = np.round(rewards * 64) / 64
    before, after = pair(answers, rewards), pair(answers, rewards + 2)
    for asked in ((0.5, 0.25, 0.5), (0.3, 0, 0.9), (0, 0.75, 1)):
        masks = [survivors(p, thresholds(p, *asked)) for p in (before, after)]
        assert (masks[0] == masks[1]).all()


def test_length_counts_what_is_not_skipped():
    answers = np.array([[[SKIP] * 4, [0, SKIP, 3, 9], [SKIP, 1, SKIP, SKIP], [1, 2, 3, 4]]])
    assert pair(answers, np.zeros((1, 4))).length.tolist() == [0, 3, 1, 4]


def test_equal_size_rivals(small, rng):
    """Everyone but "no filter" keeps as many prompts as RIP, each once; the oracle only clean ones."""
    world, answers, _, pairs = small
    keep = survivors(pairs, thresholds(pairs, 0.5, 0.25, 0.5))
    sets = kept_sets(world, pairs.best, pairs.best_reward, answers, keep, rng)
    assert len(sets.pop(EVERY)) == 60
    assert {len(np.unique(kept)) for kept in sets.values()} == {keep.sum()}
    assert (world.kind[sets[ORACLE]] == CLEAN).all()
    loss_of = -log_probability(world.start, world.pool, pairs.best) / LENGTH
    dropped = np.setdiff1d(np.arange(60), sets[PERPLEXITY])
    assert loss_of[sets[PERPLEXITY]].max() <= loss_of[dropped].min()
    assert loss_of[sets[IFD]].mean() > loss_of.mean()


def test_agreement_against_pairs_of_answers(small):
    """Brute force over all pairs of the N answers."""
    _, answers, *_ = small
    expected = np.mean([(answers[a] == answers[b]).mean(axis=1) for a, b in combinations(range(8), 2)], axis=0)
    assert np.allclose(agreement(answers), expected, atol=1e-14)
    assert (agreement(np.repeat(answers[:1], 5, axis=0)) == 1).all()


# --- policy, reward, data -------------------------------------------------------------------------------------


def test_a_uniform_policy(rng):
    """Closed form: W = 0 gives every response the log-probability −4·log 11."""
    logs = log_probability(
        np.zeros((65, TOKENS)), rng.random((20, LENGTH, 65)), rng.integers(0, TOKENS, (20, LENGTH))
    )
    assert np.allclose(logs, -4 * np.log(11), atol=1e-12)


def test_sampling_follows_the_tempered_softmax(rng):
    """Frequencies of 20,000 answers against exp(z/T)/Σ, within four standard errors; uniform 0 gives token 0."""
    weights, x = rng.normal(size=(65, TOKENS)) / 4, rng.random((1, LENGTH, 65))
    drawn = sample(weights, x, rng.random((20_000, 1, LENGTH)), 0.6)
    p = np.exp(x[0] @ weights / 0.6)
    p /= p.sum(axis=1, keepdims=True)
    share = (drawn[:, 0, :, None] == np.arange(TOKENS)).mean(axis=0)
    assert (np.abs(share - p) <= 4 * np.sqrt(p * (1 - p) / 20_000) + 1e-9).all()
    edge = sample(weights, x, np.stack([np.zeros((1, LENGTH)), np.full((1, LENGTH), 1 - 1e-16)]), 0.6)
    assert edge[0].tolist() == [[0] * LENGTH]
    assert (edge[1] < TOKENS).all()


def test_the_fit_approaches_the_regression_of_scikit_learn(rng):
    """The policy's cross-entropy after 200 steps is near the optimum that LogisticRegression finds."""
    world = make_world(rng, 10, 0.0, 10)
    x, y = world.test.reshape(-1, 65), world.truth.ravel()
    x, y = np.repeat(x, 3, axis=0), np.repeat(y, 3)
    weights = fit_policy(x, y)
    reached = -log_softmax(x @ weights, axis=1)[np.arange(len(y)), y].mean()
    best = LogisticRegression(C=1 / (2e-4 * len(y)), fit_intercept=False, max_iter=2000).fit(x, y)
    optimum = -best.predict_log_proba(x)[np.arange(len(y)), np.searchsorted(best.classes_, y)].mean()
    assert optimum - 1e-3 <= reached <= optimum + 0.1


def test_reward_of_a_skip_and_the_floor(rng):
    """A skip is a blind guess among ten digits; nothing is below the floor; digits of one image sum to 1."""
    images, labels = rng.random((60, 64)), np.arange(60) % 10
    images[np.arange(60), labels] += 40
    table = reward_table(LogisticRegression(C=1, max_iter=500).fit(images, labels), images.reshape(15, LENGTH, 64))
    assert (table[..., SKIP] == np.log(0.1)).all()
    assert table.min() == FLOOR
    assert (np.exp(table[..., :SKIP]).sum(axis=-1) <= 1 + 10 * np.exp(FLOOR)).all()
    assert (np.exp(table[..., :SKIP]).sum(axis=-1) >= 1 - 1e-9).all()


def test_the_pool_is_what_it_says(rng):
    """Half of the low-quality share noisy, half blends; clean strips are images; noise is clipped to 0…1.5."""
    images = rng.random((50, 64))
    strips, kind = make_pool(rng, images, 400, 0.5)
    assert [(kind == k).sum() for k in (CLEAN, BLEND, NOISE)] == [200, 100, 100]
    known = {row.tobytes() for row in images}
    assert all(row.tobytes() in known for row in strips[kind == CLEAN].reshape(-1, 64))
    noisy = strips[kind == NOISE]
    assert (noisy.min(), noisy.max()) == (0, 1.5)
    halves = {((a + b) / 2).tobytes() for a in images for b in images}
    assert all(row.tobytes() in halves for row in strips[kind == BLEND].reshape(-1, 64))
    assert (with_bias(strips)[..., -1] == 1).all()


def test_the_share_of_poor_prompts_changes_nothing_else():
    """The same starting policy and test strips at every share."""
    worlds = [make_world(np.random.default_rng(8), 50, share, 30) for share in (0.0, 0.7)]
    for field in ("start", "test", "truth"):
        assert (getattr(worlds[0], field) == getattr(worlds[1], field)).all()


# --- whole runs -----------------------------------------------------------------------------------------------


def test_one_answer_per_prompt_leaves_the_policy_alone():
    """N = 1: chosen is rejected, no gap, win rate exactly ½; similarity is not defined and left out."""
    found = run(Settings(samples=1, prompts=300), 1).measures
    assert set(found["win_rate"].values()) == {0.5}
    assert set(found["accuracy"].values()) == {found["accuracy"][START]}
    assert set(found["idle_share"].values()) == {1.0}
    assert found["auc"]["gap"] == 0.5
    assert SIMILARITY not in found["win_rate"]


def test_measures_against_the_run(rng):
    """Shares and AUC from the run's own arrays, the AUC with scikit-learn."""
    found = run(Settings(prompts=500), 6)
    clean = found.kind == CLEAN
    assert found.measures["good_share"][RIP] == clean[found.kept].mean()
    assert found.measures["good_share"][EVERY] == 0.5
    wins = found.pairs.worst_reward[clean][:, None] - found.pairs.worst_reward[~clean]
    by_hand = ((wins > 0) + 0.5 * (wins == 0)).mean()
    assert found.measures["auc"]["rejected reward"] == pytest.approx(by_hand, abs=1e-12)
    assert roc_auc_score(clean, -found.pairs.gap) == pytest.approx(found.measures["auc"]["gap"])
    assert (found.kept[found.shown]).any()
    assert found.strips.shape == (6, 8, 32)


def test_break_it_leaves_no_prompt_to_find_and_costs_wins():
    """All prompts clean: nothing to detect; what RIP keeps teaches less (more pairs without a gap) and wins less."""
    broken = [run(Settings(low_share=0.0), seed).measures for seed in range(6)]
    assert all(np.isnan(list(m["auc"].values())).all() for m in broken)
    assert all(m["good_share"][name] == 1 for m in broken for name in m["good_share"])
    assert all(m["idle_share"][RIP] > m["idle_share"][CHANCE] for m in broken)
    assert np.mean([m["win_rate"][RIP] - m["win_rate"][EVERY] for m in broken]) < 0


def test_the_oracle_takes_all_clean_prompts_where_there_are_too_few():
    found = run(Settings(low_share=0.9, reward_quantile=0, length_quantile=0, gap_quantile=1, prompts=200), 0)
    assert found.measures["good_share"][ORACLE] == 1


def test_examples_are_of_every_kind_kept_and_dropped():
    kinds = [np.arange(0, 10), np.arange(10, 20), np.array([], dtype=int)]
    kept = np.arange(20) % 2 == 0
    chosen = examples(kinds, kept)
    assert [(chosen < 10).sum(), (chosen >= 10).sum()] == [3, 3]
    assert len(set(chosen)) == 6
    assert len(examples(kinds, np.ones(20, dtype=bool))) == 6


# --- bad input ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "value"),
    [("low_share", -0.1), ("low_share", 1.1), ("reward_quantile", 1.1), ("reward_quantile", -0.1),
     ("length_quantile", 2), ("gap_quantile", -1), ("gap_quantile", 1.2), ("samples", 0), ("beta", 0),
     ("beta", -1), ("beta", float("nan")), ("temperature", 0), ("prompts", 1)],
)  # fmt: skip
def test_bad_settings_are_named(setting, value):
    with pytest.raises(ValueError, match=setting):
        Settings.checked({setting: value})


def test_bad_input_is_named(small, rng):
    world, *_, pairs = small
    assert isinstance(world, World)
    for name in ("reward_quantile", "length_quantile", "gap_quantile"):
        for q in (-0.1, 1.1, float("nan")):
            with pytest.raises(ValueError, match=name):
                thresholds(pairs, **{"reward_quantile": 0.5, "length_quantile": 0.5, "gap_quantile": 0.5, name: q})
    with pytest.raises(ValueError, match="thresholds keep no prompt"):
        survivors(pairs, np.array([1.0, 0, 1]))
    with pytest.raises(ValueError, match="beta"):
        train(world.start, world.pool, pairs.contrast, {RIP: np.arange(60)}, 0, rng)
    with pytest.raises(ValueError, match="temperature"):
        sample(world.start, world.pool, rng.random((1, 60, LENGTH)), 0)
    with pytest.raises(ValueError, match="samples"):
        pair(np.zeros((0, 5, LENGTH), dtype=int), np.zeros((0, 5)))
    for share in (-0.1, 1.1):
        with pytest.raises(ValueError, match="low_share"):
            make_pool(rng, rng.random((9, 64)), 10, share)
    with pytest.raises(ValueError, match="prompts"):
        make_pool(rng, rng.random((9, 64)), 1, 0.5)


def test_thresholds_that_keep_nothing_are_an_error_of_the_run():
    with pytest.raises(ValueError, match="thresholds keep no prompt"):
        run(Settings(reward_quantile=0.9, gap_quantile=0.1, prompts=2, samples=3), 1)


def test_answers_that_are_all_alike_leave_the_mask_defined(small):
    _, answers, rewards, _ = small
    alike = pair(np.repeat(answers[:1], 4, axis=0), np.repeat(rewards[:1], 4, axis=0))
    keep = survivors(alike, thresholds(alike, 0.5, 0, 0.5))
    assert keep.sum() >= 30
    assert (keep == (alike.worst_reward >= np.median(alike.worst_reward))).all()
