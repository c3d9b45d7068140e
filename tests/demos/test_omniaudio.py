"""OmniAudio: right values from closed forms, invariants, SciPy and finite differences."""

import io
import math

import numpy as np
import pytest
from scipy.io import wavfile
from scipy.ndimage import map_coordinates
from scipy.spatial.transform import Rotation

from core.demos import _omniaudio_flow as flow
from core.demos import _omniaudio_foa as foa
from core.demos import _omniaudio_scene as scene
from core.demos import omniaudio
from core.demos.omniaudio import DEMO, DUAL, MONO, PANORAMA, PERSPECTIVE, TRUTH, Settings


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def clip(azimuth, elevation, gain=1.0):
    """Clips of one pair of resting sources at the same place."""
    full = np.ones((1, scene.FRAMES, scene.CLASSES))
    return scene.Clips(azimuth * full, elevation * full, gain * full)


# --- first-order Ambisonics ---------------------------------------------------------------------------


def test_encoding_keeps_the_direction_and_the_energy(rng):
    """Closed form: I ∝ Σs²·d, so the direction is d for any sound, and X² + Y² + Z² = W² since |d| = 1."""
    for azimuth, elevation in rng.uniform((-np.pi, -1.5), (np.pi, 1.5), (50, 2)):
        s = rng.normal(size=30)
        field = foa.foa_encode(s, azimuth, elevation)
        d = scene.unit_vector(azimuth, elevation)
        assert foa.angle(foa.foa_direction(field), d) < 1e-5
        assert foa.angle(foa.foa_direction(-field), d) < 1e-5
        assert np.allclose((field[1:] ** 2).sum(0), field[0] ** 2, atol=1e-12)


def test_yaw_is_a_change_of_azimuth(rng):
    """Invariant: turning the field by α is encoding at θ + α; W and Z stay. SciPy's rotation about z agrees."""
    s = rng.normal(size=40)
    for yaw in (-180.0, -77.0, 0.0, 30.0, 180.0):
        turned = foa.rotate(foa.foa_encode(s, 0.4, 0.3), yaw)
        assert np.allclose(turned, foa.foa_encode(s, 0.4 + math.radians(yaw), 0.3), atol=1e-12)
        assert (turned[[0, 3]] == foa.foa_encode(s, 0.4, 0.3)[[0, 3]]).all()
    field = rng.normal(size=(4, 10))
    other = Rotation.from_euler("z", 30, degrees=True).apply(field[1:].T).T
    assert np.allclose(foa.rotate(field, 30.0)[1:], other, atol=1e-12)


@pytest.mark.parametrize(("azimuth", "left", "right"), [(90, 1, 0), (-90, 0, 1), (0, 0.5, 0.5), (180, 0.5, 0.5)])
def test_stereo(rng, azimuth, left, right):
    """Closed form: a cardioid to ±90° hears ½(1 ± sin θ) of a source at elevation 0: azimuth grows to the left."""
    s = rng.normal(size=20)
    ears = foa.stereo(foa.foa_encode(s, math.radians(azimuth), 0.0))
    assert np.allclose(ears, [left * s, right * s], atol=1e-12)


def test_angles():
    """Closed form: azimuths 10° and −20° are 30° apart on the equator, 179° and −179° are 2°; a field to itself 0."""
    for a, b, apart in ((10, -20, 30), (179, -179, 2)):
        d = [scene.unit_vector(math.radians(v), 0.0) for v in (a, b)]
        assert foa.angle(*d) == pytest.approx(apart, abs=1e-9)
    z = scene.draw_clips(np.random.default_rng(0), 10, 0.5).latents
    assert foa.dir_errors(z, z).max() < 1e-5


def test_silence_has_no_direction():
    """A window with ‖I‖ < 1e-12 is undefined and counted as 90°; so is sound without X, Y, Z."""
    truth = np.array([1.0, 0, 1, 0])
    for silent in (np.zeros(4), np.array([1.0, 0, 0, 0]), np.array([0, 1.0, 0, 0])):
        assert np.isnan(foa.directions(silent)).all()
        assert foa.dir_errors(silent, truth) == 90
    assert np.isnan(foa.foa_direction(np.zeros((4, 9)))).all()


def test_a_negative_gain_of_all_channels_is_the_same_direction():
    """Invariant: the sign of s cancels in W·(X, Y, Z)."""
    z = scene.draw_clips(np.random.default_rng(1), 10, 0.5).latents
    assert np.allclose(foa.directions(-z), foa.directions(z))


# --- views --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("azimuth", "columns"), [(30, (15, 16)), (0, (23, 24)), (-30, (31, 32))])
def test_where_a_blob_appears_in_the_front_view(azimuth, columns):
    """Closed form: at 120° a source at +30° lies at tan 30°/tan 60° = ⅓ of the left half: column 15.5 of 48."""
    frame = scene.render(math.radians(azimuth), 0.0, 1.0)
    view = (scene.front_view(120) @ frame).reshape(scene.ROWS, scene.COLUMNS)
    assert np.argmax(view.sum(axis=0)) in columns
    assert view.sum(axis=1).argmax() in (11, 12)


@pytest.mark.parametrize("fov", [20, 60, 120, 160])
def test_the_front_view_is_what_scipy_samples(rng, fov):
    """Library: map_coordinates (linear) on a panorama padded by wrapping columns and repeating rows."""
    frame = rng.random((scene.ROWS, scene.COLUMNS))
    x, y = np.meshgrid(1 - (np.arange(48) + 0.5) / 24, 1 - (np.arange(24) + 0.5) / 12)
    reach = math.tan(math.radians(fov / 2))
    azimuth = np.arctan(reach * x)
    elevation = np.arctan(reach / 2 * y * np.cos(azimuth))  # the same angle, written another way
    where = [(90 - np.degrees(elevation)) / 7.5 - 0.5 + 1, (180 - np.degrees(azimuth)) / 7.5 - 0.5 + 1]
    padded = np.pad(np.pad(frame, ((1, 1), (0, 0)), mode="edge"), ((0, 0), (1, 1)), mode="wrap")
    expected = map_coordinates(padded, where, order=1)
    found = (scene.front_view(fov) @ frame.ravel()).reshape(frame.shape)
    assert np.allclose(found, expected, atol=1e-10)


def test_the_panorama_is_brightest_at_the_source(rng):
    """Invariant: the brightest pixel is the one whose direction is nearest; the left edge is +180°."""
    pixels = scene.pixel_directions()
    for azimuth, elevation in rng.uniform((-np.pi, -1), (np.pi, 1), (50, 2)):
        d = scene.unit_vector(azimuth, elevation)
        assert scene.render(azimuth, elevation, 1.0).argmax() == (pixels @ d).argmax()
    column = scene.render(math.radians(170), 0.0, 1.0).reshape(scene.ROWS, scene.COLUMNS).sum(0).argmax()
    assert column == 1  # 170° is 10° from the left edge, pixels are 7.5° wide


def test_pooling_keeps_the_mean(rng):
    """Invariant: equal cells, so the mean of cell means is the mean; each cell is the mean of its 6 × 6 pixels."""
    frame = rng.random((scene.ROWS, scene.COLUMNS))
    cells = scene.pooling() @ frame.ravel()
    assert cells.mean() == pytest.approx(frame.mean(), abs=1e-12)
    assert np.allclose(cells.reshape(4, 8), frame.reshape(4, 6, 8, 6).mean(axis=(1, 3)), atol=1e-12)
    assert np.allclose(scene.front_view(90).sum(axis=1), 1)


# --- sound --------------------------------------------------------------------------------------------


def test_a_source_sounds_from_where_it_is(rng):
    """Closed form: constant gains give W·d times the dry sound; 16-bit rounding moves it by less than 0.01°."""
    for azimuth, elevation in rng.uniform((-np.pi, -1), (np.pi, 1), (5, 2)):
        field = scene.decode(clip(azimuth, elevation).latents[0])
        assert field.shape == (4, 16000)
        assert np.abs(field).max() < 1.04
        d = scene.unit_vector(azimuth, elevation)
        rate, read = wavfile.read(io.BytesIO(foa.wav(field / 1.04)))
        assert (rate, read.shape, read.dtype) == (8000, (16000, 4), np.int16)
        assert foa.angle(foa.foa_direction(field), d) < 0.01
        assert foa.angle(foa.foa_direction(read.T.astype(float)), d) < 0.01


def test_the_measured_direction_is_that_of_the_waveform(rng):
    """The score uses gains; the intensity of the decoded sound of one source, around a frame, points the same way."""
    gains = np.cumsum(rng.normal(0, 0.02, (scene.FRAMES, 2, 4)), axis=0) + np.array([0.7, 0.3, -0.4, 0.2])
    for k in range(2):
        alone = gains * (np.arange(2) == k)[:, None]
        field = scene.decode(alone)
        for i in range(1, scene.FRAMES - 1):
            middle = round(scene.CENTRES[i] * scene.SAMPLE_RATE)
            window = foa.foa_direction(field[:, middle - 45 : middle + 45])
            assert foa.angle(window, foa.directions(gains[i, k])) < 1.0


def test_loudness_of_the_dry_sounds():
    """The peaks are 0.433 and 0.600, so two sources of gain 1 stay below 1.04."""
    assert np.abs(scene.dry_sounds()).max(axis=1) == pytest.approx([0.433, 0.600])


def test_what_the_page_plays():
    """Three stereo clips of 2 s with one common gain: the loudest peak is 0.9, and yaw 180° swaps the ears."""
    settings = Settings(steps=1, clips=20)
    run = omniaudio.run(settings, 0)
    clips = {n: wavfile.read(io.BytesIO(b)) for n, b in DEMO.sound(run).items()}
    assert len(clips) == 3
    assert all(rate == 8000 and x.shape == (16000, 2) for rate, x in clips.values())
    assert max(np.abs(x).max() for _, x in clips.values()) == round(0.9 * 32767)
    turned = DEMO.sound(omniaudio.run(settings.replace(yaw=180), 0))
    for name, (_, x) in clips.items():
        assert np.abs(wavfile.read(io.BytesIO(turned[name]))[1][:, ::-1] - x.astype(int)).max() <= 1


# --- the generator ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seen", [(0, 1), (0,)])
def test_the_gradient_by_hand(rng, seen):
    """Central differences of the loss (step 1e-5, float64) in 12 entries of every parameter block."""
    network = flow.first_networks(rng, {"net": seen}, np.float64)["net"]
    network.flat += 0.05 * rng.normal(size=network.flat.shape)
    x = rng.normal(size=(16, network.shapes[0][0]))
    target = rng.normal(size=(16, flow.LATENT))
    _, gradient = network.gradient(x, target)
    ends = np.cumsum([int(np.prod(s)) for s in network.shapes])
    for low, high in zip([0, *ends[:-1]], ends, strict=True):
        for i in rng.integers(low, high, 12):
            loss = []
            for step in (1e-5, -1e-5):
                network.flat[i] += step
                loss.append(((network(x) - target) ** 2).mean())
                network.flat[i] -= step
            assert gradient[i] == pytest.approx((loss[0] - loss[1]) / 2e-5, abs=1e-7)


def test_the_true_flow_ends_at_the_data(rng):
    """Closed form: along v = z₁ − z₀ one Euler step, or eight, lead from z₀ to z₁."""
    z0, z1 = rng.normal(size=(2, 20, flow.LATENT))
    for steps in (1, 8):
        assert np.allclose(flow.euler(lambda z, t: z1 - z0, z0, steps), z1, atol=1e-12)


def test_euler_times():
    """The velocity is asked for at t = 0, ⅛ … ⅞."""
    asked = []
    flow.euler(lambda z, t: asked.append(t) or z, np.ones(1), 8)
    assert asked == [i / 8 for i in range(8)]


def test_the_first_weights_are_shared_and_scaled(rng):
    """All models start alike; sd 1/√(own inputs) in each block: 8, 8, 64, 64 (1,000 draws or more: within 10 %)."""
    nets = flow.first_networks(rng, omniaudio.BRANCHES, np.float64)
    w, p, q = (nets[n].blocks[0] for n in (DUAL, PANORAMA, PERSPECTIVE))
    assert (w[:80] == p).all()
    assert (np.delete(w, slice(16, 80), axis=0) == q).all()
    for block, width in ((w[:16], 8), (w[16:80], 64), (w[80:], 64)):
        assert block.std() == pytest.approx(width**-0.5, rel=0.1)
    assert nets[DUAL].blocks[2].std() == pytest.approx(1.4 / 96**0.5, rel=0.1)
    assert nets[DUAL].blocks[4].std() == pytest.approx(0.1 / 96**0.5, rel=0.1)


def test_sound_alone_teaches_nothing_about_pictures(rng):
    """Invariant: with P = Q = 0 the blocks of the views have no gradient, so Adam leaves them; the rest moves."""
    nets = flow.first_networks(rng, {DUAL: (0, 1)})
    before = nets[DUAL].blocks[0].copy()
    flow.fit(nets, None, rng.normal(size=(50, 8)).astype(np.float32), rng, 5, lambda k: 3e-3)
    assert (nets[DUAL].blocks[0][16:] == before[16:]).all()
    assert (nets[DUAL].blocks[0][:16] != before[:16]).mean() > 0.9


def test_leaving_a_branch_out_is_feeding_it_zeros(rng):
    """Identity: the panorama model is the dual model whose front view is dark, to float precision."""
    nets = flow.first_networks(rng, omniaudio.BRANCHES)
    x, z = rng.normal(size=(40, 64)).astype(np.float32), rng.normal(size=(40, 8)).astype(np.float32)
    views = {DUAL: np.hstack([x, np.zeros_like(x)]), PANORAMA: x, PERSPECTIVE: x}
    flow.fit(nets, views, z, rng, 20, flow.quarter_wave(20))
    a, b = (flow.sample(nets[n], views[n], z) for n in (DUAL, PANORAMA))
    assert np.allclose(a, b, atol=1e-3)


# --- runs and bad input -------------------------------------------------------------------------------


def test_the_baselines_without_a_model():
    """Convention: mono has no direction, 90°, and the true loudness; the true sound is right by definition."""
    found = omniaudio.run(Settings(steps=1, clips=20), 3).measures
    assert found["ang"][MONO] == found["inside"][MONO] == found["outside"][MONO] == 90
    assert found["loud"][MONO] == pytest.approx(1)
    assert math.isnan(found["az"][MONO])
    assert max(found[m][TRUTH] for m in ("ang", "az", "el")) < 1e-5


def test_no_frame_inside_the_view_is_not_a_zero():
    """A split without frames is "n/a" (NaN), never 0."""
    gain = np.linspace(0.5, 1, scene.FRAMES)[:, None]
    behind, ahead = clip(3.0, 0.2, gain), clip(0.1, 0.2, gain)
    for test, empty, full in ((behind, "inside", "outside"), (ahead, "outside", "inside")):
        found = omniaudio.score(test, {TRUTH: test.latents * np.array([1, 1, 1, 0.5])}, 120)
        assert math.isnan(found[empty][TRUTH])
        assert found[full][TRUTH] > 1


def test_only_the_playback_depends_on_the_yaw():
    """Invariant: the listening yaw trains nothing anew."""
    a, b = (omniaudio.run(Settings(steps=3, yaw=yaw), 1) for yaw in (0, 90))
    assert str(a.measures) == str(b.measures)
    assert DEMO.sound(a) != DEMO.sound(b)


def test_a_view_that_sees_the_source_is_needed():
    """Breaking it: with nothing aimed at the front and a narrow view, the front view alone is near chance (90°)."""
    found = omniaudio.run(Settings(front=0, fov=60), 2).measures["ang"]
    assert found[PERSPECTIVE] > 60
    assert found[PANORAMA] < 30


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("fov", 10),
        ("fov", 170),
        ("front", -0.1),
        ("front", 1.1),
        ("clips", 4),
        ("steps", 0),
        ("pretraining", -1),
        ("yaw", math.nan),
    ],
)
def test_bad_settings_are_named(name, value):
    with pytest.raises(ValueError, match=name):
        Settings.checked({name: value})


def test_bad_input_below_the_settings(rng):
    for fov in (10, 170, math.nan):
        with pytest.raises(ValueError, match="fov"):
            scene.front_view(fov)
    with pytest.raises(ValueError, match="front"):
        scene.draw_clips(rng, 10, 1.5)
    with pytest.raises(ValueError, match="clips"):
        scene.draw_clips(rng, 4, 0.5)
    with pytest.raises(ValueError, match="yaw"):
        foa.rotate(np.zeros((4, 3)), math.nan)
