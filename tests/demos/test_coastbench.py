"""CoastalBench: right values from budgets, closed forms, limits, brute force and finite differences."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from core.demos import _coastbench_data as data
from core.demos import _coastbench_vit as vit
from core.demos import coastbench
from core.demos._coastbench_sea import (
    CORIOLIS,
    DENSITY,
    DRAG,
    DT,
    DX,
    GRAVITY,
    MIXING,
    Forcing,
    Sea,
    Water,
    coarsen,
    draw_coast,
    draw_forcing,
    solve,
    wind_stress,
)
from core.demos.coastbench import CLIMATOLOGY, COARSE, FINE, LEADS, POD, VIT, Settings
from core.lab.verdicts import Samples


@pytest.fixture
def rng():
    return np.random.default_rng(5)


@pytest.fixture(scope="module")
def world():
    return data.make_world(3, 6, 1.0, 300.0, False)


def still(members: int, hours: int, wind=(0.0, 0.0)) -> Forcing:
    air = np.broadcast_to(np.array(wind)[:, None, None], (2, members, hours + 1))
    return Forcing(np.zeros((members, hours + 1)), air, np.zeros((members, hours + 1)))


def stirred(sea: Sea, rng, members: int = 2) -> Water:
    """A state that satisfies no balance, after a few steps under strong forcing."""
    water = Water(sea, members)
    for _ in range(60):
        water.step(rng.normal(0, 0.3, members), rng.normal(0, 9, (2, members)), np.full(members, 600.0))
    return water


# --- the numerical model --------------------------------------------------------------------------------------


def test_rest_stays_rest(rng):
    """Invariant: without tide, wind and river nothing moves, and S stays 35."""
    sea = draw_coast(rng)
    fields = solve(Water(sea, 2), still(2, 6), 6).fields
    assert (fields[:, :, :3] == 0).all()
    assert np.abs(fields[:, :, 3][..., sea.wet] - 35).max() < 1e-11


def test_volume_budget_of_one_step(rng):
    """Conservation: the volume right of column 0 changes by the flux through the first face and by the river."""
    water = stirred(draw_coast(rng), rng)
    height = 0.5 * ((water.depth + water.eta)[:, 0] + (water.depth + water.eta)[:, 1])
    inflow = (height * water.u[:, 0]).sum(axis=0) * DX
    before = water.eta[:, 1:].sum(axis=(0, 1)) * DX**2
    river = np.array([300.0, 500.0])
    water.step(np.zeros(2), np.zeros((2, 2)), river)
    change = water.eta[:, 1:].sum(axis=(0, 1)) * DX**2 - before
    assert np.abs(change / ((inflow + river) * DT) - 1).max() < 1e-10


def test_salt_budget_of_one_step(rng):
    """Conservation: the mass of salt right of column 0 changes by what passes its first face, no more."""
    water = stirred(draw_coast(rng), rng)
    mass = lambda w: ((w.depth + w.eta) * w.salt)[:, 1:].sum(axis=(0, 1)) * DX**2  # noqa: E731
    height = 0.5 * ((water.depth + water.eta)[:, 0] + (water.depth + water.eta)[:, 1])
    flux = height * water.u[:, 0]
    low, high = water.salt[:, 0], water.salt[:, 1]
    h = 0.5 * (water.depth[:, 0] + water.depth[:, 1])
    passes = flux * np.where(flux > 0, low, high) - MIXING * h * (high - low) / DX * water.open[0][:, 0]
    expected = mass(water) + passes.sum(axis=0) * DX * DT
    water.step(np.zeros(2), np.zeros((2, 2)), np.full(2, 300.0))
    assert np.allclose(mass(water), expected, rtol=1e-12)


def test_wind_set_up_of_a_closed_channel():
    """Closed form: at rest the slope balances the stress, dη/dx = τ/(ρ g H)."""
    sea = Sea(np.full((6, 24), 10.0), np.ones((6, 24), dtype=bool))
    level = solve(Water(sea, 1), still(1, 120, (10.0, 0.0)), 120).fields[0, 61:, 0].mean(axis=(0, 1))
    slope = np.polyfit(DX * np.arange(3, 22), level[3:22], 1)[0]
    tau = wind_stress(np.array([[10.0], [0.0]]))[0, 0]
    assert slope == pytest.approx(tau / (DENSITY * GRAVITY * 10), rel=0.01)


def test_one_step_of_the_current_agrees_with_a_loop_over_faces(rng):
    """Brute force: the momentum equation, one face at a time, from the new level (u first, then v with the new u)."""
    sea = draw_coast(rng)
    water = stirred(sea, rng, 1)
    old_u, old_v = water.u[..., 0].copy(), water.v[..., 0].copy()
    wind = np.array([[6.0], [-8.0]])
    water.step(np.array([0.2]), wind, np.array([300.0]))
    eta, h = water.eta[..., 0], water.depth[..., 0] + water.eta[..., 0]
    tau = 1.3e-3 * 1.22 * 10 * wind[:, 0]
    ny, nx = sea.wet.shape
    u_at = lambda u, y, x: u[y, x] if 0 <= x < nx - 1 else 0.0  # noqa: E731
    v_at = lambda v, y, x: v[y, x] if 0 <= y < ny - 1 else 0.0  # noqa: E731
    for y in range(ny):
        for x in range(nx - 1):
            if not (sea.wet[y, x] and sea.wet[y, x + 1]):
                assert water.u[y, x, 0] == 0
                continue
            v = np.mean([v_at(old_v, y + dy, x + dx) for dy in (-1, 0) for dx in (0, 1)])
            height = (h[y, x] + h[y, x + 1]) / 2
            push = -GRAVITY * (eta[y, x + 1] - eta[y, x]) / DX + CORIOLIS * v + tau[0] / (DENSITY * height)
            drag = 1 + DT * DRAG * np.hypot(old_u[y, x], v) / height
            assert water.u[y, x, 0] == pytest.approx((old_u[y, x] + DT * push) / drag, abs=1e-12)
    new_u = water.u[..., 0]
    for y in range(ny - 1):
        for x in range(nx):
            if not (sea.wet[y, x] and sea.wet[y + 1, x]):
                assert water.v[y, x, 0] == 0
                continue
            u = np.mean([u_at(new_u, y + dy, x + dx) for dy in (0, 1) for dx in (-1, 0)])
            height = (h[y, x] + h[y + 1, x]) / 2
            push = -GRAVITY * (eta[y + 1, x] - eta[y, x]) / DX - CORIOLIS * u + tau[1] / (DENSITY * height)
            drag = 1 + DT * DRAG * np.hypot(old_v[y, x], u) / height
            assert water.v[y, x, 0] == pytest.approx((old_v[y, x] + DT * push) / drag, abs=1e-12)


def test_members_do_not_mix(rng):
    """Invariant: a member solved alone is the member solved among others."""
    sea = draw_coast(rng)
    forcing = draw_forcing(rng, 3, 4, 1.0, 300.0)
    together = solve(Water(sea, 3), forcing, 4).fields
    alone = solve(Water(sea, 1), forcing.windows(np.array([1]), np.array([0]), 4), 4).fields
    assert np.allclose(together[1], alone[0], atol=1e-12)


@pytest.mark.parametrize(("seed", "wind", "storm"), [(100, 1.0, False), (4, 2.0, True)])
def test_salt_and_level_stay_in_bounds(seed, wind, storm):
    """Maximum principle of upwind fluxes; fresh water at the river's end; no cell falls dry, not even in a storm."""
    world = data.make_world(seed, 12, wind, 300.0, storm)
    fields = world.physical(world.states)
    salt, level = fields[..., 3, :, :][..., world.sea.wet], fields[..., 0, :, :][..., world.sea.wet]
    assert salt.min() > -1e-4  # stored in float32
    assert salt.max() < 35 + 1e-4
    mouth = fields[(..., 3, *world.sea.mouth)]
    assert storm or mouth.min() < 3
    assert (world.sea.depth[world.sea.wet] + level).min() > 0.1
    if not storm:
        assert np.abs(level).max() < 2


def test_a_forecast_of_the_fine_model_is_the_truth(world):
    """Limit: restarted from a record (float32) under the true forcing, the model repeats itself."""
    c = data.Cases(np.array([4, 5]), np.array([10, 20]), 3)
    again = solve(data.fine_water(world, c), world.forcing.windows(c.member, c.start, 3), 3).fields[:, 3]
    truth = world.physical(world.later(c)) * world.sea.wet
    assert np.allclose(again, truth, atol=1e-3)


def test_coarse_sea_keeps_the_volume_of_open_water(rng):
    """Where all cells are wet, averages of 2 × 2 cells keep depth and extent."""
    sea = Sea(rng.uniform(4, 9, (6, 8)), np.ones((6, 8), dtype=bool))
    coarse = coarsen(sea)
    assert coarse.wet.all()
    assert coarse.depth.sum() * coarse.dx**2 == pytest.approx(sea.depth.sum() * sea.dx**2)
    assert (coarse.dx, coarse.dt) == (2 * sea.dx, 2 * sea.dt)


def test_storm_blows_in_the_test_members_only():
    calm, storm = (draw_forcing(np.random.default_rng(1), 6, 84, 1.0, 300.0, n) for n in (0, 2))
    added = np.hypot(*(storm.wind - calm.wind))
    assert (added[:4] == 0).all()
    assert added[4:].max(axis=1) == pytest.approx(16, rel=0.01)
    assert (storm.tide == calm.tide).all()


# --- the transformer ------------------------------------------------------------------------------------------


def small(rng):
    """A network in float64 with every weight away from its start, and a batch for it."""
    w = vit.initial(rng, 4, 12, 7, 5, np.float64)
    w = {name: a + 0.1 * rng.normal(size=a.shape) for name, a in w.items()}
    return w, rng.normal(size=(3, 4, 12)), rng.normal(size=(3, 7)), rng.normal(size=(3, 4, 5))


def test_gradient_against_central_differences(rng):
    w, x, z, y = small(rng)
    wet = (rng.random((4, 5)) < 0.7).astype(float)
    _, gradient = vit.loss_and_gradient(w, x, z, y, wet)
    for name in vit.NAMES:
        way = rng.normal(size=w[name].shape)
        ends = [vit.loss_and_gradient({**w, name: w[name] + e * way}, x, z, y, wet)[0] for e in (1e-5, -1e-5)]
        assert (gradient[name] * way).sum() == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-4, abs=1e-9), name


def test_permuted_tokens_permute_the_output(rng):
    """Symmetry: attention knows no order but that of positions and of the condition's slices."""
    w, x, z, _ = small(rng)
    order = rng.permutation(4)
    given_out = w["given_out"].reshape(-1, 4, vit.WIDTH)[:, order].reshape(w["given_out"].shape)
    moved = {**w, "position": w["position"][order], "given_out": given_out}
    assert np.allclose(vit.forward(moved, x[:, order], z)[0], vit.forward(w, x, z)[0][:, order], atol=1e-12)


def test_unpatch_undoes_patch(rng):
    fields = rng.normal(size=(2, 4, 24, 24))
    tokens = vit.patch(fields)
    assert (vit.unpatch(tokens, 24, 24) == fields).all()
    assert (tokens[1, 5].reshape(4, 6, 6) == fields[1, :, 6:12, 6:12]).all()


def test_the_input_holds_the_present_and_the_forcing_window_only(world, rng):
    """No leak: other states at all other hours, and other forcing after t + lead, change no forecast."""
    model = data.train_transformer(world, 3, False, rng)
    modes = data.train_modes(world, rng)
    c = data.Cases(np.array([5]), np.array([20]), 6)
    other = rng.normal(size=world.states.shape).astype(np.float32)
    other[5, 20] = world.states[5, 20]
    tide = world.forcing.tide.copy()
    tide[:, 27:] += 1
    elsewhere = replace(world, states=other, forcing=replace(world.forcing, tide=tide))
    for m in (model, modes):
        assert (replace(m, world=elsewhere).forecast(c) == m.forecast(c)).all()
    tide[:, 24:] += 1
    assert (replace(model, world=elsewhere).forecast(c) != model.forecast(c)).any()


def test_hidden_forcings_reach_no_forecast(world, rng):
    model = data.train_transformer(world, 3, True, rng)
    c = data.Cases(np.array([5]), np.array([20]), 6)
    forcing = Forcing(world.forcing.tide + 1, world.forcing.wind + 5, 2 * world.forcing.river)
    assert (replace(model, world=replace(world, forcing=forcing)).forecast(c) == model.forecast(c)).all()


# --- its rivals and the scores --------------------------------------------------------------------------------


def test_pod_ridge_is_scikit_learns_ridge(world, rng):
    modes = data.train_modes(world, rng)
    assert np.allclose(modes.vectors.T @ modes.vectors, np.eye(data.MODES), atol=1e-6)
    c = world.pairs(6)
    x, y = modes.features(c), world.wet_only(world.later(c)) @ modes.vectors
    theirs = Ridge(alpha=data.PENALTY, fit_intercept=False).fit(x, y).coef_.T
    assert np.allclose(modes.maps[6], theirs, atol=1e-6)


def test_damping_is_the_best_factor(world):
    """Least squares: no other factor has a smaller training error, for each variable."""
    c, best = world.pairs(12), data.damping(world, 12)
    now, later = world.now(c), world.later(c)
    loss = lambda k: ((now * k[:, None, None] - later)[..., world.sea.wet] ** 2).sum(axis=(0, 2))  # noqa: E731
    assert (loss(best) < loss(best + 0.01)).all()
    assert (loss(best) < loss(best - 0.01)).all()


def test_persistence_at_lead_0_and_climatology(world):
    """By definition: today's state is right today, and the mean field is off by about one deviation."""
    c = world.tests(1)
    now = world.now(c)
    found = coastbench.errors(world, {"now": now, "mean": np.zeros_like(now)}, now)
    assert (found["now"] == 0).all()
    assert 0.7 < found["mean"].mean() < 1.3
    train = world.states[: world.train][..., world.sea.wet]
    assert (train**2).mean(axis=(0, 1, 3)) == pytest.approx(1, rel=1e-3)


def test_land_does_not_count(world):
    c = world.tests(3)
    off = np.where(world.sea.wet, world.later(c) + 0.5, 1e6)
    assert coastbench.errors(world, {"off": off}, world.later(c))["off"] == pytest.approx(0.5, rel=1e-3)


def test_members_are_split_and_cases_lie_within_the_record(world):
    for lead in LEADS:
        train, test = world.pairs(lead), world.tests(lead)
        assert set(train.member) == {0, 1, 2, 3}
        assert set(test.member) == {4, 5}
        assert len(test.member) == 20
        assert max((train.start + lead).max(), (test.start + lead).max()) <= data.HOURS


def test_forcings_are_what_the_long_leads_need():
    """Break it: hiding the forcings takes most of the ViT's lead over the best simple forecast at 12 h."""
    ahead = []
    for hide in (False, True):
        found = coastbench.run(Settings(hide=hide), 100).measures["nrmse_12"]
        ahead.append(min(found[r] for r in coastbench.SIMPLE) - found[VIT])
    assert ahead[0] > 0.2
    assert ahead[1] < 0.5 * ahead[0]


def samples(nrmse_vit: float, nrmse_pod: float, seconds: float) -> Samples:
    wobble = np.linspace(-0.005, 0.005, 8)
    by = {VIT: nrmse_vit + wobble, POD: nrmse_pod - wobble, COARSE: nrmse_vit - wobble}
    by |= dict.fromkeys(coastbench.SIMPLE, 0.5 + 0 * wobble)
    values = {(f"nrmse_{lead}", m): v for lead in LEADS for m, v in by.items()}
    values |= {("forecast_seconds", m): 0 * wobble + t for m, t in ((VIT, seconds), (FINE, 1.0))}
    values |= {("speed_up", VIT): 0 * wobble + 1 / seconds, ("pays_off", VIT): 0 * wobble + 20}
    return Samples(values, range(8))


@pytest.mark.parametrize(
    ("rule", "given", "outcome"),
    [
        (coastbench.beats_simple, (0.3, 0.2, 0.01), "holds"),
        (coastbench.beats_simple, (0.49, 0.2, 0.01), "unclear"),
        (coastbench.beats_simple, (0.6, 0.2, 0.01), "fails"),
        (coastbench.far_cheaper, (0.3, 0.2, 0.01), "holds"),
        (coastbench.far_cheaper, (0.3, 0.2, 0.1), "unclear"),
        (coastbench.far_cheaper, (0.3, 0.2, 0.5), "fails"),
        (coastbench.far_cheaper, (0.6, 0.2, 0.01), "fails"),
        (coastbench.ranks, (0.3, 0.2, 0.01), "holds"),
        (coastbench.ranks, (0.3, 0.3, 0.01), "fails"),
        (coastbench.ranks, (0.3, 0.285, 0.01), "unclear"),
    ],
)
def test_rules_give_every_outcome(rule, given, outcome):
    """By hand: rivals at 0.5, eight seeds that differ by at most 0.005."""
    assert rule(samples(*given)).outcome == outcome


def test_a_better_pod_ridge_is_said():
    assert "POD-ridge beats the ViT" in coastbench.ranks(samples(0.3, 0.2, 0.01)).note
    assert "beats" not in coastbench.ranks(samples(0.2, 0.3, 0.01)).note
    assert CLIMATOLOGY in coastbench.SIMPLE


# --- bad input ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [("lead", 2), ("lead", 48), ("wind", -1), ("river", -5), ("members", 5), ("steps", 0), ("weather", "calm"),
     ("variable", "heat"), ("wind", float("nan"))],
)  # fmt: skip
def test_bad_settings_are_named(name, value):
    with pytest.raises(ValueError, match=f"^{name} cannot be"):
        Settings.checked({name: value})


def test_bad_input_is_named(world, rng):
    flat = np.full((6, 8), 10.0)
    wet = np.ones((6, 8), dtype=bool)
    with pytest.raises(ValueError, match=r"dt must be above 0 and below the stability limit of 143 s, not 150"):
        Sea(flat, wet, dt=150.0)
    for dry in (~wet, np.arange(8) * wet > 0):
        with pytest.raises(ValueError, match="mask"):
            Sea(flat, dry)
    for lead in (0, 2, 100):
        with pytest.raises(ValueError, match="lead"):
            world.tests(lead)
    with pytest.raises(ValueError, match="members"):
        data.make_world(0, 5, 1.0, 300.0, False)
    with pytest.raises(ValueError, match="wind"):
        draw_forcing(rng, 2, 4, -1.0, 300.0)
    with pytest.raises(ValueError, match="river"):
        draw_forcing(rng, 2, 4, 1.0, -300.0)


def test_a_state_that_is_not_finite_names_the_hour(rng):
    forcing = still(1, 3)
    forcing.tide[:, 3] = np.nan  # felt once the third hour begins
    with pytest.raises(RuntimeError, match="hour 3"):
        solve(Water(draw_coast(rng), 1), forcing, 3)
