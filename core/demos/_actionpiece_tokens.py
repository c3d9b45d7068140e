"""The tokens of ActionPiece: learning merges on chains of sets and slots, and cutting histories into tokens.

A chain is a list of tuples: sets at even places, the slots between them at odd places (at most one token each).
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

Chain = list[tuple[int, ...]]
Pair = tuple[int, int]


def chain_of(sets: Sequence[Sequence[int]]) -> Chain:
    """The sets with an empty slot between neighbours."""
    chain: Chain = [()] * max(0, 2 * len(sets) - 1)
    chain[::2] = [tuple(s) for s in sets]
    return chain


def options(chain: Chain, unit: int = 1) -> Iterator[tuple[Pair, float, Pair]]:
    """Every pair (smaller token first) that may merge, with its weight times `unit` and the two places."""
    for i in range(0, len(chain), 2):
        here = chain[i]
        for x, y in combinations(here, 2):
            yield ((x, y) if x < y else (y, x)), 2 * unit / len(here), (i, i)
        if i + 1 == len(chain):
            return
        slot, right = chain[i + 1], chain[i + 2]
        if slot:
            for side in (i, i + 2):
                for x in chain[side]:
                    yield (min(x, slot[0]), max(x, slot[0])), unit / len(chain[side]), (side, i + 1)
        else:
            for x in here:
                for y in right:
                    yield ((x, y) if x < y else (y, x)), unit / (len(here) * len(right)), (i, i + 2)


def merge_at(chain: Chain, places: Pair, rule: Pair, new: int) -> None:
    """Apply a rule between two places, in place, if its tokens are there; a token across a gap fills the slot."""
    first, second = places
    a, b = rule
    if first == second:
        if a != b and a in chain[first] and b in chain[first]:
            chain[first] = (new, *(t for t in chain[first] if t not in rule))
    elif second % 2:  # a set and the filled slot beside it
        token = chain[second][0]
        partner = b if token == a else a if token == b else None
        if partner in chain[first]:
            chain[first] = tuple(t for t in chain[first] if t != partner)
            chain[second] = (new,)
    else:
        for x, y in ((a, b), (b, a)):
            if x in chain[first] and y in chain[second]:
                chain[first] = tuple(t for t in chain[first] if t != x)
                chain[second] = tuple(t for t in chain[second] if t != y)
                chain[first + 1] = (new,)
                return


def settle(chain: Chain) -> Chain:
    """Empty sets take the token of the slot before them; an empty set goes with an empty slot after it."""
    while True:
        before = list(chain)
        for i in range(2, len(chain), 2):
            if not chain[i] and chain[i - 1]:
                chain[i], chain[i - 1] = chain[i - 1], ()
        i = 0
        while i + 1 < len(chain):
            if not chain[i] and not chain[i + 1]:
                del chain[i : i + 2]
            else:
                i += 2
        if chain == before:
            return chain


def rewrite(chain: Chain, rule: Pair, new: int) -> Chain:
    """The chain with a rule applied from left to right: at each set inside it, then in the gap to its right."""
    out = list(chain)
    for i in range(0, len(out), 2):
        merge_at(out, (i, i), rule, new)
        if i + 1 == len(out):
            break
        if out[i + 1]:
            merge_at(out, (i, i + 1), rule, new)
            merge_at(out, (i + 2, i + 1), rule, new)
        else:
            merge_at(out, (i, i + 2), rule, new)
    return settle(out)


@dataclass(frozen=True)
class Vocabulary:
    """`base` single features, then one token a rule: token base + r merges the two tokens of rules[r]."""

    base: int
    rules: tuple[Pair, ...]
    priorities: tuple[float, ...]

    @property
    def size(self) -> int:
        return self.base + len(self.rules)

    def first(self, merges: int) -> Vocabulary:
        """The vocabulary as it was after that many merges."""
        return Vocabulary(self.base, self.rules[:merges], self.priorities[:merges])

    def features(self) -> list[tuple[int, ...]]:
        """The single features of every token."""
        out: list[tuple[int, ...]] = [(t,) for t in range(self.base)]
        for a, b in self.rules:
            out.append(out[a] + out[b])
        return out

    def table(self) -> np.ndarray:
        """Ranks (size + 1, size + 1) of the rules by their two tokens, `size` where there is no rule."""
        table = np.full((self.size + 1, self.size + 1), self.size)
        for rank, (a, b) in enumerate(self.rules):
            table[a, b] = table[b, a] = rank
        return table


@dataclass
class Learner:
    """The pair totals of a corpus while it is merged; only chains that hold the merged pair are touched.

    Totals are whole numbers of 1/`unit`, so that sums kept up step by step are exact. `counts` says how often
    each chain occurs.
    """

    base: int
    chains: list[Chain]
    counts: list[int]
    unit: int = field(init=False)
    totals: dict[Pair, int] = field(init=False)
    where: dict[Pair, set[int]] = field(init=False)
    heap: list[tuple[int, Pair]] = field(init=False)
    rules: dict[Pair, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        largest = max((len(place) for chain in self.chains for place in chain), default=1)
        self.unit = math.lcm(*range(1, largest + 1)) ** 2
        self.totals, self.where = defaultdict(int), defaultdict(set)
        for i, chain in enumerate(self.chains):
            self._add(i, chain, +1)
        self.heap = [(-total, pair) for pair, total in self.totals.items()]
        heapq.heapify(self.heap)

    def _add(self, i: int, chain: Chain, sign: int) -> set[Pair]:
        """Add or take away a piece of chain i; the pairs in it."""
        pairs = set()
        for pair, weight, _ in options(chain, self.unit):
            self.totals[pair] += sign * int(weight) * self.counts[i]
            pairs.add(pair)
        if sign > 0:
            for pair in pairs:
                self.where[pair].add(i)
        return pairs

    def step(self) -> bool:
        """Learn the pair with the largest total; False if none is left."""
        while self.heap:
            minus, rule = heapq.heappop(self.heap)
            if minus < 0 and self.totals[rule] == -minus and rule not in self.rules:  # else an outdated entry
                break
        else:
            return False
        new = self.base + len(self.rules)
        self.rules[rule] = -minus / self.unit
        touched: set[Pair] = set()
        for i in self.where.pop(rule):
            old = self.chains[i]
            self.chains[i] = rewrite(old, rule, new)
            if self.chains[i] != old:  # else an outdated entry of the index
                front, back = unchanged(old, self.chains[i])
                touched |= self._add(i, old[front : len(old) - back], -1)
                touched |= self._add(i, self.chains[i][front : len(self.chains[i]) - back], +1)
        for pair in touched:
            heapq.heappush(self.heap, (-self.totals[pair], pair))
        return True

    def vocabulary(self) -> Vocabulary:
        return Vocabulary(self.base, tuple(self.rules), tuple(self.rules.values()))


def unchanged(old: Chain, new: Chain) -> tuple[int, int]:
    """How many places at the front and at the back need no recount after a change."""
    shorter = min(len(old), len(new))
    front = next((k for k in range(shorter) if old[k] != new[k]), shorter)
    back = next((k for k in range(shorter - front) if old[-1 - k] != new[-1 - k]), shorter - front)
    # the recount begins and ends with a set, so that the gaps beside a changed place are in it
    return max(0, front - 1) // 2 * 2, max(0, back - 1) // 2 * 2


def learn(base: int, sequences: Sequence[Sequence[Sequence[int]]], merges: int) -> Vocabulary:
    """At most `merges` rules from sequences of sets of features 0 … base − 1; fewer if the pairs run out."""
    if merges < 0:
        raise ValueError(f"merges cannot be negative, not {merges}")
    distinct: dict[tuple, int] = defaultdict(int)
    for sequence in sequences:
        distinct[tuple(tuple(s) for s in sequence)] += 1
    learner = Learner(base, [chain_of(s) for s in distinct], list(distinct.values()))
    for _ in range(merges):
        if not learner.step():
            break
    return learner.vocabulary()


def naive(sets: Sequence[Sequence[int]], vocabulary: Vocabulary, ranks: dict[Pair, int]) -> Chain:
    """The one fixed segmentation: always the merge with the largest priority × weight at its place."""
    chain = chain_of(sets)
    while True:
        best, at, rule = 0.0, (0, 0), (0, 0)
        for pair, weight, places in options(chain):
            rank = ranks.get(pair)
            if rank is not None and weight * vocabulary.priorities[rank] > best:
                best, at, rule = weight * vocabulary.priorities[rank], places, pair
        if not best:
            return chain
        merge_at(chain, at, rule, vocabulary.base + ranks[rule])
        chain = settle(chain)


def bpe(tokens: np.ndarray, vocabulary: Vocabulary, table: np.ndarray) -> np.ndarray:
    """Byte-pair encoding of every row (n, L) at once: earliest rule first, leftmost pair first.

    The result has the same shape, filled up at the end with the padding token `vocabulary.size`.
    """
    none, columns = vocabulary.size, np.arange(tokens.shape[1])
    out = tokens.copy()
    active = np.arange(len(out))
    for _ in range(len(columns) - 1):
        ranks = table[out[active, :-1], out[active, 1:]]
        at = ranks.argmin(axis=1)
        rank = ranks[np.arange(len(active)), at]
        active, at, rank = (v[rank < none] for v in (active, at, rank))
        if not len(active):
            break
        rows = np.column_stack([out[active], np.full(len(active), none)])
        rows = np.take_along_axis(rows, columns + (columns > at[:, None]), axis=1)
        rows[np.arange(len(active)), at] = vocabulary.base + rank
        out[active] = rows
    return out


def padded(rows: Sequence[Sequence[int]], fill: int) -> np.ndarray:
    """Rows of different lengths as one matrix, filled up at the end."""
    width = max(map(len, rows), default=0)
    return np.array([[*row, *[fill] * (width - len(row))] for row in rows], dtype=int).reshape(len(rows), width)


def split(chain: Chain, sizes: Sequence[int], features: int) -> tuple[tuple[int, ...], ...]:
    """The tokens of the first action only, of both, and of the second only, in a history of two actions.

    `sizes` are the features in every token. A token of both actions stands in the slot, or in the second set if
    that was emptied, or is all there is.
    """
    if len(chain) == 1:
        return (), chain[0], ()
    left, slot, right = chain
    if not slot and sum(sizes[t] for t in right) != features:
        return left, right, ()
    return left, slot, right
