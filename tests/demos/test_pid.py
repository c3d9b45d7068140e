"""PiD: right values by hand, from the closed form, and from Pillow, SciPy and scikit-learn."""

import io

import numpy as np
import pytest
from PIL import Image
from scipy import ndimage
from sklearn.decomposition import PCA
from sklearn.linear_model import Ridge
from sklearn.neighbors import NearestNeighbors

from core.demos import _pid_fakes as fakes
from core.demos import _pid_network as network
from core.demos.pid import DEMO, SPACES, Settings, blurred, data, leak, residual, run, same_history
from core.lab.datasets import photographs
from core.lab.verdicts import Samples

JPEG = SPACES["ycbcr"]
EXTREME = np.array([1.2010, 1.0291, 1.3860])
"""Half the row sums of |M⁻¹|."""


@pytest.fixture
def rng():
    return np.random.default_rng(5)


@pytest.fixture(scope="module")
def fitted():
    return fakes.Fakes.fitted(np.random.default_rng(0), "shipped")


@pytest.fixture
def colours(rng):
    """A million uniform integer colours (n, 3)."""
    return rng.integers(0, 256, (1_000_000, 3)).astype(float)


def test_no_change_of_space_loses_nothing(rng):
    """Integers are rounded to themselves."""
    x = rng.integers(0, 256, (50, 3))
    assert (residual(x, SPACES["identity"]) == 0).all()


def test_grey_loses_nothing():
    """Grey is (g, 0, 0) in YCbCr: whole numbers already."""
    assert np.abs(residual(np.full((1, 3), 128.0), JPEG)).max() < 1e-9


@pytest.mark.parametrize(
    ("pixel", "expected"),
    [((100, 150, 200), (-0.34197, -0.35347, 0.52401)), ((255, 0, 0), (-0.45600, 0.61159, 0.19595))],
)
def test_residual_by_hand(pixel, expected):
    """x − M⁻¹ round(Mx): for red, Mx = (76.245, −43.028, 127.5), rounded (76, −43, 128) (half to even)."""
    assert residual(np.array(pixel, dtype=float), JPEG) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("step", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("space", ["ycbcr", "yuv", "yiq"])
def test_rounded_colours_lie_on_the_lattice(space, step, colours):
    """Definition: M x̂ = q is a whole multiple of the step, and no other multiple is nearer to Mx."""
    x, matrix = colours[:20_000], SPACES[space]
    lost = residual(x, matrix, step)
    codes = (x - lost) @ matrix.T / step
    assert np.abs(codes - np.rint(codes)).max() < 1e-9
    assert np.abs(lost @ matrix.T).max() <= step / 2 + 1e-9


def test_decoded_jpeg_colours_are_found_again(rng):
    """Theorem: the rows of M have absolute sum ≤ 1, so rounding by ≤ ½ moves Mx by ≤ ½ and q₀ is found again."""
    codes = rng.integers((72, -40, -40), (184, 41, 41), (100_000, 3))
    exact = codes @ np.linalg.inv(JPEG).T
    x = np.rint(exact)
    assert (x >= 0).all()
    assert (x <= 255).all()
    assert (np.rint(x @ JPEG.T) == codes).all()
    lost = residual(x, JPEG)
    assert np.abs(lost).max() <= 0.5 + 1e-9
    assert np.allclose(lost, x - exact, atol=1e-9)


def test_codes_agree_with_a_jpeg_file():
    """Library: the whole numbers that libjpeg decoded before it made RGB of them are those that we find."""
    file = io.BytesIO()
    Image.fromarray(photographs()[0]).save(file, "JPEG", quality=95, subsampling=0)
    stored = Image.open(file)
    stored.draft("YCbCr", stored.size)
    codes = np.asarray(stored, dtype=float) - (0, 128, 128)
    assert stored.mode == "YCbCr"
    x = np.asarray(Image.open(file), dtype=float)
    exact = codes @ np.linalg.inv(JPEG).T
    kept = ((exact > -0.5) & (exact < 255.5)).all(axis=2)  # not clipped
    ours = np.rint((x - residual(x, JPEG)) @ JPEG.T)
    assert kept.mean() > 0.9
    assert (ours == codes)[kept].mean() > 0.999  # libjpeg's fixed point may round a tie the other way


def test_determinants():
    """By hand from the three standards' coefficients."""
    expected = {"ycbcr": 0.236280, "yuv": 0.253425, "yiq": 0.253281}
    for space, value in expected.items():
        assert abs(np.linalg.det(SPACES[space])) == pytest.approx(value, abs=1e-6)


def test_share_in_the_box_is_the_determinant(colours):
    """Volume: M⁻¹u, u uniform in a unit cube, lies in that cube with probability |det M|."""
    inside = np.abs(residual(colours, JPEG)).max(axis=1) <= 0.5
    assert inside.mean() == pytest.approx(0.2363, abs=0.002)


def test_variance_and_extremes_of_the_residual(colours):
    """r = M⁻¹u with u uniform of variance 1/12: row sums of squares over 12; no |r| beyond half the row sums."""
    lost = residual(colours, JPEG)
    assert lost.var(axis=0) == pytest.approx([0.2471, 0.1357, 0.3450], abs=0.002)
    assert (np.abs(lost).max(axis=0) <= EXTREME + 1e-4).all()


def test_residual_knows_only_the_pixel(rng):
    """Invariant: shuffled pixels have shuffled residuals."""
    x = rng.integers(0, 256, (64, 3)).astype(float)
    order = rng.permutation(64)
    assert (residual(x[order], JPEG) == residual(x, JPEG)[order]).all()


def test_photographs_were_jpeg_files():
    """Measured once over the whole files; depends a little on the JPEG decoder."""
    shares = [np.mean(np.abs(residual(p, JPEG)).max(axis=2) <= 0.5) for p in photographs()]
    assert shares == pytest.approx([0.9718, 0.9252], abs=0.005)


def test_jpeg_puts_every_generator_into_the_box(fitted, rng):
    """A decoded JPEG pixel lies in the box unless it was clipped."""
    for name in fakes.GENERATORS:
        fresh = fitted.draw(name, rng, 60)
        before, after = (
            np.mean(np.abs(residual(fakes.saved_as(fresh, how), JPEG)).max(axis=3) <= 0.5)
            for how in ("png", "jpeg95")
        )
        assert before < 0.4
        assert after > 0.85


def test_blur_agrees_with_scipy(rng):
    x = rng.integers(0, 256, (3, 16, 16, 3))
    expected = ndimage.uniform_filter(x.astype(float), size=(0, 3, 3, 0), mode="nearest")
    assert np.allclose(blurred(x), expected)


def test_halving_averages_blocks():
    """By hand: the last odd row and column are left out."""
    image = np.arange(5 * 5 * 3).reshape(5, 5, 3)
    assert fakes.halve(image).shape == (2, 2, 3)
    assert fakes.halve(image)[0, 0, 0] == np.mean([0, 3, 15, 18])


def test_components_and_projection_agree_with_scikit_learn(fitted):
    theirs = PCA(fakes.COMPONENTS, svd_solver="full").fit(fitted.pool)
    assert fitted.deviations[: fakes.COMPONENTS] ** 2 == pytest.approx(theirs.explained_variance_)
    x = fitted.pool[:20]
    assert np.allclose(fitted.project(x), theirs.inverse_transform(theirs.transform(x)), atol=1e-6)


def test_super_resolution_agrees_with_scikit_learn(fitted):
    """The same random patches of the pool through scikit-learn's ridge regression."""
    ridge = Ridge(fakes.RIDGE).fit(fitted.small, fitted.pool)
    rows = np.random.default_rng(1).integers(0, fakes.POOL, 30)
    expected = fakes.to_bytes(ridge.predict(fitted.small[rows])).reshape(30, 16, 16, 3)
    got = fitted.draw("superres", np.random.default_rng(1), 30)
    assert np.mean(expected == got) > 0.999  # a value at .5 may round either way


def test_gaussian_fakes_have_the_covariance_of_the_pool(fitted):
    """All components with their own deviations: the variance of each number is the pool's."""
    drawn = fitted._ppca(np.random.default_rng(2), 4000)
    assert drawn.var(axis=0) == pytest.approx(fitted.pool.var(axis=0), rel=0.15)


def test_blend_mixes_with_the_nearest_other_patch(fitted):
    """Library: scikit-learn's nearest neighbour (a fitted point is not its own) and the share drawn."""
    neighbours = NearestNeighbors(n_neighbors=2).fit(fitted.small).kneighbors(return_distance=False)[:, 0]
    rng = np.random.default_rng(4)
    first, share = rng.integers(0, fakes.POOL, 30), rng.uniform(0.5, 0.8, (30, 1))
    expected = share * fitted.pool[first] + (1 - share) * fitted.pool[neighbours[first]]
    assert np.allclose(fitted._blend(np.random.default_rng(4), 30), expected)


def test_network_is_a_convolution(rng):
    """Library: SciPy's correlation per filter, ReLU, mean, linear."""
    x = rng.normal(size=(2, 16, 16, 3))
    filters, bias = rng.normal(size=(27, 4)), rng.normal(size=4)
    weights, offset = rng.normal(size=4), rng.normal(size=1)
    expected = []
    for picture in x:
        means = []
        for k in range(4):
            kernel = filters[:, k].reshape(3, 3, 3).transpose(1, 2, 0)  # windows put the channel first
            h = ndimage.correlate(picture, kernel, mode="constant")[1:-1, 1:-1, 1] + bias[k]
            means.append(np.maximum(h, 0).mean())
        expected.append(np.array(means) @ weights + offset[0])
    got = network.logits([filters, bias, weights, offset], network.windows(x))
    assert got == pytest.approx(expected)


def test_a_constant_map_decides_nothing():
    """Zero variance: half right, no NaN, no correlation."""
    maps = np.zeros((40, 16, 16, 3))
    decide = network.train(maps, np.arange(40) >= 20, 0)
    assert len(set(decide(maps))) == 1
    assert leak(maps, np.random.default_rng(0).integers(0, 256, maps.shape)) == 0
    measures = run(Settings(space="identity", n=12), 0).measures
    assert measures["acc_unseen"]["PiD"] == 0.5
    assert measures["leak"]["PiD"] == 0


def test_leak_of_the_content_itself():
    """The blurred luminance correlates perfectly with itself."""
    patches = np.random.default_rng(0).integers(0, 256, (5, 16, 16, 3))
    content = blurred(patches) @ np.array([0.299, 0.587, 0.114])
    assert leak(np.stack([content] * 3, axis=-1), patches) == pytest.approx(1)


def test_training_and_test_patches_come_from_different_halves(rng, monkeypatch):
    """A picture whose right half is white: no training patch has a white pixel, every test patch is white."""
    image = np.zeros((40, 80, 3), np.uint8)
    image[:, 40:] = 255
    monkeypatch.setattr(fakes, "photographs", lambda: (image, image))
    found = fakes.real_patches(rng, "shipped", "within", 50)
    assert found["train"].shape == found["test"].shape == (50, 16, 16, 3)
    assert found["train"].max() == 0
    assert found["test"].min() == 255


def test_every_input_is_a_map_of_the_same_pixels():
    """PNG keeps fakes bit for bit, and JPEG changes only the fakes."""
    plain, jpeg = (data(Settings(n=20, saved=how), 3) for how in ("png", "jpeg95"))
    assert (plain.train_real == jpeg.train_real).all()
    assert (plain.test["real"] == jpeg.test["real"]).all()
    for name in fakes.GENERATORS:
        change = np.abs(plain.test[name].astype(int) - jpeg.test[name])
        assert 0 < change.mean() < 8


def test_the_same_file_history_takes_the_advantage_away():
    """Two seeds: PiD is far above its JPEG run, and the box rule falls to chance there."""
    for seed in (0, 1):
        plain = run(Settings(), seed).measures
        jpeg = run(DEMO.preset(DEMO.break_it), seed).measures
        assert plain["acc_unseen"]["PiD"] > jpeg["acc_unseen"]["PiD"] + 0.15
        assert jpeg["acc_unseen"]["box rule"] < 0.6
        assert same_history(Settings(), seed)["acc_same_history"]["PiD"] == jpeg["acc_unseen"]["PiD"]


@pytest.mark.parametrize(
    ("pid", "rival", "outcome"),
    [(0.9, 0.6, "holds"), (0.9, 0.88, "fails"), (0.72, 0.6, "unclear"), (0.55, 0.4, "fails")],
)
def test_rule_of_the_first_claim(pid, rival, outcome):
    """The margins stated beforehand: 5 points ahead, and 75 % (60 %) accuracy."""
    spread = np.linspace(-0.01, 0.01, 8)
    rows = {"PiD": pid + spread, "high-frequency": rival - spread}
    rows |= {"reconstruction": 0.3 + spread, "raw pixels": 0.35 + spread}
    samples = Samples({("acc_unseen", m): v for m, v in rows.items()}, range(8))
    assert DEMO.claims[0].judge(samples, Settings()).outcome == outcome


@pytest.mark.parametrize("step", [0, -1, np.nan, 65])
def test_bad_steps_are_named(step):
    with pytest.raises(ValueError, match="step"):
        residual(np.zeros((1, 3)), JPEG, step)
    with pytest.raises(ValueError, match="step"):
        Settings.checked({"step": step})


def test_singular_matrix_is_named():
    with pytest.raises(ValueError, match="matrix"):
        residual(np.zeros((1, 3)), np.ones((3, 3)))


@pytest.mark.parametrize(
    "image", [np.zeros((20, 20, 3)), np.zeros((20, 20), np.uint8), np.zeros((15, 20, 3), np.uint8)]
)
def test_bad_images_are_named(image, rng):
    with pytest.raises(ValueError, match="image"):
        fakes.cut(rng, image, 3)


@pytest.mark.parametrize(
    ("name", "value"), [("space", "lab"), ("generator", "gan"), ("saved", "webp"), ("n", 9), ("real", "raw")]
)
def test_bad_settings_are_named(name, value):
    with pytest.raises(ValueError, match=name):
        Settings.checked({name: value})


def test_bad_names_are_named_by_the_functions(fitted, rng):
    with pytest.raises(ValueError, match="generator"):
        fitted.draw("gan", rng, 3)
    with pytest.raises(ValueError, match="saved"):
        fakes.saved_as(np.zeros((1, 16, 16, 3), np.uint8), "webp")
    with pytest.raises(ValueError, match="real"):
        fakes.sources("raw")
