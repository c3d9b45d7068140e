"""Zips, limits and files that are no lists: a collection or one sentence that names the file, soon, and nothing else."""

import io
import json
import random
import time
import zipfile
import zlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.abstracts import export, limits, make_abstract, read_collection, read_text, read_texts

A = "We study A. " + "It has many words about bandits and more. " * 4
B = "We study B. " + "Kernels and graphs differ in every sentence. " * 4


def zipped(*files, compression=zipfile.ZIP_DEFLATED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        for name, content in files:
            archive.writestr(name, content)
    return out.getvalue()


# --- zips ----------------------------------------------------------------------------------------------


def test_a_zip_of_lists_in_several_formats():
    content = zipped(
        ("a/list.txt", A), ("__MACOSX/._x", b"\x00"), ("b.dat", json.dumps([{"abstract": B, "title": "Slow"}])),
        ("a/.DS_Store", b"\x00\x01"), ("folder/", b""),
    )  # fmt: skip
    collection = read_text(content, "all.zip")
    assert [(a.source, a.text) for a in collection] == [("all.zip/a/list.txt", A.strip()), ("all.zip/b.dat", B)]
    assert collection.report.skipped == ()
    assert [f.format for f in collection.report.files] == ["text", "JSON"]


def test_what_cannot_be_read_in_a_zip_is_told():
    content = zipped(
        ("list.txt", A), ("inner.zip", zipped(("x.txt", B))), ("pic.png", b"\x89PNG\r\n\x1a\n\x00"), ("empty.txt", b""),
        ("bad.json", b'[{"abstract": '),
    )  # fmt: skip
    collection = read_text(content, "all.zip")
    assert len(collection) == 1
    assert [note.file for note in collection.report.skipped] == [
        "all.zip/inner.zip", "all.zip/pic.png", "all.zip/empty.txt", "all.zip/bad.json",
    ]  # fmt: skip
    assert "zip in a zip" in collection.report.skipped[0].reason


def test_names_in_a_zip_are_shown_safely():
    names = [
        "../../etc/passwd",
        "C:\\x\\y.txt",
        "a\u202etxt.exe",
        "l\nine.txt",
        "x" * 500,
        "..",
        "same.txt",
        "SAME.txt",
    ]
    content = zipped(*((name, f"{A} {' '.join(f'w{n}x{k}' for k in range(50))}") for n, name in enumerate(names)))
    sources = [a.source for a in read_text(content, "z.zip")]
    assert len(set(sources)) == len(names)
    for source in sources:
        assert source.startswith("z.zip/")
        assert source.isprintable()
        assert ".." not in source.split("/")
        assert len(source) <= 130


def test_chinese_names_of_old_zips():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("XXXX.txt", A)
    content = out.getvalue().replace(b"XXXX", "论文".encode("gb18030"))
    assert read_text(content, "z.zip").abstracts[0].source == "z.zip/论文.txt"


def test_zip_bombs(monkeypatch):
    monkeypatch.setattr(limits, "FILE_BYTES", 100_000)
    monkeypatch.setattr(limits, "TOTAL_BYTES", 150_000)
    with pytest.raises(ValueError, match=r"bomb\.zip.*larger than 0 MB"):
        read_text(zipped(("a.txt", b"a" * 10_000_000)), "bomb.zip")
    with pytest.raises(ValueError, match=r"bomb\.zip: more than 0 MB when unpacked"):
        read_text(zipped(*((f"{n}.txt", (A + f"{n} ") * 300) for n in range(9))), "bomb.zip")
    with pytest.raises(ValueError, match=r"501 files; a zip may have up to 500"):
        read_text(zipped(*((f"{n}.txt", b"x") for n in range(501))), "bomb.zip")


def test_a_size_that_lies_is_not_believed(monkeypatch):
    monkeypatch.setattr(limits, "FILE_BYTES", 100_000)
    content = bytearray(zipped(("a.txt", b"a" * 1_000_000)))
    true, lie = (1_000_000).to_bytes(4, "little"), (10).to_bytes(4, "little")
    assert content.count(true) == 2
    with pytest.raises(ValueError, match=r"bomb\.zip"):
        read_text(bytes(content.replace(true, lie)), "bomb.zip")


def test_locked_damaged_and_oddly_packed_zips():
    locked = bytearray(zipped(("a.txt", A)))
    for mark, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        locked[locked.index(mark) + flags] |= 1
    with pytest.raises(ValueError, match=r"locked\.zip: .*password"):
        read_text(bytes(locked), "locked.zip")
    with pytest.raises(ValueError, match=r"odd\.zip: .*deflate"):
        read_text(zipped(("a.txt", A), compression=zipfile.ZIP_LZMA), "odd.zip")
    with pytest.raises(ValueError, match=r"cut\.zip: a damaged zip"):
        read_text(zipped(("a.txt", A))[:60], "cut.zip")
    with pytest.raises(ValueError, match=r"none\.zip: no list"):
        read_text(zipped(), "none.zip")
    noise = bytearray(zipped(("a.txt", random.Random(0).randbytes(3000).hex())))
    noise[200:300] = bytes(100)
    with pytest.raises(ValueError, match=r"noise\.zip: .*damaged"):
        read_text(bytes(noise), "noise.zip")


# --- files that are no lists ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.pdf", b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj", "a PDF; it may be text, Markdown, CSV"),
        ("a.txt", b"\x89PNG\r\n\x1a\n\x00\x00", "a picture"),
        ("a.xls", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "old Word or Excel"),
        ("a.xlsx", zipped(("[Content_Types].xml", "x"), ("xl/workbook.xml", "x")), "Excel workbook; save it as CSV"),
        ("a.docx", zipped(("[Content_Types].xml", "x"), ("word/document.xml", "x")), "Word document"),
        ("a.ods", zipped(("mimetype", "x"), ("content.xml", "x")), "OpenDocument"),
        ("a.gz", b"\x1f\x8b\x08" + zlib.compress(b"x"), "gzip"),
        ("a.html", b"<!DOCTYPE html><html><p>We study A.", "web page"),
        ("a.xml", b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "b">]><x>&a;</x>', "web page or XML"),
        ("a.rtf", b"{\\rtf1\\ansi We study A.}", "rich-text"),
        ("a.pkl", b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00", "not a text file"),
        ("a.csv", b"", "empty"),
        ("a.csv", b"\xef\xbb\xbf \r\n\t", "empty"),
        ("a.bib", b"@article{a, title = {never closed", "no abstracts found"),
        ("a.bib", b"@string{a = {b}}\n@article{x, year = 2000}", "no abstracts found"),
        ("a.ris", b"TY  - JOUR\nER  - ", "no abstracts found"),
        ("a.csv", b"title,abstract\n", "no abstracts found"),
    ],
)  # fmt: skip
def test_what_it_is_and_what_it_may_be(name, content, words):
    with pytest.raises(ValueError, match=words) as error:
        read_text(content, name)
    assert str(error.value).startswith(f"{name}: ")
    assert "\n" not in str(error.value)


def test_a_bad_file_among_good_ones_gives_nothing_half():
    with pytest.raises(ValueError, match=r"^bad\.pdf: "):
        read_texts([(A, "good.txt"), (b"%PDF-", "bad.pdf")])


# --- limits --------------------------------------------------------------------------------------------


def test_limits_name_file_value_and_bound(monkeypatch, tmp_path):
    monkeypatch.setattr(limits, "FILE_BYTES", 1_000_000)
    big = tmp_path / "big.txt"
    big.write_bytes(b"a" * 1_200_000)
    for read in (lambda: read_text(b"a" * 1_200_000, "big.txt"), lambda: read_collection(big)):
        with pytest.raises(ValueError, match=r"big\.txt: 1\.2 MB; a file may have up to 1 MB"):
            read()
    monkeypatch.setattr(limits, "TOTAL_BYTES", 1_500_000)
    with pytest.raises(ValueError, match=r"b\.txt: with it 1\.6 MB in all; .* up to 2 MB"):
        read_texts([("a" * 800_000, "a.txt"), ("b" * 800_000, "b.txt")])
    monkeypatch.setattr(limits, "LINES", 1000)
    with pytest.raises(ValueError, match=r"lines\.txt: 1,201 lines; a file may have up to 1,000"):
        read_text("x\n" * 1201, "lines.txt")
    monkeypatch.setattr(limits, "PARTS", 1000)
    with pytest.raises(ValueError, match=r"parts\.json: 2,000 .* up to 1,000"):
        read_text("[{" + "," * 1998, "parts.json")


@pytest.mark.parametrize("form", ["text", "json", "csv", "two"])
def test_number_of_abstracts(monkeypatch, form):
    monkeypatch.setattr(limits, "ABSTRACTS", 5)
    texts = [f"{A} {n}" for n in range(6)]
    content = {
        "text": "\n\n".join(texts),
        "json": json.dumps(texts),
        "csv": "\n".join(["title,abstract", *(f'x,"{text}"' for text in texts)]),
        "two": "",
    }
    files = (
        [("\n\n".join(texts[:3]), "y"), ("\n\n".join(texts[3:]), "x")] if form == "two" else [(content[form], "x")]
    )
    with pytest.raises(ValueError, match=r"^x: .*up to 5"):
        read_texts(files)


def test_long_abstracts_are_cut_and_told():
    collection = read_text('title,abstract\nX,"' + "word " * 5000 + '"\n', "x.csv")
    assert len(collection.abstracts[0].text) == limits.CHARACTERS
    assert [str(note.reason) for note in collection.report.cut] == ["abstract cut from 25,000 to 20,000 characters"]


# --- anything at all -----------------------------------------------------------------------------------

SECONDS = 4  # some tenths at most on a machine of one's own


def outcome(content, name="any.bin"):
    """Read, within the time: a collection, or one sentence about the file."""
    start, problem = time.process_time(), None
    try:
        collection = read_text(content, name)
    except ValueError as error:
        problem = str(error)
    assert time.process_time() - start < SECONDS
    if problem is None:
        assert len(collection) == len({a.id for a in collection}) > 0
    else:
        assert problem.startswith(name)
        assert "\n" not in problem
        assert len(problem) < 500


SAMPLE = [
    make_abstract(
        A, title="Fast {B}", authors="Ada, Bo", page="https://a.io", extra={"area": "rl", "citation key": "k"}
    ),
    make_abstract(B, title="Slow", extra={"year": "2025"}),
    make_abstract(f"We go.\n\n{A} And on.", title="Third"),
]
VALID = [
    *(write(SAMPLE).encode() for write in (export.to_csv, export.to_jsonl, export.to_bibtex, export.to_markdown)),
    json.dumps([{"content": {"abstract": {"value": A}}}, {"abstract": B}]).encode(),
    json.dumps({"papers": [{"abstract": A}, {"abstract": B}]}, indent=1).encode("utf-16"),
    f"TY  - JOUR\nTI  - x\nAB  - {A}\nER  - \nTY  - JOUR\nAB  - {B}\nER  - ".encode(),
    f"ICML\n\nTitle one\n\n{A}\n\nTitle two\n\n{B}".encode("gb18030"),
    zipped(("a.csv", export.to_csv(SAMPLE)), ("b.bib", export.to_bibtex(SAMPLE))),
]
PIECES = [
    b'"',
    b"{",
    b"}",
    b"[",
    b"]",
    b"\n",
    b"\r",
    b",",
    b"\x00",
    b"\xff",
    b"@a{",
    b"TY  - X\n",
    b"\\",
    b"$$",
    b"PK\x03\x04",
    b"##",
    b"\x80",
]


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.binary(max_size=400) | st.text(max_size=400).map(lambda t: t.encode("utf-8", "replace")))
def test_any_bytes(content):
    outcome(content)


@settings(max_examples=600, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(VALID),
    st.lists(
        st.tuples(st.floats(0, 1), st.integers(0, 30), st.sampled_from(PIECES) | st.binary(max_size=5)), max_size=5
    ),
)
def test_valid_files_with_faults(content, faults):
    for place, cut, piece in faults:
        at = int(place * len(content))
        content = content[:at] + piece + content[at + cut :]
    outcome(content)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(
        st.sampled_from(["abstract", "title", "content", "value", "papers", "data", "columns", "authors", "x", ""]), inner, max_size=4
    ),
    max_leaves=20,
))  # fmt: skip
def test_any_json(value):
    outcome(json.dumps(value).encode())


@pytest.mark.parametrize(
    "unit",
    [
        "a\n\n", "A b.\n\n", "a:\n\n", "- x\n\n", "$$\n\n", "\\[\n\n", "# ", "#", "## x\n", "## x #", "Abstract: x\n", "@a{", "@a{b,\n",
        "@a{b, abstract={x}}\n", "{", '"', '{"', '[{"', "[", '{"a":', ",", '"a","b"\n', "\t", "|", "|a", "TY  - X\n", "AB  - x\n",
        "**A:** x\n", "- - ", "= = ", "<", "<!-- exact {", "'=", "_ ", "* ", "1. ", "[1] ", "a b\n", "ab ", "\u3000", "。", "@string{a={b}}\n",
        "@a{b, c = x # ", "@comment{", "\r", "\x0c", "title,abstract\n", '\n"', "{\\em ", "(1) ", "**a:", "abstract ", "%\n", "{}\n", '{"a":1}\n',
    ],
)  # fmt: skip
def test_a_sign_repeated_is_read_in_linear_time(unit):
    for head in ("", "title,abstract\n", "@article{a,\n", "## x\n\n"):
        outcome(head + unit * (40_000 // len(unit)))
