"""Colours of a map's points by a column of the list: kinds get hues, numbers a scale."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from core.topics.map_picture import GREY, GREY_DARK, HUES, HUES_DARK

MOST_KINDS = 60
_COVERED = 0.3
_SCALE = (("#C9D6DF", "#0A4A7D"), ("#33414D", "#A8DBFF"))


@dataclass(frozen=True)
class Colouring:
    """Colours (n,) of the points, and what each means: (words, colour, how many)."""

    colours: list[str]
    legend: list[tuple[str, str, int]]


def columns(extras: Sequence[Mapping[str, str]]) -> list[str]:
    """Columns by which a map can be coloured: known for a third of the papers or more, with few kinds or numbers."""
    values: dict[str, Counter[str]] = {}
    for extra in extras:
        for name, value in extra.items():
            if value.strip():
                values.setdefault(name, Counter())[value.strip()] += 1
    least = _COVERED * len(extras)
    return [
        name
        for name, found in values.items()
        if found.total() >= least
        and len(found) > 1
        and (len(found) <= MOST_KINDS or _numbers(list(found)) is not None)
    ]


def by_kind(values: Sequence[str], dark: bool = False) -> Colouring:
    """The seven most frequent kinds get hues, the others and what is unknown stay grey."""
    hues, grey = (HUES_DARK, GREY_DARK) if dark else (HUES, GREY)
    counts = Counter(v for v in values if v)
    common = sorted(counts, key=lambda v: (-counts[v], v))[: len(hues)]
    colour = dict(zip(common, hues, strict=False))
    legend = [(v, colour[v], counts[v]) for v in common]
    if rest := len(values) - sum(counts[v] for v in common):
        legend.append(("other or unknown", grey, rest))
    return Colouring([colour.get(v, grey) for v in values], legend)


def by_number(values: Sequence[float], dark: bool = False) -> Colouring:
    """A scale from the smallest to the largest number (n,); NaN is grey."""
    x = np.asarray(values, dtype=float)
    known = np.isfinite(x)
    low, high = (float(x[known].min()), float(x[known].max())) if known.any() else (0.0, 1.0)
    ends = [np.array([int(c[i : i + 2], 16) for i in (1, 3, 5)]) for c in _SCALE[dark]]
    share = np.nan_to_num((x - low) / ((high - low) or 1.0))
    rgb = np.rint(ends[0] + share[:, None] * (ends[1] - ends[0])).astype(int)
    grey = GREY_DARK if dark else GREY
    colours = [f"#{r:02X}{g:02X}{b:02X}" if k else grey for (r, g, b), k in zip(rgb.tolist(), known, strict=True)]
    legend = [(f"{low:g}", _SCALE[dark][0], 0), (f"{high:g}", _SCALE[dark][1], 0)]
    return Colouring(colours, legend)


def by_column(values: Sequence[str], dark: bool = False) -> Colouring:
    """By number where all known values are numbers with more than seven kinds, else by kind."""
    clean = [v.strip() for v in values]
    numbers = _numbers([v for v in clean if v])
    if numbers is not None and len(set(numbers)) > len(HUES):
        return by_number([float(v) if v else float("nan") for v in clean], dark)
    return by_kind(clean, dark)


def _numbers(values: Sequence[str]) -> list[float] | None:
    try:
        found = [float(v) for v in values]
    except ValueError:
        return None
    return found if np.isfinite(found).all() else None
