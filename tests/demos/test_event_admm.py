"""Event-triggered ADMM: limits, invariants, the optimum from another library, gradients by differences."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from core.demos._event_admm_agents import MU, SCAFFOLD, Agents, Trace, averaging, deal, split_rows
from core.demos.event_admm import (
    ALWAYS,
    EVENT,
    EventSettings,
    admm,
    compare,
    scorer,
)
from core.lab.federated import loss, one_hot, optimum, pool


def path(settings, seed=0, **options):
    agents = deal(settings.split, settings.agents, seed)
    return admm(agents, settings, seed, scorer(agents, seed)[0], **options)


def test_without_threshold_it_is_plain_admm():
    """Δ = 0 and no loss: the very same trajectory as the baseline that always sends, at the same ρ."""
    s = EventSettings(threshold=0.0, rho=0.1)
    assert path(s).gap == compare(s, 0, (ALWAYS,))[0][ALWAYS].gap


def test_always_sending_costs_two_messages_an_agent_and_round():
    s = EventSettings(threshold=0.0)
    assert path(s).messages[-1] == 2 * 20 * 50
    assert path(EventSettings()).messages[-1] < 2 * 20 * 50


def test_admm_converges_to_the_optimum():
    """Consensus ADMM is exact: after 200 rounds the gap is below 1e-9."""
    gap = path(EventSettings(threshold=0.0, rho=0.1, rounds=200)).gap[-1]
    assert abs(gap) < 1e-9


def test_optimum_agrees_with_scikit_learn():
    agents = deal("rare class", 20, 0)
    ours, _ = optimum(agents.flat_x, agents.flat_y, MU, agents.flat_w)
    theirs = LogisticRegression(C=1 / MU, fit_intercept=False, tol=1e-10, max_iter=5000)
    theirs.fit(agents.flat_x, agents.flat_y, sample_weight=agents.flat_w)
    assert np.abs(ours - theirs.coef_).max() < 1e-4


def test_gradients_against_central_differences():
    agents = deal("rare class", 5, 0)
    rng = np.random.default_rng(0)
    w = 0.3 * rng.normal(size=(5, 10, 21))
    gradient = agents.gradient(w)
    rows = split_rows(pool(0).y, "rare class", 5, np.random.default_rng([0, 1]))
    for i, own in enumerate(rows):
        direction = rng.normal(size=(10, 21))
        x, y = pool(0).x[own], pool(0).y[own]
        step = 1e-5
        slope = (loss(w[i] + step * direction, x, y, MU) - loss(w[i] - step * direction, x, y, MU)) / (2 * step)
        assert slope == pytest.approx(float((gradient[i] * direction).sum()), rel=1e-6)


def test_a_huge_threshold_says_nothing():
    """No message at all: z stays 0 and the objective log 10."""
    s = EventSettings.model_construct(**{**EventSettings().model_dump(), "threshold": 1e9})
    agents = deal(s.split, s.agents, 0)
    seen = []
    trace = admm(agents, s, 0, lambda trace, sent, z: seen.append((sent, agents.objective(z))))
    assert isinstance(trace, Trace)
    assert all(sent == 0 and value == pytest.approx(np.log(10), abs=1e-12) for sent, value in seen)


def test_one_agent_finds_its_own_minimum():
    """N = 1, always sending: z is the agent's own minimiser, known from L-BFGS."""
    data = pool(0)
    x, y = data.x[None, :200], one_hot(data.y[:200])[None]
    agents = Agents(x, x / 200, y, data.x[:200], data.y[:200], np.full(200, 1 / 200))
    best, _ = optimum(data.x[:200], data.y[:200], MU)
    last = {}
    s = EventSettings(threshold=0.0, rho=0.1, rounds=400)
    admm(agents, s, 0, lambda trace, sent, z: last.update(z=z))
    assert np.abs(last["z"] - best).max() < 1e-4


def test_lost_packets_hurt_until_a_reset():
    """With 30 % lost and no reset the errors stay; a reset every 5 rounds removes them."""
    without = path(EventSettings(lost=0.3)).gap[-1]
    with_reset = path(EventSettings(lost=0.3, reset=5)).gap[-1]
    assert with_reset < 0.002 < 0.01 < without


def test_scaffold_converges_where_fedavg_does_not():
    """SCAFFOLD's control variates remove client drift; FedAvg keeps its bias on the rare-class split."""
    traces, _ = compare(EventSettings(), 1, (SCAFFOLD, "FedAvg"))
    assert traces[SCAFFOLD].gap[-1] < 0.01 < traces["FedAvg"].gap[-1]


def test_with_identical_data_everybody_agrees():
    """Equal blocks: FedAvg over all agents is gradient descent on the common objective, step for step."""
    data = pool(0)
    x = np.repeat(data.x[None, :100], 6, 0)
    y = np.repeat(one_hot(data.y[:100])[None], 6, 0)
    agents = Agents(x, x / 100, y, data.x[:100], data.y[:100], np.full(100, 1 / 100))
    ends = {}
    averaging(agents, 3, 10, 0, lambda trace, sent, z: ends.update(z=z), "FedAvg")
    w = np.zeros((1, 10, 21))
    for _ in range(30):
        w = w - agents.gradient(w, slice(0, 1))
    assert np.allclose(ends["z"], w[0], atol=1e-12)


def test_every_agent_has_rows_and_rare_classes_are_apart():
    labels = pool(0).y
    for kind in ("rare class", "one class", "dirichlet", "iid"):
        rows = split_rows(labels, kind, 20, np.random.default_rng(2))
        assert len(rows) == 20
        assert all(len(own) > 0 for own in rows)
    rare = split_rows(labels, "rare class", 20, np.random.default_rng(2))
    assert set(labels[rare[-2]]) == {8}
    assert set(labels[rare[-1]]) == {9}
    assert all(labels[own].max() < 8 for own in rare[:-2])


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("agents", 1),
        ("rho", 0),
        ("threshold", -1),
        ("decay", 1.2),
        ("decay", 0.0),
        ("lost", 1.0),
        ("reset", 2.5),
        ("rounds", 0),
        ("local_steps", 0),
        ("alpha", 2.0),
        ("split", "halves"),
    ],
)
def test_bad_settings_are_named(setting, value):
    with pytest.raises(ValueError, match=setting):
        EventSettings.checked({setting: value})


def test_divergence_is_a_message():
    s = EventSettings(threshold=0.0, rho=10.0, split="iid")
    with pytest.raises(ValueError, match="rho"), np.errstate(all="ignore"):
        path(s.replace(rounds=200, local_steps=100))


def test_saving_is_real():
    """The trigger at its defaults needs fewer messages than always sending, on one seed."""
    traces, _ = compare(EventSettings(), 3, (EVENT, ALWAYS))
    assert traces[EVENT].to_target() < 0.65 * traces[ALWAYS].to_target()
