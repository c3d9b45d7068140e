"""The deck as a file: complete, safe, its formulas as MathML, its figures once."""

import json
import re
import xml.etree.ElementTree as ET
from html import escape

import pytest

from core import demos
from core.abstracts import read_collection
from core.deck import __main__ as command
from core.deck import offline

CATALOGUE = demos.catalogue()


@pytest.fixture(scope="module")
def page():
    return command.build(["fedecado", "bass"])


def test_the_file_has_every_slide_and_figure(page):
    assert re.findall(r'data-kind="(\w+)"', page) == ["cover", "map", *["claim", "break"] * 2, "verdicts"]
    figures = json.loads(re.search(r'id="figures">(.*?)</script>', page, re.DOTALL)[1])
    assert len(figures) == 1 + 2 * 3
    assert re.findall(r'data-figure="(\d+)"', page) == [str(i) for i in range(7)]
    assert page.index("FedECADO") < page.index("BASS"), "in the order asked for"


def test_the_file_asks_nobody_for_anything(page):
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    assert policy.startswith("default-src 'none'")
    assert "http" not in policy
    assert not re.search(r"<(link|script|img|iframe)[^>]*\s(src|href)=[\"']?(https?:)?//", page)


def test_an_unknown_method_is_named():
    with pytest.raises(ValueError, match=r"methods cannot be nonsense: they may be .*bass"):
        command.build(["bass", "nonsense"])
    with pytest.raises(ValueError, match="methods cannot be empty"):
        command.build([])


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_every_formula_becomes_mathml(name):
    demo = CATALOGUE[name]
    abstract = read_collection().opening_with(demo.abstract)
    for source in (demo.how_it_works, abstract.display):
        html = offline.html_of(source)
        for formula in re.findall(r"<math.*?</math>", html, re.DOTALL):
            ET.fromstring(formula)
            assert "\\" not in re.sub(r"<[^>]*>", "", formula), "a macro was not understood"
        rest = re.sub(r"<(math|code).*?</\1>", "", html, flags=re.DOTALL)
        assert rest.count("$") == source.count("\\$"), "a formula was not found; an escaped dollar sign is money"


def test_markdown_renders_neither_tags_nor_pictures():
    html = offline.html_of("<b onclick=x>a</b> ![p](https://x.org/p.png) <script>1</script>\n\n<iframe></iframe>")
    assert "<b " not in html
    assert "<img" not in html
    assert "<script" not in html
    assert "<iframe" not in html


def test_a_formula_never_becomes_anything_else():
    for evil in (r"\text{<script>}", r"\text{<script>1</script>}", r"\text{<b onclick=x></b>}"):
        assert offline.mathml(evil) == f"<code>{escape(evil)}</code>"
        assert "<script" not in offline.mathml(evil)
        assert "<b " not in offline.html_of(f"a ${evil}$ b")


def test_the_command_writes_and_refuses(tmp_path, capsys, monkeypatch):
    out = tmp_path / "deck.html"
    monkeypatch.setattr("sys.argv", ["deck", "--methods", "bass", "--out", str(out), "--theme", "dark"])
    assert command.main() == 0
    assert 'class="dark"' in out.read_text(encoding="utf-8")
    monkeypatch.setattr("sys.argv", ["deck", "--methods", "nope", "--out", str(tmp_path / "no.html")])
    assert command.main() == 2
    assert "nope" in capsys.readouterr().err
    assert not (tmp_path / "no.html").exists()
