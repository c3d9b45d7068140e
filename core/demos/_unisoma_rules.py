"""Rules of the Unisoma demo: what the errors over seeds say about each claim."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from core.demos._unisoma_pictures import IMPLICIT, UNISOMA
from core.lab.verdicts import Estimator, Rule, Samples, Verdict, above, all_of, difference, in_seeds, per_seed

RIDGE, MEAN = "ridge regression", "training mean"
LISTS = {"none": "Unisoma, no contacts", "true": "Unisoma, true contacts", "wrong": "Unisoma, wrong contacts"}
"""Contact lists that Unisoma is trained with for comparison, and the names of the results."""
SIZES, SCALING_STEPS = (2, 10, 16), 120
"""Numbers of solids that are compared, and the training steps at each."""
MARGIN = 0.02
"""Differences of the relative error up to this are of no practical interest."""


def ahead(gap: Estimator) -> Rule:
    """The gap lies above 0 with its whole interval and above the margin on average."""
    return above(gap, 0, least=MARGIN, same=(-MARGIN, MARGIN))


def noted(found: Verdict, *texts: str) -> Verdict:
    """A verdict with more said beside it."""
    return replace(found, note="; ".join(filter(None, (found.note, *texts))))


def against_ridge(samples: Samples, measure: str) -> str:
    """How Unisoma stands against ridge regression, which knows no contact, in words and numbers."""
    gain = difference(measure, RIDGE, UNISOMA, digits=3)(samples)
    if gain.low > 0:
        word = "better than ridge regression"
    elif gain.high < 0:
        word = "worse than ridge regression"
    else:
        word = "level with ridge regression (contact not yet learned)"
    return f"Unisoma is {word}: {gain}"


def predicts_better(samples: Samples) -> Verdict:
    """Ahead of the implicit rival; the note adds ridge regression."""
    gap = difference("error", IMPLICIT, UNISOMA, digits=3, label="implicit − explicit")
    return noted(ahead(gap)(samples), against_ridge(samples, "error"))


def suffers_less(samples: Samples) -> Verdict:
    """From 2 solids to 10 and to 16 the implicit rival falls behind; both must show it."""
    few, *more = SIZES

    def growth(n: int) -> Estimator:
        def lead(s: Samples, size: int) -> np.ndarray:
            return s(f"error_{size}", IMPLICIT) - s(f"error_{size}", UNISOMA)

        text = f"growth of implicit − explicit from {few} to {n} solids"
        return per_seed(lambda s: lead(s, n) - lead(s, few), "difference", digits=3, label=text)

    both = all_of(*(ahead(growth(n)) for n in more))
    return noted(both(samples), f"with {more[-1]} solids " + against_ridge(samples, f"error_{more[-1]}"))


def carries_interaction(samples: Samples) -> Verdict:
    """Without contact modules the error rises; the note says what the other lists do."""

    def rise(name: str, label: str) -> Estimator:
        def values(s: Samples) -> np.ndarray:
            return s("other_lists", name) - s("error", UNISOMA)

        return per_seed(values, "difference", digits=3, label=label)

    found = ahead(rise(LISTS["none"], "error without contact modules − with"))(samples)
    others = [n for n in samples.methods("other_lists") if n != LISTS["none"]]
    return noted(found, *(str(rise(n, f"{n.removeprefix('Unisoma, ')} − this list")(samples)) for n in others))


def any_number(samples: Samples) -> Verdict:
    """One function built, trained and ran at every size, and predicts better than the mean there."""
    measures = ("error", *(f"error_{n}" for n in SIZES))

    def worst(s: Samples) -> np.ndarray:
        ratios = np.array([s(m, UNISOMA) / s(m, MEAN) for m in measures])
        return np.where(np.isfinite(ratios).all(axis=0), ratios.max(axis=0), np.inf)

    shown = per_seed(worst, "ratio", label="worst size, error against the training mean:")
    return in_seeds(lambda s: worst(s) < 1, shown, bound=1.0)(samples)
