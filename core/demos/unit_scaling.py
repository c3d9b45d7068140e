r"""An 8-bit float has few exponents: values outside a narrow window become 0 or are clipped. The usual repair
measures the largest entry of each tensor and rescales it, at every step. µnit Scaling (µS) instead builds the
network so that weights, activations and gradients all have size about 1, where 8 bits suffice.

- **Weights** start as $N(0,1)$, not $N(0,0.02^2)$.
- **Hidden linear**: $Y=\alpha\,q_4(X)\,q_4(W)$ with the fixed factor $\alpha=1/\sqrt{\text{fan in}}$; backward
  $\partial X=\alpha\,q_5(G)\,q_4(W)^\top$ and $\partial W=\alpha\,q_4(X)^\top q_5(G)$. Here $q_4$ is a clip and cast
  to e4m3 and $q_5$ to e5m2 (`quantize`).
- **Residual block**: $x\leftarrow\sqrt{1-\tau}\,x+\sqrt\tau\,\mathrm{LN}(f(x))$ with mixing weight $\tau$ (`tau`),
  the norm at the *end* of the branch.
- **Head**: $\frac1d\mathrm{LN}(x)W$, in full precision, for width $d$ (`width`).
- **Learning rate**: $\eta$ for embedding and head, $\eta\sqrt{d_\text{base}/d}$ for hidden matrices, so one $\eta$
  serves all widths.

The norm at the end is needed because attention shrinks: with independent scores, a softmax over $k$ tokens gives
an output variance of about $e/k-(e-1)/k^2$, not 1.

The rival is standard parametrization (SP): $x\leftarrow x+f(\mathrm{LN}(x))$ and no factors. Averaging a loss over
$n_\text{tok}$ tokens (`log_tokens` is its $\log_2$) makes SP's gradients so small that e5m2 turns them into 0.
All arms train with Lion, which uses only signs, so in float32 the size of the gradient does not matter.

Where the paper is silent we guessed how the gradient gets its unit size (a fixed factor on the loss), norms
without gains, and the toy language.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import plotly.graph_objects as go
from pydantic import model_validator

from core.demos import _unit_scaling_net as net
from core.lab import charts, thumbnails
from core.lab import demo as lab
from core.lab.demo import Claim, Demo, Measure, Measures, Paper, across_seeds, choice, control, fixed
from core.lab.verdicts import (
    Samples,
    Verdict,
    above,
    all_of,
    below,
    difference,
    in_seeds,
    mean,
    per_seed,
    untestable,
    within,
)

MU, MU32, SP32, SP8, DYN = "µS FP8", "µS float32", "SP float32", "SP FP8, no scales", "SP FP8, dynamic"
ROLES = charts.roles(MU, (SP8, DYN, MU32), SP32)
WIDTHS = (8, 16, 32)
GRIDS = {"µS": np.arange(-5, 1), "SP": np.arange(-9, -3)}
TOKENS = 2 ** np.arange(9)
WIDTH_ROLES: tuple[charts.Role, ...] = ("baseline1", "baseline2", "method")


class Settings(lab.Settings):
    width: int = control(32, "Width of the precision panel", 16, 48, 16)
    log_tokens: int = control(16, "Tokens the loss is averaged over, log₂", 6, 20, 1, help="16 is 65,536 tokens")
    tau: float = control(0.4, "Residual mixing τ", 0.05, 0.5, 0.05)
    activation: Literal["relu", "gelu"] = choice("relu", "Activation", labels={"relu": "ReLU", "gelu": "GELU"})
    steps: int = fixed(32, "Training steps", ge=1, le=500)

    @model_validator(mode="after")
    def _heads_fit(self):
        if self.width % 8:
            raise ValueError("width: must be a multiple of 8, the size of a head")
        return self


def language(rng: np.random.Generator) -> tuple[np.ndarray, float]:
    """Second-order Markov source P (16, 16, 16) over (a, b, next), and its entropy rate in nats."""
    a, b = rng.normal(0, 1.5, (2, 16, 16))
    raw = np.exp(a[None] + b[:, None])
    p = raw / raw.sum(-1, keepdims=True)
    pairs = np.full((16, 16), 1 / 256)
    for _ in range(500):
        pairs = np.einsum("ab,abc->bc", pairs, p)
    return p, float(-(pairs[..., None] * p * np.log(p)).sum())


def sample(rng: np.random.Generator, p: np.ndarray, rows: int) -> np.ndarray:
    """Rows (rows, 9) of symbols after 20 that are dropped."""
    text = [*rng.integers(0, 16, (2, rows))]
    cumulated = np.cumsum(p, -1)
    for u in rng.random((27, rows)):
        text.append(np.minimum((u[:, None] > cumulated[text[-2], text[-1]]).sum(1), 15))
    return np.array(text[-9:]).T


def attention(rng: np.random.Generator, draws: int = 4000, correlation: float = 0.3) -> dict[str, np.ndarray]:
    """Output variance of softmax attention over 1…256 tokens with N(0,1) scores; values independent or not."""
    found: dict[str, list[float]] = {n: [] for n in ("softmax", "square root", "correlated", "root, correlated")}
    for k in TOKENS:
        e = np.exp(rng.standard_normal((draws, k), dtype=np.float32))
        p = e / e.sum(1, keepdims=True)
        squares = float((p * p).sum(1).mean())
        root = float((np.sqrt(p).sum(1) ** 2).mean())
        found["softmax"].append(squares)
        found["square root"].append(float(p.sum(1).mean()))
        found["correlated"].append(correlation + (1 - correlation) * squares)
        found["root, correlated"].append(1 - correlation + correlation * root)
    return {n: np.array(v) for n, v in found.items()}


def law(k: np.ndarray) -> np.ndarray:
    return np.e / k - (np.e - 1) / k**2


@dataclass(frozen=True)
class Run:
    """rates: scheme -> width -> losses over its grid; the five arms; attention variances; entropy rate."""

    rates: dict[str, dict[int, np.ndarray]]
    arms: dict[str, dict[str, float]]
    attention: dict[str, np.ndarray]
    entropy: float
    measures: Measures


def held_out(w: net.Weights, rows: np.ndarray, s: net.Setup, fine: np.ndarray) -> np.ndarray:
    """Held-out loss per variant; NaN marks a diverged arm."""
    return np.where(fine, net.Pass(w, rows, s).loss, np.nan)


def rate_panel(normals: dict[int, net.Weights], batches: list, test: np.ndarray, settings: Settings) -> dict:
    """Held-out loss in float32 for every scheme, width and learning rate."""
    found: dict[str, dict[int, np.ndarray]] = {}
    for scheme, code in (("µS", "mu"), ("SP", "sp")):
        rates = tuple(2.0 ** GRIDS[scheme])
        found[scheme] = {}
        for d in WIDTHS:
            setup = net.Setup(code, d, rates, ("float",) * 6, settings.tau, settings.activation)
            w, _, fine = net.train(normals[d], batches, setup)
            found[scheme][d] = held_out(w, test, setup, fine)
    return found


def precision_panel(normal: net.Weights, batches: list, test: np.ndarray, settings: Settings) -> dict:
    """Arm -> loss, shares lost, maximum searches per step, numerics gap."""
    found: dict[str, dict[str, float]] = {}
    for code, rate, names in (("sp", 2**-7, (SP32, SP8, DYN)), ("mu", 2**-2, (MU32, MU))):
        modes = ("float", "static", "dynamic") if code == "sp" else ("float", "static")
        s = net.Setup(
            code, settings.width, (rate,) * len(modes), modes, settings.tau, settings.activation,
            2.0**settings.log_tokens,
        )  # fmt: skip
        w, tally, fine = net.train(normal, batches, s)
        loss = held_out(w, test, s, fine)
        gap = held_out(w, test, replace(s, modes=("static",) * len(modes)), fine) - loss
        for v, name in enumerate(names):
            found[name] = {"loss": float(loss[v]), "gap": float(gap[v])}
            if modes[v] != "float":
                found[name] |= {
                    "gradient_lost": tally.share("gradient", v),
                    "activation_lost": tally.share("activation", v),
                    "searches": float(tally.searches[v]),  # type: ignore[index]
                }
    return {name: found[name] for name in (MU, MU32, SP32, SP8, DYN)}


def run(settings: Settings, seed: int) -> Run:
    """Both panels and the attention law on one source."""
    rng = np.random.default_rng([seed, 41])
    p, entropy = language(rng)
    rows = sample(rng, p, 8 * settings.steps + 64)
    batches, test = list(rows[:-64].reshape(settings.steps, 8, 9)), rows[-64:]
    normals = {d: net.draw(np.random.default_rng([seed, d]), d) for d in {*WIDTHS, settings.width}}
    rates = rate_panel(normals, batches, test, settings)
    arms = precision_panel(normals[settings.width], batches, test, settings)
    variances = attention(np.random.default_rng([seed, 42]))
    best = {m: {d: int(np.nanargmin(loss)) for d, loss in by.items()} for m, by in rates.items()}
    wide, narrow = WIDTHS[-1], WIDTHS[0]
    measures: Measures = {
        "loss": {m: a["loss"] for m, a in arms.items()},
        "shift": {m: float(b[wide] - b[narrow]) for m, b in best.items()},
        "regret": {m: float(rates[m][wide][b[narrow]] - rates[m][wide][b[wide]]) for m, b in best.items()},
        "gap": {m: arms[m]["gap"] for m in (MU, SP32)},
        **{
            n: {m: a[n] for m, a in arms.items() if n in a}
            for n in ("gradient_lost", "activation_lost", "searches")
        },
        "law": {f"k = {k}": float(v) for k, v in zip(TOKENS, variances["softmax"] / law(TOKENS) - 1, strict=True)},
        "entropy": {"source": entropy},
    }
    return Run(rates, arms, variances, entropy, measures)


# --- figures ------------------------------------------------------------------------------------------


def rate_figure(run: Run) -> go.Figure:
    """Compare where the lowest points lie: a rate transfers if they stand above each other. Held-out loss in float32
    at three widths; large dots are the best rates. In a flat valley the lowest point may move at no cost."""
    fig = charts.panels(["SP: held-out loss (nats)", "µS: held-out loss (nats)"], shared_y=True)
    for col, scheme in ((1, "SP"), (2, "µS")):
        for (d, loss), role in zip(run.rates[scheme].items(), WIDTH_ROLES, strict=True):
            x = GRIDS[scheme]
            charts.line(fig, f"width {d}", x, loss, role, end_label=False, row=1, col=col)
            i = int(np.nanargmin(loss))
            others = np.array([other[i] for other in run.rates[scheme].values()])
            side = "top" if loss[i] > others.min() else "bottom"
            fig.add_scatter(
                x=[x[i]], y=[loss[i]], mode="markers+text", text=[f"d={d}"], textposition=f"{side} center",
                textfont={"color": charts.TEXT[role], "size": 13}, name=f"best at width {d}", cliponaxis=False,
                marker={"size": 12, "color": charts.MARK[role]}, row=1, col=col,
                hovertemplate=f"width {d}: %{{y:.3f}}<extra></extra>",
            )  # fmt: skip
        ticks = GRIDS[scheme]
        fig.update_xaxes(range=[ticks[0] - 0.3, ticks[-1] + 0.3], row=1, col=col)
        fig.update_xaxes(
            tickvals=ticks, ticktext=[f"2<sup>−{-t}</sup>" if t else "1" for t in ticks], row=1, col=col
        )
    every = np.array([v for by in run.rates.values() for v in by.values()])
    fig.update_yaxes(range=[np.nanmin(every) - 0.12, np.nanmax(every) + 0.05])
    return fig.update_xaxes(title_text="Learning rate η (log scale)")


@across_seeds
def arms_figure(run: Run, samples: Samples | None) -> go.Figure:
    """Further left is better; dotted: the entropy rate, which no model can beat. Held-out loss of the same network in
    five arithmetics, and the share of gradient entries that the cast turned into 0. Sources differ between seeds,
    hence the wide intervals; the verdicts pair by seed."""
    fig = charts.blank("Held-out loss (nats)", height=320)
    values = {m: charts.interval_of(samples, "loss", m, a["loss"]) for m, a in run.arms.items()}
    charts.dots(fig, values, ROLES)
    entropy = charts.interval_of(samples, "entropy", "source", run.entropy)[0]
    charts.moment(fig, entropy, "entropy rate")
    right = max(v[2] for v in values.values())
    for m, a in run.arms.items():
        text = f"{values[m][0]:.2f}"
        if "gradient_lost" in a:
            lost = charts.interval_of(samples, "gradient_lost", m, a["gradient_lost"])[0]
            text += f" · {100 * lost:.0f} % of gradients lost"
        fig.add_annotation(
            x=values[m][2], y=m, text=text, showarrow=False, xanchor="left", xshift=10,
            font={"size": 13, "color": charts.TEXT[ROLES[m]]},
        )  # fmt: skip
    return fig.update_xaxes(range=[entropy - 0.05, right + 0.75 * (right - entropy)])


def attention_figure(run: Run) -> go.Figure:
    """Attention over more tokens gives ever smaller outputs, as the law e/k says. Square-root weights keep variance 1
    for independent values but overshoot when values are correlated (0.3)."""
    fig = charts.blank(
        "Tokens attended to (log scale)", "Variance of the output (log scale)", log_x=True, log_y=True
    )
    styles: dict[str, charts.Role] = {
        "softmax": "method", "square root": "baseline1", "correlated": "baseline2", "root, correlated": "baseline3"
    }  # fmt: skip
    names = {"correlated": "softmax, correlated"}
    for name, role in styles.items():
        charts.line(fig, names.get(name, name), TOKENS, run.attention[name], role)
    charts.line(fig, "law", TOKENS, law(TOKENS), "oracle")
    charts.end_labels(fig, right=150)
    return fig.update_xaxes(tickvals=[1, 4, 16, 64, 256], ticktext=["1", "4", "16", "64", "256"])


def thumbnail(run: Run) -> str:
    body = ""
    for left, scheme, role in ((12, "SP", "baseline1"), (158, "µS", "method")):
        minima = []
        for i, loss in enumerate(run.rates[scheme].values()):
            x = left + 130 * np.arange(6) / 5
            y = 14 + 36 * i + 28 * (1 - (loss - np.nanmin(loss)) / (np.nanmax(loss) - np.nanmin(loss)))
            points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
            body += f'<polyline class="s-oracle" fill="none" stroke-width="1.5" points="{points}"/>'
            best = int(np.nanargmin(loss))
            minima.append((x[best], y[best]))
        joined = " ".join(f"{a:.1f},{b:.1f}" for a, b in minima)
        body += f'<polyline class="s-{role}" fill="none" stroke-width="3.5" points="{joined}"/>'
        body += "".join(f'<circle class="f-{role}" cx="{a:.1f}" cy="{b:.1f}" r="5"/>' for a, b in minima)
    return thumbnails.svg(body)


# --- claims -------------------------------------------------------------------------------------------


def numerics_rule(samples: Samples) -> Verdict:
    """Exactly no gap in every seed; the later cast of SP float32 is named beside it."""
    after = samples("gap", SP32)
    found = in_seeds(lambda s: s("gap", MU) == 0, mean("gap", MU, digits=3, unit="nats"), bound=0)(samples)
    note = f"true by construction; casting SP float32 afterwards changes the loss by {after.mean():+.4f}"
    return replace(found, note=note.replace("-", "−"))


def closer_by(k: int) -> Callable[[Samples], np.ndarray]:
    """How much nearer to the law 2k tokens are than k, per seed."""
    return lambda s: np.abs(s("law", f"k = {k}")) - np.abs(s("law", f"k = {2 * k}"))


def attention_rule(samples: Samples) -> Verdict:
    """Within 10 % of the law at 64, 128 and 256 tokens, and closer at 256 than at 64."""
    near = [within(mean("law", f"k = {k}", digits=3, label=f"k = {k}:"), -0.1, 0.1) for k in (64, 128, 256)]
    closer = [
        above(per_seed(closer_by(k), digits=3, label=f"closer at {2 * k} than at {k} by"), 0) for k in (64, 128)
    ]
    return all_of(*near, *closer)(samples)


DEMO = Demo(
    name="µnit Scaling",
    line="Training in 8-bit floats without scale factors, at a learning rate that transfers.",
    topic="Language models",
    abstract="Large language model training with 8-bit floating point (FP8) formats",
    paper=Paper("µnit Scaling: Simple and Scalable FP8 LLM Training", "https://icml.cc/virtual/2025/poster/43942"),
    settings=Settings,
    run=run,
    measures={
        "loss": Measure("Held-out loss", "nats", "lower"),
        "shift": Measure("Best rate, width 32 against 8", "log₂", digits=1),
        "regret": Measure("Price of the narrow model's rate at width 32", "nats", "lower"),
        "gap": Measure("FP8 inference against the arithmetic of training", "nats", "lower", 4),
        "gradient_lost": Measure("Gradient entries cast to 0", "share", "lower"),
        "activation_lost": Measure("Activation entries cast to 0", "share", "lower", 4),
        "searches": Measure("Searches for a tensor's maximum per step", better="lower", digits=0),
        "law": Measure("Attention variance against the law", "relative", digits=3),
        "entropy": Measure("Entropy rate of the source", "nats"),
    },
    figures=(rate_figure, arms_figure, attention_figure),
    thumbnail=thumbnail,
    claims=(
        Claim(
            quote="requires no dynamic scaling factors or special hyperparameters",
            says="FP8 without scales matches its own float32 and is no worse than standard float32",
            rule=all_of(
                within(difference("loss", MU, MU32, digits=3, unit="nats to µS float32"), -0.03, 0.03),
                below(difference("loss", MU, SP32, digits=3, unit="nats to SP float32"), 0.03),
            ),
        ),
        Claim(
            quote="reduced numerical precision makes training challenging",
            says="Plain FP8 casts harm standard training",
            rule=above(difference("loss", SP8, SP32, digits=3, unit="nats"), 0.03),
        ),
        Claim(
            quote="simple hyperparameter transfer across model widths",
            says="The narrow model's learning rate serves the wide one better than under standard parametrization",
            rule=all_of(
                above(difference("regret", "SP", "µS", digits=3, unit="nats"), 0.03, fails_below=0),
                below(mean("regret", "µS", digits=3, unit="nats"), 0.05, fails_above=np.inf),
            ),
        ),
        Claim(
            quote="matched numerics across training and inference",
            says="The FP8 model runs as it was trained",
            rule=numerics_rule,
        ),
        Claim(
            quote="first-principles analysis of transformer operations",
            says="Attention over k tokens has output variance near e/k",
            rule=attention_rule,
        ),
        Claim(
            quote="training up to 33% faster",
            says="Faster training",
            rule=untestable("A CPU has no FP8 units; the searches for maxima that are saved are counted instead."),
        ),
    ),
    presets={"Break it: small averaging window": Settings(log_tokens=6), "GELU": Settings(activation="gelu")},
    break_it="Break it: small averaging window",
    why_it_breaks=(
        "With a small averaging window the gradients are large enough for e5m2 as they are, so plain FP8 casts lose "
        "nothing and unit scaling has nothing to repair."
    ),
    simplified=(
        "One block of width up to 48 on a toy language of 16 symbols, instead of models of 1 to 13 billion weights; "
        "widths grow 4×, not 20×, and over that range the square-root rule for the rate cannot be told apart from no "
        "rule. Float32 stands for BF16. The averaging window is simulated by a factor on the loss. Where "
        "every hidden gradient is lost (2²⁰ tokens) the hidden matrices stay as drawn, and so small a network does "
        "well without training them. No speed."
    ),
)
