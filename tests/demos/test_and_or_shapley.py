"""AND-OR coalitions: right values from the algebra of set functions, by hand and by brute force."""

from itertools import combinations, permutations

import autograd.numpy as anp
import numpy as np
import pytest
from scipy.optimize import linprog

from core.demos import and_or_shapley as demo
from core.demos._and_or_shapley_models import (
    Planted,
    digit_games,
    draw_blocks,
    fitted,
    forward,
    patches,
    plant,
    share_edge,
    start,
    train,
)
from core.demos._and_or_shapley_rivals import harsanyi, interaction_index, merged_conflict, merged_value
from core.demos._and_or_shapley_sets import (
    checked,
    coalition,
    groups,
    members,
    moebius,
    moebius_inverse,
    or_inverse,
    players,
    shapley_values,
    sizes,
)
from core.demos._and_or_shapley_split import Interactions, explain, sparsest_split
from core.demos.and_or_shapley import AND_ONLY, AND_OR, METRICS, R_MEMBER, R_STRENGTH, Q, Settings, run


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def game(n, **interactions):
    """Interactions (2^n,) from a dictionary of subsets, written as a string of members."""
    out = np.zeros(2**n)
    for variables, value in interactions.items():
        out[sum(1 << int(c) for c in variables.strip("v"))] = value
    return out


def subsets_of(variables):
    return [frozenset(c) for k in range(len(variables) + 1) for c in combinations(sorted(variables), k)]


def as_set(subset, n):
    return frozenset(np.flatnonzero(members(n)[subset]))


def by_permutations(v, n):
    """Shapley values by their definition: mean marginal contribution over all orders."""
    phi = np.zeros(n)
    orders = list(permutations(range(n)))
    for order in orders:
        present = 0
        for i in order:
            phi[i] += v[present | 1 << i] - v[present]
            present |= 1 << i
    return phi / len(orders)


def test_coalitions_by_hand():
    """n = 6, I({0,1}) = 1, I(N) = 6, I({4,5}) = 2: each interaction shared equally by its members."""
    i = game(6, v01=1, v012345=6, v45=2)
    found = Interactions(i, np.zeros(64))
    phi = shapley_values(moebius_inverse(i))
    assert np.allclose(phi, [1.5, 1.5, 1, 1, 2, 2])
    pairs = np.array([coalition(c, 6) for c in ((0, 1), (1, 2))])
    parts = demo.attribute(i, phi, pairs)
    assert np.allclose(parts.whole, [3, 2])
    assert np.allclose(parts.whole - parts.members, [0, -0.5])
    assert np.allclose(parts.partial, [0, 0.5])
    metrics = demo.faithfulness(found, pairs, 9.0)
    assert np.allclose(metrics[R_MEMBER], [1, (1 / 1.5 + 1) / 2])
    assert np.allclose(metrics[R_STRENGTH], [1, 0.8333], atol=1e-4)
    assert np.allclose(metrics[Q], [1, 0.8])


def test_an_or_of_three():
    """OR = inclusion and exclusion of seven ANDs; the sparsest split is the OR itself; merged value 1/2."""
    v = (np.arange(8) > 0).astype(float)
    assert np.allclose(harsanyi(v)[1:], [1, 1, -1, 1, -1, -1, 1])
    e = explain(v)
    assert np.allclose(e.found.some, [0] * 7 + [1])
    assert np.allclose(e.found.both, 0)
    pair = np.array([0b011])
    parts = demo.attribute(e.found.net, e.phi, pair)
    assert parts.whole[0] == pytest.approx(2 / 3)
    assert parts.members[0] == pytest.approx(2 / 3)
    assert merged_value(v, pair)[0] == pytest.approx(1 / 2)


@pytest.mark.parametrize("n", [3, 8, 10])
def test_transforms_invert_each_other(rng, n):
    """Möbius inversion; and v_or from I_or from v_or by the definition of both; sums to v(N)."""
    v = rng.normal(size=2**n)
    v[0] = 0
    assert np.abs(moebius_inverse(moebius(v)) - v).max() < 1e-12 * 2**n
    assert moebius(v).sum() == pytest.approx(v[-1])
    i_or = -moebius(v[::-1])
    i_or[0] = 0
    assert np.abs(or_inverse(i_or) - v).max() < 1e-12 * 2**n


def test_transforms_against_their_sums(rng):
    """Brute force over Python sets."""
    n = 5
    v = rng.normal(size=2**n)
    v[0] = 0
    sets = {as_set(t, n): t for t in range(2**n)}
    for s, index in sets.items():
        expected = sum((-1) ** (len(s) - len(t)) * v[sets[t]] for t in subsets_of(s))
        assert moebius(v)[index] == pytest.approx(expected)
        assert or_inverse(v)[index] == pytest.approx(sum(v[sets[t]] for t in sets if t & s))


@pytest.mark.parametrize("n", [3, 6])
def test_shapley_values_three_ways(rng, n):
    """Orders of arrival; weighted marginal contributions; shares of interactions, for any split p."""
    v, p = rng.normal(size=(2, 2**n))
    v[0] = p[0] = 0
    i_or = -moebius((v / 2 - p)[::-1])
    i_or[0] = 0
    i = moebius(v / 2 + p) + i_or
    shares = (i[1:] / sizes(n)[1:]) @ members(n)[1:]
    assert np.abs(shares - by_permutations(v, n)).max() < 1e-10
    assert np.abs(shapley_values(v) - by_permutations(v, n)).max() < 1e-10


def test_merging_against_a_game_with_fewer_players(rng):
    """The Shapley value of S as one player, from the orders in which it and the others arrive."""
    n, pair = 5, 0b00110
    v = rng.normal(size=2**n)
    v[0] = 0
    units = [pair, 0b00001, 0b01000, 0b10000]
    reduced = np.array([v[sum(u for k, u in enumerate(units) if t >> k & 1)] for t in range(16)])
    expected = by_permutations(reduced, 4)[0]
    assert merged_value(v, np.array([pair]))[0] == pytest.approx(expected)
    member = members(n)[[pair]]
    conflict = abs(expected - by_permutations(v, n)[[1, 2]].sum())
    assert merged_conflict(v, np.array([pair]), member)[0] == pytest.approx(conflict)


def test_interaction_index_against_discrete_derivatives(rng):
    """Grabisch & Roubens: mean over T of v(T∪S) − v(T∪i) − v(T∪j) + v(T), weights t!(n−t−2)!/(n−1)!."""
    from math import factorial

    n, i, j = 5, 1, 3
    v = rng.normal(size=2**n)
    v[0] = 0
    total = 0.0
    for t in range(2**n):
        if not t & (1 << i | 1 << j):
            k = int(t).bit_count()
            slope = v[t | 1 << i | 1 << j] - v[t | 1 << i] - v[t | 1 << j] + v[t]
            total += factorial(k) * factorial(n - k - 2) / factorial(n - 1) * slope
    assert interaction_index(v, np.array([1 << i | 1 << j]))[0] == pytest.approx(abs(total))


def test_attribution_and_metrics_against_loops(rng):
    """Brute force: the formulas over Python sets, for every group of two to four of six variables."""
    n = 6
    found = Interactions(*rng.normal(size=(2, 2**n)))
    found.both[0] = found.some[0] = 0
    net, strength = found.both + found.some, abs(found.both) + abs(found.some)
    candidates = groups(n, 2, 4)
    sets = [as_set(t, n) for t in range(2**n)]
    phi = np.array([sum(net[k] / len(t) for k, t in enumerate(sets) if i in t) for i in range(n)])
    parts, metrics = demo.attribute(net, phi, candidates), demo.faithfulness(found, candidates, 1.0)
    for g, s in enumerate(as_set(c, n) for c in candidates):
        touching = [(k, t) for k, t in enumerate(sets) if t & s]
        whole = sum(len(s) / len(t) * net[k] for k, t in touching if s <= t)
        cut = sum(len(t & s) / len(t) * net[k] for k, t in touching if not s <= t)
        assert parts.whole[g] == pytest.approx(whole)
        assert parts.partial[g] == pytest.approx(cut)
        assert parts.whole[g] - parts.members[g] == pytest.approx(-cut)
        a = whole / len(s)
        held = sum(strength[k] / len(t) for k, t in touching if s <= t)
        each = [sum(strength[k] / len(t) for k, t in enumerate(sets) if i in t) for i in s]
        rest = [sum(net[k] / len(t) for k, t in enumerate(sets) if i in t and not s <= t) for i in s]
        assert metrics[R_MEMBER][g] == pytest.approx(np.mean([abs(a) / (abs(a) + abs(b)) for b in rest]))
        assert metrics[R_STRENGTH][g] == pytest.approx(np.mean([held / e for e in each]))
        mass = sum(len(t & s) / len(t) * strength[k] for k, t in touching)
        assert metrics[Q][g] == pytest.approx(len(s) * held / mass)
    assert all(((m >= 0) & (m <= 1)).all() for m in metrics.values())


def test_split_against_the_programme_in_values(rng):
    """Independent form: atoms as columns of values, atoms · I = v; the same optimum, v rebuilt."""
    n = 5
    v = rng.normal(size=2**n)
    v[0] = 0
    t = np.arange(1, 2**n)
    wide = t[sizes(n)[t] > 1]
    atoms = np.hstack([(t[:, None] & t) == t, (t[:, None] & wide) > 0]).astype(float)
    cost = 1 + 1e-3 * (sizes(n)[np.r_[t, wide]] - 1)
    solved = linprog(np.r_[cost, cost], A_eq=np.hstack([atoms, -atoms]), b_eq=v[1:])
    found = sparsest_split(v)
    mine = cost @ np.abs(np.r_[found.both[t], found.some[wide]])
    assert mine == pytest.approx(solved.fun, rel=1e-9)
    assert np.abs(moebius_inverse(found.both) + or_inverse(found.some) - v).max() < 1e-12
    assert found.magnitudes.sum() <= np.abs(harsanyi(v)).sum() * (1 + 1e-3 * n)


@pytest.mark.parametrize(("first", "split", "harsanyi_norm"), [(0.0, 307.9, 915.4), (None, 308.0, 929.1)])
def test_random_functions_have_a_third_of_the_norm(first, split, harsanyi_norm):
    """The L1 norms that an independent implementation found for normal values of seed 0, n = 8."""
    v = np.random.default_rng(0).normal(size=256)
    if first is not None:
        v[0] = first
    e = explain(v)
    assert e.found.magnitudes.sum() == pytest.approx(split, abs=0.1)
    assert e.and_only.magnitudes.sum() == pytest.approx(harsanyi_norm, abs=0.1)


@pytest.mark.parametrize("seed", range(6))
def test_planted_terms_are_recovered(seed):
    """Without crossing terms the optimum is the sum of |weights| and the terms come back."""
    planted = plant(np.random.default_rng(seed), 8, 0)
    found = explain(planted.values()).found
    expected = np.zeros((2, 256))
    for (kind, subset), weight in planted.terms.items():
        expected[0 if kind == "AND" else 1, subset] = weight
    assert np.abs(found.both - expected[0]).max() < 1e-8
    assert np.abs(found.some - expected[1]).max() < 1e-8


def test_an_additive_function_has_only_singles(rng):
    """Order-1 interactions alone: conflict −Σφ(i), no interaction holds a group, so every metric is 0."""
    weights = rng.normal(size=8)
    e = explain(3.0 + members(8) @ weights)
    assert np.allclose(e.found.both[1 << np.arange(8)], weights)
    assert e.found.magnitudes[8:].max() < 1e-10
    candidates = groups(8, 2, 3)
    parts = demo.attribute(e.found.net, e.phi, candidates)
    assert np.allclose(parts.whole - parts.members, -(members(8)[candidates] @ weights))
    assert all((m == 0).all() for m in demo.faithfulness(e.found, candidates, e.scale).values())


def test_a_dummy_variable_joins_nothing(rng):
    """f without variable 2: φ(2) = 0, no interaction with it, and groups with it score 0."""
    v = rng.normal(size=256)[np.arange(256) & ~0b100]
    e = explain(v)
    holds = members(8)[:, 2]
    assert abs(e.phi[2]) < 1e-12
    assert e.found.strength[holds].max() < 1e-9
    with_it = groups(8, 2, 3)[members(8)[groups(8, 2, 3)][:, 2]]
    assert all((m == 0).all() for m in demo.faithfulness(e.found, with_it, e.scale).values())


def test_a_constant_function_has_no_metrics():
    """All interactions 0; Q, R and R′ are 0/0, so not defined, and so is what is measured from them."""
    e = explain(np.full(256, 4.2))
    assert (e.found.strength == 0).all()
    candidates = groups(8, 2, 3)
    assert all(np.isnan(m).all() for m in demo.faithfulness(e.found, candidates, e.scale).values())
    measures = demo.measured(e, candidates, candidates < 20)
    assert all(np.isnan(measures["auc"][m]) for m in METRICS)
    assert measures["l1"] == {AND_OR: 0, AND_ONLY: 0}


def test_planted_functions_by_hand():
    """Two terms: x0 x1 with weight 2 and (x2 or x3) with weight −1."""
    v = Planted((0b11, 0b11111100), {("AND", 0b11): 2.0, ("OR", 0b1100): -1.0}).values()
    assert [v[0b0], v[0b1], v[0b11], v[0b100], v[0b1111]] == [0, 0, 2, -1, 1]


def test_planted_terms_respect_or_cut_blocks():
    """Blocks of 2 or 3 fill the 8 variables; terms are unions of whole blocks, crossing ones cut one."""
    for seed in range(30):
        planted = plant(np.random.default_rng(seed), 6, 0)
        assert sum(planted.blocks) == 255
        assert {int(sizes(8)[b]) for b in planted.blocks} <= {2, 3}
        assert all(s & b in (0, b) for _, s in planted.terms for b in planted.blocks)
        crossed = plant(np.random.default_rng(seed), 1, 12).terms
        cuts = [any(s & b not in (0, b) for b in planted.blocks) for _, s in crossed]
        assert sum(cuts) >= len(crossed) - 1
    assert draw_blocks(np.random.default_rng(0)) != draw_blocks(np.random.default_rng(1))


def test_groups_and_patches():
    """84 groups of 2–3 of 8; on the 4 × 2 board 10 pairs share an edge; a patch is 2 × 4 pixels."""
    assert len(groups(8, 2, 3)) == 84
    assert share_edge(groups(8, 2, 2)).sum() == 10
    near = share_edge(np.array([0b11, 0b101, 0b110, 0b1001]))  # side by side, one above the other, two diagonals
    assert near.tolist() == [True, True, False, False]
    board = patches().reshape(8, 8)
    assert (board[:2, :4] == 0).all()
    assert (board[6:, 4:] == 7).all()
    assert (np.bincount(patches()) == 8).all()


def test_net_against_loops_and_finite_differences(rng):
    """The forward pass unit by unit; the gradient that training follows, by central differences."""
    from autograd import grad

    p = start(rng, (8, 5, 4, 1))
    p[1] += rng.normal(size=5)
    x = 2.0 * members(8)[:20] - 1
    h1 = np.array([[max(row @ p[0][:, k] + p[1][k], 0) for k in range(5)] for row in x])
    h2 = np.array([[max(row @ p[2][:, k] + p[3][k], 0) for k in range(4)] for row in h1])
    assert np.allclose(forward(p, x), h2 @ p[4] + p[5])

    def loss(q):
        return anp.mean(forward(q, x) ** 2)

    slope = grad(loss)(p)[0]
    for i, j in ((0, 0), (3, 2), (7, 4)):
        up, down = ([a.copy() for a in p] for _ in range(2))
        up[0][i, j] += 1e-6
        down[0][i, j] -= 1e-6
        assert slope[i, j] == pytest.approx((loss(up) - loss(down)) / 2e-6, abs=1e-6)


def test_digits_are_masked_by_the_mean_image():
    """All patches: the image itself; the predicted class of most images is the most probable one, so log odds > 0."""
    games = digit_games(3, 200, 1.0, 0)
    assert games.values.shape == (3, 256)
    assert games.accuracy > 0.85
    assert (np.abs(games.values) <= np.log(1e9) + 1e-6).all()
    assert (games.values[:, -1] > games.values[:, 0]).all()


def test_breaking_it_leaves_no_clean_group():
    """Crossing terms: the exact function's Q inside blocks falls, in every one of four seeds."""
    for seed in range(4):
        clean = run(Settings(explain="function"), seed).measures["q"]
        broken = run(Settings(explain="function", crossing=20), seed).measures["q"]
        assert broken[demo.MEANINGFUL] < 0.7 * clean[demo.MEANINGFUL]


def test_a_trained_net_is_close_and_its_measures_consistent():
    """Identity and reconstruction are algebra; the optimum is at most the planted norm, up to the tilt.

    It may be other terms: an AND and an OR of one block {1, 2} with the same sign cost as much as x1 + x2 does.
    """
    exact_run = run(Settings(explain="function"), 2)
    exact = exact_run.measures
    planted = sum(abs(w) for w in exact_run.planted.terms.values())
    assert exact["l1"][AND_OR] <= planted * (1 + 7e-3)
    assert exact["net_error"]["function"] == 0
    trained = run(Settings(), 2).measures
    assert 0 < trained["net_error"]["net"] < 0.1
    for measures in (exact, trained):
        assert measures["identity"][AND_OR] < 1e-8 / demo.ROUNDING
        assert measures["rebuilt"][AND_OR] < 1e-8 / demo.ROUNDING
        assert measures["l1"][AND_OR] <= 1.01 * measures["l1"][AND_ONLY]


@pytest.mark.parametrize(
    ("setting", "value"),
    [("n_terms", 0), ("n_terms", 17), ("crossing", -1), ("crossing", 21), ("steps", 0), ("steps", 1.5),
     ("frac", 0), ("frac", 1.1), ("frac", float("nan")), ("explain", "bert")],
)  # fmt: skip
def test_bad_settings_are_named(setting, value):
    with pytest.raises(ValueError, match=setting):
        Settings.checked({setting: value})


def test_bad_input_is_named(rng):
    for n in (2, 11):
        with pytest.raises(ValueError, match="n must be"):
            checked(n)
        with pytest.raises(ValueError, match="n must be"):
            players(np.zeros(2**n))
    for group in ((), (1,), (2, 2), (0, 8), (-1, 2)):
        with pytest.raises(ValueError, match="coalition"):
            coalition(group, 8)
    for v in (np.zeros(100), np.zeros((16, 16))):
        with pytest.raises(ValueError, match="v must have"):
            players(v)
    with pytest.raises(ValueError, match="NaN"):
        explain(np.where(np.arange(256) == 9, np.nan, 1.0))
    with pytest.raises(ValueError, match="n_terms"):
        plant(rng, 0, 0)
    with pytest.raises(ValueError, match="crossing"):
        plant(rng, 8, -1)
    truth = members(8)[:, 0].astype(float)
    for frac in (0.0, 1.01):
        with pytest.raises(ValueError, match="frac"):
            fitted(truth, 10, frac, rng)
    with pytest.raises(ValueError, match="steps"):
        train(lambda q, rows: 0.0, start(rng, (8, 2, 1)), np.zeros((0, 4), dtype=int), 0.02, rng)


def test_a_failed_solver_is_an_error(monkeypatch, rng):
    """No silent fall back: HiGHS's message comes through."""
    from types import SimpleNamespace

    from core.demos import _and_or_shapley_split as split

    monkeypatch.setattr(split, "linprog", lambda *a, **k: SimpleNamespace(x=None, message="time limit"))
    with pytest.raises(RuntimeError, match="time limit"):
        sparsest_split(np.r_[0, rng.normal(size=15)])
