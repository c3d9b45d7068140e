"""Slides: their order, the claim that stands for a method, quotes in their sentence, words without mark-up."""

import re
from types import SimpleNamespace

import pytest

from core import demos
from core.abstracts import make_abstract, read_collection
from core.deck import headline, plan, text
from core.deck.slides import CONTEXT, in_context
from core.lab.verdicts import Estimate, Verdict

CATALOGUE = demos.catalogue()
COLLECTION = read_collection()
EFFECT = Estimate(0.65, 0.5, 0.84, 0.2, 8, "ratio")


def verdict(outcome, effect=EFFECT, note=""):
    return Verdict(outcome, effect=effect, note=note)


def test_a_method_gives_a_claim_and_a_break_it_slide():
    two = list(CATALOGUE.values())[:2]
    slides = plan(two)
    assert [s.kind for s in slides] == ["cover", "map", "claim", "break", "claim", "break", "verdicts"]
    assert [s.demo for s in slides[2:6]] == [two[0], two[0], two[1], two[1]]
    assert [s.kind for s in plan([])] == ["cover", "map", "verdicts"]


def test_the_headline_is_the_first_claim_that_breaks():
    holds, fails, none = verdict("holds"), verdict("fails"), verdict("untestable", None)
    assert headline([none, holds, holds], [none, holds, fails]) == 2
    assert headline([none, holds], [none, holds]) == 1
    assert headline([none], [none]) == 0
    assert headline([none, fails], []) == 1


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_every_quote_stands_in_its_sentence(name):
    demo = CATALOGUE[name]
    abstract = COLLECTION.opening_with(demo.abstract)
    for claim in demo.claims:
        before, quote, after = in_context(abstract, claim.quote)
        whole = before.removeprefix("… ") + quote + after.removesuffix(" …")
        assert whole in abstract.plain
        assert len(quote) > 3
        assert len(before + after) <= max(CONTEXT - len(quote), 0) + 4


def test_context_is_one_sentence_cut_at_words():
    a = make_abstract("First one. We show that our method wins often, they say (Fig. 1). Last one.")
    assert in_context(a, "our method wins") == ("We show that ", "our method wins", " often, they say (Fig. 1).")
    before, quote, after = in_context(a, "our method wins", most=31)
    assert (before, quote) == ("… that ", "our method wins")
    assert after.endswith(" …")
    assert in_context(a, "not in it") == ("", "not in it", "")


def test_nothing_from_outside_becomes_mark_up():
    evil = '<script>alert(1)</script> "quoted" & <img src=x>'
    a = make_abstract(f"We {evil} win by far. The end of it.")
    claim = SimpleNamespace(quote="win by far", says=evil)
    demo = SimpleNamespace(
        name=evil, claims=[claim], seeds=8, why_it_breaks=evil, break_it=f"Break it: {evil}", id="x"
    )
    v = verdict("unclear", note=evil)
    pages = [
        text.head(evil, evil),
        text.foot(evil),
        text.cover(evil, [demo], {"holds": 1}),
        text.claim(demo, 0, v, a, evil),
        text.claim(demo, 0, verdict("untestable", None, evil), a, evil),
        text.side(evil),
        text.sentence(claim, v),
        text.why(demo, claim),
        text.verdict_table([demo], {"x": [v]}),
        text.verdict_table([demo] * 20, {"x": [v]}),
    ]
    for page in pages:
        assert "<script" not in page
        assert "<img" not in page
        assert re.fullmatch(r"(<[^<>]*>|[^<>])*", page)


def test_the_number_carries_its_unit_and_interval():
    claim = SimpleNamespace(quote="q", says="It is smaller")
    demo = SimpleNamespace(claims=[claim], seeds=8)
    page = text.claim(demo, 0, verdict("holds"), None)
    assert "0.65×" in page
    assert "95 % interval 0.50 to 0.84" in page
    assert "8 seeds" in page
    assert text.big(Estimate(3, 1, 5, 1, 8, "difference", digits=1)) == "+3.0"
    assert text.sentence(claim, verdict("holds")).endswith("holds: 0.65× [0.50, 0.84]</div>")


def test_counts_are_of_claims():
    found = {"a": [verdict("holds"), verdict("fails")], "b": [verdict("holds")]}
    assert text.counts(found) == {"holds": 2, "fails": 1, "unclear": 0, "untestable": 0}
