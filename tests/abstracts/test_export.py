"""Taking a collection away and reading it again: the same papers in all four formats, whatever they hold."""

import csv
import io
import json
import re

import bibtexparser
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.abstracts import Abstract, export, make_abstract, read_collection, read_text
from core.abstracts.fields import extra_name, role_of

FORMATS = [export.to_csv, export.to_jsonl, export.to_bibtex, export.to_markdown]


def fields(abstract: Abstract):
    return (abstract.text, abstract.title, abstract.authors, abstract.page, dict(abstract.extra))


HOSTILE = [
    '"', "'", "{", "}", "\\", "\\\\", "\n", "\r\n", "\r", "\n\n", "\t", "\x00", "\x1b", "=1+1", "+", "-", "--", "---", "@x",
    "@article{a,", "=cmd|' /C calc'!A0", "'=", ",", ";", "|", "#", "# ", "## Title", "**Authors:** x", "**Abstract:**",
    "Keywords: a", "Title: b", "- ", "1. ", "[1] ", "$", "$$", "$x^2$", "\\[", "\\begin{align}", "\\end{align}", "\\textbf{a}",
    "{\\em b}", "\\&", "&", "&lt;", "%", "_", "~", "^", "<b>", "<!--", "-->", "<!-- exact {} -->", "<script>", "😀", "\u202e", "\u200b",
    "\ufeff", "\u2028", "\x85", "\x0c", "我们研究", "مرحبا", "é", "\ud800", " ", "  ", "\u00a0", " and ", "NaN", "null", "word", "We study.",
    "https://a.io/b_c", "TY  - JOUR", "ER  - ", "sep=;", "},\n", "}\n@article{b,\n title={x}}", "```", "* * *", "====", ":", "：",
]  # fmt: skip
any_text = st.lists(st.sampled_from(HOSTILE) | st.text(max_size=12), max_size=8).map("".join) | st.text(max_size=80)
long_text = any_text.map(lambda text: f"{text} " + "and so on with many more words " * 4 + text)


def names():
    """Names as any reader would keep them, none of which stands for a field of every paper."""
    written = st.sampled_from(
        ["keywords", "year", "venue", "area", "primary_area", "Primary Area", "状态", "a=b", "x:y", "=f"]
    )
    return (written | st.text(min_size=1, max_size=10)).map(_kept).filter(lambda n: n and not role_of(n))


def _kept(name: str) -> str:
    return extra_name("".join(c for c in name if c.isprintable()))


papers = st.builds(
    make_abstract,
    any_text | long_text,
    title=any_text,
    authors=any_text | st.just("Ada Lovelace, Bo Li") | st.just("Li, Bo; Ada"),
    page=any_text | st.just("https://a.io/x_(y)"),
    extra=st.dictionaries(names(), any_text, max_size=3),
)


def collections():
    """Papers that differ, so that none is a copy of another, and say something."""

    def differ(found):
        return [
            make_abstract(
                f"{paper.text}Number{number}" + f" number{number}" * 30,
                title=paper.given_title,
                authors=paper.authors,
                page=paper.page,
                extra=paper.extra,
            )
            for number, paper in enumerate(found)
        ]

    return st.lists(papers, min_size=1, max_size=4).map(differ)


@pytest.mark.parametrize("write", FORMATS)
def test_the_built_in_collection_comes_back(write):
    collection = read_collection()
    again = read_text(write(collection.abstracts).encode("utf-8"), "mine")
    assert [fields(a) for a in again] == [fields(a) for a in collection]
    assert [a.id for a in again] == [a.id for a in collection]


@pytest.mark.parametrize("write", FORMATS)
@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(collections())
def test_any_collection_comes_back(write, found):
    again = read_text(write(found).encode("utf-8"), "mine")
    assert [fields(a) for a in again] == [fields(a) for a in found]


@pytest.mark.parametrize("write", FORMATS)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(collections())
def test_what_was_read_is_written_the_same_again(write, found):
    again = read_text(write(found), "mine")
    assert [fields(a) for a in read_text(write(again.abstracts), "mine")] == [fields(a) for a in again]


@pytest.mark.parametrize("write", FORMATS)
@pytest.mark.parametrize("piece", HOSTILE)
def test_every_hostile_piece(write, piece):
    body = " and much more" * 10
    found = [
        make_abstract(
            f"{piece}{body} one {piece}", title=f"{piece}Title {piece}", authors=piece, extra={"note": piece}
        ),
        make_abstract(f"Two {piece}{body}\n{piece}\n\n{piece}. ", title="Other", page=piece, extra={"a b": piece}),
    ]
    again = read_text(write(found), "mine")
    assert [fields(a) for a in again] == [fields(a) for a in found]


@pytest.mark.parametrize("write", FORMATS)
def test_nothing_gives_a_file_without_papers(write):
    assert isinstance(write([]), str)
    with pytest.raises(ValueError, match="mine"):
        read_text(write([]), "mine")


@pytest.mark.parametrize("start", ["=1+1", "+1", "-1", "@x", "\tx", "\rx", "＝1"])
def test_no_cell_is_a_formula(start):
    text = export.to_csv(
        [make_abstract(f"{start} abc", title=start, extra={"note": start, f"{start} name".strip(): "x"})]
    )
    for row in csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline="")):
        assert all(cell[:1] not in tuple("=+-@\t\r\n＝＋－＠") or not cell for cell in row)


def test_csv_is_for_excel_and_json_lines_for_programs():
    found = [make_abstract("我们 study", title="T", extra={"year": "2025"})]
    assert export.to_csv(found).encode().startswith(b"\xef\xbb\xbftitle,authors,abstract,url,year\r\n")
    assert json.loads(export.to_jsonl(found)) == {
        "title": "T", "authors": "", "abstract": "我们 study", "url": "", "year": "2025",
    }  # fmt: skip


def test_bibtex_keys_are_unique_and_stable():
    found = [
        make_abstract("We study A.", extra={"citation key": "smith25"}),
        make_abstract("We study B.", extra={"citation key": "Smith25"}),  # BibTeX ignores the case
        make_abstract("We study C.", extra={"citation key": "not a key"}),
        make_abstract("We study D."),
        make_abstract("We study D."),
    ]
    keys = re.findall(r"@\w+\{(.*),", export.to_bibtex(found))
    assert keys[0] == "smith25"
    assert len({key.lower() for key in keys}) == 5
    assert keys == re.findall(r"@\w+\{(.*),", export.to_bibtex(found))
    assert export.to_bibtex(found[3:4]).startswith(f"@misc{{abstract-{found[3].id},")


@settings(max_examples=100, deadline=None)
@given(collections())
def test_bibtex_is_bibtex_to_the_library(found):
    """Every entry parses, with as many fields as were written and no block that failed."""
    library = bibtexparser.parse_string(export.to_bibtex(found))
    assert len(library.entries) == len(found)
    assert not library.failed_blocks


def test_bibtex_as_latex_wants_it():
    text = export.to_bibtex([make_abstract("We.", title="R&D at 5%", authors="Ada Lovelace, Bo Li")])
    assert r"title = {R\&D at 5\%}" in text
    assert "author = {Ada Lovelace and Bo Li}" in text
    assert "x-exact" not in text


def test_markdown_is_readable():
    found = [
        make_abstract("We study $x^2$.", title="Fast", authors="Ada", page="https://a.io", extra={"Area": "rl"})
    ]
    assert export.to_markdown(found, name="ICML") == (
        "# ICML\n\n## Fast\n\n- **Authors:** Ada\n- **URL:** https://a.io\n- **Area:** rl\n\n**Abstract:** We study $x^2$.\n"
    )


def test_markdown_runs_nothing():
    found = [make_abstract("<script>alert(1)</script> <!-- hidden", title="<img src=x>", extra={"<b>": "<i>"})]
    visible = re.sub(r"<!-- exact .* -->\n", "", export.to_markdown(found))
    assert not re.search(r"<[a-zA-Z/!]", visible)
    assert export.to_markdown(found).count("-->") == 1
