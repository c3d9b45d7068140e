"""Bands of predictions around a function as a picture for the gallery."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from core.lab import thumbnails


def bands_picture(
    grid: np.ndarray, curve: np.ndarray, context: np.ndarray, bands: Mapping[str, tuple[np.ndarray, np.ndarray]]
) -> str:
    """Bands role -> (mean, sd) of ± 2 sd on the grid, the last one's mean, the true curve, context points (n, 2)."""
    edges = np.concatenate([context[:, 1], *(m + k * sd for m, sd in bands.values() for k in (-2, 2))])
    left, right, low, high = grid.min(), grid.max(), edges.min(), edges.max()

    def pixels(x: np.ndarray, y: np.ndarray) -> list[tuple[float, float]]:
        wide, tall = thumbnails.WIDTH - 2 * thumbnails.PAD, thumbnails.HEIGHT - 2 * thumbnails.PAD
        px = thumbnails.PAD + (x - left) / (right - left) * wide
        return list(zip(px, thumbnails.PAD + (high - y) / (high - low) * tall, strict=True))

    def joined(x: np.ndarray, y: np.ndarray) -> str:
        return " ".join(f"{a:.1f},{b:.1f}" for a, b in pixels(x, y))

    body = ""
    for role, (mean, sd) in bands.items():
        outline = joined(np.r_[grid, grid[::-1]], np.r_[mean + 2 * sd, (mean - 2 * sd)[::-1]])
        body += f'<polygon class="f-{role}" opacity=".3" points="{outline}"/>'
    for role, y, width in (("oracle", curve, 2), (list(bands)[-1], mean, 4)):
        body += f'<polyline class="s-{role}" fill="none" stroke-width="{width}" points="{joined(grid, y)}"/>'
    for a, b in pixels(*context.T):
        body += f'<circle class="f-{role}" cx="{a:.1f}" cy="{b:.1f}" r="5"/>'
    return thumbnails.svg(body)
