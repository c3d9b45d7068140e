"""Sweeps: one claim's effect against one setting, so that the point where it stops holding is visible."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from core.lab import charts, ledger
from core.lab.demo import Claim, Control, Demo, Settings
from core.lab.verdicts import Verdict

POINTS = 7
SEEDS = 8


def values(control: Control, points: int = POINTS) -> list[float | int]:
    """Values over a number setting's whole range, both ends and the default among them."""
    if control.log:
        grid = np.geomspace(max(control.low, 1e-12), control.high, points)
    else:
        grid = np.linspace(control.low, control.high, points)
    if control.kind == "int":
        return sorted({round(float(v)) for v in grid} | {int(control.default)})
    step = control.step or 0.0
    snapped = (
        round((v - control.low) / step) * step + control.low if step and not control.log else v for v in grid
    )
    return sorted(
        {float(f"{min(max(v, control.low), control.high):.6g}") for v in snapped} | {float(control.default)}
    )


def sweep(
    demo: Demo,
    settings: Settings,
    name: str,
    grid: list,
    rows: Callable[[Settings, int], pd.DataFrame],
    progress: Callable[[int, int], object] = lambda done, of: None,
    seeds: int = SEEDS,
) -> pd.DataFrame:
    """Verdicts of every claim at each value of a setting.

    `rows(settings, seed)` gives the tidy rows of one seed. Returns one row per value and claim: value, claim,
    outcome, effect, low, high, bound, kind, note; a value that does not go with the other settings
    has only a note.
    """
    out = []
    for i, value in enumerate(grid):
        try:
            here = settings.replace(**{name: value})
            frames = []
            for seed in range(seeds):
                progress(i * seeds + seed, len(grid) * seeds)
                frames.append(rows(here, seed))
            found = ledger.judge(demo, here, pd.concat(frames, ignore_index=True))
        except ValueError as error:
            out += [{"value": value, "claim": c.says, "note": str(error)} for c in demo.claims]
            continue
        out += [_row(value, c, v) for c, v in zip(demo.claims, found, strict=True)]
    return pd.DataFrame(out)


def _row(value: float, claim: Claim, v: Verdict) -> dict:
    row = {"value": value, "claim": claim.says, "outcome": v.outcome, "note": v.note, "bound": v.bound}
    if v.effect is not None and v.effect.defined:
        row |= {"effect": v.effect.value, "low": v.effect.low, "high": v.effect.high, "kind": v.effect.kind}
    return row


def sweep_figure(table: pd.DataFrame, claim: Claim, control: Control, now: float) -> go.Figure | None:
    """Effect and interval against the setting, the claim's bound dotted; None where nothing is defined."""
    rows = table[table["claim"] == claim.says]
    if "effect" not in rows or rows["effect"].notna().sum() == 0:
        return None
    rows = rows[rows["effect"].notna()]
    ratio = bool((rows["kind"] == "ratio").all())
    unit = f" ({control.unit})" if control.unit else ""
    fig = charts.blank(
        f"{control.title}{unit}",
        "effect, 95 %" + (" (ratio, log scale)" if ratio else ""),
        log_x=control.log,
        log_y=ratio,
        height=260,
        right=60,
    )
    low, high = _clipped(rows["low"], rows["effect"]), _clipped(rows["high"], rows["effect"])
    x, y = rows["value"].to_numpy(float), rows["effect"].to_numpy(float)
    charts.line(fig, "effect", x, y, "method", band=(low, high), markers=True, end_label=False)
    fails = (rows["outcome"] == "fails").to_numpy()
    fig.add_scatter(
        x=x[fails],
        y=y[fails],
        mode="markers",
        name="does not hold",
        hoverinfo="skip",
        marker={"size": 13, "symbol": "x", "color": charts.FAIL},
    )
    open_ = rows["outcome"].isin(["unclear", "untestable"]).to_numpy()
    fig.add_scatter(
        x=x[open_],
        y=y[open_],
        mode="markers",
        name="unclear",
        hoverinfo="skip",
        marker={
            "size": 11,
            "symbol": "circle",
            "color": charts.GROUND,
            "line": {"width": 2, "color": charts.SOFT},
        },
    )
    bounds = rows["bound"].dropna()
    if len(bounds) and bounds.nunique() == 1 and (not ratio or bounds.iloc[0] > 0):
        charts.level(fig, float(bounds.iloc[0]), "bound")
    charts.moment(fig, now, "now")
    return fig


def _clipped(ends: pd.Series, effect: pd.Series) -> np.ndarray:
    """Interval ends for drawing: an unbounded end is drawn at the effect."""
    values = ends.to_numpy(float)
    return np.where(np.isfinite(values), values, effect.to_numpy(float))
