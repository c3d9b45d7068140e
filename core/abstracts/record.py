"""What a collection of abstracts is: records, the report of how they were read, and look-up by id."""

import hashlib
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from core.abstracts.markup import parse

SHORT = 100  # characters; what is shorter is a placeholder ("N/A", "TBD") rather than an abstract
_NOTHING = re.compile(
    r"(?i)^\W*(?:n/?a|none|null|nan|tbd|tba|todo|(?:no )?abstract (?:not|un)\s?available\W*)?\W*$"
)
URL = re.compile(r"https?://\S+")
_NO_LETTERS = re.compile(r"[\W_]+")
_UNPRINTABLE = re.compile("[\x00-\x08\x0e-\x1f\x7f]+")
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Abstract:
    """One abstract. `text` is as given, `plain` is for models, `display` is Markdown that is safe on a page.

    `number` is the 1-based position in the file `source`; `also_in` names the places of merged copies;
    `extra` holds further columns of the source (keywords, year, …); `given_title` is the title with its
    mark-up, "" if there was none and `title` is derived from the text.
    """

    id: str
    text: str
    plain: str
    title: str
    title_is_derived: bool
    source: str
    number: int
    authors: str = ""
    page: str = ""
    also_in: tuple[tuple[str, int], ...] = ()
    extra: Mapping[str, str] = field(default_factory=dict)
    given_title: str = ""

    @cached_property
    def display(self) -> str:
        """Markdown that is safe on a page; made when it is first asked for."""
        return parse(self.text).display

    @cached_property
    def links(self) -> tuple[str, ...]:
        """The web addresses in the text, in order, each once."""
        return parse(self.text).links

    @property
    def is_placeholder(self) -> bool:
        """Too short to say anything: listed, but not for the map."""
        return is_placeholder(self.plain)


@dataclass(frozen=True)
class Note:
    """A remark about a place in a file: 1-based `line` and what was done there."""

    file: str
    line: int
    reason: str


@dataclass(frozen=True)
class FileRead:
    """How one file was read: its format, and which of the choices that `Reading` offers were made.

    `header`: a first line or lines between the abstracts were taken for headings; `titles`: short lines
    or a column were taken for titles, without being named so; `joined`: pieces joined to the one before.
    """

    file: str
    format: str
    encoding: str
    records: int
    header: bool = False
    titles: bool = False
    joined: int = 0


@dataclass(frozen=True)
class Report:
    """What reading did: nothing is dropped, cut, joined or guessed without standing here."""

    read: int
    joined: tuple[Note, ...] = ()
    duplicates: tuple[Note, ...] = ()
    placeholders: tuple[Note, ...] = ()
    skipped: tuple[Note, ...] = ()
    encodings: Mapping[str, str] = field(default_factory=dict)
    guesses: tuple[str, ...] = ()
    cut: tuple[Note, ...] = ()
    files: tuple[FileRead, ...] = ()

    @property
    def guessed_header(self) -> bool:
        """Whether some file has lines that were read as a header or headings rather than as abstracts."""
        return any(file.header for file in self.files)

    @property
    def guessed_titles(self) -> bool:
        """Whether some file has lines or a column that were read as titles without being named so."""
        return any(file.titles for file in self.files)

    def __str__(self) -> str:
        return (
            f"{self.read} read, {len(self.joined)} joined, {len(self.duplicates)} duplicates, "
            f"{len(self.placeholders)} too short, {len(self.skipped)} skipped"
        )


@dataclass(frozen=True)
class Collection:
    """Abstracts in reading order, under the name that their files give them."""

    name: str
    abstracts: tuple[Abstract, ...]
    report: Report

    @cached_property
    def _by_id(self) -> dict[str, Abstract]:
        return {abstract.id: abstract for abstract in self.abstracts}

    def __len__(self) -> int:
        return len(self.abstracts)

    def __iter__(self) -> Iterator[Abstract]:
        return iter(self.abstracts)

    def __contains__(self, key: object) -> bool:
        return key in self._by_id

    def __getitem__(self, key: str) -> Abstract:
        """The abstract with this id; KeyError if there is none."""
        return self._by_id[key]

    def get(self, key: str) -> Abstract | None:
        """The abstract with this id, or None."""
        return self._by_id.get(key)

    def opening_with(self, words: str) -> Abstract | None:
        """The first abstract whose plain text opens with these words, whatever their case and punctuation."""
        start = squeezed(words)
        return next((a for a in self.abstracts if start and squeezed(a.plain).startswith(start)), None)


def make_abstract(
    text: str,
    *,
    source: str = "",
    number: int = 1,
    title: str = "",
    authors: str = "",
    page: str = "",
    extra: Mapping[str, str] | None = None,
) -> Abstract:
    """The record of one abstract text; without a title, one is derived from the first sentence."""
    text, title = printable(text), printable(title)
    plain = parse(text).plain
    if plain == text:
        plain = text  # one string in memory, not two
    named = parse(title).plain
    return Abstract(
        id=content_id(text, f"{source}\n{number}\n{named}" if is_placeholder(plain) else ""),
        text=text,
        plain=plain,
        title=named or derived_title(plain),
        title_is_derived=not named,
        source=source,
        number=number,
        authors=printable(authors),
        page=printable(page),
        extra={name: text for name, value in (extra or {}).items() if (text := printable(value))},
        given_title=title if named else "",
    )


def printable(text: str) -> str:
    """The text without control characters and halves of characters, which no file could hold."""
    if text.isprintable():
        return text
    return _SURROGATE.sub("\ufffd", _UNPRINTABLE.sub("", text))


def content_id(text: str, place: str = "") -> str:
    """Ten hex digits that stay the same as long as the text does; `place` tells placeholders apart."""
    words = " ".join(unicodedata.normalize("NFC", text).casefold().split())
    return hashlib.sha256(f"{words}\n{place}".encode("utf-8", "replace")).hexdigest()[:10]


def is_placeholder(plain: str) -> bool:
    """Whether a plain text is no abstract: empty, `N/A` and the like, or under 100 characters."""
    return len(plain) < SHORT or bool(_NOTHING.match(plain[:200]))


def squeezed(plain: str) -> str:
    """Lower-case letters and digits only, without web addresses: equal for copies of one text."""
    return _NO_LETTERS.sub("", unicodedata.normalize("NFKC", URL.sub("", plain)).casefold())


def opening(plain: str) -> str:
    """Key that recognises a paper in another list by how its abstract begins; empty if too short to tell."""
    key = squeezed(plain[:400])[:100]
    return key if len(key) >= 60 else ""


def derived_title(plain: str, most: int = 90) -> str:
    """The first sentence, cut at a word to at most `most` characters."""
    sentence = re.split(r"(?<=[.!?。！？])\s", plain[: 4 * most], maxsplit=1)[0].rstrip(".。 ")
    if len(sentence) > most:
        head = sentence[:most]
        sentence = (head.rsplit(" ", 1)[0] if " " in head else head).rstrip(",;:- ") + "…"
    return sentence or "Untitled"
