"""BASS: right values from closed forms, brute force, scikit-learn and simulation."""

import math
from functools import partial

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from core.demos import _bass_network as network
from core.demos import bass
from core.demos._bass_pairs import HORIZON, squared_error, trade_off
from core.demos.bass import ALL, ALONE, BASS, CLUB, DYNUCB, ORACLE, BassSettings, compare, least_overlap, told_apart
from core.lab.study import study


@pytest.fixture
def rng():
    return np.random.default_rng(11)


def any_radius(c: float, **settings) -> BassSettings:
    """Settings with a radius outside the control's range."""
    return BassSettings(**settings).model_copy(update={"radius": c})


def pairs_of_ellipsoids(rng, m: int, d: int):
    """Differences of centres (m, d), shapes (2, m, d, d) and radii (2, m), about half of them disjoint."""
    root = rng.normal(size=(2, m, d, d))
    shapes = root @ np.swapaxes(root, -1, -2) + 0.2 * np.eye(d)
    return 2 * rng.normal(size=(m, d)), shapes, rng.uniform(0.3, 1.8, size=(2, m))


# --- the test of two ellipsoids -----------------------------------------------------------------------


@pytest.mark.parametrize(("radius", "off"), [(0.9, 1e-4), (1.1, 1e-4), (1.0, 1e-6)])
def test_equal_shapes(radius, off):
    """Closed form: A = 4I, centres at distance 1, equal radii r: P = r²/4·I, so min K = K(½) = 1 − 1/r²."""
    shapes = np.broadcast_to(4 * np.eye(3), (2, 1, 3, 3))
    found = least_overlap(np.eye(3)[:1], shapes, np.full((2, 1), radius))
    assert found[0] == pytest.approx(1 - 1 / radius**2, abs=off)


def test_exchanging_the_agents_changes_nothing(rng):
    """Invariant: K of (j, i) is K of (i, j) read from s = 1 to 0."""
    gap, shapes, radii = pairs_of_ellipsoids(rng, 300, 4)
    one, other = least_overlap(gap, shapes, radii), least_overlap(-gap, shapes[::-1], radii[::-1])
    assert ((one < 0) == (other < 0)).all()
    assert np.allclose(one, other, atol=1e-6, rtol=1e-6)


def test_brute_force_in_the_plane(rng):
    """Disjoint iff E_i's boundary (2,000 angles) and centre lie outside E_j, and E_j's centre outside E_i."""
    m = 2000
    gap, shapes, radii = pairs_of_ellipsoids(rng, m, 2)
    angle = np.linspace(0, 2 * np.pi, 2000, endpoint=False)
    circle = np.stack([np.cos(angle), np.sin(angle)])
    disjoint = np.empty(m, dtype=bool)
    for k in range(m):
        half = np.linalg.inv(np.linalg.cholesky(shapes[0, k]).T)
        boundary = gap[k][:, None] + radii[0, k] * half @ circle  # E_j's centre is the origin
        points = np.column_stack([boundary, gap[k]])
        outside = (np.einsum("dn,de,en->n", points, shapes[1, k], points) > radii[1, k] ** 2).all()
        disjoint[k] = outside and gap[k] @ shapes[0, k] @ gap[k] > radii[0, k] ** 2
    assert 0.2 < disjoint.mean() < 0.8
    assert ((least_overlap(gap, shapes, radii) < 0) == disjoint).all()


def test_the_shortcut_decides_as_the_eigenvalues_do(rng):
    """`told_apart` skips pairs with a centre inside the other ellipsoid; the full test must agree on all pairs."""
    s = BassSettings()
    x = rng.normal(size=(2, 400, 12, 5))
    grams = np.swapaxes(x, -1, -2) @ x
    estimates = 0.8 * rng.normal(size=(2, 400, 5))
    norm = np.full(400, 2.0)
    shapes = grams + np.eye(5)
    # radius as in the docstring of the demo, with log det from the eigenvalues
    log_det = np.log(np.linalg.eigvalsh(shapes)).sum(-1)
    radii = 0.4 * (2.0 + np.sqrt(2 * math.log(10) + log_det))
    full = least_overlap(estimates[0] - estimates[1], shapes, radii) < 0
    assert 0 < full.sum() < 400
    assert (told_apart(s, grams, estimates, norm) == full).all()


# --- the network --------------------------------------------------------------------------------------


def test_no_radius_is_learning_alone_and_a_huge_one_shares_everything():
    """Limits: at c → 0 all edges go in round 1, before anything was shared; at c → ∞ none ever goes."""
    _, none = compare(any_radius(1e-9), 4)
    _, huge = compare(any_radius(1e6), 4)
    assert np.allclose(none.regret[BASS], none.regret[ALONE], rtol=0, atol=1e-9)
    assert np.allclose(huge.regret[BASS], huge.regret[ALL], rtol=0, atol=1e-9)
    assert none.regret[ALL][-1] > 2 * none.regret[ALONE][-1]


def test_one_cluster_without_cuts_is_the_oracle():
    """Identity: with M = 1 and ρ = 0 the true graph is the complete one."""
    _, played = compare(any_radius(1e6, clusters=1), 2)
    assert (played.regret[BASS] == played.regret[ORACLE]).all()


def test_cuts_are_for_good():
    """Invariant: BASS's graph is symmetric, keeps its diagonal and never gains an edge; so do CLUB's blocks."""
    _, played = compare(BassSettings(spread=0.2), 3)
    for name in (BASS, CLUB):
        graphs = played.graphs[name]
        assert graphs[0].all()
        assert (graphs == graphs.transpose(0, 2, 1)).all()
        assert graphs[:, np.arange(12), np.arange(12)].all()
        assert not (graphs[1:] & ~graphs[:-1]).any()
    assert not played.graphs[BASS][-1].all()


def test_a_pooled_estimate_is_ridge_regression_on_all_samples(rng):
    """Library: sums of V and b over agents, λ added once, give scikit-learn's Ridge on the stacked samples."""
    x, y = rng.normal(size=(4, 9, 5)), rng.normal(size=(4, 9))
    grams, moments = np.swapaxes(x, 1, 2) @ x, np.einsum("and,an->ad", x, y)
    ours = network.ridge_estimate(grams.sum(0), moments.sum(0), 1.0)
    theirs = Ridge(alpha=1, fit_intercept=False).fit(x.reshape(-1, 5), y.ravel()).coef_
    assert np.allclose(ours, theirs, atol=1e-8)


@pytest.mark.parametrize("structure", ["clusters", "unrelated"])
def test_the_network_agrees_with_a_plain_loop(structure):
    """A second implementation of pooling, pulling and cutting, one agent at a time, with explicit K on a grid."""
    s = BassSettings(structure=structure, agents=4, clusters=2, rounds=25, arms=6, dimension=3)
    world, played = compare(s, 5)
    n, d = world.thetas.shape
    seen = [([], []) for _ in range(n)]
    graph = np.ones((n, n), dtype=bool)
    size = np.linalg.norm(world.thetas, axis=1).max()
    regret, total = [], 0.0
    for t in range(s.rounds):
        choices = []
        for i in range(n):
            x = np.array([a for j in range(n) if graph[i, j] for a in seen[j][0]]).reshape(-1, d)
            r = np.array([v for j in range(n) if graph[i, j] for v in seen[j][1]])
            a = np.eye(d) + x.T @ x
            theta = np.linalg.solve(a, x.T @ r)
            index = [theta @ z + math.sqrt(math.log(t + 2) * (z @ np.linalg.solve(a, z))) for z in world.arms]
            choices.append(int(np.argmax(index)))
        for i, k in enumerate(choices):
            mean = world.arms @ world.thetas[i]
            seen[i][0].append(world.arms[k])
            seen[i][1].append(mean[k] + world.noise[t, i])
            total += mean.max() - mean[k]
        regret.append(total)
        belief = []
        for x, r in seen:
            a = np.eye(d) + np.array(x).T @ np.array(x)
            beta = size + math.sqrt(2 * math.log(10) + math.log(np.linalg.det(a)))
            belief.append((np.linalg.solve(a, np.array(x).T @ np.array(r)), (0.4 * beta) ** 2 * np.linalg.inv(a)))
        for i in range(n):
            for j in range(i):
                (ci, pi), (cj, pj) = belief[i], belief[j]
                # K(s) without eigenvectors: s(1−s) gᵀ[(1−s) P_j + s P_i]⁻¹ g, here on a fine grid
                ks = [
                    1 - u * (1 - u) * (ci - cj) @ np.linalg.solve((1 - u) * pj + u * pi, ci - cj)
                    for u in np.linspace(0, 1, 101)
                ]
                if min(ks) < 0:
                    graph[i, j] = graph[j, i] = False
        assert (played.graphs[BASS][t + 1] == graph).all()
    assert np.allclose(played.regret[BASS], regret, atol=1e-8)
    assert not graph.all()


def test_rivals_see_clusters_that_cannot_be_missed():
    """By hand: two far groups of exact estimates; CLUB ends with the groups, DynUCB joins like agents."""
    thetas = np.repeat([[9.0, 0.0], [-9.0, 0.0]], 3, axis=0)
    local = network.Local(np.broadcast_to(1e6 * np.eye(2), (6, 2, 2)), 1e6 * thetas, thetas, 50, 1.0)
    groups = np.kron(np.eye(2), np.ones((3, 3))).astype(bool)
    club = network.Club(6, 0.5)
    club.update(local)
    assert (club.graph == groups).all()
    dyn = network.DynUcb(6, 2, np.random.default_rng(0))
    dyn.labels = np.array([0, 0, 0, 0, 1, 1])
    dyn.update(local)
    assert (dyn.graph == groups).all()


def test_agreement_by_hand():
    """Two pairs of like agents; one edge right, one missing, one wrong: F1 = 2·1/(2 + 2) = ½, half cut."""
    alike = np.kron(np.eye(2), np.ones((2, 2))).astype(bool)
    graph = np.eye(4, dtype=bool)
    graph[0, 1] = graph[1, 0] = graph[1, 2] = graph[2, 1] = True
    assert network.agreement(graph, alike) == (0.5, 0.5)
    assert np.isnan(network.agreement(graph, np.eye(4, dtype=bool))).all()


def test_separation_round_by_hand():
    """Two strangers: the edge is there at the start and after round 1, and cut in round 2; never is T + 1 = 4."""
    both, apart = np.ones((2, 2), dtype=bool), np.eye(2, dtype=bool)
    assert network.separation_round(np.stack([both, both, apart, apart]), apart) == 2
    assert network.separation_round(np.stack([both] * 4), apart) == 4
    assert np.isnan(network.separation_round(np.stack([both] * 4), both))


# --- the trade-off of two agents ----------------------------------------------------------------------


def test_the_error_formula_agrees_with_simulation(rng):
    """Simulation: 2,000 draws of the noise, ridge regression of agent 1 alone and pooled; within 5 %."""
    theta, x = rng.normal(size=(2, 5)), rng.normal(size=(2, 12, 5))
    noise = rng.normal(size=(2000, 2, 12))
    rewards = np.einsum("and,ad->an", x, theta) + noise
    grams = np.swapaxes(x, 1, 2) @ x
    cases = {1: -theta[0], 2: grams[1] @ (theta[1] - theta[0]) - theta[0]}
    for agents, bias in cases.items():
        model = Ridge(alpha=1, fit_intercept=False)
        model.fit(x[:agents].reshape(-1, 5), rewards[:, :agents].reshape(2000, -1).T)
        simulated = ((model.coef_ - theta[0]) ** 2).sum(1).mean()
        assert squared_error(grams[:agents].sum(0), bias, 1.0, 1.0) == pytest.approx(simulated, rel=0.05)


def test_like_agents_always_gain_and_are_never_told_apart():
    """Theory: at gap 0 the other's samples bring no bias."""
    test = partial(told_apart, BassSettings(radius=1.0))
    trade = trade_off(0.0, test, np.random.default_rng(0), dimension=5, ridge=1.0, noise=1.0)
    assert (trade.pooled < trade.alone).all()
    assert trade.hurts_from == trade.told_apart == HORIZON + 1


def test_far_agents_are_told_apart_sooner():
    """Monotone: the larger the gap, the sooner pooling hurts and the sooner the test says so."""
    found = bass.run(BassSettings(rounds=2), 0).trades
    hurts, told = ([getattr(found[g], name) for g in (0.5, 1.0, 2.0)] for name in ("hurts_from", "told_apart"))
    assert hurts == sorted(hurts, reverse=True)
    assert told == sorted(told, reverse=True)
    assert hurts[0] > hurts[2]
    assert told[0] > told[2]


# --- settings and verdicts ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("agents", 1),
        ("clusters", 0),
        ("arms", 1),
        ("dimension", 0),
        ("rounds", 0),
        ("noise", -0.1),
        ("ridge", 0),
        ("ridge", -1),
        ("radius", -0.1),
        ("delta", 0),
        ("delta", 1.1),
        ("spread", -0.1),
        ("structure", "ring"),
        ("noise", math.nan),
        ("spread", math.inf),
    ],
)
def test_bad_settings_are_named(name, value):
    with pytest.raises(ValueError, match=f"^{name} cannot be .*: it may be "):
        BassSettings.checked({name: value})


def test_more_clusters_than_agents():
    with pytest.raises(ValueError, match=r"^clusters: at most one for each agent, so 1 to 4\.$"):
        BassSettings.checked({"agents": 4, "clusters": 5})


def test_no_noise_is_legal():
    """σ = 0: no bonus, so all play greedily; nothing breaks and like agents are never told apart."""
    found = bass.run(BassSettings(noise=0.0, rounds=30), 0).measures
    assert np.isfinite(list(found["regret"].values())).all()
    assert found["false_cuts"][BASS] == 0


def test_nobody_alike_is_not_defined_rather_than_zero():
    """N = M: no like pair, so F1 is NaN and the claim on clusters says why it is not tested."""
    settings = BassSettings(agents=4, clusters=4, rounds=5)
    frame = study(bass.DEMO, settings, range(2))
    assert frame.loc[frame["measure"] == "edge_f1", "value"].isna().all()
    for odd in (settings, BassSettings(structure="chain")):
        assert bass.no_pairs(odd)
    assert bass.no_pairs(BassSettings()) == ""


def test_unrelated_agents_take_the_advantage_away():
    """Break it: paired by seed, BASS loses relative to learning alone when nobody is alike."""
    relative = {
        structure: np.mean(
            [
                math.log(regret[BASS][-1] / regret[ALONE][-1])
                for seed in range(8)
                for regret in [compare(BassSettings(structure=structure), seed)[1].regret]
            ]
        )
        for structure in ("clusters", "unrelated")
    }
    assert relative["clusters"] < 0 < relative["unrelated"]


def test_all_methods_meet_the_same_first_round():
    """Before any sample all indices are equal, so round 1 costs every method the same."""
    first = bass.run(BassSettings(rounds=2), 6).measures["regret_1"]
    assert set(first) == {BASS, ALONE, CLUB, DYNUCB, ALL, ORACLE}
    assert len(set(first.values())) == 1
