r"""$N$ agents play linear bandits over the same arms $x_1,\dots,x_K\in\mathbb R^d$. Agent $i$ has its own unknown
parameter $\theta_i$ and earns $\theta_i^\top x+\sigma\varepsilon$ for pulling $x$. Using the samples of others
narrows an agent's confidence, but biases its estimate if their parameters differ.

**Pool.** A symmetric graph $G$ (`graph`), complete at the start, says who shares. From its own pulls agent $i$
keeps $V_i=\sum xx^\top$ (`grams`) and $b_i=\sum r\,x$ (`moments`). It adds up those of its direct neighbours,
$A_i^{sh}=\lambda I+\sum_{j:G_{ij}}V_j$, $\tilde\theta_i=(A_i^{sh})^{-1}\sum_{j:G_{ij}}b_j$, and pulls the arm with
the largest

$$\tilde\theta_i^\top x_k+\alpha\,\sigma\sqrt{\log(t+2)}\;\|x_k\|_{(A_i^{sh})^{-1}}.$$

**Separate.** Whether two agents differ is judged on what each learned *alone*: pooled estimates of neighbours
look alike by construction. With $A_i=\lambda I+V_i$ and $\hat\theta_i=A_i^{-1}b_i$, agent $i$ believes its parameter
to be in the ellipsoid $(\theta-\hat\theta_i)^\top A_i(\theta-\hat\theta_i)\le(c\,\beta_i)^2$ with

$$\beta_i=\sqrt\lambda\,S+\sigma\sqrt{2\log(1/\delta)+\log\det A_i-d\log\lambda},\qquad S=\max_i\|\theta_i\|.$$

Once two ellipsoids have no point in common, their edge is cut for good. This is exact: with
$P_i=(c\beta_i)^2A_i^{-1}$, the eigenvalues $\lambda_k$ of $P_i$ relative to $P_j$, and $v$ the difference of the
centres in the eigenvectors, the ellipsoids are disjoint if and only if

$$\min_{0\le s\le1}K(s)<0,\qquad K(s)=1-\sum_k v_k^2\,\frac{s(1-s)}{1+s(\lambda_k-1)},$$

and $K$ is convex. With $c=1$ (`radius`) the ellipsoids hold $\theta_i$ with probability $1-\delta$; a smaller $c$
separates sooner.

The abstract gives neither index nor test. Both follow the first author's public bandit package; that the published
algorithm is the same up to constants is our reading.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import plotly.graph_objects as go
from pydantic import model_validator

from core.demos import _bass_network as network
from core.demos._bass_network import Club, DynUcb, Fixed, Local, Sharing
from core.demos._bass_pairs import TradeOff, draw_trade_offs, trade_off
from core.lab import charts, thumbnails
from core.lab.demo import Claim, Demo, Measure, Measures, Paper, Settings, across_seeds, choice, control, fixed
from core.lab.verdicts import Samples, Verdict, above, all_of, below, mean, per_seed, ratio, within

BASS, ALONE, CLUB, DYNUCB, ALL, ORACLE = "BASS", "learning alone", "CLUB", "DynUCB", "share everything", "oracle"
ROLES = charts.roles(BASS, (ALONE, CLUB, DYNUCB, ALL), ORACLE)
GAPS = (0.5, 1.0, 2.0)
"""Distances between the parameters of the two agents in the trade-off."""
CHECKPOINTS = (1, 2, 5, 10, 20, 50, 100)
"""Rounds whose regret is kept over seeds, besides the last."""


class BassSettings(Settings):
    structure: Literal["clusters", "chain", "unrelated"] = choice(
        "clusters",
        "Parameters of the agents",
        labels={"clusters": "in clusters", "chain": "along a chain"},
        help="clusters: groups of like agents; chain: neighbours differ a little; unrelated: all independent",
    )
    agents: int = control(12, "Agents N", 4, 24, 1)
    clusters: int = control(3, "Clusters M", 1, 6, 1, help="DynUCB is told this number, even where there are none")
    spread: float = control(0.0, "Spread within a cluster ρ", 0, 0.6, 0.05)
    radius: float = control(0.4, "Radius of the test c", 0.1, 1.5, 0.1, help="1 is the radius of the theory")
    rounds: int = fixed(200, "Rounds T", ge=1, le=5000)
    arms: int = fixed(20, "Arms K", ge=2, le=500)
    dimension: int = fixed(5, "Dimension d", ge=1, le=30)
    noise: float = fixed(1.0, "Noise σ", ge=0)
    explore: float = fixed(1.0, "Exploration α", ge=0)
    ridge: float = fixed(1.0, "Ridge λ", ge=1e-6)
    delta: float = fixed(0.1, "Error allowed to the confidence sets δ", ge=1e-12, le=1)
    club_gamma: float = fixed(0.5, "Confidence bound of CLUB γ", ge=0)

    @model_validator(mode="after")
    def _enough_agents(self):
        if self.clusters > self.agents:
            raise ValueError(f"clusters: at most one for each agent, so 1 to {self.agents}")
        return self


def make_world(s: BassSettings, rng: np.random.Generator) -> network.World:
    """Gaussian arms and parameters; without clusters every agent has a label of its own."""
    arms = rng.normal(size=(s.arms, s.dimension))
    labels = np.arange(s.agents)
    if s.structure == "clusters":
        labels = labels % s.clusters
        centres = rng.normal(size=(s.clusters, s.dimension))
        thetas = centres[labels] + s.spread * rng.normal(size=(s.agents, s.dimension))
    elif s.structure == "chain":
        angle = np.linspace(0, np.pi, s.agents)[:, None]
        start, side = rng.normal(size=(2, s.dimension))
        thetas = np.cos(angle) * start + np.sin(angle) * side
    else:
        thetas = rng.normal(size=(s.agents, s.dimension))
    return network.World(arms, thetas, labels, s.noise * rng.normal(size=(s.rounds, s.agents)))


# --- the method (pooling and pulling, the same for all methods, are in `network.play`) ------------------------


def least_overlap(gap: np.ndarray, shapes: np.ndarray, radii: np.ndarray) -> np.ndarray:
    """min K (m,) of m pairs of ellipsoids {θ: (θ−θ̂)ᵀ A (θ−θ̂) ≤ radius²}, negative if they are disjoint.

    `gap` (m, d): difference of the centres, `shapes` (2, m, d, d): their A, `radii` (2, m).
    """
    root = np.linalg.cholesky(shapes[1]) / radii[1, :, None, None]  # L with L Lᵀ = P_j⁻¹
    first = radii[0, :, None, None] ** 2 * np.linalg.inv(shapes[0])  # P_i
    eigenvalues, vectors = np.linalg.eigh(np.swapaxes(root, 1, 2) @ first @ root)
    v2 = (np.swapaxes(root @ vectors, 1, 2) @ gap[..., None])[..., 0] ** 2
    excess = eigenvalues - 1
    low, high = np.zeros((2, len(gap), 1))
    high += 1
    for _ in range(14):  # K is convex: bisection on its slope
        s = (low + high) / 2
        falling = (v2 * (1 - 2 * s - excess * s**2) / (1 + s * excess) ** 2).sum(1, keepdims=True) > 0
        low, high = np.where(falling, s, low), np.where(falling, high, s)
    s = (low + high) / 2
    return 1 - (v2 * s * (1 - s) / (1 + s * excess)).sum(1)


def told_apart(settings: BassSettings, grams: np.ndarray, estimates: np.ndarray, norm: np.ndarray) -> np.ndarray:
    """Which of m pairs of agents (m,) have disjoint confidence ellipsoids.

    `grams` (2, m, d, d) and `estimates` (2, m, d): what the two agents learned alone, `norm` (m,): S.
    """
    eye = np.eye(settings.dimension)
    log_det = np.linalg.slogdet(eye + grams / settings.ridge)[1]
    beta = np.sqrt(settings.ridge) * norm + settings.noise * np.sqrt(2 * np.log(1 / settings.delta) + log_det)
    radii, shapes = settings.radius * beta, grams + settings.ridge * eye
    gap = estimates[0] - estimates[1]
    # a centre inside the other ellipsoid is a common point: no eigenvalues needed
    apart = (np.einsum("md,amde,me->am", gap, shapes, gap) > radii**2).all(0)
    apart[apart] = least_overlap(gap[apart], shapes[:, apart], radii[:, apart]) < 0
    return apart


class Bass:
    """The sharing graph (N, N) of BASS: complete at first, an edge is cut for good when its ends are told apart."""

    def __init__(self, settings: BassSettings, norm: float):
        self.settings, self.norm = settings, norm
        self.graph = np.ones((settings.agents, settings.agents), dtype=bool)

    def update(self, local: Local) -> None:
        pairs = np.stack(np.nonzero(np.triu(self.graph, 1)))
        norm = np.full(pairs.shape[1], self.norm)
        i, j = pairs[:, told_apart(self.settings, local.grams[pairs], local.estimates[pairs], norm)]
        self.graph[i, j] = self.graph[j, i] = False


# --- one run ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """Regret (T,) by method, the graphs of BASS (T+1, N, N) and the true one, like agents side by side, and the
    two-agent trade-off by gap."""

    regret: dict[str, np.ndarray]
    graphs: np.ndarray
    alike: np.ndarray
    trades: dict[float, TradeOff]
    measures: Measures


def compare(s: BassSettings, seed: int) -> tuple[network.World, network.Play]:
    """All methods on one network, on the same arms and noise."""
    rng = np.random.default_rng(seed)
    world = make_world(s, rng)
    sharing: dict[str, Sharing] = {
        BASS: Bass(s, float(np.linalg.norm(world.thetas, axis=1).max())),
        ALONE: Fixed(np.eye(s.agents, dtype=bool)),
        CLUB: Club(s.agents, s.club_gamma),
        DYNUCB: DynUcb(s.agents, s.clusters, rng),
        ALL: Fixed(np.ones((s.agents, s.agents), dtype=bool)),
        ORACLE: Fixed(world.alike),
    }
    return world, network.play(world, sharing, s.explore * s.noise, s.ridge)


def run(settings: BassSettings, seed: int) -> Run:
    """The network under all methods, and the trade-off of two agents at three gaps."""
    s = settings
    world, played = compare(s, seed)
    rng = np.random.default_rng([seed, 1])
    test = partial(told_apart, s)
    trades = {g: trade_off(g, test, rng, dimension=s.dimension, ridge=s.ridge, noise=s.noise) for g in GAPS}
    found = {m: network.agreement(played.graphs[m][-1], world.alike) for m in (BASS, CLUB, DYNUCB)}
    measures: Measures = {
        "regret": {m: float(r[-1]) for m, r in played.regret.items()},
        "edge_f1": {m: f1 for m, (f1, _) in found.items()},
        "false_cuts": {m: cut for m, (_, cut) in found.items()},
        "separation": {BASS: network.separation_round(played.graphs[BASS], world.alike)},
        "hurts_from": {f"gap {g:g}": float(t.hurts_from) for g, t in trades.items()},
        "told_apart": {f"gap {g:g}": t.told_apart for g, t in trades.items()},
    }
    for t in (t for t in CHECKPOINTS if t < s.rounds):
        measures[f"regret_{t}"] = {m: float(r[t - 1]) for m, r in played.regret.items()}
    order = np.argsort(world.labels, kind="stable")
    ordered = np.ix_(order, order)
    graphs = played.graphs[BASS][:, order][:, :, order]
    return Run(played.regret, graphs, world.alike[ordered], trades, measures)


def chain_probe(settings: BassSettings, seed: int) -> Measures:
    """The regret on a chain of parameters, where there are no clusters to find."""
    _, played = compare(settings.replace(structure="chain"), seed)
    return {"chain_regret": {m: float(r[-1]) for m, r in played.regret.items()}}


# --- figures ------------------------------------------------------------------------------------------


@across_seeds
def regret_figure(run: Run, samples: Samples | None) -> go.Figure:
    """Lower is better: BASS should stay near the oracle, which is told the clusters. Reward lost so far by all
    agents together: at a preset the mean over seeds with a 95 % band for BASS, else one run."""
    fig = charts.blank("Round (log scale)", "Network regret so far (reward, log scale)", log_x=True, log_y=True)
    last = len(run.regret[BASS])
    for name, curve in run.regret.items():
        rounds, regret, band = np.arange(1, last + 1), curve, None
        if samples is not None:
            rounds = np.array([*(t for t in CHECKPOINTS if t < last), last])
            keys = [*(f"regret_{t}" for t in rounds[:-1]), "regret"]
            over_seeds = [
                charts.interval_of(samples, k, name, curve[t - 1]) for k, t in zip(keys, rounds, strict=True)
            ]
            regret, low, high = np.array(over_seeds).T
            band = (np.maximum(low, regret / 10), high) if name == BASS else None  # a log axis ends above 0
        charts.line(fig, name, rounds, np.maximum(regret, 1e-3), ROLES[name], band=band)
    charts.end_labels(fig)
    ticks = [3, 10, 30, 100, 300, 1000, 3000, 10_000]
    fig.update_yaxes(tickvals=ticks, ticktext=[f"{v:,}" for v in ticks])
    fig.update_xaxes(tickvals=[*CHECKPOINTS, last], ticktext=[str(t) for t in (*CHECKPOINTS, last)])
    return fig


def graph_figure(run: Run) -> go.Figure:
    """The blocks on the left should become those on the right: dark means two agents share their samples. Rows and
    columns are the agents, like ones side by side. The slider goes through the rounds."""
    fig = charts.blank(height=430)
    fig.set_subplots(1, 2, horizontal_spacing=0.08)
    last = len(run.graphs) - 1
    rounds = [t for t in (0, *CHECKPOINTS) if t < last] + [last]
    hover = "agents %{y} and %{x}: %{z}"
    agent = np.arange(1, len(run.alike) + 1)
    for column, z in enumerate((run.graphs[-1], run.alike), 1):
        charts.picture(fig, z.astype(int), hover=hover, x=agent, y=agent, xgap=1, ygap=1, row=1, col=column)
        fig.update_yaxes(autorange="reversed", scaleanchor=f"x{column}", constrain="domain", row=1, col=column)
    fig.update_xaxes(constrain="domain", showticklabels=False, showgrid=False)
    fig.update_yaxes(showticklabels=False, showgrid=False)
    charts.name_y(fig, "<b>who shares in BASS</b>", xref="x domain", yref="y domain")
    charts.name_y(fig, "who is truly alike", xref="x2 domain", yref="y2 domain")
    fig.frames = [
        go.Frame(name=str(t), data=[{"type": "heatmap", "z": run.graphs[t].astype(int)}], traces=[0])
        for t in rounds
    ]
    at_once = {"mode": "immediate", "frame": {"duration": 0, "redraw": True}, "transition": {"duration": 0}}
    fig.update_layout(
        sliders=[
            {
                "steps": [{"label": str(t), "method": "animate", "args": [[str(t)], at_once]} for t in rounds],
                "active": len(rounds) - 1,
                "currentvalue": {"prefix": "After round ", "font": {"color": charts.INK}},
                "bgcolor": charts.GRID,
                "len": 0.5,
                "pad": {"t": 6},
            }
        ]
    )
    return fig


def trade_figure(run: Run) -> go.Figure:
    """The blue upright should stand near the grey one, where pooling starts to hurt. Exact error of agent 1 of 2,
    alone and pooled, at three distances between their parameters; blue: the test tells the two apart."""
    return draw_trade_offs(run.trades)


def thumbnail(run: Run) -> str:
    """The sharing graph after the first round and after the last."""
    shown = [thumbnails.coloured(run.graphs[t], charts.SEQUENTIAL, 0, 1) for t in (1, -1)]
    return thumbnails.pictures([shown], gap=28)


# --- claims -------------------------------------------------------------------------------------------


def against(rival: str, measure: str = "regret", method: str = BASS):
    """Regret of a method relative to a rival's, paired by seed."""
    return ratio(measure, method, rival, label=f"{method} / {rival}:")


def recovered(samples: Samples) -> Verdict:
    """Holds if F1 is 0.9 on average and surely above 0.8; fails if it is surely below 0.9."""
    f1 = mean("edge_f1", BASS, label="F1")
    short = above(f1, 0.9)(samples)
    return short if short.outcome == "fails" else above(f1, 0.8, least=0.9)(samples)


def timing(gap: float):
    """The test's round relative to the round from which pooling hurts, one added to both."""
    name = f"gap {gap:g}"
    relative = per_seed(
        lambda s: (s("told_apart", name) + 1) / (s("hurts_from", name) + 1),
        "ratio",
        label=f"test / harm at {name}:",
    )
    return within(relative, 1 / 3, 3)


def no_pairs(settings: BassSettings) -> str:
    """Why there is no cluster to recover, or ""."""
    none = settings.structure != "clusters" or settings.clusters == settings.agents
    return "no two agents are in one cluster here" if none else ""


SAME = (0.95, 1.05)
DEMO = Demo(
    name="BASS",
    line="Bandit agents share samples until a test says their parameters differ.",
    topic="Bandits",
    abstract="The multi-agent linear bandit setting is a well-known setting",
    paper=Paper(
        "Adaptive Sample Sharing for Multi Agent Linear Bandits", "https://icml.cc/virtual/2025/poster/43940"
    ),
    settings=BassSettings,
    run=run,
    measures={
        "regret": Measure("Network regret", "reward", "lower", 0),
        "edge_f1": Measure("F1 of the final sharing graph against the clusters", "", "higher", 2),
        "false_cuts": Measure("Like agents told apart", "share", "lower", 2),
        "separation": Measure("Median round in which unlike agents are told apart (T + 1: never)", "", "lower", 0),
        "hurts_from": Measure("Two agents: pooling hurts from (151: never)", "samples", "", 0),
        "told_apart": Measure("Two agents: told apart at (151: never)", "samples", "", 1),
        "chain_regret": Measure("Network regret on a chain", "reward", "lower", 0),
        **{f"regret_{t}": Measure(f"Network regret by round {t}", "reward", "lower", 0) for t in CHECKPOINTS},
    },
    figures=(regret_figure, graph_figure, trade_figure),
    thumbnail=thumbnail,
    claims=(
        Claim(
            quote="whose efficiency over the current state-of-the-art is validated",
            says="Less regret than learning alone, CLUB and DynUCB",
            rule=all_of(*(below(against(rival), 1, most=0.95, same=SAME) for rival in (ALONE, CLUB, DYNUCB))),
        ),
        Claim(
            quote="does not rely on any assumptions on the bandit parameters structure",
            says="On a chain without clusters, little worse than learning alone, while DynUCB loses",
            rule=all_of(
                below(against(ALONE, "chain_regret"), 1.25),
                above(against(ALONE, "chain_regret", DYNUCB), 1, same=SAME),
            ),
            probe=chain_probe,
        ),
        Claim(
            quote="when agents' parameters display a cluster structure, our algorithm accurately recovers them",
            says="The final sharing graph is the true clusters",
            rule=recovered,
            applies=no_pairs,
        ),
        Claim(
            quote="the trade-off between the bias and uncertainty of the bandit parameter estimation",
            says="The test parts two agents about when pooling starts to hurt (within a factor 3)",
            rule=all_of(*(timing(gap) for gap in GAPS)),
        ),
    ),
    presets={
        "Break it: unrelated agents": BassSettings(structure="unrelated"),
        "Theory radius": BassSettings(radius=1.0),
        "Almost clusters": BassSettings(spread=0.1),
    },
    break_it="Break it: unrelated agents",
    why_it_breaks="When no two agents are alike, every round spent pooled before the test fires is pure bias.",
    simplified=(
        "12 agents, 20 arms, 5 dimensions and 200 rounds of synthetic data; no real recommendation data. All agents "
        "pull in every round instead of one at random. The noise and the largest parameter norm are known. The test "
        "has 0.4 of its theoretical radius, which is too cautious for 200 rounds. CLUB has the best of five "
        "confidence bounds; its successor SCLUB is left out."
    ),
    seeds=16,
)
