"""The decentralised rivals of NTK-DFL: local SGD in four variants, all clients at once."""

from __future__ import annotations

import numpy as np

from core.demos import _ntk_dfl_net as net

AVG, MOMENTUM, SAM, PSGD = "DFedAvg", "DFedAvgM", "DFedSAM", "D-PSGD"
RATE = {AVG: 2.0, MOMENTUM: 0.2, SAM: 2.0, PSGD: 2.0}
SAM_RADIUS = 0.2


def local_steps(x: np.ndarray, y: np.ndarray, w: net.Weights, method: str, rng: np.random.Generator) -> net.Weights:
    """Local SGD of all clients at once: 20 steps (D-PSGD: one) on 20 of a client's rows each."""
    speed = [np.zeros_like(part) for part in w]
    who = np.arange(len(x))[:, None]
    for _ in range(1 if method == PSGD else 20):
        rows = rng.permuted(np.tile(np.arange(x.shape[1]), (len(x), 1)), axis=1)[:, :20]
        batch_x, batch_y = x[who, rows], y[who, rows]
        g = net.gradient(w, batch_x, batch_y)
        if method == SAM:
            norm = np.sqrt(sum((part**2).reshape(len(x), -1).sum(1) for part in g)) + 1e-12
            tilted = [a + SAM_RADIUS * b / norm.reshape(-1, *[1] * (b.ndim - 1)) for a, b in zip(w, g, strict=True)]
            g = net.gradient(tilted, batch_x, batch_y)
        if method == MOMENTUM:
            speed = [0.9 * v + part for v, part in zip(speed, g, strict=True)]
            g = speed
        w = net.moved(w, g, RATE[method])
    return w
