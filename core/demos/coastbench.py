r"""A numerical model of a bay makes data; surrogates learn from them to forecast the bay at a fraction of the cost.

**The numerical model** holds level $\eta$, currents $\mathbf u=(u,v)$ and salinity $S$ (`salt`) on $24\times24$ cells
of 2 km. With the mean depth $h$ (`depth`) and $H=h+\eta$,

$$\partial_t\eta+\nabla\!\cdot(H\mathbf u)=q,\qquad\partial_t(HS)+\nabla\!\cdot(H\mathbf uS-\kappa h\nabla S)=0,$$

$$\partial_t\mathbf u=-g\nabla\eta+f\,(v,-u)+\frac{\tau}{\rho H}-c_d\frac{|\mathbf u|\,\mathbf u}{H}.$$

Tide sets $\eta$ in the western column, wind gives the stress $\tau$, the river adds fresh water $q$ in the east.
Twelve members with other tides, winds and rivers are solved for three days; eight train, four test.

**The task.** From the state $x_t$ (level, two currents, salinity) and the forcings over $(t,t+\ell]$, which are known,
predict $x_{t+\ell}$ for leads $\ell$ of 1 to 24 hours.

**The ViT** cuts state, depth and coast into 16 patches of $6\times6$ cells, each embedded as one token. Tide and wind
at eight instants of the window, the river at its ends and $\ell$ pass through a small network that adds to every
token its own 32 numbers (`given`). One block of attention and one of a two-layer network follow; every token
then puts out the increment $x_{t+\ell}-x_t$ on its patch, in units of its training deviation (`growth`), plus a linear map of the
patch (`skip`). Loss and scores count wet cells only.

**POD-ridge** describes a state by 24 leading singular vectors and has one ridge regression per lead. *Damped
persistence* shrinks today's anomaly by the factor that fits the training members best. The *coarse model* solves the
same equations on cells twice as wide.

Errors are $\mathrm{nRMSE}$: root mean square over cells, cases and members, divided by the training deviation of the
variable, and averaged over the four variables. The paper's abstract tells inputs and outputs; model sizes, solver
and rivals are our own.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import plotly.graph_objects as go

from core.demos import _coastbench_data as data
from core.demos._coastbench_data import LEADS, Cases, CoarseModel, Modes, Transformer, World
from core.demos._coastbench_pictures import draw_maps, draw_thumbnail
from core.demos._coastbench_sea import Sea, solve
from core.lab import charts
from core.lab import demo as lab
from core.lab.demo import Claim, Demo, Measure, Measures, Paper, across_seeds, choice, control, fixed
from core.lab.verdicts import (
    LEAST_SEEDS,
    Estimate,
    Estimator,
    Outcome,
    Samples,
    Verdict,
    above,
    below,
    difference,
    join,
    mean,
    per_seed,
    ratio,
)

VIT, POD, COARSE = "ViT", "POD-ridge", "coarse model"
DAMPED, PERSISTENCE, CLIMATOLOGY, FINE = "damped persistence", "persistence", "climatology", "fine model"
SIMPLE = (PERSISTENCE, DAMPED, CLIMATOLOGY)
ROLES = charts.roles(VIT, (POD, COARSE, DAMPED, PERSISTENCE, CLIMATOLOGY), FINE)
VARIABLES = {"level": "Level", "east": "Current to the east", "north": "Current to the north", "salt": "Salinity"}
MARGIN, RANKED_AT, TIMED_LEAD = 0.02, 12, 24
FAST, SLOW = 20, 5
REPEATS = 5


class Settings(lab.Settings):
    lead: Literal[1, 3, 6, 12, 24] = choice(12, "Lead shown (hours)", labels={k: f"{k} h" for k in LEADS})
    variable: Literal["level", "salinity"] = choice("level", "Variable on the map")
    weather: Literal["same", "storm"] = choice(
        "same",
        "Test weather",
        labels={"same": "same climate"},
        help="storm: up to 16 m/s added in the test members",
    )
    wind: float = control(1.0, "Wind strength", 0.3, 2, 0.1, unit="× normal")
    river: float = control(300.0, "River", 50, 1500, 50, unit="m³/s")
    steps: int = control(200, "Training steps", 50, 400, 50)
    hide: bool = choice(
        False, "Hide forcings from the ViT", help="Tide, wind and river are zeros in its condition."
    )
    members: int = fixed(12, "Members", ge=6, le=24)


@dataclass(frozen=True)
class Run:
    settings: Settings
    sea: Sea
    truth: np.ndarray
    """the numerical model at t + lead of the test case shown (4, ny, nx), in m, m/s and g/kg"""
    forecast: np.ndarray
    """the ViT's forecast of it"""
    measures: Measures


def best_seconds(call: Callable[[], object]) -> float:
    """CPU seconds of a call, the best of five after one warm-up."""
    call()
    taken = []
    for _ in range(REPEATS):
        start = time.process_time()
        call()
        taken.append(time.process_time() - start)
    return max(min(taken), 1e-9)


def forecast_seconds(vit: Transformer, modes: Modes, coarse: CoarseModel) -> dict[str, float]:
    """Time of one forecast of one start at 24 h. The numerical models are timed for one hour, times 24."""
    world = vit.world
    tests = world.tests(TIMED_LEAD)
    day = Cases(tests.member[:1], tests.start[:1], TIMED_LEAD)
    hour = Cases(day.member, day.start, 1)
    factor = data.damping(world, TIMED_LEAD)[:, None, None]
    forcing = world.forcing.windows(hour.member, hour.start, 1)
    water = data.fine_water(world, hour)
    return {
        VIT: best_seconds(lambda: vit.forecast(day)),
        POD: best_seconds(lambda: modes.forecast(day)),
        COARSE: TIMED_LEAD * best_seconds(lambda: coarse.record(hour)),
        DAMPED: best_seconds(lambda: world.now(day) * factor),
        PERSISTENCE: best_seconds(lambda: world.now(day)),
        CLIMATOLOGY: best_seconds(world.centre.copy),
        FINE: TIMED_LEAD * best_seconds(lambda: solve(water, forcing, 1)),
    }


def errors(world: World, forecasts: dict[str, np.ndarray], truth: np.ndarray) -> dict[str, np.ndarray]:
    """Normalised root mean square error of each variable (4,) by method, over wet cells and cases."""
    wet = world.sea.wet
    return {m: np.sqrt(((f - truth)[..., wet].astype(float) ** 2).mean(axis=(0, 2))) for m, f in forecasts.items()}


def run(settings: Settings, seed: int) -> Run:
    """Solve the data set, train both surrogates, forecast every test case at every lead."""
    s = settings
    world = data.make_world(seed, s.members, s.wind, s.river, s.weather == "storm")
    for_vit, for_modes = (np.random.default_rng([seed, k]) for k in (1, 2))
    begin = time.process_time()
    vit = data.train_transformer(world, s.steps, s.hide, for_vit)
    middle = time.process_time()
    modes = data.train_modes(world, for_modes)
    once = {VIT: middle - begin, POD: time.process_time() - middle, "numerical model (data)": world.seconds}
    coarse = CoarseModel(world)
    solved = coarse.record(world.tests(max(LEADS)))
    found = {}
    for lead in LEADS:
        c = world.tests(lead)
        now = world.now(c)
        forecasts = {
            VIT: vit.forecast(c),
            POD: modes.forecast(c),
            COARSE: solved[:, lead],
            DAMPED: now * data.damping(world, lead)[:, None, None],
            PERSISTENCE: now,
            CLIMATOLOGY: np.zeros_like(now),
        }
        found[lead] = errors(world, forecasts, world.later(c))
        if lead == s.lead:
            case = int(world.later(c)[:, 0, world.sea.wet].std(axis=1).argmax())
            truth, forecast = (world.physical(f[case]) for f in (world.later(c), forecasts[VIT]))
    seconds = forecast_seconds(vit, modes, coarse)
    measures: Measures = {
        f"nrmse_{lead}": {m: float(e.mean()) for m, e in by.items()} for lead, by in found.items()
    }
    for k, name in enumerate(VARIABLES):
        measures[f"error_{name}"] = {m: float(e[k] * world.scale[k]) for m, e in found[s.lead].items()}
    measures["forecast_seconds"] = seconds
    measures["speed_up"] = {m: seconds[FINE] / seconds[m] for m in (VIT, POD, COARSE)}
    measures["once_seconds"] = once
    measures["pays_off"] = {VIT: (once[VIT] + world.seconds) / max(seconds[FINE] - seconds[VIT], 1e-9)}
    return Run(s, world.sea, truth, forecast, measures)


# --- figures ------------------------------------------------------------------------------------------


@across_seeds
def lead_figure(run: Run, samples: Samples | None) -> go.Figure:
    """Lower is better: compare the ViT with POD-ridge and with the four forecasts that learn little or nothing.

    Error against the lead time; 0 is the numerical model, about 1 is no skill. At a preset the mean over seeds,
    with a 95 % band for the ViT. The tide turns in 6 hours, so persistence is a poor rival there.
    """
    fig = charts.blank("lead time (hours, log scale)", "nRMSE (1 = deviation of the variable)", log_x=True)
    for name in sorted(run.measures["nrmse_1"], key=lambda m: m == VIT):
        found = [
            charts.interval_of(samples, f"nrmse_{lead}", name, run.measures[f"nrmse_{lead}"][name])
            for lead in LEADS
        ]
        value, low, high = np.array(found).T
        band = (low, high) if name == VIT and samples is not None else None
        charts.line(fig, name, np.array(LEADS), value, ROLES[name], band=band, markers=True)
    charts.end_labels(fig)
    bottom, top = fig.layout.yaxis.range
    fig.update_yaxes(range=[min(0, bottom), top])
    return fig.update_xaxes(tickvals=LEADS, ticktext=[str(k) for k in LEADS])


def map_figure(run: Run) -> go.Figure:
    """The middle map should look like the left one; the right one is their difference, forecast minus numerical model.

    The test case with the most uneven level at the lead shown, land in grey, the open sea in the west, the river in the east. With salinity come the
    currents as arrows, larger where faster.
    """
    return draw_maps(run.sea, run.truth, run.forecast, run.settings.variable, run.settings.lead)


@across_seeds
def cost_figure(run: Run, samples: Samples | None) -> go.Figure:
    """The lower and the further left, the better: error of a 24-hour forecast against the time it takes.

    One start, best of five, training left out. The fine model is the truth here, so its error is 0.
    """
    fig = charts.blank("CPU time of a 24-hour forecast (log scale)", "nRMSE at 24 h", log_x=True)
    seconds, error = run.measures["forecast_seconds"], run.measures[f"nrmse_{TIMED_LEAD}"] | {FINE: 0.0}
    for name, role in ROLES.items():
        x, *_ = charts.interval_of(samples, "forecast_seconds", name, seconds[name], log=True)
        y, low, high = charts.interval_of(samples, f"nrmse_{TIMED_LEAD}", name, error[name])
        spread = {"array": [high - y], "arrayminus": [y - low], "color": charts.tint(charts.MARK[role], 0.5)}
        fig.add_scatter(
            x=[x],
            y=[y],
            name=name,
            mode="markers+text",
            text=f"<b>{name}</b>" if name == VIT else name,
            textposition="middle left" if name in (POD, PERSISTENCE, COARSE, FINE) else "middle right",
            textfont={"size": charts.FONT_SIZE, "color": charts.TEXT[role]},
            error_y={"type": "data", "symmetric": False, "width": 0, **spread},
            marker={"size": 13 if name == VIT else 9, "color": charts.MARK[role]},
            cliponaxis=False,
            hovertemplate=f"{name}: %{{x:.2~g}} s, %{{y:.2f}}<extra></extra>",
        )
    ticks = {1e-7: "0.1 µs", 1e-6: "1 µs", 1e-5: "10 µs", 1e-4: "0.1 ms", 1e-3: "1 ms", 1e-2: "10 ms", 0.1: "0.1 s",
             1.0: "1 s"}  # fmt: skip
    top = max(error.values())
    fig.update_yaxes(range=[-0.08 * top, 1.2 * top])
    reach = np.log10([min(seconds.values()) / 10, 2 * max(seconds.values())])
    return fig.update_xaxes(tickvals=list(ticks), ticktext=list(ticks.values()), range=reach)


def thumbnail(run: Run) -> str:
    """The level of the solved bay on the left and its forecast on the right."""
    return draw_thumbnail(run.sea, run.truth, run.forecast)


# --- claims -------------------------------------------------------------------------------------------


def lead_over_simple(lead: int) -> Estimator:
    """Error of the best simple rival of each seed minus the ViT's."""
    measure = f"nrmse_{lead}"

    def gap(s: Samples) -> np.ndarray:
        return np.min([s(measure, rival) for rival in SIMPLE], axis=0) - s(measure, VIT)

    return per_seed(gap, "difference", unit="nRMSE", digits=3, label=f"best simple rival − ViT, {lead} h:")


def beats_simple(samples: Samples) -> Verdict:
    """At every lead ahead of the best of persistence, damped persistence and climatology; names the leads that are not."""
    parts = {lead: above(lead_over_simple(lead), 0, least=MARGIN)(samples) for lead in LEADS}
    left = [f"{lead} h ({v.word})" for lead, v in parts.items() if v.outcome != "holds"]
    return join(list(parts.values()), "not ahead at " + ", ".join(left) if left else "ahead at every lead")


def much_faster(samples: Samples) -> Verdict:
    """Holds if above 20 on every seed, fails if surely below 5 on average."""
    base = above(ratio("forecast_seconds", FINE, VIT, digits=0, label="fine model / ViT:"), FAST)(samples)
    each = samples("speed_up", VIT)
    if base.effect is None or len(each) < LEAST_SEEDS:
        return base
    outcome: Outcome = "holds" if (each > FAST).all() else "fails" if base.effect.high < SLOW else "unclear"
    paid = mean("pays_off", VIT)(samples)
    note = f"above {FAST} in {int((each > FAST).sum())} of {len(each)} seeds; data and training cost as much as "
    return replace(base, outcome=outcome, note=note + f"{paid.value:.0f} forecasts of the fine model")


def far_cheaper(samples: Samples) -> Verdict:
    """Much faster, and with some skill at the same lead; the speed-up is the effect shown unless skill decides."""
    faster = much_faster(samples)
    gap = difference(f"nrmse_{TIMED_LEAD}", VIT, CLIMATOLOGY, unit="nRMSE", label="ViT − climatology, 24 h:")
    both = join([faster, below(gap, 0)(samples)])
    return replace(faster, parts=both.parts) if both.outcome == faster.outcome else both


def told_apart(e: Estimate) -> bool:
    """An interval off 0 and a mean beyond the margin."""
    return (e.low > 0 or e.high < 0) and abs(e.value) > MARGIN


def ranks(samples: Samples) -> Verdict:
    """Holds if the ViT is told apart from POD-ridge or from the coarse model, fails if it ties with both."""
    measure = f"nrmse_{RANKED_AT}"
    gaps = [
        difference(measure, VIT, r, unit="nRMSE", label=f"ViT − {r}, {RANKED_AT} h:")(samples)
        for r in (POD, COARSE)
    ]
    order = sorted((VIT, POD, COARSE), key=lambda m: float(samples(measure, m).mean()))
    note = f"order from the best: {', '.join(order)}"
    if gaps[0].low > 0 and told_apart(gaps[0]):
        note += "; POD-ridge beats the ViT"
    shown = max(gaps, key=lambda e: (told_apart(e), abs(e.value)))
    if len(samples.seeds) < LEAST_SEEDS:
        return Verdict("unclear", shown, 0, f"not enough runs: {len(samples.seeds)} of {LEAST_SEEDS} seeds")
    if any(map(told_apart, gaps)):
        return Verdict("holds", shown, 0, note)
    ties = all(e.low >= -MARGIN and e.high <= MARGIN for e in gaps)
    return Verdict("fails" if ties else "unclear", shown, 0, note)


DEMO = Demo(
    name="CoastalBench",
    line="A small transformer forecasts tide, currents and salt of a solved bay.",
    topic="Ocean modelling",
    abstract="Over 40\\% of the global population lives within 100 kilometers of the coast",
    paper=Paper(
        "Emulating Complex Coastal Processes with Transformers: A Decade-Long High-Resolution Dataset and "
        "Preliminary Results",
        "https://icml.cc/virtual/2025/poster/44437",
        "https://github.com/spatialdatasciencegroup/CoastalBench",
    ),
    settings=Settings,
    run=run,
    measures={
        **{f"nrmse_{k}": Measure(f"nRMSE at {k} h", "deviations", "lower", 2) for k in LEADS},
        **{
            f"error_{name}": Measure(f"{title}: RMSE at the lead shown", unit, "lower", digits)
            for (name, title), unit, digits in zip(
                VARIABLES.items(), ("m", "m/s", "m/s", "g/kg"), (3, 3, 3, 2), strict=True
            )
        },
        "forecast_seconds": Measure("CPU time of a 24-hour forecast", "s", "lower", 5, timing=True),
        "speed_up": Measure("Speed-up at 24 h over the fine model", "×", "higher", 0, timing=True),
        "once_seconds": Measure("CPU time spent once: training, data", "s", "lower", 2, timing=True),
        "pays_off": Measure("24-hour forecasts until data and training are paid", "", "lower", 0, timing=True),
    },
    figures=(lead_figure, map_figure, cost_figure),
    thumbnail=thumbnail,
    claims=(
        Claim(
            "takes initial and boundary conditions and external forcings and predicts ocean variables at varying "
            "lead times",
            "At every lead from 1 to 24 h, more accurate than persistence, damped persistence and climatology",
            beats_simple,
        ),
        Claim(
            "deep learning has become a promising alternative to reduce the cost of numerical models",
            "A forecast costs far less than with the numerical model, and is better than the mean state",
            far_cheaper,
        ),
        Claim(
            "provides an opportunity to benchmark novel deep learning models",
            "The data tell the transformer from a linear surrogate or from a coarse numerical model",
            ranks,
        ),
    ),
    presets={
        "Break it: no forcings": Settings(hide=True),
        "Storm": Settings(weather="storm"),
    },
    break_it="Break it: no forcings",
    why_it_breaks="Without boundary tide and wind the initial state alone fixes little beyond a few hours, so a damped "
    "copy of today is as good.",
    simplified="Two dimensions instead of three, about 400 wet cells instead of 6 million, no temperature, no momentum "
    "advection, twelve members of 72 hours instead of ten years, and synthetic tide, wind and river. The forcings of "
    "the forecast window are known exactly. The coarse model starts from averages of the fine one, and its cells are "
    "copied back to the fine grid. Water less than 0.3 m deep does not leave its cell, which happens in strong wind "
    "only. Both surrogates keep fixed sizes, rates and penalties; neither was tuned on validation data.",
    seeds=8,
)
