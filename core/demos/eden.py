r"""Few nodes of a directed graph have labels. Can groups hidden in its edges teach the others? Let $A$ (`graph`) be
the 0/1 matrix of $m$ edges between $n$ nodes. For in- and out-edges alike let $d_v$ be a node's degree, and for a
module $P$ of nodes $V_P$ the sum of its degrees (`volume`), $g_P$ the number of its edges that cross its border
(`cut`). The **two-level entropy** is the code length of a random edge's end: the node within its module, and the
module too where the edge crosses its border,

$$H^2=-\sum_v\frac{d_v}m\log_2\frac{d_v}{V_{P(v)}}-\sum_P\frac{g_P}m\log_2\frac{V_P}m ,$$

in-part plus out-part. Merging two modules changes it by $f(V_{ab},g_{ab})-f(V_a,g_a)-f(V_b,g_b)$ with
$f(V,g)=\frac Vm\log_2V-\frac gm\log_2\frac Vm$. From single nodes on, the linked pair with the smallest change is
merged, down to 16 modules (the fine level) and on to 8 (the coarse one). A node's two modules are its parents.

**Refinement.** A discriminator, $\sigma(\sum_jw_jx_jc_j+b)$, learns to tell a node's profile $x$ (own and neighbours'
features) beside the mean profile $c$ of its module's other members from $x$ beside another module's mean. A node to
which it gives another module with a probability higher by 0.5 moves there. After a new fit, the probability of the own
module is the affiliation $s_i$, and the better half of each module, $\Omega_P$, teaches.

**Distillation.** A network answers $q_i$; $k_i$ is the label where there is one, else $q_i$. A parent knows
$p_P=\sum_{\Omega_P}s_ik_i/\sum_{\Omega_P}s_i$, a constant for the gradient, with sureness
$u_P=1-H(p_P)/\log K$ for $K$ classes. From 30 % of the steps on,

$$L=\mathrm{CE}+\frac\alpha{2n}\sum_{\text{levels}}\sum_is_iu_P\lVert p_P-q_i\rVert^2 .$$

**Walk.** The network also sees its inputs averaged over the teachers of each node's parents.

The form of $H^2$, the discriminator, the squared loss, the warm-up and all constants are our reading: there is no
public code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import plotly.graph_objects as go
from sklearn.metrics import normalized_mutual_info_score

from core.demos import _eden_tree as trees
from core.demos._eden_net import DIRECTED, TWO_HOPS, UNDIRECTED, Start, answers, inputs
from core.demos._eden_pictures import draw_icicles, name_where_apart, thumbnail_of
from core.demos._eden_world import COMMUNITIES, NODES, World, make_world
from core.lab import charts
from core.lab import demo as lab
from core.lab.demo import Claim, Demo, Measure, Measures, Paper, across_seeds, choice, control, fixed
from core.lab.verdicts import Estimator, Rule, Samples, Verdict, all_of, beyond, difference, per_seed

NETWORKS = (DIRECTED, UNDIRECTED)
HOMOPHILIES = (0.1, 0.25, 0.4, 0.5, 0.6, 0.7, 0.9)
HETEROPHILY = 0.25
EDEN, UNDIRECTED_EDEN, TWO_HOPS_EDEN = (f"{name} + EDEN" for name in (DIRECTED, UNDIRECTED, TWO_HOPS))
NO_REFINEMENT, WALK_ONLY, KD_ONLY = "no refinement", "walk only", "distillation only"
SHUFFLED, BLIND, TRUE = "shuffled tree", "direction-blind tree", "true tree"
ROLES: dict[str, charts.Role] = {
    EDEN: "method",
    UNDIRECTED_EDEN: "method",
    TWO_HOPS_EDEN: "method",
    DIRECTED: "baseline1",
    UNDIRECTED: "baseline1",
    TWO_HOPS: "baseline1",
    NO_REFINEMENT: "baseline2",
    WALK_ONLY: "baseline2",
    KD_ONLY: "baseline2",
    BLIND: "baseline3",
    SHUFFLED: "baseline3",
    TRUE: "oracle",
}
MARGIN_POINTS, MARGIN_NMI = 2, 0.02


class Settings(lab.Settings):
    homophily: float = control(0.6, "Homophily", 0.1, 0.9, 0.05, help="Share of edges that stay in the community.")
    alpha: float = control(1.0, "Weight of the distillation α", 0, 4, 0.25, help="0: only the walk is left.")
    strength: float = control(
        0.7, "Feature strength", 0.2, 2.5, 0.1, unit="noise sd", help="Spread of class means."
    )
    modules: int = control(16, "Modules at the fine level", 8, 32, 2, help="The coarse level has half of them.")
    undirected: bool = choice(False, "Treat the graph as undirected", help="Every edge is made to run both ways.")
    per_class: int = fixed(5, "Labelled nodes per class", ge=1, le=NODES // COMMUNITIES)

    @property
    def sizes(self) -> tuple[int, int]:
        """Modules at the fine and at the coarse level."""
        return self.modules, self.modules // 2


@dataclass(frozen=True)
class Case:
    """A graph with its tree before and after refinement, and what all networks on it share."""

    world: World
    coarse: trees.Tree
    tree: trees.Tree
    information: tuple[float, float]
    """mutual-information estimate of the coarse level before and after the moves"""
    inputs: Mapping[str, np.ndarray]
    start: Start
    alpha: float

    def accuracy(
        self, network: str, tree: trees.Tree | None = None, *, alpha: float | None = None, walks: bool = True
    ) -> float:
        """Share of unlabelled nodes that a network, alone or with a tree, answers rightly."""
        alpha = self.alpha if alpha is None else alpha
        q = answers(self.world, self.inputs[network], self.start, tree, alpha, walks)
        return float((q.argmax(axis=1) == self.world.classes)[~self.world.labelled].mean())

    def nmi(self, level: trees.Level) -> float:
        """Normalised mutual information of a level with the true communities."""
        return float(normalized_mutual_info_score(self.world.communities, level.modules))


def grow(
    graph: np.ndarray, features: np.ndarray, sizes: tuple[int, int], seed: int
) -> tuple[trees.Tree, trees.Tree, tuple[float, float]]:
    """The coarse tree of a graph, the refined one, and the information of its coarse level before and after."""
    rng = np.random.default_rng([seed, 1])
    found = trees.coarse_tree(graph, sizes)
    x = trees.profiles(graph, features)
    (fine, *_), (coarse, before, after) = (trees.refine(modules, x, rng) for modules in found)
    unrefined = trees.everyone_teaches(found[0]), trees.everyone_teaches(found[1])
    return unrefined, (fine, coarse), (before, after)


def set_up(s: Settings, seed: int) -> Case:
    """Graph, tree, inputs and first weights of a seed; noise and draws are the same at all settings."""
    world = make_world(np.random.default_rng([seed, 0]), s.homophily, s.strength, s.per_class, s.undirected)
    found = grow(world.graph, world.features, s.sizes, seed)
    return Case(world, *found, inputs(world), Start.draw(np.random.default_rng([seed, 2])), s.alpha)


def with_and_without(case: Case, networks: tuple[str, ...] = NETWORKS) -> dict[str, float]:
    """Accuracy of networks alone and with EDEN."""
    alone = {name: case.accuracy(name) for name in networks}
    return alone | {f"{name} + EDEN": case.accuracy(name, case.tree) for name in networks}


def gains(accuracy: Mapping[str, float], networks: tuple[str, ...] = NETWORKS) -> dict[str, float]:
    """Points of accuracy that EDEN adds to each network."""
    return {name: 100 * (accuracy[f"{name} + EDEN"] - accuracy[name]) for name in networks}


# --- one run ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    settings: Settings
    classes: np.ndarray
    coarse: trees.Tree
    tree: trees.Tree
    measures: Measures


def run(settings: Settings, seed: int) -> Run:
    """The networks with and without EDEN, parts of it left out, other trees, and the gain at other homophilies."""
    case = set_up(settings, seed)
    world, tree = case.world, case.tree
    order = np.random.default_rng([seed, 3]).permutation(NODES)
    shuffled = tree[0].permuted(order), tree[1].permuted(order)
    _, blind, _ = grow(world.graph + world.graph.T, world.features, settings.sizes, seed)
    true = trees.everyone_teaches(world.communities), trees.everyone_teaches(world.classes)
    accuracy = with_and_without(case, (DIRECTED, UNDIRECTED, TWO_HOPS))
    accuracy |= {
        NO_REFINEMENT: case.accuracy(DIRECTED, case.coarse),
        WALK_ONLY: case.accuracy(DIRECTED, tree, alpha=0),
        KD_ONLY: case.accuracy(DIRECTED, tree, walks=False),
        BLIND: case.accuracy(DIRECTED, blind),
        SHUFFLED: case.accuracy(DIRECTED, shuffled),
        TRUE: case.accuracy(DIRECTED, true),
    }
    found = case.coarse[1].modules
    before, after = case.information
    measures: Measures = {
        "accuracy": {name: accuracy[name] for name in ROLES},
        "gain": gains(accuracy, (DIRECTED, UNDIRECTED, TWO_HOPS)),
        "nmi": {"EDEN": case.nmi(tree[1]), NO_REFINEMENT: case.nmi(case.coarse[1]), BLIND: case.nmi(blind[1])},
        "entropy": {
            "no modules": trees.node_entropy(world.graph),
            "found": trees.partition_entropy(world.graph, found),
            "true communities": trees.partition_entropy(world.graph, world.communities),
            "shuffled": trees.partition_entropy(world.graph, found[order]),
        },
        "information": {"before refinement": before, "after refinement": after},
        **sweep(settings, seed, case, accuracy),
    }
    return Run(settings, world.classes, case.coarse, tree, measures)


def sweep(settings: Settings, seed: int, case: Case, accuracy: Mapping[str, float]) -> Measures:
    """Gain and NMI at every homophily of the grid; the run's own is known already."""
    gain: dict[str, float] = {}
    nmi: dict[str, float] = {}
    for h in HOMOPHILIES:
        known = h == settings.homophily
        here = case if known else set_up(settings.replace(homophily=h), seed)
        found = gains(accuracy if known else with_and_without(here))
        gain |= {at_homophily(name, h): value for name, value in found.items()}
        nmi[at_homophily("", h)] = here.nmi(here.tree[1])
    return {"gain_by_homophily": gain, "nmi_by_homophily": nmi}


def undirected_probe(settings: Settings, seed: int) -> Measures:
    """The gains when every edge runs both ways."""
    case = set_up(settings.replace(undirected=True), seed)
    return {"gain_undirected": gains(with_and_without(case))}


# --- figures ------------------------------------------------------------------------------------------


@across_seeds
def accuracy_figure(run: Run, samples: Samples | None) -> go.Figure:
    """Further right is better: compare each network with EDEN (blue) and alone (orange).

    Accuracy on the unlabelled nodes, with 95 % intervals over seeds. Below, for the directed network: EDEN with a part left out
    (green) or with another tree (pink); the true tree is a bound.
    """
    fig = charts.blank("test accuracy (share)", height=430, right=40)
    accuracy = run.measures["accuracy"]
    found = {name: charts.interval_of(samples, "accuracy", name, accuracy[name]) for name in ROLES}
    charts.dots(fig, found, ROLES)
    for name, (value, _, high) in found.items():
        text = f"<b>{value:.2f}</b>" if ROLES[name] == "method" else f"{value:.2f}"
        font = {"size": 13, "color": charts.TEXT[ROLES[name]]}
        fig.add_annotation(x=high, y=name, text=text, xanchor="left", xshift=9, showarrow=False, font=font)
    low = min(0.25, *(low for _, low, _ in found.values()))
    high = max(1.0, *(high for *_, high in found.values()))
    return fig.update_xaxes(range=[low - 0.02, high + 0.08], tickvals=[0, 0.2, 0.4, 0.6, 0.8, 1])


def tree_figure(run: Run) -> go.Figure:
    """The purer the tree, the stronger its colours.

    From left to right: all nodes, coarse modules, fine modules, the classes within. A module has the colour of its
    most frequent class, fainter the more mixed it is. Refinement moves nodes at each level by itself, so a fine
    module may end up in several coarse ones.
    """
    return draw_icicles({"before refinement": run.coarse, "after refinement": run.tree}, run.classes)


def at_homophily(name: str, h: float) -> str:
    """The key of a network's (or, without a name, the tree's) value at a point of the sweep."""
    return f"{name}, homophily {h:g}" if name else f"homophily {h:g}"


@across_seeds
def homophily_figure(run: Run, samples: Samples | None) -> go.Figure:
    """Read the two panels together: what EDEN adds above, how well its tree finds the communities below.

    Points of accuracy added to each network, and agreement of the refined coarse modules with the communities
    (NMI, 1 is perfect), over the share of edges that stay in the community. Bands: 95 % over seeds.
    """
    titles = ["gain from EDEN (points of accuracy)", "NMI of the tree with the communities"]
    fig = charts.panels(titles, "homophily (share of edges)", rows=2, height=430)
    curves: tuple[tuple[int, str, str, charts.Role], ...] = (
        (1, UNDIRECTED, "gain_by_homophily", "baseline1"),
        (1, DIRECTED, "gain_by_homophily", "method"),
        (2, "", "nmi_by_homophily", "method"),
    )
    for row, name, measure, role in curves:
        keys = [at_homophily(name, h) for h in HOMOPHILIES]
        values = [charts.interval_of(samples, measure, k, run.measures[measure][k]) for k in keys]
        middle, low, high = np.array(values).T
        band = (low, high) if samples is not None else None
        charts.line(
            fig, name or "tree", np.array(HOMOPHILIES), middle, role, band=band, markers=True, row=row, col=1
        )
    name_where_apart(fig, DIRECTED, UNDIRECTED)
    fig.add_hline(y=0, line={"color": charts.MARK["oracle"], "width": 1.6, "dash": "dot"}, row=1, col=1)
    free = (
        0.4 if run.settings.homophily < 0.5 else 0.1
    )  # the NMI rises: above it at the left, below it at the right
    charts.moment(fig, run.settings.homophily, "this run", top=free)
    fig.update_yaxes(range=[-0.03, 1.03], row=2)
    return fig.update_xaxes(range=[0.07, 0.99])


def thumbnail(run: Run) -> str:
    """The tree found: all nodes, coarse and fine modules in the colour of their most frequent class."""
    return thumbnail_of(run.tree, run.classes)


# --- claims -------------------------------------------------------------------------------------------


def gain_of(measure: str, method: str, label: str) -> Estimator:
    return per_seed(lambda s: s(measure, method), "difference", digits=1, unit="points", label=label)


def both_gain(measure: str, suffix: str = "") -> Rule:
    """EDEN surely adds points to the directed and to the undirected network."""
    return all_of(*(beyond(gain_of(measure, n + suffix, f"{n} network:"), MARGIN_POINTS) for n in NETWORKS))


def more_accurate(b: str) -> Estimator:
    """Points of accuracy of EDEN on the directed network over another variant."""
    return difference("accuracy", EDEN, b, scale=100, digits=1, unit="points", label=f"EDEN − {b}:")


def beside(rule: Rule, *others: Estimator) -> Rule:
    """The same verdict with other estimates in its note."""

    def noted(samples: Samples) -> Verdict:
        found = rule(samples)
        shown = "; ".join(str(other(samples)) for other in others)
        return replace(found, note="; ".join(filter(None, (found.note, f"beside it: {shown}"))))

    return noted


DEMO = Demo(
    name="EDEN",
    line="A hidden tree found in a digraph teaches a graph network.",
    topic="Graph learning",
    abstract="Although directed graphs (digraphs) offer strong modeling",
    paper=Paper(
        "Toward Data-centric Directed Graph Learning: An Entropy-driven Approach",
        "https://icml.cc/virtual/2025/poster/43944",
    ),
    settings=Settings,
    run=run,
    measures={
        "accuracy": Measure("Test accuracy", "share", "higher"),
        "gain": Measure("Gain from EDEN", "points", "higher", 1),
        "nmi": Measure("NMI of the coarse modules with the communities", "", "higher"),
        "entropy": Measure("Two-level entropy before refinement", "bits", "lower", 2),
        "information": Measure("Mutual-information estimate of the coarse level", "nats", "higher"),
        "gain_by_homophily": Measure("Gain from EDEN by homophily", "points", "higher", 1),
        "nmi_by_homophily": Measure("NMI of the tree by homophily", "", "higher"),
        "gain_undirected": Measure("Gain from EDEN on the undirected graph", "points", "higher", 1),
    },
    figures=(accuracy_figure, tree_figure, homophily_figure),
    thumbnail=thumbnail,
    claims=(
        Claim(
            "significantly enhances existing (Di)GNNs",
            "EDEN raises the accuracy of a directed and of an undirected graph network",
            beside(both_gain("gain"), gain_of("gain", TWO_HOPS, "network that sees two hops:")),
        ),
        Claim(
            "concealed rich structural information",
            "The hidden groups make the gain: the same tree with shuffled nodes falls behind",
            beside(
                beyond(more_accurate(SHUFFLED), MARGIN_POINTS), more_accurate(NO_REFINEMENT), more_accurate(BLIND)
            ),
        ),
        Claim(
            "refining HKT through mutual information analysis of node profiles",
            "Refinement brings the modules closer to the communities, and accuracy up",
            all_of(
                beyond(more_accurate(NO_REFINEMENT), MARGIN_POINTS),
                beyond(
                    difference("nmi", "EDEN", NO_REFINEMENT, digits=3, label="NMI, after − before:"), MARGIN_NMI
                ),
            ),
        ),
        Claim(
            "naturally extends to undirected graphs",
            "On the graph with all edges made undirected, EDEN helps both networks too",
            both_gain("gain_undirected"),
            undirected_probe,
        ),
        Claim(
            "spanning both homophily and heterophily settings",
            "EDEN helps both networks also when three of four edges leave the community",
            both_gain("gain_by_homophily", f", homophily {HETEROPHILY:g}"),
        ),
    ),
    presets={
        "Break it: most edges leave the community": Settings(homophily=HETEROPHILY),
        "Strong features": Settings(strength=2.0),
    },
    break_it="Break it: most edges leave the community",
    why_it_breaks="When most edges leave the community, the partition of least entropy is not the hidden one, so "
    "parents teach averages over mixed classes.",
    simplified="One simulated family of graphs (240 nodes, 4 classes in 8 communities, 5 labels per class) instead of "
    "14 data sets; node classification only, no link tasks; networks of one hidden layer that see one hop, and one "
    "that sees two, instead of published (Di)GNNs; a tree of height 2; no learned maps between parent and child; "
    "trees without sampling shortcuts.",
    seeds=8,
)
