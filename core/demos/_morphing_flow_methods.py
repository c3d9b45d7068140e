"""The ways to normalise that are compared, and what the two forecasters make of their inputs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from core.demos import _morphing_flow_forecast as fc
from core.demos._morphing_flow_spline import Spline, fit, instance, morph, spline, straight

MOF, REVIN, LOG, FLOW, MORPH, NONE = "MoF", "RevIN", "signed log", "Flow only", "Morph only", "no normalisation"
FITTED_ON, FIRST_FIT, SECOND_FIT = 200, 25, 15
"""windows on which the spline is fitted, and iterations of the two fits"""


@dataclass(frozen=True)
class Method:
    """One way to normalise: a transform, and (b, a) of the training and of the test windows."""

    g: fc.Transform
    place: fc.Place
    test_place: fc.Place


def methods(
    bins: int, inner: int, w: fc.Windows, rng: np.random.Generator
) -> tuple[dict[str, Method], Spline, list[fc.Place]]:
    """All ways to normalise, the spline of MoF, and the inner steps of its test windows."""
    some = w.past[rng.permutation(len(w.past))[:FITTED_ON]]
    b, a = instance(some)
    first = fit((some - b) / a, straight(bins), FIRST_FIT)
    b, a = morph(spline(first), some, inner)[-1]
    flow, mof = spline(first), spline(fit((some - b) / a, first, SECOND_FIT))
    own, test_own = instance(w.past), instance(w.test_past)
    path = morph(mof, w.test_past, inner)
    fast, test_fast = morph(mof, w.past, inner)[-1], path[-1]
    raw, test_raw = ((np.zeros((len(v), 1)), np.ones((len(v), 1))) for v in (w.past, w.test_past))
    found = {
        MOF: Method(mof, fast, test_fast),
        REVIN: Method(fc.Identity(), own, test_own),
        LOG: Method(fc.SignedLog(), own, test_own),
        FLOW: Method(flow, own, test_own),
        MORPH: Method(fc.Identity(), fast, test_fast),
        NONE: Method(fc.Identity(), raw, test_raw),
    }
    return found, mof, path


@dataclass(frozen=True)
class Forecasts:
    """Transformed test look-backs, and the forecasts (n, H) of the two models in data units."""

    z: np.ndarray
    linear: np.ndarray
    neighbours: np.ndarray


def forecast(m: Method, w: fc.Windows, rng: np.random.Generator) -> Forecasts:
    """Train on the training windows, forecast the test windows."""
    (b, a), (test_b, test_a) = m.place, m.test_place
    z, y = m.g.forward((w.past - b) / a), m.g.forward((w.future - b) / a)
    test_z = m.g.forward((w.test_past - test_b) / test_a)
    weights = fc.linear(m.g, w.past, w.future, m.place, rng)
    ways = fc.with_one(test_z) @ weights, fc.nearest(z, y, test_z)
    line, near = (test_b + test_a * m.g.inverse(v)[0] for v in ways)
    return Forecasts(test_z, line, near)


def pooled(z: np.ndarray) -> np.ndarray:
    """All values of the windows as one standardised sample."""
    return ((z - z.mean()) / max(z.std(), 1e-12)).ravel()


def to_normal(z: np.ndarray) -> float:
    """W1 distance of a standardised sample to N(0, 1), at the levels k/200."""
    levels = np.arange(1, 200) / 200
    return float(np.abs(np.quantile(z, levels) - stats.norm.ppf(levels)).mean())
