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
_URL = re.compile(r"https?://\S+")


@dataclass(frozen=True)
class Abstract:
    """One abstract. `text` is as given, `plain` is for models, `display` is Markdown that is safe on a page.

    `number` is the 1-based position in the file `source`; `also_in` names the places of merged copies;
    `extra` holds further columns of the source (keywords, year, …).
    """

    id: str
    text: str
    plain: str
    display: str
    links: tuple[str, ...]
    title: str
    title_is_derived: bool
    source: str
    number: int
    authors: str = ""
    page: str = ""
    also_in: tuple[tuple[str, int], ...] = ()
    extra: Mapping[str, str] = field(default_factory=dict)

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
class Report:
    """What reading did: nothing is dropped, joined or guessed without standing here."""

    read: int
    joined: tuple[Note, ...] = ()
    duplicates: tuple[Note, ...] = ()
    placeholders: tuple[Note, ...] = ()
    skipped: tuple[Note, ...] = ()
    encodings: Mapping[str, str] = field(default_factory=dict)
    guesses: tuple[str, ...] = ()

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
    parsed = parse(text)
    plain = parsed.plain
    named = parse(title).plain
    return Abstract(
        id=content_id(text, f"{source}\n{number}\n{named}" if is_placeholder(plain) else ""),
        text=text,
        plain=plain,
        display=parsed.display,
        links=parsed.links,
        title=named or derived_title(plain),
        title_is_derived=not named,
        source=source,
        number=number,
        authors=authors,
        page=page,
        extra=dict(extra or {}),
    )


def content_id(text: str, place: str = "") -> str:
    """Ten hex digits that stay the same as long as the text does; `place` tells placeholders apart."""
    words = " ".join(unicodedata.normalize("NFC", text).casefold().split())
    return hashlib.sha256(f"{words}\n{place}".encode("utf-8", "replace")).hexdigest()[:10]


def is_placeholder(plain: str) -> bool:
    """Whether a plain text is no abstract: empty, `N/A` and the like, or under 100 characters."""
    return len(plain) < SHORT or bool(_NOTHING.match(plain[:200]))


def squeezed(plain: str) -> str:
    """Lower-case letters and digits only, without web addresses: equal for copies of one text."""
    text = unicodedata.normalize("NFKC", _URL.sub("", plain)).casefold()
    return "".join(filter(str.isalnum, text))


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
