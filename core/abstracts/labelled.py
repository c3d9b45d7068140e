"""Lists that name their fields: `## Title`, `**Authors:** …`, `Abstract: …`, `摘要：…`."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from core.abstracts import limits
from core.abstracts.fields import KEYS, extra_name, loaded_exact, set_exact
from core.abstracts.parsed_file import ParsedFile, RawRecord

_NAMES = "|".join(sorted(map(re.escape, KEYS), key=len, reverse=True))
_LABEL = re.compile(
    rf"\s*(?:[-*]\s+)?(?:\*\*|__|\*|_)?({_NAMES})(?:\*\*|__|\*|_)?\s*[:：](?:\*\*|__|\*|_)?\s*(.*)", re.I
)
_HEADING = re.compile(r"#{1,6}\s+(.*)$")
_OTHER = re.compile(r"\s*(?:[-*]\s+)?\*\*([^*:：]{1,60})[:：]\*\*\s*(.*)")  # a label that nobody knows
_A_LABEL, _A_HEADING = 10, 4  # blocks that one paper may take in a list with labels, and in one with headings
_EXACT = re.compile(r"\s*<!-- exact (\{.*\}) -->\s*")  # in our own exports, where Markdown cannot hold a field
_NUMBER = re.compile(r"(?:\(?\d{1,4}[.)]|\[\d{1,4}\])\s+")


class _Block(Protocol):
    lines: list[str]
    line: int


def is_labelled(blocks: Sequence[_Block]) -> bool:
    """Whether the list names its abstracts, or headings divide it: often enough for every paper to be marked.

    A lone "Abstract: …" or the heading of a session among many papers makes no labelled list.
    """
    lines = [line for block in blocks for line in block.lines]
    labels = sum(_key_of(line) == "abstract" for line in lines)
    headings = sum(bool(_HEADING.match(line)) for line in lines)
    return max(_A_LABEL * labels, _A_HEADING * headings) >= len(blocks) > 0


def label_free(text: str) -> str:
    """A text without the word "Abstract:" before it."""
    found = _LABEL.match(text)
    return found[2] if found and KEYS[found[1].lower()] == "abstract" and found[2] else text


def _key_of(line: str) -> str:
    found = _LABEL.match(line)
    return KEYS[found[1].lower()] if found else ""


class _Reading:
    """The record in the making, and which of its fields the next line goes on with."""

    def __init__(self, parsed: ParsedFile, glue: Callable[[list[str]], str], join: bool):
        self.parsed, self.glue, self.join = parsed, glue, join
        self.fields: dict[str, list[list[str]]] = {}
        self.exact: dict[str, object] = {}
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
        paragraphs = self.fields.setdefault(self.key, [[]])
        if new_paragraph and paragraphs[-1]:
            if not self.join:
                self.begin(line)
                paragraphs = self.fields.setdefault(self.key, [[]])
            else:
                paragraphs.append([])
                self.parsed.joined.append((line, "joined to the paper before"))
        self.line = self.line or line
        paragraphs[-1].append(text)

    def takes_other(self) -> bool:
        """Whether a label that nobody knows is a field: below a title and above the abstract."""
        return "title" in self.fields and "abstract" not in self.fields

    def finish(self) -> None:
        values = {key: "\n\n".join(map(self.glue, paragraphs)) for key, paragraphs in self.fields.items()}
        text = values.pop("abstract", "")
        known = {key: values.pop(key, "") for key in ("title", "authors", "page")}
        if text or self.exact:
            raw = RawRecord(text, self.line, **known, extra=values)
            set_exact(raw, self.exact)
            self.parsed.records.append(raw)
            limits.check_count(len(self.parsed.records), f"at line {self.line}")
        elif self.fields:
            self.parsed.skip(self.line, "no abstract", known["title"] or next(iter(values.values()), ""))
        self.fields, self.exact, self.line, self.key = {}, {}, 0, "abstract"


def read_labelled(
    blocks: Iterable[_Block], parsed: ParsedFile, glue: Callable[[list[str]], str], join: bool = True
) -> None:
    """Add the papers of a labelled list to `parsed`."""
    blocks = list(blocks)
    reading = _Reading(parsed, glue, join)
    unlabelled = not any(_key_of(line) for block in blocks for line in block.lines)
    for block in blocks:
        for offset, line in enumerate(block.lines):
            number = block.line + offset
            heading, label = _HEADING.match(line), _LABEL.match(_NUMBER.sub("", line))
            if heading and not _LABEL.match(heading[1]):
                reading.begin(number, _NUMBER.sub("", heading[1].rstrip("# \t")).strip("*_ "))
            elif label or (heading and (label := _LABEL.match(heading[1]))):
                assert label is not None
                reading.start(KEYS[label[1].lower()], label[2], number)
            elif (other := _OTHER.match(line)) and reading.takes_other():
                reading.start(extra_name(other[1]) or "field", other[2], number)
            elif (exact := _EXACT.fullmatch(line)) and (fields := loaded_exact(exact[1])):
                reading.exact = fields
            else:
                reading.go_on(line, number, new_paragraph=offset == 0 and not unlabelled)
    reading.finish()
