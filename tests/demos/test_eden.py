"""EDEN: right values from closed forms, brute force, SciPy, finite differences and invariants."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from core.demos import _eden_net as net
from core.demos import _eden_tree as trees
from core.demos import _eden_world as worlds
from core.demos import eden
from core.demos._eden_pictures import pieces

ROUND = np.roll(np.eye(6), 1, axis=1)
"""The directed cycle of six nodes."""
HALVES = np.repeat([0, 1], 3)
TRIANGLES = np.kron(np.eye(2), np.roll(np.eye(3), 1, axis=1))


@pytest.fixture
def rng():
    return np.random.default_rng(3)


@pytest.fixture(scope="module")
def case():
    return eden.set_up(eden.Settings(), 0)


def digraph(rng, n: int, share: float = 0.15) -> np.ndarray:
    """A random directed graph without loops."""
    return (rng.random((n, n)) < share) * (1.0 - np.eye(n))


# --- entropy and tree ---------------------------------------------------------------------------------


def test_entropy_of_a_cycle():
    """Closed form: H¹ = 2·log₂6; two halves have V = 3, g = 1, m = 6 in each direction."""
    assert trees.node_entropy(ROUND) == pytest.approx(2 * math.log2(6), abs=1e-9)
    each = 6 / 6 * math.log2(3) + 2 / 6 * math.log2(2)
    assert trees.partition_entropy(ROUND, HALVES) == pytest.approx(2 * each, abs=1e-9)
    assert 2 * each == pytest.approx(3.836592, abs=1e-6)


def test_entropy_of_two_triangles():
    """Closed form: no edge between them, so H² = H¹ − 2 (one bit a direction), and greedy merging finds them."""
    assert trees.partition_entropy(TRIANGLES, HALVES) == pytest.approx(3.169925, abs=1e-6)
    assert trees.node_entropy(TRIANGLES) - 2 == pytest.approx(3.169925, abs=1e-6)
    (found,) = trees.coarse_tree(TRIANGLES, [2])
    assert (found == HALVES).all()


def test_trivial_partitions_have_the_entropy_of_the_nodes(rng):
    """Invariant: all in one module, or all alone, gives H¹ on every graph."""
    for graph in (ROUND, TRIANGLES, digraph(rng, 25)):
        n = len(graph)
        for modules in (np.zeros(n, dtype=int), np.arange(n)):
            assert trees.partition_entropy(graph, modules) == pytest.approx(trees.node_entropy(graph), abs=1e-9)


def test_entropy_of_degrees_by_scipy(rng):
    graph = digraph(rng, 30)
    expected = stats.entropy(graph.sum(0), base=2) + stats.entropy(graph.sum(1), base=2)
    assert trees.node_entropy(graph) == pytest.approx(expected, abs=1e-9)


def test_a_merge_changes_the_entropy_as_recomputed_from_scratch(rng):
    """Brute force: each step takes the best of all linked pairs, every H² computed anew."""
    graph = digraph(rng, 16)
    merging = trees.Merging(graph)
    while merging.alive.sum() > 2:
        before, labels = trees.partition_entropy(graph, merging.labels), merging.labels.copy()
        changes = [
            trees.partition_entropy(graph, np.where(labels == b, a, labels)) - before
            for a, b in itertools.combinations(np.unique(labels), 2)
            if graph[np.ix_(labels == a, labels == b)].any() or graph[np.ix_(labels == b, labels == a)].any()
        ]
        merging.step()
        assert merging.taken[-1] == pytest.approx(min(changes), abs=1e-9)
        now = trees.partition_entropy(graph, merging.labels)
        assert now - before == pytest.approx(merging.taken[-1], abs=1e-9)


def test_unlinked_modules_merge_last_and_isolated_nodes_are_allowed():
    """Three triangles and an isolated node, two modules wanted: linked pairs go first, then the best unlinked."""
    graph = np.zeros((10, 10))
    graph[:9, :9] = np.kron(np.eye(3), np.roll(np.eye(3), 1, axis=1))
    (four,) = trees.coarse_tree(graph, [4])
    assert (four == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3]).all()
    (two,) = trees.coarse_tree(graph, [2])
    assert all(len(np.unique(two[i : i + 3])) == 1 for i in (0, 3, 6))
    lonely = np.zeros((6, 6))
    lonely[0, 1] = 1
    assert trees.node_entropy(lonely) == 0
    assert len(np.unique(trees.coarse_tree(lonely, [3])[0])) == 3


def test_coarse_modules_are_unions_of_fine_ones(case):
    fine, coarse = (level.modules for level in case.coarse)
    assert (len(np.unique(fine)), len(np.unique(coarse))) == (16, 8)
    assert all(len(np.unique(coarse[fine == p])) == 1 for p in range(16))


@pytest.mark.parametrize("seed", range(4))
def test_default_graphs(seed):
    """From the description of the data: about 1,350 edges, H¹ near 15.56 bits, H² near the true partition's."""
    case = eden.set_up(eden.Settings(), seed)
    graph = case.world.graph
    fine, coarse = (trees.partition_entropy(graph, level.modules) for level in case.coarse)
    assert 1250 <= graph.sum() <= 1450
    assert trees.node_entropy(graph) == pytest.approx(15.56, abs=0.1)
    assert fine == pytest.approx(12.07, abs=0.25)
    assert coarse <= trees.partition_entropy(graph, case.world.communities) + 0.5


def test_shares_of_edges(rng):
    """Simulation against the rule: inside h + (1−h)·0.2/8, next class (1−h)·(0.8 + 0.2/4); loops are dropped."""
    communities = np.repeat(np.arange(8), 100)
    classes, h = communities // 2, 0.3
    graph = worlds.block_digraph(rng, communities, classes, h)
    source, target = np.nonzero(graph)
    assert np.mean(communities[source] == communities[target]) == pytest.approx(h + 0.7 * 0.2 / 8, abs=0.03)
    assert np.mean((classes[source] + 1) % 4 == classes[target]) == pytest.approx(0.7 * 0.85, abs=0.03)
    whole = worlds.block_digraph(rng, communities, classes, 1.0)
    assert (communities[np.nonzero(whole)[0]] == communities[np.nonzero(whole)[1]]).all()


# --- refinement ---------------------------------------------------------------------------------------


def test_contexts_leave_the_node_out(rng):
    """Brute force, with a module of one node (context 0)."""
    x, modules = rng.normal(size=(9, 3)), np.array([0, 0, 1, 1, 1, 2, 0, 1, 0])
    means, own = trees.contexts(x, modules)
    for i in range(9):
        others = [j for j in range(9) if j != i and modules[j] == modules[i]]
        assert own[i] == pytest.approx(x[others].mean(axis=0) if others else np.zeros(3))
    assert means[2] == pytest.approx(x[5])


def test_information_is_near_its_ends(rng):
    """The estimate is at most 2 log 2, close to it for far clusters and near 0 for profiles of pure noise."""
    modules = np.repeat([0, 1], 60)
    noise = rng.normal(size=(120, 10))
    _, none = trees.discriminate(trees.standardised(noise), modules, rng)
    far = noise + 12 * np.where(modules == 0, 1, -1)[:, None]
    _, much = trees.discriminate(trees.standardised(far), modules, rng)
    assert abs(none) < 0.15
    assert 1.1 < much <= 2 * math.log(2)


def test_refinement_puts_misplaced_nodes_back(rng):
    """Planted: three clear clusters with four nodes in the wrong module; the better half teaches."""
    truth = np.repeat([0, 1, 2], 30)
    x = trees.standardised(np.eye(3)[truth] @ rng.normal(size=(3, 12)) * 3 + rng.normal(size=(90, 12)))
    wrong = truth.copy()
    wrong[[0, 31, 61, 62]] = [1, 2, 0, 0]
    level, _, _ = trees.refine(wrong, x, rng)
    assert (level.modules == truth).all()
    for p in range(3):
        members = level.modules == p
        assert level.teaches[members].sum() == 15
        inside, outside = level.affiliation[members & level.teaches], level.affiliation[members & ~level.teaches]
        assert inside.min() >= outside.max()


# --- distillation and walk ----------------------------------------------------------------------------


def test_parents_are_averages(case, rng):
    """Rows of weights are non-negative and sum to 1, so parents are distributions; only teachers count."""
    q = rng.dirichlet(np.ones(4), worlds.NODES)
    for level in case.tree:
        assert (level.parents >= 0).all()
        assert level.parents.sum(axis=1) == pytest.approx(1)
        assert (level.parents[:, ~level.teaches] == 0).all()
        assert (level.parents @ q).sum(axis=1) == pytest.approx(1)
    assert net.sureness(np.array([[0.25] * 4, [1.0, 0, 0, 0]])) == pytest.approx([0, 1])


def test_walk_by_brute_force(case):
    """T as written: for each node and level, s_j/Σs over the teachers j of its module."""
    t = net.walk(case.tree)
    for i in range(0, worlds.NODES, 17):
        row = np.zeros(worlds.NODES)
        for level in case.tree:
            team = [j for j in range(worlds.NODES) if level.modules[j] == level.modules[i] and level.teaches[j]]
            total = sum(level.affiliation[j] for j in team)
            for j in team:
                row[j] += level.affiliation[j] / total / 2
        assert t[i] == pytest.approx(row)


def distillation(q: np.ndarray, pulls) -> float:
    """The loss as written in the text, summed node by node."""
    pairs = ((p[i] - q[i], weight[i, 0]) for p, weight in pulls for i in range(len(q)))
    return sum(weight * float(gap @ gap) for gap, weight in pairs) / (2 * len(q))


def test_gradient_of_the_distillation(rng):
    """Central differences of the loss through the softmax and the whole network, parents held fixed."""
    z, known = rng.normal(size=(12, 5)), np.eye(4)[rng.integers(0, 4, 12)]
    levels = [trees.everyone_teaches(rng.integers(0, k, 12)) for k in (3, 2)]
    levels = [replace(v, modules=np.unique(v.modules, return_inverse=True)[1]) for v in levels]
    start = net.Start.draw(rng)
    parameters = start.parameters(5)
    hidden, q = net.forward(parameters, z)
    pulls = net.Teacher((levels[0], levels[1]), known, np.arange(12) < 3).pulls(q)
    gradients = net.backward(parameters, z, hidden, net.distillation_gradient(q, pulls))
    for array, gradient in zip(parameters, gradients, strict=True):
        for index in list(np.ndindex(array.shape))[:: max(1, array.size // 12)]:
            values, kept = [], array[index]
            for shift in (1e-5, -1e-5):
                array[index] = kept + shift
                values.append(distillation(net.forward(parameters, z)[1], pulls))
            array[index] = kept
            assert gradient[index] == pytest.approx((values[0] - values[1]) / 2e-5, abs=1e-8)


def test_without_weight_and_walk_the_tree_changes_nothing(case):
    """Invariant: α = 0 and no walk is the bare network, bit for bit."""
    z = case.inputs[net.DIRECTED]
    bare = net.answers(case.world, z, case.start)
    assert (net.answers(case.world, z, case.start, case.tree, 0.0, walks=False) == bare).all()
    assert not (net.answers(case.world, z, case.start, case.tree, 1.0, walks=False) == bare).all()


def test_a_perfect_tree_teaches_nearly_everything(case):
    true = trees.everyone_teaches(case.world.communities), trees.everyone_teaches(case.world.classes)
    assert case.accuracy(net.DIRECTED, true) > 0.98


def test_labels_of_test_nodes_are_never_used(case):
    """Other classes for all unlabelled nodes leave every answer as it is."""
    world = case.world
    other = replace(world, classes=np.where(world.labelled, world.classes, (world.classes + 1) % 4))
    z = case.inputs[net.DIRECTED]
    one, two = (net.answers(w, z, case.start, case.tree, 1.0) for w in (world, other))
    assert (one == two).all()


def test_shuffling_keeps_the_shape_of_the_tree(case, rng):
    order = rng.permutation(worlds.NODES)
    for level in case.tree:
        moved = level.permuted(order)
        assert (np.bincount(moved.modules) == np.bincount(level.modules)).all()
        assert sorted(moved.affiliation) == sorted(level.affiliation)


def test_heterophily_removes_the_advantage():
    """Four graphs each: EDEN gains at homophily 0.6 and loses at 0.25, where greedy H² is below the true one's."""
    gain: dict[float, list[float]] = {0.6: [], 0.25: []}
    for h, seed in itertools.product(gain, range(4)):
        case = eden.set_up(eden.Settings(homophily=h), seed)
        gain[h].append(eden.gains(eden.with_and_without(case))[net.DIRECTED])
        if h == 0.25:
            graph = case.world.graph
            found = trees.partition_entropy(graph, case.coarse[1].modules)
            assert found < trees.partition_entropy(graph, case.world.communities)
    assert np.mean(gain[0.6]) > 10
    assert np.mean(gain[0.25]) < -10


def test_icicle_pieces_cover_all_nodes(case):
    """Every column holds each node once, and children lie inside their parents."""
    found = pieces(case.tree, case.world.classes)
    by_key = {piece.key: piece for piece in found}
    for depth in range(4):
        column = [piece for piece in found if piece.depth == depth]
        assert sum(piece.size for piece in column) == worlds.NODES
        assert sum(piece.counts for piece in column).tolist() == [60] * 4
        for piece in column if depth else []:
            parent = by_key[piece.parent]
            assert parent.depth == depth - 1
            assert parent.start <= piece.start
            assert piece.start + piece.size <= parent.start + parent.size


# --- bad input ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        {"homophily": 1.2},
        {"homophily": -0.1},
        {"alpha": -1},
        {"strength": 0},
        {"modules": 1},
        {"modules": 200},
        {"per_class": 0},
        {"per_class": 60},
    ],
)
def test_a_wrong_setting_is_named(wrong):
    (name,) = wrong
    with pytest.raises(ValueError, match=name):
        eden.Settings.checked(wrong)


def test_wrong_arguments_are_named(case, rng):
    with pytest.raises(ValueError, match="homophily"):
        worlds.make_world(rng, 1.5, 0.7, 5)
    with pytest.raises(ValueError, match="strength"):
        worlds.make_world(rng, 0.6, 0.0, 5)
    for per_class in (0, 60, 61):
        with pytest.raises(ValueError, match="per_class"):
            worlds.make_world(rng, 0.6, 0.7, per_class)
    with pytest.raises(ValueError, match="class 3 has no nodes"):
        worlds.choose_labelled(rng, np.repeat([0, 1, 2], 20), 5)
    with pytest.raises(ValueError, match="alpha"):
        net.answers(case.world, case.inputs[net.DIRECTED], case.start, case.tree, -1.0)
    for modules in (1, 4):
        with pytest.raises(ValueError, match="modules"):
            trees.coarse_tree(ROUND, [modules])


@pytest.mark.parametrize(
    ("graph", "words"),
    [(np.ones((2, 3)), "square"), (np.eye(6), "self-loops"), (np.zeros((6, 6)), "at least one edge")],
)
def test_a_wrong_graph_is_named(graph, words):
    with pytest.raises(ValueError, match=f"graph.*{words}"):
        trees.coarse_tree(graph, [2])
    with pytest.raises(ValueError, match=f"graph.*{words}"):
        trees.node_entropy(graph)
