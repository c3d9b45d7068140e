"""Share links: what is written is read back; what is wrong is named, and nothing ever raises."""

import math

import pytest

from core.demos import catalogue
from core.lab.demo import controls
from pages.parts import link
from pages.parts.settings_form import log_steps

DEMOS = catalogue()
FIRST = next(iter(DEMOS))
HOSTILE = [
    "",
    "text",
    "nan",
    "inf",
    "-inf",
    "1e400",
    "-99999999",
    "99999999",
    "7.5",
    "٣",
    "<script>",
    "a" * 5000,
    "\x00",
]


def as_given(params):
    return {k: [v] for k, v in params.items()}


@pytest.mark.parametrize("name", sorted(DEMOS))
def test_every_preset_survives_a_link(name):
    demo = DEMOS[name]
    for preset in demo.presets.values():
        params = link.write(demo, preset, seed=3)
        assert params["method"] == name
        found = link.read(as_given(params), DEMOS, FIRST)
        assert (found.demo, found.settings, found.seed, found.messages) == (demo, preset, 3, ())


def test_defaults_are_left_out_and_the_method_is_always_named():
    demo = DEMOS["bass"]
    assert link.write(demo, demo.settings()) == {"method": "bass"}


@pytest.mark.parametrize("name", sorted(DEMOS))
def test_wrong_values_are_named_and_replaced(name):
    demo = DEMOS[name]
    for c in controls(demo.settings):
        for raw in HOSTILE:
            found = link.read({"method": [name], c.name: [raw]}, DEMOS, FIRST)
            value = getattr(found.settings, c.name)
            if link.parse(c, raw) is None:
                assert value == c.default
                assert any(c.name in m and c.may_be in m for m in found.messages)
            elif c.kind in ("int", "float"):
                assert c.low <= value <= c.high
                assert math.isfinite(value)
        twice = link.read({"method": [name], c.name: ["1", "2"]}, DEMOS, FIRST)
        assert any("given 2 times" in m for m in twice.messages)


def test_unknown_names_are_told():
    found = link.read({"method": ["nobody"], "agents": ["3"]}, DEMOS, "bass")
    assert "There is no method “nobody”" in found.messages[0]
    assert found.demo.id == "bass"
    gone = link.read({"method": ["bass"], "old_setting": ["3"]}, DEMOS, "bass")
    assert "no setting “old_setting”" in gone.messages[0]
    assert link.read({"method": ["bass"], "seed": ["-1"]}, DEMOS, "bass").seed == 0
    assert "sweep cannot be" in link.read({"method": ["bass"], "sweep": ["structure"]}, DEMOS, "bass").messages[0]
    assert link.read({}, DEMOS, "bass").demo.id == "bass"


def test_settings_that_do_not_go_together_are_explained():
    found = link.read({"method": ["ntk_dfl"], "neighbours": ["3"], "clients": ["11"]}, DEMOS, "bass")
    assert "neighbours" in found.messages[0]
    assert found.settings == DEMOS["ntk_dfl"].settings()


def test_logarithmic_sliders_reach_both_ends_and_the_value():
    c = next(c for c in controls(DEMOS["fedecado"].settings) if c.name == "alpha")
    steps = log_steps(c, 0.37)
    assert steps[0] == c.low
    assert steps[-1] == c.high
    assert {0.1, 0.37} <= set(steps)
    assert steps == sorted(steps)
