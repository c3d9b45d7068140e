r"""A 360-degree video shows where every sound comes from. The task is to generate the sound itself so that it comes
from there, in *first-order Ambisonics* (FOA): four channels for the whole sphere. A source $s$ at azimuth $\theta$
(to the left) and elevation $\varphi$ adds

$$W=s,\qquad (X,Y,Z)=s\,d,\qquad d=(\cos\varphi\cos\theta,\;\cos\varphi\sin\theta,\;\sin\varphi).$$

The direction of what is heard is that of the intensity $I=\sum W\,(X,Y,Z)$ (`directions`); the sign of $s$ cancels.
Turning one's head rotates $(X,Y)$ only, and headphones get $L,R=\tfrac12(W\pm Y)$.

**Codec.** Each frame of a clip holds two sources, told apart by colour and timbre. The latent $z_1\in\mathbb R^8$ is
the gains of $W,X,Y,Z$ for each timbre. The decoder interpolates them and multiplies them with the dry sounds.

**Two branches.** $P$ (`panorama`) averages the whole equirectangular frame over 4 × 8 cells of 45°. $Q$ (`perspective`)
averages a front view cut out of the same frame over as many cells: finer, but blind to what is behind the camera.

**Generator.** A rectified flow. With $z_0\sim N(0,I)$ and $z_t=(1-t)z_0+t\,z_1$, a network is regressed on the
straight velocity,

$$\min_v\;\mathbb E\,\big\|v(z_t,t,P,Q)-(z_1-z_0)\big\|^2 ,$$

where its first layer adds the branches: $h=\mathrm{relu}(Az_t+T\,e(t)+\mathcal P P+\mathcal Q Q+b)$. Eight Euler steps
from noise give the gains of a frame. *Audio-only pre-training* is the same loss on clips without pictures, $P=Q=0$.

That both views go through one kind of encoder, and how wide the front view is, follows the public code. Everything
about the small scale is our choice, as is a panorama condition for each frame instead of one for the clip.
"""

from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from scipy.io import wavfile

from core.demos import _omniaudio_flow as flow
from core.demos import _omniaudio_scene as scene
from core.demos._omniaudio_foa import angle, dir_errors, directions, foa_direction, foa_encode, rotate, stereo, wav
from core.demos._omniaudio_scene import FRAMES, Clips
from core.lab import charts, thumbnails
from core.lab import demo as lab
from core.lab.demo import Claim, Demo, Measure, Measures, Paper, across_seeds, control, fixed
from core.lab.verdicts import Samples, above, all_of, difference, in_seeds, mean

DUAL, PANORAMA, PERSPECTIVE, MONO, TRUTH = "OmniAudio", "panorama only", "perspective only", "mono", "true sound"
BRANCHES = {DUAL: (0, 1), PANORAMA: (0,), PERSPECTIVE: (1,)}
ROLES = charts.roles(DUAL, (PANORAMA, PERSPECTIVE, MONO), TRUTH)
TEST_CLIPS, SOUND_CLIPS, EVERY, FEW_CLIPS, FEW_STEPS = 25, 400, 4, 20, 300
SOURCES = ("hum", "pulses")
FORMAT, WITHOUT, WITH = "16-bit FOA", "without pre-training", "with pre-training"


class Settings(lab.Settings):
    front: float = control(0.5, "Share of sources aimed at the front", 0, 1, 0.05, help="The rest start anywhere.")
    fov: float = control(120, "Field of view of the front view", 60, 140, 5, unit="°")
    clips: int = control(300, "Training clips", 20, 400, 20)
    pretraining: int = control(0, "Audio-only pre-training", 0, 400, 50, unit="steps")
    yaw: float = control(0, "Turn the sound to the left by", -180, 180, 15, unit="°", help="Only what is played.")
    steps: int = fixed(450, "Training steps", ge=1, le=5000)


# --- one run ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    settings: Settings
    azimuth: np.ndarray
    """of the two sources of the clip shown (FRAMES, 2), radians; `elevation` likewise"""
    elevation: np.ndarray
    picture: np.ndarray
    """brightest moment of each pixel of that clip (24, 48)"""
    gains: dict[str, np.ndarray]
    """method -> gains of that clip (FRAMES, 2, 4)"""
    measures: Measures


def train(s: Settings, seed: int, names: tuple[str, ...] = tuple(BRANCHES)) -> tuple[Clips, np.ndarray, dict]:
    """Test clips, their panoramas, and the gains (clips, FRAMES, 2, 4) that each model generates for them."""
    for_train, for_test, for_init, for_batches, for_noise, for_sound = (
        np.random.default_rng(k) for k in np.random.SeedSequence(seed).spawn(6)
    )
    clips = scene.draw_clips(for_train, s.clips, s.front)
    seen = scene.film(clips, for_train, EVERY)
    test = scene.draw_clips(for_test, TEST_CLIPS, s.front)
    frames = scene.film(test, for_test)
    pool = scene.pooling()
    train_views, test_views = [], []
    for view in (pool, pool @ scene.front_view(s.fov)):
        x, y = scene.branch(seen, view), scene.branch(frames, view)
        train_views.append(x / x.std())
        test_views.append(y / x.std())
    networks = flow.first_networks(for_init, {n: BRANCHES[n] for n in names})
    if s.pretraining:
        sounds = scene.draw_clips(for_sound, SOUND_CLIPS, s.front).latents.reshape(-1, flow.LATENT)
        flow.fit(networks, None, sounds.astype(np.float32), for_sound, s.pretraining, lambda k: flow.RATE)
    latents = clips.latents[:, ::EVERY].reshape(-1, flow.LATENT).astype(np.float32)
    views = {n: np.hstack([train_views[i] for i in BRANCHES[n]]) for n in names}
    flow.fit(networks, views, latents, for_batches, s.steps, flow.quarter_wave(s.steps))
    noise = for_noise.standard_normal((TEST_CLIPS * FRAMES, flow.LATENT), dtype=np.float32)
    gains = {
        n: flow.sample(networks[n], np.hstack([test_views[i] for i in BRANCHES[n]]), noise)
        .astype(float)
        .reshape(TEST_CLIPS, FRAMES, scene.CLASSES, scene.FOA)
        for n in names
    }
    return test, frames, gains


def score(test: Clips, gains: dict[str, np.ndarray], fov: float) -> Measures:
    """Direction errors in degrees, all and by whether the source is in the azimuths of the front view; loudness."""
    truth = test.latents
    inside = np.abs(test.azimuth) < np.radians(fov) / 2
    out: Measures = {m: {} for m in ("ang", "inside", "outside", "az", "el", "loud")}
    for name, g in gains.items():
        error, d = dir_errors(g, truth), directions(g)
        turn = np.arctan2(d[..., 1], d[..., 0]) - test.azimuth
        out["ang"][name] = float(error.mean())
        for where, some in (("inside", inside), ("outside", ~inside)):
            out[where][name] = float(error[some].mean()) if some.any() else np.nan
        out["az"][name] = float(np.degrees(np.abs((turn + np.pi) % (2 * np.pi) - np.pi)).mean())
        out["el"][name] = float(np.degrees(np.abs(np.arcsin(np.clip(d[..., 2], -1, 1)) - test.elevation)).mean())
        out["loud"][name] = float(np.corrcoef(g[..., 0].ravel(), truth[..., 0].ravel())[0, 1])
    return out


def run(settings: Settings, seed: int) -> Run:
    """Train the three models on the same clips, batches and noise, and let them sound the test clips."""
    test, frames, gains = train(settings, seed)
    gains |= {MONO: test.latents * np.array([1, 0, 0, 0]), TRUTH: test.latents}
    hidden = (np.abs(test.azimuth) > np.radians(settings.fov) / 2).mean(axis=1)
    moved = np.abs(np.diff(np.unwrap(test.azimuth, axis=1), axis=1)).sum(axis=(1, 2))
    shown = int(np.argmax(np.ptp(hidden, axis=1) + 0.1 * moved))  # one source in the front view, the other not
    return Run(
        settings,
        test.azimuth[shown],
        test.elevation[shown],
        frames[shown].max(axis=(0, 1)).reshape(scene.ROWS, scene.COLUMNS),
        {name: g[shown] for name, g in gains.items()},
        score(test, gains, settings.fov),
    )


def format_probe(settings: Settings, seed: int) -> Measures:
    """Sounds from 200 random directions, written as 16-bit FOA and read back."""
    d = np.random.default_rng([seed, 1]).standard_normal((200, 3))
    d /= np.linalg.norm(d, axis=1, keepdims=True)
    azimuth, elevation = np.arctan2(d[:, 1], d[:, 0]), np.arcsin(d[:, 2])
    dry = scene.dry_sounds()[:, :1000]
    tracks = [foa_encode(dry[i % 2], *where) for i, where in enumerate(zip(azimuth, elevation, strict=True))]
    read = wavfile.read(io.BytesIO(wav(np.hstack(tracks))))[1].T / 32767
    windows = np.split(read, len(tracks), axis=1)
    off = angle(np.stack([foa_direction(w) for w in windows]), d)
    ears = [stereo(w) for w in windows]
    cue = [((left - right) * (left + right)).sum() / ((left + right) ** 2).sum() for left, right in ears]
    return {
        "format_error": {FORMAT: float(off.max())},
        "stereo_error": {FORMAT: float(np.abs(np.array(cue) - d[:, 1]).max())},
    }


def few_probe(settings: Settings, seed: int) -> Measures:
    """Direction error of the dual model after 20 paired clips, with and without audio-only pre-training."""
    found = {}
    for name, steps in ((WITHOUT, 0), (WITH, FEW_STEPS)):
        s = settings.replace(clips=FEW_CLIPS, pretraining=steps)
        test, _, gains = train(s, seed, (DUAL,))
        found[name] = float(dir_errors(gains[DUAL], test.latents).mean())
    return {"few_ang": found}


# --- figures ------------------------------------------------------------------------------------------


def _angles(gains: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Azimuth and elevation in degrees of the directions of gains (…, 4)."""
    d = directions(gains)
    return np.degrees(np.arctan2(d[..., 1], d[..., 0])), np.degrees(np.arcsin(np.clip(d[..., 2], -1, 1)))


def _turn(to: np.ndarray, start: np.ndarray) -> np.ndarray:
    """From one azimuth to another in degrees, the short way round."""
    return (to - start + 180) % 360 - 180


def _outline(fov: float) -> tuple[np.ndarray, np.ndarray]:
    """Azimuth and elevation in degrees along the edge of the front view."""
    side = np.linspace(-1, 1, 41)
    x, y = np.r_[side, side * 0 + 1, -side, side * 0 - 1], np.r_[side * 0 + 1, -side, side * 0 - 1, side]
    azimuth, elevation = scene.view_angles(fov, x, y)
    return np.degrees(azimuth), np.degrees(elevation)


def _trails(fig: go.Figure, run: Run, name: str, row: int) -> None:
    """True paths and the directions of one method, each joined to the truth by a thin line."""
    style = {"mode": "lines", "hoverinfo": "skip", "row": row, "col": 1}
    azimuth, elevation = _angles(run.gains[name])
    true_azimuth, true_elevation = _angles(run.gains[TRUTH])
    turn = _turn(azimuth, true_azimuth)
    colour = charts.MARK[ROLES[name]]
    for k, source in enumerate(SOURCES):
        for start in (true_azimuth[:, k], azimuth[:, k] - turn[:, k]):  # twice, for spokes that cross an edge
            spokes = np.c_[start, start + turn[:, k], np.full(FRAMES, np.nan)]
            heights = np.c_[true_elevation[:, k], elevation[:, k], spokes[:, 2]]
            fig.add_scatter(
                x=spokes.ravel(), y=heights.ravel(), line={"color": charts.tint(colour, 0.45), "width": 1}, **style
            )
        jump = np.r_[False, np.abs(np.diff(true_azimuth[:, k])) > 180]
        path = np.where(jump, np.nan, true_azimuth[:, k])
        fig.add_scatter(x=path, y=true_elevation[:, k], line={"color": charts.INK, "width": 3}, **style)
        fig.add_scatter(
            x=azimuth[:, k],
            y=elevation[:, k],
            mode="markers",
            name=f"{name}, {source}",
            marker={"color": colour, "size": 8, "line": {"color": charts.GROUND, "width": 1}},
            hovertemplate=f"{name}, {source}: %{{x:.0f}}°, %{{y:.0f}}°<extra></extra>",
            row=row,
            col=1,
        )


def map_figure(run: Run) -> go.Figure:
    """Dots should lie on the black paths: the front view alone is lost outside its dashed frame. One test clip on
    the whole sphere: where its two sources move, and where the generated sound of each frame comes from."""
    titles = [f"<b>{DUAL}</b> (panorama and front view)", f"{PERSPECTIVE} (front view)"]
    fig = charts.panels(titles, rows=2, height=460)
    azimuth = 180 - (np.arange(scene.COLUMNS) + 0.5) * 360 / scene.COLUMNS
    elevation = 90 - (np.arange(scene.ROWS) + 0.5) * 180 / scene.ROWS
    edge = _outline(run.settings.fov)
    for row, name in enumerate((DUAL, PERSPECTIVE), 1):
        charts.picture(fig, run.picture, limits=(0, 2.5), x=azimuth, y=elevation, row=row, col=1)
        line = {"color": charts.SOFT, "width": 1.5, "dash": "dash"}
        fig.add_scatter(x=edge[0], y=edge[1], mode="lines", line=line, hoverinfo="skip", row=row, col=1)
        _trails(fig, run, name, row)
    fig.update_yaxes(range=[-90, 90], autorange=False, tickvals=[-60, 0, 60], ticktext=["−60°", "0°", "60°"])
    words = ["behind", "left 90°", "front 0°", "right −90°", "behind"]
    fig.update_xaxes(range=[180, -180], tickvals=[180, 90, 0, -90, -180], ticktext=words)
    fig.update_xaxes(title_text="azimuth; elevation upwards", row=2).update_layout(margin_r=40)
    return fig.update_xaxes(showticklabels=False, row=1)


@across_seeds
def error_figure(run: Run, samples: Samples | None) -> go.Figure:
    """Further left is better: outside the front view only the panorama can tell where a sound is. Mean angle between
    generated and true direction, at a preset with 95 % intervals over seeds; mono has none and counts as 90°."""
    titles = [f"sources within ±{run.settings.fov / 2:g}° of the front", "all others"]
    fig = charts.panels(titles, "direction error (degrees)")
    names = (DUAL, PANORAMA, PERSPECTIVE, MONO)
    for column, where in enumerate(("inside", "outside"), 1):
        rows = {n: charts.interval_of(samples, where, n, run.measures[where][n]) for n in names}
        charts.dots(fig, rows, ROLES, row=1, col=column)
        for name, (value, _, high) in rows.items():
            text = "n/a" if np.isnan(value) else f"{value:.0f}°"
            fig.add_annotation(
                x=0 if np.isnan(value) else high,
                y=name,
                text=f"<b>{text}</b>" if name == DUAL else text,
                xanchor="left",
                xshift=10,
                showarrow=False,
                font={"size": charts.FONT_SIZE, "color": charts.TEXT[ROLES[name]]},
                row=1,
                col=column,
            )
    return fig.update_xaxes(range=[0, 112], tickvals=[0, 30, 60, 90])


def time_figure(run: Run) -> go.Figure:
    """The blue line should follow the dotted one on both sides. Azimuth of the two sources of the clip above, as
    generated frame by frame; frames are generated independently, so no model smooths its path."""
    half = run.settings.fov / 2
    share = 100 * (np.abs(run.azimuth) < np.radians(half)).mean(axis=0)
    words = [f"{s}: {v:.0f} % within ±{half:g}° of the front" for s, v in zip(SOURCES, share, strict=True)]
    fig = charts.panels(words, "time (s)")
    for k in range(scene.CLASSES):
        true = np.degrees(np.unwrap(run.azimuth[:, k]))
        for name in (PERSPECTIVE, PANORAMA, DUAL, TRUTH):
            path = true + _turn(_angles(run.gains[name])[0][:, k], true)
            charts.line(fig, name, scene.CENTRES, path, ROLES[name], end_label=k == 1, row=1, col=k + 1)
    fig.update_xaxes(range=[0, FRAMES / scene.FRAME_RATE], dtick=0.5)
    at = np.arange(-360, 361, 90)
    fig.update_yaxes(tickvals=at, ticktext=["front 0°", "left 90°", "behind 180°", "right −90°"] * 2 + ["front 0°"])
    charts.end_labels(fig, right=130)
    return fig


def thumbnail(run: Run) -> str:
    """The panorama as a strip: two coloured tracks, the generated directions, the front view as a box."""
    width, height = thumbnails.WIDTH, thumbnails.HEIGHT

    def points(azimuth: np.ndarray, elevation: np.ndarray) -> list[str]:
        x, y = width * (180 - azimuth) / 360, height * (75 - elevation) / 150
        return [f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True)]

    box = f'<polygon points="{" ".join(points(*_outline(run.settings.fov)))}" fill="none" stroke="#7f7f7f" '
    body = box + 'stroke-width="2" stroke-dasharray="6 5"/>'
    for gains, radius, roles in (
        (run.gains[TRUTH], 8, ("baseline1", "baseline2")),
        (run.gains[DUAL], 3.5, ("method",) * 2),
    ):
        azimuth, elevation = _angles(gains)
        for k, role in enumerate(roles):
            for p in points(azimuth[:, k], elevation[:, k]):
                a, b = p.split(",")
                body += f'<circle class="f-{role}" cx="{a}" cy="{b}" r="{radius}"/>'
    return thumbnails.svg(body)


def sound(run: Run) -> dict[str, bytes]:
    """The clip for headphones: the truth and two models, with one gain for all."""
    ears = {n: stereo(rotate(scene.decode(run.gains[n]), run.settings.yaw)) for n in (TRUTH, DUAL, PERSPECTIVE)}
    loudest = max(float(np.abs(e).max()) for e in ears.values()) or 1.0
    return {f"{n} (stereo, headphones)": wav(0.9 / loudest * e) for n, e in ears.items()}


# --- claims -------------------------------------------------------------------------------------------


def gain(measure: str, a: str, b: str, margin: float):
    """The error of a exceeds that of b by more than the margin (degrees)."""
    gap = difference(measure, a, b, unit="°", digits=1, label=f"{a} − {b}:")
    return above(gap, margin, fails_below=0, same=(-margin, margin))


def exact(samples: Samples) -> np.ndarray:
    """Seeds in which no direction and no level difference of the ears is off."""
    return (samples("format_error", FORMAT) < 0.05) & (samples("stereo_error", FORMAT) < 0.01)


DEMO = Demo(
    name="OmniAudio",
    line="A small flow model places sounds around the listener, even behind the camera.",
    topic="Spatial audio",
    abstract="Traditional video-to-audio generation techniques primarily focus on perspective video",
    paper=Paper(
        "AudioSpace: Generating Spatial Audio from 360-Degree Video",
        "https://icml.cc/virtual/2025/poster/43952",
        "https://github.com/liuhuadai/OmniAudio",
    ),
    settings=Settings,
    run=run,
    measures={
        "ang": Measure("Direction error", "°", "lower", 1),
        "inside": Measure("Direction error within the front view's azimuths", "°", "lower", 1),
        "outside": Measure("Direction error outside the front view's azimuths", "°", "lower", 1),
        "az": Measure("Azimuth error", "°", "lower", 1),
        "el": Measure("Elevation error", "°", "lower", 1),
        "loud": Measure("Correlation of loudness with the truth", "", "higher", 2),
        "format_error": Measure("Largest direction error of 200 sounds stored in 16 bits", "°", "lower", 4),
        "stereo_error": Measure("Largest error of the level difference of the ears", "", "lower", 6),
        "few_ang": Measure("Direction error after 20 paired clips", "°", "lower", 1),
    },
    figures=(map_figure, error_figure, time_figure),
    thumbnail=thumbnail,
    sound=sound,
    claims=(
        Claim(
            quote="a standard format for representing 3D spatial audio that captures sound directionality and "
            "enables realistic 3D audio reproduction",
            says="FOA keeps the direction of a sound to 0.05°, and its stereo decode the side it comes from",
            rule=in_seeds(
                exact, mean("format_error", FORMAT, unit="°", digits=4, label="largest error"), fails_to=1
            ),
            probe=format_probe,
        ),
        Claim(
            quote="often missing the spatial cues necessary for accurately representing sound sources in 3D "
            "environments",
            says="Outside the front view, the panorama places sounds over 10° better than the front view",
            rule=gain("outside", PERSPECTIVE, PANORAMA, 10),
        ),
        Claim(
            quote="utilizes both panoramic and perspective video inputs to capture comprehensive local and global "
            "information",
            says="Both views together place sounds over 0.5° better than either view",
            rule=all_of(gain("ang", PANORAMA, DUAL, 0.5), gain("ang", PERSPECTIVE, DUAL, 0.5)),
        ),
        Claim(
            quote="leverages self-supervised pre-training using both spatial audio data (in FOA format) and "
            "large-scale non-spatial data",
            says="With 20 paired clips, pre-training on FOA sound alone helps by over 1°",
            rule=gain("few_ang", WITHOUT, WITH, 1),
            probe=few_probe,
        ),
    ),
    presets={
        "Break it: nothing in front, narrow view": Settings(front=0, fov=60),
        "Few pairs": Settings(clips=FEW_CLIPS),
        "All in front": Settings(front=1),
    },
    break_it="Break it: nothing in front, narrow view",
    why_it_breaks="The front view then sees at most a sixth of the sources, so its 64 inputs are mostly noise that the model "
    "with both views fits.",
    simplified="Two coloured blobs stand for objects and 4 × 8 cell means for a frozen image encoder; an exact codec of "
    "gains replaces the learned 4-channel autoencoder, a network of 96 units the diffusion transformer. Frames are "
    "generated one by one. 300 synthetic clips of 2 s instead of the recordings of Sphere360; pre-training sees "
    "400 further FOA clips, no non-spatial sound, and all of a latent instead of masked parts. No listeners were asked.",
)
