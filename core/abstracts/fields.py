"""What lists call the fields of a paper, and records from rows of named fields."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from core.abstracts.parsed_file import RawRecord

KEYS: Mapping[str, str] = {
    **dict.fromkeys(("title", "paper title", "标题", "题目", "论文标题"), "title"),
    **dict.fromkeys(("author", "authors", "作者"), "authors"),
    **dict.fromkeys(("abstract", "summary", "abs", "摘要"), "abstract"),
    **dict.fromkeys(("keyword", "keywords", "key words", "index terms", "关键词", "关键字"), "keywords"),
    **dict.fromkeys(("url", "link", "page", "链接"), "page"),
    **dict.fromkeys(("year", "年份"), "year"),
    **dict.fromkeys(("venue", "conference", "会议"), "venue"),
}
"""How lists of labelled lines call the fields of a paper, in lower case."""

_ROLES: Mapping[str, tuple[str, ...]] = {
    "abstract": ("abstract", "摘要", "abstract text", "paper abstract", "abstract note", "summary", "abs"),
    "title": (
        "title",
        "标题",
        "题目",
        "论文标题",
        "paper title",
        "article title",
        "document title",
        "name",
        "论文题目",
    ),
    "authors": ("authors", "作者", "author", "author names", "authors names", "author full names", "author s"),
    "page": ("url", "链接", "link", "page", "paper url", "paper link", "html url", "网址"),
}
"""How tables and records call them, the surest name first."""
_EXTRA = {name: key for name, key in KEYS.items() if key not in _ROLES}
_NAMES = {name: role for role, names in _ROLES.items() for name in names}
_SEPARATORS = re.compile(r"[\W_]+")


@lru_cache(maxsize=4096)
def plain_name(name: str) -> str:
    """A field's name for comparison: any case, width and separators."""
    return _SEPARATORS.sub(" ", unicodedata.normalize("NFKC", name)).strip().casefold()


def role_of(name: str) -> str:
    """abstract, title, authors or page, or "" for a further field."""
    return _NAMES.get(plain_name(name), "")


def is_known(name: str) -> bool:
    """Whether lists commonly have a field of this name."""
    return plain_name(name) in _NAMES or plain_name(name) in _EXTRA


@lru_cache(maxsize=4096)
def extra_name(name: str) -> str:
    """A further field's name as records keep it: as written, with single spaces; keywords, year, venue in one form."""
    return _EXTRA.get(plain_name(name)) or " ".join(name.split())


def roles(names: Iterable[str]) -> Mapping[str, str]:
    """Role of each field that has one (field name -> role); of several names for a role the surest counts."""
    return _roles(tuple(names))


@lru_cache(maxsize=1024)
def _roles(names: tuple[str, ...]) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for role, known in _ROLES.items():
        candidates = [name for name in names if plain_name(name) in known]
        if candidates:
            found[min(candidates, key=lambda name: known.index(plain_name(name)))] = role
    return found


def record(row: Mapping[str, str], line: int, roles_of: Mapping[str, str] | None = None) -> RawRecord:
    """The record of one row of named fields; fields without a role and not empty become `extra`."""
    named = roles(row) if roles_of is None else roles_of
    raw = RawRecord("", line)
    for name, value in row.items():
        role = named.get(name, "")
        if role == "abstract":
            raw.text = value
        elif role:
            setattr(raw, role, value)
        elif value:
            raw.extra[free_name(extra_name(name) or "column", raw.extra)] = value
    return raw


def free_name(name: str, taken: Mapping[str, object] | Sequence[str]) -> str:
    """The name, with a number behind it if it is taken."""
    if name not in taken:
        return name
    number = 2
    while f"{name} {number}" in taken:
        number += 1
    return f"{name} {number}"


EXACT = {"abstract": "text", "title": "title", "authors": "authors", "url": "page"}
"""Names of fields in the JSON that our exports add where a format cannot hold a field, and in records."""


def loaded_exact(text: str) -> dict[str, object]:
    """The fields that an export wrote as JSON; empty if it is none."""
    try:
        found = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def set_exact(raw: RawRecord, exact: Mapping[str, object]) -> None:
    """Set fields of a record as an export wrote them."""
    for name, attribute in EXACT.items():
        value = exact.get(name)
        if isinstance(value, str):
            setattr(raw, attribute, value)
    extra = exact.get("extra")
    if isinstance(extra, dict):
        raw.extra = {str(name): value for name, value in extra.items() if isinstance(value, str)}
