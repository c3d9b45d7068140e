"""Every page as a unit: it runs, says what it should, and shows messages instead of tracebacks."""

from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from core.demos import catalogue
from pages.parts import compute, library, shell

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT = 60


def page(name, **params):
    shell._app_has_run = True
    at = AppTest.from_file(ROOT / "pages" / f"{name}.py", default_timeout=TIMEOUT)
    for key, value in params.items():
        at.query_params[key] = value
    return at.run()


@pytest.fixture
def no_links(monkeypatch):
    """Page links need the whole app; as a unit a page shows their labels."""
    monkeypatch.setattr(st, "page_link", lambda page, *, label, **options: st.markdown(label))


def words(at):
    return " ".join(
        e.value for kind in ("markdown", "title", "subheader", "caption") for e in at.get(kind) if e.value
    )


def test_overview_counts_38_abstracts(no_links):
    at = page("overview")
    assert not at.exception
    assert at.title[0].value == "Abstracts that run"
    without = [a for a in library.collection().abstracts if library.demo_of(a) is None]
    assert len(catalogue()) + len(without) == 38
    assert "38 abstracts" in at.text_input[0].placeholder


def test_overview_search_finds_and_suggests(no_links):
    at = page("overview")
    at.text_input[0].set_value("federated").run()
    assert not at.exception
    assert any("abstracts" in s.value for s in at.subheader)
    at.text_input[0].set_value("zzzzqqq").run()
    assert "Nothing here about" in words(at)


@pytest.mark.parametrize("name", sorted(catalogue()))
def test_every_method_page_runs(name):
    at = page("method", method=name)
    assert not at.exception
    assert at.title[0].value == catalogue()[name].name
    assert not at.error
    assert len(at.get("plotly_chart")) == len(catalogue()[name].figures)


def test_a_wrong_link_is_explained():
    at = page("method", method="bass", agents="99", nonsense="1")
    assert not at.exception
    told = " ".join(i.value for i in at.info)
    assert "agents cannot be “99”" in told
    assert "no setting “nonsense”" in told
    assert page("method", method="nobody").info[0].value.startswith("There is no method")


def test_a_demo_that_raises_shows_its_message(monkeypatch):
    demo = catalogue()["bass"]
    compute.run.clear()

    def broken(settings, seed):
        raise RuntimeError("no luck today")

    broken.__module__ = demo.run.__module__  # the demo stays the one of its file
    monkeypatch.setitem(demo.__dict__, "run", broken)
    at = page("method", method="bass")
    assert not at.exception
    assert any("core/demos/bass.py stopped: RuntimeError: no luck today" in e.value for e in at.error)
    compute.run.clear()


def test_a_missing_ledger_is_explained(monkeypatch, tmp_path):
    from core.lab import ledger

    monkeypatch.setattr(library, "book", lambda demo: None)
    monkeypatch.setattr(library, "verdicts", lambda demo, preset="Default": [])
    monkeypatch.setattr(ledger, "LEDGER", tmp_path)
    monkeypatch.setattr(library, "book_problem", lambda demo: "There is no ledger yet.")
    at = page("method", method="bass")
    assert not at.exception
    assert any("no ledger" in i.value for i in at.info)


def test_map_shows_topics_then_a_paper_then_a_search(no_links):
    at = page("topic_map")
    assert not at.exception
    assert any("federated" in b.label for b in at.button)
    abstract = library.collection().abstracts[0]
    at = page("topic_map", abstract=abstract.id)
    assert at.subheader[0].value == library.short_name(abstract)
    at = page("topic_map", q="zzzzqqq")
    assert "Nothing here about" in words(at)
    at = page("topic_map", abstract="no-such", topic="no-such", colour="no-such")
    assert len(at.info) == 3
    assert not at.exception


def test_claims_page_filters():
    at = page("claims")
    assert not at.exception
    at.text_input[0].set_value("federated").run()
    assert not at.exception
    at.text_input[0].set_value("zzzzqqq").run()
    assert "No claim passes" in at.info[0].value
