"""RoSTE: right values of quantizers and rotations, gradients against differences, GPTQ, least squares."""

from dataclasses import dataclass, field

import numpy as np
import pytest

from core.demos import _roste_net as net
from core.demos import _roste_quantizers as quant
from core.demos._roste_rivals import batches, tasks
from core.demos.roste import FLOAT, ROSTE, STE, Settings, fine_tune, run, theory_rule
from core.lab.verdicts import Samples


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture
def images(rng):
    return tasks(rng)[1]


def variant(w, dtype=float):
    return {name: x.astype(dtype) for name, x in w.items()}


def turned_scheme(rng, bits, on, dtype=float):
    """Two variants, without and with rotation everywhere."""
    turns = {site: r.astype(dtype) for site, r in net.rotations(rng).items()}
    s = net.scheme(bits, [{}, turns], [on] * 2, [on] * 2)
    return net.Scheme(bits, {site: r.astype(dtype) for site, r in s.rotations.items()}, s.weights, s.activations)


def twice(w):
    return {name: np.repeat(x, 2, 0) for name, x in w.items()}


@pytest.mark.parametrize("d", [1, 2, 8, 64])
def test_rotations_are_orthogonal(rng, d):
    """HHᵀ = I; every entry is ±1/√d."""
    h = quant.rotation(rng, d)
    np.testing.assert_allclose(h @ h.T, np.eye(d), atol=1e-6)
    np.testing.assert_allclose(np.abs(h), d**-0.5)


def test_rotations_cancel_without_quantization(rng, images):
    """XW = (XR)(RᵀW) in every layer and both caches."""
    seen = net.Pass(twice(net.draw(rng)), net.plain_gains(), images[0], turned_scheme(rng, 4, False, np.float32))
    np.testing.assert_allclose(seen.logits[0], seen.logits[1], atol=1e-4)


@pytest.mark.parametrize("channels", [0, 1, 4, 32])
def test_outliers_leave_the_function_as_it_is(rng, images, channels):
    """A channel times α and its readers over α: the same logits, but other inputs of the layers."""
    w = net.draw(rng)
    before = net.Pass(w, net.plain_gains(), images[0], net.floating())
    w, gains = net.plant(rng, w, 30.0, channels)
    after = net.Pass(w, gains, images[0], net.floating())
    np.testing.assert_allclose(before.logits, after.logits, atol=1e-4)
    for site in ("K", "up", "output", "down", "V cache"):
        grown = np.abs(after.kept[site][0]).max() / np.abs(before.kept[site][0]).max()
        assert (grown > 2) == (channels > 0), site


def test_symmetric_quantizer(rng):
    """Rounding is off by at most half a step; levels stay where they are; 0 is a level."""
    x = rng.standard_normal((20, 64))
    q = quant.symmetric(x, 8)
    assert (np.abs(q - x) <= quant.scale_of(x, 8) / 2 + 1e-12).all()
    np.testing.assert_allclose(quant.symmetric(q, 8), q, atol=1e-12)
    assert (quant.symmetric(np.zeros((2, 5)), 8) == 0).all()


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_quantizers_take_the_nearest_of_all_levels(rng, bits):
    """Brute force over the 2^b levels of each row."""
    x = rng.standard_normal((10, 16)) + 0.3
    for row, q in zip(x, quant.symmetric(x, bits), strict=True):
        levels = np.arange(-(2 ** (bits - 1)), 2 ** (bits - 1)) * np.abs(row).max() / (2 ** (bits - 1) - 1)
        np.testing.assert_allclose(q, levels[np.abs(row[:, None] - levels).argmin(1)], atol=1e-12)
    for row, q in zip(x, quant.asymmetric(x, bits), strict=True):
        low, high = min(row.min(), 0), max(row.max(), 0)
        s = (high - low) / (2**bits - 1)
        levels = (np.arange(2**bits) - round(-low / s)) * s
        np.testing.assert_allclose(q, levels[np.abs(row[:, None] - levels).argmin(1)], atol=1e-12)


def test_asymmetric_quantizer_keeps_zeros_and_constants():
    """0 is a level, and so is a constant row: it is one end of its own range."""
    assert (quant.asymmetric(np.zeros((2, 5)), 4) == 0).all()
    for value in (3.7, -0.02, 1e6):
        np.testing.assert_allclose(quant.asymmetric(np.full((1, 9), value), 4), value, rtol=1e-6)


def test_one_hot_weights_are_exact_with_and_without_rotation(rng):
    """10 e₁ is its own largest level; rotated, all entries have the same size."""
    w = np.zeros(64)
    w[0] = 10
    h = quant.rotation(rng, 64)
    for x in (w, w @ h):
        np.testing.assert_allclose(quant.symmetric(x, 4), x, atol=1e-12)
    assert np.ptp(np.abs(w @ h)) < 1e-12


def test_bounds_on_the_error_of_weights(rng):
    """d max w²/(4 (2^(b−1) − 1)²) always; log(4d/δ)‖w‖²/(2 (2^(b−1) − 1)²) with probability 1 − δ for random H."""
    d, bits, delta, broken = 64, 4, 0.01, 0
    for _ in range(200):
        w = rng.standard_normal(d)
        w[rng.choice(d, 2, replace=False)] *= rng.uniform(1, 50)
        h, half = quant.rotation(rng, d), (2 ** (bits - 1) - 1) ** 2
        assert ((quant.symmetric(w, bits) - w) ** 2).sum() <= d * (w**2).max() / (4 * half) + 1e-12
        broken += ((quant.symmetric(w @ h, bits) - w @ h) ** 2).sum() > np.log(4 * d / delta) / (2 * half) * w @ w
    assert broken <= 5


def test_gptq_of_uncorrelated_inputs_is_rounding(rng):
    """XᵀX ∝ I: there is nothing that another row could make up for."""
    w, x = rng.standard_normal((16, 5)), 3 * np.linalg.qr(rng.standard_normal((40, 16)))[0]
    np.testing.assert_allclose(quant.gptq(w, x, 4), quant.symmetric(w, 4, axis=0), atol=1e-6)


def test_gptq_of_correlated_inputs_beats_rounding(rng):
    """What GPTQ minimizes, ‖X(Ŵ − W)‖², on the levels of rounding."""
    w, x = rng.standard_normal((16, 5)), rng.standard_normal((200, 16)) @ rng.standard_normal((16, 16))
    found, rounded = quant.gptq(w, x, 4), quant.symmetric(w, 4, axis=0)
    assert np.sum((x @ (found - w)) ** 2) < 0.7 * np.sum((x @ (rounded - w)) ** 2)
    steps = found / quant.scale_of(w, 4, axis=0)
    np.testing.assert_allclose(steps, np.rint(steps), atol=1e-9)


def slope_error(w, gains, images, s, name, way):
    """Relative error of the gradient against a central difference of the summed loss along `way`."""
    pictures, labels = images
    found = net.Pass(w, gains, pictures, s).gradients(labels)[name]

    def total(e):
        if isinstance(s, Frozen):
            s.at = 0
        return net.Pass({**w, name: w[name] + e * way}, gains, pictures, s).losses(labels).sum()

    slope = (total(1e-5) - total(-1e-5)) / 2e-5
    return abs((found * way).sum() / slope - 1)


def test_gradient_against_central_differences(rng, images):
    """Quantization off, double precision, one random direction for each matrix."""
    w, gains = net.plant(rng, variant(net.draw(rng)), 3.0, 1)
    some, s = (images[0][:20].astype(float), images[1][:20]), turned_scheme(rng, 4, False)
    for name, x in w.items():
        assert slope_error(twice(w), gains, some, s, name, rng.standard_normal((2, *x.shape[1:]))) < 1e-6, name


@dataclass(frozen=True)
class Offsets(net.Scheme):
    """Quantizes and remembers what each call added."""

    added: list = field(default_factory=list)

    def columns(self, w):
        self.added.append(super().columns(w) - w)
        return w + self.added[-1]

    def rows(self, x):
        self.added.append(super().rows(x) - x)
        return x + self.added[-1]


class Frozen:
    """Adds the remembered offsets in the same order: a smooth function with the straight-through slope."""

    def __init__(self, s):
        self.rotations, self.added, self.at = s.rotations, s.added, 0

    def columns(self, x):
        self.at += 1
        return x + self.added[self.at - 1]

    rows = columns


def test_straight_through_gradient_is_that_of_frozen_rounding(rng, images):
    """Q(x) = x + constant has slope 1: central differences with the constants of one forward pass held."""
    w, gains = net.plant(rng, variant(net.draw(rng)), 3.0, 1)
    some, s = (images[0][:20].astype(float), images[1][:20]), turned_scheme(rng, 8, True)  # fewer bits: ReLU at 0
    s = Offsets(s.bits, s.rotations, s.weights, s.activations)
    real = net.Pass(twice(w), gains, some[0], s).gradients(some[1])
    frozen = Frozen(s)
    for name, x in w.items():
        frozen.at = 0
        again = net.Pass(twice(w), gains, some[0], frozen).gradients(some[1])
        np.testing.assert_allclose(again[name], real[name], rtol=1e-9, atol=1e-12)
        frozen.at = 0
        way = rng.standard_normal((2, *x.shape[1:]))
        assert slope_error(twice(w), gains, some, frozen, name, way) < 1e-6, name


def test_sixteen_bits_have_the_gradient_of_float(rng, images):
    """At 16 bits a step is 1/65,535 of the range."""
    w = twice(variant(net.draw(rng)))
    s = turned_scheme(rng, 16, True)
    pictures, labels = images[0][:64].astype(float), images[1][:64]
    exact = net.Pass({n: x[:1] for n, x in w.items()}, net.plain_gains(), pictures, net.floating()).gradients(
        labels
    )
    found = net.Pass(w, net.plain_gains(), pictures, s).gradients(labels)
    for name, g in exact.items():
        for v in range(2):
            assert np.linalg.norm(found[name][v] - g[0]) < 1e-3 * np.linalg.norm(g[0]), name


def test_the_choice_is_the_smaller_error(rng, images):
    """The error of the layer `up` computed apart, image by image, from its inputs."""
    w, gains = net.plant(rng, net.draw(rng), 30.0, 1)
    turns = net.rotations(rng)
    some = images[0][:32]
    errors, chosen = net.choose(w, gains, some, turns, 4)
    assert set(chosen) == {site for site, (plain, turned) in errors.items() if turned < plain}
    s = net.scheme(4, [turns], [True], [True])
    inputs = net.Pass(w, gains, some, s).kept["up"][4][0]
    h = turns["up"]
    turned_w = h.T @ w["up"][0]
    total = sum(((quant.symmetric(c, 4) - c) ** 2).sum() for c in turned_w.T)
    total += np.mean([((quant.asymmetric(x, 4) - x) ** 2).sum() for x in inputs @ h])
    assert errors["up"][1] == pytest.approx(total, rel=1e-4)


def test_more_rounds_choose_again(rng, images):
    """The trained variants other than RoSTE do not depend on the number of rounds."""
    w, gains = net.plant(rng, net.draw(rng), 30.0, 1)
    steps, turns = batches(rng, images, 24, 12), net.rotations(rng)
    one, three = (fine_tune(w, gains, steps, images[0][:64], turns, 4, k) for k in (1, 3))
    np.testing.assert_array_equal(one.weights[STE]["up"], three.weights[STE]["up"])
    start = net.choose(w, gains, images[0][:64], turns, 4)[0]
    for site, pair in start.items():
        assert one.errors[site] == pytest.approx(pair)
        assert three.errors[site] != pytest.approx(pair)


def test_the_float_variant_trains_without_quantization(rng, images):
    """Side by side with quantized variants it gives what it gives alone."""
    w, gains = net.plant(rng, net.draw(rng), 30.0, 1)
    steps = batches(rng, images, 24, 3)
    tuned = fine_tune(w, gains, steps, images[0][:64], net.rotations(rng), 4)
    alone = {name: x.copy() for name, x in w.items()}
    net.train(alone, gains, steps, net.floating(), 3e-3)
    for name, x in alone.items():
        np.testing.assert_allclose(tuned.weights[FLOAT][name], x, atol=2e-4)


def test_loss_of_least_squares_is_near_half_the_error():
    """½‖e‖² where the weights keep their detail; less where unrotated outliers round all others to 0."""
    found = [quant.least_squares(np.random.default_rng(s), 4) for s in range(8)]
    part = np.mean([loss / error for loss, error in found], axis=0)
    assert (part[:, 1] > 0.35).all()
    assert (part[:, 1] < 0.6).all()
    assert 0.35 < part[0, 0] < 0.6
    assert part[3, 0] < 0.35


def test_more_bits_interpolate():
    """With fine weights the least squares has a solution (64 unknowns, 32 equations): the loss goes to 0."""
    coarse, fine = (quant.least_squares(np.random.default_rng(1), bits)[0] for bits in (4, 12))
    assert (fine < 1e-2 * coarse).all()


def theory_samples(loss_of):
    rng = np.random.default_rng(0)
    values = {}
    for i, a in enumerate((1, 3, 10, 30)):
        for j, t in enumerate(("plain", "rotated")):
            error = (4.0 - 2.0 * j) ** (i + 1) * np.exp(0.05 * rng.standard_normal(8))
            values["ls_error", f"α = {a}, {t}"] = error
            values["ls_loss", f"α = {a}, {t}"] = loss_of(error) * np.exp(0.02 * rng.standard_normal(8))
    logs = [np.log([v for (m, _), v in values.items() if m == k]) for k in ("ls_error", "ls_loss")]
    slopes = [np.polyfit(x, y, 1)[0] for x, y in zip(logs[0].T, logs[1].T, strict=True)]
    return Samples({**values, ("slope", "least squares"): np.array(slopes)}, range(8))


def test_the_rule_on_theory_has_every_outcome():
    """Made losses: proportional, to the power 0.7, and falling with the error."""
    assert theory_rule(theory_samples(lambda e: e / 2)).outcome == "holds"
    assert theory_rule(theory_samples(lambda e: e**0.7)).outcome == "fails"
    assert theory_rule(theory_samples(lambda e: 1 / e)).outcome == "fails"
    noisy = np.random.default_rng(3)
    found = theory_rule(theory_samples(lambda e: e * np.exp(1.2 * noisy.standard_normal(8))))
    assert found.outcome in ("unclear", "fails")


def test_without_outliers_rotation_gains_nothing():
    """Straight-through training with and without rotations, three seeds."""
    gap = {
        alpha: np.mean([loss[STE] - loss[ROSTE] for loss in losses])
        for alpha in (1.0, 30.0)
        for losses in [[run(Settings(alpha=alpha), s).measures["cross_entropy"] for s in range(3)]]
    }
    assert gap[30.0] > 0.15
    assert abs(gap[1.0]) < 0.06


@pytest.mark.parametrize("bits", [1, 17])
def test_bits_out_of_range_are_named(bits):
    for quantize in (quant.symmetric, quant.asymmetric):
        with pytest.raises(ValueError, match="bits"):
            quantize(np.ones((2, 3)), bits)
    with pytest.raises(ValueError, match="bits"):
        net.scheme(bits, [{}], [True], [True])


def test_nan_is_refused_before_quantizing(rng, images):
    for bad in (np.nan, np.inf):
        for quantize in (quant.symmetric, quant.asymmetric):
            with pytest.raises(ValueError, match="quantizer input"):
                quantize(np.array([[1.0, bad]]), 4)
    w = net.draw(rng)
    w["up"][0, 3, 4] = np.nan
    with pytest.raises(ValueError, match="quantizer input"):
        net.Pass(w, net.plain_gains(), images[0], net.scheme(4, [{}], [True], [True]))


def test_bad_arguments_are_named(rng, images):
    w, turns = net.draw(rng), net.rotations(rng)
    with pytest.raises(ValueError, match="alpha"):
        net.plant(rng, w, 0.5, 1)
    with pytest.raises(ValueError, match="channels"):
        net.plant(rng, w, 2.0, 33)
    with pytest.raises(ValueError, match="d cannot be 12"):
        quant.rotation(rng, 12)
    with pytest.raises(ValueError, match="steps"):
        net.train(w, net.plain_gains(), [], net.floating(), 1e-3)
    for rounds in (0, 3):
        with pytest.raises(ValueError, match="rounds"):
            fine_tune(w, net.plain_gains(), batches(rng, images, 24, 2), images[0][:8], turns, 4, rounds)


@pytest.mark.parametrize(
    ("name", "value"), [("bits", 1), ("bits", 17), ("alpha", 0.5), ("steps", 0), ("rounds", 0), ("channels", 33)]
)
def test_bad_settings_are_named(name, value):
    with pytest.raises(ValueError, match=name):
        Settings.checked({name: value})
