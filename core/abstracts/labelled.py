"""Lists that name their fields: `## Title`, `**Authors:** …`, `Abstract: …`, `摘要：…`."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from core.abstracts.parsed_file import KEYS, ParsedFile, RawRecord

_NAMES = "|".join(sorted(map(re.escape, KEYS), key=len, reverse=True))
_LABEL = re.compile(
    rf"\s*(?:[-*]\s+)?(?:\*\*|__|\*|_)?({_NAMES})(?:\*\*|__|\*|_)?\s*[:：](?:\*\*|__|\*|_)?\s*(.*)", re.I
)
_HEADING = re.compile(r"(#{1,6})\s+(.*?)[#\s]*$")
_NUMBER = re.compile(r"(?:\(?\d{1,4}[.)]|\[\d{1,4}\])\s+")


class _Block(Protocol):
    lines: list[str]
    line: int


def is_labelled(lines: Sequence[str]) -> bool:
    """Whether some line begins an abstract by name, or headings divide the list."""
    return any(_HEADING.match(line) or _key_of(line) == "abstract" for line in lines)


def _key_of(line: str) -> str:
    found = _LABEL.match(line)
    return KEYS[found[1].lower()] if found else ""


class _Reading:
    """The record in the making, and which of its fields the next line goes on with."""

    def __init__(self, parsed: ParsedFile, glue: Callable[[list[str]], str]):
        self.parsed, self.glue = parsed, glue
        self.fields: dict[str, list[list[str]]] = {}
        self.line, self.key = 0, "abstract"

    def begin(self, line: int, title: str = "") -> None:
        self.finish()
        self.line = line
        if title:
            self.fields["title"] = [[title]]

    def start(self, key: str, text: str, line: int) -> None:
        if key in self.fields or (key == "title" and self.fields):
            self.begin(line)
        self.line = self.line or line
        self.key = key
        self.fields[key] = [[text]]

    def go_on(self, text: str, line: int, new_paragraph: bool) -> None:
        if self.key != "abstract" and new_paragraph:
            self.key = "abstract"
        self.line = self.line or line
        paragraphs = self.fields.setdefault(self.key, [[]])
        if new_paragraph and paragraphs[-1]:
            paragraphs.append([])
            self.parsed.joined.append((line, "joined to the paper before"))
        paragraphs[-1].append(text)

    def finish(self) -> None:
        values = {key: "\n\n".join(map(self.glue, paragraphs)) for key, paragraphs in self.fields.items()}
        text = values.pop("abstract", "")
        if text:
            known = {key: values.pop(key, "") for key in ("title", "authors", "page")}
            self.parsed.records.append(RawRecord(text, self.line, **known, extra=values))
        elif values:
            self.parsed.skipped.append((self.line, f"no abstract: {next(iter(values.values()))!r}"))
        self.fields, self.line, self.key = {}, 0, "abstract"


def read_labelled(blocks: Iterable[_Block], parsed: ParsedFile, glue: Callable[[list[str]], str]) -> None:
    """Add the papers of a labelled list to `parsed`."""
    reading = _Reading(parsed, glue)
    unlabelled = not any(_key_of(line) for block in blocks for line in block.lines)
    for block in blocks:
        for offset, line in enumerate(block.lines):
            number = block.line + offset
            heading, label = _HEADING.match(line), _LABEL.match(_NUMBER.sub("", line))
            if heading and not _LABEL.match(heading[2]):
                reading.begin(number, _NUMBER.sub("", heading[2]).strip("*_ "))
                reading.key = "abstract"
            elif label or (heading and (label := _LABEL.match(heading[2]))):
                assert label is not None
                reading.start(KEYS[label[1].lower()], label[2], number)
            else:
                reading.go_on(line, number, new_paragraph=offset == 0 and not unlabelled)
    reading.finish()
