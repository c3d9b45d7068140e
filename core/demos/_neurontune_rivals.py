"""What each way to retrain the last layer gets to see, drawn from the same uniform numbers."""

from __future__ import annotations

import numpy as np

from core.demos._neurontune_net import Pairs, draw_batches
from core.lab.nets import log_softmax

FOCUS, UPWEIGHT = 4.0, 20.0
"""AFR's exponent and JTT's factor."""


def class_balanced(u: np.ndarray, tune: Pairs) -> np.ndarray:
    """Rows (steps, batch) with as many of each class: NeuronTune, random mask and last layer."""
    return draw_batches(u, tune.y, 2)


def afr(u: np.ndarray, tune: Pairs, logits: np.ndarray) -> np.ndarray:
    """Within a class, the less the trained network's probability p of it, the likelier: weight e^(−4p)."""
    p = np.exp(log_softmax(logits))[np.arange(len(tune.y)), tune.y]
    return draw_batches(u, tune.y, 2, np.exp(-FOCUS * p))


def jtt(u: np.ndarray, tune: Pairs, logits: np.ndarray) -> np.ndarray:
    """Within a class, mistakes of the trained network are drawn 20 times as often."""
    return draw_batches(u, tune.y, 2, np.where(np.argmax(logits, axis=1) != tune.y, UPWEIGHT, 1.0))


def dfr(u: np.ndarray, tune: Pairs) -> np.ndarray:
    """As many of each group: needs the attribute. `ValueError` if a group has no sample."""
    return draw_batches(u, tune.groups, 4, name="groups")
