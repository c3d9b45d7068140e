"""Several collections as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from core.abstracts.duplicates import copies
from core.abstracts.gather import with_copies
from core.abstracts.record import Abstract, Collection, Note, Report


def merged(collections: Sequence[Collection]) -> Collection:
    """One collection of several, in their order; a paper that occurs twice is kept once, with all its places.

    ValueError if there is none. The first collection's version of a paper wins; its report says what was merged.
    """
    if not collections:
        raise ValueError("collections: there must be at least 1 to merge")
    every = [a for c in collections for a in c]
    repeats = copies(["" if a.is_placeholder else a.plain for a in every])
    kept = {i: a for i, a in enumerate(every) if i not in repeats}
    notes = []
    copied: dict[int, list[Abstract]] = {}
    for copy, first in repeats.items():
        copied.setdefault(first, []).append(every[copy])
        reason = f"same as {every[first].source} number {every[first].number}"
        notes.append(Note(every[copy].source, every[copy].number, reason))
    for first, others in copied.items():
        kept[first] = with_copies(every[first], others)
    taken: dict[str, Abstract] = {}
    for a in kept.values():  # equal ids of placeholders in equal places
        taken.setdefault(a.id, a)
    names = dict.fromkeys(c.name for c in collections)
    return Collection(" + ".join(names), tuple(taken.values()), _report([c.report for c in collections], notes))


def _report(reports: Sequence[Report], duplicates: Sequence[Note]) -> Report:
    """The reports added up, field by field."""
    total: dict[str, Any] = {}
    for field in fields(Report):
        values = [getattr(r, field.name) for r in reports]
        if isinstance(values[0], int):
            total[field.name] = sum(values)
        elif isinstance(values[0], tuple):
            total[field.name] = tuple(v for part in values for v in part)
        else:
            total[field.name] = {k: v for part in values for k, v in part.items()}
    total["duplicates"] = (*total["duplicates"], *duplicates)
    return Report(**total)
