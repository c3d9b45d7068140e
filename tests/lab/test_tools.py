"""Figures, thumbnails, networks and data: invariants and closed forms."""

import pickle
import xml.etree.ElementTree as ET

import autograd.numpy as anp
import numpy as np
import plotly.graph_objects as go
import pytest
from autograd import grad
from scipy.special import log_softmax as scipy_log_softmax

from core.lab import charts, datasets, federated, nets, palette, thumbnails
from core.lab.verdicts import Samples


def labelled(values, log=False):
    fig = charts.blank("x", "y", log_y=log)
    for i, (name, v) in enumerate(values.items()):
        charts.line(fig, name, np.arange(3), np.full(3, v), "method" if i == 0 else "baseline1")
    charts.end_labels(fig)
    return fig


@pytest.mark.parametrize("log", [False, True])
def test_end_labels_never_overlap(log):
    """Names sit at least a line apart, in pixels of the figure, and inside its range."""
    fig = labelled({"a": 1.0, "b": 1.001, "c": 1.002, "d": 5.0}, log)
    names = [a for a in fig.layout.annotations if a.text in ("<b>a</b>", "b", "c", "d")]
    low, high = fig.layout.yaxis.range
    pixels = sorted((a.y - low) / (high - low) * (fig.layout.height - 85) for a in names)
    assert len(names) == 4
    assert min(np.diff(pixels)) > charts.FONT_SIZE * 0.9
    assert all(low <= a.y <= high for a in names)


def test_dark_theme_swaps_every_palette_colour_and_no_data():
    fig = labelled({"a": 1.0, "b": 2.0})
    charts.level(fig, 1.5, "bound")
    charts.moment(fig, 1.0, "now")
    fig.data[0].customdata = ["#0072B2"] * 3
    dark = charts.in_theme(fig, True)
    text = dark.to_json().lower()
    for role in ("method", "baseline1"):
        assert palette.DARK[palette.MARK[role]].lower() in text
    assert list(dark.data[0].customdata) == ["#0072B2"] * 3
    assert charts.in_theme(fig, False) is fig
    assert len(dark.data) == len(fig.data)


def test_every_palette_colour_has_a_dark_partner():
    assert set(palette.MARK.values()) | set(palette.TEXT.values()) <= set(palette.DARK)


def test_bands_dots_pictures_and_panels():
    fig = charts.panels(["one", "two"], x="x", shared_y=False)
    charts.picture(fig, np.eye(2), row=1, col=1)
    charts.line(fig, "a", [0, 1], [0, 1], band=([0, 0], [1, 2]), row=1, col=2, end_label=False)
    assert fig.layout.yaxis.autorange == "reversed"
    rows = charts.data_table(fig)
    assert {"trace": "heatmap 1", "x": 0, "y": 0, "value": 1.0} in rows
    assert sum(r["trace"] == "a" for r in rows) == 2
    dots = charts.blank("x")
    charts.dots(dots, {"b": (1, 0, 2), "a": (2, 1, 3)}, charts.roles("a", ("b",)))
    assert dots.data[0].name == "a"
    with pytest.raises(ValueError, match="at most 6"):
        charts.roles("a", tuple("bcdefgh"))


def test_figures_from_a_cache_give_the_same_table():
    fig = charts.blank("x", "y")
    charts.line(fig, "a", np.arange(3.0), np.arange(3.0) ** 2)
    charts.picture(fig, np.arange(6.0).reshape(2, 3))
    assert charts.data_table(pickle.loads(pickle.dumps(fig))) == charts.data_table(fig)


def test_intervals_of_figures():
    s = Samples({("m", "a"): np.arange(8.0)}, range(8))
    value, low, high = charts.interval_of(s, "m", "a", 1.0)
    assert low < value == 3.5 < high
    assert charts.interval_of(None, "m", "a", 1.0) == (1.0, 1.0, 1.0)
    assert charts.interval_of(s, "m", "b", 2.0) == (2.0, 2.0, 2.0)


def test_interval_on_a_log_axis_is_of_the_geometric_mean():
    s = Samples({("m", "a"): np.array([0.01, 1.0, 100.0])}, range(3))
    value, low, high = charts.interval_of(s, "m", "a", 1.0, log=True)
    assert value == pytest.approx(1)
    assert low * high == pytest.approx(1)
    assert 0 < low < 1


@pytest.mark.parametrize(
    "text",
    [
        thumbnails.lines({"a": (np.arange(3.0), np.array([1, np.nan, 3.0]))}, {"a": "method"}),
        thumbnails.lines(
            {"a": (np.array([1.0, 10]), np.array([1, 10.0]))}, {"a": "method"}, log_x=True, log_y=True
        ),
        thumbnails.dots({"a": (1, 1, 1)}, {"a": "method"}),
        thumbnails.points([(np.zeros((3, 2)), "method")]),
        thumbnails.points([(np.random.default_rng(0).normal(size=(9, 2)), "oracle")], square=False),
        thumbnails.pictures([[np.eye(4), np.ones((4, 4, 3))]]),
    ],
)
def test_thumbnails_are_well_formed(text):
    root = ET.fromstring(text)
    assert root.attrib["viewBox"] == "0 0 300 128"
    assert "script" not in text
    assert "nan" not in text


def test_colour_scales_reach_their_ends():
    rgb = thumbnails.coloured(np.array([[0.0, 1.0]]), charts.GREYS, 0, 1)
    assert rgb.tolist() == [[[0, 0, 0], [255, 255, 255]]]


def test_cross_entropy_against_scipy_and_its_gradient_by_differences():
    rng = np.random.default_rng(0)
    w, x, y = rng.normal(size=(3, 4)), rng.normal(size=(7, 3)), rng.integers(0, 4, 7)

    def loss(w):
        return nets.cross_entropy(x @ w, y)

    assert loss(w) == pytest.approx(-scipy_log_softmax(x @ w, axis=1)[np.arange(7), y].mean())
    direction, step = rng.normal(size=w.shape), 1e-6
    slope = (loss(w + step * direction) - loss(w - step * direction)) / (2 * step)
    assert slope == pytest.approx((grad(loss)(w) * direction).sum(), rel=1e-4, abs=1e-8)
    assert nets.accuracy(np.array([[0, 1], [1, 0]]), np.array([1, 1])) == 0.5


def test_first_adam_step_has_the_size_of_the_rate():
    """Bias correction makes the first step rate·sign(g)."""
    p = [np.zeros(3)]
    nets.Adam(0.1).step(p, [np.array([5.0, -2.0, 1e-3])])
    assert np.allclose(p[0], [-0.1, 0.1, -0.1], atol=1e-5)
    q, adam = [np.array([4.0])], nets.Adam(0.3)
    for _ in range(400):
        adam.step(q, [2 * q[0]], rate=0.05)
    assert abs(q[0][0]) < 0.05


def test_minibatches_walk_through_all_rows():
    rows = np.concatenate(list(nets.minibatches(np.random.default_rng(0), 10, 5, 4)))
    assert sorted(rows[:10]) == list(range(10))
    assert sorted(rows[10:]) == list(range(10))
    assert anp.sum(rows) == 90


def test_data_sets_are_what_they_say_and_read_only():
    x, y = datasets.digits()
    assert x.shape == (1797, 64)
    assert x.min() == 0
    assert x.max() == 1
    assert all(p.shape == (427, 640, 3) and p.dtype == np.uint8 for p in datasets.photographs())
    with pytest.raises(ValueError):
        x[0, 0] = 2
    a, b = datasets.split(np.random.default_rng(0), 10, 6, 4)
    assert sorted([*a, *b]) == list(range(10))
    assert len(y) == 1797
    with pytest.raises(ValueError, match="train"):
        datasets.split(np.random.default_rng(0), 10, 8, 4)


def test_dirichlet_split_gives_every_row_away_once():
    labels = federated.pool(0).y
    rows = federated.dirichlet_split(labels, 7, 0.3, np.random.default_rng(0))
    assert sorted(np.concatenate(rows)) == list(range(len(labels)))
    even = federated.dirichlet_split(labels, 4, 1e6, np.random.default_rng(0))
    assert max(map(len, even)) - min(map(len, even)) < 40


def test_figures_can_be_serialised():
    assert go.Figure(labelled({"a": 1.0}).to_dict()).to_json()
