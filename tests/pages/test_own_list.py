"""An own list: read, shown, added to, forgotten; a bad file never replaces a good one."""

from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool

import plotly.graph_objects as go
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from core.abstracts import read_collection, read_texts
from core.abstracts.together import merged
from core.topics import build_map
from pages.parts import library, shelf, shell
from tests.pages.test_pages import ROOT, TIMEOUT, page, words

SOME = "\n\n".join(
    f"We study {topic} {n} with care. The {topic} problem is hard because of {topic} noise and the many ways in which "
    f"it can fail; our {topic} method number {n} works well on every {topic} benchmark that we tried in this work."
    for topic in ("bandit", "graph", "protein", "speech")
    for n in range(4)
)


@pytest.fixture(autouse=True)
def plain_links(monkeypatch):
    monkeypatch.setattr(st, "page_link", lambda page, *, label, **options: st.markdown(label))


def read_into(at, text):
    at.text_area(key="collection.text").set_value(text).run()
    at.button(key="collection.read").click().run()
    return at


def test_the_built_in_collection_is_listed_and_can_be_taken_away():
    at = page("collection")
    assert not at.exception
    assert len(at.dataframe[0].value) == 38
    assert "38 abstracts" in words(at)
    assert [b.label for b in at.get("download_button")] == ["CSV", "JSONL", "BibTeX", "Markdown"]


def test_a_pasted_list_is_looked_at_before_it_is_shown():
    at = read_into(page("collection"), SOME)
    assert not at.exception
    assert "16 abstracts" in words(at)
    assert len(at.dataframe[1].value) == 38, "the old list stays until the reader says so"
    at.text_input(key="collection.name").set_value("My list").run()
    at.button(key="collection.use").click().run()
    assert not at.exception
    assert len(at.dataframe[0].value) == 16
    assert at.subheader[0].value == "My list"
    at.radio(key="collection.choice").set_value("both").run()
    assert len(at.dataframe[0].value) == 54
    at.button(key="collection.drop").click().run()
    assert len(at.dataframe[0].value) == 38


def test_adding_keeps_the_places_of_what_was_there():
    at = read_into(page("collection"), SOME)
    at.button(key="collection.use").click().run()
    before = at.session_state["shelf.own"].topic_map
    read_into(at, SOME.replace("method number", "very new approach").replace("bandit", "robot"))
    at.button(key="collection.add").click().run()
    after = at.session_state["shelf.own"].topic_map
    assert len(after) > len(before)
    for i, abstract in enumerate(before.abstracts):
        assert (after.xy[after.index_of[abstract.id]] == before.xy[i]).all()


def test_a_bad_text_is_named_and_changes_nothing():
    at = page("collection")
    at.text_area(key="collection.text").set_value("  \n \n").run()
    assert at.button(key="collection.read").disabled
    at = read_into(at, '{"papers": [{"title": "x", "abstract": nu')
    assert not at.exception
    assert "pasted" in at.error[0].value
    assert len(at.dataframe[-1].value) == 38


def test_a_guess_can_be_undone():
    text = "A list of mine\n\n" + SOME
    at = read_into(page("collection"), text)
    assert "16 abstracts" in words(at)
    toggle = next(t for t in at.toggle if "header" in t.label)
    assert toggle.value
    toggle.set_value(False).run()
    assert not at.exception
    assert "17 abstracts" in words(at)


def test_one_abstract_is_placed_with_reasons():
    at = page("collection")
    text = "Clients train a federated model with heterogeneous data and unreliable links; we save communication."
    at.text_area(key="collection.one").set_value(text).run()
    assert not at.exception
    assert "Nearest, and why" in words(at)
    assert "federated" in words(at).lower()
    at.text_area(key="collection.one").set_value("qqq zzz " * 10).run()
    assert "No close paper in this collection." in words(at)


def test_the_map_shows_the_own_list_and_its_columns():
    rows = "abstract,area\n" + "\n".join(f'"{t}",{"ab"[i % 2]}' for i, t in enumerate(SOME.split("\n\n")))
    at = page("collection")
    read_into(at, rows).button(key="collection.use").click().run()
    other = AppTest.from_file(ROOT / "pages" / "topic_map.py", default_timeout=TIMEOUT)
    shell._app_has_run = True
    for key in ("shelf.own", "shelf.choice"):
        other.session_state[key] = at.session_state[key]
    other.run()
    assert not other.exception
    assert "area" in [o for w in other.get("selectbox") for o in w.options] or "area" in str(
        other.get("button_group")
    )


def test_a_paper_of_ours_in_a_stranger_list_runs():
    abstract = library.collection().abstracts[0]
    found = read_texts([(f'title,abstract\nSome title,"{abstract.text.replace(chr(34), chr(34) * 2)}"\n', "x.csv")])
    assert library.demo_of(found.abstracts[0]) is not None
    assert shelf.Shown(found).runs == [0]


def test_a_new_map_replaces_the_figures_of_the_old():
    shown = shelf.Shown(library.collection())
    shown.start(build_map, shelf.OnMap(shown.mapped))
    old = shown.topic_map
    first = shown.figure("key", go.Figure)
    assert shown.figure("key", go.Figure) is first
    broad = shown.broad()
    assert shown.broad() is broad
    shown.job = Future()
    shown.job.set_result(build_map(shelf.OnMap(shown.mapped), topics=8))
    assert shown.ready()
    assert shown.topic_map is not old
    assert shown.figure("key", go.Figure) is not first
    assert shown.broad() is not broad


def test_a_map_whose_process_dies_is_told_and_the_list_stays():
    shown = shelf.Shown(library.collection())
    shown.job = Future()
    shown.job.set_exception(BrokenProcessPool("gone"))
    assert not shown.ready()
    assert "want of memory" in shown.problem
    assert len(shown.search("federated")) == 2


def test_merged_keeps_one_of_each():
    ours = read_collection()
    both = merged((ours, ours))
    assert [a.id for a in both] == [a.id for a in ours]
    assert len(both.report.duplicates) == 38
    with pytest.raises(ValueError, match="collections"):
        merged(())
