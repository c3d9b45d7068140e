"""Reading plain-text lists: encodings, splitting, titles, labels, duplicates, junk, errors."""

import pytest

from core.abstracts import read_collection, read_text, read_texts

LIST = "ICML 2025 论文列表\n\nWe study A.\n\nWe study B."
LONG = "We study how the thing behaves when it is long enough to be a line of its own in a list of papers, "


def texts(content, name="list.txt"):
    return [abstract.text for abstract in read_text(content, name)]


def titles(content):
    return [abstract.title for abstract in read_text(content, "list.txt") if not abstract.title_is_derived]


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "gb18030", "gbk", "utf-16", "utf-16-le", "utf-16-be", "utf-32"]
)
def test_encodings_with_chinese_header(encoding):
    collection = read_text(LIST.encode(encoding), "list.txt")
    assert collection.name == "ICML 2025 论文列表"
    assert [abstract.text for abstract in collection] == ["We study A.", "We study B."]


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1", "utf-8"])
def test_western_letters_are_not_read_as_chinese(encoding):
    content = "We study Rényi naïve methods, Gödel and Erdós.\n\nThe café."
    collection = read_text(content.encode(encoding), "list.txt")
    assert [abstract.text for abstract in collection] == content.split("\n\n")
    assert bool(collection.report.guesses) == (encoding != "utf-8")


def test_bytes_of_no_known_encoding_still_give_text():
    collection = read_text(b"We study \x81\x8d caf\xe9.\n\nWe study B.", "list.txt")
    assert len(collection) == 2
    assert collection.report.guesses


@pytest.mark.parametrize(
    "content",
    [
        "We study A.\r\n\r\nWe study B.\r\n\nWe study C.\r\rWe study D.",
        "We study A.\u2028\u2028We study B.\x85\x85We study C.\x0c\x0cWe study D.",
        "We study A.\n \u00a0\u3000\nWe study B.\n\u200b\nWe study C.\n\t\n\nWe study D.",
        "We study A.\n-----\nWe study B.\n\n***\n\nWe study C.\n====\nWe study D.",
    ],
)
def test_line_ends_and_blank_lines(content):
    assert texts(content) == ["We study A.", "We study B.", "We study C.", "We study D."]


def test_no_header():
    collection = read_text("We study A. It works.\n\nWe study B.", "mine.txt")
    assert len(collection) == 2
    assert collection.name == "mine"


def test_one_line_is_an_abstract_not_a_header():
    assert texts("ICML 2025 papers") == ["ICML 2025 papers"]


def test_soft_wraps():
    assert texts("We study A\nand prove\nit works.\n\nWe study B.") == [
        "We study A and prove it works.",
        "We study B.",
    ]
    assert texts("We study multi-\nagent A.\n\n我们研究\n论文。") == ["We study multi-agent A.", "我们研究论文。"]


@pytest.mark.parametrize("header", ["", "ICML 2025 list\n\n"])
def test_one_abstract_per_line(header):
    lines = [f"{LONG}{LONG}{end}." for end in ("bandits matter", "kernels differ", "graphs grow")]
    assert texts(header + "\n".join(lines)) == lines


def test_blank_line_inside_an_abstract():
    content = "We study A. Our contributions are:\n\n1. a bound;\n\n2. an algorithm.\n\nWe study B. It works."
    collection = read_text(content, "list.txt")
    assert [a.text for a in collection] == [
        "We study A. Our contributions are:\n\n1. a bound;\n\n2. an algorithm.",
        "We study B. It works.",
    ]
    assert [note.line for note in collection.report.joined] == [3, 5]


def test_short_end_and_heading_between_long_abstracts():
    body = [" ".join(f"{word}{number}" for number in range(60)) + "." for word in ("apple", "pear", "plum")]
    content = (
        f"{body[0]}\n\nThe code of all this can be found on our page.\n\n{body[1]}\n\nOral papers\n\n{body[2]}"
    )
    collection = read_text(content, "list.txt")
    assert len(collection) == 3
    assert collection.abstracts[0].plain.endswith("on our page.")
    assert [note.line for note in collection.report.skipped] == [7]


@pytest.mark.parametrize("display", ["$$\n\nx\n\n$$", "\\[\n\nx\n\n\\]", "\\begin{align}\n\nx\n\n\\end{align}"])
def test_formulas_are_not_split(display):
    assert len(texts(f"We study {display} and more.\n\nWe study B.")) == 2


def test_words_in_lower_case_may_begin_an_abstract():
    assert (
        len(texts("µnit scaling works. It ends.\n\nk-means works. It ends.\n\n3D scenes work.\n\n2-SAT is easy."))
        == 4
    )
    assert len(texts("We study A, as in\n\nwhere x is large.\n\nWe study B.")) == 2


@pytest.mark.parametrize(
    "content",
    [
        "Fast Bandits\nWe study A. It works.",
        "Fast Bandits\n\nWe study A. It works.",
        "## Fast Bandits\nWe study A. It works.",
        "Title: Fast Bandits\nAbstract: We study A. It works.",
        "标题：Fast Bandits\n\n摘要：We study A. It works.",
        "**Title:** Fast Bandits\n\n**Abstract:** We study A. It works.",
    ],
)
def test_a_title_before_an_abstract(content):
    more = content.replace("Fast", "Slow").replace("A.", "B.")
    assert titles(content) == ["Fast Bandits"]
    assert titles(f"{content}\n\n{more}") == ["Fast Bandits", "Slow Bandits"]
    assert texts(f"{content}\n\n{more}") == ["We study A. It works.", "We study B. It works."]
    assert titles(f"ICML 2025 papers\n\n{content}\n\n{more}") == ["Fast Bandits", "Slow Bandits"]


@pytest.mark.parametrize(
    "marks", [("1. ", "2. "), ("[12] ", "[13] "), ("- ", "- "), ("(i) ", "(ii) "), ("• ", "• ")]
)
def test_numbered_lists(marks):
    assert texts(f"{marks[0]}We study A.\n\n{marks[1]}We study B.") == ["We study A.", "We study B."]


def test_labelled_fields():
    content = (
        "## 1. Fast Bandits\n**Authors:** X, Y\n**Abstract:** We study A.\n\n"
        "## Slow Bandits\n**Authors:** Z\n**Keywords:** a; b\n**URL:** https://a.io\n**Abstract:** We study\nB.\n\nAnd C.\n\n"
        "## No abstract here\n**Authors:** W"
    )
    collection = read_text(content, "list.txt")
    first, second = collection.abstracts
    assert (first.title, first.authors, first.text) == ("Fast Bandits", "X, Y", "We study A.")
    assert (second.title, second.text, second.page) == ("Slow Bandits", "We study B.\n\nAnd C.", "https://a.io")
    assert second.extra == {"keywords": "a; b"}
    assert [note.line for note in collection.report.skipped] == [14]


def test_labels_without_titles():
    assert texts("摘要：We study A.\n\n摘要：We study B.") == ["We study A.", "We study B."]


WORDS = " ".join(f"word{number}" for number in range(120)) + "."


@pytest.mark.parametrize(
    "copy",
    [WORDS, f"  {WORDS.upper()}", f"{WORDS} https://a.io/code", WORDS.replace("word60", "other"), f"**{WORDS}**"],
)
def test_copies_become_one_record(copy):
    collection = read_texts([(f"{WORDS}\n\nWe study B.", "a.txt"), (f"We study C.\n\n{copy}", "b.txt")])
    assert len(collection) == 3
    assert collection.abstracts[0].also_in == (("b.txt", 2),)
    assert collection.report.read == 4
    assert [(note.file, note.line) for note in collection.report.duplicates] == [("b.txt", 3)]


def test_a_copy_with_title_names_the_first():
    collection = read_texts([(f"{WORDS}", "a.txt"), (f"Title: Words\nAuthors: X\nAbstract: {WORDS}", "b.txt")])
    assert [(a.title, a.authors, a.source) for a in collection] == [("Words", "X", "a.txt")]


def test_different_papers_stay_apart():
    other = " ".join(f"term{number}" for number in range(120)) + "."
    assert len(texts(f"{WORDS}\n\n{other}\n\nWe study A.\n\nWe study B.")) == 4


@pytest.mark.parametrize("nothing", ["N/A", "TBD", "Abstract not available.", "-", "none", "To appear."])
def test_placeholders_are_kept_and_counted(nothing):
    collection = read_text(f"{WORDS}\n\n{nothing}\n\n{nothing}\n\n{WORDS[::-1]}", "list.txt")
    placeholders = [abstract for abstract in collection if abstract.is_placeholder]
    assert {abstract.plain for abstract in placeholders} == {nothing}
    assert len(collection.report.placeholders) == len(placeholders)
    assert len({abstract.id for abstract in collection}) == len(collection)


def test_files_that_cannot_be_read(tmp_path):
    for name, content in {
        "empty.txt": b"",
        "blank.txt": b" \n\r\n\xef\xbb\xbf",
        "image.txt": b"\x89PNG\r\n\x1a\n\x00\x00\x00",
    }.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=name):
            read_collection(tmp_path / name)
    with pytest.raises(ValueError, match=r"missing\.txt"):
        read_collection(tmp_path / "missing.txt")
    with pytest.raises(ValueError, match="no abstract files"):
        read_collection(_empty_folder(tmp_path))
    with pytest.raises(ValueError, match="no abstracts found"):
        read_text("## Only a heading", "list.md")


def _empty_folder(path):
    folder = path / "folder"
    folder.mkdir()
    return folder


def test_folder_and_files_give_the_same(tmp_path):
    (tmp_path / "b.txt").write_text("We study B.\n\nWe study C.", encoding="utf-8")
    (tmp_path / "a.txt").write_text(LIST, encoding="utf-8")
    folder = read_collection(tmp_path)
    assert [(a.source, a.number) for a in folder] == [("a.txt", 1), ("a.txt", 2), ("b.txt", 2)]
    assert folder.abstracts == read_collection(tmp_path / "a.txt", str(tmp_path / "b.txt")).abstracts
    assert str(folder.report) == "4 read, 0 joined, 1 duplicates, 3 too short, 0 skipped"


def test_a_lone_label_or_session_heading_makes_no_labelled_list():
    """One "Abstract:" and one heading among many papers: found in real lists, where it once swallowed the rest."""
    body = [f"We study {' '.join(f'w{n}x{k}' for k in range(60))}." for n in range(24)]
    content = "\n\n".join(["# Posters of Monday", *body[:12], f"Abstract: {body[12]}", *body[13:]])
    collection = read_text(content, "list.txt")
    assert [a.text for a in collection] == body
