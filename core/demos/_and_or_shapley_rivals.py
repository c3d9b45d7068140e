"""Scores of coalitions that AND-OR faithfulness is compared with; all use AND (Harsanyi) interactions only."""

from __future__ import annotations

import numpy as np

from core.demos._and_or_shapley_sets import moebius, players, shapley_values, sizes


def harsanyi(v: np.ndarray) -> np.ndarray:
    """AND interactions (2^n,) that explain v alone (Harsanyi dividends), 0 for the empty set."""
    out = moebius(v)
    out[0] = 0
    return out


def interaction_index(v: np.ndarray, subsets: np.ndarray) -> np.ndarray:
    """|Shapley interaction index| (G,) of subsets: Σ_{T⊇S} I(T) / (|T| − |S| + 1) (Grabisch & Roubens, 1999)."""
    t, size = np.arange(len(v)), sizes(players(v))
    holds = (t & subsets[:, None]) == subsets[:, None]
    return np.abs((holds / np.maximum(size - size[subsets][:, None] + 1, 1)) @ harsanyi(v))


def merged_value(v: np.ndarray, subsets: np.ndarray) -> np.ndarray:
    """Shapley value (G,) of each subset as one player in the game of it and the single others.

    Σ_{T∩S≠∅} I(T) / (|T| − |T∩S| + 1): an interaction that holds only part of S counts for it too.
    """
    size = sizes(players(v))
    common = size[np.arange(len(v)) & subsets[:, None]]
    return ((common > 0) / (size - common + 1)) @ harsanyi(v)


def merged_conflict(v: np.ndarray, subsets: np.ndarray, member: np.ndarray) -> np.ndarray:
    """|value of the merged player − sum of the Shapley values of its members (G, n)| (G,)."""
    return np.abs(merged_value(v, subsets) - member @ shapley_values(v))
