"""ActionPiece: right values of the merge rules by hand, and a second way for every fast path."""

from collections import Counter
from functools import cache
from itertools import combinations

import autograd.numpy as anp
import numpy as np
import pytest
from autograd import grad

from core.demos import _actionpiece_tokens as tokens
from core.demos import _actionpiece_world as world
from core.demos._actionpiece_strips import strip_of
from core.demos.actionpiece import (
    ACTIONPIECE,
    FEATURES,
    FIXED,
    IN_SET,
    IN_SET_SPR,
    ITEM,
    Settings,
    alone,
    evaluate,
    in_context,
    naive_chains,
    run,
    tokenisers,
)
from core.lab.nets import cross_entropy

BASE = sum(world.VALUES)
TWO = tokens.chain_of([(1, 4, 7), (2, 5, 8)])


@cache
def data(users=300, seed=3, context=0.8):
    return world.make_data(np.random.default_rng(seed), context, users, 9)


def sets(d):
    return d.features[d.sequences].tolist()


@cache
def vocabulary(merges=250):
    return tokens.learn(BASE, sets(data()), merges)


def recount(chains):
    """Pair totals written out from their definition."""
    total = Counter()
    for chain in chains:
        for s in chain[::2]:
            for a, b in combinations(s, 2):
                total[min(a, b), max(a, b)] += 2 / len(s)
        for left, slot, right in zip(chain[:-2:2], chain[1::2], chain[2::2], strict=True):
            sides = [(left, slot), (slot, right)] if slot else [(left, right)]
            for one, other in sides:
                for a in one:
                    for b in other:
                        total[min(a, b), max(a, b)] += 1 / (len(one) * len(other))
    return {pair: w for pair, w in total.items() if w > 1e-12}


# --- merging ------------------------------------------------------------------------------------------


def test_weights_of_two_sets():
    """Closed form: 2/3 for each of the 6 pairs in a set of 3, 1/9 for each of the 9 pairs across."""
    weights = {pair: w for pair, w, _ in tokens.options(TWO)}
    inside = {(1, 4), (1, 7), (4, 7), (2, 5), (2, 8), (5, 8)}
    assert len(weights) == 15
    for pair, w in weights.items():
        assert w == pytest.approx(2 / 3 if pair in inside else 1 / 9, abs=1e-12)


def test_a_filled_slot_blocks_pairs_of_the_two_sets():
    """Definition: with token 9 in the slot, only pairs with 9 cross the gap, 1/3 each."""
    weights = {pair: w for pair, w, place in tokens.options([(1, 4, 7), (9,), (2, 5, 8)]) if place[0] != place[1]}
    assert weights == {(t, 9): pytest.approx(1 / 3) for t in (1, 4, 7, 2, 5, 8)}


@pytest.mark.parametrize(
    ("rule", "expected"),
    [((1, 5), [(4, 7), (99,), (2, 8)]), ((1, 4), [(99, 7), (), (2, 5, 8)]), ((1, 3), list(TWO))],
)
def test_one_merge(rule, expected):
    """By hand: across the gap into the slot, inside the set to its front, or not at all."""
    assert tokens.rewrite(TWO, rule, 99) == expected


@pytest.mark.parametrize(
    ("chain", "rule", "expected"),
    [
        ([(4,), (9,), (2, 8)], (4, 9), [(), (99,), (2, 8)]),  # a first set stays empty beside a filled slot
        ([(4,), (9,), (2,)], (2, 9), [(4,), (), (99,)]),  # an emptied set takes over the slot's token
        ([(), (9,), (2,)], (2, 9), [(99,)]),  # an empty set goes with an empty slot after it
        ([(1,), (), (1,)], (1, 1), [(99,)]),  # a token pairs with itself across a gap only
        ([(1, 2), (), (3,)], (1, 1), [(1, 2), (), (3,)]),
    ],
)
def test_empty_sets_and_slots(chain, rule, expected):
    """By hand from the rules for empty places."""
    assert tokens.rewrite(chain, rule, 99) == expected


def test_two_items_in_turn():
    """By hand: (1, 2) has 2 sets × 1 + 3 gaps × 1/4 = 2.75. With the gap before the next set, then (3, 4) has 2.0."""
    v = tokens.learn(4, [[(1, 2), (1, 3), (1, 2), (1, 3)]], 2)
    assert v.rules == ((1, 2), (3, 4))
    assert v.priorities == (2.75, 2.0)


def test_totals_kept_up_are_those_of_a_full_recount():
    """Invariant after every merge: totals and inverted index belong to the chains as they are now."""
    d = data(60)
    learner = tokens.Learner(BASE, [tokens.chain_of(s) for s in sets(d)], [1] * 60)
    for _ in range(120):
        assert learner.step()
        kept = {pair: w / learner.unit for pair, w in learner.totals.items() if w}
        assert kept == pytest.approx(recount(learner.chains), abs=1e-9)
    for pair in (p for p, w in learner.totals.items() if w and p not in learner.rules):
        holders = {i for i, c in enumerate(learner.chains) if pair in {p for p, _, _ in tokens.options(c)}}
        assert holders <= learner.where[pair]


def test_the_first_forty_rules_by_brute_force():
    """Second way: recount the whole corpus after each merge, rewrite every chain."""
    chains, rules = [tokens.chain_of(s) for s in sets(data())], vocabulary().first(40)
    for rank, rule in enumerate(rules.rules):
        totals = {p: w for p, w in recount(chains).items() if p not in rules.rules[:rank]}
        assert rules.priorities[rank] == pytest.approx(max(totals.values()), abs=1e-6)
        assert totals[rule] == pytest.approx(rules.priorities[rank], abs=1e-6)
        chains = [tokens.rewrite(c, rule, BASE + rank) for c in chains]


def test_counts_stand_for_copies():
    """Invariant: a sequence three times in the corpus is the same as three equal chains."""
    some = sets(data(20))
    learner = tokens.Learner(BASE, [tokens.chain_of(s) for s in 3 * some], [1] * 60)
    for _ in range(30):
        learner.step()
    assert tokens.learn(BASE, 3 * some, 30) == learner.vocabulary()


def test_a_shorter_vocabulary_is_the_beginning_of_a_longer_one():
    assert vocabulary(400).first(250) == vocabulary()


def test_pairs_may_run_out():
    """Two features, one set: only one rule can be learned."""
    assert tokens.learn(2, [[(0, 1)]], 5).rules == ((0, 1),)


def test_an_action_alone_has_no_slots():
    assert tokens.chain_of([(1, 2, 3)]) == [(1, 2, 3)]


# --- segmentation -------------------------------------------------------------------------------------


def decoded(row, v):
    parts = v.features()
    return Counter(f for t in row if t < v.size for f in parts[t])


def test_every_segmentation_decodes_to_the_features_of_its_history():
    """Invariant: merging loses and adds no feature, for SPR and for the fixed segmentation."""
    d, v = data(), vocabulary()
    own = tokens.learn(BASE, d.features[d.sequences].reshape(-1, 1, 3).tolist(), 250)
    chains = naive_chains(d.histories, d.features, v)
    every = tokenisers(d.features, own, v, chains)
    for name in (FEATURES, IN_SET, IN_SET_SPR, FIXED, ACTIONPIECE):
        rows = every[name].segment(d.histories, np.random.default_rng(1))
        used = own if name in (IN_SET, IN_SET_SPR, FEATURES) else v
        rows = np.where(rows == every[name].size, used.size, rows)
        for row, pair in zip(rows[:500], d.histories, strict=False):
            assert decoded(row, used) == Counter(d.features[pair].ravel().tolist())
    assert np.array_equal(every[ITEM].segment(d.histories, np.random.default_rng(1)), d.histories)


def list_bpe(row, ranks, base):
    """Byte-pair encoding as the textbook has it, on one list."""
    row = list(row)
    while True:
        found = [(ranks[p], i) for i in range(len(row) - 1) if (p := tuple(sorted(row[i : i + 2]))) in ranks]
        if not found:
            return row
        rank, i = min(found)
        row[i : i + 2] = [base + rank]


def test_encoding_all_rows_at_once_equals_the_plain_list():
    """Second way: 1,000 shuffled histories one by one."""
    d, v = data(), vocabulary()
    flat = np.random.default_rng(2).permuted(d.features[d.histories[:1000]], axis=2).reshape(1000, -1)
    ranks = {rule: rank for rank, rule in enumerate(v.rules)}
    fast = tokens.bpe(flat, v, v.table())
    assert [[t for t in row if t < v.size] for row in fast.tolist()] == [list_bpe(r, ranks, v.base) for r in flat]


def test_without_merges_tokens_are_the_features():
    d, v = data(), vocabulary(0)
    rows = in_context(d.features, v).segment(d.histories, np.random.default_rng(0))
    assert np.array_equal(np.sort(rows.reshape(-1, 2, 3)), np.sort(d.features[d.histories]))


def test_merges_inside_actions_know_nothing_of_their_order():
    """Invariant: the same priorities, and the same tokens of each action, when the actions change places."""
    d = data()
    single = d.features[d.sequences].reshape(-1, 1, 3)
    own = tokens.learn(BASE, single.tolist(), 60)
    mixed = np.random.default_rng(4).permutation(single).tolist()
    assert tokens.learn(BASE, mixed, 60).priorities == pytest.approx(own.priorities)
    rows = alone(d.features, own).segment(d.histories[:300], np.random.default_rng(0)).reshape(-1, 2, 3)
    parts = [*own.features(), ()]
    for row, pair in zip(rows, d.histories, strict=False):
        for half, item in zip(row, pair, strict=True):
            assert sorted(f for t in half for f in parts[t]) == sorted(d.features[item].tolist())


def test_split_says_which_tokens_hold_both_actions():
    """Invariant: tokens of one action only decode to features of that action; strips show all six features."""
    d, v = data(), vocabulary()
    parts, chains = v.features(), naive_chains(d.histories, d.features, v)
    for pair, chain in chains.items():
        left, both, right = tokens.split(chain, [len(p) for p in parts], 3)
        assert len(both) <= 1
        for side, item in ((left, pair[0]), (right, pair[1])):
            assert not Counter(f for t in side for f in parts[t]) - Counter(d.features[item].tolist())
        strip = strip_of(pair, chain, d.features, v)
        assert sum(strip.earlier) == 3
        assert sum(map(len, strip.tiles)) == 6
        assert sum(strip.crossing) == len(both)


# --- recommender --------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoder", ["linear", "tanh"])
def test_gradient_against_autograd(encoder):
    """Second way: automatic differentiation of the three cross-entropies, written from the definition."""
    rng = np.random.default_rng(0)
    p = [v + 0.3 * rng.normal(size=v.shape) for v in world.initial(rng, 30)]
    x, features = rng.random((17, 30)), np.stack([rng.integers(k, size=17) for k in world.VALUES], axis=1)

    def loss(q):
        h = anp.dot(x, q[0]) + q[1]
        h = anp.tanh(h) if encoder == "tanh" else h
        ends, total = np.cumsum(world.VALUES), 0.0
        for j, (end, k) in enumerate(zip(ends, world.VALUES, strict=True)):
            logits = anp.dot(h, q[2][:, end - k : end]) + q[4][end - k : end]
            for i in range(j):
                value = features[:, i] + ends[i] - world.VALUES[i]
                logits = logits + q[3][value, end - k : end]
            total = total + cross_entropy(logits, features[:, j])
        return total

    ours = world.gradient(p, x, world.one_hot(features), encoder)
    for a, b in zip(ours, grad(loss)(p), strict=True):
        assert np.allclose(a, b, atol=1e-12)


def test_scores_are_log_probabilities_of_all_feature_sets():
    """Axiom: over all 8 · 8 · 6 feature sets the probabilities add up to 1."""
    rng = np.random.default_rng(0)
    p = [v + 0.3 * rng.normal(size=v.shape) for v in world.initial(rng, 30)]
    every = np.stack(np.unravel_index(np.arange(np.prod(world.VALUES)), world.VALUES), axis=1)
    total = np.exp(world.scores(p, rng.random((5, 30)), every, "tanh")).sum(axis=1)
    assert np.allclose(total, 1)


def test_bag_weights():
    """By hand: the last token counts 1, the one before 0.9, then 0.81; padding (4) counts nothing."""
    assert np.allclose(world.bags(np.array([[2, 0, 2, 4, 4]]), 4), [[0.9, 0, 1.81, 0]])


def test_ranking_by_hand():
    """Ranks 0, 2 and 11 of 12: NDCG (1 + 1/log2(4) + 0)/3, recall 2/3."""
    score = -np.arange(12.0)[None].repeat(3, axis=0)
    assert world.ranking(score, np.array([0, 2, 11])) == pytest.approx(((1 + 0.5) / 3, 2 / 3))


def test_ensemble_by_hand():
    """Two votes: item 0 is first and last of three (1 + 1/2), item 1 second and first (1/log2(3) + 1)."""
    votes = np.array([[[3.0, 2.0, 1.0]], [[1.0, 3.0, 2.0]]])
    expected = [1 + 1 / 2, 1 / np.log2(3) + 1, 1 / 2 + 1 / np.log2(3)]
    assert np.allclose(world.ensemble(votes), expected, atol=1e-6)


def test_the_world_adds_up_and_forgets_the_previous_action_without_context():
    """Probabilities add up to 1; at ρ = 0 the action before the last changes nothing."""
    w = data(context=0.0).shop
    one, two = (w.following(np.full(240, k), np.arange(240)) for k in (0, 17))
    assert np.allclose(one.sum(axis=1), 1)
    assert np.array_equal(one, two)
    with_context = data().shop
    assert not np.array_equal(*(with_context.following(np.full(240, k), np.arange(240)) for k in (0, 17)))


def test_drawn_sequences_follow_the_true_probabilities():
    """Independent check: 20,000 draws after one pair of items, each frequency within five standard errors."""
    w = data().shop
    p = w.following(np.array([3]), np.array([5]))[0]
    pairs = np.random.default_rng(0)
    w_fixed = type("Fixed", (), {"features": w.features, "popularity": w.popularity})
    w_fixed.following = staticmethod(lambda previous, current: p[None].repeat(len(current), axis=0))
    drawn = world.World.sequences(w_fixed, pairs, 20_000, 3)[:, 2]
    seen = np.bincount(drawn, minlength=240) / 20_000
    assert np.abs(seen - p).max() < 5 * np.sqrt(p.max() / 20_000)
    assert not seen[p == 0].any()


def test_plain_features_keep_up_without_context():
    """What breaks: at ρ = 0 the lead over plain features that the method has at the default is gone."""
    lead = {}
    for context in (0.0, 0.8):
        leads = []
        for seed in (1, 2, 3):
            d = data(seed=seed, context=context)
            v = tokens.learn(BASE, sets(d), 250)
            plain = tokenisers(d.features, v, v, {})[FEATURES]
            found = [evaluate(Settings(), d, t, seed)["ndcg"] for t in (in_context(d.features, v), plain)]
            leads.append(found[0] - found[1])
        lead[context] = np.mean(leads)
    assert lead[0.0] < 0 < lead[0.8]


# --- bad input ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("context", -0.1),
        ("context", 1.1),
        ("merges", -1),
        ("merges", 2.5),
        ("segmentations", 0),
        ("ensemble", 0),
        ("users", 1),
        ("length", 3),
        ("encoder", "relu"),
    ],
)
def test_bad_settings_are_named(name, value):
    with pytest.raises(ValueError, match=name):
        Settings.checked({name: value})


def test_bad_arguments_are_named():
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="features"):
        world.check_features(np.array([[1, 2, 3], [0, 0, 0], [1, 2, 3]]))
    with pytest.raises(ValueError, match="context"):
        world.make_world(rng, 2.0)
    with pytest.raises(ValueError, match="merges"):
        tokens.learn(4, [[(0, 1)]], -1)
    with pytest.raises(ValueError, match="encoder"):
        world.train(0, np.zeros((1, 3, 5)), np.zeros((3, 22)), "relu", 1e-4)


def test_the_smallest_shop_runs():
    """Two users with four actions: two training examples, nothing learned is needed."""
    assert 0 <= run(Settings(users=2, length=4, merges=0), 0).measures["ndcg"][ACTIONPIECE] <= 1
