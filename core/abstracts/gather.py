"""Parsed files to one collection: records with their ids, copies merged, and the report of it all."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from core.abstracts import limits
from core.abstracts.decode import decode, lines_of
from core.abstracts.duplicates import copies
from core.abstracts.markup import parse
from core.abstracts.parsed_file import ParsedFile, RawRecord, Reading
from core.abstracts.record import (
    Abstract,
    Collection,
    FileRead,
    Note,
    Report,
    is_placeholder,
    make_abstract,
    opening,
)
from core.abstracts.split import read_plain

DATA = Path(__file__).parents[2] / "data"


@dataclass
class FileParsed:
    """A file's records with its name, format and encoding; `problems` are remarks on files beside it in a zip."""

    name: str
    parsed: ParsedFile
    format: str
    encoding: str
    problems: list[Note] = field(default_factory=list)


def gathered(files: Sequence[FileParsed]) -> Collection:
    """The collection of some files. ValueError if there are none."""
    if not files:
        raise ValueError("no files to read")
    records: list[Abstract] = []
    lines: list[int] = []
    cut: list[Note] = []
    for file in files:
        for number, raw in enumerate(file.parsed.records, start=1):
            cut += (Note(file.name, raw.line, reason) for reason in _cut(raw))
            records.append(_record(raw, file.name, number))
            lines.append(raw.line)
        file.parsed.records = []  # the raw texts are not needed twice in memory
    numbers = Counter(record.source for record in records)
    abstracts, repeats = _merged(records)
    place = {(record.source, record.number): line for record, line in zip(records, lines, strict=True)}
    report = Report(
        read=len(records),
        joined=tuple(Note(file.name, *at) for file in files for at in file.parsed.joined),
        duplicates=tuple(
            Note(
                records[copy].source,
                lines[copy],
                f"same as {records[first].source} number {records[first].number}",
            )
            for copy, first in repeats.items()
        ),
        placeholders=tuple(
            Note(a.source, place[a.source, a.number], f"no abstract: {a.plain[:40]!r}")
            for a in abstracts
            if a.is_placeholder
        ),
        skipped=tuple(
            note
            for file in files
            for note in (*(Note(file.name, *at) for at in file.parsed.skipped), *file.problems)
        ),
        encodings={file.name: file.encoding for file in files},
        guesses=tuple(guess for file in files for guess in file.parsed.guesses),
        cut=tuple(cut),
        files=tuple(_file_read(file, numbers[file.name]) for file in files),
    )
    return Collection(name=_name(files), abstracts=abstracts, report=report)


def _name(files: Sequence[FileParsed]) -> str:
    names = dict.fromkeys(file.parsed.name for file in files if file.parsed.name)
    return " + ".join([*names][:3]) or " + ".join(Path(file.name).stem for file in files[:3])


def _file_read(file: FileParsed, records: int) -> FileRead:
    parsed = file.parsed
    return FileRead(
        file.name, file.format, file.encoding, records, parsed.header, parsed.titles, len(parsed.joined)
    )


def _cut(raw: RawRecord) -> list[str]:
    """Cut what is too long in a record; what was cut."""
    reasons = []
    most = limits.CHARACTERS
    for name, value in raw.fields():
        if len(value) <= most:
            continue
        reasons.append(f"{name} cut from {len(value):,} to {most:,} characters")
        if name in raw.extra:
            raw.extra[name] = value[:most]
        else:
            setattr(raw, "text" if name == "abstract" else name, value[:most])
    return reasons


def _record(raw: RawRecord, file: str, number: int) -> Abstract:
    record = make_abstract(
        raw.text,
        source=file,
        number=number,
        title=raw.title,
        authors=raw.authors,
        page=raw.page,
        extra=raw.extra,
    )
    known = _papers().get(opening(record.plain))
    if not known:
        return record
    titled = make_abstract(raw.text, title=raw.title or known["title"])
    return replace(
        record,
        title=titled.title,
        title_is_derived=titled.title_is_derived,
        given_title=titled.given_title,
        authors=record.authors or known["authors"],
        page=record.page or known["page"],
    )


def _merged(records: Sequence[Abstract]) -> tuple[tuple[Abstract, ...], dict[int, int]]:
    """The records with copies merged into the first of them, and the indices copy -> first of each merge."""
    comparable = ["" if _is_nothing(record) else record.plain for record in records]
    repeats = copies(comparable)
    others: dict[int, list[Abstract]] = {}
    for copy, first in repeats.items():
        others.setdefault(first, []).append(records[copy])
    taken: Counter[str] = Counter()
    distinct = []
    for index, record in enumerate(records):
        if index in repeats:
            continue
        if index in others:
            record = with_copies(record, others[index])
        taken[record.id] += 1
        distinct.append(record if taken[record.id] == 1 else replace(record, id=f"{record.id}-{taken[record.id]}"))
    return tuple(distinct), repeats


def with_copies(first: Abstract, others: Sequence[Abstract]) -> Abstract:
    """A record with what its copies know besides, and their places."""
    titled = next((record for record in (first, *others) if not record.title_is_derived), first)
    extra = {name: value for record in reversed((first, *others)) for name, value in record.extra.items()}
    return replace(
        first,
        title=titled.title,
        title_is_derived=titled.title_is_derived,
        given_title=titled.given_title,
        authors=next((record.authors for record in (first, *others) if record.authors), ""),
        page=next((record.page for record in (first, *others) if record.page), ""),
        also_in=tuple((record.source, record.number) for record in others),
        extra={**first.extra, **extra},
    )


def _is_nothing(record: Abstract) -> bool:
    """Two papers without an abstract are not the same paper."""
    return is_placeholder(record.plain + "x" * 100)


@lru_cache(maxsize=1)
def _papers() -> dict[str, dict[str, str]]:
    """What `data/papers.csv` knows about the built-in papers, by how their abstracts begin."""
    table = DATA / "papers.csv"
    if not table.exists():
        return {}
    with table.open(encoding="utf-8", newline="") as rows:
        papers = {(row["file"], int(row["number"])): row for row in csv.DictReader(rows)}
    known: dict[str, dict[str, str]] = {}
    for file in sorted({file for file, _ in papers}):
        if (DATA / file).exists():
            text, _, _ = decode((DATA / file).read_bytes(), file)
            parsed = read_plain(lines_of(text), Reading())
            for number, raw in enumerate(parsed.records, start=1):
                known[opening(parse(raw.text).plain)] = papers.get((file, number), {})
    return known
