"""Moving sources for the OmniAudio demo: clips, 360-degree frames, the two views, the dry sounds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

FRAMES, FRAME_RATE, CLASSES, FOA = 16, 8, 2, 4
"""Frames a clip, frames a second, sources a clip, channels (W, X, Y, Z)."""
SAMPLE_RATE = 8000
SAMPLES = FRAMES * SAMPLE_RATE // FRAME_RATE
ROWS, COLUMNS = 24, 48
"""Pixels of the panorama and of the front view."""
GRID = (4, 8)
"""Cells a view is pooled to."""
BLOB = 0.1047
"""Scale of a source in the picture: 6 degrees, in radians."""
PIXEL_NOISE = 0.02
CENTRES = (np.arange(FRAMES) + 0.5) / FRAME_RATE
"""Times of the frames in seconds."""


def unit_vector(azimuth: np.ndarray, elevation: np.ndarray) -> np.ndarray:
    """Directions (…, 3) from azimuth (to the left) and elevation in radians: x front, y left, z up."""
    azimuth, elevation = np.broadcast_arrays(azimuth, elevation)
    flat = np.cos(elevation)
    return np.stack([flat * np.cos(azimuth), flat * np.sin(azimuth), np.sin(elevation)], axis=-1)


@dataclass(frozen=True)
class Clips:
    """Two sources a clip, one of each timbre: azimuth, elevation (radians) and gain, each (clips, FRAMES, 2)."""

    azimuth: np.ndarray
    elevation: np.ndarray
    gain: np.ndarray

    @property
    def latents(self) -> np.ndarray:
        """Gains of W, X, Y, Z by source (clips, FRAMES, 2, 4): what the codec stores of each frame."""
        d = unit_vector(self.azimuth, self.elevation)
        return self.gain[..., None] * np.concatenate([np.ones_like(d[..., :1]), d], axis=-1)


def draw_clips(rng: np.random.Generator, n: int, front: float) -> Clips:
    """n clips; each source starts within ±0.9 rad of the front with probability `front`, else anywhere."""
    if n < 5:
        raise ValueError(f"clips must be at least 5, not {n}")
    if not 0 <= front <= 1:
        raise ValueError(f"front must be a share from 0 to 1, not {front}")
    shape = (n, 1, CLASSES)
    ahead = rng.random(shape) < front
    start = np.where(ahead, rng.uniform(-0.9, 0.9, shape), rng.uniform(-np.pi, np.pi, shape))
    turn, height = rng.uniform(-0.6, 0.6, (2, *shape))
    climb = rng.uniform(-0.2, 0.2, shape)
    frequency, phase = rng.uniform(0.3, 1.0, shape), rng.uniform(0, 2 * np.pi, shape)
    t = CENTRES[:, None]
    azimuth = (start + turn * t + np.pi) % (2 * np.pi) - np.pi
    elevation = np.clip(height + climb * t, -1, 1)
    return Clips(azimuth, elevation, 0.7 + 0.3 * np.sin(2 * np.pi * frequency * t + phase))


def pixel_directions() -> np.ndarray:
    """Directions (1152, 3) of the panorama's pixel centres; the left edge is azimuth +180°."""
    azimuth = np.pi - (np.arange(COLUMNS) + 0.5) * 2 * np.pi / COLUMNS
    elevation = np.pi / 2 - (np.arange(ROWS) + 0.5) * np.pi / ROWS
    return unit_vector(azimuth[None], elevation[:, None]).reshape(-1, 3)


def render(azimuth: np.ndarray, elevation: np.ndarray, brightness: np.ndarray) -> np.ndarray:
    """Panoramas (…, 1152), float32, of one blob each, without noise."""
    d = unit_vector(azimuth, elevation).astype(np.float32)
    cosine = d @ pixel_directions().T.astype(np.float32)
    blob = np.exp((cosine - 1) / np.float32(BLOB**2))  # squared chord = 2 − 2 cosine
    return np.asarray(brightness, dtype=np.float32)[..., None] * blob


def film(clips: Clips, rng: np.random.Generator, every: int = 1) -> np.ndarray:
    """Noisy panoramas (clips, frames, 2 colours, 1152), float32, of every `every`-th frame."""
    frames = render(*(a[:, ::every] for a in (clips.azimuth, clips.elevation, clips.gain)))
    frames += np.float32(PIXEL_NOISE) * rng.standard_normal(frames.shape, dtype=np.float32)
    return frames


def pooling() -> np.ndarray:
    """Matrix (32, 1152) that averages the pixels of each of the 4 × 8 cells."""
    rows = np.kron(np.eye(GRID[0]), np.full(ROWS // GRID[0], GRID[0] / ROWS))
    columns = np.kron(np.eye(GRID[1]), np.full(COLUMNS // GRID[1], GRID[1] / COLUMNS))
    return np.kron(rows, columns)


def view_angles(fov: float, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Azimuth and elevation (radians) of points of the front view; x, y from +1 (left, top) to −1."""
    if not 10 < fov < 170:
        raise ValueError(f"fov must lie between 10 and 170 degrees, not {fov}")
    reach = np.tan(np.radians(fov) / 2)
    x, y = reach * x, reach / 2 * y
    return np.arctan2(x, 1), np.arctan2(y, np.hypot(1, x))


def front_view(fov: float) -> np.ndarray:
    """Matrix (1152, 1152) that cuts the front view (gnomonic, bilinear) out of a flat panorama."""
    x = 1 - 2 * (np.arange(COLUMNS) + 0.5) / COLUMNS
    y = 1 - 2 * (np.arange(ROWS) + 0.5) / ROWS
    azimuth, elevation = (a.ravel() for a in view_angles(fov, *np.meshgrid(x, y)))
    column = (np.pi - azimuth) / (2 * np.pi) * COLUMNS - 0.5
    row = np.clip((np.pi / 2 - elevation) / np.pi * ROWS - 0.5, 0, ROWS - 1)
    left, top = np.floor(column).astype(int), np.floor(row).astype(int)
    matrix = np.zeros((ROWS * COLUMNS,) * 2)
    pixel = np.arange(ROWS * COLUMNS)
    for down in (0, 1):
        for right in (0, 1):
            weight = np.abs(1 - down - (row - top)) * np.abs(1 - right - (column - left))
            source = np.minimum(top + down, ROWS - 1) * COLUMNS + (left + right) % COLUMNS
            np.add.at(matrix, (pixel, source), weight)
    return matrix


def branch(frames: np.ndarray, view: np.ndarray) -> np.ndarray:
    """What a branch sees of panoramas (clips, frames, 2, 1152) through a view (32, 1152): (n, 64)."""
    return (frames @ view.T.astype(np.float32)).reshape(-1, CLASSES * len(view))


def dry_sounds() -> np.ndarray:
    """The two timbres (2, 16000): a hum of harmonics of 330 Hz, and 1.1 kHz with vibrato pulsed at 90 Hz."""
    t = np.arange(SAMPLES) / SAMPLE_RATE
    hum = sum(np.sin(2 * np.pi * 330 * k * t) / k for k in range(1, 6))
    tone = np.sin(2 * np.pi * 1100 * t + 4 * np.sin(2 * np.pi * 6 * t))
    sounds = np.stack([hum, tone * (0.5 - 0.5 * np.cos(2 * np.pi * 90 * t))])
    return sounds / np.abs(sounds).max(axis=1, keepdims=True) * np.array([[0.433], [0.6]])


def decode(latents: np.ndarray) -> np.ndarray:
    """Waveforms W, X, Y, Z (4, 16000) of the gains (FRAMES, 2, 4): gains between frames are interpolated."""
    t = np.arange(SAMPLES) / SAMPLE_RATE
    gains = np.array([[np.interp(t, CENTRES, latents[:, k, c]) for c in range(FOA)] for k in range(CLASSES)])
    return np.einsum("kcn,kn->cn", gains, dry_sounds())
