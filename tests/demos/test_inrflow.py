"""INRFlow: right values from closed forms, loops, finite differences, SciPy and scikit-learn."""

import numpy as np
import pytest
from scipy import ndimage
from sklearn.decomposition import PCA

from core.demos import _inrflow_data as data
from core.demos import inrflow
from core.demos._inrflow_data import CLOSED_CURVES, IMAGES, interpolation, roughness, sliced_wasserstein
from core.demos._inrflow_nets import Compressor, Weights, WholeVector, fit, time_features
from core.demos.inrflow import (
    FLOOR,
    INRFLOW,
    LATENT,
    OWN,
    VECTOR,
    Grid,
    PointWise,
    Settings,
    closer,
    draw,
    finer,
    flow,
    run,
)
from core.lab.verdicts import Samples

BOTH = pytest.mark.parametrize(("domain", "n"), [(IMAGES, 8), (CLOSED_CURVES, 24)])


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def shaken(domain, rng, dtype=np.float64):
    """A model whose biases are not 0, so that every weight matters."""
    model = PointWise(domain, rng, dtype)
    model.weights.flat += 0.1 * rng.standard_normal(model.weights.flat.size).astype(dtype)
    return model


def echo(domain):
    """A model with v = y: all weights 0 but the direct way of a point's own value."""
    model = PointWise(domain, np.random.default_rng(0), np.float64)
    model.weights.flat[:] = 0
    model.weights.arrays["Q2"][-domain.values :] = np.eye(domain.values)
    return model


# --- the model ----------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize(("dtype", "off"), [(np.float32, 1e-6), (np.float64, 1e-14)])
def test_no_query_changes_another(domain, n, dtype, off, rng):
    """Invariant: moving the values of others, permuting, removing or adding queries leaves a velocity as it is."""
    model, context, queries = shaken(domain, rng, dtype), Grid(domain, n, dtype), Grid(domain, 2 * n, dtype)
    count = len(queries.waves)
    tau = time_features(np.full((3, 1), 0.3, dtype))
    tokens, _ = model.tokens(
        context, rng.standard_normal((3, n ** len(domain.moments[0]), domain.values), dtype), tau
    )
    q = rng.standard_normal((3, count, domain.values), dtype)
    everything = np.arange(count)
    full = model.velocity(queries.at(everything), q, tokens, tau)[0]
    order, some = rng.permutation(count), rng.choice(count, 5, replace=False)
    twice = np.concatenate([everything, some])
    for rows in (order, some, twice, everything[:1]):
        found = model.velocity(queries.at(rows), q[:, rows], tokens, tau)[0]
        assert np.abs(found - full[:, rows]).max() <= off
    other = q.copy()
    other[:, 1:] += 1
    moved = model.velocity(queries.at(everything), other, tokens, tau)[0]
    assert np.abs(moved[:, 0] - full[:, 0]).max() <= off
    assert np.abs(moved[:, 1:] - full[:, 1:]).max() > 1e-3  # a point does see its own value


@BOTH
def test_weights_sum_to_one_and_a_constant_is_its_own_latent(domain, n):
    """Σ_i A_il = 1 and Σ_l = 1 for a query (moment 0 is 1), within 1e-6; so a constant c gives z_l0 = c."""
    grid, m = Grid(domain, n), len(domain.moments)
    assert np.allclose(grid.encode[:, ::m].sum(axis=0), 1, atol=1e-6)
    assert np.allclose(grid.decode[:, ::m].sum(axis=1), 1, atol=1e-6)
    assert np.allclose(grid.encode[:, ::m].T @ np.full(len(grid.waves), 0.7), 0.7, atol=1e-6)


@BOTH
def test_latents_and_a_velocity_by_loops(domain, n, rng):
    """Independent second way: the formulas of encoder and decoder written out, point by point and latent by latent."""
    model, grid = shaken(domain, rng), Grid(domain, n, np.float64)
    points, centres, w = domain.points(n), domain.centres, model.weights.arrays
    y = rng.standard_normal((1, len(points), domain.values))

    def offset(x, c):
        d = (x - c) * domain.lattice
        return d - domain.lattice * np.round(d / domain.lattice) if domain.wrap else d

    def moments(o):
        return [1, o[0], o[0] ** 2] if domain.wrap else [1, o[0], o[1], o[0] * o[1]]

    def weight(x, c):
        return np.exp(-(offset(x, c) ** 2).sum() / (2 * 0.6**2))

    def sigma(a):
        return a / (1 + np.exp(-a))

    tau = np.r_[0.3, np.sin(np.pi * 0.3 * np.array([1, 2, 3])), np.cos(np.pi * 0.3 * np.array([1, 2, 3]))]
    z = []
    for c in centres:
        total = sum(weight(x, c) for x in points)
        z.append(
            sum(
                weight(x, c) / total * np.outer(moments(offset(x, c)), v) for x, v in zip(points, y[0], strict=True)
            )
        )
    h = sigma(np.r_[np.ravel(z), tau] @ w["W1"] + w["b1"])
    tokens = ((h + sigma(h @ w["W2"] + w["b2"])) @ w["W3"] + w["b3"]).reshape(len(centres), -1, 8)
    found, _ = model.tokens(grid, y, time_features(np.array([[0.3]])))
    assert np.allclose(found[0], tokens.reshape(-1, 8), atol=1e-10)

    at = 5
    x = points[at]
    total = sum(weight(x, c) for c in centres)
    h_q = sum(
        weight(x, c) / total * np.array(moments(offset(x, c))) @ t for c, t in zip(centres, tokens, strict=True)
    )
    turns = (2 if domain.wrap else 1) * np.pi * np.concatenate([x, 2 * x, 3 * x])
    o = sigma(np.r_[h_q, y[0, at], np.sin(turns), np.cos(turns), tau] @ w["Q1"] + w["q1"])
    expected = np.r_[o, h_q, y[0, at]] @ w["Q2"] + w["q2"]
    v, _ = model.velocity(grid.at(np.array([at])), y[:, [at]], found, time_features(np.array([[0.3]])))
    assert np.allclose(v[0, 0], expected, atol=1e-10)


def check_gradient(weights, loss, rng):
    """Central differences of step 1e-5 along five entries and one direction of every weight array: relative 1e-4."""
    slope = loss()[1].copy()
    start = weights.flat.copy()
    where = {
        name: np.flatnonzero(np.isin(np.arange(len(start)), cells)) for name, cells in cells_of(weights).items()
    }
    for name, cells in where.items():
        directions = [np.bincount([c], minlength=len(start)) for c in rng.choice(cells, min(5, len(cells)), False)]
        along = np.zeros(len(start))
        along[cells] = rng.standard_normal(len(cells)) / np.sqrt(len(cells))
        for d in [*directions, along]:
            values = []
            for side in (1, -1):
                weights.flat[:] = start + side * 1e-5 * d
                values.append(loss()[0])
            weights.flat[:] = start
            numeric = (values[0] - values[1]) / 2e-5
            assert slope @ d == pytest.approx(numeric, rel=1e-4, abs=1e-8), name


def cells_of(weights):
    """The places of each array in the flat vector."""
    ends = np.cumsum([w.size for w in weights.arrays.values()])
    return {n: np.arange(e - w.size, e) for (n, w), e in zip(weights.arrays.items(), ends, strict=True)}


@BOTH
def test_gradient_of_the_point_wise_loss(domain, n, rng):
    """Finite differences in double precision."""
    model, grid = shaken(domain, rng), Grid(domain, n, np.float64)
    y1, noise = rng.standard_normal((2, 4, len(grid.waves), domain.values))
    t, rows = rng.random((4, 1)), rng.choice(len(grid.waves), 6, replace=False)
    check_gradient(model.weights, lambda: model.gradient(grid, rows, y1, noise, t), rng)


def test_gradient_of_the_whole_vector_loss(rng):
    """Finite differences in double precision."""
    model = WholeVector(10, rng, np.float64)
    model.weights.flat += 0.1 * rng.standard_normal(model.weights.flat.size)
    y1, noise = rng.standard_normal((2, 4, 10))
    t = rng.random((4, 1))
    check_gradient(model.weights, lambda: model.gradient(y1, noise, t), rng)


@BOTH
def test_path_and_target(domain, n, rng):
    """With v = y: at t = 0 the input is the noise, so the error is 2ε − y₁; at t = 1 it is y₁, so the error is ε."""
    grid = Grid(domain, n, np.float64)
    y1, noise = rng.standard_normal((2, 5, len(grid.waves), domain.values))
    rows, zero = np.arange(len(grid.waves)), np.zeros((5, 1))
    assert echo(domain).gradient(grid, rows, y1, noise, zero)[0] == pytest.approx(np.mean((2 * noise - y1) ** 2))
    assert echo(domain).gradient(grid, rows, y1, noise, zero + 1)[0] == pytest.approx(np.mean(noise**2))
    vector = WholeVector(6, rng, np.float64)
    vector.weights.flat[:] = 0
    vector.weights.arrays["skip"][:] = np.eye(6)
    a, b = rng.standard_normal((2, 5, 6))
    assert vector.gradient(a, b, zero)[0] == pytest.approx(np.mean((2 * b - a) ** 2))
    assert vector.gradient(a, b, zero + 1)[0] == pytest.approx(np.mean(b**2))


@pytest.mark.parametrize(
    ("functions", "domain", "n", "expected"),
    [(data.digit_functions, IMAGES, 8, 1.72), (data.curve_functions, CLOSED_CURVES, 32, 1.42)],
)
def test_loss_of_the_zero_predictor(functions, domain, n, expected, rng):
    """E(y₁ − ε)² = 1 + the mean square of the data; 1.72 for the digits 0, 1, 3 and 1.42 for the curves."""
    ((train, _),) = functions(rng, [n])
    model, grid = PointWise(domain, rng, np.float64), Grid(domain, n, np.float64)
    model.weights.flat[:] = 0
    noise = rng.standard_normal((8, *train.shape))
    loss = np.mean(
        [model.gradient(grid, np.arange(len(grid.waves)), train, e, rng.random((len(train), 1)))[0] for e in noise]
    )
    assert loss == pytest.approx(1 + np.mean(train**2), abs=0.01)
    assert loss == pytest.approx(expected, abs=0.02)


def test_curves_are_periodic(rng):
    """Shifting s by 1/12, here 4 of 48 points, moves every latent one centre on and nothing else."""
    grid = Grid(CLOSED_CURVES, 48, np.float64)
    y = rng.standard_normal((48, 2))
    z, shifted = ((grid.encode.T @ f).reshape(12, 3, 2) for f in (y, np.roll(y, 4, axis=0)))
    assert np.allclose(shifted, np.roll(z, 1, axis=0), atol=1e-12)
    tokens = rng.standard_normal((12, 3, 8))
    read, moved = (grid.decode @ t.reshape(36, 8) for t in (tokens, np.roll(tokens, 1, axis=0)))
    assert np.allclose(moved, np.roll(read, 4, axis=0), atol=1e-12)


def test_a_finer_context_is_quieter():
    """Latents of white noise have variance ΣA². Twice as many points an axis: a quarter of it, up to the border."""
    coarse, fine = ((Grid(IMAGES, n, np.float64).encode[:, ::4] ** 2).sum(axis=0) for n in (8, 16))
    assert np.allclose(fine / coarse, 0.25, atol=0.03)


# --- sampling and training ----------------------------------------------------------------------------


def test_euler_steps(rng):
    """With v = y, k steps multiply by (1 + 1/k)^k; contexts and queries move alike, and five stages are kept."""
    context, queries = Grid(IMAGES, 8, np.float64), Grid(IMAGES, 12, np.float64)
    y, q = rng.standard_normal((40, 64, 1)), rng.standard_normal((40, 144, 1))
    on_context, on_queries, stages = draw(echo(IMAGES), context, y, queries, q, 10)
    assert np.allclose(on_context, 1.1**10 * y, rtol=1e-6)
    assert np.allclose(on_queries, 1.1**10 * q, rtol=1e-6)
    assert len(stages) == 5
    assert stages[0][0] == 0
    assert stages[-1][0] == 1
    assert np.array_equal(stages[0][1], y[0])
    vector = WholeVector(64, rng, np.float64)
    vector.weights.flat[:] = 0
    vector.weights.arrays["skip"][:] = np.eye(64)
    assert np.allclose(vector.sample(y[..., 0], 10), 1.1**10 * y[..., 0], rtol=1e-6)


def test_queries_on_the_context_grid_with_its_noise_are_the_context(rng):
    """Identity: queries that start where the context starts go where it goes; asked for none, it is returned itself."""
    model, grid = shaken(IMAGES, rng), Grid(IMAGES, 8, np.float64)
    y = rng.standard_normal((3, 64, 1))
    a, b, _ = draw(model, grid, y, grid, y, 7)
    assert np.array_equal(a, b)
    *_, last = flow(model, grid, y, None, y[:, :1], 7)
    assert last[1] is last[2]
    assert np.allclose(last[1], a)


def test_the_context_does_not_see_the_queries(rng):
    """Invariant: other query noise, other queries of the same noise; blocks change nothing either."""
    model, context, queries = shaken(IMAGES, rng), Grid(IMAGES, 8, np.float64), Grid(IMAGES, 16, np.float64)
    y, q = rng.standard_normal((40, 64, 1)), rng.standard_normal((40, 256, 1))
    a, first, _ = draw(model, context, y, queries, q, 5)
    b, _, _ = draw(model, context, y, queries, -q, 5)
    assert np.array_equal(a, b)
    *_, (_, whole, fine) = flow(model, context, y, queries, q, 5)
    assert np.allclose(a, whole, atol=1e-10)
    assert np.allclose(first, fine, atol=1e-10)


def test_sampled_grid_equal_to_trained_grid():
    """The context itself is what was asked for, so all scores on both grids agree, interpolated or not."""
    found = run(Settings(sampled=8, steps=100, euler=5), 1)
    for method in (INRFLOW, VECTOR, LATENT, FLOOR):
        assert found.measures["swd_sampled"][method] == pytest.approx(
            found.measures["swd_trained"][method], rel=1e-6
        )
    assert found.measures["swd_sampled"][OWN] == pytest.approx(found.measures["swd_sampled"][INRFLOW], rel=1e-6)
    assert inrflow._needs_finer(Settings(sampled=8))
    assert not inrflow._needs_finer(Settings())


def test_training_learns_a_law_that_is_known(rng):
    """Closed form: data N(2, 0.25 I) in two dimensions; the flow's samples must have that mean and spread."""
    truth = (2 + 0.5 * rng.standard_normal((2000, 2))).astype(np.float32)
    model = WholeVector(2, rng)
    fit(model.weights, model.gradient, truth, 400, 4e-3, 3)
    found = model.sample(rng.standard_normal((2000, 2), dtype=np.float32), 25)
    assert np.allclose(found.mean(axis=0), 2, atol=0.1)
    assert np.allclose(found.std(axis=0), 0.5, atol=0.1)


def test_naive_context_loses():
    """Break it: the same model and noise, with the fine grid as context, is farther from the truth."""
    kept, naive = (run(Settings(context=c, steps=150, euler=10), 0).measures for c in ("trained", "sampled"))
    assert kept["swd_trained"] == naive["swd_trained"]
    assert naive["swd_sampled"][INRFLOW] > kept["swd_sampled"][INRFLOW] + 0.005


# --- data and scores ----------------------------------------------------------------------------------


def test_splines_go_through_the_pixels(rng):
    """At 8 × 8 the spline reproduces every pixel within 1e-8; between them it is SciPy's own, of the whole image."""
    assert np.allclose(data.spline(8), np.eye(64), atol=1e-8)
    ((train, held), (fine, _)) = data.digit_functions(rng, (8, 16))
    assert (len(train), len(held)) == (380, 163)
    assert np.abs(train).max() <= 1 + 1e-8
    assert np.allclose(16 * (train + 1) / 2, np.round(16 * (train + 1) / 2), atol=1e-6)  # 17 grey levels
    centres = (np.arange(16) + 0.5) / 2 - 0.5
    coefficients = ndimage.spline_filter(train[3, :, 0].reshape(8, 8), mode="nearest")
    expected = ndimage.map_coordinates(
        coefficients, np.meshgrid(centres, centres, indexing="ij"), mode="nearest", prefilter=False
    )
    assert np.allclose(fine[3, :, 0].reshape(16, 16), expected, atol=1e-10)


def test_curves_are_closed_and_the_same_on_both_grids(rng):
    """Every fourth of 128 points is one of the 32; the area of a turned, squeezed curve is found again (shoelace)."""
    ((coarse, _), (fine, held)) = data.curve_functions(rng, (32, 128))
    assert (len(fine), len(held)) == (420, 180)
    assert np.allclose(fine[:, ::4], coarse, atol=1e-12)
    x, y = fine[..., 0], fine[..., 1]
    area = np.abs(np.sum(x * np.roll(y, -1, 1) - y * np.roll(x, -1, 1), axis=1)) / 2
    # ∫ r²/2 dθ = π(1 + a²/2 + a₂²/2), squeezed by 0.5 to 1, with a in 0.2 … 0.5 and a₂ in 0 … 0.15
    assert area.min() > 0.99 * 0.5 * np.pi * (1 + 0.02)
    assert area.max() < np.pi * (1 + 0.125 + 0.01125)


def test_interpolation_against_scipy_and_numpy(rng):
    """Libraries: bilinear with clamping is map_coordinates of order 1, around the circle it is np.interp."""
    z = rng.standard_normal((8, 8))
    centres = (np.arange(11) + 0.5) * 8 / 11 - 0.5
    expected = ndimage.map_coordinates(z, np.meshgrid(centres, centres, indexing="ij"), order=1, mode="nearest")
    assert np.allclose(interpolation(IMAGES, 8, 11) @ z.ravel(), expected.ravel(), atol=1e-12)
    y = rng.standard_normal(32)
    expected = np.interp(np.arange(100) / 100, np.arange(32) / 32, y, period=1)
    assert np.allclose(interpolation(CLOSED_CURVES, 32, 100) @ y, expected, atol=1e-12)


def test_compressor_against_scikit_learn(rng):
    """Library: whitened PCA with 12 components, and the reconstruction from it."""
    x = rng.standard_normal((200, 20)) @ rng.standard_normal((20, 20))
    ours, theirs = Compressor(x), PCA(12).fit(x)
    assert np.allclose(ours.decode(ours.encode(x)), theirs.inverse_transform(theirs.transform(x)), atol=1e-10)
    assert np.allclose(np.cov(ours.encode(x).T, bias=True), np.eye(12), atol=1e-10)


def test_sliced_wasserstein_closed_forms(rng):
    """0 of a set with itself; a shift by c of all entries gives c √mean (1ᵀu)²; a factor of s gives (s − 1) × rms."""
    x = rng.standard_normal((163, 64, 1))
    u = data.projections(64)
    assert np.allclose(np.linalg.norm(u, axis=0), 1)
    assert sliced_wasserstein(x, x) == 0
    expected = 0.3 * np.sqrt(np.mean(u.sum(axis=0) ** 2))
    assert sliced_wasserstein(x + 0.3, x) == pytest.approx(expected, rel=1e-6)
    assert expected == pytest.approx(0.3, rel=0.15)
    levels = np.quantile(x[..., 0] @ u, (np.arange(64) + 0.5) / 64, axis=0)
    assert sliced_wasserstein(1.5 * x, x) == pytest.approx(0.5 * np.sqrt(np.mean(levels**2)), rel=1e-6)


def test_roughness_closed_forms():
    """x₁² has second differences 2/n² along one axis, 0 along the other; cos 2πs has (2 − 2 cos 2π/n) cos, wrapped."""
    points = IMAGES.points(10)
    assert roughness(IMAGES, points[None, :, :1] ** 2) == pytest.approx((2 / 100) ** 2 / 2)
    s = np.arange(24) / 24
    wave = np.cos(2 * np.pi * s)[None, :, None]
    assert roughness(CLOSED_CURVES, wave) == pytest.approx((2 - 2 * np.cos(2 * np.pi / 24)) ** 2 / 2)


# --- verdicts -----------------------------------------------------------------------------------------


def samples(**by):
    """Eight seeds; each measure a mapping method -> mean, all with the same small spread between seeds."""
    wobble = np.linspace(-1, 1, 8)
    values = {(m, k): v + 0.001 * (i + 1) * wobble for m, of in by.items() for i, (k, v) in enumerate(of.items())}
    return Samples(values, range(8))


@pytest.mark.parametrize(
    ("rival", "outcome"),
    [(0.15, "holds"), (0.10, "fails"), (0.121, "unclear"), (0.1195, "unclear"), (0.124, "unclear")],
)
def test_closer_has_three_outcomes(rival, outcome):
    """INRFlow at 0.12 and a margin of 0.005: clearly nearer, clearly farther, or no practical difference."""
    found = closer("swd_trained", VECTOR)(samples(swd_trained={INRFLOW: 0.12, VECTOR: rival}))
    assert found.outcome == outcome


@pytest.mark.parametrize(
    ("own", "vector", "outcome"), [(0.17, 0.16, "holds"), (0.17, 0.12, "unclear"), (0.10, 0.16, "fails")]
)
def test_finer_needs_both_and_names_the_grain(own, vector, outcome):
    """Own interpolation and the better rival must both be farther; the grain stands beside it."""
    swd = {INRFLOW: 0.12, OWN: own, VECTOR: vector, LATENT: 0.3}
    found = finer(samples(swd_sampled=swd, grain={INRFLOW: 5.8}))
    assert found.outcome == outcome
    assert "with visible grain: 5.8 times" in found.note
    assert "no visible grain" in finer(samples(swd_sampled=swd, grain={INRFLOW: 1.1})).note


@pytest.mark.parametrize(("change", "outcome"), [(0.0, "holds"), (10_000.0, "fails"), (100.0, "unclear")])
def test_crosstalk_has_three_outcomes(change, outcome):
    """In units of 10⁻⁶: holds below 1, does not hold above 1000, else unclear."""
    values = {("crosstalk", INRFLOW): np.full(8, change)}
    assert inrflow.DEMO.claims[2].rule(Samples(values, range(8))).outcome == outcome


# --- bad input ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("modality", "sounds"),
        ("context", "none"),
        ("trained", 3),
        ("trained", 7.5),
        ("trained", 49),
        ("sampled", 7),
        ("sampled", 16.5),
        ("sampled", 1000),
        ("steps", 0),
        ("euler", 0),
        ("rate", 0),
        ("rate", np.nan),
    ],
)
def test_bad_settings_are_named(name, value):
    with pytest.raises(ValueError, match=f"^{name} cannot be .*: it may be "):
        Settings.checked({name: value})


def test_bad_input_is_named(rng):
    for n in (3, 8.5):
        with pytest.raises(ValueError, match="resolution"):
            IMAGES.points(n)
    with pytest.raises(ValueError, match="classes"):
        data.digit_functions(rng, [8], classes=())
    model = WholeVector(4, rng)
    with pytest.raises(ValueError, match="training samples"):
        fit(model.weights, model.gradient, np.zeros((49, 4), np.float32), 10, 1e-3, 0)
    with pytest.raises(ValueError, match="steps"):
        fit(model.weights, model.gradient, np.zeros((50, 4), np.float32), 0, 1e-3, 0)
    with pytest.raises(RuntimeError, match="not finite"):
        fit(model.weights, model.gradient, np.full((50, 4), np.nan, np.float32), 10, 1e-3, 0)


def test_weights_share_one_vector(rng):
    """Writing into the flat vector is writing into the arrays; biases and the skip start at 0."""
    weights = Weights({"W1": (3, 4), "b1": (4,), "skip": (2, 2)}, rng)
    assert not weights.arrays["b1"].any()
    assert not weights.arrays["skip"].any()
    weights.flat[:] = np.arange(20)
    assert weights.arrays["W1"][2, 3] == 11
    assert weights.arrays["skip"][1, 1] == 19


def test_the_two_kinds_differ_in_numbers_only():
    """One code for both: what a domain holds is numbers and flags, and both run through the same functions."""
    for s in (Settings(), Settings(modality="curves")):
        found = run(s.replace(steps=100, euler=5), 2).measures
        assert set(found["swd_sampled"]) == {INRFLOW, OWN, VECTOR, LATENT, FLOOR}
        assert all(np.isfinite(v) for by in found.values() for v in by.values())
        assert found["loss"][INRFLOW] < 0.75 * (1.72 if s.modality == "digits" else 1.42)
