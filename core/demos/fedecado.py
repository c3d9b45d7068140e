r"""Gradient descent on $\sum_i p_i\ell_i(w)$ is the discretised gradient *flow*, and a flow can be drawn as a
circuit. FedECADO gives every client $i$ (share of the data $p_i$, loss $\ell_i$) a capacitor with voltage $x_i$,
the server one with voltage $x_c$, and joins them by inductors $L$ that carry flows $I_i$:

$$\dot x_c=-\sum_i p_iI_i,\qquad L\dot I_i=x_c-x_i,\qquad \dot x_i=I_i-\nabla\ell_i(x_i).$$

At rest $x_i=x_c$ and $I_i=\nabla\ell_i$, so $\sum_ip_i\nabla\ell_i(x_c)=0$: the true optimum, however the data
are split. The flows remember each client's pull, also while it is idle.

**Client.** From $x_c$, $e_i$ forward-Euler steps of size $\eta_i$ with $I_i$ frozen; its window of simulated
time is $T_i=\eta_ie_i$, and clients differ widely in it.

**Server.** It integrates the circuit from $\tau=0$ to $\max T_i$ by backward Euler. Inside a window the client
is interpolated, $\Gamma_i(t)$, and answers a change of its flow with the sensitivity $1/G_i$,
$G_i=1/T_i+H_i$, where $H_i$ is the curvature of $\ell_i$: this is where the data enter. Step sizes follow the
local truncation error (`tolerance`), so fast and slow clients meet on one clock.

**Baselines** take the same client steps: FedAvg averages, FedProx adds a pull to $x_c$, FedExP stretches the
server step, FedNova divides by $T_i$.

The equations are reconstructed from the abstract and its parent method. Two choices are ours: the sensitivity
covers the client's whole window, and a client that has finished is held at its end state.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from pydantic import model_validator

from core.demos._fedecado_circuit import (
    FEDAVG,
    FEDEXP,
    FEDNOVA,
    FEDPROX,
    MU,
    Clients,
    average_round,
    backward_euler,
)
from core.lab import charts, thumbnails
from core.lab.demo import Claim, Demo, Measure, Measures, Paper, Settings, control, fixed
from core.lab.federated import CLASSES, dirichlet_split, loss, one_hot, optimum, pool, test_accuracy
from core.lab.verdicts import Samples, Verdict, above, all_of, difference, in_seeds, mean

ECADO, BARE = "FedECADO", "without sensitivity"
ROLES = charts.roles(ECADO, (FEDAVG, FEDPROX, FEDEXP, FEDNOVA, BARE))
HUGE = 1e6
SHOWN = (ECADO, FEDAVG, FEDPROX, FEDEXP, FEDNOVA)


class CircuitSettings(Settings):
    alpha: float = control(0.1, "Heterogeneity α", 0.05, 100, log=True, help="Small: few digits per client")
    active: float = control(0.3, "Active clients", 0.1, 1.0, 0.05, unit="share")
    most_epochs: int = control(10, "Largest number of local epochs", 1, 20, 1)
    inductance: float = control(10.0, "Inductance L", 0.01, 100, log=True)
    tolerance: float = control(0.05, "Truncation error allowed", 0.005, 5, log=True)
    slowest: float = fixed(0.1, "Smallest client step", gt=0, le=10)
    fastest: float = fixed(1.0, "Largest client step", gt=0, le=10)
    rounds: int = fixed(60, "Rounds", ge=1, le=2000)
    clients: int = fixed(20, "Clients", ge=2, le=200)

    @model_validator(mode="after")
    def _ordered(self):
        if self.slowest > self.fastest:
            raise ValueError("slowest: may not be above fastest")
        return self


def make_clients(s: CircuitSettings, seed: int) -> Clients:
    """Digits over clients with Dirichlet label skew; every client has at least five rows."""
    data, rng = pool(seed), np.random.default_rng([seed, 21])
    rows = dirichlet_split(data.y, s.clients, s.alpha, rng)
    for i in range(s.clients):
        while len(rows[i]) < 5:
            largest = int(np.argmax([len(r) for r in rows]))
            rows[i] = np.append(rows[i], rows[largest][-1])
            rows[largest] = rows[largest][:-1]
    x = [data.x[r] for r in rows]
    curvature = np.stack([0.09 * (part**2).mean(0) + MU for part in x])
    return Clients(
        x,
        [one_hot(data.y[r]) for r in rows],
        np.array([len(r) for r in rows]) / len(data.y),
        rng.uniform(s.slowest, s.fastest, s.clients),
        rng.integers(1, s.most_epochs + 1, s.clients),
        curvature,
    )


@dataclass
class Trace:
    """A method's path; `log` keeps the circuit's inside of one round: (τ, |x_c|, mean |I|) per accepted step."""

    accuracy: list[float]
    gap: list[float]
    diverged: int = 0
    steps: int = 0
    log: tuple[np.ndarray, np.ndarray] | None = None


def circuit_round(
    c: Clients, s: CircuitSettings, centre: np.ndarray, flows: np.ndarray, chosen: np.ndarray, sensitive: bool
) -> tuple[np.ndarray, int, np.ndarray]:
    """One round of FedECADO: returns the centre, the number of server steps, the log; updates `flows` in place."""
    start_centre, start = centre.copy(), flows[chosen].copy()
    ends = np.stack([c.work(i, centre, flows[i]) for i in chosen])
    window = c.window[chosen]
    conductance = (1 / window[:, None] + c.curvature[chosen])[:, None, :] if sensitive else np.full((1, 1, 1), 1e12)
    conductance = np.broadcast_to(conductance, ends.shape)
    idle = np.tensordot(c.share, flows, 1) - np.tensordot(c.share[chosen], start, 1)
    horizon, now, size, tried = window.max(), 0.0, window.min(), 0
    now_flows, states = start.copy(), np.broadcast_to(start_centre, ends.shape)
    log: list[tuple[float, float, float]] = []
    while now < horizon * (1 - 1e-12):
        size = min(max(size, horizon / 60), horizon - now)
        part = np.minimum((now + size) / window, 1)[:, None, None]
        gamma = start_centre + (ends - start_centre) * part
        new = backward_euler(
            size, centre, now_flows, start, gamma, conductance, c.share[chosen], idle, s.inductance
        )
        tried += 1
        drift = np.tensordot(c.share[chosen], new.flows - now_flows, 1)
        lag = (new.centre - new.states) - (centre - states)
        error = max(size / 2 * np.abs(drift).max(), size / (2 * s.inductance) * np.abs(lag).max())
        if not np.isfinite(error):
            return np.full_like(centre, np.inf), tried, np.array(log)
        if error > s.tolerance and size > horizon / 60 * (1 + 1e-9):
            size = max(size / 2, horizon / 60)
            continue
        now += size
        centre, now_flows, states = new.centre, new.flows, new.states
        log.append((now, float(np.linalg.norm(centre)), float(np.linalg.norm(now_flows, axis=(1, 2)).mean())))
        size *= float(np.clip(0.9 * s.tolerance / max(error, 1e-12), 0.5, 2))
    flows[chosen] = now_flows
    return centre, tried, np.array(log)


def train(c: Clients, s: CircuitSettings, seed: int, method: str, best: float) -> Trace:
    """All rounds of one method; the same clients are active in a round for every method."""
    data, rng = pool(seed), np.random.default_rng([seed, 22])
    centre = np.zeros((CLASSES, data.x.shape[1]))
    flows = np.zeros((s.clients, *centre.shape))
    trace = Trace([], [])
    for k in range(s.rounds):
        chosen = np.sort(rng.choice(s.clients, max(1, round(s.active * s.clients)), replace=False))
        if trace.diverged:
            trace.accuracy.append(0.1)
            trace.gap.append(np.inf)
            continue
        with np.errstate(all="ignore"):
            if method in (ECADO, BARE):
                centre, tried, log = circuit_round(c, s, centre, flows, chosen, method == ECADO)
                trace.steps += tried
                if k == min(4, s.rounds - 1):
                    trace.log = (log, c.window[chosen])
            else:
                centre = average_round(c, centre, chosen, method)
        if not max(np.abs(centre).max(), np.abs(flows).max()) < HUGE:  # also true for NaN
            trace.diverged = k + 1
            trace.accuracy.append(0.1)
            trace.gap.append(np.inf)
            continue
        trace.accuracy.append(test_accuracy(centre, data))
        trace.gap.append(loss(centre, data.x, data.y, MU) - best)
    return trace


def compare(s: CircuitSettings, seed: int, methods: tuple[str, ...]) -> tuple[dict[str, Trace], float]:
    """Paths of some methods on the same clients, and the pooled optimum's accuracy."""
    data, c = pool(seed), make_clients(s, seed)
    w, best = optimum(data.x, data.y, MU)
    return {m: train(c, s, seed, m, best) for m in methods}, test_accuracy(w, data)


@dataclass(frozen=True)
class Run:
    """Paths of the five methods, the optimum's accuracy, measures of the last ten rounds."""

    traces: dict[str, Trace]
    best_accuracy: float
    measures: Measures


def tail(values: list[float]) -> np.ndarray:
    return np.array(values[-10:])


def run(settings: CircuitSettings, seed: int) -> Run:
    """All five methods at these settings."""
    traces, best = compare(settings, seed, SHOWN)
    measures: Measures = {
        "accuracy": {m: float(tail(t.accuracy).mean()) for m, t in traces.items()} | {"optimum": best},
        "gap": {m: float(tail(t.gap).mean()) for m, t in traces.items()},
        "wobble": {m: float(tail(t.accuracy).std()) for m, t in traces.items()},
        "server_steps": {ECADO: traces[ECADO].steps / settings.rounds},
    }
    return Run(traces, best, measures)


def sensitivity_probe(settings: CircuitSettings, seed: int) -> Measures:
    """The circuit with the sensitivity term taken out."""
    t = compare(settings, seed, (BARE,))[0][BARE]
    return {"bare_gap": {BARE: float(tail(t.gap).mean())}, "bare_diverged": {BARE: float(t.diverged)}}


def long_probe(settings: CircuitSettings, seed: int) -> Measures:
    """300 rounds of FedECADO and FedNova."""
    traces, _ = compare(settings.replace(rounds=300), seed, (ECADO, FEDNOVA))
    return {
        "long_gap": {m: float(tail(t.gap).mean()) for m, t in traces.items()},
        "long_wobble": {m: float(tail(t.accuracy).std()) for m, t in traces.items()},
    }


# --- figures ------------------------------------------------------------------------------------------


def accuracy_figure(run: Run) -> go.Figure:
    """Higher and smoother is better; dotted: one model trained on all data. All methods see the same clients in
    the same rounds."""
    fig = charts.blank("Round", "Test accuracy (share)")
    for name, t in run.traces.items():
        charts.line(fig, name, np.arange(1, len(t.accuracy) + 1), np.array(t.accuracy), ROLES[name])
    charts.level(fig, run.best_accuracy, "all data in one place")
    low = min(float(np.quantile(t.accuracy[5:] or t.accuracy, 0.1)) for t in run.traces.values())
    fig.update_yaxes(range=[max(0.0, min(0.75, low - 0.03)), 1.0])
    charts.end_labels(fig)
    return fig


def circuit_figure(run: Run) -> go.Figure:
    """One round inside the server: each tick is a step of the circuit's clock, each bar a client's window. Steps
    grow where little happens; the clock stops at the longest window."""
    fig = charts.blank("Simulated time τ of the round", "Size of the active flows (norm)")
    found = run.traces[ECADO].log
    if found is None or not len(found[0]):
        return fig
    log, window = found
    charts.line(fig, "mean flow", log[:, 0], log[:, 2], "method", markers=True, end_label=False)
    top = float(log[:, 2].max()) or 1.0
    for i, t in enumerate(np.sort(window)):
        y = -top * (0.08 + 0.07 * i)
        fig.add_scatter(
            x=[0, t],
            y=[y, y],
            mode="lines",
            line={"color": charts.MARK["oracle"], "width": 3},
            name="client window",
            hovertemplate=f"window T = {t:.2f}<extra></extra>",
        )
    fig.update_yaxes(tickvals=[0, round(top / 2, 2), round(top, 2)])
    fig.add_annotation(
        x=float(window.max()),
        y=-top * 0.04,
        text="windows of the active clients",
        showarrow=False,
        xanchor="right",
        font={"size": 13, "color": charts.TEXT["oracle"]},
    )
    return fig


def gap_figure(run: Run) -> go.Figure:
    """Lower is better: averaging jumps about a biased level, the circuit falls smoothly. Gap of the pooled
    objective, round by round."""
    fig = charts.blank("Round", "Gap to the optimum (nats, log scale)", log_y=True)
    for name, t in run.traces.items():
        gap = np.array(t.gap)
        charts.line(
            fig,
            name,
            np.arange(1, len(gap) + 1),
            np.where(np.isfinite(gap), np.maximum(gap, 1e-12), np.nan),
            ROLES[name],
        )
    charts.end_labels(fig)
    return fig


def thumbnail(run: Run) -> str:
    chosen = {
        m: (np.arange(60.0)[: len(t.accuracy)], np.clip(t.accuracy, 0.6, 1)[:60])
        for m, t in run.traces.items()
        if m in (ECADO, FEDAVG)
    }
    return thumbnails.lines(chosen, ROLES)


# --- claims -------------------------------------------------------------------------------------------


def bare_rule(samples: Samples) -> Verdict:
    """Without the term the gap is ten times larger, or the run diverges, on at least three seeds of four."""
    bare, ours = samples("bare_gap", BARE), samples("gap", ECADO)
    worse = (samples("bare_diverged", BARE) > 0) | (bare > 10 * ours)
    shown = mean("bare_diverged", BARE, label="diverged at round", digits=0)
    found = in_seeds(lambda _: worse, shown, holds_from=0.75, fails_to=0.2501)(samples)
    return Verdict(
        found.outcome, None, None, f"{found.note}; {int((samples('bare_diverged', BARE) > 0).sum())} diverge"
    )


def long_rule(samples: Samples) -> Verdict:
    """After 300 rounds the gap is below 1e-4 and the wobble less than half of FedNova's, on every seed."""
    good = (samples("long_gap", ECADO) < 1e-4) & (
        samples("long_wobble", ECADO) < 0.5 * np.maximum(samples("long_wobble", FEDNOVA), 1e-12)
    )
    return in_seeds(lambda _: good, mean("long_gap", ECADO, unit="nats", digits=6), bound=1e-4)(samples)


def _beats(rival: str):
    return above(
        difference("accuracy", ECADO, rival, scale=100, unit="points", label=f"to {rival}"),
        0,
        least=0.5,
        same=(-0.5, 0.5),
    )


DEMO = Demo(
    name="FedECADO",
    line="Federated learning simulated as a circuit: clients are capacitors joined by inductors.",
    topic="Federated learning",
    abstract="Federated learning harnesses the power of distributed optimization",
    paper=Paper(
        "FedECADO: A Dynamical System Model of Federated Learning", "https://icml.cc/virtual/2025/poster/44445"
    ),
    settings=CircuitSettings,
    run=run,
    measures={
        "accuracy": Measure("Test accuracy, last 10 rounds", "share", "higher"),
        "gap": Measure("Gap to the optimum, last 10 rounds", "nats", "lower", 4),
        "wobble": Measure("Wobble of the accuracy", "share", "lower", 4),
        "server_steps": Measure("Server steps a round", "steps", digits=1),
        "bare_gap": Measure("Gap without the sensitivity term", "nats", "lower", 3),
        "bare_diverged": Measure("Diverged at round (0: never)", "round", digits=0),
        "long_gap": Measure("Gap after 300 rounds", "nats", "lower", 7),
        "long_wobble": Measure("Wobble after 300 rounds", "share", "lower", 5),
    },
    figures=(accuracy_figure, circuit_figure, gap_figure),
    thumbnail=thumbnail,
    claims=(
        Claim(
            quote="FedECADO achieves higher classification accuracies in numerous heterogeneous scenarios",
            says="Higher accuracy than FedProx, FedExP and FedNova",
            rule=all_of(*(_beats(r) for r in (FEDPROX, FEDEXP, FEDNOVA))),
        ),
        Claim(
            quote="an aggregate sensitivity model that reflects the amount of data processed by each client",
            says="Without the sensitivity term the circuit is unstable",
            rule=bare_rule,
            probe=sensitivity_probe,
        ),
        Claim(
            quote="a multi-rate integration method with adaptive step-size selections that synchronizes active client updates in continuous time",
            says="Uneven clients still meet at the true optimum, with less wobble than FedNova",
            rule=long_rule,
            probe=long_probe,
        ),
    ),
    presets={
        "Few active": CircuitSettings(active=0.1),
        "Break it: same data everywhere": CircuitSettings(alpha=100),
        "Tiny work": CircuitSettings(slowest=0.05, fastest=0.1, most_epochs=2),
        "Small inductance": CircuitSettings(inductance=0.01, active=1.0, rounds=300),
    },
    break_it="Break it: same data everywhere",
    why_it_breaks="With the same data mix everywhere, averaging has no bias to repair and the circuit only adds inertia.",
    simplified=(
        "Softmax regression on scikit-learn's digits with 20 clients instead of deep networks; full-batch local steps; "
        "diagonal curvature, taken once at w = 0. The server's equations are a reconstruction: the sensitivity spans "
        "a client's whole window, and a finished client is held at its end state, since the linear extrapolation "
        "diverges at these step sizes."
    ),
    seeds=16,
)
