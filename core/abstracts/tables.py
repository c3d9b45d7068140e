"""CSV, TSV and their kin: delimiter, header and columns are recognised by content."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from statistics import median

from core.abstracts import limits
from core.abstracts.fields import is_known, record, role_of, roles
from core.abstracts.parsed_file import ParsedFile, Reading

csv.field_size_limit(limits.FILE_BYTES)  # the module's own limit of 131,072 is less than some supplements

DELIMITERS = ",;\t|"
GUARDED = "=+-@\t\r\n＝＋－＠"
"""Signs with which a spreadsheet begins a formula; a cell that starts so is written with an apostrophe before it."""
_GUARD = re.compile(f"'+[{re.escape(GUARDED)}]")
_SEP = re.compile(r"\ufeff?\"?sep=(.)\"?[ \t,;]*(?:\r\n|\n|\r)", re.I)
_RULE = re.compile(r"[\s:-]*")
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_LOOK = 50  # rows on which a file is judged
_HEAD = 200_000  # characters for the same

Row = tuple[int, list[str]]


def has_named_columns(text: str, name: str) -> bool:
    """Whether the text is a table whose first row names a column of abstracts."""
    return bool(_SEP.match(text)) or _named_delimiter(_head(text)) is not None


def is_table(text: str, name: str) -> bool:
    """Whether the text is a table by its regular rows."""
    return _delimiter(text) is not None


def read_table(text: str, name: str, reading: Reading) -> ParsedFile:
    """The papers of a table. ValueError names the line of a quotation mark that is never closed."""
    sep = _SEP.match(text)
    delimiter = sep[1] if sep else _delimiter(text) or ","
    body = text[sep.end() :] if sep else text.removeprefix("\ufeff")
    rows = [(line + bool(sep), row) for line, row in _rows(body, delimiter) if any(map(str.strip, row))]
    if delimiter == "|":  # as in Markdown: a rule below the names, spaces around the cells
        rows = [(line, [cell.strip() for cell in row]) for line, row in rows if not all(map(_RULE.fullmatch, row))]
    parsed = ParsedFile([])
    if not rows:
        return parsed
    known = _is_header(rows[0][1])
    header = reading.header if reading.header is not None else known or _differs(rows)
    if header and (known or len(rows) > 1):
        names, rows = rows[0][1], rows[1:]
        parsed.header = not known
    else:
        names = []
    _add(parsed, _column_names(names, rows), rows, reading, len(names))
    return parsed


def _lines(text: str) -> Iterator[str]:
    """The lines with their ends, without a copy of the whole text."""
    return (found[0] for found in _LINE.finditer(text))


def _rows(text: str, delimiter: str) -> Iterator[Row]:
    """The rows with the line where each begins; cells without the apostrophe that guards formulas."""
    reader = csv.reader(_lines(text), delimiter=delimiter)
    begins = last = 1
    while True:
        try:
            row = next(reader)
        except StopIteration:
            break
        except csv.Error as error:
            raise ValueError(f"line {begins}: not a row of a table ({error})") from error
        yield begins, [cell[1:] if _GUARD.match(cell) else cell for cell in row]
        begins, last = reader.line_num + 1, begins
    _check_quotes(text, delimiter, last)


def _check_quotes(text: str, delimiter: str, last: int) -> None:
    """ValueError if the last row ends inside quotation marks: an odd one makes all that follows one endless cell."""
    reader = csv.reader(islice(_lines(text), last - 1, None), delimiter=delimiter, strict=True)
    try:
        for _ in reader:
            pass
    except csv.Error as error:
        if "unexpected end" in str(error):
            raise ValueError(f"the quotation mark opened in the row at line {last} is never closed") from error


def _head(text: str) -> str:
    return text[:_HEAD].removeprefix("\ufeff").lstrip("\r\n")


def _delimiter(text: str) -> str | None:
    """The delimiter that makes a table of the text: by the names in its first row, else by equal rows."""
    head = _head(text)
    return _named_delimiter(head) or next((d for d in DELIMITERS if _is_regular(head, d)), None)


def _named_delimiter(head: str) -> str | None:
    best, most = None, 0
    for delimiter in DELIMITERS:
        first = _first_rows(head, delimiter, 1)[0] if head else []
        known = sum(map(is_known, first))
        if known > most and len(first) > 1 and any(role_of(cell) == "abstract" for cell in first):
            best, most = delimiter, known
    return best or ("," if _is_single_column(head) else None)


def _first_rows(head: str, delimiter: str, most: int) -> list[list[str]]:
    """Rows that are not empty from the head of a file; one empty row if there are none."""
    reader = csv.reader(_lines(head), delimiter=delimiter)
    try:
        rows = [row for row, _ in zip((row for row in reader if row), range(most), strict=False)]
    except csv.Error:
        rows = []
    return rows or [[]]


def _is_single_column(head: str) -> bool:
    """A lone column of quoted abstracts under its name."""
    lines = [line for line in re.split(r"[\r\n]+", head[:5000]) if line.strip()]
    return len(lines) > 1 and role_of(lines[0]) == "abstract" and len(lines[0]) < 40 and lines[1].startswith('"')


def _is_regular(head: str, delimiter: str) -> bool:
    """Whether all rows have equally many cells, two at least, one of them long, as prose would not by chance."""
    if head.count(delimiter) < 2:
        return False
    rows = _first_rows(head, delimiter, _LOOK)
    rows = rows[:-1] if len(head) == _HEAD and 1 < len(rows) < _LOOK else rows  # the last one may be cut
    width = len(rows[0])
    if len(rows) < 2 or width < 2 or any(len(row) != width for row in rows):
        return False
    if delimiter in ",;" and head.count(f'"{delimiter}') + head.count(f'{delimiter}"') < len(rows) - 1:
        return False
    if delimiter == "|" and len(rows) < 3:
        return False
    return any(median(len(row[at]) for row in rows) >= 100 for at in range(width))


def _is_header(row: Sequence[str]) -> bool:
    return any(role_of(cell) == "abstract" for cell in row)


def _differs(rows: Sequence[Row]) -> bool:
    """Whether the first row's cell is short where the abstracts of the others stand: names nobody knows."""
    if len(rows) < 2:
        return False
    column = _longest(rows[1:])
    typical = median(len(_cell(row, column)) for _, row in rows[1 : _LOOK + 1])
    first = rows[0][1]
    return 4 * len(_cell(first, column)) < typical and all(len(cell) <= 40 for cell in first)


def _cell(row: Sequence[str], column: int) -> str:
    return row[column] if column < len(row) else ""


def _longest(rows: Sequence[Row]) -> int:
    """The column whose cells are the longest."""
    width = max(len(row) for _, row in rows[:_LOOK])
    return max(range(width), key=lambda at: sum(len(_cell(row, at)) for _, row in rows[:_LOOK]))


def _column_names(names: Sequence[str], rows: Sequence[Row]) -> list[str]:
    """A name of its own for every column."""
    width = max([len(names), *(len(row) for _, row in rows)])
    found: list[str] = []
    taken: set[str] = set()
    for at in range(width):
        name = " ".join(_cell(names, at).split()) or f"column {at + 1}"
        number = 2
        free = name
        while free in taken:
            free, number = f"{name} {number}", number + 1
        taken.add(free)
        found.append(free)
    return found


def _add(parsed: ParsedFile, names: list[str], rows: Sequence[Row], reading: Reading, width: int) -> None:
    """Add the papers; `width` is how many columns the header names, 0 if there is none."""
    named = dict(roles(names))
    wide = [line for line, row in rows if width and len(row) > width and any(row[width:])]
    if wide:
        parsed.guesses.append(
            f"{len(wide):,} rows have more cells than there are names, the first in line {wide[0]}: "
            "is a text with the delimiter in it not quoted?"
        )
    if "abstract" not in named.values():
        abstract = names[_longest(rows)]
        named[abstract] = "abstract"
        parsed.guesses.append(f"the abstracts are in {abstract!r}, the longest column")
        title = _title_column(names, rows, set(named))
        if reading.titles is not False and "title" not in named.values() and title:
            named[title] = "title"
            parsed.titles = True
    for line, row in rows:
        raw = record(dict(zip(names, row, strict=False)), line, named)
        if raw.text.strip() or raw.title.strip():
            parsed.records.append(raw)
        else:
            parsed.skip(line, "no abstract", next(filter(str.strip, row), ""))


def _title_column(names: Sequence[str], rows: Sequence[Row], taken: set[str]) -> str:
    """The first column of short texts of several words that hardly repeat, or ""."""
    some = rows[:_LOOK]
    for at, name in enumerate(names):
        cells = [_cell(row, at) for _, row in some]
        words = median(len(cell.split()) for cell in cells)
        if name not in taken and 2 <= words <= 25 and 2 * len(set(cells)) > len(cells):
            return name
    return ""
