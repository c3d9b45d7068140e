"""RIS, as EndNote, Zotero and Web of Science write it. Own reader: it knows lines, and a torn record harms no other."""

from __future__ import annotations

import re

from core.abstracts.bibtex import people
from core.abstracts.fields import free_name
from core.abstracts.parsed_file import ParsedFile, RawRecord, Reading

_TAG = re.compile(r"([A-Z][A-Z0-9]) {1,2}- ?(.*)")
_BEGINS = re.compile(r"\s*TY {1,2}- ?\S")
_LINE_END = re.compile(r"\r\n|\r|\n")
_ROLES = {
    **dict.fromkeys(("AB", "N2"), "abstract"),
    **dict.fromkeys(("TI", "T1"), "title"),
    **dict.fromkeys(("AU", "A1"), "authors"),
    "UR": "page",
}
_EXTRA = {
    "KW": "keywords",
    "PY": "year",
    "Y1": "year",
    "DO": "doi",
    "ID": "citation key",
    "PB": "publisher",
    "TY": "entry type",
    "JO": "venue",
    "JF": "venue",
    "T2": "venue",
    "C3": "venue",
    "BT": "venue",
    "SN": "issn",
    "N1": "note",
    "VL": "volume",
    "IS": "number",
    "SP": "first page",
    "EP": "last page",
    "LA": "language",
    "DA": "date",
}


def is_ris(text: str, name: str) -> bool:
    """Whether the text begins with a record's type."""
    return bool(_BEGINS.match(text.removeprefix("\ufeff")))


def read_ris(text: str, name: str, reading: Reading) -> ParsedFile:
    """The papers of a RIS file; one without an abstract is its title."""
    parsed = ParsedFile([])
    fields: list[tuple[str, list[str]]] = []  # (tag, lines of its value) of the record in the making
    begins, inside = 1, False
    for number, line in enumerate(_LINE_END.split(text.removeprefix("\ufeff")), start=1):
        line = line.strip()
        found = _TAG.fullmatch(line)
        if found is None:
            if line and inside:
                fields[-1][1].append(line)
            elif line:
                parsed.skip(number, "outside of a record", line)
            continue
        tag = found[1]
        if tag in ("TY", "ER"):  # where the end of a record is missing, the next one ends it
            _finish(parsed, fields, begins)
            fields, begins = [], number
        inside = tag != "ER"
        if inside:
            fields.append((tag, [found[2].strip()]))
    _finish(parsed, fields, begins)
    return parsed


def _finish(parsed: ParsedFile, fields: list[tuple[str, list[str]]], line: int) -> None:
    """Add the record of these tags, if it says anything."""
    values: dict[str, list[str]] = {}
    for tag, lines in fields:
        if value := " ".join(filter(None, lines)):
            values.setdefault(tag, []).append(value)
    raw = RawRecord("", line)
    for tag, given in values.items():
        role = _ROLES.get(tag)
        if role == "abstract":
            raw.text = raw.text or "\n\n".join(given)
        elif role == "authors":
            raw.authors = ", ".join(filter(None, [raw.authors, *map(people, given)]))
        elif role:
            setattr(raw, role, getattr(raw, role) or "; ".join(given))
        else:
            name, text = _EXTRA.get(tag, tag), "; ".join(given)
            if raw.extra.get(name) != text:
                raw.extra[free_name(name, raw.extra)] = text
    if raw.text.strip() or raw.title.strip():
        parsed.records.append(raw)
    elif fields:
        parsed.skip(line, "neither abstract nor title", fields[0][1][0])
