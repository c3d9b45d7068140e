"""Digits as sixteen codes each, and how far generated images are from them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import sqrtm
from sklearn.cluster import KMeans
from sklearn.linear_model import LogisticRegression

from core.demos._scheduled_decoding_network import K
from core.lab.datasets import digits, split

TRAIN, TEST = 1400, 397
SIDE, PATCH = 4, 2
COMPONENTS, LEAST_IMAGES, IMAGINARY = 12, 30, 1e-3


def patches(pixels: np.ndarray) -> np.ndarray:
    """Images (n, 64) as patches (n, 16, 4) of 2 × 2 pixels, row by row."""
    return pixels.reshape(-1, SIDE, PATCH, SIDE, PATCH).transpose(0, 1, 3, 2, 4).reshape(-1, SIDE * SIDE, PATCH**2)


def pixels_of(found: np.ndarray) -> np.ndarray:
    """The inverse of `patches`: (n, 16, 4) to images (n, 64)."""
    return found.reshape(-1, SIDE, SIDE, PATCH, PATCH).transpose(0, 1, 3, 2, 4).reshape(-1, 64)


@dataclass(frozen=True)
class Codebook:
    """k-means centres of patches (codes, 4), and the way there and back."""

    centres: np.ndarray

    def tokens(self, pixels: np.ndarray) -> np.ndarray:
        """The nearest code of every patch (n, 16)."""
        away = ((patches(pixels)[:, :, None] - self.centres) ** 2).sum(-1)
        return away.argmin(-1)

    def images(self, tokens: np.ndarray) -> np.ndarray:
        """Images (n, 64) of codes (n, 16)."""
        return pixels_of(self.centres[tokens])


def codebook(rng: np.random.Generator, pixels: np.ndarray, codes: int = K) -> Codebook:
    """k-means on all patches of the images (n, 64)."""
    every = patches(pixels).reshape(-1, PATCH**2)
    different = len(np.unique(every, axis=0))
    if not 2 <= codes <= different:
        raise ValueError(f"codes: 2 to {different} (the number of different patches), not {codes}")
    means = KMeans(codes, n_init=1, random_state=int(rng.integers(2**31))).fit(every)
    return Codebook(means.cluster_centers_)


@dataclass(frozen=True)
class Digits:
    """Training and test digits as tokens, and everything that judges images against them."""

    book: Codebook
    train: np.ndarray
    train_labels: np.ndarray
    test: np.ndarray
    test_labels: np.ndarray
    axes: np.ndarray
    """principal axes of the decoded training images (64, 12)"""
    real: np.ndarray
    """the decoded training images on these axes (1400, 12)"""
    classifier: LogisticRegression

    def distance(self, images: np.ndarray) -> float:
        """Fréchet distance of images (n, 64) to the decoded training images."""
        return frechet(images @ self.axes, self.real)

    def confidence(self, images: np.ndarray) -> float:
        """Mean largest class probability of images (n, 64)."""
        return float(self.classifier.predict_proba(images).max(axis=1).mean())


def load(rng: np.random.Generator) -> Digits:
    """A random split of the digits, tokens from a codebook of its training part."""
    pixels, labels = digits()
    train, test = split(rng, len(pixels), TRAIN, TEST)
    book = codebook(rng, pixels[train])
    tokens = book.tokens(pixels)
    decoded = book.images(tokens[train])
    axes = np.linalg.svd(decoded - decoded.mean(axis=0), full_matrices=False)[2][:COMPONENTS].T
    classifier = LogisticRegression(max_iter=300).fit(decoded, labels[train])
    return Digits(book, tokens[train], labels[train], tokens[test], labels[test], axes, decoded @ axes, classifier)


def frechet(a: np.ndarray, b: np.ndarray) -> float:
    """‖μ − μ'‖² + tr(C + C' − 2(CC')^½) of Gaussians fitted to two sets of rows (n, d)."""
    for rows in (a, b):
        if len(rows) < LEAST_IMAGES:
            raise ValueError(f"images: at least {LEAST_IMAGES} are needed for a covariance, not {len(rows)}")
    c, d = np.cov(a, rowvar=False), np.cov(b, rowvar=False)
    gap = a.mean(axis=0) - b.mean(axis=0)
    return float(gap @ gap + np.trace(c + d) - 2 * np.trace(real_part(sqrtm(c @ d))))


def real_part(root: np.ndarray) -> np.ndarray:
    """The real part of a matrix root; `ValueError` if there is more than rounding in the imaginary one."""
    if np.abs(np.imag(root)).max() > IMAGINARY:
        raise ValueError("images: the root of the product of covariances is not real")
    return np.real(root)
