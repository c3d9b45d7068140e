"""The picture: names do not touch, hues differ where topics are near, the glow ends at the edge."""

import itertools

import numpy as np
import pytest

from core.topics import build_map
from core.topics.map_picture import (
    GREY,
    GREY_DARK,
    HUES,
    HUES_DARK,
    MIXED_HUE,
    Canvas,
    colours_of,
    draw,
    glow,
    hue_colour,
    text_box,
    to_pixels,
    two_lines,
)
from tests.topics.conftest import papers


@pytest.fixture(scope="module")
def picture(seed_map):
    names = [abstract.title.split(":")[0][:20] for abstract in seed_map.abstracts]
    return draw(seed_map, names=names, first=[0, 1, 12], chosen=23, linked=[5, 36])


def touch(a, b):
    return a[0] < b[2] - 1e-6 and b[0] < a[2] - 1e-6 and a[1] < b[3] - 1e-6 and b[1] < a[3] - 1e-6


def test_points_lie_within_the_margins(picture):
    x, y = picture.points.T
    assert x.min() == pytest.approx(83)
    assert x.max() == pytest.approx(747)
    assert y.min() == pytest.approx(44.8)
    assert y.max() == pytest.approx(595.2)


def test_up_on_the_map_is_up_on_the_picture():
    points = to_pixels(np.array([[0.0, 0.0], [1.0, 2.0]]), Canvas())
    assert points[1, 1] < points[0, 1]
    assert to_pixels(np.zeros((0, 2)), Canvas()).shape == (0, 2)
    assert np.allclose(to_pixels(np.zeros((1, 2)), Canvas()), [[415, 320]])


def test_names_touch_neither_each_other_nor_a_point(picture):
    for a, b in itertools.combinations(picture.paper_names, 2):
        assert not touch(a.box, b.box)
    for a, b in itertools.product(picture.paper_names, picture.topic_names):
        assert not touch(a.box, b.box)
    for name in picture.paper_names:
        for x, y in picture.points:
            assert not touch(name.box, (x - 8, y - 8, x + 8, y + 8))
    for a, b in itertools.combinations(picture.topic_names, 2):
        assert not touch(a.box, b.box)


def test_names_stay_on_the_picture(picture):
    for name in picture.paper_names:
        left, top, right, bottom = name.box
        assert left >= 0
        assert top >= 0
        assert right <= 830
        assert bottom <= 640


def test_nearly_every_paper_and_every_named_topic_has_a_name(picture, seed_map):
    named = {name.index for name in picture.paper_names}
    assert len(named) >= 34
    assert {0, 1, 12, 23} <= named
    assert [name.text for name in picture.topic_names] == [t.label for t in seed_map.topics if not t.mixed]


def test_hues_are_apart_and_mixed_topics_grey(picture, seed_map):
    given = [hue for hue in picture.hue_of_topic if hue != MIXED_HUE]
    assert all(0 <= hue < len(HUES) for hue in given)
    assert all((hue == MIXED_HUE) == t.mixed for hue, t in zip(picture.hue_of_topic, seed_map.topics, strict=True))
    assert hue_colour(MIXED_HUE) == GREY
    assert hue_colour(MIXED_HUE, dark=True) == GREY_DARK
    assert hue_colour(2, dark=True) == HUES_DARK[2]
    assert len(colours_of(seed_map, picture.hue_of_topic)) == 38


def test_up_to_seven_topics_have_seven_hues(themed):
    made = build_map(themed[0], topics=5)
    hues = draw(made).hue_of_topic
    assert len(set(hues)) == 5


def test_hues_do_not_depend_on_the_size_of_names(seed_map, picture):
    assert draw(seed_map).hue_of_topic == picture.hue_of_topic


def test_glow_is_light_in_the_middle_and_none_at_the_edge(picture, seed_map):
    light, dark = glow(picture, seed_map.topic_of), glow(picture, seed_map.topic_of, dark=True)
    assert light.shape == dark.shape == (160, 208, 4)
    assert light.dtype == np.uint8
    alpha = light[:, :, 3]
    assert alpha[0].max() == alpha[-1].max() == alpha[:, 0].max() == alpha[:, -1].max() == 0
    assert 20 < alpha.max() <= round(0.30 * 255)
    assert dark[:, :, 3].max() > alpha.max()


def test_glow_has_the_colour_of_its_topic(themed):
    made = build_map(themed[0], topics=5)
    shown = draw(made)
    light = glow(shown, made.topic_of)
    for topic, hue in zip(made.topics, shown.hue_of_topic, strict=True):
        x, y = np.median(shown.points[list(topic.members)], axis=0)
        red, green, blue = light[int(y / 4), int(x / 4), :3].astype(int)
        wanted = [int(HUES[hue][i : i + 2], 16) for i in (1, 3, 5)]
        assert np.abs(np.array([red, green, blue]) - wanted).max() <= 40


def test_pictures_of_nothing_and_of_one():
    for n in (0, 1, 2):
        made = build_map(papers(["bandit regret"] * n))
        shown = draw(made, names=["Bandits"] * n)
        assert glow(shown, made.topic_of).shape[2] == 4
        assert len(shown.paper_names) == n


def test_text_measures():
    assert text_box(["abcd"], 10, 0, 0) == pytest.approx((-9.4, -5.5, 9.4, 5.5))
    assert two_lines("time series") == ("time series",)
    assert two_lines("preferences, large rewards") == ("preferences,", "large rewards")
