"""Zigzag persistence: right values from small complexes, linear algebra over Z/2 and the model's own gradient."""

import math
from itertools import combinations

import numpy as np
import pytest

from core.demos import zigzag_persistence as zz
from core.demos._zigzag_persistence_barcode import layer_complexes, through_intersections, zigzag_barcode
from core.demos._zigzag_persistence_holes import best_cuts, holes_of, scores, starts, track
from core.demos._zigzag_persistence_model import (
    BLOCKS,
    NOUNS,
    SHAPES,
    STOP,
    TOPICS,
    WORDS,
    Transformer,
    draw,
    language,
    sentences,
    views,
)
from core.demos.zigzag_persistence import (
    ANGULAR,
    BETTI,
    BI,
    KEPT,
    ORACLE,
    PERMUTED,
    RANDOM,
    SHUFFLED,
    TRAINED,
    UNTRAINED,
    ZIGZAG,
    Settings,
)
from core.lab.verdicts import Samples


def closed(*simplices):
    """The complex of some simplices and all of their faces."""
    return frozenset(f for s in simplices for n in range(1, len(s) + 1) for f in combinations(sorted(s), n))


HOLLOW = closed((0, 1), (1, 2), (0, 2))
FILLED = closed((0, 1, 2))
PATH = closed((0, 1), (1, 2))
POINTS, EDGE = closed((0,), (1,)), closed((0, 1))
SQUARE = closed((0, 1), (1, 2), (2, 3), (0, 3))
DIAGONAL = SQUARE | closed((0, 2))
HALF = DIAGONAL | closed((0, 1, 2))


@pytest.mark.parametrize(
    ("sequence", "bars"),
    [
        ([HOLLOW, HOLLOW, HOLLOW], [(0, 0, 2), (1, 0, 2)]),
        ([HOLLOW, PATH, HOLLOW], [(0, 0, 2), (1, 0, 0), (1, 2, 2)]),
        ([FILLED, HOLLOW, FILLED], [(0, 0, 2), (1, 1, 1)]),
        ([HOLLOW, FILLED], [(0, 0, 1), (1, 0, 0)]),
        ([POINTS, EDGE, POINTS], [(0, 0, 0), (0, 0, 2), (0, 2, 2)]),
        ([EDGE, POINTS, EDGE], [(0, 0, 2), (0, 1, 1)]),
        ([SQUARE, DIAGONAL, HALF], [(0, 0, 2), (1, 0, 2), (1, 1, 1)]),
    ],
)
def test_bars_by_hand(sequence, bars):
    """By hand: which loops and parts can be followed through two or three complexes."""
    assert zigzag_barcode(sequence) == bars


# --- a second way: linear relations over Z/2 ------------------------------------------------------------


def echelon(rows):
    """Independent rows (integers as bit sets) by highest bit."""
    basis = {}
    for row in rows:
        while row and (top := row.bit_length()) in basis:
            row ^= basis[top]
        if row:
            basis[row.bit_length()] = row
    return list(basis.values())


def without(rows, mask):
    """Basis of the part of a span that has no bit of the mask."""
    rows = [r << 0 for r in rows]
    for bit in range(mask.bit_length()):
        if mask >> bit & 1:
            pivot = next((r for r in rows if r >> bit & 1), None)
            if pivot is not None:
                rows = [r ^ pivot if r >> bit & 1 else r for r in rows if r != pivot]
    return [r for r in rows if r]


def boundary(simplex, number):
    return sum(1 << number[f] for f in combinations(simplex, len(simplex) - 1)) if len(simplex) > 1 else 0


def cycles_and_boundaries(complex_, p, number):
    """Bases of the p-cycles and p-boundaries; a chain is the bit set of its simplices."""
    m = len(number)
    pairs = [boundary(s, number) << m | 1 << number[s] for s in complex_ if len(s) == p + 1]
    cycles = without(echelon(pairs), ((1 << m) - 1) << m)
    return echelon(cycles), echelon(boundary(s, number) for s in complex_ if len(s) == p + 2)


def counts_by_relations(sequence, p):
    """(a, b) -> number of bars over [a, b]: the rank of the relation that the arrows compose to.

    The relation is a space of pairs (cycle in a, homologous cycle in b), closed under boundaries at both ends.
    """
    number = {s: i for i, s in enumerate(sorted(set().union(*sequence)))}
    m = len(number)
    spaces = [cycles_and_boundaries(c, p, number) for c in sequence]
    found = {}
    for a, (cycles, at_a) in enumerate(spaces):
        pairs = [z << m | z for z in cycles] + at_a
        for b in range(a, len(sequence)):
            outside = sum(1 << i for s, i in number.items() if s not in sequence[b])
            at_b = spaces[b][1]
            pairs = echelon(without(echelon(pairs), outside) + at_b)
            far = [1 << (m + i) for i in range(m)] + at_b
            near = [1 << i for i in range(m)] + [x << m for x in at_a]
            loose = [len(pairs) + len(u) - len(echelon(pairs + u)) for u in (far, near)]
            found[a, b] = len(pairs) - sum(loose) + len(at_a) + len(at_b)
    return found


def random_zigzag(rng, layers=4, vertices=6):
    every = [s for n in (1, 2, 3) for s in combinations(range(vertices), n)]
    complexes = []
    for _ in range(layers):
        kept = [s for s in every if rng.random() < {1: 0.7, 2: 0.5, 3: 0.25}[len(s)]]
        complexes.append(closed(*kept) if kept else frozenset())
    return through_intersections(complexes)


@pytest.mark.parametrize("seed", range(25))
def test_barcode_against_linear_relations(seed):
    """A second algorithm: bars over every interval, counted as ranks of composed linear relations."""
    sequence = random_zigzag(np.random.default_rng(seed))
    bars = zigzag_barcode(sequence)
    for p in (0, 1, 2):
        for (a, b), count in counts_by_relations(sequence, p).items():
            assert count == sum(d == p and first <= a and last >= b for d, first, last in bars), (p, a, b)


@pytest.mark.parametrize("seed", range(5))
def test_bars_at_an_index_are_its_betti_number(seed):
    """Gaussian elimination: cycles minus boundaries of each complex of random clouds, dimensions 0 and 1."""
    rng = np.random.default_rng(seed)
    sequence = through_intersections(layer_complexes(rng.normal(size=(3, 25, 3)), 4))
    bars = zigzag_barcode(sequence)
    for index, complex_ in enumerate(sequence):
        number = {s: i for i, s in enumerate(sorted(complex_))}
        for p in (0, 1):
            cycles, boundaries = cycles_and_boundaries(complex_, p, number)
            covering = sum(d == p and first <= index <= last for d, first, last in bars)
            assert covering == len(cycles) - len(boundaries)


# --- clouds ---------------------------------------------------------------------------------------------


def circle(n=40):
    angle = 2 * np.pi * np.arange(n) / n
    return np.column_stack([np.cos(angle), np.sin(angle)])


def turned(points, angle):
    c, s = math.cos(angle), math.sin(angle)
    return points @ np.array([[c, -s], [s, c]])


def jittered(rng, n=40):
    """A circle with neighbours at unequal distances, so that rounding breaks no tie."""
    return circle(n) * (1 + 1e-4 * rng.random((n, 1)))


def test_a_circle_is_followed_by_its_prompts():
    """Theory: one loop in all layers; with the middle rows permuted, a loop of its own in each."""
    rng = np.random.default_rng(0)
    ring = jittered(rng)
    layers = [ring, 3 * ring, turned(ring, 0.7)]
    bars = zigzag_barcode(through_intersections(layer_complexes(layers, 2)))
    assert bars == [(0, 0, 4), (1, 0, 4)]
    layers[1] = rng.permutation(layers[1])
    bars = zigzag_barcode(through_intersections(layer_complexes(layers, 2)))
    assert [b for b in bars if b[0] == 1] == [(1, 0, 0), (1, 2, 2), (1, 4, 4)]


def test_identical_layers():
    """Invariant and Gaussian elimination: 50 points in space, k = 5: β = 10 throughout, everything persists."""
    cloud = np.random.default_rng(0).normal(size=(50, 3))
    complexes = layer_complexes([cloud] * 4, 5)
    assert [sum(len(s) == n for s in complexes[0]) for n in (1, 2, 3)] == [50, 164, 159]
    holes = track(complexes)
    assert (holes.betti == 10).all()
    assert (holes.lives == 4).all()
    assert np.allclose(holes.persistence, 1)


def test_distances_alone_matter():
    """Invariance: rotating, scaling or shifting one whole layer changes no bar."""
    rng = np.random.default_rng(3)
    base = rng.normal(size=(60, 2))
    layers = [base, base + 0.05 * rng.normal(size=base.shape), base + 0.1 * rng.normal(size=base.shape)]
    expected = zigzag_barcode(through_intersections(layer_complexes(layers, 4)))
    for changed in (turned(layers[1], 1.1), 7 * layers[1], layers[1] + [3.0, -2.0]):
        moved = zigzag_barcode(through_intersections(layer_complexes([layers[0], changed, layers[2]], 4)))
        assert moved == expected


def test_equal_points_tie_by_row_number():
    """By hand: three equal points, k = 1: each takes the lowest other row, so 0–1 and 0–2."""
    complexes = layer_complexes(np.zeros((2, 3, 2)), 1)
    assert complexes[0] == closed((0, 1), (0, 2))


def test_independent_orders_leave_each_cycle_alone():
    """Theory: r = 1/L in every layer when all rows are permuted apart, with the Betti numbers as before."""
    plain, mixed = zz.run(Settings(), 3), zz.run(Settings(scramble=True), 3)
    assert (plain.holes.betti == mixed.holes.betti).all()
    assert np.allclose(mixed.holes.persistence, 1 / BLOCKS, rtol=0, atol=1e-12)
    assert mixed.note == zz.ALL_TIE
    assert math.isnan(mixed.measures["increase"][ZIGZAG])
    assert math.isnan(mixed.measures["rank"][ZIGZAG])


# --- descriptors and criteria ---------------------------------------------------------------------------


def test_descriptors_by_hand():
    """Three layers, indices 0, 2, 4. A bar of an intersection alone is dropped, another dimension ignored."""
    holes = holes_of([(1, 0, 2), (1, 1, 4), (1, 1, 1), (1, 4, 4), (0, 0, 4)], 3)
    assert sorted(map(tuple, holes.alive.astype(int))) == [(0, 0, 1), (0, 1, 1), (1, 1, 0)]
    assert holes.betti.tolist() == [1, 2, 2]
    assert np.allclose(holes.persistence, [(1 + 1 / 2 + 0) / 3, (1 + 1 + 1 / 2) / 3, (0 + 1 / 2 + 1) / 3])
    assert holes.mean_life == pytest.approx(5 / 3)


def test_cosine_criteria_by_hand():
    """States that turn by known angles; the least turn over two layers wins for both cosine scores."""
    angles = np.array([0.0, 0.9, 1.6, 2.2, 2.3, 2.45])  # after layers 1 to 6
    states = np.stack([np.tile([math.cos(a), math.sin(a)], (7, 1)) for a in angles])
    found = scores(states, holes_of([], 6), 2)
    first = starts(6, 2)
    assert first.tolist() == [1, 2, 3, 4]
    assert np.allclose(found[ANGULAR], [(angles[s + 1] - angles[s - 1]) / np.pi for s in first])
    assert np.allclose(found[BI], [sum(1 - math.cos(angles[i + 1] - angles[i]) for i in (s - 1, s)) for s in first])
    assert np.argmin(found[ANGULAR]) == np.argmin(found[BI]) == 3
    assert (found[BETTI] == 0).all()


def test_ties_are_no_choice():
    """A constant score chooses nothing; the lowest ones choose together."""
    assert len(best_cuts(np.full(6, 0.125))) == 0
    assert best_cuts(np.array([3, 1, 2, 1])).tolist() == [1, 3]


def test_no_cycles():
    """Two layers of a tree: no bar, r = 0, no life, no choice."""
    holes = track([closed((0, 1), (1, 2))] * 2)
    assert (holes.persistence == 0).all()
    assert math.isnan(holes.mean_life)


# --- language and model -----------------------------------------------------------------------------------


def test_sentences_follow_the_grammar():
    """The corpus: an article is followed by an adjective or noun, "stop" and "and" by an article, a verb by one."""
    rows = sentences(np.random.default_rng(0), 4000)
    assert rows.shape == (4000, 9)
    assert rows.max() == WORDS - 1
    kinds = np.digitize(
        rows, [2, 4, 4 + TOPICS * NOUNS, 4 + TOPICS * (NOUNS + 4)]
    )  # article, end, noun, verb, adj.
    follows = {(a, b) for a, b in zip(kinds[:, :-1].ravel(), kinds[:, 1:].ravel(), strict=True)}
    assert follows == {(0, 4), (0, 2), (4, 2), (2, 3), (2, 1), (3, 0), (1, 0)}
    ends = rows[kinds == 1]
    assert abs((ends == STOP).mean() - 0.7) < 0.02
    articles = kinds[:, :-1] == 0
    assert abs((kinds[:, 1:][articles] == 4).mean() - 0.5) < 0.02


def test_gradient_by_central_differences():
    """Central differences of step 1e-6 in float64 along coordinates of every weight array."""
    rng = np.random.default_rng(1)
    flat = draw(rng).astype(float)
    rows = sentences(rng, 6)
    gradient = Transformer(flat).gradient(rows)

    def loss(weights):
        model = Transformer(weights)
        return model.loss(model.through(model.embed(rows[:, :-1]), range(BLOCKS)), rows[:, 1:])

    numbers = views(np.arange(len(flat)))
    at = np.concatenate([rng.choice(numbers[name].ravel(), 25, replace=False) for name in SHAPES])
    numeric = []
    for i in at:
        step = np.zeros_like(flat)
        step[i] = 1e-6
        numeric.append((loss(flat + step) - loss(flat - step)) / 2e-6)
    assert np.linalg.norm(gradient[at] - numeric) / np.linalg.norm(numeric) < 1e-6


def test_the_model_looks_back_only():
    """Causality: a changed last word changes no earlier position."""
    model = language("trained", "grammar", 3).model
    words = sentences(np.random.default_rng(5), 4)[:, :-1]
    other = words.copy()
    other[:, -1] = (other[:, -1] + 7) % WORDS
    a, b = (model.through(model.embed(w), range(BLOCKS)) for w in (words, other))
    assert np.allclose(a[:, :-1], b[:, :-1], atol=1e-6)
    assert not np.allclose(a[:, -1], b[:, -1])


def test_training_learns_and_cuts_are_real():
    """Loss below that of the word frequencies; a cut equals running the other blocks alone."""
    lm = language("trained", "grammar", 3)
    share = np.bincount(lm.targets.ravel(), minlength=WORDS) / lm.targets.size
    entropy = -np.sum(share[share > 0] * np.log(share[share > 0]))
    assert lm.loss < entropy - 0.5
    assert language("untrained", "grammar", 3).loss > entropy
    rest = lm.model.through(lm.streams[0], [0, 1, 2, 5, 6, 7])
    assert lm.loss_without(3, 2) == pytest.approx(lm.model.loss(rest, lm.targets), abs=1e-6)


def test_shuffled_rows_have_the_same_words():
    """The shuffled text keeps the words of each row."""
    plain, mixed = (language("untrained", c, 2) for c in ("grammar", "shuffled"))
    assert abs(np.bincount(plain.targets.ravel())[:2].sum() / plain.targets.size - 0.29) < 0.03
    assert not (plain.targets == mixed.targets).all()


# --- a run and its verdicts -------------------------------------------------------------------------------


def test_a_run_is_consistent():
    """Invariants: the oracle is the least, a random cut the mean; one permuted layer keeps all Betti numbers."""
    run = zz.run(Settings(), 3)
    cost = run.measures["increase"]
    assert cost[ORACLE] == run.increase.min() <= min(cost.values())
    assert cost[RANDOM] == pytest.approx(run.increase.mean())
    assert (run.permuted.betti == run.holes.betti).all()
    assert run.measures["r_middle"][PERMUTED] == pytest.approx(1 / BLOCKS)
    assert run.measures["r_middle"][KEPT] > 0.2


def identity(drop, changed):
    rng = np.random.default_rng(0)
    kept = 0.4 + 0.01 * rng.normal(size=10)
    return Samples(
        {
            ("r_middle", KEPT): kept,
            ("r_middle", PERMUTED): kept - drop + 0.005 * rng.normal(size=10),
            ("betti_change", PERMUTED): np.full(10, changed),
        },
        range(10),
    )


@pytest.mark.parametrize(
    ("drop", "changed", "outcome"),
    [(0.2, 0, "holds"), (0.2, 1, "unclear"), (0.0, 0, "fails"), (0.05, 0, "unclear")],
)
def test_identity_rule(drop, changed, outcome):
    """The rule by its own words: a drop beyond 0.05, and no Betti number may change."""
    assert zz.follows_identity(identity(drop, changed)).outcome == outcome


@pytest.mark.parametrize(
    ("betti", "life", "spread", "outcome"),
    [
        (2.0, 1.0, 0.02, "holds"),
        (1.0, 0.7, 0.02, "holds"),
        (1.03, 0.98, 0.02, "fails"),
        (1.12, 1.0, 0.2, "unclear"),
    ],
)
def test_reaction_rule(betti, life, spread, outcome):
    """One descriptor beyond ±10 % is enough; both surely within fail."""
    wave = spread * np.array([1, -1] * 4)
    of = {("betti_of", TRAINED): np.full(8, 40.0), ("life_of", TRAINED): np.full(8, 1.5)}
    of |= {("betti_of", UNTRAINED): 40 * (betti + wave), ("life_of", UNTRAINED): 1.5 * (life + wave)}
    assert zz.reacts(UNTRAINED)(Samples(of, range(8))).outcome == outcome


@pytest.mark.parametrize(
    ("zigzag", "outcome"), [(0.10, "holds"), (0.30, "fails"), (0.145, "unclear"), (math.nan, "untestable")]
)
def test_comparable_rule(zigzag, outcome):
    """Scores 0.09, random 0.2, oracle 0.09: half of what there is to gain is 0.055."""
    wave = 0.01 * np.array([1, -1] * 4)
    means = {ANGULAR: 0.09, BI: 0.09, RANDOM: 0.2, ORACLE: 0.09, ZIGZAG: zigzag}
    values = {("increase", name): np.full(8, v) for name, v in means.items()}
    values["increase", ZIGZAG] = zigzag + wave
    assert zz.comparable(Samples(values, range(8))).outcome == outcome


def test_three_models_differ():
    """The probe sees the run's own numbers for the trained model, and others for the other two."""
    found, own = zz.three_models(Settings(prompts=100), 1), zz.run(Settings(prompts=100), 1).measures
    assert found["betti_of"][TRAINED] == own["betti"][ZIGZAG]
    assert found["life_of"][TRAINED] == own["life"][ZIGZAG]
    assert len(set(found["betti_of"].values())) == len((TRAINED, UNTRAINED, SHUFFLED))


# --- bad input ----------------------------------------------------------------------------------------------


CLOUDS = np.random.default_rng(0).normal(size=(2, 10, 2))


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: layer_complexes(CLOUDS, 0), "^k "),
        (lambda: layer_complexes(CLOUDS, 10), "^k "),
        (lambda: layer_complexes(CLOUDS, 3, p=1, maxdim=1), "^maxdim "),
        (lambda: zigzag_barcode([HOLLOW, SQUARE]), "^complexes: "),
        (lambda: layer_complexes([CLOUDS[0], CLOUDS[1, :9]], 3), "^reps: "),
        (lambda: layer_complexes([CLOUDS[0], np.full((10, 2), np.nan)], 3), "^reps: "),
        (lambda: layer_complexes(CLOUDS[:1], 3), "^reps: "),
        (lambda: starts(8, 8), "^block "),
        (lambda: starts(8, 0), "^block "),
    ],
)
def test_bad_input_is_named(call, named):
    with pytest.raises(ValueError, match=named):
        call()


@pytest.mark.parametrize(
    ("name", "value"),
    [("prompts", 39), ("prompts", 401), ("k", 1), ("k", 11), ("block", 0), ("block", 4), ("model", "big")],
)
def test_bad_settings_are_named(name, value):
    with pytest.raises(ValueError, match=f"^{name} cannot be .*: it may be "):
        Settings.checked({name: value})
