r"""PiD does not look at a picture but at what is lost when its colours are rounded elsewhere. Take a pixel
$x\in\{0,\dots,255\}^3$ in RGB, a colour matrix $M$ (`matrix`) and a step $\Delta$ (`step`):

$$q=\Delta\,\mathrm{round}(Mx/\Delta),\qquad \hat x=M^{-1}q,\qquad r(x)=x-\hat x .$$

The residual $r$ (`residual`) never sees a neighbouring pixel, so hardly anything of the picture's content is
left in it. A small network then learns to tell real residuals from those of **one** generator, and is tested
on fakes of generators it has never met. The same network with the same start and the same batches also
learns from three other inputs: high frequencies ($x$ minus its 3 × 3 mean), reconstruction residuals ($x$
minus its projection on the training generator's 48 components), and the raw pixels.

**Why it works.** A JPEG file holds whole numbers $q_0$ in YCbCr, and its viewer shows
$x=\mathrm{round}(M^{-1}q_0)$. Every row of $M$ has absolute sum 1, so rounding each channel by at most ½ moves
$Mx$ by at most ½ from $q_0$: PiD's own rounding finds $q_0$ again, and $r$ is exactly the viewer's
rounding error, inside the box $[-\frac12,\frac12]^3$. A pixel that was only ever rounded in RGB has
$r=M^{-1}u$ with $u$ uniform in that box, and lies inside it only with probability $|\det M|\approx 0.24$.
The *box rule* uses just this, without training: real if more than 60 % of the pixels have
$\lVert r\rVert_\infty\le\frac12$.

Where the paper is silent we guessed the step (1 grey level) and the matrix (that of JPEG files). The
explanation above is ours, not the paper's; the controls let you check it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import plotly.graph_objects as go

from core.demos._pid_fakes import GENERATORS, Data, Fakes, data
from core.demos._pid_network import train
from core.lab import charts, thumbnails
from core.lab import demo as lab
from core.lab.demo import Claim, Demo, Measure, Measures, Paper, across_seeds, choice, control, fixed
from core.lab.verdicts import Samples, Verdict, above, below, best_rival, difference, mean

NAMES = {"pca": "PCA", "ppca": "PPCA", "superres": "super-resolution", "blend": "blend"}
RIVALS = ("high-frequency", "reconstruction", "raw pixels")
LEARNED = ("PiD", *RIVALS)
ROLES = charts.roles("PiD", RIVALS, "box rule")
LUMINANCE = (0.299, 0.587, 0.114)
SPACES = {
    "ycbcr": np.array([LUMINANCE, (-0.168736, -0.331264, 0.5), (0.5, -0.418688, -0.081312)]),
    "yuv": np.array([LUMINANCE, (-0.14713, -0.28886, 0.436), (0.615, -0.51499, -0.10001)]),
    "yiq": np.array([LUMINANCE, (0.595716, -0.274453, -0.321263), (0.211456, -0.522591, 0.311135)]),
    "identity": np.eye(3),
}
BOX, BINS, EXAMPLES = 0.5, 28, 3


class Settings(lab.Settings):
    space: Literal["ycbcr", "yuv", "yiq", "identity"] = choice(
        "ycbcr",
        "Colour space",
        labels={"ycbcr": "YCbCr (JPEG)", "yuv": "YUV (analogue)", "yiq": "YIQ", "identity": "RGB (no change)"},
        help="Where the colours are rounded.",
    )
    step: float = control(
        1.0, "Rounding step Δ", 0.5, 8, 0.5, unit="grey levels", help="Larger steps throw more away."
    )
    generator: Literal["pca", "ppca", "superres", "blend"] = choice(
        "pca",
        "Train on fakes of",
        labels={**NAMES, "pca": "PCA (48 components)", "ppca": "PPCA (all components)"},
        help="The only generator the detectors see; the other three come as a surprise.",
    )
    saved: Literal["png", "jpeg95", "jpeg75"] = choice(
        "png",
        "Fakes are saved as",
        labels={"png": "PNG (lossless)", "jpeg95": "JPEG, quality 95", "jpeg75": "JPEG, quality 75"},
        help="JPEG gives the fakes the file history that the real pictures have.",
    )
    real: Literal["shipped", "halved"] = choice(
        "shipped",
        "Real pictures",
        labels={"shipped": "as shipped (JPEG files)", "halved": "halved, then rounded in RGB"},
        help="Halving takes the JPEG history away from the real pictures.",
    )
    content: Literal["within", "cross"] = choice(
        "within",
        "Training and test pictures",
        labels={"within": "left and right halves", "cross": "china and flower"},
        help="Whether test patches come from the photographs seen in training.",
    )
    n: int = fixed(120, "Patches of each kind", ge=10, le=1000)


def residual(x: np.ndarray, matrix: np.ndarray, step: float = 1.0) -> np.ndarray:
    """What rounding in another colour space loses: pixels (..., 3), matrix (3, 3) -> r (..., 3).

    Neither clipped nor rounded on the way back. `ValueError` for a step outside (0, 64] or a singular matrix.
    """
    if not 0 < step <= 64:
        raise ValueError(f"step must be above 0 and at most 64 grey levels, not {step}")
    if abs(np.linalg.det(matrix)) < 1e-9:
        raise ValueError("matrix is singular: colours cannot be mapped back")
    code = x @ matrix.T
    return (code - step * np.rint(code / step)) @ np.linalg.inv(matrix).T


def blurred(x: np.ndarray) -> np.ndarray:
    """3 × 3 means of patches (n, h, w, c), edges repeated."""
    wide = np.pad(x.astype(float), ((0, 0), (1, 1), (1, 1), (0, 0)), mode="edge")
    rows = wide[:, :-2] + wide[:, 1:-1] + wide[:, 2:]
    return (rows[:, :, :-2] + rows[:, :, 1:-1] + rows[:, :, 2:]) / 9


def inputs(settings: Settings, fakes: Fakes) -> dict[str, Callable[[np.ndarray], np.ndarray]]:
    """The detectors' inputs: method -> map from patches (n, 16, 16, 3) to floats of the same shape."""
    return {
        "PiD": partial(residual, matrix=SPACES[settings.space], step=settings.step),
        "high-frequency": lambda x: x - blurred(x),
        "reconstruction": lambda x: x - fakes.project(x.reshape(len(x), -1)).reshape(x.shape),
        "raw pixels": lambda x: x.astype(float),
    }


def accuracies(
    found: Data, make: Callable[[np.ndarray], np.ndarray], settings: Settings, seed: int
) -> dict[str, float]:
    """Balanced accuracy against each generator of a detector trained on one of them."""
    maps = make(np.concatenate([found.train_real, found.train_fake]))
    says_fake = train(maps, np.arange(len(maps)) >= len(found.train_real), seed)
    share = {kind: float(says_fake(make(patches)).mean()) for kind, patches in found.test.items()}
    return {g: (1 - share["real"] + share[g]) / 2 for g in GENERATORS}


def leak(maps: np.ndarray, patches: np.ndarray) -> float:
    """Largest |correlation| of a channel of the maps with the blurred luminance; 0 for constant maps."""
    content = (blurred(patches) @ np.array(LUMINANCE)).ravel()
    channels = maps.reshape(-1, maps.shape[-1]).T
    return max(abs(np.corrcoef(c, content)[0, 1]) if np.ptp(c) > 1e-9 else 0.0 for c in channels)


def microseconds(make: Callable[[np.ndarray], np.ndarray], patches: np.ndarray) -> float:
    """Processor time per patch to compute its map, the median of five timings."""
    taken = []
    for _ in range(5):
        start = time.process_time()
        make(patches)
        taken.append(time.process_time() - start)
    return 1e6 * float(np.median(taken)) / len(patches)


@dataclass(frozen=True)
class Run:
    settings: Settings
    examples: dict[str, np.ndarray]
    """kind -> patches (3, 16, 16, 3)"""
    errors: dict[str, np.ndarray]
    """kind -> each pixel's residual of largest size, signed, of the examples (3, 16, 16)"""
    density: dict[str, np.ndarray]
    """kind -> share of test pixels in each of the bins of the largest residual"""
    measures: Measures


def run(settings: Settings, seed: int) -> Run:
    """Train the four detectors on one generator and test them on all."""
    found = data(settings, seed)
    makers = inputs(settings, found.fakes)
    by_generator = {m: accuracies(found, makers[m], settings, seed) for m in LEARNED}
    maps = {kind: makers["PiD"](patches) for kind, patches in found.test.items()}
    size = {kind: np.abs(m).max(axis=3) for kind, m in maps.items()}
    inside = {kind: s <= BOX for kind, s in size.items()}
    looks_real = {kind: (box.mean(axis=(1, 2)) > 0.6).mean() for kind, box in inside.items()}
    by_generator["box rule"] = {g: float(looks_real["real"] + 1 - looks_real[g]) / 2 for g in GENERATORS}
    unseen = [g for g in GENERATORS if g != settings.generator]
    real = found.test["real"]
    measures: Measures = {
        "acc_seen": {m: a[settings.generator] for m, a in by_generator.items()},
        "acc_unseen": {m: float(np.mean([a[g] for g in unseen])) for m, a in by_generator.items()},
        "worst": {m: min(a.values()) for m, a in by_generator.items()},
        **{f"acc_{g}": {m: a[g] for m, a in by_generator.items()} for g in GENERATORS},
        "in_box": {kind: float(box.mean()) for kind, box in inside.items()},
        "leak": {m: leak(makers[m](real), real) for m in LEARNED},
        "microseconds": {m: microseconds(makers[m], real) for m in LEARNED},
    }
    edges = np.linspace(0, 1.4 * settings.step, BINS + 1)
    largest = {k: np.take_along_axis(m, np.abs(m).argmax(3)[..., None], 3)[..., 0] for k, m in maps.items()}
    chosen = {kind: _examples(patches) for kind, patches in found.test.items()}
    return Run(
        settings,
        {kind: found.test[kind][rows] for kind, rows in chosen.items()},
        {kind: largest[kind][rows] for kind, rows in chosen.items()},
        {kind: np.histogram(s, edges)[0] / s.size for kind, s in size.items()},
        measures,
    )


def _examples(patches: np.ndarray) -> np.ndarray:
    """Patches to show: not flat ones, those around the upper quartile of contrast."""
    order = np.argsort(patches.std(axis=(1, 2)).mean(axis=1), kind="stable")
    return order[len(order) * 3 // 4 - 1 :][:EXAMPLES]


def same_history(settings: Settings, seed: int) -> Measures:
    """PiD once more, with every fake saved as JPEG like the real pictures."""
    settings = settings.replace(saved="jpeg95")
    found = data(settings, seed)
    by_generator = accuracies(found, inputs(settings, found.fakes)["PiD"], settings, seed)
    unseen = [a for g, a in by_generator.items() if g != settings.generator]
    return {"acc_same_history": {"PiD": float(np.mean(unseen))}}


def generalises(samples: Samples) -> Verdict:
    """Ahead of the best rival by more than 5 points on unseen generators, and above 75 % there."""
    rival = best_rival(samples, "acc_unseen", RIVALS)
    ahead = above(difference("acc_unseen", "PiD", rival, scale=100, digits=0, unit=f"points over {rival}"), 5.0)(
        samples
    )
    level = float(samples("acc_unseen", "PiD").mean())
    if level < 0.6:
        return replace(ahead, outcome="fails", note="PiD is below 60 % on unseen generators")
    if ahead.outcome == "holds" and level <= 0.75:
        return replace(ahead, outcome="unclear", note="PiD is below 75 % on unseen generators")
    return ahead


def _note(fig: go.Figure, text: str, colour: str = charts.INK, **place: Any) -> None:
    fig.add_annotation(text=text, showarrow=False, font={"size": 14, "color": colour}, **place)


def _scale(settings: Settings) -> list[list]:
    """The diverging colours over errors of ±1.4 Δ, without colour up to ½ grey level."""
    half = BOX / (1.4 * settings.step) / 2
    places = [0, 0.25 - half / 2, 0.5 - half, 0.5 + half, 0.75 + half / 2, 1]
    return [[at, charts.DIVERGING[i][1]] for at, i in zip(places, (0, 1, 2, 2, 3, 4), strict=True)]


def residual_figure(run: Run) -> go.Figure:
    """A blank pixel kept its value to within ½ grey level, as pixels of JPEG files do.

    Top: patches. Below: each pixel's largest colour error, orange if negative, blue if positive. The percentages
    are shares of blank pixels over all test patches.
    """
    fig, cell, limit = charts.blank(height=300), 19, 1.4 * run.settings.step
    grid = np.arange(16) + 0.5
    for i, kind in enumerate(run.examples):
        name = NAMES.get(kind, "<b>real</b>") + (" (seen)" if kind == run.settings.generator else "")
        photo = thumbnails.png_uri(np.kron(run.examples[kind][0], np.ones((8, 8, 1), np.uint8)))
        at = {"x": i * cell, "y": 0, "sizex": 16, "sizey": 16, "xref": "x", "yref": "y"}
        fig.add_layout_image(source=photo, sizing="stretch", **at)
        place: dict[str, Any] = {
            "x": i * cell + grid,
            "y": 17.5 + grid,
            "name": name,
            "hover": "%{z:.2f} grey levels",
        }
        charts.picture(fig, run.errors[kind][0], scale=_scale(run.settings), limits=(-limit, limit), **place)
        _note(fig, name, x=i * cell + 8, y=-0.6, yanchor="bottom")
        share = f"{100 * run.measures['in_box'][kind]:.0f} %"
        _note(fig, share, x=i * cell + 8, y=34, yanchor="top")
    fig.update_xaxes(range=[-0.5, 4 * cell + 16.5], visible=False)
    fig.update_yaxes(range=[37, -3], visible=False, scaleanchor="x")
    return fig.update_layout(margin={"l": 0, "r": 0, "t": 4, "b": 4})


@across_seeds
def accuracy_figure(run: Run, samples: Samples | None) -> go.Figure:
    """Further right is better; the dotted line is chance.

    Balanced accuracy against each generator, trained on the first one alone, with 95 % intervals over seeds.
    The box rule was never trained.
    """
    order = sorted(GENERATORS, key=lambda g: g != run.settings.generator)
    fig = charts.blank(height=320)
    fig.set_subplots(1, 4, shared_yaxes=True, horizontal_spacing=0.025)
    for column, generator in enumerate(order, 1):
        measure = f"acc_{generator}"
        rows = {}
        for m, one in run.measures[measure].items():
            value, low, high = (100 * v for v in charts.interval_of(samples, measure, m, one))
            rows[m] = (value, max(low, 0), min(high, 100))
        charts.dots(fig, rows, ROLES, row=1, col=column)
        chance = {"color": charts.MARK["oracle"], "width": 1.6, "dash": "dot"}
        fig.add_vline(x=50, line=chance, row=1, col=column)
        for m, (value, low, high) in rows.items():
            text = f"<b>{value:.0f}</b>" if m == "PiD" else f"{value:.0f}"
            anchor, x, shift = ("left", high, 9) if value >= 50 else ("right", low, -9)
            place = {"xanchor": anchor, "x": x, "xshift": shift, "y": m, "row": 1, "col": column}
            _note(fig, text, charts.TEXT[ROLES[m]], **place)
        title = NAMES[generator] + (" (seen)" if column == 1 else "")
        charts.name_y(fig, title, xref=f"x{column if column > 1 else ''} domain")
    small = {"size": 13, "color": charts.SOFT}
    fig.update_xaxes(range=[0, 130], tickvals=[50, 100], tickfont=small, zeroline=False)
    fig.update_xaxes(title={"text": "accuracy, %", "font": small, "standoff": 6})
    return fig.update_yaxes(gridcolor=charts.GRID)


def box_figure(run: Run) -> go.Figure:
    """In YCbCr with step 1, JPEG pictures stay left of the dotted line; colours rounded only in RGB do not.

    Largest colour error of each test pixel; the thick line is real pictures, the thin ones are the generators.
    """
    fig = charts.blank("largest colour error of a pixel, grey levels", "share of pixels per bin, %")
    width = 1.4 * run.settings.step / BINS
    at = (np.arange(BINS) + 0.5) * width
    for kind in [*GENERATORS, "real"]:
        pen = {"width": 1.6, "color": charts.MARK["baseline5"]}
        if kind == "real":
            pen = {"width": 3.6, "color": charts.INK}
        name = NAMES.get(kind, kind)
        fig.add_scatter(x=at, y=100 * run.density[kind], name=name, mode="lines", line={**pen, "shape": "hvh"})
    real, fakes = (100 * run.density["real"], 100 * np.mean([run.density[g] for g in GENERATORS], axis=0))
    rise, bulk = int(np.argmax(real > 0.6 * real.max())), int(np.argmax(fakes))
    beside: dict[str, Any] = {"xanchor": "left" if rise < 4 else "right", "xshift": 50 if rise < 4 else -8}
    _note(fig, "<b>real</b>", x=at[rise] - width / 2, y=0.92 * real.max(), **beside)
    x, y = (at[bulk], 1.1 * fakes[bulk]) if at[bulk] > BOX else (BOX, 0.6 * fakes[bulk])
    place: dict[str, Any] = {"x": x, "y": y, "xanchor": "left", "yanchor": "bottom", "xshift": 14}
    _note(fig, "four generators", charts.TEXT["baseline5"], **place)
    charts.moment(fig, BOX, "½ grey level")
    fig.update_xaxes(range=[0, 1.4 * run.settings.step])
    return fig.update_yaxes(rangemode="tozero")


def thumbnail(run: Run) -> str:
    """Three real patches and three fakes, above their residuals."""
    fakes = ("ppca", "superres", "blend")
    patches = [np.hstack([*run.examples["real"]]), np.hstack([run.examples[g][0] for g in fakes])]
    errors = [np.hstack([*run.errors["real"]]), np.hstack([run.errors[g][0] for g in fakes])]
    limit = 1.4 * run.settings.step
    coloured = [thumbnails.coloured(e, _scale(run.settings), -limit, limit) for e in errors]
    return thumbnails.pictures([patches, coloured])


DEMO = Demo(
    name="PiD",
    line="Rounding colours exposes fakes, until they are saved as JPEG.",
    topic="Image forensics",
    abstract="Fake images, created by recently advanced generative models",
    paper=Paper(
        title="PiD: Generalized AI-Generated Images Detection with Pixelwise Decomposition Residuals",
        url="https://icml.cc/virtual/2025/poster/44442",
    ),
    settings=Settings,
    run=run,
    measures={
        "acc_unseen": Measure("Accuracy, unseen generators", better="higher"),
        "acc_seen": Measure("Accuracy, seen generator", better="higher"),
        "worst": Measure("Accuracy, worst generator", better="higher"),
        **{f"acc_{g}": Measure(f"Accuracy against {NAMES[g]}", better="higher") for g in GENERATORS},
        "acc_same_history": Measure("Accuracy, unseen generators, all fakes as JPEG", better="higher"),
        "in_box": Measure("Share of pixels with errors up to ½"),
        "leak": Measure("Correlation with the picture's content", better="lower"),
        "microseconds": Measure("Time for a patch's input", "µs", "lower", digits=1, timing=True),
    },
    figures=(residual_figure, accuracy_figure, box_figure),
    thumbnail=thumbnail,
    claims=(
        Claim(
            quote="PiD achieves 98% accuracy on the widely used GenImage benchmark, highlighting the "
            "effectiveness and generalization performance",
            says="Trained on one generator, PiD recognises fakes of others better than every rival",
            rule=generalises,
        ),
        Claim(
            quote="general forgery clues independent of semantic content",
            says="The residual hardly depends on the picture's content",
            rule=below(mean("leak", "PiD", label="|correlation|"), 0.3),
        ),
        Claim(
            quote="PiD is computationally efficient and does not rely on any generative models for reconstruction",
            says="The residual takes under 100 µs a patch and no generative model",
            rule=below(mean("microseconds", "PiD", unit="µs", digits=1), 100, fails_above=1000),
        ),
        Claim(
            quote="Generative models are designed to optimize high-level semantic content (principal "
            "components), often overlooking low-level signals (residual components)",
            says="What gives fakes away is how they were generated: saved as JPEG, they are still recognised",
            rule=above(mean("acc_same_history", "PiD", label="accuracy"), 0.75),
            probe=same_history,
            applies=lambda settings: (
                "these real pictures have no JPEG history that the fakes could share"
                if settings.real == "halved"
                else ""
            ),
        ),
    ),
    presets={
        "Break it: fakes as JPEG": Settings(saved="jpeg95"),
        "Real halved": Settings(real="halved"),
        "Wrong space": Settings(space="identity"),
    },
    break_it="Break it: fakes as JPEG",
    why_it_breaks="The residual shows whether a picture ever lived as whole numbers in YCbCr, which every JPEG "
    "did, whoever made it.",
    simplified="16 × 16 patches of two photographs instead of whole pictures, four small generators instead of "
    "GenImage's eight, one convolution layer instead of a ResNet, 240 patches for training. The residual "
    "itself is computed as in the paper. The paper's 98 % is over GenImage; here the number is the mean over "
    "three unseen generators. High frequencies and reconstruction residuals are as independent of the content, "
    "and as quick with generators this small, as PiD: those two claims do not set it apart here.",
    seeds=8,
)
