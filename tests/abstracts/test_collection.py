"""The 38 built-in abstracts, and records as such."""

import csv
import hashlib
import re
from pathlib import Path

import pytest

from core.abstracts import make_abstract, opening, parse, read_collection, read_text

DATA = Path(__file__).parents[2] / "data"
FILES = ("000_4501c98dc2863876.txt", "002_d982ebe23136f0af.txt")
DIGESTS = ["5303a1a75c9411a8", "3568d26d6f2ae2c4"]
ABSTRACTS = read_collection()
GIVEN = [
    (file, line) for file in FILES for line in (DATA / file).read_text(encoding="utf-8").split("\n")[2:] if line
]


def test_name_number_and_order():
    assert ABSTRACTS.name == "ICML 2025 论文列表"
    assert [(a.source, a.number) for a in ABSTRACTS] == [(file, n) for file in FILES for n in range(1, 20)]
    assert [(a.source, a.text) for a in ABSTRACTS] == GIVEN
    assert str(ABSTRACTS.report) == "38 read, 0 joined, 0 duplicates, 0 too short, 0 skipped"
    assert set(ABSTRACTS.report.encodings.values()) == {"utf-8"}
    assert ABSTRACTS.report.guesses == ()


def test_titles_come_from_the_table():
    with (DATA / "papers.csv").open(encoding="utf-8", newline="") as table:
        rows = {(row["file"], int(row["number"])): row for row in csv.DictReader(table)}
    for abstract in ABSTRACTS:
        row = rows[abstract.source, abstract.number]
        assert abstract.title == parse(row["title"]).plain
        assert not abstract.title_is_derived
        assert (abstract.authors, abstract.page) == (row["authors"], row["page"])


@pytest.mark.parametrize("abstract", ABSTRACTS, ids=lambda a: f"{a.source[:3]}-{a.number}")
def test_no_residue_of_markup(abstract):
    assert not re.search(r"[\\{}`]|\*\*|\*\w|\s\s|^\s|\s$", abstract.plain)
    assert not re.search(r"\$(?!8 trillion)", abstract.plain)
    words = re.findall(r"[a-z]{3,}", re.sub(r"\$[^$]*\$|\\[a-z]+|https?://\S+", " ", abstract.text))
    bare = re.sub(r"\W", "", abstract.plain).lower()
    assert [word for word in words if word not in bare] == []


@pytest.mark.parametrize("abstract", ABSTRACTS, ids=lambda a: f"{a.source[:3]}-{a.number}")
def test_display_shows_the_plain_words(abstract):
    """Outside formulas and links, the Markdown without its signs is the plain text."""
    shown = re.sub(r"\]\(<[^<>]*>\)|(?<!\\)\[", "", abstract.display)
    parts = [
        re.sub(r"\\(.)", r"\1", re.sub(r"(?<!\\)[*`\u2060]", "", part))
        for part in re.split(r"(?<!\\)\$[^$]*\$", shown)
    ]
    at = 0
    for part in parts:
        found = abstract.plain.find(part, at)
        assert found >= 0, part
        at = found + len(part)


@pytest.mark.parametrize(
    ("file", "number", "words"),
    [
        (0, 3, "Our method, µnit Scaling (µS), also"),
        (0, 4, "we propose Rényi Neural Processes (RNP)"),
        (0, 5, "propose Entropy-driven Digraph knowlEdge distillatioN (EDEN), which"),
        (0, 6, "savings of 35% or more due"),
        (0, 10, "a naïve collaboration protocol"),
        (0, 11, "achieves this by Extracting a reduced dataset for evaluation, Estimating"),
        (0, 13, "available at github.com/liuhuadai/OmniAudio. The project"),
        (1, 4, "approximately 6.50%↑ on CREMAD and 3.41%↑ on"),
        (1, 5, "available at https://github.com/Gabe-Thomp/ntk-dfl"),
        (1, 7, "with ImageNet256×256 , UCF101"),
        (1, 7, "almost 3× less compute"),
        (1, 9, "more than $8 trillion annually"),
        (1, 9, "high-resolution (<100m) coastal"),
        (1, 12, "adaptive adversaries – that is, adversaries"),
        (1, 12, "but not their i.i.d. nature"),
        (1, 16, "a network’s effective activation space—a structured"),
    ],
)
def test_words_of_the_abstracts(file, number, words):
    assert words in ABSTRACTS.abstracts[19 * file + number - 1].plain


def test_links():
    links = [link for abstract in ABSTRACTS for link in abstract.links]
    assert len(links) == 11  # counted in the files
    assert all(re.fullmatch(r"https://[\w./-]+\w", link) for link in links)
    assert ABSTRACTS.abstracts[12].links == (
        "https://github.com/liuhuadai/OmniAudio",
        "https://OmniAudio-360V2SA.github.io",
    )


def test_the_files_are_as_given():
    digests = [hashlib.sha256((DATA / file).read_bytes()).hexdigest()[:16] for file in FILES]
    assert digests == DIGESTS


def test_ids_depend_on_the_text_alone():
    assert len({abstract.id for abstract in ABSTRACTS}) == 38
    assert all(re.fullmatch(r"[0-9a-f]{10}", abstract.id) for abstract in ABSTRACTS)
    backwards = read_text("\n\n".join(a.text for a in reversed(ABSTRACTS.abstracts)), "mine.txt")
    assert [a.id for a in backwards] == [a.id for a in reversed(ABSTRACTS.abstracts)]


def test_a_paper_is_recognised_in_another_list():
    again = read_text(f"My list of 2026\n\n{ABSTRACTS.abstracts[3].text.replace('  ', ' ')}", "mine.txt").abstracts[
        0
    ]
    assert again.title == "Rényi Neural Processes"
    assert opening(again.plain) == opening(ABSTRACTS.abstracts[3].plain.upper())
    assert opening("Too short to tell.") == ""


def test_look_up():
    first = ABSTRACTS.abstracts[0]
    assert ABSTRACTS[first.id] is first
    assert first.id in ABSTRACTS
    assert ABSTRACTS.get("nothing") is None
    with pytest.raises(KeyError):
        ABSTRACTS["nothing"]
    assert ABSTRACTS.opening_with("the multi-agent LINEAR bandit setting") is first
    assert ABSTRACTS.opening_with("") is None
    assert len(ABSTRACTS) == len(list(ABSTRACTS)) == 38


def test_derived_titles():
    abstract = make_abstract("We study **A**. It works well.")
    assert (abstract.title, abstract.title_is_derived) == ("We study A", True)
    long = make_abstract("word " * 100)
    assert long.title.endswith("word…")
    assert len(long.title) <= 91
    assert make_abstract("").title == "Untitled"
    assert not make_abstract("Text.", title="Given $x^2$").title_is_derived
