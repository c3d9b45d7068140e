"""Layout and groups: starts without spread, landmarks, placement, Procrustes, trust."""

import numpy as np
import pytest
from sklearn.manifold import trustworthiness

from core.topics import clusters, layout
from core.topics.vectors import nearest, vectorise


@pytest.fixture(scope="module")
def groups():
    """Unit rows (600, 12) around six directions, and the group of each."""
    rng = np.random.default_rng(0)
    of = np.arange(600) % 6
    rows = np.eye(12)[of] + rng.normal(0, 0.08, size=(600, 12))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32), of


def test_nearest_is_exact(groups):
    rows, _ = groups
    indices, cosines = nearest(rows[:50], rows, 4, cells=4200)
    expected = np.argsort(-(rows[:50] @ rows.T), axis=1)[:, :4]
    assert np.array_equal(indices, expected)
    assert np.allclose(cosines, np.take_along_axis(rows[:50] @ rows.T, expected, axis=1), atol=1e-6)
    assert nearest(rows[:3], rows[:0], 4)[0].shape == (3, 0)


def test_start_has_no_nan_where_rows_have_no_spread():
    for rows in (np.ones((20, 5), np.float32), np.zeros((20, 5), np.float32), np.ones((20, 1), np.float32)):
        first = layout.start(rows)
        assert first.shape == (20, 2)
        assert np.isfinite(first).all()
        assert np.ptp(first, axis=0).min() > 0


def test_start_follows_the_principal_components(groups):
    """The first column of the start is the projection on the main axis, known here by construction."""
    x = np.linspace(-1, 1, 50)
    rows = np.column_stack([x, 0.1 * np.cos(9 * x), np.zeros(50)]).astype(np.float32)
    first = layout.start(rows)
    assert abs(np.corrcoef(first[:, 0], x)[0, 1]) > 0.99


def test_circle_is_even():
    xy = layout.circle(6)
    assert np.allclose(np.linalg.norm(xy, axis=1), 1)
    assert np.allclose(np.linalg.norm(xy - np.roll(xy, 1, axis=0), axis=1), 1)
    assert np.array_equal(layout.circle(1), [[0, 0]])


def test_groups_stay_together_on_the_map(groups):
    rows, of = groups
    xy = layout.arrange(rows)
    near = np.argsort(((xy[:, None] - xy[None]) ** 2).sum(-1), axis=1)[:, 1:6]
    assert (of[near] == of[:, None]).mean() > 0.99
    assert np.allclose(xy.mean(axis=0), 0)


def test_landmarks_give_the_same_groups(groups, monkeypatch):
    rows, of = groups
    monkeypatch.setattr(layout, "LANDMARKS_ABOVE", 500)
    monkeypatch.setattr(layout, "LANDMARKS", 200)
    for refined_to in (0, 1000):
        monkeypatch.setattr(layout, "REFINED_TO", refined_to)
        xy = layout.arrange(rows)
        near = np.argsort(((xy[:, None] - xy[None]) ** 2).sum(-1), axis=1)[:, 1:6]
        assert (of[near] == of[:, None]).mean() > 0.97


def test_a_new_row_goes_to_its_twin(groups):
    rows, _ = groups
    xy = np.random.default_rng(1).uniform(-50, 50, size=(600, 2))
    placed = layout.place(rows[[5, 77]], rows, xy)
    assert np.abs(placed - xy[[5, 77]]).max() < 0.03 * 100


def test_place_does_not_average_over_the_void():
    """Two equally near groups at the two ends: the place is at one of them, not in the middle."""
    rows = np.array([[1, 0], [0, 1]], np.float32)
    placed = layout.place(np.array([[0.7071, 0.7071]], np.float32), rows, np.array([[-10.0, 0], [10.0, 0]]))
    assert abs(placed[0, 0]) > 9


def test_procrustes_undoes_turn_mirror_scale_and_shift():
    rng = np.random.default_rng(2)
    old = rng.normal(size=(30, 2))
    angle = 1.1
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]) @ np.diag([1, -1])
    moved = 3.0 * old @ turn + [5, -7]
    everyone = np.arange(30)
    assert np.allclose(layout.align(moved, old, everyone, everyone), old)
    assert layout.align(moved, old, everyone[:1], everyone[:1]) is moved
    flat = np.zeros((4, 2))
    assert np.isfinite(layout.align(flat, old, everyone[:4], everyone[:4])).all()


def test_trustworthiness_is_scikit_learns(groups):
    rows, _ = groups
    xy = np.random.default_rng(4).normal(size=(600, 2)) + 3 * rows[:, :2]
    _, ours = layout.kept(rows[:300], xy[:300], k=10)
    assert ours == pytest.approx(
        trustworthiness(rows[:300], xy[:300], n_neighbors=10, metric="euclidean"), abs=2e-3
    )


def test_a_faithful_map_keeps_all_neighbours():
    angle = np.sort(np.random.default_rng(5).uniform(0, np.pi / 2, 60))
    rows = np.column_stack([np.cos(angle), np.sin(angle)])
    share, trust = layout.kept(rows, rows, k=5)
    assert share > 0.99
    assert trust > 0.999
    assert layout.kept(rows[:2], rows[:2]) == (1.0, 1.0)


@pytest.mark.parametrize(("n", "count"), [(0, 0), (5, 1), (8, 4), (38, 10), (100, 5), (3476, 31), (10**6, 40)])
def test_usual_count_of_groups(n, count):
    """round(n / 4) in 4…10 below 100 papers, round(0.75 √(n / 2)) in 4…40 from there on."""
    assert clusters.usual_count(n) == count


def test_groups_are_found(groups, monkeypatch):
    rows, of = groups
    for n in (60, 600):
        found = clusters.group(rows[:n], 6)
        assert len({(a, b) for a, b in zip(found.tolist(), of[:n].tolist(), strict=True)}) == 6
    monkeypatch.setattr(clusters, "MINIBATCH_FROM", 100)
    found = clusters.group(rows, 6)
    assert set(found.tolist()) <= set(range(6))


def test_equal_rows_are_one_group():
    assert clusters.group(np.ones((12, 3), np.float32)).tolist() == [0] * 12
    assert len(set(clusters.group(np.repeat(np.eye(2, dtype=np.float32), 60, axis=0), 5).tolist())) <= 5


def test_vectors_of_new_texts_are_those_of_the_old(seeds):
    texts = [abstract.plain for abstract in seeds.abstracts]
    vectors = vectorise(texts)
    rows, words = vectors.of(texts[:3])
    assert np.allclose(rows, vectors.rows[:3], atol=1e-6)
    assert (abs(words - vectors.words[:3]) > 1e-6).nnz == 0
    assert np.allclose(np.linalg.norm(vectors.rows, axis=1), 1, atol=1e-5)


def test_large_collections_get_latent_vectors(themed):
    collection, _ = themed
    texts = [paper.plain for paper in collection.abstracts]
    vectors = vectorise(texts)
    assert vectors.latent is not None
    assert vectors.rows.shape[0] == 150
    rows, _ = vectors.of(texts[:2])
    assert np.allclose(rows, vectors.rows[:2], atol=1e-5)
