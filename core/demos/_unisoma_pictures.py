"""Pictures of the Unisoma demo: strips under moving punches from the side, and who listens to which contact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from core.demos._unisoma_scene import Pairs, Scene
from core.lab import charts, thumbnails
from core.lab.palette import Role

UNISOMA, IMPLICIT, SOLVER = "Unisoma", "one-set transformer", "solver"
ROLES: dict[str, Role] = {SOLVER: "oracle", IMPLICIT: "baseline1", UNISOMA: "method"}
PANELS = 3
"""Most stations, or punches, that are drawn."""
X = np.linspace(0, 1, 61)


@dataclass(frozen=True)
class Film:
    """One sample while its punches are pushed: one scene whose samples are the moments."""

    scene: Scene
    shares: Sequence[float]
    """share of the push at every moment"""
    displacement: dict[str, np.ndarray]
    """method -> (strips, moments, points)"""

    def panels(self) -> list[tuple[list[int], list[int]]]:
        """(strips, punches) of every panel: three stations, or one stack."""
        found, strip, punch = [], 0, 0
        for s in self.scene.systems[:PANELS]:
            strips, punches = s.height.shape[1], len(s.sides)
            found.append((list(range(strip, strip + strips)), list(range(punch, punch + punches))))
            strip, punch = strip + strips, punch + punches
        return found

    def side(self, punch: int) -> int:
        return int(np.concatenate([s.sides for s in self.scene.systems])[punch])

    def shape(self, name: str, strips: list[int], moment: int) -> tuple[np.ndarray, np.ndarray]:
        """Deformed strips of a panel as one line with gaps: x, height."""
        points = self.scene.solids[strips, moment]
        y = points[..., 1] + self.displacement[name][strips, moment]
        gap = np.full((len(strips), 1), np.nan)
        return np.hstack([points[..., 0], gap]).ravel(), np.hstack([y, gap]).ravel()

    def punch(self, punch: int, moment: int) -> np.ndarray:
        """Height of a punch's surface over X, a parabola through its points."""
        x, y, _ = self.scene.solids[self.scene.strips + punch, moment].T
        pushed = self.side(punch) * self.scene.loads[punch, moment, 0, 2]
        return np.polyval(np.polyfit(x, y, 2), X) - pushed

    def touching(self, strips: list[int], moment: int) -> tuple[np.ndarray, np.ndarray]:
        """Points of the strips of a panel that feel pressure: x, height."""
        felt = np.zeros((self.scene.strips, self.scene.solids.shape[2]), dtype=bool)
        for (i, j), pressure in zip(self.scene.pairs, self.scene.pressure[:, moment], strict=True):
            for k in (i, j):
                if k < self.scene.strips:
                    felt[k] |= pressure > 0
        points = self.scene.solids[strips, moment]
        y = points[..., 1] + self.displacement[SOLVER][strips, moment]
        return points[..., 0][felt[strips]], y[felt[strips]]

    def limits(self) -> tuple[float, float]:
        """Lowest and highest height to draw."""
        shown = [k for strips, _ in self.panels() for k in strips]
        y = np.array([self.scene.solids[shown, :, :, 1] + w[shown] for w in self.displacement.values()])
        rest = self.scene.solids[shown, 0, :, 1]
        below = 0.14 if min(s.sides.min() for s in self.scene.systems) < 0 else 0.05
        return float(min(y.min(), rest.min()) - below), float(rest.max() + 0.22)


def _closed(surface: np.ndarray, side: int, limits: tuple[float, float]) -> dict[str, np.ndarray]:
    """A punch as an area, from its surface to the edge of the picture."""
    low, high = limits
    y = np.clip(surface, low - 0.02, high + 0.02)
    far = high + 0.02 if side > 0 else low - 0.02
    return {"x": np.r_[X, X[::-1]], "y": np.r_[y, np.full_like(y, far)]}


def _moment(film: Film, moment: int, limits: tuple[float, float]) -> list[dict[str, np.ndarray]]:
    """x and y of everything that moves, panel by panel, in the order in which it is drawn."""
    found = []
    for strips, punches in film.panels():
        found += [_closed(film.punch(k, moment), film.side(k), limits) for k in punches]
        found += [dict(zip("xy", film.shape(name, strips, moment), strict=True)) for name in ROLES]
        found.append(dict(zip("xy", film.touching(strips, moment), strict=True)))
    return found


def _looks(film: Film) -> list[tuple[int, dict[str, Any]]]:
    """Column and look of everything that moves, in the same order."""
    found: list[tuple[int, dict[str, Any]]] = []
    grey = charts.MARK["oracle"]
    for column, (_, punches) in enumerate(film.panels(), 1):
        body = {"mode": "lines", "fill": "toself", "fillcolor": charts.tint(grey, 0.28), "line": {"width": 0}}
        found += [(column, {**body, "name": f"punch {k + 1}", "hoverinfo": "skip"}) for k in punches]
        for name, role in ROLES.items():
            wide = 7 if role == "oracle" else 3 if role == "method" else 2
            line = {"color": charts.tint(grey, 0.6) if role == "oracle" else charts.MARK[role], "width": wide}
            found.append((column, {"mode": "lines", "name": name, "line": line}))
        dots = {"size": 7, "color": charts.INK}
        found.append((column, {"mode": "markers", "name": "contact", "marker": dots}))
    return found


def side_figure(film: Film) -> go.Figure:
    """The strips while the punches are pushed, with a play button and a slider."""
    limits, last = film.limits(), len(film.shares) - 1
    titles = [f"station {k + 1}" for k in range(len(film.panels()))]
    if len(film.scene.systems) == 1:
        titles = ["one strip and its punch" if len(film.panels()[0][1]) == 1 else "the stack"]
    fig = charts.panels(titles, "x", height=460)
    for column, (_, punches) in enumerate(film.panels(), 1):
        for k in punches:
            y = np.where((film.punch(k, 0) > limits[1]) | (film.punch(k, 0) < limits[0]), np.nan, film.punch(k, 0))
            dotted = {"color": charts.MARK["oracle"], "width": 1, "dash": "dot"}
            fig.add_scatter(
                x=X, y=y, mode="lines", line=dotted, name="punch before", hoverinfo="skip", row=1, col=column
            )
    still = len(fig.data)
    for (column, look), at in zip(_looks(film), _moment(film, last, limits), strict=True):
        fig.add_scatter(**look, **at, row=1, col=column)
    fig.frames = [
        go.Frame(
            name=f"{100 * share:.0f}",
            data=[{"type": "scatter", **at} for at in _moment(film, moment, limits)],
            traces=list(range(still, len(fig.data))),
        )
        for moment, share in enumerate(film.shares)
    ]
    names = " ".join(f"<span style='color:{charts.TEXT[r]}'>━ {n}</span>" for n, r in reversed(ROLES.items()))
    place: dict[str, Any] = {
        "xref": "paper",
        "yref": "paper",
        "x": 0,
        "y": 1,
        "xanchor": "left",
        "yanchor": "bottom",
        "xshift": -38,
        "yshift": 30,
    }
    fig.add_annotation(text=f"height {names}", showarrow=False, font={"size": 13, "color": charts.SOFT}, **place)
    fig.update_yaxes(range=limits)
    fig.update_xaxes(range=[0, 1], tickvals=[0, 0.5, 1])
    _add_player(fig, [frame.name for frame in fig.frames])
    return fig.update_layout(margin_t=66)


def _add_player(fig: go.Figure, names: list[str]) -> None:
    """A play button and a slider over the frames, which starts at the last one."""
    at_once = {"mode": "immediate", "frame": {"duration": 0, "redraw": False}, "transition": {"duration": 0}}
    running = {**at_once, "fromcurrent": False, "frame": {"duration": 130, "redraw": False}}
    fig.update_layout(
        updatemenus=[
            {
                "type": "buttons",
                "buttons": [{"label": "▶ Play", "method": "animate", "args": [names, running]}],
                "showactive": False,
                "bgcolor": charts.GRID,
                "bordercolor": charts.GRID,
                "font": {"color": charts.INK},
                "x": 0,
                "y": 0,
                "xanchor": "left",
                "yanchor": "top",
                "pad": {"t": 58},
            }
        ],
        sliders=[
            {
                "steps": [{"label": n, "method": "animate", "args": [[n], at_once]} for n in names],
                "active": len(names) - 1,
                "currentvalue": {"prefix": "share of the push: ", "suffix": " %", "font": {"color": charts.INK}},
                "bgcolor": charts.GRID,
                "font": {"color": "rgba(0,0,0,0)"},
                "tickcolor": "rgba(0,0,0,0)",
                "x": 0.26,
                "len": 0.74,
                "pad": {"t": 36},
            }
        ],
    )


def allocation_figure(contacts: np.ndarray, loads: np.ndarray, pairs: Pairs | None) -> go.Figure:
    """Weights of all contacts (strips, contacts) and of all loads (strips, punches) for each strip, as matrices."""
    strips = len(loads)

    def named(k: int) -> str:
        return f"strip {k + 1}" if k < strips else f"punch {k - strips + 1}"

    of_loads = (loads, [f"load {k + 1}" for k in range(loads.shape[1])])
    shown = {"loads (no contact modules)": of_loads}
    if pairs is not None:
        shown = {"contacts": (contacts, [f"{named(i)}<br>{named(j)}" for i, j in pairs]), "loads": of_loads}
    fig = charts.panels(list(shown), height=340)
    for column, (z, labels) in enumerate(shown.values(), 1):
        few, top = z.shape[1] <= 5, float(z.max())
        charts.picture(fig, z, limits=(0, top), xgap=int(z.shape[1] <= 8), ygap=1, row=1, col=column)
        for (i, k), weight in np.ndenumerate(z if few else z[:0]):
            font = {"size": 13, "color": charts.GROUND if weight > 0.6 * top else charts.INK}
            fig.add_annotation(x=k, y=i, text=f"{weight:.2f}", showarrow=False, font=font, row=1, col=column)
        ticks = list(range(0, z.shape[1], 1 if few else -(-z.shape[1] // 4)))
        fig.update_xaxes(tickvals=ticks, ticktext=[labels[k] for k in ticks], showgrid=False, row=1, col=column)
    names = [f"strip {k + 1} " for k in range(strips)]
    fig.update_yaxes(tickvals=list(range(strips)), ticktext=names, autorange="reversed", showgrid=False)
    return fig


def small(film: Film) -> str:
    """The body of a wordless picture: the first panel at the full push."""
    (strips, punches), last = film.panels()[0], len(film.shares) - 1
    low, high = film.limits()
    wide, tall, pad = thumbnails.WIDTH, thumbnails.HEIGHT, thumbnails.PAD

    def points(x: np.ndarray, y: np.ndarray) -> list[tuple[float, float]]:
        good = np.isfinite(y)
        left = pad + (wide - 2 * pad) * x[good]
        top = pad + (tall - 2 * pad) * (high - np.clip(y[good], low, high)) / (high - low)
        return list(zip(left, top, strict=True))

    def text(x: np.ndarray, y: np.ndarray) -> str:
        return " ".join(f"{a:.1f},{b:.1f}" for a, b in points(x, y))

    body = ""
    for k in punches:
        area = _closed(film.punch(k, last), film.side(k), (low, high))
        body += f'<polygon class="f-oracle" opacity=".22" points="{text(area["x"], area["y"])}"/>'
    for name, width in ((SOLVER, 7), (UNISOMA, 3.5)):
        x, y = film.shape(name, strips, last)
        look = 'opacity=".5" ' if name == SOLVER else ""
        for line in np.split(np.arange(len(x)), len(strips)):
            body += (
                f'<polyline class="s-{ROLES[name]}" fill="none" {look}stroke-width="{width}" '
                f'stroke-linecap="round" stroke-linejoin="round" points="{text(x[line], y[line])}"/>'
            )
    dots = points(*film.touching(strips, last))
    return body + "".join(f'<circle class="f-oracle" cx="{a:.1f}" cy="{b:.1f}" r="4.5"/>' for a, b in dots)


def size_figure(
    own: Mapping[str, float], size: int, seeds: Mapping[int, Mapping[str, np.ndarray]], roles: Mapping[str, Role]
) -> go.Figure:
    """Errors of one run at its size, and of all seeds at other sizes (size -> method -> errors)."""
    fig = charts.blank("number of solids", "relative L2 error", height=380)
    for shift, (name, error) in zip((0, 0.22, -0.22), own.items(), strict=True):
        role, sizes = roles[name], np.array([*seeds] or [size]) + shift
        errors = [seeds[n][name] for n in seeds] or [np.array([error])]
        if seeds:
            look = {"size": 6, "color": charts.tint(charts.MARK[role], 0.45)}
            x = np.repeat(sizes, len(errors[0]))
            fig.add_scatter(x=x, y=np.concatenate(errors), mode="markers", marker=look, name=f"{name}, seeds")
        charts.line(fig, name, sizes, np.array([e.mean() for e in errors]), role)
        look = {"size": 11, "symbol": "diamond-open", "color": charts.MARK[role], "line": {"width": 2}}
        fig.add_scatter(x=[size + shift], y=[error], mode="markers", marker=look, name=f"{name}, this run")
    fig.update_xaxes(range=[1, 17], tickvals=[*range(2, 17, 2)])
    charts.end_labels(fig)
    return fig
