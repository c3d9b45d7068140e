"""Scheduled decoding: right values from closed forms, invariants, finite differences and a plain loop."""

import math
from functools import cache

import numpy as np
import pytest

from core.demos import _scheduled_decoding_images as images
from core.demos import _scheduled_decoding_network as nested
from core.demos import scheduled_decoding as demo
from core.demos._scheduled_decoding_network import (
    FIRST_CLASS,
    MASK,
    SIZES,
    D,
    Flat,
    K,
    T,
    cost,
    cross_entropy,
    forward,
    initial,
    loss,
    network,
    softmax,
)
from core.demos.scheduled_decoding import FULL, METHOD, Settings, decode, schedule, still_masked
from core.lab.verdicts import Samples

UP = (4,) * 4 + (2,) * 4 + (1,) * 4


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def noise(rng, steps: int, n: int) -> np.ndarray:
    return np.stack([rng.random((steps, n, T)), rng.gumbel(size=(steps, n, T))])


def some_ids(rng, n: int = 3) -> tuple[np.ndarray, np.ndarray]:
    truth = rng.integers(0, K, (n, T))
    return np.column_stack([np.full(n, FIRST_CLASS), np.where(rng.random((n, T)) < 0.5, MASK, truth)]), truth


@cache
def default_run() -> demo.Run:
    return demo.run(Settings(), 0)


# --- decoding ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("layers", "same"), [(1, True), (2, False)])
def test_one_block_cannot_tell_the_cache(rng, layers, same):
    """Theory: in one block keys depend on the token alone, so the cache is exact; in two they do not."""
    flat, random = 2 * initial(rng, layers), noise(rng, 12, 40)
    classes = np.zeros(40, dtype=int)
    without, with_cache = (decode(flat, classes, (1,) * 12, c, 4.0, random).tokens for c in (False, True))
    assert np.array_equal(without, with_cache) == same


def test_active_counts_at_twelve_steps(rng):
    """By hand: masked tokens and those fixed a step ago; all 17 whenever the size changes or nothing is kept."""
    flat, random = initial(rng), noise(rng, 12, 2)
    constant = (17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 6, 4)
    growing = (17, 16, 15, 14, 17, 12, 11, 10, 17, 8, 6, 4)
    zeros = np.zeros(2, dtype=int)
    assert decode(flat, zeros, (1,) * 12, True, 4.0, random).active == constant
    assert decode(flat, zeros, UP, True, 4.0, random).active == growing
    assert decode(flat, zeros, UP, False, 4.0, random).active == (17,) * 12


def test_costs_at_the_defaults():
    """Closed form of the step's cost, summed by hand (million multiply-adds)."""
    expected = {
        FULL: 3.012,
        demo.FULL_CACHE: 2.014,
        demo.HALF: 1.537,
        demo.QUARTER: 0.799,
        demo.UP: 1.783,
        METHOD: 1.153,
        demo.DOWN: 1.446,
    }
    found = default_run().measures["compute"]
    assert {name: round(found[name], 3) for name in expected} == expected


@pytest.mark.parametrize("p", SIZES)
def test_the_cost_counts_the_matrices_that_are_used(rng, p):
    """Independent count: a token meets every number of every block once, and each of D/p columns 17 times, twice."""
    net = network(initial(rng), p)
    numbers = sum(a.size for b in net.blocks for a in (b.qkv, b.out, b.up, b.down))
    scores_and_sums = 2 * 2 * 17 * (D // p)
    assert cost(9, 5, p) == 9 * (numbers + scores_and_sums) + 5 * net.head.size


def test_nothing_is_masked_at_the_end_and_fixed_tokens_stay():
    """Invariants of every method: counts fall as announced, the end has no MASK, a fixed code never changes."""
    for d in default_run().decoded.values():
        left = [T, *still_masked(len(d.sizes))]
        assert ((d.tokens == MASK).sum(axis=2) == np.array(left)[:, None]).all()
        fixed = d.tokens[:-1] != MASK
        assert (d.tokens[1:][fixed] == d.tokens[:-1][fixed]).all()


@pytest.mark.parametrize("steps", range(1, T + 1))
def test_every_step_fixes_a_token(steps):
    """Invariant, and the closed form ⌊T cos⌋ where it already falls."""
    left = still_masked(steps)
    assert len(left) == steps
    assert left[-1] == 0
    assert (np.diff([T, *left]) <= -1).all()
    assert all(a <= T * math.cos(math.pi / 2 * k / steps) + 1e-9 for k, a in enumerate(left, 1))


def plain_decode(flat, sizes, gamma, random):
    """A second implementation for one image: token by token, head by head, lists as cache, whole matrices cut here."""
    tokens, stale, kept = [FIRST_CLASS] + [MASK] * T, set(range(T + 1)), {}
    full, steps = network(flat, 1), len(sizes)

    def norm(x):
        return (x - x.mean()) / math.sqrt(x.var() + 1e-6)

    for k, p in enumerate(sizes):
        if k == 0 or sizes[k - 1] != p:
            stale, kept = set(range(T + 1)), {}
        masked = {i for i in range(T + 1) if tokens[i] == MASK}
        active = sorted(masked | stale)
        x = {i: full.embedding[tokens[i]] + (full.position[i - 1] if i else 0) for i in active}
        for layer, b in enumerate(full.blocks):
            per_head = b.qkv.reshape(D, D // 4, 3, 4)[:, : D // 4 // p]
            z = {i: np.einsum("d,dhce->hce", norm(x[i]), per_head) for i in active}
            kept |= {(layer, i): z[i][:, 1:] for i in active}
            for i in active:
                parts = []
                for h in range(per_head.shape[1]):
                    score = np.array([z[i][h, 0] @ kept[layer, j][h, 0] / 2 for j in range(T + 1)])
                    weight = np.exp(score) / np.exp(score).sum()
                    parts.append(sum(weight[j] * kept[layer, j][h, 1] for j in range(T + 1)))
                x[i] = x[i] + np.concatenate(parts) @ b.out[: D // p]
                hidden = np.maximum(norm(x[i]) @ b.up[:, : b.up.shape[1] // p], 0)
                x[i] = x[i] + hidden @ b.down[: len(hidden)]
        code, sure = {}, {}
        for i in masked:
            q = np.exp(norm(x[i]) @ full.head)
            q /= q.sum()
            code[i] = int(np.searchsorted(q.cumsum(), random[0, k, 0, i - 1]))
            sure[i] = math.log(q[code[i]]) + gamma * (1 - (k + 1) / steps) * random[1, k, 0, i - 1]
        stale = set(sorted(masked, key=sure.get)[still_masked(steps)[k] :])
        for i in stale:
            tokens[i] = code[i]
    return tokens[1:]


@pytest.mark.parametrize("sizes", [UP, UP[::-1], (1,) * 12, (4, 2, 1)])
def test_decoding_agrees_with_a_plain_loop(rng, sizes):
    """Brute force: the same weights and noise give the same sixteen codes."""
    for _ in range(3):
        flat, random = 1.5 * initial(rng), noise(rng, len(sizes), 1)
        found = decode(flat, np.zeros(1, dtype=int), sizes, True, 4.0, random)
        assert found.tokens[-1, 0].tolist() == plain_decode(flat, sizes, 4.0, random)


def test_three_steps_leave_the_cache_nothing_to_save():
    """Break it: the size changes at every step, so cached and uncached cost the same, far from 2.5 times less."""
    s = Settings(steps=3)
    assert schedule(3, s.quarter, s.half) == (4, 2, 1)
    found = demo.run(s, 0).measures
    assert found["compute"][METHOD] == found["compute"][demo.UP]
    assert found["saving"][METHOD] < demo.SAVED_LEAST
    assert found["fd"][METHOD] == found["fd"][demo.UP]


# --- the network -------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [2, 4])
def test_a_smaller_size_is_the_full_one_with_the_rest_at_zero(rng, p):
    """Invariant of slicing: heads and hidden units beyond the first 1/p set to 0 leave the sub-model's output."""
    flat = initial(rng)
    ids, _ = some_ids(rng)
    small, _ = forward(network(flat, p), ids)
    cut = flat.copy()
    for b in network(cut, 1).blocks:
        b.qkv[:, 3 * D // p :] = 0
        b.out[D // p :] = 0
        b.up[:, b.up.shape[1] // p :] = 0
        b.down[len(b.down) // p :] = 0
    assert np.allclose(forward(network(cut, 1), ids)[0], small, atol=1e-5)
    assert not np.allclose(forward(network(flat, 1), ids)[0], small, atol=1e-2)


def test_all_sizes_are_views_of_the_largest(rng):
    """By hand: 14,176 numbers; every array of every size shares memory with the one vector."""
    flat = initial(rng)
    assert flat.size == (17 + 10 + 16) * 32 + 32 * 16 + 2 * (4 * 32 * 32 + 2 * 32 * 32) == 14176
    assert all(np.shares_memory(a, flat) for p in SIZES for a in network(flat, p).arrays)
    assert nested.counted(2, SIZES) == nested.counted(2, [1]) == 14176
    assert nested.counted(2, [4]) == (17 + 10 + 16) * 32 + 32 * 16 + 2 * 6 * 32 * 32 // 4


@pytest.mark.parametrize("small", [2, 4])
def test_gradient_against_central_differences(rng, small):
    """Finite differences of the summed loss, in double precision, at α = 0 (no constant target)."""
    flat = initial(rng)
    ids, truth = some_ids(rng)
    _, gradient = loss(Flat(flat), ids, truth, small, 0.0)
    gradient = gradient.copy()
    for i in rng.choice(flat.size, 120, replace=False):
        e = np.zeros_like(flat)
        e[i] = 1e-5
        up, down = (loss(Flat(flat + sign * e), ids, truth, small, 0.0)[0] for sign in (1, -1))
        assert gradient[i] == pytest.approx((up - down) / 2e-5, abs=1e-6)


def test_distillation_at_alpha_one_moves_the_small_size_to_the_full_one(rng):
    """Closed form: with α = 1 the gradient for the smaller size's logits is p_small − p_full, the truth plays no role."""
    flat = initial(rng)
    ids, truth = some_ids(rng)
    other = (truth + 1) % K
    gradients = [loss(Flat(flat), ids, t, 2, 1.0)[1].copy() for t in (truth, other)]
    full_only = []
    for t in (truth, other):
        logits, tape = forward(network(flat, 1), ids)
        hidden = (ids[:, 1:] == MASK).reshape(-1, 1)
        into = np.zeros_like(flat)
        nested.backward(
            network(flat, 1),
            tape,
            hidden * (softmax(logits) - np.eye(K)[t.reshape(-1)]) / hidden.sum(),
            network(into, 1),
        )
        full_only.append(into)
    assert np.allclose(gradients[0] - full_only[0], gradients[1] - full_only[1], atol=1e-12)
    assert not np.allclose(gradients[0], full_only[0], atol=1e-3)


def test_training_teaches_every_size():
    """Theory: blind guessing costs ln 16 = 2.77 nats; untrained is worse, trained far better, larger sizes best.

    With everything masked the codes' own spread is left, more than with context.
    """
    data, flat, found = demo.trained(False, 0)
    classes, hidden = np.zeros(len(data.test), dtype=int), np.ones(data.test.shape, dtype=bool)
    untrained = cross_entropy(initial(np.random.default_rng(0)), 1, data.test, classes, hidden)
    assert untrained > math.log(16)
    assert found[FULL] < found[demo.HALF] < found[demo.QUARTER] < math.log(16) - 1
    assert found[FULL] < demo.LEARNED
    assert found[FULL] < cross_entropy(flat, 1, data.test, classes, hidden) < 1.9


# --- images ------------------------------------------------------------------------------------------


def test_frechet_distance(rng):
    """Identity 0; closed form for a shift; symmetric root of the covariances as a second formula."""
    a, b = rng.normal(size=(200, 12)), rng.normal(size=(300, 12)) @ rng.normal(size=(12, 12))
    assert images.frechet(a, a) == pytest.approx(0, abs=1e-6)
    assert images.frechet(a, a + 0.5) == pytest.approx(12 * 0.25, abs=1e-6)
    c, d = np.cov(a, rowvar=False), np.cov(b, rowvar=False)
    values, vectors = np.linalg.eigh(c)
    root = vectors * np.sqrt(values) @ vectors.T
    cross = np.sqrt(np.linalg.eigvalsh(root @ d @ root)).sum()
    gap = a.mean(0) - b.mean(0)
    assert images.frechet(a, b) == pytest.approx(gap @ gap + np.trace(c + d) - 2 * cross, rel=1e-6)


def test_the_floor_is_far_below_every_method():
    """Unseen digits differ from the training digits by sampling only: 0.02 to 0.035, depending on the split."""
    found = default_run().measures["fd"]
    assert 0.02 < found[demo.REAL] < 0.035 < 2 * found[demo.REAL] < min(found[m] for m in demo.ways(Settings()))


def test_patches_and_tokens_go_there_and_back(rng):
    """Identities: cutting is inverted by joining; codes of decoded images are the codes; first patch by hand."""
    pixels = rng.random((5, 64))
    assert (images.pixels_of(images.patches(pixels)) == pixels).all()
    assert (images.patches(pixels)[0, 1] == pixels[0, [2, 3, 10, 11]]).all()
    book = demo.trained(False, 0)[0].book
    tokens = rng.integers(0, K, (6, T))
    assert (book.tokens(book.images(tokens)) == tokens).all()


# --- settings, errors and verdicts -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"), [("steps", 2), ("steps", 17), ("quarter", -0.1), ("half", -0.1), ("gamma", -1)]
)
def test_bad_settings_are_named(name, value):
    with pytest.raises(ValueError, match=rf"^{name} cannot be .*: it may be "):
        Settings.checked({name: value})


def test_bad_input_is_named(rng):
    flat, zeros = initial(rng), np.zeros(2, dtype=int)
    with pytest.raises(ValueError, match=r"^half: the shares .* sum to more than 1"):
        Settings.checked({"quarter": 0.6, "half": 0.5})
    for name, shares in (("quarter", (-0.1, 0.5)), ("half", (0.5, -0.1)), ("half", (0.6, 0.6))):
        with pytest.raises(ValueError, match=rf"^{name}: "):
            schedule(12, *shares)
    for steps in (0, T + 1):
        with pytest.raises(ValueError, match=r"^steps: "):
            still_masked(steps)
    with pytest.raises(ValueError, match=r"^schedule: a divisor"):
        decode(flat, zeros, (3,) * 12, True, 4.0, noise(rng, 12, 2))
    with pytest.raises(ValueError, match=r"^schedule: 11 sizes"):
        decode(flat, zeros, (1,) * 11, True, 4.0, noise(rng, 12, 2))
    with pytest.raises(ValueError, match=r"^gamma: "):
        decode(flat, zeros, (1,) * 12, True, -1.0, noise(rng, 12, 2))
    with pytest.raises(ValueError, match=r"^images: at least 30"):
        images.frechet(rng.normal(size=(29, 12)), rng.normal(size=(40, 12)))
    with pytest.raises(ValueError, match=r"^images: the root"):
        images.real_part(np.eye(2) + 0.01j)
    assert images.real_part(np.eye(2) + 1e-5j).dtype == float
    two_patches = np.tile(np.repeat([0.0, 1.0], 32), (40, 1))
    for codes in (1, 3):
        with pytest.raises(ValueError, match=r"^codes: 2 to 2"):
            images.codebook(rng, two_patches, codes)


def samples_of(fd, full_cross_entropy=1.38):
    """Eight seeds with these mean distances, a little spread and the default costs."""
    spread = np.linspace(-0.002, 0.002, 8)
    values = {("fd", m): v + spread * (1 + i) for i, (m, v) in enumerate(fd.items())}
    run = default_run()
    for measure in ("compute", "saving", "parameters"):
        values |= {(measure, m): np.full(8, v) for m, v in run.measures[measure].items()}
    return Samples(values | {("cross_entropy", FULL): np.full(8, full_cross_entropy)}, range(8))


GOOD = {METHOD: 0.21, FULL: 0.19, demo.FULL_CACHE: 0.19, demo.HALF: 0.24, demo.DOWN: 0.27, demo.FEW: 0.2}


@pytest.mark.parametrize(
    ("change", "outcomes"),
    [
        ({}, ("holds", "holds", "holds", "holds")),
        ({demo.HALF: 0.215}, ("unclear", "holds", "holds", "holds")),
        ({demo.HALF: 0.17}, ("fails", "holds", "holds", "holds")),
        ({demo.FULL_CACHE: 0.3}, ("holds", "fails", "holds", "holds")),
        ({demo.FULL_CACHE: 0.1}, ("holds", "unclear", "holds", "holds")),
        ({FULL: 0.1, demo.FULL_CACHE: 0.1}, ("holds", "holds", "fails", "holds")),
    ],
)
def test_rules_give_every_outcome(change, outcomes):
    """By hand from the stated margins: 0.01, ±0.05, 1.3 and 2.5 times."""
    found = [c.judge(samples_of(GOOD | change), Settings()).outcome for c in demo.DEMO.claims]
    assert tuple(found) == outcomes


def test_untrained_networks_and_constant_schedules_are_not_judged():
    samples = samples_of(GOOD, full_cross_entropy=2.0)
    found = [c.judge(samples, Settings()).outcome for c in demo.DEMO.claims]
    assert found == ["untestable"] * 3 + ["holds"]
    constant = Settings(quarter=0, half=0)
    found = [c.judge(samples_of(GOOD), constant).outcome for c in demo.DEMO.claims]
    assert found == ["untestable", "holds", "untestable", "holds"]
