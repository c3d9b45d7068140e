"""What holds for every demo: contract, quotes, reproducibility, controls, figures, ledger."""

import json
import math
import warnings
import xml.etree.ElementTree as ET
from functools import cache

import numpy as np
import pytest

from core import demos
from core.abstracts import find_quote, read_collection
from core.lab import charts, ledger
from core.lab.demo import caption, controls

CATALOGUE = demos.catalogue()
IDS = sorted(CATALOGUE)


@cache
def default_run(name):
    return CATALOGUE[name].run(CATALOGUE[name].settings(), 0)


@cache
def book(name):
    return ledger.read(CATALOGUE[name])


@pytest.fixture(params=IDS)
def demo(request):
    return CATALOGUE[request.param]


def compared(demo, run):
    """Measures without clock readings."""
    return {
        (m, k): v
        for m, by in run.measures.items()
        for k, v in by.items()
        if not (m in demo.measures and demo.measures[m].timing)
    }


def pictures(demo, run):
    """The figures of a run as JSON text."""
    return [
        json.dumps(demo.draw(f, run).to_plotly_json(), default=lambda a: np.asarray(a).tolist(), sort_keys=True)
        for f in demo.figures
    ]


def test_every_file_loads():
    assert demos.broken() == {}
    assert len(IDS) >= 5


def test_quotes_are_exact_pieces_of_one_abstract(demo):
    collection = read_collection()
    abstract = collection.opening_with(demo.abstract)
    assert abstract is not None, f"no abstract opens with {demo.abstract!r}"
    for claim in demo.claims:
        assert claim.quote in abstract.text, claim.quote
        assert find_quote(abstract.text, claim.quote) is not None


def test_texts_are_there(demo):
    words = len(demo.how_it_works.split())
    assert 120 <= words <= 420, f"how it works has {words} words"
    assert demo.line.endswith((".", "!"))
    assert len(demo.line) <= 110
    assert demo.simplified.strip()
    assert demo.why_it_breaks.strip()
    assert demo.break_it.startswith("Break it: ")
    assert demo.seeds >= 8
    assert demo.paper.url.startswith("https://")
    assert len({c.says for c in demo.claims}) == len(demo.claims)


def test_the_same_settings_and_seed_give_the_same_measures(demo):
    first, second = default_run(demo.id), demo.run(demo.settings(), 0)
    a, b = compared(demo, first), compared(demo, second)
    assert a.keys() == b.keys()
    for key, value in a.items():
        assert value == b[key] or (math.isnan(value) and math.isnan(b[key])), key


def test_another_seed_gives_other_numbers(demo):
    assert compared(demo, default_run(demo.id)) != compared(demo, demo.run(demo.settings(), 1))


def ends():
    """Both ends of every shown control and every choice."""
    for name in IDS:
        for c in controls(CATALOGUE[name].settings):
            if c.shown:
                values = c.options if c.kind == "choice" else (False, True) if c.kind == "bool" else (c.low, c.high)
                yield from ((name, c.name, v) for v in values if v != c.default)


@pytest.mark.parametrize(("name", "control", "value"), list(ends()))
def test_a_control_changes_what_is_computed_and_its_ends_work(name, control, value):
    demo = CATALOGUE[name]
    kind = next(c.kind for c in controls(demo.settings) if c.name == control)
    known = [c.name for c in controls(demo.settings)]
    try:
        settings = demo.settings().replace(**{control: int(value) if kind == "int" else value})
    except ValueError as error:  # the end does not go with the other defaults
        message = str(error)
    else:
        message = ""
    if message:
        assert any(n in message for n in known), message
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert any(differs(demo, settings, seed) for seed in range(4)), "nothing changes"


def differs(demo, settings, seed):
    """Whether a run at these settings differs from the default in a measure, a figure or a sound."""
    run = demo.run(settings, seed)
    usual = default_run(demo.id) if seed == 0 else demo.run(demo.settings(), seed)
    drawn = pictures(demo, run)
    sounds = demo.sound is not None and demo.sound(run) != demo.sound(usual)
    return compared(demo, run) != compared(demo, usual) or sounds or drawn != pictures(demo, usual)


def test_a_value_out_of_range_is_named(demo):
    for c in controls(demo.settings):
        if c.kind in ("int", "float") and math.isfinite(c.high):
            with pytest.raises(ValueError, match=c.name):
                demo.settings.checked({c.name: c.high + max(1, abs(c.high))})


def test_figures_say_what_they_show(demo):
    blue = 0
    for figure in demo.figures:
        fig = demo.draw(figure, default_run(demo.id))
        words = caption(figure)
        assert words.endswith(".")
        assert len(words.split()) >= 8, words
        assert fig.data
        text = fig.to_json()
        titles = [a.text for a in fig.layout.annotations] + [
            fig.layout.xaxis.title.text,
            fig.layout.yaxis.title.text,
        ]
        assert any(titles), f"{figure.__name__} names no axis"
        assert "$" not in "".join(t or "" for t in titles)
        blue += charts.MARK["method"].lower() in text.lower() or "heatmap" in text or '"image"' in text
        assert charts.in_theme(fig, True).data
    assert blue, "no figure shows the method in its colour"


def test_figures_use_the_samples_where_they_ask_for_them(demo):
    samples = book(demo.id).samples("Default")
    for figure in demo.figures:
        assert demo.draw(figure, default_run(demo.id), samples).data


def test_thumbnail_is_small_wordless_svg(demo):
    text = demo.thumbnail(default_run(demo.id))
    root = ET.fromstring(text)
    assert root.tag.endswith("svg")
    assert len(text) < 60_000
    assert "<script" not in text
    assert "<text" not in text
    assert (ledger.THUMBNAILS / f"{demo.id}.svg").exists()


def test_measures_are_declared(demo):
    found = set(default_run(demo.id).measures)
    from_probes = set(book(demo.id).frame.query("part not in ['run', 'cost']")["measure"])
    assert set(demo.measures) <= found | from_probes
    assert all(
        isinstance(v, float | int | np.floating)
        for by in default_run(demo.id).measures.values()
        for v in by.values()
    )


def test_ledger_is_complete_and_belongs_to_the_code(demo):
    found = book(demo.id)
    assert found is not None
    assert found.stale() == ""
    for preset in demo.presets:
        assert {v.outcome for v in found.verdicts(preset)} <= {"holds", "fails", "unclear", "untestable"}


def test_the_breaking_preset_breaks_something(demo):
    before, after = book(demo.id).verdicts(), book(demo.id).verdicts(demo.break_it)
    lost = [a for a, b in zip(before, after, strict=True) if a.outcome != b.outcome and b.outcome != "holds"]
    assert lost, "no verdict changes for the worse"


def test_a_default_run_is_quick(demo):
    """Processor seconds from the ledger; the hard cap, the benchmark has the ratios."""
    assert book(demo.id).seconds() <= 5
