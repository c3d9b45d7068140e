"""What a reader of one format hands over: raw records of one file and remarks about it."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from core.abstracts import limits

_SHOWN = 60  # characters of a skipped line that its remark shows


@dataclass(frozen=True)
class Reading:
    """How to read a list where its form leaves a choice; what is None is guessed and told in the report.

    `header`: the first line or row is a header (and lone lines between abstracts are headings);
    `titles`: a short line or column before each abstract is its title;
    `join`: short pieces, list items and the like go with the abstract before them.
    """

    header: bool | None = None
    titles: bool | None = None
    join: bool = True


@dataclass
class RawRecord:
    """One paper as it stands in a file; `line` is the 1-based line where it begins."""

    text: str
    line: int
    title: str = ""
    authors: str = ""
    page: str = ""
    extra: dict[str, str] = field(default_factory=dict)

    def fields(self) -> Iterator[tuple[str, str]]:
        """Every field as (name, value)."""
        yield from (("abstract", self.text), ("title", self.title), ("authors", self.authors), ("page", self.page))
        yield from self.extra.items()


@dataclass
class ParsedFile:
    """The records of a file in order; remarks are (line, reason); `header` and `titles` say what was read as such."""

    records: list[RawRecord]
    name: str = ""
    joined: list[tuple[int, str]] = field(default_factory=list)
    skipped: list[tuple[int, str]] = field(default_factory=list)
    guesses: list[str] = field(default_factory=list)
    header: bool = False
    titles: bool = False

    def skip(self, line: int, reason: str, shown: str = "") -> None:
        """Remark that a line was left out; ValueError once there are too many for a list of abstracts."""
        shown = f": {shown[:_SHOWN]!r}" if shown else ""
        self.skipped.append((line, reason + shown))
        if len(self.skipped) > limits.ABSTRACTS:
            raise ValueError(
                f"more than {limits.ABSTRACTS:,} lines that are no abstracts, the last: {reason}{shown}"
            )
