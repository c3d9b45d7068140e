r"""A sample is a function $f$, seen at points: $x_i$ (`points`) is where, $y_i=f(x_i)\in\mathbb R^{d_y}$ what. For
an image $x\in[0,1]^2$ and $y$ is a grey value; for a closed curve $x\in[0,1)$ goes around and $y\in\mathbb R^2$.
*Flow matching* mixes data $y_1$ with noise $\epsilon$, $y_t=(1-t)\,\epsilon+t\,y_1$, and learns the velocity
$y_1-\epsilon$. A sample is then drawn by following $dy/dt=v$ from noise at $t=0$ to $t=1$ with Euler's method.

**INRFlow** predicts $v$ one point at a time,

$$\min_\theta\;\mathbb E\,\tfrac1Q\sum_{q}\big\|v_\theta\big(x_q,\,y_{t,q},\,t,\,T(y_t)\big)-(y_{1,q}-\epsilon_q)\big\|^2,$$

for $Q$ random points of the training grid (`QUERIES`). All points of that grid, the *context*, meet only in the tokens $T$:

- *Encoder.* Latents sit at centres $c_l$, a distance $h$ apart. With weights $A_{il}$ (Gaussian in $x_i-c_l$, adding up
  to 1 over $i$) and local moments $\varphi_m$ ($1$, offset, …), $z_{lm}=\sum_iA_{il}\,\varphi_m\big((x_i-c_l)/h\big)\,y_i$
  (`encode`). A small network turns $z$ and $t$ into eight numbers $T_{lm}$ each.
- *Decoder.* The same Gaussian, now adding up to 1 over $l$, reads them at $x_q$: $h_q=\sum_{lm}B_{ql}\,\varphi_m\,T_{lm}$
  (`decode`). From $h_q$, the point's own noisy $y_{t,q}$, sines of $x_q$ and $t$ come its velocity.

So $x_q$ may be anywhere. **Finer sampling**: the context keeps the trained grid and its own noise; points of a finer
grid, each with noise of its own, ride along the same equation.

Images and curves share all code. They differ in $d_y$, in the lattice of the $c_l$, in the moments, and in whether $x$
wraps. Fixed Gaussian weights in place of learned attention, and all sizes, are our choice.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import plotly.graph_objects as go

from core.demos import _inrflow_data as data
from core.demos import _inrflow_nets as nets
from core.demos._inrflow_data import Domain, sliced_wasserstein
from core.demos._inrflow_nets import Compressor, WholeVector, time_features
from core.demos._inrflow_pictures import distances, strips, thumbnail_of
from core.lab import charts
from core.lab import demo as lab
from core.lab.demo import Claim, Demo, Measure, Measures, Paper, across_seeds, choice, control
from core.lab.verdicts import Rule, Samples, Verdict, above, all_of, below, best_rival, difference, join, mean

INRFLOW, VECTOR, LATENT = "INRFlow", "whole-vector flow", "PCA + latent flow"
OWN, TRUTH, FLOOR = "INRFlow, interpolated", "held-out truth", "training set"
ROLES = charts.roles(INRFLOW, (VECTOR, LATENT, OWN), (TRUTH, FLOOR))
WIDTH, TOKEN, UNITS, QUERIES, BLOCK = 0.6, 8, 32, 24, 32
MARGIN, VISIBLE_GRAIN, SHOWN = 0.005, 2, 8


class Settings(lab.Settings):
    modality: Literal["digits", "curves"] = choice("digits", "Data", labels={"curves": "closed curves"})
    trained: int = control(
        8, "Trained grid", 4, 8, 1, unit="pixels a side", help="A curve has 4 times as many points."
    )
    sampled: int = control(
        16, "Sampled grid", 8, 24, 1, unit="pixels a side", help="A curve gets 8 times as many points."
    )
    context: Literal["trained", "sampled"] = choice(
        "trained", "Grid that the encoder sees", labels={"trained": "trained grid", "sampled": "sampled grid"}
    )
    steps: int = control(300, "Training steps", 100, 800, 50)
    rate: float = control(4e-3, "Learning rate", 1e-3, 1.6e-2, log=True, help="The same for all three flows.")
    euler: int = control(25, "Euler steps", 5, 50, 5)

    @property
    def domain(self) -> Domain:
        return data.IMAGES if self.modality == "digits" else data.CLOSED_CURVES

    @property
    def grids(self) -> tuple[int, int]:
        """Points along an axis, trained and sampled."""
        return (self.trained, self.sampled) if self.modality == "digits" else (4 * self.trained, 8 * self.sampled)


# --- the method ---------------------------------------------------------------------------------------


class Grid:
    """The matrices of n points an axis: `encode` and `decode` (points, Lm), `waves` γ (points, …)."""

    def __init__(self, domain: Domain, n: int, dtype: type = np.float32):
        points, offsets = domain.points(n), domain.offsets(domain.points(n))
        kernel = np.exp(-(offsets**2).sum(axis=-1) / (2 * WIDTH**2))
        moments = np.stack([np.prod(offsets ** np.array(e), axis=-1) for e in domain.moments], axis=-1)
        angle = (2 if domain.wrap else 1) * np.pi * np.concatenate([k * points for k in (1, 2, 3)], axis=1)

        def joined(weights: np.ndarray) -> np.ndarray:
            return (weights[..., None] * moments).reshape(len(points), -1).astype(dtype)

        self.encode = joined(kernel / kernel.sum(axis=0))
        self.decode = joined(kernel / kernel.sum(axis=1, keepdims=True))
        self.waves: np.ndarray = np.hstack([np.sin(angle), np.cos(angle)]).astype(dtype)

    def at(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What the decoder needs of some points."""
        return self.decode[rows], self.waves[rows]


class PointWise:
    """v_θ: tokens T from all points of a context, then a velocity for each query by itself."""

    def __init__(self, domain: Domain, rng: np.random.Generator, dtype: type = np.float32):
        d, latents = domain.values, len(domain.centres) * len(domain.moments)
        seen = TOKEN + d + 6 * len(domain.moments[0]) + nets.TIME
        shapes: dict[str, tuple[int, ...]] = nets.trunk_shapes(latents * d, latents * TOKEN)
        shapes |= {"Q1": (seen, UNITS), "q1": (UNITS,), "Q2": (UNITS + TOKEN + d, d), "q2": (d,)}
        self.weights = nets.Weights(shapes, rng, dtype)

    def tokens(self, context: Grid, y: np.ndarray, tau: np.ndarray) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
        """T (n, Lm, 8) of noisy values y (n, points, d_y), and what the gradient needs."""
        z = np.matmul(context.encode.T, y).reshape(len(y), -1)
        out, kept = nets.trunk(self.weights.arrays, z, tau)
        return out.reshape(len(y), -1, TOKEN), kept

    def velocity(
        self, where: tuple[np.ndarray, np.ndarray], y: np.ndarray, tokens: np.ndarray, tau: np.ndarray
    ) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
        """v (n, Q, d_y) of queries with noisy values y (n, Q, d_y); a row of `where` and y decides one row of v."""
        w, (decode, waves) = self.weights.arrays, where
        h = np.matmul(decode, tokens)
        spread = (np.broadcast_to(f, (*y.shape[:2], f.shape[-1])) for f in (waves, tau[:, None]))
        x = np.concatenate([h, y, *spread], axis=-1).reshape(-1, len(w["Q1"]))
        o, slope = nets.silu(x @ w["Q1"] + w["q1"])
        again = x[:, : TOKEN + y.shape[-1]]  # the last layer sees h and y once more
        v = o @ w["Q2"][:UNITS] + again @ w["Q2"][UNITS:] + w["q2"]
        return v.reshape(y.shape), (x, slope, o, again)

    def gradient(
        self, grid: Grid, rows: np.ndarray, y1: np.ndarray, noise: np.ndarray, t: np.ndarray
    ) -> tuple[float, np.ndarray]:
        """The loss at the queries `rows` of a batch y1 (n, points, d_y) at times t (n, 1), and its gradient, flat."""
        w, g = self.weights.arrays, self.weights.slopes
        y, tau, where = (1 - t[..., None]) * noise + t[..., None] * y1, time_features(t), grid.at(rows)
        tokens, kept = self.tokens(grid, y, tau)
        v, (x, slope, o, again) = self.velocity(where, y[:, rows], tokens, tau)
        error = v - (y1 - noise)[:, rows]
        d_v = error.reshape(-1, error.shape[-1]) * error.dtype.type(2 / error.size)
        d_last = d_v @ w["Q2"].T
        d_a = d_last[:, :UNITS] * slope
        d_h = d_last[:, UNITS : UNITS + TOKEN] + d_a @ w["Q1"][:TOKEN].T
        np.matmul(o.T, d_v, out=g["Q2"][:UNITS])
        np.matmul(again.T, d_v, out=g["Q2"][UNITS:])
        np.matmul(x.T, d_a, out=g["Q1"])
        d_v.sum(axis=0, out=g["q2"])
        d_a.sum(axis=0, out=g["q1"])
        d_tokens = np.matmul(where[0].T, d_h.reshape(len(y), -1, TOKEN))
        nets.trunk_gradient(w, g, kept, d_tokens.reshape(len(y), -1))
        return float(np.mean(error**2)), self.weights.slope


State = tuple[float, np.ndarray, np.ndarray]


def flow(
    model: PointWise, context: Grid, y: np.ndarray, queries: Grid | None, q: np.ndarray, steps: int
) -> Iterator[State]:
    """(t, context values, query values) from noise to samples; without `queries` the context itself is asked for."""
    size = np.float32(1 / steps)
    for k in range(steps):
        yield k / steps, y, y if queries is None else q
        tau = time_features(np.full((len(y), 1), k / steps, y.dtype))
        tokens, _ = model.tokens(context, y, tau)
        y = y + size * model.velocity((context.decode, context.waves), y, tokens, tau)[0]
        if queries is not None:
            q = q + size * model.velocity((queries.decode, queries.waves), q, tokens, tau)[0]
    yield 1.0, y, y if queries is None else q


def draw(
    model: PointWise, context: Grid, y: np.ndarray, queries: Grid | None, q: np.ndarray, steps: int
) -> tuple[np.ndarray, np.ndarray, list[State]]:
    """Samples at the context and at the queries, and five stages of the first one; a block fits into the cache."""
    wanted = {round(k * steps / 4) for k in range(5)}
    ends, stages = [], []
    for start in range(0, len(y), BLOCK):
        block = slice(start, start + BLOCK)
        for k, state in enumerate(flow(model, context, y[block], queries, q[block], steps)):
            if start == 0 and k in wanted:
                stages.append((state[0], state[1][0], state[2][0]))
        ends.append(state[1:])
    on_context, on_queries = (np.concatenate(parts) for parts in zip(*ends, strict=True))
    return on_context, on_queries, stages


def crosstalk(model: PointWise, domain: Domain, grids: tuple[int, int], y: np.ndarray, q: np.ndarray) -> float:
    """The largest change (in 10⁻⁶) of a velocity at t = ½ if every second query goes, in double precision."""
    exact = PointWise(domain, np.random.default_rng(0), np.float64)
    exact.weights.flat[:] = model.weights.flat
    context, queries = (Grid(domain, n, np.float64) for n in grids)
    tau = time_features(np.full((len(y), 1), 0.5))
    tokens, _ = exact.tokens(context, y.astype(float), tau)
    half = np.arange(0, q.shape[1], 2)
    q = q.astype(float)
    full = exact.velocity((queries.decode, queries.waves), q, tokens, tau)[0]
    return 1e6 * float(np.abs(full[:, half] - exact.velocity(queries.at(half), q[:, half], tokens, tau)[0]).max())


# --- one run ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    settings: Settings
    shown: dict[str, np.ndarray]
    """method -> samples on the sampled grid (8, points, d_y)"""
    stages: list[State]
    """time, context and queries of the first sample along the equation"""
    measures: Measures


@dataclass
class Drawn:
    """Samples (n, points, d_y) by method on both grids, and what they cost."""

    trained: dict[str, np.ndarray]
    sampled: dict[str, np.ndarray]
    loss: dict[str, float]
    seconds: dict[str, float]


def run(settings: Settings, seed: int) -> Run:
    """Train the three models on the same functions, batches and times; draw as many samples as are held out."""
    s, domain = settings, settings.domain
    functions = data.digit_functions if s.modality == "digits" else data.curve_functions
    (train, held), (fine_train, fine) = functions(np.random.default_rng([seed, 9]), s.grids)
    drawn = Drawn({}, {}, {}, {})
    stages, apart = _point_wise(s, train.astype(np.float32), len(held), seed, drawn)
    _rivals(s, train.astype(np.float32), len(held), seed, drawn)
    drawn.trained[FLOOR], drawn.sampled[FLOOR] = train, fine_train
    rough = data.roughness(domain, fine)
    measures: Measures = {
        "swd_trained": {m: sliced_wasserstein(f, held) for m, f in drawn.trained.items()},
        "swd_sampled": {m: sliced_wasserstein(f, fine) for m, f in drawn.sampled.items()},
        "grain": {m: data.roughness(domain, f) / rough for m, f in drawn.sampled.items()},
        "loss": drawn.loss,
        "crosstalk": {INRFLOW: apart},
        "seconds": drawn.seconds,
    }
    shown = {m: f[:SHOWN] for m, f in ({TRUTH: fine} | drawn.sampled).items()}
    return Run(s, shown, stages, measures)


def _noise(seed: int, stream: int, *shape: int) -> np.ndarray:
    return np.random.default_rng([seed, stream]).standard_normal(shape, dtype=np.float32)


def _point_wise(s: Settings, train: np.ndarray, count: int, seed: int, drawn: Drawn) -> tuple[list[State], float]:
    """INRFlow on both grids, and its trained-grid samples interpolated; stages of a sample, and the crosstalk."""
    start, domain, (n, m) = time.process_time(), s.domain, s.grids
    model, context, fine = PointWise(domain, np.random.default_rng([seed, 3])), Grid(domain, n), Grid(domain, m)
    for_queries = np.random.default_rng([seed, 4])

    def gradient(y1: np.ndarray, noise: np.ndarray, t: np.ndarray) -> tuple[float, np.ndarray]:
        rows = for_queries.choice(y1.shape[1], min(QUERIES, y1.shape[1]), replace=False)
        return model.gradient(context, rows, y1, noise, t)

    drawn.loss[INRFLOW] = nets.fit(model.weights, gradient, train, s.steps, s.rate, seed)
    y, q = (_noise(seed, k, count, len(g.waves), domain.values) for k, g in ((5, context), (6, fine)))
    extra = fine if s.context == "trained" and m != n else None
    drawn.trained[INRFLOW], drawn.sampled[INRFLOW], stages = draw(model, context, y, extra, q, s.euler)
    if s.context == "sampled" and m != n:  # the fine grid as context: its own noise goes into the encoder
        _, drawn.sampled[INRFLOW], stages = draw(model, fine, q, None, q, s.euler)
    drawn.seconds[INRFLOW] = time.process_time() - start
    drawn.sampled[OWN] = np.matmul(data.interpolation(domain, n, m), drawn.trained[INRFLOW])
    return stages, crosstalk(model, domain, s.grids, y[:SHOWN], q[:SHOWN])


def _rivals(s: Settings, train: np.ndarray, count: int, seed: int, drawn: Drawn) -> None:
    """Flows of whole vectors, of all values and of principal components, interpolated to the sampled grid."""
    n, m = s.grids
    flat, to_fine = train.reshape(len(train), -1), data.interpolation(s.domain, n, m)
    for name in (VECTOR, LATENT):
        start = time.process_time()
        code = Compressor(flat) if name == LATENT else None
        vectors = flat if code is None else code.encode(flat)
        model = WholeVector(vectors.shape[1], np.random.default_rng([seed, 3]))
        drawn.loss[name] = nets.fit(model.weights, model.gradient, vectors, s.steps, s.rate, seed)
        found = model.sample(_noise(seed, 5, count, vectors.shape[1]), s.euler)
        found = found if code is None else code.decode(found)
        drawn.trained[name] = found.reshape(count, *train.shape[1:])
        drawn.sampled[name] = np.matmul(to_fine, drawn.trained[name])
        drawn.seconds[name] = time.process_time() - start


# --- figures ------------------------------------------------------------------------------------------


def gallery_figure(run: Run) -> go.Figure:
    """The second row should look like the first: functions drawn point by point on the sampled grid. The first
    eight of each. The flows below draw all values of the trained grid, which are then interpolated."""
    rows = {m: list(run.shown[m]) for m in (TRUTH, INRFLOW, VECTOR, LATENT)}
    return strips(run.settings.modality, rows, {m: ROLES[m] for m in rows}, height=460)


@across_seeds
def distance_figure(run: Run, samples: Samples | None) -> go.Figure:
    """Further left is better: distance between drawn and held-out functions, on both grids. Sliced Wasserstein
    distance; the dotted line is that of the training set. At a preset with 95 % intervals over seeds."""
    n, m = run.settings.grids
    unit = "pixels a side" if run.settings.modality == "digits" else "points"
    titles = [f"trained grid ({n} {unit})", f"sampled grid ({m} {unit})"]
    rows = []
    for measure in ("swd_trained", "swd_sampled"):
        values = run.measures[measure]
        rows.append({k: charts.interval_of(samples, measure, k, v) for k, v in values.items()})
    return distances(titles, rows, ROLES, FLOOR)


def path_figure(run: Run) -> go.Figure:
    """The points asked for (below) follow what the encoder sees (above), each from noise of its own. One sample on
    its way to data; both rows are the same points if the encoder sees the sampled grid."""
    rows = {
        "context": [context for _, context, _ in run.stages],
        "queries": [queries for *_, queries in run.stages],
    }
    times = [f"t = {t:.2g}" for t, *_ in run.stages]
    return strips(run.settings.modality, rows, {"context": "oracle", "queries": "method"}, times, height=400)


def thumbnail(run: Run) -> str:
    """The same sample on the trained and on the sampled grid."""
    return thumbnail_of(run.settings.modality, *run.stages[-1][1:])


# --- claims -------------------------------------------------------------------------------------------


def closer(measure: str, rival: str) -> Rule:
    """INRFlow is closer to the truth than the rival, by more than the margin on average."""
    gap = difference(measure, rival, INRFLOW, digits=3, label=f"{rival} − {INRFLOW}:")
    return above(gap, 0, least=MARGIN, same=(-MARGIN, MARGIN))


def finer(samples: Samples) -> Verdict:
    """Closer than its own interpolated samples and than the better of the interpolated rivals."""
    best = best_rival(samples, "swd_sampled", (VECTOR, LATENT), "lower")
    found = join([closer("swd_sampled", OWN)(samples), closer("swd_sampled", best)(samples)])
    grain = mean("grain", INRFLOW)(samples).value
    visible = "visible grain" if grain > VISIBLE_GRAIN else "no visible grain"
    note = f"with {visible}: {grain:,.{1 if grain < 100 else 0}f} times the truth's roughness"
    return replace(found, note="; ".join(filter(None, (found.note, note))))


def _needs_finer(settings: Settings) -> str:
    return "" if settings.grids[0] != settings.grids[1] else "the sampled grid is the trained one"


DEMO = Demo(
    name="INRFlow",
    line="Learn digits on 8×8 pixels, then draw them at any resolution.",
    topic="Generative models",
    abstract="Flow matching models have emerged as a powerful method for generative modeling",
    paper=Paper("INRFlow: Flow Matching for INRs in Ambient Space", "https://icml.cc/virtual/2025/poster/43948"),
    settings=Settings,
    run=run,
    measures={
        "swd_trained": Measure("Distance to held-out functions, trained grid", "data units", "lower"),
        "swd_sampled": Measure("Distance to held-out functions, sampled grid", "data units", "lower"),
        "grain": Measure("Grain: roughness relative to the truth (1 is right)", "×", digits=2),
        "loss": Measure("Training loss at the end (each flow has its own)", digits=3),
        "crosstalk": Measure("Largest change of a velocity when half of the queries go", "× 10⁻⁶", "lower", 2),
        "seconds": Measure("CPU time", "s", "lower", 2, timing=True),
    },
    figures=(gallery_figure, distance_figure, path_figure),
    thumbnail=thumbnail,
    claims=(
        Claim(
            "achieving strong performance in different domains and outperforming comparable approaches",
            "On the trained grid, samples are closer to held-out functions than those of both rivals",
            all_of(closer("swd_trained", VECTOR), closer("swd_trained", LATENT)),
        ),
        Claim(
            "make predictions continuously in coordinate space",
            "On a grid it never saw, drawing is closer to the truth than interpolating",
            finer,
            applies=_needs_finer,
        ),
        Claim(
            "a conditionally independent point-wise training objective",
            "Given the tokens, no query changes the velocity of another",
            below(mean("crosstalk", INRFLOW, unit="× 10⁻⁶", label="largest change"), 1, fails_above=1000),
        ),
    ),
    presets={
        "Second modality: curves": Settings(modality="curves"),
        "Larger learning rate": Settings(rate=1.6e-2),
        "Break it: naive context": Settings(context="sampled"),
    },
    break_it="Break it: naive context",
    why_it_breaks="Feeding the fine grid to the encoder averages four times as many noise values, so the latents are "
    "quieter than any seen in training.",
    simplified="Fixed Gaussian weights in place of learned attention and two hidden layers in place of a transformer: "
    "151,000 weights for digits. Three classes of 8 × 8 digits without labels, 380 to train on, with a cubic spline as "
    "the truth between pixels. 600 closed curves stand for 3D point clouds and proteins; unordered sets are not "
    "covered. 300 training steps, one learning rate for all three flows; of 0.001 to 0.016 the largest suits each of "
    "them best on validation data (preset “Larger learning rate”). The two-stage rival's compressor is linear.",
    seeds=8,
)
