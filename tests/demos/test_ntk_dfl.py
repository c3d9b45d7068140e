"""NTK-DFL: the closed-form kernel against Jacobians, evolution against gradient steps, invariants of averaging."""

import autograd.numpy as anp
import numpy as np
import pytest
from autograd import jacobian

from core.demos import _ntk_dfl_net as net
from core.demos.ntk_dfl import NTK, PeerSettings, deal, graphs, kernel_step, run, train


@pytest.fixture
def small():
    """A random net 4–6–3 with twelve rows: weights, x, one-hot y, hidden activations, outputs."""
    rng = np.random.default_rng(8)
    w = net.init(rng, 4, 6, 3)
    w[1], w[3] = rng.normal(size=6), rng.normal(size=3)
    x, y = rng.normal(size=(12, 4)), np.eye(3)[rng.integers(0, 3, 12)]
    hidden, out = net.forward(w, x)
    return w, x, y, hidden, out


def full_jacobian(w, x):
    """(n, C, P) by autograd on one flat parameter vector."""
    shapes = [part.shape for part in w]

    def outputs(flat):
        parts, at = [], 0
        for shape in shapes:
            count = int(np.prod(shape))
            parts.append(flat[at : at + count].reshape(shape))
            at += count
        hidden = anp.maximum(x @ parts[0].T + parts[1], 0)
        return hidden @ parts[2].T + parts[3]

    return jacobian(outputs)(np.concatenate([part.ravel() for part in w]))


def test_kernel_equals_the_jacobians_product(small):
    w, x, _, hidden, _ = small
    j = full_jacobian(w, x)
    expected = np.einsum("icp,jcp->ij", j, j) / 3
    kernel = net.tangent_kernel(w, hidden, x @ x.T + 1)
    assert np.abs(kernel - expected).max() < 1e-8
    assert np.abs(kernel - kernel.T).max() < 1e-12
    assert np.linalg.eigvalsh(kernel).min() > -1e-9


def test_backward_is_the_transposed_jacobian(small):
    w, x, _, hidden, _ = small
    residual = np.random.default_rng(1).normal(size=(12, 3))
    expected = np.einsum("icp,ic->p", full_jacobian(w, x), residual)
    found = np.concatenate([part.ravel() for part in net.backward(w, x, hidden, residual)])
    assert np.allclose(found, expected, atol=1e-10)


def test_one_step_of_evolution_is_one_gradient_step(small):
    """τ = 1: w − η/n Σ Jᵀ(softmax f − Y) is gradient descent on mean cross-entropy."""
    w, x, y, hidden, out = small
    kernel = net.tangent_kernel(w, hidden, x @ x.T + 1)
    residual = net.evolve(kernel, out, y, 0.7, [1])[1]
    evolved = net.moved(w, net.backward(w, x, hidden, residual), 0.7 / len(x))
    stepped = net.moved(w, net.gradient(w, x, y), 0.7)
    assert max(np.abs(a - b).max() for a, b in zip(evolved, stepped, strict=True)) < 1e-12


def test_weights_follow_the_full_jacobian_to_first_order(small):
    """f(w_τ) − f(w) + η/n Σ J_c J_c'ᵀ R is second order: it shrinks 100-fold when η shrinks tenfold."""
    w, x, y, hidden, out = small
    j = full_jacobian(w, x)
    kernel = net.tangent_kernel(w, hidden, x @ x.T + 1)
    error = []
    for step in (1e-3, 1e-4):
        residual = net.evolve(kernel, out, y, step, [10])[10]
        moved = net.moved(w, net.backward(w, x, hidden, residual), step / len(x))
        linear = out - step / len(x) * np.einsum("icp,jdp,jd->ic", j, j, residual)
        error.append(np.abs(net.forward(moved, x)[1] - linear).max())
    assert 60 < error[0] / error[1] < 150


def test_gradient_against_central_differences(small):
    w, x, y, _, _ = small
    gradient = net.gradient(w, x, y)
    rng = np.random.default_rng(2)
    direction = [rng.normal(size=part.shape) for part in w]
    up, down = (net.cross_entropy(net.forward(net.moved(w, direction, s), x)[1], y) for s in (-1e-6, 1e-6))
    inner = sum((a * b).sum() for a, b in zip(gradient, direction, strict=True))
    assert (up - down) / 2e-6 == pytest.approx(inner, rel=1e-6)


def test_permuting_the_classes_permutes_the_evolved_net(small):
    w, x, y, hidden, out = small
    order = np.array([2, 0, 1])
    other = [w[0], w[1], w[2][order], w[3][order]]
    results = []
    for weights, labels, start in ((w, y, out), (other, y[:, order], out[:, order])):
        kernel = net.tangent_kernel(weights, hidden, x @ x.T + 1)
        residual = net.evolve(kernel, start, labels, 0.5, [8])[8]
        results.append(net.moved(weights, net.backward(weights, x, hidden, residual), 0.5 / len(x)))
    assert np.allclose(results[0][2][order], results[1][2], atol=1e-10)
    assert np.allclose(results[0][0], results[1][0], atol=1e-10)


def test_averaging_keeps_the_mean_on_a_regular_graph():
    s = PeerSettings()
    graph = graphs(s, 0)[0]
    assert (graph.sum(1) == 4).all()
    assert (graph == graph.T).all()
    w = [np.random.default_rng(0).normal(size=(12, 3, 2))]
    mixed = net.average(w, graph / graph.sum(1, keepdims=True))
    assert np.allclose(mixed[0].mean(0), w[0].mean(0), atol=1e-12)


@pytest.mark.parametrize(("topology", "neighbours"), [("dynamic", 3), ("static", 2), ("static", 5), ("ring", 3)])
def test_graphs_are_connected(topology, neighbours):
    for graph in graphs(PeerSettings(topology=topology, neighbours=neighbours), 4):
        assert (np.linalg.matrix_power(graph.astype(int), 12) > 0).all()


def test_the_chosen_time_never_raises_the_loss():
    s = PeerSettings()
    peers = deal(s, 0)
    flat = peers.x.reshape(-1, 20)
    w = net.init(np.random.default_rng([0, 33]), 20, 24, 10)
    around = np.array([0, 3, 5, 7])
    x, y = peers.x[around].reshape(-1, 20), peers.y[around].reshape(-1, 10)
    after = kernel_step(peers, s, w, around, flat @ flat.T + 1)
    assert net.cross_entropy(net.forward(after, x)[1], y) < net.cross_entropy(net.forward(w, x)[1], y)


def test_all_clients_together_are_balanced():
    counts = deal(PeerSettings(alpha=0.05), 1).counts
    assert (counts.sum(0) == 60).all()
    assert (counts.sum(1) == 50).all()


def test_floats_are_those_that_the_method_sends():
    """κ(P + n·C·P + 2·n·C) with P = 754, n = 50, C = 10, κ = 3, against κ·P."""
    floats = run(PeerSettings(rounds=5), 0).measures["floats"]
    assert floats[NTK] == 1_136_262
    assert floats["DFedAvg"] == 3 * 754


def test_same_graphs_give_the_same_path():
    s = PeerSettings(rounds=5)
    peers = deal(s, 2)
    assert train(peers, s, 2, NTK).accuracy == train(peers, s, 2, NTK).accuracy


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"clients": 2}, "clients"),
        ({"neighbours": 1}, "neighbours"),
        ({"neighbours": 5, "clients": 5}, "neighbours"),
        ({"neighbours": 3, "clients": 11}, "neighbours"),
        ({"alpha": 0}, "alpha"),
        ({"step": 0}, "step"),
        ({"longest": 0}, "longest"),
        ({"rounds": 0}, "rounds"),
        ({"topology": "star"}, "topology"),
    ],
)
def test_bad_settings_are_named(changes, name):
    with pytest.raises(ValueError, match=name):
        PeerSettings.checked(changes)


def test_a_huge_evolution_step_is_a_message(small):
    w, x, y, hidden, out = small
    kernel = net.tangent_kernel(w, hidden, x @ x.T + 1)
    with pytest.raises(ValueError, match="step"), np.errstate(all="ignore"):
        net.evolve(kernel, out, y, 1e308, [3])
