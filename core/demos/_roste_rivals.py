"""The digit tasks, quantization after training by GPTQ, and the scores of finished networks."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from core.demos import _roste_net as net
from core.demos._roste_quantizers import gptq
from core.lab.datasets import digits
from core.lab.demo import Measures
from core.lab.nets import minibatches

PRETRAIN, TUNE = 800, 500
Batches = list[tuple[np.ndarray, np.ndarray]]


def tokens(pictures: np.ndarray) -> np.ndarray:
    """Pictures (n, 8, 8) as their four quadrants (n, 4, 16)."""
    return pictures.reshape(-1, 2, 4, 2, 4).transpose(0, 1, 3, 2, 4).reshape(-1, net.TOKENS, net.PIXELS)


def tasks(rng: np.random.Generator) -> list[tuple[np.ndarray, np.ndarray]]:
    """(images, labels) to pre-train on, and transposed ones to fine-tune and test on: 800, 500 and 497."""
    pixels, labels = digits()
    pictures = (2 * pixels - 1).reshape(-1, 8, 8).astype(np.float32)
    first, second, third = np.split(rng.permutation(len(labels)), [PRETRAIN, PRETRAIN + TUNE])
    turned = pictures.transpose(0, 2, 1)
    return [
        (tokens(pictures[first]), labels[first]),
        (tokens(turned[second]), labels[second]),
        (tokens(turned[third]), labels[third]),
    ]


def batches(rng: np.random.Generator, task: tuple[np.ndarray, np.ndarray], size: int, steps: int) -> Batches:
    return [(task[0][i], task[1][i]) for i in minibatches(rng, len(task[0]), size, steps)]


def gptq_weights(
    w: net.Weights, gains: np.ndarray, calibration: np.ndarray, bits: int, turns: net.Rotations
) -> net.Weights:
    """Weights quantized layer by layer, each on the inputs that the quantized layers before it give."""
    w = dict(w)
    for site in net.LAYERS:
        turned, _, turned_w, _, _ = net.Pass(
            w, gains, calibration, net.scheme(bits, [turns], [False], [True])
        ).kept[site]
        found = gptq(turned_w[0], turned[0], bits).astype(np.float32)
        w[site] = (turns[site] @ found if site in turns else found)[None]
    return w


Model = tuple[net.Weights, net.Rotations, bool]
"""Weights of one variant, its rotations, and whether its weights are still to be rounded."""


def scores(
    models: Mapping[str, Model],
    unquantized: str,
    gains: np.ndarray,
    calibration: np.ndarray,
    test: tuple[np.ndarray, np.ndarray],
    bits: int,
) -> Measures:
    """Test loss and accuracy of every model, and the quantization error of those that round their weights."""
    w, rotations, rounded = zip(*models.values(), strict=True)
    many = {n: np.concatenate([x[n] for x in w]) for n in w[0]}
    s = net.scheme(bits, rotations, rounded, [name != unquantized for name in models])
    seen = net.Pass(many, gains, test[0], s)
    right = (seen.logits.argmax(-1) == test[1]).mean(1)
    total = np.sum(list(net.Pass(many, gains, calibration, s).errors().values()), axis=0)
    return {
        "cross_entropy": dict(zip(models, seen.losses(test[1]).tolist(), strict=True)),
        "accuracy": dict(zip(models, right.tolist(), strict=True)),
        "error": {name: float(e) for name, e, on in zip(models, total, rounded, strict=True) if on},
    }
