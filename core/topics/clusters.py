"""Vectors to groups: Ward for small collections, k-means for larger ones."""

import math
import warnings

import numpy as np
from sklearn.cluster import AgglomerativeClustering, KMeans, MiniBatchKMeans
from sklearn.exceptions import ConvergenceWarning

SMALL = 100
MINIBATCH_FROM = 50_000


def usual_count(n: int) -> int:
    """How many groups n papers get when nobody says: about n/4 for few, with a square root for many."""
    if n < 8:
        return min(n, 1)
    if n < SMALL:
        return min(10, max(4, round(n / 4)))
    return min(40, max(4, round(0.75 * math.sqrt(n / 2))))


def group(rows: np.ndarray, count: int | None = None) -> np.ndarray:
    """Group (n,) of each row (n, d), numbered from 0 without gaps.

    count: how many groups; at most the number of different rows come back. Raises ValueError below 1.
    """
    n = len(rows)
    if count is not None and count < 1:
        raise ValueError(f"topics: {count} is too few; a collection has at least 1 topic")
    count = min(n, usual_count(n) if count is None else count)
    if n == 0 or count == 1 or np.ptp(rows, axis=0).max() < 1e-6:
        return np.zeros(n, dtype=np.int64)
    if n < SMALL:
        labels = AgglomerativeClustering(count, linkage="ward").fit_predict(rows)
    else:
        method = MiniBatchKMeans if n >= MINIBATCH_FROM else KMeans
        with warnings.catch_warnings():  # fewer different rows than groups
            warnings.simplefilter("ignore", ConvergenceWarning)
            labels = method(count, n_init=3, random_state=0).fit_predict(rows)
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)
