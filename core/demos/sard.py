r"""A *learning-to-defer* system has several deciders, here a small model and two human-like experts, and a rejector
that sends each query to one of them. The deciders are trained first and fixed; the rejector is trained second. Who
can nudge its input can misroute queries, to make the system costly or to flood one decider.

**Costs.** Decider $j$ costs $c_j=1[\text{wrong}]+\beta_j$ on a query; $\tau_j=\sum_{i\ne j}c_i$. The rejector
picks $\arg\max_jr_j(x)$. Its usual training loss is a sum over deciders,

$$\sum_j\tau_j\,\Psi^u(v_j),\qquad v_j=\sum_{i\ne j}e^{r_i-r_j},\qquad \Psi^1(v)=\log(1+v).$$

**SARD** adds a price for letting the margins move inside a ball of radius $\epsilon$:

$$\sum_j\tau_j\Big[\Psi^u\big(v_j(r(x)/\rho)\big)+\nu\sup_{\|x'_j-x\|_\infty\le\epsilon}
\big\|\bar\Delta(x'_j,j)-\bar\Delta(x,j)\big\|_2\Big],\quad \bar\Delta(x,j)=(r_j-r_i)_{i\ne j}.$$

Each decider has an inner point $x'_j$ of its own, found by sign ascent from a *random* start (at $x$ itself the
gradient of the norm is zero); gradients flow through both margins (`sard_gradient`).

**Attacks** are stronger than what training saw: twenty sign steps. *Untargeted* raises the surrogate, *targeted*
sends queries to a chosen decider. Deciders see the clean input; only the rejector is attacked. A rejector that sends
everything to one decider cannot be attacked: its largest share is therefore reported beside every figure. Constants
and data are ours.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import plotly.graph_objects as go
from sklearn.linear_model import LogisticRegression

from core.demos import _sard_rejector as rejector
from core.demos._sard_rejector import Training
from core.lab import charts, thumbnails
from core.lab.datasets import digits
from core.lab.demo import Claim, Demo, Measure, Measures, Paper, Settings, choice, control, fixed
from core.lab.verdicts import Samples, Verdict, above, all_of, below, difference, join, mean, per_seed

SARD, STANDARD, ADVERSARIAL, SINGLE, ORACLE = (
    "SARD",
    "standard",
    "adversarial training",
    "best single decider",
    "best per query",
)
ROLES = charts.roles(SARD, (STANDARD, ADVERSARIAL), (SINGLE, ORACLE))
TRAINED = (STANDARD, ADVERSARIAL, SARD)
DECIDERS = ("model", "expert 0–4", "expert 5–9")
FEE, TRAIN, TEST = 0.05, 600, 500
RADII = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2)


class DeferralSettings(Settings):
    radius: float = control(0.1, "Attack radius ε", 0.0, 0.3, 0.01, unit="of the pixel range")
    nu: float = control(0.1, "Robustness weight ν", 0.0, 0.5, 0.05)
    rho: float = control(1.0, "Margin scale ρ", 0.3, 3.0, 0.1)
    labelled: int = control(60, "Images that train the model", 20, 400, 20, unit="images")
    shown: Literal["untargeted", "model", "expert 0–4", "expert 5–9"] = choice(
        "untargeted", "Attack in the pictures"
    )
    steps: int = fixed(250, "Training steps", ge=1, le=5000)
    hidden: int = fixed(32, "Hidden units", ge=1, le=512)


@dataclass(frozen=True)
class Data:
    """Noisy digits for the rejector (600) and the test (500) with every decider's cost (n, 3)."""

    x: np.ndarray
    cost: np.ndarray
    test_x: np.ndarray
    test_cost: np.ndarray


def make_data(s: DeferralSettings, seed: int) -> Data:
    """A frozen logistic model, two experts each right on half of the digits. Raises ValueError for one class."""
    rng = np.random.default_rng([seed, 101])
    pixels, labels = digits()
    order = rng.permutation(len(pixels))[: s.labelled + TRAIN + TEST]
    x = np.clip(pixels[order] + rng.normal(0, 0.15, (len(order), 64)), 0, 1)
    y = labels[order]
    if len(set(y[: s.labelled])) < 2:
        raise ValueError("labelled: the model needs images of at least two digits")
    model = LogisticRegression(max_iter=300).fit(x[: s.labelled], y[: s.labelled])
    rest, truth = x[s.labelled :], y[s.labelled :]
    wrong = model.predict(rest) != truth
    cost = [wrong.astype(float)]
    for low in (True, False):
        right = rng.random(len(truth)) < np.where((truth < 5) == low, 0.95, 0.2)
        cost.append((~right).astype(float) + FEE)
    c = np.column_stack(cost)
    return Data(rest[:TRAIN], c[:TRAIN], rest[TRAIN:], c[TRAIN:])


def routed(w: rejector.Weights, x: np.ndarray) -> np.ndarray:
    """Decider (n,) that each query is sent to."""
    return rejector.scores(w, x)[0].argmax(1)


@dataclass(frozen=True)
class Attacked:
    """Allocation (n,) of test queries: clean, untargeted from two starts, targeted at each decider."""

    clean: np.ndarray
    worst: np.ndarray
    targeted: list[np.ndarray]
    images: dict[str, np.ndarray]


def attack(w: rejector.Weights, d: Data, radius: float, rng: np.random.Generator, steps: int = 20) -> Attacked:
    """All attacks on one rejector; the untargeted cost is the worse of two starts, query by query."""
    x, cost = d.test_x, d.test_cost
    tau = cost.sum(1, keepdims=True) - cost
    both = np.concatenate([x, x])
    start = np.concatenate([x, rejector.random_start(x, radius, rng)])
    moved = rejector.untargeted(w, both, np.concatenate([tau, tau]), start, radius, steps).reshape(2, *x.shape)
    where = np.stack([routed(w, m) for m in moved])
    paid = np.take_along_axis(cost, where.T, 1)
    pick, rows = paid.argmax(1), np.arange(len(x))
    images = {"untargeted": moved[pick, rows]}
    aimed = []
    for t, name in enumerate(DECIDERS):
        images[name] = rejector.targeted(w, x, t, radius, steps)
        aimed.append(routed(w, images[name]))
    return Attacked(routed(w, x), where[pick, rows], aimed, images)


def mean_cost(d: Data, where: np.ndarray) -> float:
    return float(np.take_along_axis(d.test_cost, where[:, None], 1).mean())


@dataclass(frozen=True)
class Run:
    """Costs against the radius, allocations, six attacked digits, measures."""

    curve: dict[str, list[float]]
    shares: dict[str, dict[str, np.ndarray]]
    pictures: list[tuple[np.ndarray, np.ndarray, int, int]]
    radius: float
    measures: Measures


def rejectors(s: DeferralSettings, d: Data, seed: int) -> dict[str, rejector.Weights]:
    """The three rejectors, from the same start and batches."""
    plain = Training(s.radius, steps=s.steps, hidden=s.hidden)
    how = {STANDARD: plain, ADVERSARIAL: replace(plain, adversarial=True), SARD: replace(plain, nu=s.nu, rho=s.rho)}
    return {m: rejector.train(d.x, d.cost, h, seed) for m, h in how.items()}


def run(settings: DeferralSettings, seed: int) -> Run:
    """Train, attack, and count what every query costs."""
    s, d = settings, make_data(settings, seed)
    trained = rejectors(s, d, seed)
    single, oracle = int(d.cost.mean(0).argmin()), float(d.test_cost.min(1).mean())
    measures: Measures = {"clean": {}, "untargeted": {}, "targeted": {}, "success": {}, "largest": {}}
    shares: dict[str, dict[str, np.ndarray]] = {}
    curve: dict[str, list[float]] = {m: [] for m in ROLES}
    for m, w in trained.items():
        a = attack(w, d, s.radius, np.random.default_rng([seed, 102]))
        measures["clean"][m], measures["untargeted"][m] = mean_cost(d, a.clean), mean_cost(d, a.worst)
        measures["targeted"][m] = float(np.mean([mean_cost(d, where) for where in a.targeted]))
        moved = [np.mean(where[a.clean != t] == t) for t, where in enumerate(a.targeted) if (a.clean != t).any()]
        measures["success"][m] = float(np.mean(moved))
        shares[m] = {n: np.bincount(where, minlength=3) / TEST for n, where in
                     {"clean": a.clean, "untargeted": a.worst, **{f"to {k}": t for k, t in zip(DECIDERS, a.targeted, strict=True)}}.items()}  # fmt: skip
        measures["largest"][m] = float(shares[m]["clean"].max())
        if m == STANDARD:
            there = a.images[s.shown]
            changed = np.flatnonzero(routed(w, there) != a.clean)[:6]
            kept = [(d.test_x[i], there[i], int(a.clean[i]), int(routed(w, there[i : i + 1])[0])) for i in changed]
    small = Data(d.x, d.cost, d.test_x[:200], d.test_cost[:200])
    for m, w in trained.items():
        for radius in RADII:
            a = attack(w, small, radius, np.random.default_rng([seed, 103]), 10)
            curve[m].append(mean_cost(small, a.worst))
    flat = float(d.test_cost[:, single].mean())
    curve[SINGLE], curve[ORACLE] = [flat] * len(RADII), [oracle] * len(RADII)
    for key in ("clean", "untargeted"):
        measures[key] |= {SINGLE: flat}
    measures["clean"][ORACLE] = oracle
    return Run(curve, shares, kept, s.radius, measures)


# --- figures ---


def cost_figure(run: Run) -> go.Figure:
    """Lower and flatter is better: what a query costs when the rejector's input may be moved by this much. Dotted:
    the best single decider, which no attack can touch, and the best decider for every query."""
    fig = charts.blank("Attack radius (share of the pixel range)", "Cost per query under attack")
    for m, role in ROLES.items():
        charts.line(fig, m, np.array(RADII), np.array(run.curve[m]), role, markers=m in TRAINED)
    charts.moment(fig, max(run.radius, 1e-9), "trained for")
    charts.end_labels(fig)
    return fig


def share_figure(run: Run) -> go.Figure:
    """Whom do the queries go to? A vulnerable rejector is emptied into whatever decider the attacker wants; one
    colour that never moves means that deferral was given up. Shares of the three deciders, clean and attacked."""
    fig = charts.panels(list(run.shares), height=330, x="Share of queries (%)")
    colours = (charts.MARK["oracle"], charts.MARK["method"], charts.MARK["baseline1"])
    for col, by_case in enumerate(run.shares.values(), 1):
        cases = list(by_case)
        for k, name in enumerate(DECIDERS):
            fig.add_bar(x=[100 * by_case[c][k] for c in cases], y=cases, orientation="h", name=name, row=1, col=col,
                        marker={"color": colours[k], "line": {"width": 0}}, hovertemplate=name + ": %{x:.0f} %<extra></extra>")  # fmt: skip
    fig.update_layout(barmode="stack", margin_b=84)
    fig.update_yaxes(autorange="reversed", type="category", tickfont={"color": charts.INK}, showgrid=False)
    fig.update_xaxes(range=[0, 100], tickvals=[0, 50, 100])
    for k, (name, role) in enumerate(zip(DECIDERS, ("oracle", "method", "baseline1"), strict=True)):
        fig.add_annotation(x=0.02 + 0.2 * k, y=-0.27, xref="paper", yref="paper", text=f"■ {name}", showarrow=False,
                           xanchor="left", font={"size": 13, "color": charts.TEXT[role]})  # fmt: skip
    return fig


def picture_figure(run: Run) -> go.Figure:
    """Small changes, another decider: digits above, the attack's change below, and where the standard rejector
    sent the query before and after."""
    n = max(len(run.pictures), 1)
    titles = [f"{DECIDERS[a]}<br>→ {DECIDERS[b]}" for *_, a, b in run.pictures] or ["no query was moved"]
    fig = charts.panels([*titles, *[""] * n], rows=2, height=300, shared_y=False)
    for col, (before, after, _, _) in enumerate(run.pictures, 1):
        charts.picture(fig, before.reshape(8, 8), scale=charts.GREYS, row=1, col=col)
        change = (after - before).reshape(8, 8)
        reach = max(run.radius, 1e-6)
        charts.picture(fig, change, scale=charts.DIVERGING, limits=(-reach, reach), row=2, col=col)
    if not run.pictures:
        charts.picture(fig, np.zeros((8, 8)), scale=charts.GREYS, row=1, col=1)
    fig.update_xaxes(visible=False)
    fig.update_yaxes(visible=False)
    fig.update_layout(margin_t=64)
    return fig


def thumbnail(run: Run) -> str:
    x = np.array(RADII)
    return thumbnails.lines({m: (x, np.array(run.curve[m])) for m in (STANDARD, SARD, SINGLE)}, ROLES)


# --- claims ---


def vulnerable_rule(samples: Samples) -> Verdict:
    """The standard rejector's cost rises by 0.1 and more than half of the queries can be sent where one likes."""
    rise = above(
        per_seed(lambda s: s("untargeted", STANDARD) - s("clean", STANDARD), "difference", label="cost:"), 0.1
    )
    return all_of(rise, above(mean("success", STANDARD, label="targeted success:"), 0.5))(samples)


def robust(measure: str, label: str):
    return below(difference(measure, SARD, STANDARD, label=label), 0, most=-0.02, same=(-0.02, 0.02))


def robust_rule(samples: Samples) -> Verdict:
    """Lower cost and fewer targeted hits; whether deferral still pays under attack stands in the note."""
    found = join(
        [robust("untargeted", "cost under attack:")(samples), robust("success", "targeted success:")(samples)]
    )
    gap = float((samples("untargeted", SARD) - samples("untargeted", SINGLE)).mean())
    share = float(samples("largest", SARD).mean())
    note = f"{gap:+.2f} against the best single decider; largest share {share:.0%}".replace("-", "−")
    return Verdict(**{**found.__dict__, "note": note})


DEMO = Demo(
    name="SARD",
    line="Tiny pixel noise misroutes digits between a model and two experts; SARD resists.",
    topic="Robustness",
    abstract="Two-stage Learning-to-Defer (L2D) enables optimal task",
    paper=Paper(
        "Adversarial Robustness in Two-Stage Learning-to-Defer: Algorithms and Guarantees",
        "https://icml.cc/virtual/2025/poster/44436",
    ),
    settings=DeferralSettings,
    run=run,
    measures={
        "clean": Measure("Cost per query, clean", better="lower"),
        "untargeted": Measure("Cost per query, untargeted attack", better="lower"),
        "targeted": Measure("Cost per query, targeted attacks", better="lower"),
        "success": Measure("Queries that reach the attacker's target", "share", "lower", 2),
        "largest": Measure("Largest share of one decider, clean", "share", digits=2),
    },
    figures=(cost_figure, share_figure, picture_figure),
    thumbnail=thumbnail,
    claims=(
        Claim(
            "vulnerable to adversarial perturbations that can manipulate query allocation",
            "A standard rejector is misrouted by small changes of its input",
            vulnerable_rule,
        ),
        Claim(
            "significantly improves robustness under adversarial attacks",
            "SARD costs less under attack and is harder to steer",
            robust_rule,
        ),
        Claim(
            "maintaining strong clean performance",
            "Without an attack SARD costs at most 0.03 more",
            below(difference("clean", SARD, STANDARD), 0.03),
        ),
    ),
    presets={
        "Break it: radius 0.3": DeferralSettings(radius=0.3),
        "Too much ν": DeferralSettings(nu=0.5),
        "Weak attack": DeferralSettings(radius=0.02),
        "ν = 0": DeferralSettings(nu=0.0),
    },
    break_it="Break it: radius 0.3",
    why_it_breaks=(
        "At radius 0.3 any input can be moved across every boundary, so the only smooth rejector left is a constant one "
        "and deferral is given up."
    ),
    simplified=(
        "A network of 32 hidden units on 8×8 digits with synthetic experts; classification only (no regression or "
        "multi-task run); the inner supremum is two sign steps. The surrogate is convex in the scores, the network is "
        "not. ν was chosen on other seeds. The cost curve uses 200 queries and ten attack steps."
    ),
)
