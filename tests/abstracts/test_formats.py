"""Every format by its content: tables, JSON, JSON Lines, BibTeX, RIS, Markdown; right values stated by hand."""

import json

import pytest

from core.abstracts import Reading, read_text, read_texts

A = "We study A, which is long enough to be an abstract: " + "it has words upon words about bandits. " * 4
B = "We study B, which is another paper altogether: " + "kernels and graphs differ in every sentence. " * 4
A, B = A.strip(), B.strip()


def papers(content, name="list.bin", reading=None):
    """(title, text) of each paper; the file's name says nothing about its format."""
    return [("" if a.title_is_derived else a.title, a.text) for a in read_text(content, name, reading or Reading())]


TWO = [("Fast Bandits", A), ("Slow Kernels", B)]


def rows(delimiter, quote=True, names=("title", "abstract")):
    q = '"' if quote else ""
    lines = [delimiter.join(names), *(delimiter.join(f"{q}{cell}{q}" for cell in row) for row in TWO)]
    return "\r\n".join(lines) + "\r\n"


@pytest.mark.parametrize(
    "content",
    [
        rows(","),
        rows(";"),
        rows("\t", quote=False),
        rows("|"),
        "sep=;\r\n" + rows(";"),
        "\ufeff" + rows(","),
        rows(",", names=(" Title ", " ABSTRACT ")),
        rows(",", names=("标题", "摘要")),
        rows(";", names=("Paper_Title", '"Abstract Text"')),
        rows("\t", quote=False).replace("\r\n", "\n"),
        rows(",").replace("\r\n", "\r"),
        f"| Title | Abstract |\n|---|:--|\n| Fast Bandits | {A} |\n| Slow Kernels | {B} |\n",
        json.dumps([{"title": t, "abstract": a} for t, a in TWO]),
        json.dumps({"papers": [{"Title": t, "summary": a} for t, a in TWO]}, indent=2),
        json.dumps({"meta": {"n": 2}, "results": [{"name": t, "abstract": a} for t, a in TWO]}),
        json.dumps({"2024": [{"title": TWO[0][0], "abstract": A}], "2025": [{"title": TWO[1][0], "abstract": B}]}),
        json.dumps({t: {"title": t, "abstract": a} for t, a in TWO}),
        json.dumps([{"content": {"title": {"value": t}, "abstract": {"value": a}}} for t, a in TWO]),
        json.dumps({"notes": [{"id": "x", "content": {"title": t, "abstract": a}} for t, a in TWO]}),
        json.dumps({"title": dict(enumerate(t for t, _ in TWO)), "abstract": dict(enumerate(a for _, a in TWO))}),
        json.dumps({"title": [t for t, _ in TWO], "abstract": [a for _, a in TWO]}),
        json.dumps({"columns": ["title", "abstract"], "index": [0, 1], "data": TWO}),
        json.dumps([["title", "abstract"], *TWO]),
        "\n".join(json.dumps({"title": t, "abstract": a}) for t, a in TWO),
        "\n\n".join(json.dumps({"title": t, "abstract": a}) for t, a in TWO) + "\n",
        "\n".join(json.dumps({"title": t, "abstract": a}, indent=2) for t, a in TWO),
        "name,text\n" + "".join(f'{t},"{a}"\n' for t, a in TWO),
        "\n".join(f"@article{{k{i},\n  title = {{{t}}},\n  abstract = {{{a}}},\n}}" for i, (t, a) in enumerate(TWO)),
        "\n".join(f'@Article(k{i}, title = "{t}", ABSTRACT = "{a}")' for i, (t, a) in enumerate(TWO)),
        "\r\n".join(f"TY  - CONF\r\nTI  - {t}\r\nAB  - {a}\r\nER  - \r\n" for t, a in TWO),
        "\n".join(f"TY  - JOUR\nT1  - {t}\nN2  - {a}" for t, a in TWO),
        "\n\n".join(f"## {t}\n\n**Abstract:** {a}" for t, a in TWO),
    ],
)  # fmt: skip
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "gb18030"])
def test_the_same_two_papers_in_every_format(content, encoding):
    assert papers(content.removeprefix("\ufeff").encode(encoding)) == TWO
    assert papers(content) == TWO


# --- tables --------------------------------------------------------------------------------------------


def test_quoted_line_breaks_commas_and_doubled_quotes():
    content = 'title,abstract\n"A, B","We say ""A"",\nthen B."\nC,We study C.\n'
    assert papers(content) == [("A, B", 'We say "A",\nthen B.'), ("C", "We study C.")]
    collection = read_text(content, "x")
    assert [note.line for note in collection.report.placeholders] == [2, 4]  # where the rows begin


def test_a_cell_longer_than_the_module_allows_is_read_and_cut_with_a_remark():
    content = f'title,abstract,text\nA,"{A}",{"word " * 40_000}\n'  # 200,000 > 131,072
    collection = read_text(content, "x")
    assert collection.abstracts[0].text == A
    assert len(collection.abstracts[0].extra["text"]) == 20_000
    assert [(note.line, note.reason) for note in collection.report.cut] == [
        (2, "text cut from 200,000 to 20,000 characters")
    ]


def test_further_columns_are_kept_as_text():
    content = (
        f"title;Authors;abstract;Keywords;年份;primary area;URL;empty\nX;P, Q;{A};a, b;2025;RL;https://a.io;\n"
    )
    (abstract,) = read_text(content, "x")
    assert (abstract.authors, abstract.page) == ("P, Q", "https://a.io")
    assert dict(abstract.extra) == {"keywords": "a, b", "year": "2025", "primary area": "RL"}


def test_a_table_without_names():
    content = "".join(
        f'"{title}","{year}","{text}"\n' for title, year, text in (("Fast one", 1, A), ("Slow one", 2, B))
    )
    collection = read_text(content, "x")
    assert papers(content) == [("Fast one", A), ("Slow one", B)]
    assert collection.report.guessed_titles
    assert not collection.report.guessed_header
    assert any("column 3" in guess for guess in collection.report.guesses)
    assert papers(content, reading=Reading(titles=False)) == [("", A), ("", B)]
    assert read_text(content, "x", Reading(titles=False)).abstracts[0].extra == {
        "column 1": "Fast one",
        "column 2": "1",
    }
    assert papers(content, reading=Reading(header=True)) == [("Slow one", B)]


def test_unknown_names_are_a_guess_that_can_be_undone():
    content = f'"Heading","Body"\n"Fast one","{A}"\n"Slow one","{B}"\n'
    assert papers(content) == [("Fast one", A), ("Slow one", B)]
    assert read_text(content, "x").report.guessed_header
    undone = read_text(content, "x", Reading(header=False))
    assert [a.text for a in undone] == ["Body", A, B]
    assert not undone.report.guessed_header


def test_known_names_are_no_guess():
    assert not read_text(rows(","), "x").report.guessed_header
    assert len(read_text(rows(","), "x", Reading(header=False))) == 3


def test_guarded_formulas_lose_their_apostrophe():
    assert papers(f"title;abstract\n'=1+1;{A}\n'quoted' word;{B}\n") == [("=1+1", A), ("'quoted' word", B)]


def test_a_quotation_mark_that_is_never_closed_is_named():
    with pytest.raises(ValueError, match=r"list\.csv: .*quotation mark.*line 3"):
        read_text(f'title,abstract\nX,{A}\nY,"{B}\nZ,{A}\n', "list.csv")


def test_rows_without_abstract():
    collection = read_text(f"title,abstract,year\nX,{A},1\nOnly a title,,2\n,,3\n,\n", "x")
    assert [a.title for a in collection] == ["X", "Only a title"]
    assert collection.abstracts[1].is_placeholder
    assert [(note.line, note.reason) for note in collection.report.skipped] == [(4, "no abstract: '3'")]


def test_columns_of_one_name_and_cells_without_one():
    (abstract,) = read_text(f"abstract,tag,tag\n{A.replace(',', '')},a,b,c\n", "x")
    assert dict(abstract.extra) == {"tag": "a", "tag 2": "b", "column 4": "c"}


def test_more_cells_than_names_are_told():
    """Commas that nobody quoted: the rest of the abstract is not lost, and the report says where it is."""
    collection = read_text("title,abstract\nX,We study A, then B.\nY,We study C.\n", "x")
    assert collection.abstracts[0].extra == {"column 3": " then B."}
    assert "1 rows have more cells than there are names, the first in line 2" in collection.report.guesses[0]


def test_a_column_called_abstract_comes_before_one_called_summary():
    (abstract,) = read_text(f'summary,abstract\nshort,"{A}"\n', "x")
    assert (abstract.text, dict(abstract.extra)) == (A, {"summary": "short"})


@pytest.mark.parametrize(
    "content",
    [
        "First, we study A, then B.\nSecond, we study C, then D.",
        "We study a; b; c.\n\nWe study d; e; f.",
        "Abstract\n\nWe study A.",
        "The norm |x| is small.\n\nThe norm |y| is large.",
        "[12] We study A.\n\n[13] We study B.",
        "{\\em x} is studied.\n\n{\\em y} is not.",
        "@alice wrote this.\n\n@bob wrote that.",
        "TY is a tag.\n\nAB is another.",
    ],
)
def test_prose_is_no_other_format(content):
    assert {file.format for file in read_text(content, "x.csv").report.files} == {"text"}


# --- JSON ----------------------------------------------------------------------------------------------


def test_openreview_fields():
    note = {
        "id": "abc",
        "forum": "abc",
        "content": {
            "title": {"value": "X"},
            "abstract": {"value": A},
            "authors": {"value": ["P Q", "R S"]},
            "keywords": {"value": ["a", "b"]},
            "primary_area": {"value": "rl"},
            "venue": {"value": "ICML 2025 oral"},
        },
    }
    (abstract,) = read_text(json.dumps([note]), "x")
    assert (abstract.title, abstract.authors) == ("X", "P Q, R S")
    assert dict(abstract.extra) == {
        "keywords": "a; b", "primary_area": "rl", "venue": "ICML 2025 oral", "id": "abc", "forum": "abc",
    }  # fmt: skip


def test_values_of_every_kind_become_text():
    paper = {
        "abstract": A, "authors": [{"fullname": "P Q", "institution": "I"}, {"name": "R"}], "year": 2025, "score": 5.50,
        "oral": True, "nothing": None, "nested": {"a": [1]}, "big": 10**400,
    }  # fmt: skip
    (abstract,) = read_text(json.dumps(paper), "x")
    assert abstract.authors == "P Q, R"
    assert dict(abstract.extra) == {
        "year": "2025", "score": "5.5", "oral": "true", "nested": '{"a": ["1"]}', "big": "1" + "0" * 400,
    }  # fmt: skip


def test_a_list_of_texts_is_one_of_abstracts():
    assert papers(json.dumps([A, B])) == [("", A), ("", B)]


def test_null_is_skipped_and_an_empty_text_kept():
    content = json.dumps(
        [{"title": "X", "abstract": None}, {"title": "Y", "abstract": ""}, {"title": "Z", "abstract": A}]
    )
    collection = read_text(content, "x")
    assert [a.title for a in collection] == ["Y", "Z"]
    assert [note.reason for note in collection.report.skipped] == ["paper 1: no abstract: 'X'"]


def test_bad_lines_of_json_lines_are_told_with_their_numbers():
    lines = [json.dumps({"abstract": A}), "{broken", json.dumps({"abstract": B, "score": float("nan")}), "", "[1]"]
    collection = read_text("\n".join([*lines, '{"title": "no text"}', '{"abstract": "cut o']), "x")
    assert [a.text for a in collection] == [A, B]
    assert dict(collection.abstracts[1].extra) == {}  # NaN is nothing
    assert [note.line for note in collection.report.skipped] == [2, 5, 6, 7]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            json.dumps([{"abstract": A}, {"abstract": B}])[:-30],
            "JSON that breaks off at line 1|JSON that is broken",
        ),
        (json.dumps([{"abstract": A}], indent=1).replace(",", ""), ""),
        ('[{"abstract": "x" "title"}]', "line 1, column"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a":' * 100_000 + "1" + "}" * 100_000, "nested too deeply"),
        ('{"a": 1}', "without abstracts"),
        ("[[[[1]]]]", "no abstracts|without abstracts"),
        ("[]", "without abstracts"),
        ("[{}]", "without abstracts"),
    ],
)
def test_broken_json_is_named(content, words):
    if not words:
        return
    with pytest.raises(ValueError, match=rf"^list\.json: .*({words})"):
        read_text(content, "list.json")


# --- BibTeX --------------------------------------------------------------------------------------------

BIB = r"""
% a remark
@string{icml = "Int. Conf. on ML"}
@comment{nothing}
@inproceedings{smith25,
  title     = {The {T}itle of {LaTeX} \& Co},
  author    = {Smith, John and Ada Lovelace and {The Team}},
  abstract  = {We get {S}OTA at 5{\%} with \{x\} and $\{a\}$,
               on two lines, mail x@y.z, a = b, "quoted".},
  booktitle = icml # { 2025},
  year      = 2025,
}
@article{broken, title = {never closed,
  abstract = {x}

@article{next, title="Next", abstract="We go {"}on{"}."}
@misc{only, title={Only a title}}
@article{next, title={Same key}, abstract={We stay.}, title={Twice}}
"""


def test_bibtex():
    collection = read_text(BIB, "list.bin")
    first, second, third, fourth = collection.abstracts
    assert first.title == "The Title of LaTeX & Co"
    assert first.authors == "John Smith, Ada Lovelace, The Team"
    assert (
        first.text == r'We get {S}OTA at 5{\%} with \{x\} and $\{a\}$, on two lines, mail x@y.z, a = b, "quoted".'
    )
    assert first.plain.startswith("We get SOTA at 5% with {x} and (a), on")
    assert dict(first.extra) == {
        "booktitle": "Int. Conf. on ML 2025", "year": "2025", "citation key": "smith25", "entry type": "inproceedings",
    }  # fmt: skip
    assert (second.title, second.plain) == ("Next", 'We go "on".')
    assert (third.title, third.text, third.is_placeholder) == ("Only a title", "", True)
    assert (fourth.title, fourth.text) == ("Same key", "We stay.")
    assert [note.line for note in collection.report.skipped] == [13]  # of the broken one


# --- RIS -----------------------------------------------------------------------------------------------


def test_ris():
    content = (
        "TY  - CPAPER\r\nAU  - Smith, John\r\nAU  - Lovelace, Ada\r\nTI  - Fast\r\n  Bandits\r\n"
        "AB  - We study A\r\nand go on.\r\nKW  - a\r\nKW  - b\r\nPY  - 2025\r\nUR  - https://a.io\r\nER  -\r\n"
        "stray line\r\nTY  - JOUR\r\nTI  - Torn\r\nTY  - JOUR\r\nAB  - We study B.\r\n"
    )
    collection = read_text(content, "x")
    first = collection.abstracts[0]
    assert (first.title, first.authors, first.text) == (
        "Fast Bandits",
        "John Smith, Ada Lovelace",
        "We study A and go on.",
    )
    assert (first.page, first.extra["keywords"], first.extra["year"]) == ("https://a.io", "a; b", "2025")
    assert [(a.title, a.text) for a in collection.abstracts[1:]] == [("Torn", ""), ("We study B", "We study B.")]
    assert [note.line for note in collection.report.skipped] == [13]


# --- guesses that can be undone ------------------------------------------------------------------------


def test_header_of_plain_text_can_be_undone_and_forced():
    content = f"ICML papers\n\n{A}\n\n{B}"
    collection = read_text(content, "x")
    assert (collection.name, len(collection), collection.report.guessed_header) == ("ICML papers", 2, True)
    undone = read_text(content, "x", Reading(header=False, titles=False))
    assert [a.text for a in undone] == ["ICML papers", A, B]
    assert not undone.report.guessed_header
    forced = read_text(f"A sentence as header.\n\n{A}\n\n{B}", "x", Reading(header=True))
    assert (forced.name, len(forced)) == ("A sentence as header.", 2)


def test_a_heading_between_is_part_of_that_guess():
    content = f"{A * 3}\n\nOral papers\n\n{B * 3}\n\n{(A + B) * 2}"
    assert read_text(content, "x").report.guessed_header
    assert len(read_text(content, "x")) == 3
    assert len(read_text(content, "x", Reading(header=False))) == 4


@pytest.mark.parametrize("between", ["\n", "\n\n"])
def test_titles_of_plain_text_can_be_undone(between):
    content = f"Fast Bandits{between}{A}\n\nSlow Kernels{between}{B}"
    assert papers(content) == TWO
    assert read_text(content, "x").report.guessed_titles
    undone = read_text(content, "x", Reading(titles=False, header=False))
    assert all(a.title_is_derived for a in undone)
    assert not undone.report.guessed_titles
    assert len(undone) == (2 if between == "\n" else 4)


def test_joins_can_be_undone():
    content = "We study A. Our contributions are:\n\n1. a bound;\n\n2. an algorithm.\n\nWe study B. It works."
    (file,) = read_text(content, "x").report.files
    assert (file.joined, file.records) == (2, 2)
    undone = read_text(content, "x", Reading(join=False))
    assert (len(undone), undone.report.joined) == (4, ())
    labelled = f"## Fast\n**Abstract:** {A}\n\nAnd more.\n\n## Slow\n**Abstract:** {B}"
    assert len(read_text(labelled, "x")) == 2
    assert len(read_text(labelled, "x", Reading(join=False))) == 3


def test_report_tells_of_every_file():
    report = read_texts([(rows(","), "a.csv"), (f"ICML papers\n\n{A} More.\n\n{B} More.", "a.csv")]).report
    assert [(f.file, f.format, f.records, f.header) for f in report.files] == [
        ("a.csv", "table", 2, False),
        ("a (2).csv", "text", 2, True),
    ]


def test_markdown_fields_that_nobody_knows():
    content = f"## X\n- **Area:** rl\n- **Score:** 5\n\n**Abstract:** {A}\n**Results:** good."
    (abstract,) = read_text(content, "x")
    assert dict(abstract.extra) == {"Area": "rl", "Score": "5"}
    assert abstract.text == f"{A} **Results:** good."
