r"""Learning from comparisons asks people which of two trajectories is better. Most methods assume that a trajectory
would be *continued optimally*; when the walkers differ in skill this misreads the answers.

**Regret.** In a maximum-entropy problem with temperature $\alpha$ the regret of a step $(s,a)$ of a walker with
policy $\pi_b$ is $Reg=V^*(s)-Q^{\pi_b}(s,a)$: what is lost against playing optimally from here. It obeys

$$-Reg=\alpha\big[\log\pi^*(a|s)-\bar D(\pi_b\Vert\pi^*;s,a)\big],\qquad
\bar D=E_{\pi_b}\Big[\sum_{l\ge1}\gamma^l\,KL\big(\pi_b(\cdot|s_l)\Vert\pi^*(\cdot|s_l)\big)\Big].$$

The first term judges the action, the second *how the walker would go on*. Comparisons follow
$P(\zeta^+\succ\zeta^-)=\sigma(-\sum Reg^++\sum Reg^-)$.

**Policy-labeled preference learning (PPL)** keeps the walker's policy as a label, puts the learned $\pi_\theta$ in
place of $\pi^*$ and maximises the likelihood. The contrastive KL term pulls $\pi_\theta$ towards the future behaviour
of the winner and pushes it from the loser's. Contrastive preference learning (CPL) is the same without $\bar D$.

**On a grid** the score of a trajectory is linear in $\log\pi_\theta$: each judged step adds 1 at its $(s,a)$, and
PPL adds the discounted future occupancy under the label's policy times $\pi_b$ (`future`), with transitions counted
from the recorded walks, and a constant. So data enter only through one matrix. Variants: one recorded continuation
instead of the average, and executed actions as a pseudo-label. Horizon and estimator are our reading.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import plotly.graph_objects as go
from scipy.special import expit, softmax

from core.demos import _ppl_grid as grid
from core.demos._ppl_grid import ACTIONS, SIDE, STATES, World
from core.lab import charts, thumbnails
from core.lab.demo import Claim, Demo, Measure, Measures, Paper, Settings, across_seeds, choice, control, fixed
from core.lab.nets import Adam
from core.lab.verdicts import Samples, Verdict, above, all_of, below, difference, join, mean

PPL, SAMPLED, PSEUDO, SHUFFLED = "PPL", "one sampled future", "pseudo-label", "shuffled labels"
CPL, CPL_BIAS, SFT, REWARD = "CPL", "CPL, bias 0.5", "imitation of winners", "reward + planning"
BEST = "soft-optimal"
ROLES = charts.roles(PPL, (CPL, CPL_BIAS, SFT, REWARD, SAMPLED, SHUFFLED), (BEST, PSEUDO))
JUDGED, LATER = 4, 20


class PreferenceSettings(Settings):
    pairs: int = control(400, "Pairs compared", 100, 2000, 100)
    skills: Literal["mixed", "specialists", "misguided", "equal"] = choice("mixed", "Skill of the walkers")
    slip: float = control(0.2, "Slip", 0.0, 0.5, 0.05, unit="share of steps")
    scale: float = control(4.0, "Signal scale", 1.0, 8.0, 0.5, help="Larger rewards make the judge more certain")
    judge: Literal["regret", "return"] = choice("regret", "The judge compares")
    gamma: float = fixed(0.9, "Discount γ", ge=0, lt=1)


@dataclass(frozen=True)
class Pairs:
    """Compared walks: states and actions (2, n, 24), walkers' policy index (2, n); side 0 is the winner."""

    states: np.ndarray
    actions: np.ndarray
    who: np.ndarray


def behaviours(s: PreferenceSettings, q: np.ndarray, optimal: np.ndarray, alpha: float) -> np.ndarray:
    """The walkers' policies (k, S, A): softmax(k·Q*/α) by skill k."""
    if s.skills == "specialists":
        west = (np.arange(STATES) % SIDE < 3)[:, None]
        good, bad = softmax(q / alpha, 1), softmax(-0.5 * q / alpha, 1)
        return np.stack([optimal, np.where(west, good, bad), np.where(west, bad, good)])
    skill = {"mixed": (1, 0.3, 0), "misguided": (1, 0, -0.5), "equal": (1,)}[s.skills]
    return np.stack([softmax(k * q / alpha, axis=1) for k in skill])


def compare(
    s: PreferenceSettings, w: World, policies: np.ndarray, v: np.ndarray, rng: np.random.Generator
) -> Pairs:
    """Walks judged in pairs by regret (or by the sum of rewards), the winner first."""
    who = rng.integers(0, len(policies), 2 * s.pairs)
    states, actions = grid.walks(w, policies, who, JUDGED + LATER, rng)
    first, act = states[:, :JUDGED], actions[:, :JUDGED]
    if s.judge == "regret":
        q = np.stack([grid.soft_q(w, p) for p in policies])
        value = (q[who[:, None], first, act] - v[first]).sum(1)
    else:
        value = w.reward[first].sum(1)
    a, b = value.reshape(2, -1)
    wins = rng.random(s.pairs) < expit(a - b)
    order = np.stack([np.where(wins, 0, 1), np.where(wins, 1, 0)])
    rows = order * s.pairs + np.arange(s.pairs)
    return Pairs(states[rows], actions[rows], who[rows])


def weights(
    p: Pairs, policies: np.ndarray, occupancy: np.ndarray, who: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """PPL's linear score: weights on log π_θ (2, n, S·A) and constants (2, n)."""
    first, act = p.states[..., :JUDGED], p.actions[..., :JUDGED]
    reached = occupancy[who[..., None], first, act].sum(2)
    future = reached[..., None] * policies[who]
    constant = -(reached * (policies * np.log(np.maximum(policies, 1e-300))).sum(2)[who]).sum(-1)
    return _judged(p) + future.reshape(*who.shape, -1), constant


def _judged(p: Pairs) -> np.ndarray:
    """CPL's weights (2, n, S·A): one for each judged step."""
    out = np.zeros((*p.who.shape, STATES * ACTIONS))
    sides, rows = np.indices(p.who.shape)
    for t in range(JUDGED):
        np.add.at(out, (sides, rows, p.states[..., t] * ACTIONS + p.actions[..., t]), 1)
    return out


def sampled_weights(p: Pairs, policies: np.ndarray, gamma: float, pseudo: bool) -> tuple[np.ndarray, np.ndarray]:
    """The recorded continuation in place of the average future; `pseudo` uses the executed action as policy."""
    out = _judged(p).reshape(*p.who.shape, STATES, ACTIONS)
    constant = np.zeros(p.who.shape)
    sides, rows = np.indices(p.who.shape)
    entropy = -(policies * np.log(np.maximum(policies, 1e-300))).sum(2)
    for t in range(JUDGED):
        for lag in range(1, LATER + 1):
            at = p.states[..., t + lag]
            if pseudo:
                np.add.at(out, (sides, rows, at, p.actions[..., t + lag]), gamma**lag)
            else:
                np.add.at(out, (sides, rows, at), gamma**lag * policies[p.who, at])
                constant += gamma**lag * entropy[p.who, at]
    return out.reshape(*p.who.shape, -1), constant


def loss_gradient(theta: np.ndarray, gap: np.ndarray, offset: np.ndarray, alpha: float) -> tuple[float, np.ndarray]:
    """Mean logistic loss of α(⟨gap, log π_θ⟩ + offset) with its decay, and the gradient for logits (S, A)."""
    policy = softmax(theta, axis=1)
    z = alpha * (gap @ np.log(np.maximum(policy, 1e-300)).ravel() + offset)
    g = -(alpha * expit(-z) @ gap / len(z)).reshape(theta.shape)
    decay = 1e-3 / theta.size * (theta**2).sum()
    return float(np.logaddexp(0, -z).mean() + decay), g - policy * g.sum(
        1, keepdims=True
    ) + 2e-3 * theta / theta.size


def fit(gap: np.ndarray, offset: np.ndarray, alpha: float) -> np.ndarray:
    """Policy (S, A) after 300 Adam steps from uniform."""
    theta, adam = [np.zeros((STATES, ACTIONS))], Adam(0.3)
    for _ in range(300):
        adam.step(theta, [loss_gradient(theta[0], gap, offset, alpha)[1]])
    return softmax(theta[0], axis=1)


def imitate(p: Pairs) -> np.ndarray:
    """Policy that maximises the likelihood of the winners' judged steps, same fit."""
    count = _judged(p)[0].mean(0).reshape(STATES, ACTIONS)
    theta, adam = [np.zeros((STATES, ACTIONS))], Adam(0.3)
    for _ in range(300):
        policy = softmax(theta[0], axis=1)
        adam.step(theta, [policy * count.sum(1, keepdims=True) - count + 2e-3 * theta[0] / theta[0].size])
    return softmax(theta[0], axis=1)


def plan_from_reward(p: Pairs, w: World) -> np.ndarray:
    """Bradley–Terry reward table from visit counts, then exact soft planning with the true dynamics."""
    visits = _judged(p)
    gap = visits[0] - visits[1]
    table, adam = [np.zeros(STATES * ACTIONS)], Adam(0.05)
    for _ in range(300):
        adam.step(table, [-expit(-gap @ table[0]) @ gap / len(gap) + 1e-3 * table[0]])
    reward, v = table[0].reshape(STATES, ACTIONS), np.zeros(STATES)
    for _ in range(400):
        q = reward + w.gamma * w.move @ v
        v = w.alpha * np.log(np.exp((q - q.max(1, keepdims=True)) / w.alpha).sum(1)) + q.max(1)
    return softmax(q / w.alpha, axis=1)


@dataclass(frozen=True)
class Run:
    """Policies by method, the optimal one, the reward map, and the measures."""

    policies: dict[str, np.ndarray]
    optimal: np.ndarray
    reward: np.ndarray
    measures: Measures


def run(settings: PreferenceSettings, seed: int) -> Run:
    """All methods on the same comparisons, scored between the uniform (0) and the soft-optimal policy (1)."""
    s, rng = settings, np.random.default_rng([seed, 81])
    w = grid.make_world(s.slip, s.scale, s.gamma, rng)
    q, v, optimal = grid.soft_optimal(w)
    policies = behaviours(s, q, optimal, w.alpha)
    p = compare(s, w, policies, v, rng)
    seen = grid.counted(p.states.reshape(-1, JUDGED + LATER), p.actions.reshape(-1, JUDGED + LATER))
    occupancy = np.stack([grid.future(seen, b, s.gamma) for b in policies])
    shuffled = rng.permutation(p.who.ravel()).reshape(p.who.shape)
    judged = _judged(p)
    scores = {
        PPL: weights(p, policies, occupancy, p.who),
        SAMPLED: sampled_weights(p, policies, s.gamma, False),
        PSEUDO: sampled_weights(p, policies, s.gamma, True),
        SHUFFLED: weights(p, policies, occupancy, shuffled),
        CPL: (judged, np.zeros(p.who.shape)),
        CPL_BIAS: (judged * np.array([1, 0.5])[:, None, None], np.zeros(p.who.shape)),
    }
    learned = {m: fit(a[0] - a[1], c[0] - c[1], w.alpha) for m, (a, c) in scores.items()}
    learned |= {SFT: imitate(p), REWARD: plan_from_reward(p, w), BEST: optimal}
    low, high = grid.plain_return(w, np.full((STATES, ACTIONS), 1 / ACTIONS)), grid.plain_return(w, optimal)
    measures: Measures = {
        "score": {m: (grid.plain_return(w, b) - low) / (high - low) for m, b in learned.items()},
        "kl": {m: float(grid.divergence(optimal, b).mean()) for m, b in learned.items()},
    }
    return Run(learned, optimal, w.reward, measures)


# --- figures ---


@across_seeds
def score_figure(run: Run, samples: Samples | None) -> go.Figure:
    """Further right is better: 1 is the soft-optimal policy, 0 walks at random. Return of the learned policies,
    with 95 % intervals over seeds; all saw the same comparisons."""
    fig = charts.blank("Score (share of the way from random to soft-optimal)", height=380)
    names = [PPL, CPL, CPL_BIAS, SFT, REWARD, SAMPLED, SHUFFLED]
    charts.dots(fig, {m: charts.interval_of(samples, "score", m, run.measures["score"][m]) for m in names}, ROLES)
    charts.moment(fig, 1.0, "soft-optimal")
    return fig


def policy_figure(run: Run) -> go.Figure:
    """Arrows should lead to the green goal and around the orange holes. Most likely move of each cell; the darker a
    cell, the further its policy is from the optimal one (KL in nats)."""
    names = [PPL, CPL, BEST]
    fig = charts.panels(names, height=320)
    for col, m in enumerate(names, 1):
        kl = grid.divergence(run.optimal, run.policies[m]).reshape(SIDE, SIDE)
        charts.picture(fig, kl, limits=(0, 1.5), row=1, col=col, hover="KL %{z:.2f} nats")
        best = run.policies[m].argmax(1)
        for cell, a in enumerate(best.tolist()):
            colour = charts.MARK["baseline2"] if cell == STATES - 1 else charts.INK
            fig.add_annotation(
                x=cell % SIDE,
                y=cell // SIDE,
                text="↑↓←→"[a],
                showarrow=False,
                row=1,
                col=col,
                font={"size": 18, "color": colour},
            )
        for cell in np.flatnonzero(run.reward < np.median(run.reward)).tolist():
            fig.add_shape(
                type="rect",
                x0=cell % SIDE - 0.46,
                x1=cell % SIDE + 0.46,
                y0=cell // SIDE - 0.46,
                y1=cell // SIDE + 0.46,
                line={"color": charts.MARK["baseline1"], "width": 2.5},
                row=1,
                col=col,
            )
        goal = SIDE - 1
        fig.add_shape(
            type="rect",
            x0=goal - 0.46,
            x1=goal + 0.46,
            y0=goal - 0.46,
            y1=goal + 0.46,
            line={"color": charts.MARK["baseline2"], "width": 3},
            row=1,
            col=col,
        )
    fig.update_xaxes(visible=False)
    fig.update_yaxes(visible=False)
    return fig


def kl_figure(run: Run) -> go.Figure:
    """Closeness to the optimal policy is not the same as a good return: imitation is often closest and still
    earns less. Each dot is a method on this run."""
    fig = charts.blank("KL of the optimal policy to the learned one (nats)", "Score")
    shown = sorted((m for m in ROLES if m != PSEUDO), key=lambda m: run.measures["kl"][m])
    for i, m in enumerate(shown):
        role = ROLES[m]
        x, y = run.measures["kl"][m], run.measures["score"][m]
        fig.add_scatter(
            x=[x],
            y=[y],
            mode="markers+text",
            text=[m],
            textposition=("top center", "bottom center")[i % 2],
            name=m,
            textfont={"color": charts.TEXT[role], "size": 13},
            marker={"size": 13 if m == PPL else 9, "color": charts.MARK[role]},
        )
    low = min(v for k, v in run.measures["score"].items() if k != PSEUDO)
    fig.update_yaxes(range=[min(-0.15, low - 0.1), 1.25])
    fig.update_xaxes(range=[-0.12, 1.15 * max(run.measures["kl"][m] for m in shown)])
    return fig


def thumbnail(run: Run) -> str:
    kl = grid.divergence(run.optimal, run.policies[PPL]).reshape(SIDE, SIDE)
    other = grid.divergence(run.optimal, run.policies[CPL]).reshape(SIDE, SIDE)
    return thumbnails.pictures([[thumbnails.coloured(v, charts.SEQUENTIAL, 0, 1.5) for v in (kl, other)]], gap=24)


# --- claims ---


def ahead(rival: str):
    """PPL's score above a rival's, by at least 0.02; inside ±0.02 there is no practical difference."""
    return above(difference("score", PPL, rival, label=f"to {rival}:"), 0, least=0.02, same=(-0.02, 0.02))


def mismatch_rule(samples: Samples) -> Verdict:
    """PPL beats CPL, and CPL alone stays below the optimum."""
    first = ahead(CPL)(samples)
    short = below(mean("score", CPL, label="CPL:"), 1)(samples)
    return first if first.outcome != "holds" else join([first, short])


DEMO = Demo(
    name="Policy-labeled preferences",
    line="A gridworld policy learned from comparisons that know who walked each path.",
    topic="Preferences",
    abstract="To design reward that align with human goals",
    paper=Paper(
        "Policy-labeled Preference Learning: Is Preference Enough for RLHF?",
        "https://icml.cc/virtual/2025/poster/43946",
    ),
    settings=PreferenceSettings,
    run=run,
    measures={
        "score": Measure("Score", better="higher"),
        "kl": Measure("Distance to the optimal policy", "nats", "lower", 2),
    },
    figures=(score_figure, policy_figure, kl_figure),
    thumbnail=thumbnail,
    claims=(
        Claim(
            "misinterpret trajectories as being generated by an optimal policy",
            "Treating every walk as optimally continued (CPL) learns a worse policy",
            mismatch_rule,
        ),
        Claim(
            "resolves these likelihood mismatch problems by modeling human preferences with regret",
            "PPL beats CPL, biased CPL, imitation, and reward learning with planning",
            all_of(*(ahead(m) for m in (CPL, CPL_BIAS, SFT, REWARD))),
        ),
        Claim(
            "contrastive KL regularization term derived from regret-based principles",
            "With wrong policy labels the gain vanishes",
            ahead(SHUFFLED),
        ),
    ),
    presets={
        "Break it: equal skill": PreferenceSettings(skills="equal"),
        "Judged by return": PreferenceSettings(judge="return"),
        "Specialists": PreferenceSettings(skills="specialists"),
        "Weak labels": PreferenceSettings(scale=1.0),
    },
    break_it="Break it: equal skill",
    why_it_breaks="When all walkers share one policy, regrets differ by luck only, and the label has nothing to correct.",
    simplified=(
        "A tabular policy on 25 cells instead of neural networks on Meta-World; the walkers' policies are known exactly "
        "and the judge follows the regret model itself. No online phase, so the abstract's online claim is not tested. "
        "The future is averaged over counted transitions; one sampled continuation is noisier and is shown beside it."
    ),
)
