"""Abstract files to a collection: bytes are unpacked and decoded, read by their format, and collected."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from core.abstracts import limits
from core.abstracts.archives import entries, is_zip, safe_name
from core.abstracts.decode import decode
from core.abstracts.formats import WANTED, check_magic, parsed_text
from core.abstracts.gather import DATA, FileParsed, gathered
from core.abstracts.parsed_file import ParsedFile, Reading
from core.abstracts.record import Collection, Note

__all__ = ["DATA", "Reading", "read_collection", "read_text", "read_texts"]

AS_GUESSED = Reading()


def read_collection(*paths: str | Path, reading: Reading = AS_GUESSED) -> Collection:
    """Read abstract files, or the built-in ones in `data/` if none is named; a folder stands for its `*.txt`.

    ValueError names a file that is missing, empty, no list of abstracts or beyond the limits.
    """
    files = [file for path in paths or (DATA,) for file in _files(Path(path))]
    return _read(((_bytes(file), file.name) for file in files), reading)


def read_text(content: bytes | str, name: str, reading: Reading = AS_GUESSED) -> Collection:
    """Read one file that is already in memory; errors as in `read_collection`."""
    return _read([(content, name)], reading)


def read_texts(files: Iterable[tuple[bytes | str, str]], reading: Reading = AS_GUESSED) -> Collection:
    """Read several files that are already in memory as (content, name)."""
    return _read(files, reading)


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(path.glob("*.txt"))
    if not files:
        raise ValueError(f"{path}: no abstract files (*.txt) in this folder")
    return files


def _bytes(path: Path) -> bytes:
    try:
        limits.check_bytes(path.stat().st_size, str(path))
        return path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror or error})") from error


@dataclass
class _Budget:
    """What all files together may still hold."""

    name: str
    bytes: int = 0
    abstracts: int = 0

    def spend(self, size: int, abstracts: int = 0) -> None:
        self.bytes += size
        self.abstracts += abstracts
        if self.bytes > limits.TOTAL_BYTES:
            raise ValueError(
                f"{self.name}: with it {self.bytes / 1e6:,.1f} MB in all; "
                f"the files together may have up to {limits.TOTAL_BYTES / 1e6:,.0f} MB"
            )
        limits.check_count(self.abstracts, self.name)


def _read(files: Iterable[tuple[bytes | str, str]], reading: Reading) -> Collection:
    budget, taken = _Budget(""), dict[str, int]()
    found: list[FileParsed] = []
    for content, given in files:
        budget.name = name = _free(safe_name(given), taken)
        if isinstance(content, bytes) and is_zip(content):
            limits.check_bytes(len(content), name)
            found += _unpacked(content, name, reading, budget)
        else:
            found.append(_parsed(content, name, reading, budget))
    return gathered(found)


def _free(name: str, taken: dict[str, int]) -> str:
    """The name, with a number where two files have the same."""
    taken[name] = taken.get(name, 0) + 1
    if taken[name] == 1:
        return name
    path = Path(name)
    return _free(f"{path.stem} ({taken[name]}){path.suffix}", taken)


def _unpacked(content: bytes, name: str, reading: Reading, budget: _Budget) -> Iterator[FileParsed]:
    """The lists in a zip; entries that are none are remarked on at the first that is."""
    lists: list[FileParsed] = []
    problems: list[Note] = []
    taken: dict[str, int] = {}
    for entry in entries(content, name):
        shown = _free(entry.name, taken)
        try:
            if entry.problem:
                raise ValueError(f"{shown}: {entry.problem}")
            lists.append(_parsed(entry.content, shown, reading, budget))
        except ValueError as error:
            if budget.bytes > limits.TOTAL_BYTES or budget.abstracts > limits.ABSTRACTS:
                raise
            problems.append(Note(shown, 0, str(error).removeprefix(f"{shown}: ")))
    if not lists:
        why = f" ({problems[0].file}: {problems[0].reason})" if problems else ""
        raise ValueError(f"{name}: no list of abstracts in this zip{why}; {WANTED}")
    lists[0].problems.extend(problems)
    yield from lists


def _parsed(content: bytes | str, name: str, reading: Reading, budget: _Budget) -> FileParsed:
    """The records of one file, its format and its encoding."""
    size = len(content) if isinstance(content, bytes) else len(content.encode("utf-8", "replace"))
    limits.check_bytes(size, name)
    budget.spend(size)
    if isinstance(content, bytes):
        check_magic(content, name)
        text, encoding, remark = decode(content, name)
    else:
        text, encoding, remark = content, "text", ""
    if not text.strip().strip("\ufeff").strip():
        raise ValueError(f"{name}: the file is empty")
    limits.check_text(text, name)
    parsed, form = parsed_text(text, name, reading)
    if not parsed.records:
        raise ValueError(f"{name}: no abstracts found{_first_skipped(parsed)}")
    budget.spend(0, len(parsed.records))
    parsed.guesses = [*([remark] if remark else []), *(f"{name}: {guess}" for guess in parsed.guesses)]
    return FileParsed(name, parsed, form, encoding)


def _first_skipped(parsed: ParsedFile) -> str:
    if not parsed.skipped:
        return ""
    line, reason = parsed.skipped[0]
    return f" (line {line}: {reason})"
