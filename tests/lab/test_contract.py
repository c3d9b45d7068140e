"""Settings, controls, demos and the catalogue: what they accept, and how they say no."""

import pytest

import core.demos
from core.lab import charts
from core.lab.demo import caption, controls


def test_controls_come_from_the_declaration(coin):
    by_name = {c.name: c for c in controls(coin.settings)}
    assert [c.kind for c in by_name.values()] == ["float", "int", "choice", "bool", "float"]
    assert (by_name["tosses"].low, by_name["tosses"].high, by_name["tosses"].step) == (10, 1000, 10)
    assert by_name["tosses"].may_be == "a whole number 10 to 1000 tosses"
    assert by_name["side"].may_be == "heads or tails"
    assert by_name["fair"].may_be == "true or false"
    assert by_name["hidden"].shown is False
    assert by_name["side"].labels == {"heads": "Heads up"}


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ({"bias": 2}, ["bias", "2", "0 to 1"]),
        ({"bias": float("nan")}, ["bias", "nan", "0 to 1"]),
        ({"tosses": 10.5}, ["tosses", "10.5", "whole number"]),
        ({"side": "edge"}, ["side", "edge", "heads or tails"]),
        ({"colour": 1}, ["no setting 'colour'", "bias"]),
        ({"bias": 1.0, "side": "tails"}, ["bias: a coin that always shows heads"]),
    ],
)
def test_a_wrong_setting_is_named_with_what_it_may_be(coin, raw, words):
    with pytest.raises(ValueError) as error:
        coin.settings.checked(raw)
    assert all(w in str(error.value) for w in words)


def test_settings_are_frozen_hashable_and_know_what_changed(coin):
    s = coin.settings(bias=0.7)
    assert hash(s) == hash(coin.settings(bias=0.7))
    assert s.changed() == {"bias": 0.7}
    assert s.replace(tosses=20).changed() == {"bias": 0.7, "tosses": 20}
    with pytest.raises(ValueError):
        s.bias = 0.2


def test_a_demo_knows_its_parts(coin):
    assert coin.id == "coin"
    assert list(coin.presets) == ["Default", "Break it: no bias"]
    assert coin.preset_of(coin.settings(bias=0.0)) == "Break it: no bias"
    assert coin.preset_of(coin.settings(bias=0.1)) is None
    assert coin.how_it_works.startswith("A coin with a known bias")
    assert coin.source.startswith("from dataclasses")
    assert caption(coin.figures[0]) == "Look at the dot. It is the rate."
    assert coin.draw(coin.figures[0], coin.run(coin.settings(), 0)).data
    with pytest.raises(ValueError, match="preset cannot be 'x': it may be Default or"):
        coin.preset("x")


def test_a_broken_file_is_named_and_the_rest_loads(coin, tmp_path):
    folder = tmp_path / "core" / "demos"
    (folder / "bad.py").write_text("import nothing_of_that_name\n", encoding="utf-8")
    (folder / "empty.py").write_text("x = 1\n", encoding="utf-8")
    (folder / "wrong.py").write_text("DEMO = 3\n", encoding="utf-8")
    (folder / "_private.py").write_text("raise RuntimeError\n", encoding="utf-8")
    core.demos._scan.cache_clear()
    assert list(core.demos.catalogue()) == ["coin"]
    assert set(core.demos.broken()) == {"bad", "empty", "wrong"}
    assert "core/demos/bad.py" in core.demos.broken()["bad"]
    assert "nothing_of_that_name" in core.demos.broken()["bad"]
    assert "int, not a Demo" in core.demos.broken()["wrong"]


def test_a_demo_without_caption_or_break_it_is_refused(coin):
    from dataclasses import replace

    with pytest.raises(ValueError, match="break_it names no preset"):
        replace(coin, break_it="nothing")

    def bare_figure(run):
        return charts.blank()

    with pytest.raises(ValueError, match="bare_figure has no docstring"):
        replace(coin, figures=(bare_figure,))
