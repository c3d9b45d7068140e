"""FedECADO: the implicit equations, the fixed point, the optimum from another library, limits of the baselines."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from core.demos._fedecado_circuit import FEDAVG, FEDNOVA, MU, Clients, average_round, backward_euler
from core.demos.fedecado import ECADO, CircuitSettings, circuit_round, compare, make_clients, train
from core.lab.federated import loss, loss_gradient, one_hot, optimum, pool


def all_gradients(c: Clients, w: np.ndarray) -> np.ndarray:
    return np.stack([loss_gradient(w, x, y, MU) for x, y in zip(c.x, c.y, strict=True)])


def test_a_backward_euler_step_satisfies_the_circuit():
    """Substitute the solution into the three implicit equations: residuals at rounding level."""
    rng = np.random.default_rng(0)
    shape = (4, 3, 5)
    flows, start, gamma = rng.normal(size=(3, *shape))
    g, p, idle = rng.uniform(0.5, 3, shape), rng.dirichlet(np.ones(4)), rng.normal(size=shape[1:])
    centre, size, inductance = rng.normal(size=shape[1:]), 0.37, 2.1
    new = backward_euler(size, centre, flows, start, gamma, g, p, idle, inductance)
    node = (new.centre - centre) / size + np.tensordot(p, new.flows, 1) + idle
    coil = inductance * (new.flows - flows) / size - (new.centre - new.states)
    client = new.states - (gamma + (new.flows - start) / g)
    assert max(np.abs(v).max() for v in (node, coil, client)) < 1e-12


def test_the_optimum_is_a_fixed_point():
    """At x_c = w*, I_i = ∇ℓ_i(w*) nothing moves."""
    s, data = CircuitSettings(), pool(0)
    c = make_clients(s, 0)
    w, _ = optimum(data.x, data.y, MU, tolerance=1e-10)
    flows = all_gradients(c, w)
    before = flows.copy()
    centre, _, _ = circuit_round(c, s, w, flows, np.arange(0, 20, 3), True)
    assert np.abs(centre - w).max() < 1e-6
    assert np.abs(flows - before).max() < 1e-6


def test_a_long_run_ends_at_the_optimum():
    """Steady state of the circuit: gap to L-BFGS below 1e-7 after 1,000 rounds with 30 % active."""
    s, data = CircuitSettings(rounds=1000), pool(0)
    c = make_clients(s, 0)
    _, best = optimum(data.x, data.y, MU, tolerance=1e-10)
    assert abs(train(c, s, 0, ECADO, best).gap[-1]) < 1e-7


def test_pooled_optimum_agrees_with_scikit_learn():
    data = pool(3)
    ours, _ = optimum(data.x, data.y, MU, tolerance=1e-10)
    theirs = LogisticRegression(C=1 / (MU * len(data.y)), fit_intercept=False, tol=1e-12, max_iter=9000)
    assert np.abs(ours - theirs.fit(data.x, data.y).coef_).max() < 1e-5


def test_idle_flows_stay():
    s = CircuitSettings()
    c = make_clients(s, 1)
    flows = np.random.default_rng(0).normal(size=(20, 10, 21)) * 0.1
    before = flows.copy()
    chosen = np.array([1, 4, 9])
    circuit_round(c, s, np.zeros((10, 21)), flows, chosen, True)
    idle = np.delete(np.arange(20), chosen)
    assert (flows[idle] == before[idle]).all()
    assert np.abs(flows[chosen] - before[chosen]).max() > 0


def test_equal_clients_carry_equal_flows():
    """Symmetry: identical data, shares and windows keep all flows equal."""
    data = pool(0)
    x, y = data.x[:100], one_hot(data.y[:100])
    curvature = np.stack([0.09 * (x**2).mean(0) + MU] * 4)
    c = Clients([x] * 4, [y] * 4, np.full(4, 0.25), np.full(4, 0.5), np.full(4, 3), curvature)
    flows, centre = np.zeros((4, 10, 21)), np.zeros((10, 21))
    for _ in range(3):
        centre, _, _ = circuit_round(c, CircuitSettings(active=1.0), centre, flows, np.arange(4), True)
    assert np.abs(flows - flows[0]).max() < 1e-12
    assert np.abs(flows).max() > 1e-3


def test_server_steps_follow_the_tolerance():
    """A looser tolerance cannot need more steps than a tight one."""
    c, used = make_clients(CircuitSettings(), 0), {}
    for tolerance in (0.005, 5.0):
        s = CircuitSettings(tolerance=tolerance)
        used[tolerance] = train(c, s, 0, ECADO, 0.0).steps
    assert used[5.0] < used[0.005]


def test_fednova_is_fedavg_for_equal_windows():
    s = CircuitSettings(most_epochs=1, slowest=0.5, fastest=0.5)
    c = make_clients(s, 2)
    w = np.random.default_rng(1).normal(size=(10, 21)) * 0.1
    chosen = np.array([0, 3, 7, 11])
    assert np.allclose(average_round(c, w, chosen, FEDNOVA), average_round(c, w, chosen, FEDAVG), atol=1e-12)


def test_client_gradient_against_central_differences():
    data, rng = pool(0), np.random.default_rng(4)
    w, direction = rng.normal(size=(2, 10, 21))
    step = 1e-6
    slope = (loss(w + step * direction, data.x, data.y, MU) - loss(w - step * direction, data.x, data.y, MU)) / (
        2 * step
    )
    inner = (loss_gradient(w, data.x, one_hot(data.y), MU) * direction).sum()
    assert slope == pytest.approx(inner, rel=1e-6)


def test_every_client_has_rows_and_shares_add_up():
    c = make_clients(CircuitSettings(alpha=0.05), 5)
    assert min(len(x) for x in c.x) >= 5
    assert c.share.sum() == pytest.approx(1)


def test_divergence_is_a_result_and_not_an_error():
    """Tiny inductance with all clients active can explode; the path then ends at accuracy 0.1, gap infinite."""
    s = CircuitSettings(inductance=0.01, active=1.0, rounds=300)
    seeds = [compare(s, seed, (ECADO,))[0][ECADO] for seed in range(3)]
    for t in seeds:
        assert len(t.gap) == 300
        if t.diverged:
            assert t.accuracy[-1] == 0.1
            assert t.gap[-1] == np.inf


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("alpha", 0),
        ("active", 0.0),
        ("active", 1.2),
        ("most_epochs", 0),
        ("inductance", 0),
        ("tolerance", 0),
        ("slowest", 0),
        ("rounds", 0),
        ("clients", 1),
    ],
)
def test_bad_settings_are_named(setting, value):
    with pytest.raises(ValueError, match=setting):
        CircuitSettings.checked({setting: value})


def test_step_bounds_in_the_wrong_order():
    with pytest.raises(ValueError, match="slowest"):
        CircuitSettings.checked({"slowest": 0.9, "fastest": 0.2})
