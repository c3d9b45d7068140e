"""Readings of the network as a program parse → evaluate → OR, the maps between both, and the axioms' failures."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import stats
from sklearn.tree import DecisionTreeClassifier

from core.demos._mechanistic_axioms_net import Language, Network

PAPER, PERMUTED, FIRST, COUNTS = "paper’s program", "permuted neurons", "first literal", "literal counts"
CONFIDENCE = 0.95
QUANTILE = 0.99
"""of a neuron's vote: how strong it can get, without the rarest inputs"""
CHECKS = {
    "prefix_equivalence_1": "Prefix equivalence, parse",
    "prefix_equivalence_2": "Prefix equivalence, evaluate",
    "prefix_equivalence_3": "Prefix equivalence, OR",
    "component_equivalence_2": "Component equivalence, evaluate",
    "component_equivalence_3": "Component equivalence, OR",
    "prefix_replaceability_1": "Prefix replaceability, parse",
    "prefix_replaceability_2": "Prefix replaceability, evaluate",
    "component_replaceability_2": "Component replaceability, evaluate",
}


def upper_bound(failures: int, n: int) -> float:
    """ε: one-sided 95 % Clopper–Pearson upper bound of a share of failures."""
    return 1.0 if failures == n else float(stats.beta.ppf(CONFIDENCE, failures + 1, n - failures))


def lower_bound(successes: int, n: int) -> float:
    """One-sided 95 % Clopper–Pearson lower bound of a share."""
    return 1 - upper_bound(n - successes, n)


@dataclass(frozen=True)
class Vocabulary:
    """What a reading takes for a clause: `of` (pairs,) gives each ordered pair its class, numbered from 0.

    A formula's features are the truth table of all classes' `table` (classes, assignments), or, with `summed`,
    the sums of the table's columns.
    """

    of: np.ndarray
    table: np.ndarray
    summed: bool = False

    def features(self, clauses: np.ndarray) -> np.ndarray:
        """Classes (n, clauses) → features (n, k); the order of the clauses does not matter."""
        rows = self.table[clauses]
        return rows.sum(axis=1) if self.summed else rows.all(axis=1).astype(int)


def whole_clauses(language: Language, *, counts: bool = False) -> Vocabulary:
    """Unordered pairs, all tautologies as one class; for `counts` it is written x₀ ∨ ¬x₀."""
    a, b = np.divmod(np.arange(language.pairs), language.literals)
    tautology = a == b ^ 1
    key = np.where(tautology, -1, np.minimum(a, b) * language.literals + np.maximum(a, b))
    _, first, of = np.unique(key, return_index=True, return_inverse=True)
    literals = np.eye(language.literals, dtype=int)
    table = literals[a] + literals[b] if counts else language.pair_truth
    return Vocabulary(of, table[first], counts)


def first_literals(language: Language) -> Vocabulary:
    """A clause is taken for its first literal."""
    return Vocabulary(np.arange(language.pairs) // language.literals, language.literal_truth)


@dataclass(frozen=True)
class Seen:
    """What the network does with some formulas (n, clauses): block-1 output z, hidden neurons u, answers."""

    formulas: np.ndarray
    z: np.ndarray
    u: np.ndarray
    answer: np.ndarray
    attention: np.ndarray
    readout: np.ndarray

    @property
    def second(self) -> np.ndarray:
        """z at the second literal of each clause, (n, clauses, d)."""
        return self.z[:, 1:-1:2]


def observe(net: Network, language: Language, formulas: np.ndarray) -> Seen:
    one = net.block(language.tokens(formulas))
    two = net.hidden(one["z"])
    return Seen(formulas, one["z"], two["u"], net.output(two["u"]), one["attention"], two["attention"])


@dataclass(frozen=True)
class Maps:
    """What α and γ need, all from training formulas; `neurons` are the selected ones."""

    centroids: np.ndarray
    mean_z: np.ndarray
    neurons: np.ndarray
    threshold: np.ndarray
    high: np.ndarray
    mean_u: np.ndarray

    def pairs(self, z: np.ndarray) -> np.ndarray:
        """The ordered pair whose centroid has the highest cosine with each z (n, clauses, d)."""
        unit = self.centroids / np.linalg.norm(self.centroids, axis=1, keepdims=True)
        return np.argmax(z @ unit.T, axis=2)

    def bits(self, u: np.ndarray) -> np.ndarray:
        """α₂: which selected neurons fire, (n, neurons)."""
        return u[:, self.neurons] >= self.threshold

    def activations(self, bits: np.ndarray) -> np.ndarray:
        """γ₂: mean activations, the selected neurons at 0 or at their mean positive value."""
        u = np.tile(self.mean_u, (len(bits), 1))
        u[:, self.neurons] = bits * self.high
        return u

    def stream(self, vocabulary: Vocabulary, clauses: np.ndarray) -> np.ndarray:
        """γ₁: mean block-1 outputs, at second literals the mean centroid of the clause's class."""
        member = vocabulary.of == np.arange(len(vocabulary.table))[:, None]
        centre = (member @ self.centroids) / member.sum(axis=1, keepdims=True)
        z = np.tile(self.mean_z, (len(clauses), 1, 1))
        z[:, 1:-1:2] = centre[clauses]
        return z


def fit_maps(net: Network, language: Language, seen: Seen, tau: float, effect: float) -> Maps:
    """Centroids, means, selected neurons and thresholds; `tau` and `effect` are shares in (0, 1]."""
    for name, value in (("tau", tau), ("effect", effect)):
        if not 0 < value <= 1:
            raise ValueError(f"{name} cannot be {value}: it must be above 0 and at most 1")
    which = np.eye(language.pairs, dtype=seen.z.dtype)[seen.formulas.ravel()]
    centroids = (which.T @ seen.second.reshape(len(which), -1)) / which.sum(axis=0)[:, None]
    vote = np.quantile(seen.u * np.maximum(net.p["w"], 0), QUANTILE, axis=0)
    neurons = np.flatnonzero(vote > effect * vote.max())
    if not len(neurons):
        raise ValueError("steps: the network has no SAT-promoting neuron, so there is nothing to read")
    u = seen.u[:, neurons]
    high = u.sum(axis=0) / (u > 0).sum(axis=0)
    return Maps(centroids, seen.z.mean(axis=0), neurons, tau * high, high, seen.u.mean(axis=0))


def fit_trees(features: np.ndarray, bits: np.ndarray, leaves: int) -> list[DecisionTreeClassifier]:
    """One tree per neuron; equal rows are pooled with their counts, which gives the same tree."""
    if leaves < 2:
        raise ValueError(f"leaves cannot be {leaves}: a tree needs at least 2")
    rows, which = np.unique(features, axis=0, return_inverse=True)
    total = np.bincount(which)
    trees = []
    for bit in bits.T:
        on = np.bincount(which, weights=bit)
        weights = np.concatenate([total - on, on])
        keep = weights > 0
        labels = np.repeat([False, True], len(rows))
        tree = DecisionTreeClassifier(max_leaf_nodes=leaves, random_state=0)
        trees.append(tree.fit(np.tile(rows, (2, 1))[keep], labels[keep], sample_weight=weights[keep]))
    return trees


@dataclass(frozen=True)
class Reading:
    """An abstract program with its vocabulary; tree `order[j]` speaks for selected neuron j."""

    vocabulary: Vocabulary
    trees: list[DecisionTreeClassifier]
    order: np.ndarray

    def bits(self, clauses: np.ndarray) -> np.ndarray:
        """h₂: classes (n, clauses) → one bit per selected neuron."""
        rows, which = np.unique(self.vocabulary.features(clauses), axis=0, return_inverse=True)
        table = np.stack([tree.predict(rows) for tree in self.trees], axis=1)
        return table[which][:, self.order]

    @property
    def used(self) -> int:
        """Features that occur in at least one tree."""
        return len({int(f) for tree in self.trees for f in tree.tree_.feature if f >= 0})


def readings(
    language: Language, maps: Maps, seen: Seen, leaves: int, rng: np.random.Generator
) -> dict[str, Reading]:
    """The paper's program and three wrong ones, their trees fitted on training formulas."""
    vocabularies = {
        PAPER: whole_clauses(language),
        FIRST: first_literals(language),
        COUNTS: whole_clauses(language, counts=True),
    }
    bits = maps.bits(seen.u)
    own = np.arange(len(maps.neurons))
    found = {}
    for name, vocabulary in vocabularies.items():
        features = vocabulary.features(vocabulary.of[seen.formulas])
        found[name] = Reading(vocabulary, fit_trees(features, bits, leaves), own)
    cycle = rng.permutation(own)  # along one cycle no neuron keeps its tree
    other = np.empty_like(own)
    other[cycle] = np.roll(cycle, 1)
    return {PAPER: found[PAPER], PERMUTED: replace(found[PAPER], order=other)} | found


@dataclass(frozen=True)
class Failures:
    """Per formula: does the check fail (n,)? `wrong` counts the neurons that differ, by check of component 2."""

    fails: dict[str, np.ndarray]
    wrong: dict[str, np.ndarray]


def check(net: Network, maps: Maps, reading: Reading, seen: Seen, tolerated: int) -> Failures:
    """All axioms on the formulas seen; up to `tolerated` neurons may differ in the equivalences of component 2."""
    told, found = reading.vocabulary.of[seen.formulas], reading.vocabulary.of[maps.pairs(seen.second)]
    bits, from_prefix, from_found = maps.bits(seen.u), reading.bits(told), reading.bits(found)
    wrong = {
        "prefix_equivalence_2": (bits != from_prefix).sum(axis=1),
        "component_equivalence_2": (bits != from_found).sum(axis=1),
    }
    replaced = net.hidden(maps.stream(reading.vocabulary, told))["u"]
    answers = {
        "prefix_equivalence_3": from_prefix.any(axis=1),
        "component_equivalence_3": bits.any(axis=1),
        "prefix_replaceability_1": net.output(replaced),
        "prefix_replaceability_2": net.output(maps.activations(from_prefix)),
        "component_replaceability_2": net.output(maps.activations(from_found)),
    }
    fails = {"prefix_equivalence_1": (told != found).any(axis=1)}
    fails |= {name: w > tolerated for name, w in wrong.items()}
    fails |= {name: answer != seen.answer for name, answer in answers.items()}
    return Failures({name: fails[name] for name in CHECKS}, wrong)


def correlations(language: Language, seen: Seen, net: Network, maps: Maps) -> np.ndarray:
    """Of selected neurons with the truth rows, strongest voters first; 0 where one of both never changes."""
    order = maps.neurons[np.argsort(-maps.high * net.p["w"][maps.neurons], kind="stable")]
    truth = language.pair_truth[seen.formulas].all(axis=1).astype(float)
    a, b = truth - truth.mean(axis=0), seen.u[:, order] - seen.u[:, order].mean(axis=0)
    size = np.linalg.norm(a, axis=0)[:, None] * np.linalg.norm(b, axis=0)
    return np.where(size > 0, (a.T @ b) / np.where(size > 0, size, 1), 0.0)
