"""Figures of slides: lengths in pixels grow together, data stays, two figures share their value axes."""

import numpy as np
import plotly.graph_objects as go
import pytest

from core.deck.figures import for_slide, same_axes
from core.lab import charts


def lines(values, *, log=False, height=350):
    fig = charts.blank("x", "A long name of the axis (unit)", log_y=log, height=height)
    for i, v in enumerate(values):
        charts.line(
            fig, f"line {i}", np.arange(4.0), np.linspace(values[0], v, 4), "method" if i == 0 else "baseline1"
        )
    charts.end_labels(fig)
    return fig


def labels(fig):
    return [a for a in fig.layout.annotations if a.name == charts.END_LABEL]


def test_pixels_grow_and_data_stays():
    fig = lines([1.0, 2.0, 5.0])
    large = for_slide(fig, 900, 900, 2.0)
    assert large.layout.height == 2 * fig.layout.height
    assert large.layout.font.size == 28
    assert large.layout.margin.r == 300
    assert large.data[0].line.width == 2 * fig.data[0].line.width
    assert np.array_equal(charts.array_of(large.data[0].y), fig.data[0].y)
    assert labels(large)[0].font.size == 28
    assert labels(large)[0].xshift == 16
    assert fig.layout.font.size == 14, "the original stays as it was"


def test_bars_and_bins_keep_their_width_in_data_units():
    fig = go.Figure([go.Bar(x=[0, 1], y=[1, 2], width=0.4), go.Histogram(x=[1, 2], xbins={"size": 0.5})])
    fig.add_scatter(x=[0, 1], y=[0, 1], marker={"size": np.array([3.0, 4.0])})
    fig.add_annotation(x=0, y=0, ax=5, ay=-5)
    fig.add_annotation(x=0, y=0, ax=1, ay=1, axref="x", ayref="y")
    large = for_slide(fig, 900, 900, 3.0)
    assert large.data[0].width == 0.4
    assert large.data[1].xbins.size == 0.5
    assert list(large.data[2].marker.size) == [9, 12]
    assert (large.layout.annotations[0].ax, large.layout.annotations[1].ax) == (15, 1)


def test_a_lower_figure_places_its_names_again():
    fig = for_slide(lines([1.0, 1.01, 1.02, 1.03, 1.04, 1.05], height=700), 700, 300, 1.0)
    assert fig.layout.height == 300
    low, high = fig.layout.yaxis.range
    room = 300 - fig.layout.margin.t - 48
    at = sorted((a.y - low) / (high - low) * room for a in labels(fig))
    assert len(at) == 6
    assert min(np.diff(at)) > charts.FONT_SIZE * 0.85


def test_names_of_panels_break_into_lines_that_fit():
    fig = charts.panels(["a rather long name of a panel (higher is better)", "short"], x="x")
    narrow = for_slide(fig, 500, 400, 1.0)
    name = narrow.layout.annotations[0].text
    assert "<br>" in name
    assert name.replace("<br>", " ") == "a rather long name of a panel (higher is better)"
    assert narrow.layout.margin.t > fig.layout.margin.t
    assert "<br>" not in for_slide(fig, 1600, 400, 1.0).layout.annotations[0].text


@pytest.mark.parametrize("log", [False, True])
def test_two_figures_get_one_range_that_holds_both(log):
    a, b = lines([1.0, 2.0], log=log), lines([1.0, 50.0], log=log)
    left, right = same_axes(a, b)
    assert left.layout.yaxis.range == right.layout.yaxis.range
    high = left.layout.yaxis.range[1]
    top = np.log10(50) if log else 50
    assert high > top
    assert len(labels(left)) == len(labels(a)) == 2
    assert a.layout.yaxis.range != left.layout.yaxis.range


def test_rows_with_names_share_the_horizontal_axis():
    a, b = charts.blank("x"), charts.blank("x")
    charts.dots(a, {"m": (1.0, 0.5, 1.5)}, {"m": "method"})
    charts.dots(b, {"m": (9.0, 8.0, 12.0)}, {"m": "method"})
    left, right = same_axes(a, b)
    low, high = left.layout.xaxis.range
    assert tuple(right.layout.xaxis.range) == (low, high)
    assert low < 0.5
    assert high > 12
    assert left.layout.yaxis.range is None


def test_pictures_keep_their_own_axes():
    a, b = charts.blank(), charts.blank()
    charts.picture(a, np.eye(2))
    charts.picture(b, np.eye(3))
    assert all(f.layout.yaxis.range is None for f in same_axes(a, b))
