"""Real data that comes with scikit-learn, prepared the same way for every demo."""

from __future__ import annotations

from functools import cache

import numpy as np
from sklearn import datasets as sk


@cache
def digits() -> tuple[np.ndarray, np.ndarray]:
    """The 1,797 handwritten digits: pixels (1797, 64) in 0…1 and labels (1797,); read-only."""
    data = sk.load_digits()
    return _frozen(data.data / 16.0), _frozen(data.target)


@cache
def photographs() -> tuple[np.ndarray, np.ndarray]:
    """The photographs china and flower, uint8 (427, 640, 3) each, decoded from JPEG files; read-only."""
    china, flower = sk.load_sample_images().images
    return _frozen(np.array(china)), _frozen(np.array(flower))


def split(rng: np.random.Generator, n: int, train: int, test: int) -> tuple[np.ndarray, np.ndarray]:
    """Disjoint random index arrays (train,) and (test,) out of n rows; `ValueError` if n is too small."""
    if train + test > n:
        raise ValueError(f"train + test cannot be {train + test}: there are {n} rows")
    order = rng.permutation(n)
    return order[:train], order[train : train + test]


def _frozen(a: np.ndarray) -> np.ndarray:
    a.setflags(write=False)
    return a
