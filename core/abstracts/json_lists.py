"""JSON and JSON Lines: lists of papers in the shapes that conferences and data sets use."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from core.abstracts.fields import extra_name, free_name, roles
from core.abstracts.parsed_file import ParsedFile, RawRecord, Reading

_BEGINS = re.compile(r"\ufeff?\s*(?:\{\s*[\"}]|\[\s*(?:\[\s*[\[{\"\]]|[{\"\]]))")
_LINE_END = re.compile(r"\r\n|\r|\n")
_WORDS_IN_VALUE = ("value", "name", "fullname", "full_name", "text", "label", "title")
_BETWEEN = " \t\r\n,"
_DEEP = "nested too deeply"


def is_json(text: str, name: str) -> bool:
    """Whether the text begins as JSON does."""
    return bool(_BEGINS.match(text))


def read_json(text: str, name: str, reading: Reading) -> ParsedFile:
    """The papers of a JSON or JSON Lines file; bad lines of the latter are skipped and told.

    ValueError names the line of a syntax error, or says what a list of papers may look like.
    """
    parsed = ParsedFile([])
    text = text.removeprefix("\ufeff")
    lines = _LINE_END.split(text)
    filled = [line for line in lines if line.strip()]
    if len(filled) > 1 and text.lstrip()[0] == "{" and sum(map(_is_object_line, filled)) * 2 >= len(filled):
        _read_lines(lines, parsed)
        return parsed
    value = _loaded(text)
    papers = list(_papers(value))
    if not papers:
        raise ValueError(
            'JSON without abstracts; it may be a list of {"title": …, "abstract": …}, or an object of such'
        )
    for number, paper in enumerate(papers, start=1):
        _add(parsed, paper, number, f"paper {number}")
    return parsed


def _is_object_line(line: str) -> bool:
    return line.lstrip()[:1] == "{" and line.rstrip().rstrip(",")[-1:] == "}"


def _missing(constant: str) -> str | None:
    """NaN, as pandas writes what is not there; infinite numbers stay as they are written."""
    return None if constant == "NaN" else constant


def _decoded(text: str) -> Any:
    """The value with numbers as they are written. ValueError if it is no JSON, RecursionError if it is too deep."""
    return json.loads(text, parse_int=str, parse_float=str, parse_constant=_missing)


def _loaded(text: str) -> Any:
    """The value of a file; of several values one after another, the list of them."""
    try:
        return _decoded(text)
    except RecursionError:
        raise ValueError(f"JSON that is {_DEEP}") from None
    except json.JSONDecodeError as error:
        values = _one_after_another(text) if error.msg == "Extra data" else []
        if values:
            return values
        ends = not text[error.pos :].strip()
        what = "breaks off" if ends else "is broken"
        raise ValueError(f"JSON that {what} at line {error.lineno}, column {error.colno} ({error.msg})") from None


def _one_after_another(text: str) -> list[Any]:
    """The objects of a file that holds nothing else, as some programs write them; empty if it does."""
    decoder = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_missing)
    values, at = [], 0
    while at < len(text):
        if text[at] in _BETWEEN:
            at += 1
            continue
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return []
        if not isinstance(value, dict):
            return []
        values.append(value)
    return values


def _read_lines(lines: Sequence[str], parsed: ParsedFile) -> None:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            value = _decoded(line.strip().rstrip(","))
        except RecursionError:
            parsed.skip(number, f"JSON that is {_DEEP}", line)
            continue
        except ValueError as error:
            parsed.skip(number, f"no JSON ({getattr(error, 'msg', error)})", line)
            continue
        _add(parsed, value, number, "")


def _papers(value: Any) -> Iterator[Any]:
    """The papers in a value: a list, an object of lists or of papers, columns, or one paper."""
    if isinstance(value, list):
        if value and all(isinstance(item, list) for item in value):
            yield from _from_rows(value[0], value[1:])
        else:
            yield from (item for item in value if item not in ({}, [], "", None))
    elif isinstance(value, dict):
        columns, data = value.get("columns"), value.get("data")
        if isinstance(columns, list) and isinstance(data, list):
            yield from _from_rows(columns, data)
        elif _has_abstract(value):
            yield from _columns_or_paper(value)
        else:
            yield from _from_object(value)


def _from_rows(names: Any, rows: Sequence[Any]) -> Iterator[dict[str, Any]]:
    keys = [str(name) for name in names] if isinstance(names, list) else []
    yield from (dict(zip(keys, row, strict=False)) for row in rows if isinstance(row, list))


def _has_abstract(value: Any) -> bool:
    return isinstance(value, dict) and "abstract" in roles(_flat(value)).values()


def _columns_or_paper(value: dict[str, Any]) -> Iterator[Any]:
    """One paper, or pandas' columns: {"abstract": {"0": …, "1": …}} or {"abstract": […]}."""
    name = next(name for name, role in roles(_flat(value)).items() if role == "abstract")
    abstract = value.get(name)
    if isinstance(abstract, dict) and "value" not in abstract:
        columns = {name: column for name, column in value.items() if isinstance(column, dict)}
        yield from ({name: column.get(row) for name, column in columns.items()} for row in abstract)
    elif isinstance(abstract, list) and len(abstract) > 1:
        filled = {name: column for name, column in value.items() if isinstance(column, list)}
        yield from (
            {name: column[at] if at < len(column) else None for name, column in filled.items()}
            for at in range(len(abstract))
        )
    else:
        yield value


def _from_object(value: dict[str, Any]) -> Iterator[Any]:
    """{"papers": […]}, {"2024": […], "2025": […]} or {"id": {…}}."""
    lists = [item for item in value.values() if isinstance(item, list) and any(map(_has_abstract, item))]
    if lists:
        yield from (paper for papers in lists for paper in papers)
        return
    for key, item in value.items():
        if _has_abstract(item):
            yield item if "id" in item else {"id": key, **item}
        elif isinstance(item, dict) and any(_has_abstract(one) for one in item.values()):
            yield from _from_object(item)


def _add(parsed: ParsedFile, paper: Any, line: int, place: str) -> None:
    where = f"{place}: " if place else ""
    if isinstance(paper, str):
        parsed.records.append(RawRecord(paper, line))
        return
    if not isinstance(paper, dict):
        parsed.skip(line, f"{where}not an object", json.dumps(paper)[:80])
        return
    raw = _record(paper, line)
    if raw is None:
        flat = _flat(paper)
        title = next((_text(flat[name]) for name, role in roles(flat).items() if role == "title"), "")
        parsed.skip(line, f"{where}no abstract", title or ", ".join(list(flat)[:5]))
    else:
        parsed.records.append(raw)


def _record(paper: dict[str, Any], line: int) -> RawRecord | None:
    """The record of one object; None if it has no abstract."""
    flat = {name: value for name, value in _flat(paper).items() if value is not None}
    named = roles(flat)
    if "abstract" not in named.values():
        return None
    raw = RawRecord("", line)
    for name, value in flat.items():
        role = named.get(name)
        if role == "abstract":
            raw.text = _text(value)
        elif role == "authors":
            raw.authors = _text(value, ", ")
        elif role:
            setattr(raw, role, _text(value))
        elif text := _text(value):
            raw.extra[free_name(extra_name(name) or "column", raw.extra)] = text
    return raw if raw.text.strip() or raw.title.strip() else None


def _flat(paper: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a paper, those of `content` (OpenReview) among them, without `{"value": …}` around them."""
    content = paper.get("content")
    if not isinstance(content, dict) or "value" in content:
        content = {}
    fields: dict[str, Any] = {}
    for name, value in [*content.items(), *((k, v) for k, v in paper.items() if k != "content" or not content)]:
        fields.setdefault(name, value["value"] if isinstance(value, dict) and "value" in value else value)
    return fields


def _text(value: Any, separator: str = "; ") -> str:
    """A value as text: names of lists of people, words of lists of words, JSON for what is left."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return separator.join(filter(None, (_text(item) for item in value)))
    if isinstance(value, dict):
        name = next((value[key] for key in _WORDS_IN_VALUE if isinstance(value.get(key), str)), None)
        if name is not None:
            return name
    return json.dumps(value, ensure_ascii=False)
