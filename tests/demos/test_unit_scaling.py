"""µnit Scaling: right values of 8-bit formats, gradients against differences, invariances of Lion."""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from core.demos import _unit_scaling_net as net
from core.demos.unit_scaling import MU, SP32, Settings, attention, language, law, run, sample


@pytest.fixture
def rng():
    return np.random.default_rng(5)


@pytest.fixture
def batches(rng):
    return list(sample(rng, language(rng)[0], 80).reshape(10, 8, 9))


def losses(normal, batches, s):
    """Held-out loss on the first rows after training: (variants,)."""
    return net.Pass(net.train(normal, batches, s)[0], batches[0], s).loss


def test_edges_of_the_two_formats():
    """OCP 8-bit formats: e4m3fn has largest 448, smallest 2⁻⁹ and no infinity; e5m2 57344 and 2⁻¹⁶."""
    x = np.array([448, 2.0**-9, 2.0**-10, 500, -1e9], np.float32)
    assert net.quantize(x).tolist() == [448, 2.0**-9, 0, 448, -448]
    assert np.isnan(np.float32(500).astype(ml_dtypes.float8_e4m3fn).astype(np.float32))
    y = np.array([57344, 2.0**-16, 1e9], np.float32)
    assert net.quantize(y, net.GRADIENT).tolist() == [57344, 2.0**-16, 57344]


def test_underflow_of_activations_of_normal_inputs(rng):
    """By integration of the normal density over the inputs whose output is below 2⁻¹⁰: ReLU ±0.0004, GELU 0.0018."""
    x = rng.standard_normal(10**6).astype(np.float32)
    for kind, share in (("relu", 0.0004), ("gelu", 0.0018)):
        y = net.activate(x, kind)[0]
        assert ((y != 0) & (net.quantize(y) == 0)).mean() == pytest.approx(share, abs=0.0002)


@pytest.mark.parametrize("scheme", ["mu", "sp"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_gradient_against_central_differences(rng, scheme, activation):
    s = net.Setup(scheme, 16, (0.1,), ("float",), activation=activation)
    scale = 1.0 if scheme == "mu" else 0.2
    w = {n: scale * x.astype(float)[None] for n, x in net.draw(rng, 16).items()}
    rows = rng.integers(0, 16, (8, 9))
    found = net.Pass(w, rows, s).gradients()
    for name, part in w.items():
        way = rng.normal(size=part.shape)

        def total(e, name=name, part=part, way=way):
            return net.Pass({**w, name: part + e * way}, rows, s).loss[0] * 64 * s.top

        slope = (total(1e-5) - total(-1e-5)) / 2e-5
        assert (found[name] * way).sum() == pytest.approx(slope, rel=1e-5)


def test_linear_outputs_and_stream_have_unit_variance(rng):
    """Sum of d independent unit products over √d has variance 1; so has √(1−τ)x + √τ LN."""
    d = 64
    s = net.Setup("mu", d, (0.1,), ("float",))
    x = rng.standard_normal((512, d))
    for name, w in net.draw(rng, d).items():
        if name in ("q", "o", "up"):
            assert (x @ w * s.alpha(d)).var() == pytest.approx(1, abs=0.1)
    seen = net.Pass(net.start(net.draw(rng, d), s), rng.integers(0, 16, (64, 9)), s)
    for stream in (seen.x1, seen.x2):
        assert stream.var() == pytest.approx(1, abs=0.1)


def test_attention_law(rng):
    """E Σp² for softmax of normal scores (40,000 draws elsewhere): those numbers within 4 %, k = 1 exactly."""
    found = dict(zip([2**i for i in range(9)], attention(rng, 8000)["softmax"], strict=True))
    assert found[1] == pytest.approx(1, abs=1e-6)
    for k, value in {16: 0.132, 32: 0.0727, 64: 0.0387, 128: 0.0202, 256: 0.0103}.items():
        assert found[k] == pytest.approx(value, rel=0.04)
    assert law(np.array([1, 16, 256])) == pytest.approx([1, 0.163, 0.0106], abs=5e-4)


def test_attention_variances_against_real_values(rng):
    """Second way: draw the values, correlated 0.3, and measure the variance of the mixed output."""
    p = np.exp(rng.standard_normal((60000, 8)))
    p /= p.sum(1, keepdims=True)
    v = np.sqrt(0.3) * rng.standard_normal((60000, 1)) + np.sqrt(0.7) * rng.standard_normal((60000, 8))
    found = attention(np.random.default_rng(1), 20000)
    assert (p * v).sum(1).var() == pytest.approx(found["correlated"][3], rel=0.04)
    assert (np.sqrt(p) * v).sum(1).var() == pytest.approx(found["root, correlated"][3], rel=0.04)
    assert found["square root"] == pytest.approx(1, abs=0.1)


def test_scale_invariance_of_lion(rng, batches, monkeypatch):
    """(α, init, rate) → (αθ, init/θ, rate/θ) for hidden matrices leaves every loss unchanged (no decay)."""
    normal = net.draw(rng, 16)
    s = net.Setup("mu", 16, (0.1,), ("float",), decay=0.0)
    plain = losses(normal, batches, s)
    theta = 4.0
    monkeypatch.setattr(net.Setup, "alpha", lambda self, fan_in: theta * fan_in**-0.5)
    monkeypatch.setattr(net, "BASE", net.BASE / theta**2)  # the hidden rate carries √BASE
    scaled = {n: w / np.float32(theta) if n in net.HIDDEN else w for n, w in normal.items()}
    assert losses(scaled, batches, s) == pytest.approx(plain, abs=1e-3)


@pytest.mark.parametrize("scheme", ["mu", "sp"])
def test_a_factor_on_the_loss_changes_nothing_in_float32(rng, batches, scheme):
    """Lion uses signs only; a power of two even keeps every bit."""
    s = net.Setup(scheme, 16, (2**-6,), ("float",))
    normal = net.draw(rng, 16)
    assert losses(normal, batches, replace(s, seed_factor=1024.0)) == pytest.approx(
        losses(normal, batches, s), abs=1e-5
    )


def test_dynamic_cast_at_full_range_is_the_static_cast(rng):
    x = rng.standard_normal((1, 30, 8)).astype(np.float32)
    x *= 448 / np.abs(x).max()
    cast = [
        net.cast(x, net.Setup("sp", 8, (0.1,), (m,)), net.ACTIVATION, "activation", None)
        for m in ("static", "dynamic")
    ]
    assert np.array_equal(*cast)


@pytest.mark.parametrize("scheme", ["mu", "sp"])
@pytest.mark.parametrize("width", [8, 32])
def test_zero_head_gives_the_uniform_loss(rng, scheme, width):
    s = net.Setup(scheme, width, (0.1,), ("float",))
    w = net.start(net.draw(rng, width), s)
    w["head"] = 0 * w["head"]
    assert net.Pass(w, rng.integers(0, 16, (8, 9)), s).loss[0] == pytest.approx(np.log(16), abs=1e-5)


def test_entropy_rate_is_the_loss_of_the_true_source(rng):
    """Second way: −log P along a long sample."""
    p, entropy = language(rng)
    rows = sample(rng, p, 6000)
    seen = -np.log(p[rows[:, :-2], rows[:, 1:-1], rows[:, 2:]]).mean()
    assert seen == pytest.approx(entropy, abs=0.03)


def test_maximum_searches_and_exact_numerics():
    """Counted by hand: 4 inputs, 6 weights, 6 gradients; none for µS, whose inference equals training."""
    found = run(Settings(), 0).measures
    assert found["searches"] == {MU: 0.0, "SP FP8, no scales": 0.0, "SP FP8, dynamic": 16.0}
    assert found["gap"][MU] == 0
    assert abs(found["gap"][SP32]) < 0.01


def test_a_diverged_arm_is_marked_and_leaves_the_other_alone(rng, batches):
    normal = net.draw(rng, 8)
    pair = net.Setup("sp", 8, (2**-6, 1e38), ("float", "float"))
    with np.errstate(all="ignore"):
        w, _, fine = net.train(normal, batches, pair)
    assert fine.tolist() == [True, False]
    alone = net.train(normal, batches, replace(pair, rates=(2**-6,), modes=("float",)))[0]
    assert np.allclose(w["q"][0], alone["q"][0])


@pytest.mark.parametrize(
    ("name", "value"),
    [("width", 12), ("tau", 0.0), ("tau", 1.0), ("n_tok", 0), ("activation", "tanh"), ("scheme", "ntk"),
     ("rates", (0.0,))],
)  # fmt: skip
def test_bad_setups_are_named(name, value):
    good = {"scheme": "mu", "width": 16, "rates": (0.1,), "modes": ("float",)}
    with pytest.raises(ValueError, match=name):
        net.Setup(**{**good, name: value})


@pytest.mark.parametrize(("name", "value"), [("width", 20), ("tau", 0), ("steps", 0), ("log_tokens", 2),
                                             ("activation", "tanh")])  # fmt: skip
def test_bad_settings_are_named(name, value):
    with pytest.raises(ValueError, match=name):
        Settings.checked({name: value})


def test_no_steps_and_nan_are_refused(rng):
    s = net.Setup("mu", 8, (0.1,), ("static",))
    with pytest.raises(ValueError, match="steps"):
        net.train(net.draw(rng, 8), [], s)
    with pytest.raises(ValueError, match="cast input"):
        net.quantize(np.array([np.nan], np.float32))
