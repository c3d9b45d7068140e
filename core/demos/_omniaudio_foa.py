"""First-order Ambisonics for the OmniAudio demo: encoding, direction, rotation, stereo, WAV files."""

from __future__ import annotations

import io

import numpy as np
from scipy.io import wavfile

from core.demos._omniaudio_scene import SAMPLE_RATE, unit_vector


def foa_encode(s: np.ndarray, azimuth: float, elevation: float) -> np.ndarray:
    """W, X, Y, Z (4, n) of a mono sound (n,) from one direction (radians)."""
    return np.stack([s, *(unit_vector(np.array(azimuth), np.array(elevation))[:, None] * s)])


def directions(gains: np.ndarray) -> np.ndarray:
    """Unit vectors (…, 3) of the intensity of gains or channels (…, 4); NaN where there is silence."""
    intensity = gains[..., :1] * gains[..., 1:]
    length = np.linalg.norm(intensity, axis=-1, keepdims=True)
    return np.where(length < 1e-12, np.nan, intensity / np.maximum(length, 1e-12))


def foa_direction(foa: np.ndarray) -> np.ndarray:
    """Direction (3,) of a window of sound (4, n); NaN for silence."""
    intensity = foa[1:] @ foa[0]
    return directions(np.r_[1.0, intensity])


def rotate(foa: np.ndarray, yaw: float) -> np.ndarray:
    """The sound field (4, n) turned to the left by `yaw` degrees."""
    if not np.isfinite(yaw):
        raise ValueError(f"yaw must be a finite number of degrees, not {yaw}")
    c, s = np.cos(np.radians(yaw)), np.sin(np.radians(yaw))
    w, x, y, z = foa
    return np.stack([w, c * x - s * y, s * x + c * y, z])


def stereo(foa: np.ndarray) -> np.ndarray:
    """Left and right (2, n): cardioids that look to ±90°."""
    return np.stack([foa[0] + foa[2], foa[0] - foa[2]]) / 2


def angle(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Angles in degrees (…) between directions (…, 3); an undefined direction counts as 90."""
    between = np.arctan2(np.linalg.norm(np.cross(a, b), axis=-1), (a * b).sum(axis=-1))
    return np.where(np.isnan(between), 90.0, np.degrees(between))


def dir_errors(gains: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Angles in degrees (…) between the intensities of generated and true gains (…, 4)."""
    return angle(directions(gains), directions(truth))


def wav(channels: np.ndarray) -> bytes:
    """Channels (k, n) within ±1 as a 16-bit WAV file."""
    buffer = io.BytesIO()
    wavfile.write(buffer, SAMPLE_RATE, np.round(32767 * channels.T).astype(np.int16))
    return buffer.getvalue()
