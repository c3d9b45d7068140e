"""A one-block attention classifier with quantized layers and caches; variants on a leading axis, gradient by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from core.demos._roste_quantizers import asymmetric, check_bits, rotation, symmetric
from core.lab.nets import Adam, log_softmax

TOKENS, PIXELS, WIDTH, HEADS, HEAD, HIDDEN, CLASSES = 4, 16, 32, 4, 8, 64, 10
SITES = {"K": WIDTH, "V": WIDTH, "K cache": HEAD, "V cache": HEAD, "output": WIDTH, "up": WIDTH, "down": HIDDEN}
"""What is quantized, with the size of its rotation."""
LAYERS = ("K", "V", "output", "up", "down")
FLOOR = -60
Weights = dict[str, np.ndarray]
"""name -> (variants, …)"""
Rotations = dict[str, np.ndarray]
"""site -> (variants, d, d)"""


def draw(rng: np.random.Generator) -> Weights:
    """Weights N(0, 1/fan in) of one variant; query and positions N(0, 1)."""
    shapes = {"embed": (PIXELS, WIDTH), "head": (WIDTH, CLASSES), "up": (WIDTH, HIDDEN), "down": (HIDDEN, WIDTH)}
    shapes |= dict.fromkeys(("K", "V", "output"), (WIDTH, WIDTH))
    w = {name: rng.standard_normal((1, *shape)) / np.sqrt(shape[0]) for name, shape in shapes.items()}
    w |= {"place": rng.standard_normal((1, TOKENS, WIDTH)), "query": rng.standard_normal((1, HEADS, HEAD))}
    return {name: x.astype(np.float32) for name, x in w.items()}


def rotations(rng: np.random.Generator) -> Rotations:
    """One random rotation for every site (d, d); all heads of a cache share theirs."""
    return {site: rotation(rng, d).astype(np.float32) for site, d in SITES.items()}


def plain_gains() -> np.ndarray:
    """The fixed gains of the norms before attention and before the MLP (2, width)."""
    return np.ones((2, WIDTH), np.float32)


def plant(rng: np.random.Generator, w: Weights, alpha: float, channels: int) -> tuple[Weights, np.ndarray]:
    """Blow up channels by α and divide what reads them: new weights and gains, the same function."""
    if alpha < 1:
        raise ValueError(f"alpha cannot be {alpha}: it must be at least 1")
    if not 0 <= channels <= WIDTH:
        raise ValueError(f"channels cannot be {channels}: it may be 0 to {WIDTH}")
    w, gains, a = {name: x.copy() for name, x in w.items()}, plain_gains(), np.float32(alpha)
    before, middle, inside, value = (rng.choice(d, channels, replace=False) for d in (WIDTH, WIDTH, HIDDEN, WIDTH))
    gains[0, before] *= a
    w["K"][:, before] /= a
    w["V"][:, before] /= a
    gains[1, middle] *= a
    w["up"][:, middle] /= a
    w["up"][:, :, inside] *= a  # ReLU lets a positive factor through
    w["down"][:, inside] /= a
    w["V"][:, :, value] *= a
    w["output"][:, value] /= a
    return w, gains


@dataclass(frozen=True)
class Scheme:
    """How each variant computes: rotations, and whether weights and activations are quantized (variants,)."""

    bits: int
    rotations: Rotations
    weights: np.ndarray
    activations: np.ndarray

    def __post_init__(self) -> None:
        check_bits(self.bits)

    def columns(self, w: np.ndarray) -> np.ndarray:
        return self._masked(w, self.weights, lambda x: symmetric(x, self.bits, axis=-2))

    def rows(self, x: np.ndarray) -> np.ndarray:
        return self._masked(x, self.activations, lambda x: asymmetric(x, self.bits))

    @staticmethod
    def _masked(x: np.ndarray, on: np.ndarray, quantize: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        if not on.any():
            return x
        out = quantize(x)
        out[~on] = x[~on]
        return out


def scheme(bits: int, rotated: Sequence[Rotations], weights: Sequence[bool], activations: Sequence[bool]) -> Scheme:
    """A scheme from one mapping a variant: site -> its rotation; sites that are not named stay as they are."""
    eye = {site: np.eye(d, dtype=np.float32) for site, d in SITES.items()}
    stacked = {site: np.stack([r.get(site, eye[site]) for r in rotated]) for site in SITES}
    return Scheme(bits, stacked, np.array(weights, bool), np.array(activations, bool))


def floating() -> Scheme:
    """One variant without quantization."""
    return scheme(16, [{}], [False], [False])


def norm(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Layer norm without gain, and 1/σ."""
    centred = x - x.mean(-1, keepdims=True)
    inverse = 1 / np.sqrt((centred * centred).mean(-1, keepdims=True) + x.dtype.type(1e-5))
    return centred * inverse, inverse


def norm_back(g: np.ndarray, y: np.ndarray, inverse: np.ndarray) -> np.ndarray:
    return (g - g.mean(-1, keepdims=True) - y * (g * y).mean(-1, keepdims=True)) * inverse


def _t(x: np.ndarray) -> np.ndarray:
    return np.swapaxes(x, -1, -2)


class Pass:
    """One forward pass over images (n, 4, 16), kept for `gradients`; `kept` has what each site quantized."""

    def __init__(self, w: Weights, gains: np.ndarray, images: np.ndarray, s: Scheme):
        self.w, self.s, self.gains, self.n = w, s, gains, len(images)
        self.variants = len(w["head"])
        self.kept: dict[str, tuple[np.ndarray, ...]] = {}
        self.pixels = images.reshape(-1, PIXELS)
        x = self._per_token(self.pixels @ w["embed"]) + w["place"][:, None]
        self.n1 = norm(x.reshape(self.variants, -1, WIDTH))
        self.h = self._linear("output", self._attend(self.n1[0] * gains[0]))
        self.n2 = norm(self.h)
        self.hidden = np.maximum(self._linear("up", self.n2[0] * gains[1]), 0)
        self.n3 = norm(self.h + self._linear("down", self.hidden))
        self.logits = self.n3[0] @ w["head"]

    def _per_token(self, x: np.ndarray) -> np.ndarray:
        return x.reshape(self.variants, self.n, TOKENS, WIDTH)

    def _linear(self, site: str, x: np.ndarray) -> np.ndarray:
        r = self.s.rotations[site]
        turned, turned_w = x @ r, _t(r) @ self.w[site]
        xq, wq = self.s.rows(turned), self.s.columns(turned_w)
        self.kept[site] = (turned, xq, turned_w, wq, x)
        return xq @ wq

    def _cache(self, site: str, x: np.ndarray) -> np.ndarray:
        """Rotated and quantized per token and head: (variants, n, tokens, heads, 8)."""
        turned = x.reshape(self.variants, -1, HEAD) @ self.s.rotations[site]
        stored = self.s.rows(turned)
        self.kept[site] = (turned, stored)
        return stored.reshape(self.variants, self.n, TOKENS, HEADS, HEAD)

    def _attend(self, x: np.ndarray) -> np.ndarray:
        self.k, self.v = (self._cache(f"{site} cache", self._linear(site, x)) for site in "KV")
        self.q = self.w["query"] @ self.s.rotations["K cache"]
        scores = (self.k * self.q[:, None, None]).sum(-1) * x.dtype.type(HEAD**-0.5)
        scores -= scores.max(2, keepdims=True)
        exp = np.exp(np.maximum(scores, FLOOR))  # denormal numbers would be slow
        self.p = exp / exp.sum(2, keepdims=True)
        out = (self.p[..., None] * self.v).sum(2).reshape(self.variants, -1, HEAD)
        return (out @ _t(self.s.rotations["V cache"])).reshape(self.variants, self.n, WIDTH)

    def losses(self, labels: np.ndarray) -> np.ndarray:
        """Cross-entropy per variant."""
        return -log_softmax(self.logits)[:, np.arange(self.n), labels].mean(1)

    def errors(self) -> dict[str, np.ndarray]:
        """Squared quantization error of each site per variant: weights, plus activations per image."""
        found = {}
        for site, (turned, stored, *rest) in self.kept.items():
            found[site] = ((turned - stored) ** 2).sum((1, 2)) / self.n
            if rest:
                found[site] = found[site] + ((rest[0] - rest[1]) ** 2).sum((1, 2))
        return found

    def _back(self, site: str, g: np.ndarray, found: Weights) -> np.ndarray:
        """Straight through: quantized values multiply, the quantizer itself has slope 1."""
        _, xq, _, wq, _ = self.kept[site]
        r = self.s.rotations[site]
        found[site] = r @ (_t(xq) @ g)
        return (g @ _t(wq)) @ _t(r)

    def gradients(self, labels: np.ndarray) -> Weights:
        """Gradient of each variant's own cross-entropy."""
        found: Weights = {}
        g = np.exp(log_softmax(self.logits))
        g[:, np.arange(self.n), labels] -= 1
        g /= self.n
        found["head"] = _t(self.n3[0]) @ g
        g = norm_back(g @ _t(self.w["head"]), *self.n3)
        inner = self._back("down", g, found) * (self.hidden > 0)
        g = g + norm_back(self._back("up", inner, found) * self.gains[1], *self.n2)
        g = self._attend_back(self._back("output", g, found), found)
        g = self._per_token(norm_back(g * self.gains[0], *self.n1))
        found["place"] = g.sum(1)
        found["embed"] = self.pixels.T @ g.reshape(self.variants, -1, WIDTH)
        return found

    def _attend_back(self, g: np.ndarray, found: Weights) -> np.ndarray:
        rk, rv = (self.s.rotations[f"{site} cache"] for site in "KV")
        shape = (self.variants, self.n, 1, HEADS, HEAD)
        g = (g.reshape(self.variants, -1, HEAD) @ rv).reshape(shape)
        dp = (g * self.v).sum(-1)
        ds = self.p * (dp - (dp * self.p).sum(2, keepdims=True)) * g.dtype.type(HEAD**-0.5)
        found["query"] = (ds[..., None] * self.k).sum((1, 2)) @ _t(rk)
        dk, dv = ds[..., None] * self.q[:, None, None], self.p[..., None] * g
        back = []
        for site, part, r in (("K", dk, rk), ("V", dv, rv)):
            part = (part.reshape(self.variants, -1, HEAD) @ _t(r)).reshape(self.variants, -1, WIDTH)
            back.append(self._back(site, part, found))
        return back[0] + back[1]


def train(
    w: Weights,
    gains: np.ndarray,
    batches: Sequence[tuple[np.ndarray, np.ndarray]],
    s: Scheme,
    rate: float,
    before_step: Callable[[int, Weights], None] = lambda step, w: None,
) -> None:
    """Adam with a cosine to 0 over batches of (images, labels), all variants at once; changes `w` in place."""
    if len(batches) < 1:
        raise ValueError("steps: there must be at least 1 step")
    names = list(w)
    adam = Adam(beta2=0.99)
    for step, (images, labels) in enumerate(batches):
        before_step(step, w)
        g = Pass(w, gains, images, s).gradients(labels)
        now = rate * 0.5 * (1 + np.cos(np.pi * step / len(batches)))
        adam.step([w[n] for n in names], [g[n] for n in names], float(now))


def choose(
    w: Weights, gains: np.ndarray, images: np.ndarray, turns: Rotations, bits: int
) -> tuple[dict[str, tuple[float, float]], Rotations]:
    """Error of each site without and with rotation for one variant's weights, and the rotations that lower it."""
    both = {name: np.repeat(x, 2, 0) for name, x in w.items()}
    errors = Pass(both, gains, images, scheme(bits, [{}, turns], [True] * 2, [True] * 2)).errors()
    found = {site: (float(e[0]), float(e[1])) for site, e in errors.items()}
    return found, {site: turns[site] for site, (plain, turned) in found.items() if turned < plain}
