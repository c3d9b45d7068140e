"""Colours by a column of the list."""

import pytest

from core.topics.colouring import by_column, by_kind, by_number, columns
from core.topics.map_picture import GREY, GREY_DARK, HUES, HUES_DARK


def test_frequent_kinds_get_hues_and_the_rest_is_grey():
    values = ["b"] * 5 + ["a"] * 5 + [str(i) for i in range(8)] * 2 + [""]
    found = by_kind(values)
    assert found.colours[0] == HUES[1], "equal counts in alphabetical order"
    assert found.colours[5] == HUES[0]
    assert found.colours[-1] == GREY
    assert len(set(found.colours)) == len(HUES) + 1
    assert sum(n for *_, n in found.legend) == len(values)
    assert by_kind(values, dark=True).colours[5] == HUES_DARK[0]


def test_numbers_get_a_scale_between_its_ends():
    found = by_number([0.0, 5.0, 10.0, float("nan")])
    low, middle, high, unknown = found.colours
    assert (low, high) == (found.legend[0][1], found.legend[1][1])
    assert [int(middle[i : i + 2], 16) for i in (1, 3, 5)] == pytest.approx(
        [(int(low[i : i + 2], 16) + int(high[i : i + 2], 16)) / 2 for i in (1, 3, 5)], abs=1
    )
    assert unknown == GREY
    assert by_number([float("nan")], dark=True).colours == [GREY_DARK]
    assert by_number([]).colours == []
    assert len(set(by_number([3.0, 3.0]).colours)) == 1


def test_many_numbers_are_a_scale_and_few_are_kinds():
    years = [str(2000 + i) for i in range(20)]
    assert by_column(years).legend[0][0] == "2000"
    assert len(by_column(years).legend) == 2
    assert len(by_column(["2024", "2025", "2024"]).legend) == 2
    assert by_column(["2024", "2025", "2024"]).colours[0] == HUES[0]
    assert by_column(["1e999", *years]).legend[0][2] > 0, "an infinite number is a word"


def test_columns_that_can_colour_a_map():
    papers = [
        {"area": "ab"[i % 2], "note": f"text {i}", "one": "x", "rare": "r" if i < 3 else ""} for i in range(100)
    ]
    assert columns(papers) == ["area"]
    numbered = [{"score": str(i)} for i in range(100)]
    assert columns(numbered) == ["score"]
    assert columns([]) == []
