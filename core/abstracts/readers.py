"""Abstract files to a collection. A format is a pair of functions in `FORMATS`; plain text takes what is left."""

import csv
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from core.abstracts.decode import decode, lines_of
from core.abstracts.duplicates import copies
from core.abstracts.markup import parse
from core.abstracts.parsed_file import ParsedFile, RawRecord
from core.abstracts.record import Abstract, Collection, Note, Report, is_placeholder, make_abstract, opening
from core.abstracts.split import read_plain

DATA = Path(__file__).parents[2] / "data"

FORMATS: list[tuple[Callable[[str, str], bool], Callable[[str, str], ParsedFile]]] = []
"""(recognises, reads), both called with text and file name; the first that recognises a file reads it."""


def read_collection(*paths: str | Path) -> Collection:
    """Read abstract files, or the built-in ones in `data/` if none is named; a folder stands for its `*.txt`.

    ValueError names a file that is missing, empty or no text.
    """
    files = [file for path in paths or (DATA,) for file in _files(Path(path))]
    return _collected([(file.name, *_parsed(_bytes(file), file.name)) for file in files])


def read_text(content: bytes | str, name: str) -> Collection:
    """Read one file that is already in memory; errors as in `read_collection`."""
    return read_texts([(content, name)])


def read_texts(files: Iterable[tuple[bytes | str, str]]) -> Collection:
    """Read several files that are already in memory as (content, name)."""
    return _collected([(name, *_parsed(content, name)) for content, name in files])


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(path.glob("*.txt"))
    if not files:
        raise ValueError(f"{path}: no abstract files (*.txt) in this folder")
    return files


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror or error})") from error


def _parsed(content: bytes | str, name: str) -> tuple[ParsedFile, str]:
    """The records of one file and its encoding."""
    if isinstance(content, bytes):
        text, encoding, remark = decode(content, name)
    else:
        text, encoding, remark = content, "text", ""
    lines = lines_of(text)
    if not any(map(str.strip, lines)):
        raise ValueError(f"{name}: the file is empty")
    read = next((read for recognises, read in FORMATS if recognises(text, name)), None)
    parsed = read(text, name) if read else read_plain(lines)
    if not parsed.records:
        raise ValueError(f"{name}: no abstracts found")
    parsed.guesses = [*([remark] if remark else []), *parsed.guesses]
    return parsed, encoding


def _collected(files: Sequence[tuple[str, ParsedFile, str]]) -> Collection:
    if not files:
        raise ValueError("no files to read")
    records = [
        (_record(raw, file, number), raw.line)
        for file, parsed, _ in files
        for number, raw in enumerate(parsed.records, start=1)
    ]
    abstracts, duplicates = _merged([record for record, _ in records])
    lines = {(record.source, record.number): line for record, line in records}

    def note(record: Abstract, reason: str) -> Note:
        return Note(record.source, lines[record.source, record.number], reason)

    report = Report(
        read=len(records),
        joined=tuple(Note(file, *at) for file, parsed, _ in files for at in parsed.joined),
        duplicates=tuple(note(copy, f"same as {first.source} number {first.number}") for copy, first in duplicates),
        placeholders=tuple(note(a, f"no abstract: {a.plain[:40]!r}") for a in abstracts if a.is_placeholder),
        skipped=tuple(Note(file, *at) for file, parsed, _ in files for at in parsed.skipped),
        encodings={file: encoding for file, _, encoding in files},
        guesses=tuple(guess for _, parsed, _ in files for guess in parsed.guesses),
    )
    names = dict.fromkeys(parsed.name for _, parsed, _ in files if parsed.name)
    name = " + ".join(names) or " + ".join(Path(file).stem for file, _, _ in files[:3])
    return Collection(name=name, abstracts=abstracts, report=report)


def _record(raw: RawRecord, file: str, number: int) -> Abstract:
    known = _papers().get(opening(parse(raw.text).plain), {})
    return make_abstract(
        raw.text,
        source=file,
        number=number,
        title=raw.title or known.get("title", ""),
        authors=raw.authors or known.get("authors", ""),
        page=raw.page or known.get("page", ""),
        extra=raw.extra,
    )


def _merged(records: Sequence[Abstract]) -> tuple[tuple[Abstract, ...], list[tuple[Abstract, Abstract]]]:
    """The records with copies merged into the first of them, and (copy, first) of each merge."""
    comparable = ["" if _is_nothing(record) else record.plain for record in records]
    repeats = copies(comparable)
    merged = {index: record for index, record in enumerate(records) if index not in repeats}
    for copy, first in repeats.items():
        one, other = merged[first], records[copy]
        merged[first] = replace(
            one,
            title=other.title if one.title_is_derived else one.title,
            title_is_derived=one.title_is_derived and other.title_is_derived,
            authors=one.authors or other.authors,
            page=one.page or other.page,
            also_in=(*one.also_in, (other.source, other.number)),
            extra={**other.extra, **one.extra},
        )
    taken: Counter[str] = Counter()
    distinct = []
    for record in merged.values():
        taken[record.id] += 1
        distinct.append(record if taken[record.id] == 1 else replace(record, id=f"{record.id}-{taken[record.id]}"))
    return tuple(distinct), [(records[copy], records[first]) for copy, first in repeats.items()]


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
            parsed, _ = _parsed((DATA / file).read_bytes(), file)
            for number, raw in enumerate(parsed.records, start=1):
                known[opening(parse(raw.text).plain)] = papers.get((file, number), {})
    return known
