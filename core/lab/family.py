"""Reading many verdicts at once: how many would hold by chance, and p-values adjusted for their number."""

from __future__ import annotations

import numpy as np

CHANCE = 0.025
"""A claim exactly at its bound shows as "holds" this often: one side of a 95 % interval."""


def holm(p_values: np.ndarray) -> np.ndarray:
    """Holm's step-down adjustment (1979) of p-values (n,); NaNs are not part of the family and stay NaN."""
    p = np.asarray(p_values, dtype=float)
    out = np.full(len(p), np.nan)
    inside = np.flatnonzero(np.isfinite(p))
    order = inside[np.argsort(p[inside], kind="stable")]
    steps = p[order] * np.arange(len(order), 0, -1)
    out[order] = np.minimum(np.maximum.accumulate(steps), 1.0) if len(order) else steps
    return out


def chance_holds(tested: int) -> float:
    """Expected number of claims that would show as "holds" if each of `tested` stood exactly at its bound."""
    return CHANCE * tested
