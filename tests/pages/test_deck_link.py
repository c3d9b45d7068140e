"""Links of decks: every slide round trips, wrong values are named, nothing raises."""

import pytest

from core.demos import catalogue
from pages.parts import deck_link
from pages.parts.deck_link import Deck

DEMOS = catalogue()


def as_given(params):
    return {k: [v] for k, v in params.items()}


def test_every_slide_has_its_own_link():
    deck = Deck((DEMOS["timing"], DEMOS["bass"]))
    seen = set()
    for n in range(1, len(deck.slides) + 1):
        for notes in (False, True):
            at = Deck(deck.demos, n, notes)
            params = deck_link.write(at, DEMOS)
            seen.add(tuple(params.items()))
            assert deck_link.read(as_given(params), DEMOS) == at
    assert len(seen) == 14


@pytest.mark.parametrize("name", sorted(DEMOS))
def test_a_live_setting_stays_on_its_slide(name):
    demo = DEMOS[name]
    for n in (3, 4):
        for preset in demo.presets.values():
            deck = Deck((demo,), n)
            own = deck_link.own_settings(deck.shown)
            at = Deck((demo,), n, settings=None if preset in (own, demo.settings()) else preset)
            found = deck_link.read(as_given(deck_link.write(at, DEMOS)), DEMOS)
            assert found == at
            assert found.messages == ()
    assert Deck((demo,), 3, settings=demo.preset(demo.break_it)).at(4).settings is None


def test_all_is_short_and_empty_is_empty():
    everything = Deck(tuple(DEMOS.values()), 2)
    assert deck_link.write(everything, DEMOS) == {"deck": "all", "slide": "2"}
    assert deck_link.read({"deck": ["all"], "slide": ["2"]}, DEMOS) == everything
    assert deck_link.write(Deck(), DEMOS) == {}
    assert deck_link.read({}, DEMOS) == Deck()


@pytest.mark.parametrize(
    ("params", "part"),
    [
        ({"deck": ["bass,nope"]}, "no method “nope”"),
        ({"deck": ["bass"], "slide": ["9"]}, "slide cannot be “9”: it may be 1 to 5"),
        ({"deck": ["bass"], "slide": ["-1"]}, "slide cannot be “-1”"),
        ({"deck": ["bass"], "slide": ["٣"]}, "slide cannot be"),
        ({"deck": ["bass"], "slide": ["1", "2"]}, "slide cannot be"),
        ({"deck": ["bass"], "slide": ["3"], "agents": ["999"]}, "agents cannot be"),
        ({"deck": ["bass"], "slide": ["3"], "gone": ["1"]}, "no setting “gone”"),
        ({"deck": ["bass"], "slide": ["1"], "agents": ["5"]}, "no setting “agents” here"),
    ],
)
def test_what_is_wrong_is_named_and_the_rest_is_shown(params, part):
    found = deck_link.read(params, DEMOS)
    assert any(part in m for m in found.messages), found.messages
    assert found.demos == (DEMOS["bass"],)
    assert found.slide in (0, 1, 3)


def test_hostile_values_never_raise():
    for raw in ("", ",", "\x00", "a" * 10_000, "bass," * 500, "../../etc", "<script>", "1e999", "²"):
        deck_link.read({"deck": [raw], "slide": [raw], "notes": [raw], raw: [raw]}, DEMOS)
        deck_link.read({"deck": ["bass"], "slide": ["3"], "agents": [raw], "seed": [raw]}, DEMOS)
