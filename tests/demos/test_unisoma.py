"""Unisoma: right values from contact mechanics, from the algebra of the modules and from finite differences."""

from functools import cache

import autograd.numpy as anp
import numpy as np
import pytest
from autograd import grad
from scipy.optimize import lsq_linear

from core.demos import _unisoma_layers as layers
from core.demos._unisoma_nets import Fitted, Implicit, Inputs, Scales, Task, check_pairs, ridge, start, train, views
from core.demos._unisoma_scene import (
    COMPLIANCE,
    System,
    contact_list,
    contact_pressure,
    draw_system,
    midpoints,
    stack_scene,
    stations_scene,
    stiffness,
)
from core.demos.unisoma import LISTS, SIZES, UNISOMA, Explicit, Settings, more_solids, other_lists, run


@pytest.fixture
def rng():
    return np.random.default_rng(11)


def system(seed=3, strips=1, above=1, below=0, n=40):
    return draw_system(np.random.default_rng(seed), n, 8, strips, above, below)


def inputs_of(scene):
    return Scales.of(scene, slice(None)).inputs(scene, np.float64)


@cache
def explicit(stations=2, kind="true", slices=4, seed=5):
    """An untrained model in double precision, its parameters and a small scene's inputs."""
    scene = stations_scene(seed, 12, 8, stations)
    model = Explicit(scene.strips, scene.punches, contact_list(scene, kind), slices)
    return model, views(model.shapes, start(model, seed, np.float64)), inputs_of(scene)


# --- mechanics ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("strips", "above", "below"), [(1, 1, 0), (1, 0, 1), (3, 2, 1), (3, 2, 2), (8, 2, 1)])
def test_contact_is_complementary(strips, above, below):
    """Conditions of Karush, Kuhn and Tucker: λ ≥ 0, gap + λ/400 ≥ 0, and one of the two is 0."""
    s = system(7, strips, above, below, n=100)
    w, pressure = s.solve()
    left = s.gaps(w) + COMPLIANCE * pressure
    assert (pressure >= 0).all()
    assert left.min() >= -1e-8
    assert np.abs(left * pressure).max() < 1e-6
    assert (pressure > 0).any()


def test_displacement_balances_the_forces():
    """K w = f + contact forces, with the action of punches above downwards and of the one below upwards."""
    s = system(7, 1, 2, 1)
    w, pressure = s.solve()
    down = (s.sides[:, None] * pressure).sum(axis=1)
    assert np.allclose(w[:, 0] @ stiffness(8), s.force[:, 0] - down, atol=1e-10)


def test_neighbours_push_each_other_with_equal_force():
    """Two strips without punches: the pressure between them lifts the upper and lowers the lower."""
    s = system(4, 2, 1, 0)
    w, pressure = s.solve()
    forces = w @ stiffness(8) - s.force
    assert np.allclose(forces.sum(axis=1), -pressure[:, 1], atol=1e-9)
    assert np.allclose(forces[:, 1], -pressure[:, 0], atol=1e-9)


def test_pressure_against_non_negative_least_squares():
    """Second way: ½λᵀAλ + λᵀq = ½|Lᵀλ + L⁻¹q|² + const for A = L Lᵀ, solved by SciPy."""
    s = system(n=6)
    _, pressure = s.solve()
    softness = np.linalg.inv(stiffness(8))
    root = np.linalg.cholesky(softness + COMPLIANCE * np.eye(8))
    for one, gap in zip(pressure[:, 0], s.gaps(s.force @ softness)[:, 0], strict=True):
        found = lsq_linear(root.T, -np.linalg.solve(root, gap), bounds=(0, np.inf), tol=1e-14)
        assert np.allclose(one, found.x, atol=1e-6)


def test_without_contact_the_strip_is_free():
    """No push, punch far away: w = K⁻¹ f."""
    s = system()
    far = System(s.height, s.force, s.surface + 5, 0 * s.motion, s.sides)
    w, pressure = far.solve()
    assert (pressure == 0).all()
    assert np.abs(w - np.linalg.solve(stiffness(8), s.force[:, 0].T).T[:, None]).max() < 1e-10


def test_one_stiff_point_deeper_push():
    """Closed form of one point: λ = max(0, −q/a), which a deeper push never lowers."""
    push = np.linspace(0, 1, 30)
    pressure = contact_pressure(np.array([[0.25]]), 0.4 - push[:, None])[:, 0]
    assert np.allclose(pressure, np.maximum(0, push - 0.4) / 0.25, atol=1e-12)
    assert (np.diff(pressure) >= 0).all()


def test_punches_start_at_their_clearance():
    """A parabola of radius R touches height 0.08 above the highest point of the strip, on its own side."""
    s = system(9, 3, 2, 1)
    assert s.surface[:, :2].min() >= s.height[:, 0].max(-1).min() + 0.08
    assert (s.surface[:, :2].min(-1) >= s.height[:, [0]].max(-1) + 0.08 - 1e-12).all()
    assert (s.surface[:, 2].max(-1) <= s.height[:, 2].min(-1) - 0.08 + 1e-12).all()
    assert (np.diff(s.height, axis=1) < 0).all()


def test_stations_are_independent():
    """The first strip of two stations is that of one station with the same seed, exactly."""
    one, two = stations_scene(6, 30, 8, 1), stations_scene(6, 30, 8, 2)
    assert (one.displacement[0] == two.displacement[0]).all()
    assert (one.solids[0] == two.solids[0]).all()
    assert (one.loads[0] == two.loads[0]).all()


def test_scene_of_part_of_the_push():
    """At the full push the moving picture is the sample itself, at no push its punches do not move."""
    scene = stations_scene(6, 5, 8, 3)
    moving = scene.pushed(2, (0.0, 0.5, 1.0))
    assert np.allclose(moving.displacement[:, 2], scene.displacement[:, 2], atol=1e-12)
    assert np.allclose(moving.solids[:, 1], scene.solids[:, 2])
    assert (moving.loads[:, 0, :, 2] == 0).all()


def test_load_carries_no_geometry():
    """Only x, 0 and the push: contact alone can tell a strip the shape of its punch."""
    scene = stations_scene(6, 5, 8, 2)
    assert (scene.loads[..., 0] == midpoints(8)).all()
    assert (scene.loads[..., 1] == 0).all()
    assert (np.ptp(scene.loads[..., 2], axis=-1) == 0).all()


def test_contact_lists():
    """Solids are numbered strips first; in stacks neighbours touch, then top and bottom strip their punches."""
    two, stack = stations_scene(1, 2, 8, 2), stack_scene(1, 2, 8, 3)
    assert contact_list(two, "true") == [(0, 2), (1, 3)]
    assert contact_list(two, "wrong") == [(0, 3), (1, 2)]
    assert contact_list(two, "all") == [(0, 2), (0, 3), (1, 2), (1, 3)]
    assert contact_list(two, "none") is None
    assert contact_list(stack, "true") == [(0, 1), (1, 2), (0, 3), (0, 4), (2, 5)]
    for scene in (two, stack, stations_scene(1, 2, 8, 5)):
        punches = set(range(scene.strips, scene.strips + scene.punches))
        wrong = contact_list(scene, "wrong")
        assert punches <= {j for _, j in wrong}
        assert not {p for p in wrong if p[1] in punches} & set(scene.pairs)


# --- layers -------------------------------------------------------------------------------------------


SHAPES = {
    "mlp": [(2, 3, 5, 4), (2, 4, 6), (2, 1, 6), (2, 6, 3), (2, 1, 3)],
    "layer_norm": [(2, 3, 4, 5)],
    "attention": [(2, 3, 4, 5)] + [(2, 5, 5)] * 4,
    "slice_weights": [(2, 3, 6, 5), (2, 5, 4)],
    "pooling": [(2, 3, 6, 5), (2, 3, 6, 4), (2, 5, 5)],
    "allocation": [(4, 3, 2, 5), (3, 5, 5)],
    "deslicing": [(2, 3, 6, 4), (2, 3, 4, 5)],
}


@pytest.mark.parametrize("name", SHAPES)
def test_gradients_against_central_differences(rng, name):
    """Finite differences of step 1e-6 along random directions, for every argument of every layer."""
    layer = getattr(layers, name)
    arguments = [rng.uniform(0.1, 1, s) if name == "pooling" else rng.normal(size=s) for s in SHAPES[name]]
    weight = rng.normal(size=layer(*arguments).shape)
    for k, a in enumerate(arguments):

        def total(v, k=k):
            return anp.sum(weight * layer(*arguments[:k], v, *arguments[k + 1 :]))

        direction = rng.normal(size=a.shape)
        numeric = (total(a + 1e-6 * direction) - total(a - 1e-6 * direction)) / 2e-6
        assert (grad(total)(a) * direction).sum() == pytest.approx(numeric, rel=1e-6, abs=1e-7)


def loss_of(model, inputs, flat):
    return anp.sum(model.predict(views(model.shapes, flat), inputs) ** 2)


@pytest.mark.parametrize(
    "model", [explicit()[0], explicit(kind="all")[0], explicit(kind="none")[0], Implicit(2, 2)]
)
def test_gradient_of_whole_models(rng, model):
    """Central differences along random directions in all parameters at once."""
    inputs, flat = explicit()[2], start(model, 1, np.float64)
    found = grad(lambda v: loss_of(model, inputs, v))(flat)
    for _ in range(3):
        step = 1e-6 * rng.normal(size=flat.size)
        numeric = (loss_of(model, inputs, flat + step) - loss_of(model, inputs, flat - step)) / 2
        assert found @ step == pytest.approx(numeric, rel=1e-5)


def test_shares_add_up_to_one(rng):
    s = layers.slice_weights(rng.normal(size=(3, 4, 8, 5)), rng.normal(size=(3, 5, 4)))
    assert np.allclose(s.sum(axis=-1), 1, atol=1e-12)
    p = layers.shares(rng.normal(size=(6, 4, 3, 5)), rng.normal(size=(2, 5, 5)))
    assert np.allclose(p.sum(axis=1), 1, atol=1e-12)
    model, parameters, inputs = explicit(3)
    for weights in model.weights(parameters, inputs):
        assert np.allclose(weights.sum(axis=1), 1, atol=1e-12)


def test_one_contact_is_allocated_whole(rng):
    """A softmax over one term is 1: the allocation is the identity."""
    c = rng.normal(size=(1, 4, 3, 5))
    assert (layers.allocation(c, rng.normal(size=(1, 5, 5))) == c).all()


def test_layers_against_loops(rng):
    """Brute force: slices, tokens and allocation point by point, term by term."""
    h, w, f = rng.normal(size=(1, 1, 6, 5)), rng.normal(size=(1, 5, 3)), rng.normal(size=(1, 5, 5))
    s = layers.slice_weights(h, w)
    for n in range(6):
        e = [np.exp(h[0, 0, n] @ w[0, :, m] / 0.5) for m in range(3)]
        assert np.allclose(s[0, 0, n], np.array(e) / sum(e))
    tokens = layers.pooling(h, s, f)
    for m in range(3):
        mean = sum(s[0, 0, n, m] * (h[0, 0, n] @ f[0]) for n in range(6)) / sum(s[0, 0, n, m] for n in range(6))
        assert np.allclose(tokens[0, 0, m], mean)
    c, wa = rng.normal(size=(4, 2, 3, 5)), rng.normal(size=(2, 5, 5))
    for i, b, m in np.ndindex(2, 2, 3):
        logits = [c[k, b, m] @ wa[i] for k in range(4)]
        expected = [sum(np.exp(v[x]) * c[k, b, m, x] for k, v in enumerate(logits)) for x in range(5)]
        expected /= np.sum(np.exp(logits), axis=0)
        assert np.allclose(layers.allocation(c, wa)[i, b, m], expected)


# --- models -------------------------------------------------------------------------------------------


def test_a_strip_moves_with_its_points_and_a_punch_is_a_set(rng):
    """Permuting a strip's points permutes its prediction; permuting a punch's points changes nothing."""
    model, parameters, inputs = explicit(2)
    usual, order = model.predict(parameters, inputs), rng.permutation(8)
    for solid in range(4):
        solids = inputs.solids.copy()
        solids[solid] = solids[solid][:, order]
        expected = usual.copy()
        if solid < 2:
            expected[solid] = expected[solid][:, order]
        assert np.abs(model.predict(parameters, Inputs(solids, inputs.loads)) - expected).max() < 1e-12


def test_without_contacts_the_punch_is_not_seen():
    """No contact module: another punch shape changes nothing, with modules it changes the prediction."""
    for kind, same in (("none", True), ("true", False)):
        model, parameters, inputs = explicit(2, kind)
        solids = inputs.solids.copy()
        solids[2:, :, :, 1] += np.linspace(-1, 1, 8)
        other = model.predict(parameters, Inputs(solids, inputs.loads))
        assert np.allclose(other, model.predict(parameters, inputs), atol=1e-14) == same


@pytest.mark.parametrize("stations", [1, 5])
def test_parameters_of_the_explicit_model(stations):
    """By hand, for one station: embeddings 1968, slices 960, contact attention 1024, allocations 256 + 256,
    contact MLP 1072, triplet attention 1024 and MLP 1072, deslice MLP 1072, head 577."""
    per_station = 1968 + 960 + 1024 + 256 + 256 + 1072 + 1024 + 1072 + 1072 + 577
    assert per_station == 9281
    assert start(explicit(stations)[0], 0).size == stations * per_station


@pytest.mark.parametrize("solids", [2, 10])
def test_parameters_of_the_implicit_model(solids):
    """By hand: embedding (4 + solids)·48 + 48 + 1176, blocks 384 + 576 + 2304 + 2376 each, head 1249."""
    by_hand = (4 + solids) * 48 + 48 + 48 * 24 + 24 + 2 * (384 + 576 + 2304 + 2376) + 1249
    assert by_hand == {2: 14_041, 10: 14_425}[solids]
    assert start(Implicit(solids // 2, solids // 2), 0).size == by_hand


def test_modules_start_alike_with_every_contact_list():
    """Paired comparison: what both models have starts with the same numbers."""
    (_, a, _), (_, b, _) = explicit(2), explicit(2, "none")
    assert set(b) < set(a)
    assert all((a[name] == b[name]).all() for name in b)


def test_inputs_of_a_constant_column():
    """A column without spread becomes 0, the others mean 0 and standard deviation 1, solid by solid."""
    inputs = inputs_of(stations_scene(2, 50, 8, 2))
    assert np.isfinite(inputs.solids).all()
    assert (inputs.solids[2:, :, :, 2] == 0).all()
    assert np.allclose(inputs.solids[:, :, :, 1].mean((1, 2)), 0, atol=1e-10)
    assert np.allclose(inputs.solids[:, :, :, 1].std((1, 2)), 1, atol=1e-3)


def test_ridge_against_the_normal_equations(rng):
    """Closed form with an unpenalised level: (XᵀX + 3 I)⁻¹ Xᵀ Y on centred data."""
    inputs = Inputs(rng.normal(size=(2, 30, 4, 3)), rng.normal(size=(1, 30, 4, 3)))
    y = rng.normal(size=(1, 30, 4))
    x = np.concatenate([a.swapaxes(0, 1).reshape(30, -1) for a in (inputs.solids, inputs.loads)], axis=1)
    xc, yc = x - x.mean(0), y[0] - y[0].mean(0)
    slopes = np.linalg.solve(xc.T @ xc + 3 * np.eye(36), xc.T @ yc)
    assert np.allclose(ridge(inputs, y)(inputs)[0], xc @ slopes + y[0].mean(0), atol=1e-10)


def test_training_lowers_the_error_and_is_reproducible():
    task = Task.of(stations_scene(3, 320, 8, 1))
    model = Explicit(1, 1, [(0, 1)], 4)
    none = task.error(Fitted(model, start(model, 3), 0.0).predict(task.test))
    first, second = (Fitted.to(task, model, 60, 3) for _ in range(2))
    assert (first.parameters == second.parameters).all()
    assert task.error(first.predict(task.test)) < 0.75 * none


# --- the demo -----------------------------------------------------------------------------------------


def test_contact_modules_carry_the_interaction():
    """Break it: the same model without them is worse by far more than the margin, on the same data and start."""
    s = Settings(stations=1, steps=120)
    found = other_lists(s, 4)["other_lists"]
    assert set(found) == {LISTS["none"]}
    assert found[LISTS["none"]] > run(s, 4).measures["error"][UNISOMA] + 0.05
    broken = run(s.replace(contacts="none"), 4)
    assert broken.measures["error"][UNISOMA] == pytest.approx(found[LISTS["none"]], abs=1e-6)


def test_any_number_of_solids(monkeypatch):
    """One function serves every size, also when one station leaves no wrong pair."""
    monkeypatch.setattr("core.demos.unisoma.SCALING_STEPS", 40)
    found = more_solids(Settings(contacts="wrong"), 2)
    assert set(found) == {f"error_{n}" for n in SIZES}
    assert all(0 < value < 1.5 for by in found.values() for value in by.values())


@pytest.mark.parametrize(
    ("setting", "value"),
    [("stations", 0), ("stations", 9), ("steps", 0), ("slices", 0), ("slices", 1.5), ("points", 3),
     ("layout", "ring"), ("contacts", "some"), ("contacts", None)],
)  # fmt: skip
def test_bad_settings_are_named(setting, value):
    with pytest.raises(ValueError, match=setting):
        Settings.checked({setting: value})


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="contacts: wrong pairs"):
        Settings.checked({"stations": 1, "contacts": "wrong"})
    with pytest.raises(ValueError, match="stations"):
        stations_scene(0, 3, 8, 0)
    with pytest.raises(ValueError, match="stations"):
        stack_scene(0, 3, 8, 0)
    with pytest.raises(ValueError, match="points"):
        stations_scene(0, 3, 3, 1)
    with pytest.raises(ValueError, match="slices"):
        Explicit(1, 1, [(0, 1)], 0)
    model, _, inputs = explicit()
    with pytest.raises(ValueError, match="steps"):
        train(model, inputs, np.zeros((2, 12, 8)), 0, 1)


@pytest.mark.parametrize("pair", [(0, 4), (-1, 2), (2, 3), (1, 1)])
def test_bad_pairs_are_named(pair):
    """A missing solid, two punches, a solid with itself."""
    with pytest.raises(ValueError, match=rf"contacts: pair \({pair[0]}, {pair[1]}\)"):
        check_pairs([(0, 2), pair], 2, 4)
    with pytest.raises(ValueError, match="contacts"):
        Explicit(2, 2, [(0, 2), pair], 4)


def test_an_empty_contact_list_is_no_choice_of_none():
    with pytest.raises(ValueError, match="contacts"):
        Explicit(2, 2, [], 4)
    assert Explicit(2, 2, None, 4).shapes


def test_a_contact_problem_that_does_not_converge_is_reported():
    """Almost singular: 300 steps do not reach the solution, far away along the soft direction."""
    hard = np.array([[1.0, 0.0], [0.0, 1e-9]])
    with pytest.raises(RuntimeError, match="residual"):
        contact_pressure(hard, np.array([[-1.0, -1.0]]))
