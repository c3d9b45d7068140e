"""Vectors to a flat map: t-SNE by collection size, landmarks for many, old points left where they are."""

import warnings

import numpy as np
from sklearn.manifold import TSNE
from sklearn.utils.extmath import randomized_svd

from core.topics.vectors import nearest

MAP_FROM = 8
"""Fewer points than this are a list, not a map; they are laid on a circle."""
SMALL = 100
LANDMARKS_ABOVE = 5_000
LANDMARKS = 3_000
REFINED_TO = 20_000
_NEIGHBOURS = 5
_WIDEST = 0.05
_JITTER = 0.004


def arrange(rows: np.ndarray) -> np.ndarray:
    """Places (n, 2) of unit rows (n, d), centred on 0; near rows stand near each other."""
    n = len(rows)
    if n < MAP_FROM:
        return circle(n)
    if n <= LANDMARKS_ABOVE:
        return _centred(_tsne(rows, start(rows)))
    xy = _by_landmarks(rows)
    return _centred(refine(rows, xy) if n <= REFINED_TO else xy)


def circle(n: int) -> np.ndarray:
    """Places (n, 2) on the unit circle, clockwise from the top; a single one in the middle."""
    if n < 2:
        return np.zeros((n, 2))
    angle = np.pi / 2 - 2 * np.pi * np.arange(n) / n
    return np.column_stack([np.cos(angle), np.sin(angle)])


def start(rows: np.ndarray) -> np.ndarray:
    """Start (n, 2) of t-SNE: the two principal components, or seeded noise where rows have no spread.

    scikit-learn's own start by principal components divides by that spread: identical rows then become NaN
    and end the whole process (https://github.com/scikit-learn/scikit-learn/issues/28368).
    """
    centred = rows - rows.mean(axis=0, dtype=np.float64).astype(rows.dtype)
    if float(np.abs(centred).max(initial=0.0)) > 1e-6 and min(rows.shape) >= 2:
        left, spread, _ = randomized_svd(centred, 2, n_iter=7, random_state=0)
        first = np.asarray(left * spread, dtype=np.float32)
        width = float(first[:, 0].std())
        if np.isfinite(first).all() and width > 1e-6:
            return first / width * 1e-4
    return np.random.default_rng(0).normal(0, 1e-4, size=(len(rows), 2)).astype(np.float32)


def refine(rows: np.ndarray, xy: np.ndarray) -> np.ndarray:
    """Places (n, 2) after a short t-SNE that starts from `xy` and keeps its shape."""
    if len(rows) < MAP_FROM:
        return xy
    return _fit(rows, np.asarray(xy, dtype=np.float32), early_exaggeration=1.0, max_iter=250)


def place(rows: np.ndarray, known: np.ndarray, known_xy: np.ndarray) -> np.ndarray:
    """Places (m, 2) of new rows (m, d) among `known` rows (n, d) that stand at `known_xy` (n, 2), n >= 1.

    Each goes to the mean of its 5 nearest, weighted by 1/distance⁴; of these, ones that stand far from the
    nearest are left out, so that nobody lands in the void between two groups. A seeded jitter keeps
    equals apart.
    """
    indices, cosines = nearest(rows, known, _NEIGHBOURS)
    around = known_xy[indices]
    width = max(float(np.ptp(known_xy, axis=0).max(initial=0.0)), 1e-9)
    weights = 1.0 / np.maximum(2.0 - 2.0 * cosines.astype(np.float64), 1e-6) ** 2
    apart = np.linalg.norm(around - around[:, :1], axis=2)
    weights[apart > _WIDEST * width] = 0.0
    xy = (around * weights[:, :, None]).sum(axis=1) / weights.sum(axis=1)[:, None]
    return xy + np.random.default_rng(0).normal(0, _JITTER * width, size=xy.shape)


def align(xy: np.ndarray, old: np.ndarray, shared: np.ndarray, shared_old: np.ndarray) -> np.ndarray:
    """`xy` (n, 2) turned, mirrored, scaled and shifted (Procrustes) to lie best over `old` (m, 2).

    shared, shared_old: equally long indices of the same papers in `xy` and in `old`.
    """
    if len(shared) < 2:
        return xy
    here, there = xy[shared], old[shared_old]
    centre, old_centre = here.mean(axis=0), there.mean(axis=0)
    u, sizes, vt = np.linalg.svd((here - centre).T @ (there - old_centre))
    spread = float(((here - centre) ** 2).sum())
    scale = float(sizes.sum()) / spread if spread > 0 else 1.0
    return (xy - centre) @ (u @ vt) * scale + old_centre


def kept(rows: np.ndarray, xy: np.ndarray, k: int = 10, most: int = 500) -> tuple[float, float]:
    """How far the map can be trusted: share of true neighbours kept, and trustworthiness.

    The first is the mean share of a paper's k nearest by text that are among its k nearest on the map;
    the second weighs intruders by how far away they really are (scikit-learn's measure). Over all papers,
    or a seeded draw of `most`. Both are in [0, 1]; (1, 1) if no paper has more than k others.
    """
    n = len(rows)
    k = min(k, (n - 1) // 3)
    if k < 1:
        return 1.0, 1.0
    drawn = np.arange(n) if n <= most else np.random.default_rng(0).choice(n, most, replace=False)
    same, intruded = 0, 0.0
    for index in drawn:
        likeness = rows @ rows[index]
        likeness[index] = np.inf
        apart = ((xy - xy[index]) ** 2).sum(axis=1)
        apart[index] = -1.0
        rank = np.empty(n, dtype=np.int64)
        rank[np.argsort(-likeness, kind="stable")] = np.arange(n)
        ranks = rank[np.argsort(apart, kind="stable")[1 : k + 1]]
        same += int((ranks <= k).sum())
        intruded += float(np.maximum(ranks - k, 0).sum())
    worst = len(drawn) * k * (2 * n - 3 * k - 1) / 2
    return same / (len(drawn) * k), 1.0 - intruded / worst


def _tsne(rows: np.ndarray, first: np.ndarray) -> np.ndarray:
    n = len(rows)
    if n < SMALL:
        return _fit(rows, first, perplexity=min(15, max(5, n // 4)), max_iter=1000)
    return _fit(rows, first, perplexity=30, max_iter=500)


def _fit(rows: np.ndarray, first: np.ndarray, **settings: float) -> np.ndarray:
    settings.setdefault("perplexity", min(30.0, max(5.0, len(rows) / 4)))
    with warnings.catch_warnings():  # equal rows make divisions by 0 that end well
        warnings.simplefilter("ignore", RuntimeWarning)
        xy = TSNE(2, init=first, learning_rate="auto", random_state=0, **settings).fit_transform(rows)
    xy = xy.astype(np.float64)
    return xy if np.isfinite(xy).all() else circle(len(rows))


def _by_landmarks(rows: np.ndarray) -> np.ndarray:
    n = len(rows)
    chosen = np.sort(np.random.default_rng(0).choice(n, LANDMARKS, replace=False))
    marks = rows[chosen]
    xy = np.empty((n, 2))
    xy[chosen] = _tsne(marks, start(marks))
    rest = np.setdiff1d(np.arange(n), chosen)
    xy[rest] = place(rows[rest], marks, xy[chosen])
    return xy


def _centred(xy: np.ndarray) -> np.ndarray:
    return xy - xy.mean(axis=0)
