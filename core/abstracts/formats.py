"""Which format a file has, by its content. A format is a line in `FORMATS`; plain text takes what is left."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from core.abstracts.bibtex import is_bibtex, read_bibtex
from core.abstracts.decode import lines_of
from core.abstracts.json_lists import is_json, read_json
from core.abstracts.parsed_file import ParsedFile, Reading
from core.abstracts.ris import is_ris, read_ris
from core.abstracts.split import read_plain
from core.abstracts.tables import has_named_columns, is_table, read_table

WANTED = "it may be text, Markdown, CSV, JSON, JSONL, BibTeX, RIS, or a zip of such files"


class Format(NamedTuple):
    """A format: whether a text (given with the file's name) is one, and its papers."""

    name: str
    recognises: Callable[[str, str], bool]
    read: Callable[[str, str, Reading], ParsedFile]


def _read_text(text: str, name: str, reading: Reading) -> ParsedFile:
    return read_plain(lines_of(text), reading)


TEXT = Format("text", lambda text, name: True, _read_text)
FORMATS: list[Format] = [
    Format("JSON", is_json, read_json),
    Format("RIS", is_ris, read_ris),
    Format("table", has_named_columns, read_table),
    Format("BibTeX", is_bibtex, read_bibtex),
    Format("table", is_table, read_table),
    TEXT,
]
"""The first that recognises a text reads it."""

_MAGIC = {
    b"%PDF-": "a PDF",
    b"\x89PNG": "a picture",
    b"\xff\xd8\xff": "a picture",
    b"GIF8": "a picture",
    b"\xd0\xcf\x11\xe0": "an old Word or Excel file",
    b"\x1f\x8b": "a gzip archive; unpack it first",
    b"BZh": "a bzip2 archive; unpack it first",
    b"\xfd7zXZ": "an xz archive; unpack it first",
    b"7z\xbc\xaf": "a 7z archive; unpack it first",
    b"\x28\xb5\x2f\xfd": "a zstd archive; unpack it first",
    b"Rar!": "a rar archive; unpack it first",
    b"PAR1": "a Parquet file",
    b"SQLite format 3": "a database",
    b"{\\rtf": "a rich-text document; save it as plain text",
}
_WEB = re.compile(r"\s*(?:<!doctype|<html|<\?xml)\b", re.I)


def check_magic(content: bytes, name: str) -> None:
    """ValueError if the bytes begin as those of a file that is no list."""
    for magic, what in _MAGIC.items():
        if content.startswith(magic):
            raise ValueError(f"{name}: {what}; {WANTED}")


def parsed_text(text: str, name: str, reading: Reading) -> tuple[ParsedFile, str]:
    """The records of a text and its format's name. ValueError names the file, whatever was wrong."""
    if _WEB.match(text.removeprefix("\ufeff")):
        raise ValueError(f"{name}: a web page or XML; {WANTED}")
    found = next(each for each in FORMATS if each.recognises(text, name))
    try:
        return found.read(text, name, reading), found.name
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
    except RecursionError:
        raise ValueError(f"{name}: nested too deeply; {WANTED}") from None
