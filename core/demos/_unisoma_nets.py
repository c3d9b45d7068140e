"""Around the model of the Unisoma demo: parts of transformers, the implicit rival, ridge regression, training."""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self

import autograd.numpy as anp
import numpy as np
from autograd import grad

from core.demos import _unisoma_layers as layers
from core.demos._unisoma_scene import Pairs, Scene
from core.lab.nets import Adam, minibatches

IMPLICIT_WIDTH, IMPLICIT_SLICES, BLOCKS = 24, 16, 2
BATCH, WARM_UP, FLOOR = 16, 15, 0.05
"""Samples a step; steps with a growing rate; the share of the rate that is left at the end."""
RIDGE = 3.0
TRAIN, TEST = 240, 80

Shapes = dict[str, tuple[tuple[int, ...], float]]
"""name of a parameter -> its shape (stack, fan in, fan out) and the scale of its start; scale 0 for biases"""


def mlp_shapes(name: str, stack: int, sizes: tuple[int, int, int], last: float = 1.0) -> Shapes:
    a, hidden, b = sizes
    return {
        f"{name} w1": ((stack, a, hidden), 1.0),
        f"{name} b1": ((stack, 1, hidden), 0.0),
        f"{name} w2": ((stack, hidden, b), last),
        f"{name} b2": ((stack, 1, b), 0.0),
    }


def attention_shapes(name: str, stack: int, d: int) -> Shapes:
    return {f"{name} {k}": ((stack, d, d), 0.5 if k == "o" else 1.0) for k in "qkvo"}


def slice_shapes(name: str, stack: int, d: int, slices: int) -> Shapes:
    return {f"{name} slice": ((stack, d, slices), 2.0), f"{name} feature": ((stack, d, d), 1.0)}


def mlp(p: Mapping[str, Any], name: str, x):
    return layers.mlp(x, *(p[f"{name} {k}"] for k in ("w1", "b1", "w2", "b2")))


def attention(p: Mapping[str, Any], name: str, x):
    return layers.attention(x, *(p[f"{name} {k}"] for k in "qkvo"))


def some(a, count: int):
    """The first (or, if negative, last) rows of the stack."""
    start = 0 if count > 0 else len(a) + count
    return layers.part(a, start, start + abs(count), (abs(count), *a.shape[1:]))


def check_pairs(pairs: Pairs | None, strips: int, solids: int) -> None:
    """`ValueError` for an empty list, a solid that is not there, a solid with itself, or two punches."""
    if pairs is None:
        return
    if not pairs:
        raise ValueError("contacts: the list is empty; choose none to leave the contact modules out")
    for i, j in pairs:
        if not (0 <= i < solids and 0 <= j < solids):
            raise ValueError(
                f"contacts: pair ({i}, {j}) names a solid that is not there; there are 0 to {solids - 1}"
            )
        if i == j or min(i, j) >= strips:
            raise ValueError(f"contacts: pair ({i}, {j}) must name a strip (0 to {strips - 1}) and another solid")


@dataclass(frozen=True)
class Inputs:
    """What the models see, normalised solid by solid."""

    solids: np.ndarray
    """(solids, n, points, 3)"""
    loads: np.ndarray
    """(punches, n, points, 3)"""

    def rows(self, index: np.ndarray) -> Inputs:
        """A batch of samples."""
        return Inputs(self.solids[:, index], self.loads[:, index])


@dataclass(frozen=True)
class Scales:
    """Training mean and standard deviation of every column of every solid and load, and of the displacement."""

    solids: tuple[np.ndarray, np.ndarray]
    loads: tuple[np.ndarray, np.ndarray]
    displacement: float

    @classmethod
    def of(cls, scene: Scene, train: slice) -> Scales:
        solids, loads = ((a[:, train].mean((1, 2)), a[:, train].std((1, 2))) for a in (scene.solids, scene.loads))
        return cls(solids, loads, float(scene.displacement[:, train].std()))

    def inputs(self, scene: Scene, dtype: Any = np.float32) -> Inputs:
        """A constant column becomes 0."""
        scaled = [
            ((a - mean[:, None, None]) / (sd[:, None, None] + 1e-6)).astype(dtype)
            for a, (mean, sd) in ((scene.solids, self.solids), (scene.loads, self.loads))
        ]
        return Inputs(*scaled)


class Model(Protocol):
    """A model to train: its learning rate, the shapes of its parameters, and how it predicts with them."""

    @property
    def rate(self) -> float: ...

    @property
    def shapes(self) -> Shapes: ...

    def predict(self, p: Mapping[str, Any], inputs: Inputs) -> Any: ...


@dataclass(frozen=True)
class Implicit:
    """One set of points for the whole scene, sliced together: the rival that is told only who a point belongs to."""

    strips: int
    punches: int
    rate: float = 0.015

    @property
    def shapes(self) -> Shapes:
        d, hidden = IMPLICIT_WIDTH, 2 * IMPLICIT_WIDTH
        found = mlp_shapes("embedding", 1, (4 + self.strips + self.punches, hidden, d))
        for k in range(BLOCKS):
            found |= slice_shapes(f"block {k}", 1, d, IMPLICIT_SLICES) | attention_shapes(f"block {k}", 1, d)
            found |= mlp_shapes(f"block {k}", 1, (d, hidden, d), 0.5)
        return found | mlp_shapes("head", 1, (d, hidden, 1), 0.3)

    def points(self, inputs: Inputs) -> np.ndarray:
        """Features (1, b, solids·n, 4 + solids): three numbers, motion (punches only), one-hot solid."""
        solids, b, n, _ = inputs.solids.shape
        motion = np.zeros((solids, b, n, 1), dtype=inputs.solids.dtype)
        motion[self.strips :] = inputs.loads[..., 2:]
        name = np.broadcast_to(np.eye(solids, dtype=motion.dtype)[:, None, None], (solids, b, n, solids))
        features = np.concatenate([inputs.solids, motion, name], axis=-1)
        return features.transpose(1, 0, 2, 3).reshape(1, b, solids * n, -1)

    def predict(self, p: Mapping[str, Any], inputs: Inputs):
        """Displacements (strips, b, n), in training standard deviations."""
        b, n = inputs.solids.shape[1:3]
        h = mlp(p, "embedding", self.points(inputs))
        for k in range(BLOCKS):
            y = layers.layer_norm(h)
            s = layers.slice_weights(y, p[f"block {k} slice"])
            tokens = layers.pooling(y, s, p[f"block {k} feature"])
            h = h + layers.deslicing(s, attention(p, f"block {k}", tokens))
            h = h + mlp(p, f"block {k}", layers.layer_norm(h))
        out = mlp(p, "head", h[:, :, : self.strips * n])
        return anp.transpose(anp.reshape(out, (b, self.strips, n)), (1, 0, 2))


def views(shapes: Shapes, flat) -> dict[str, Any]:
    """The named parameters inside one vector; differentiable by autograd."""
    found, at = {}, 0
    for name, (shape, _) in shapes.items():
        size = math.prod(shape)
        found[name] = layers.part(flat, at, at + size, shape)
        at += size
    return found


def start(model: Model, seed: int, dtype: Any = np.float32) -> np.ndarray:
    """All parameters at the start as one vector; a module starts the same whatever else there is."""
    pieces = []
    for name, (shape, scale) in model.shapes.items():
        rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
        pieces.append(scale / np.sqrt(shape[1]) * rng.normal(size=shape).ravel())
    return np.concatenate(pieces).astype(dtype)


def train(model: Model, inputs: Inputs, target: np.ndarray, steps: int, seed: int) -> np.ndarray:
    """Parameters (one vector) after `steps` of Adam on the mean squared error to `target` (strips, n, points)."""
    if steps < 1:
        raise ValueError(f"steps must be at least 1, not {steps}")
    flat, shapes = start(model, seed), model.shapes

    def loss(flat, batch: Inputs, wanted: np.ndarray):
        off = model.predict(views(shapes, flat), batch) - wanted
        return anp.sum(off * off) / wanted.size

    gradient = grad(loss)
    adam = Adam(beta1=0.9, beta2=0.99)
    rows = minibatches(np.random.default_rng([seed, zlib.crc32(b"batches")]), target.shape[1], BATCH, steps)
    for k, index in enumerate(rows):
        cosine = FLOOR + (1 - FLOOR) * (1 + np.cos(np.pi * k / steps)) / 2
        rate = float(model.rate * cosine * min(1, (k + 1) / WARM_UP))
        adam.step([flat], [gradient(flat, inputs.rows(index), target[:, index])], rate=rate)
    return flat


def ridge(inputs: Inputs, target: np.ndarray, penalty: float = RIDGE):
    """Ridge regression from all inputs of a scene at once; returns a function of inputs -> (strips, n, points)."""

    def table(i: Inputs) -> np.ndarray:
        parts = [a.astype(float).swapaxes(0, 1).reshape(a.shape[1], -1) for a in (i.solids, i.loads)]
        return np.concatenate(parts, axis=1)

    x, y = table(inputs), target.swapaxes(0, 1).reshape(target.shape[1], -1)
    middle, level = x.mean(axis=0), y.mean(axis=0)
    x = x - middle
    kernel = x @ x.T + penalty * np.eye(len(x))  # as many unknowns as samples, not as inputs
    slopes = x.T @ np.linalg.solve(kernel, y - level)

    def predict(i: Inputs) -> np.ndarray:
        out = (table(i) - middle) @ slopes + level
        return out.reshape(-1, len(target), target.shape[2]).swapaxes(0, 1)

    return predict


@dataclass(frozen=True)
class Task:
    """A scene cut into training and test samples; displacements in training standard deviations."""

    scene: Scene
    scales: Scales
    train: Inputs
    test: Inputs
    target: np.ndarray
    """(strips, TRAIN, points)"""
    truth: np.ndarray
    """(strips, TEST, points)"""

    @classmethod
    def of(cls, scene: Scene) -> Self:
        scales = Scales.of(scene, slice(TRAIN))
        inputs = scales.inputs(scene)
        w = (scene.displacement / scales.displacement).astype(np.float32)
        rows = np.arange(TRAIN + TEST)
        return cls(scene, scales, inputs.rows(rows[:TRAIN]), inputs.rows(rows[TRAIN:]), w[:, :TRAIN], w[:, TRAIN:])

    def error(self, prediction: np.ndarray) -> float:
        """Relative L2 error over the whole test set."""
        return float(np.linalg.norm(prediction - self.truth) / np.linalg.norm(self.truth))


@dataclass(frozen=True)
class Fitted:
    """A model with its trained parameters (one vector)."""

    model: Model
    parameters: np.ndarray
    seconds: float

    @classmethod
    def to(cls, task: Task, model: Model, steps: int, seed: int) -> Self:
        begin = time.process_time()
        parameters = train(model, task.train, task.target, steps, seed)
        return cls(model, parameters, time.process_time() - begin)

    def predict(self, inputs: Inputs) -> np.ndarray:
        return self.model.predict(views(self.model.shapes, self.parameters), inputs)
