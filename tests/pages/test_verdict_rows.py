"""Verdict rows, marks and the claims table: escaped, anchored, complete."""

import xml.etree.ElementTree as ET
from dataclasses import replace

from core.demos import catalogue
from core.lab.verdicts import Estimate, Verdict
from pages.parts import evidence, library, verdict_rows

HOLDS = Verdict("holds", Estimate(0.5, 0.4, 0.6, 0.1, 8, "ratio"), 1.0, "", 3.0, 2.0, 4.0)
FAILS = Verdict("fails", Estimate(0.5, 0.4, 0.6, 0.1, 8), 1.0, "far <b>off</b>", -40.0, -90.0, -2.0)
NOT = Verdict("untestable", note="needs <script>alert(1)</script>")


def demo():
    first = catalogue()["bass"]
    claims = tuple(replace(c, says=f"<i>{i}</i>") for i, c in enumerate(first.claims[:3]))
    return replace(first, claims=claims)


def test_rows_escape_everything_and_carry_their_anchor():
    text = verdict_rows.rows(demo(), [HOLDS, FAILS, NOT], [HOLDS, HOLDS, HOLDS])
    assert "<i>" not in text
    assert "<script>" not in text
    assert "&lt;i&gt;0" in text
    for i, v in enumerate((HOLDS, FAILS, NOT)):
        assert f'id="{verdict_rows.anchor(i, v)}"' in text
    assert text.count("by default") == 2
    assert "0.50× [0.40, 0.60]" in text


def test_interval_pictures_stay_inside_their_box():
    for v in (HOLDS, FAILS):
        root = ET.fromstring(verdict_rows.interval_svg(v))
        xs = [float(e.attrib[k]) for e in root for k in ("x1", "x2", "cx") if k in e.attrib]
        assert 0 <= min(xs) <= max(xs) <= 140
    assert verdict_rows.interval_svg(NOT) == ""


def test_marks_say_the_word():
    assert 'title="does not hold: ' in verdict_rows.marks([FAILS], demo().claims[:1])
    assert 'title="holds: ' in verdict_rows.marks([HOLDS], demo().claims[:1])


def test_abstracts_are_annotated_for_every_demo():
    for d in catalogue().values():
        abstract = library.abstract_of(d)
        assert abstract is not None
        found = library.verdicts(d)
        text = verdict_rows.annotated(d, abstract, found)
        for i, v in enumerate(found):
            assert f"(#{verdict_rows.anchor(i, v)} " in text


def test_the_claims_table_has_every_claim_once():
    frame = evidence.table(evidence.stamp())
    assert len(frame) == sum(len(d.claims) for d in catalogue().values())
    assert set(frame["outcome"]) <= {"holds", "fails", "unclear", "untestable"}
    assert (frame["p_holm"].dropna() >= frame["p"].dropna() - 1e-12).all()
    lines = evidence.markdown(frame).splitlines()
    assert len(lines) == len(frame) + 2
    assert lines[2].startswith("| ")
