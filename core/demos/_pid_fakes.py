"""Real patches from two photographs, and four small generators fitted to such patches."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image
from sklearn.utils.extmath import svd_flip

from core.lab.datasets import photographs

PATCH = 16
COMPONENTS = 48
POOL = 400
RIDGE = 200.0
GENERATORS = ("pca", "ppca", "superres", "blend")


def halve(pictures: np.ndarray) -> np.ndarray:
    """Averages of 2 × 2 pixels, (..., h, w, 3) -> float (..., h // 2, w // 2, 3)."""
    h, w = (side // 2 * 2 for side in pictures.shape[-3:-1])
    even = pictures[..., :h, :w, :].astype(float)
    rows = even[..., ::2, :, :] + even[..., 1::2, :, :]
    return (rows[..., ::2, :] + rows[..., 1::2, :]) / 4


def to_bytes(pictures: np.ndarray) -> np.ndarray:
    """Float pictures clipped and rounded to 8-bit RGB."""
    return np.rint(np.clip(pictures, 0, 255)).astype(np.uint8)


def sources(history: str) -> list[np.ndarray]:
    """The two photographs as their JPEG files decode ("shipped") or "halved" and rounded in RGB."""
    if history not in ("shipped", "halved"):
        raise ValueError(f"real cannot be {history!r}: it may be shipped or halved")
    return [to_bytes(halve(p)) if history == "halved" else p for p in photographs()]


def cut(rng: np.random.Generator, image: np.ndarray, n: int, left: int = 0, right: int = 0) -> np.ndarray:
    """n patches (n, 16, 16, 3) at uniform positions between the columns `left` and `right` (0: the edge)."""
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
        raise ValueError(f"image must be uint8 (height, width, 3), not {image.dtype} {image.shape}")
    if min(image.shape[0], (right or image.shape[1]) - left) < PATCH:
        raise ValueError(f"image must be at least {PATCH} × {PATCH} pixels, not {image.shape[:2]}")
    rows = rng.integers(0, image.shape[0] - PATCH + 1, n)
    columns = rng.integers(left, (right or image.shape[1]) - PATCH + 1, n)
    windows = np.lib.stride_tricks.sliding_window_view(image, (PATCH, PATCH), axis=(0, 1))
    return windows[rows, columns].transpose(0, 2, 3, 1).copy()


def real_patches(rng: np.random.Generator, history: str, content: str, n: int) -> dict[str, np.ndarray]:
    """Patches for "train" and "test", n each: left against right halves, or china against flower."""
    images = sources(history)
    if content == "cross":
        return {part: cut(rng, image, n) for part, image in zip(("train", "test"), images, strict=True)}
    share = [n - n // 2, n // 2]
    middle = [image.shape[1] // 2 for image in images]
    pairs = list(zip(images, share, middle, strict=True))
    return {
        "train": np.concatenate([cut(rng, image, k, 0, m) for image, k, m in pairs]),
        "test": np.concatenate([cut(rng, image, k, m) for image, k, m in pairs]),
    }


@dataclass(frozen=True)
class Fakes:
    """The four generators, fitted to a pool (400, 768) of patches as numbers."""

    pool: np.ndarray
    mean: np.ndarray
    components: np.ndarray
    """(399, 768), orthonormal, by falling variance"""
    deviations: np.ndarray
    small: np.ndarray
    """(400, 192): the pool at half size"""

    @classmethod
    def fitted(cls, rng: np.random.Generator, history: str) -> Fakes:
        """Generators fitted to patches of both whole photographs, half of the pool from each."""
        patches = np.concatenate([cut(rng, image, POOL // 2) for image in sources(history)])
        pool = patches.reshape(POOL, -1).astype(float)
        mean = pool.mean(axis=0)
        left, size, components = np.linalg.svd(pool - mean, full_matrices=False)
        components = svd_flip(left, components, u_based_decision=False)[1]  # the same signs everywhere
        return cls(pool, mean, components[:-1], size[:-1] / np.sqrt(POOL - 1), halve(patches).reshape(POOL, -1))

    def draw(self, name: str, rng: np.random.Generator, n: int) -> np.ndarray:
        """n fakes (n, 16, 16, 3) of one generator, clipped and rounded to 8-bit RGB."""
        if name not in GENERATORS:
            raise ValueError(f"generator cannot be {name!r}: it may be {' or '.join(GENERATORS)}")
        return to_bytes(getattr(self, f"_{name}")(rng, n).reshape(n, PATCH, PATCH, 3))

    def project(self, x: np.ndarray) -> np.ndarray:
        """Reconstruction of patches (n, 768) from the first 48 components."""
        basis = self.components[:COMPONENTS]
        return self.mean + (x - self.mean) @ basis.T @ basis

    def _gaussian(self, rng: np.random.Generator, n: int, k: int) -> np.ndarray:
        code = rng.standard_normal((n, len(self.deviations)))[:, :k] * self.deviations[:k]
        return self.mean + code @ self.components[:k]

    def _pca(self, rng: np.random.Generator, n: int) -> np.ndarray:
        return self._gaussian(rng, n, COMPONENTS)

    def _ppca(self, rng: np.random.Generator, n: int) -> np.ndarray:
        return self._gaussian(rng, n, len(self.deviations))

    def _superres(self, rng: np.random.Generator, n: int) -> np.ndarray:
        middle = self.small.mean(axis=0)
        low = self.small - middle
        weights = np.linalg.solve(low.T @ low + RIDGE * np.eye(low.shape[1]), low.T @ (self.pool - self.mean))
        return self.mean + low[rng.integers(0, POOL, n)] @ weights

    def _blend(self, rng: np.random.Generator, n: int) -> np.ndarray:
        first = rng.integers(0, POOL, n)
        gap = ((self.small[first][:, None] - self.small) ** 2).sum(axis=2)
        gap[np.arange(n), first] = np.inf
        share = rng.uniform(0.5, 0.8, (n, 1))
        return share * self.pool[first] + (1 - share) * self.pool[gap.argmin(axis=1)]


def saved_as(patches: np.ndarray, how: str) -> np.ndarray:
    """Patches after a file: "png" changes nothing, "jpeg95" and "jpeg75" go through the JPEG codec, 4:4:4."""
    if how not in ("png", "jpeg95", "jpeg75"):
        raise ValueError(f"saved cannot be {how!r}: it may be png or jpeg95 or jpeg75")
    if how == "png":
        return patches
    file = io.BytesIO()  # one tall picture; patches begin at multiples of the codec's 8 × 8 blocks
    tall = Image.fromarray(patches.reshape(-1, PATCH, 3))
    tall.save(file, "JPEG", quality=int(how[4:]), subsampling=0)
    return np.asarray(Image.open(file)).reshape(patches.shape)


@dataclass(frozen=True)
class Data:
    """Patches (n, 16, 16, 3), uint8, of all sources: "real" and the generators."""

    fakes: Fakes
    train_real: np.ndarray
    train_fake: np.ndarray
    test: dict[str, np.ndarray]


def data(settings: Any, seed: int) -> Data:
    """Real and fake patches for training and test; the generators are fitted once and serve both."""
    rng = np.random.default_rng([seed, 0])
    real = real_patches(rng, settings.real, settings.content, settings.n)
    fakes = Fakes.fitted(rng, settings.real)
    shown = fakes.draw(settings.generator, rng, settings.n)
    test = {g: saved_as(fakes.draw(g, rng, settings.n), settings.saved) for g in GENERATORS}
    return Data(fakes, real["train"], saved_as(shown, settings.saved), {"real": real["test"], **test})
