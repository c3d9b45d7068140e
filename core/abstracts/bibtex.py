"""BibTeX: entries by the library `bibtexparser`, their values and names of people by rules of our own."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator

import bibtexparser
from bibtexparser.model import (
    Block,
    DuplicateBlockKeyBlock,
    DuplicateFieldKeyBlock,
    Entry,
    Field,
    ParsingFailedBlock,
    String,
)

from core.abstracts.fields import loaded_exact, record, set_exact
from core.abstracts.parsed_file import ParsedFile, Reading

logging.getLogger("bibtexparser").setLevel(logging.CRITICAL)  # what it reports stands in the report of the file

EXACT = "x-exact"
"""Field of our own exports: what cannot stand as BibTeX between braces, as JSON."""
OWN_KEY = re.compile(r"abstract-[0-9a-f]{10}(?:-\d+)?")
"""Citation keys that our exports make up."""
_BEGINS = re.compile(r"(?m)^[ \t\ufeff]*@[A-Za-z]+[ \t]*[{(]\s*(?:[^\s,{}()=]*[ \t]*,|[A-Za-z]+\s*=)")
_ONLY_BEFORE = re.compile(r"(?:\s*(?:%[^\n]*|@(?:comment|preamble)\b[^\n]*))*\s*", re.I)
_PIECE = re.compile(r"\s*(?:#\s*)?([^\s#{}\"]+)\s*")
_START = re.compile(r"(?m)^[ \t]*@\w+[ \t]*[{(]")
_CHUNK = 500_000  # characters
_AND = re.compile(r"\s+and\s+")
_PROTECTED = re.compile(r"\{((?:[^{}]|\{[^{}]*\})*)\}")


def is_bibtex(text: str, name: str) -> bool:
    """Whether entries begin lines of the text and nothing else does before them but remarks."""
    found = _BEGINS.search(text[:200_000])
    if not found:
        return False
    return bool(_ONLY_BEFORE.fullmatch(text[: found.start()])) or len(_BEGINS.findall(text[:200_000])) > 1


def read_bibtex(text: str, name: str, reading: Reading) -> ParsedFile:
    """The papers of a bibliography; an entry without an abstract is its title, a broken one is skipped and told."""
    parsed = ParsedFile([])
    strings: dict[str, str] = {}
    for chunk, before in _chunks(text.replace("\ufeff", "").replace("\r\n", "\n").replace("\r", "\n")):
        library = bibtexparser.parse_string(chunk, parse_stack=[])
        strings |= {block.key.lower(): block.value for block in library.blocks if isinstance(block, String)}
        for block in library.blocks:
            line = before + (block.start_line or 0) + 1
            entry = _entry(block)
            if entry is not None:
                _add(parsed, entry, strings, line)
            elif isinstance(block, ParsingFailedBlock):
                parsed.skip(line, "a broken entry", " ".join((block.raw or "")[:200].split()))
    return parsed


def _chunks(text: str) -> Iterator[tuple[str, int]]:
    """The text in parts of whole entries, each with the number of lines before it: the library needs much memory."""
    begins = lines = 0
    for found in _START.finditer(text):
        if found.start() - begins > _CHUNK:
            yield text[begins : found.start()], lines
            lines += text.count("\n", begins, found.start())
            begins = found.start()
    yield text[begins:], lines


def _entry(block: Block) -> Entry | None:
    """The entry of a block, that of one whose key or field stands there twice too."""
    if isinstance(block, Entry):
        return block
    if isinstance(block, DuplicateBlockKeyBlock | DuplicateFieldKeyBlock):
        inner = block.ignore_error_block
        return inner if isinstance(inner, Entry) else None
    return None


def _add(parsed: ParsedFile, entry: Entry, strings: dict[str, str], line: int) -> None:
    row: dict[str, str] = {}
    for field in entry.fields:
        row.setdefault(field.key, _value(field, strings))
    exact = loaded_exact(row.pop(EXACT, ""))
    row = {name: _unwrapped(value) for name, value in row.items()}
    raw = record(row, line)
    raw.authors = people(raw.authors)
    if not OWN_KEY.fullmatch(entry.key):
        raw.extra["citation key"] = entry.key
    if entry.entry_type.lower() != "misc":
        raw.extra["entry type"] = entry.entry_type
    set_exact(raw, exact)
    if raw.text.strip() or raw.title.strip():
        parsed.records.append(raw)
    else:
        parsed.skip(line, "neither abstract nor title", entry.key)


def _unwrapped(value: str) -> str:
    """A value that was broken into lines in one, paragraphs kept."""
    if "\n" not in value:
        return value
    return "\n\n".join(" ".join(part.split()) for part in re.split(r"\n\s*\n", value.strip()))


def _value(field: Field, strings: dict[str, str]) -> str:
    """A value without its braces or quotation marks, parts joined by `#`, names of strings replaced."""
    rest, out = str(field.value).strip(), []
    while rest:
        end = _closing(rest)
        if end:
            out.append(rest[1 : end - 1])
            rest = rest[end:].lstrip().removeprefix("#").lstrip()
            continue
        found = _PIECE.match(rest)
        if not found:
            return "".join(out) + rest
        word = found[1]
        string = strings.get(word.lower())
        out.append(word if string is None else string.strip().strip('{}"'))
        rest = rest[found.end() :].removeprefix("#").lstrip()
    return "".join(out)


_MARK = re.compile(r"\\.|[{}\"]", re.S)


def _closing(value: str) -> int:
    """Behind the brace or quotation mark that closes the one at the beginning; 0 if there is none."""
    if value[:1] not in ("{", '"'):
        return 0
    depth = 0
    for found in _MARK.finditer(value, 1):
        sign = found[0]
        if sign == "{":
            depth += 1
        elif sign == "}":
            depth -= 1
        if (value[0] == "{" and depth < 0) or (value[0] == '"' and sign == '"' and depth == 0):
            return found.end()
    return 0


def people(names: str) -> str:
    """BibTeX's `Last, First and First Last` as `First Last, First Last`; any other text as it is."""
    if not names.strip():
        return ""
    found = []
    for name in _AND.split(names.strip()):
        parts = [part.strip() for part in name.split(",")]
        whole = " ".join(filter(None, [*parts[1:][::-1], parts[0]])) if len(parts) in (2, 3) else name
        found.append(_PROTECTED.sub(r"\1", whole) if whole.startswith("{") and whole.endswith("}") else whole)
    return ", ".join(found)
