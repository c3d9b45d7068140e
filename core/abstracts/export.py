"""Abstracts as text in common formats, each of which reads back to the same papers.

What a format cannot hold as it is (an odd brace in BibTeX, a line break in Markdown) stands there in a
tame form for people, and exactly as JSON in a field or remark beside it for `read_text`.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence

from core.abstracts.bibtex import EXACT, OWN_KEY, people
from core.abstracts.decode import lines_of
from core.abstracts.fields import extra_name, free_name, role_of
from core.abstracts.markup import parse
from core.abstracts.parsed_file import Reading
from core.abstracts.record import Abstract
from core.abstracts.split import read_plain
from core.abstracts.tables import GUARDED

_FORMULA = re.compile(f"'*[{re.escape(GUARDED)}]")
_SIMPLE_NAME = re.compile(r"[a-z][a-z0-9_-]{0,40}")
_KEY = re.compile(r"[A-Za-z0-9_:.+/-]{1,80}")
_TYPES = frozenset(
    [
        "article",
        "book",
        "booklet",
        "conference",
        "inbook",
        "incollection",
        "inproceedings",
        "manual",
        "mastersthesis",
        "misc",
        "online",
        "phdthesis",
        "proceedings",
        "report",
        "software",
        "techreport",
        "thesis",
        "unpublished",
        "dataset",
    ]
)
_BRACE = re.compile(r"\\.|[{}]", re.S)
_BLOCK_START = re.compile(r"@\w*[ \t]*[{(]")
_TEX_SIGN = re.compile(r"[&%#_$]")
_TAME = re.compile(r"[{}\\@\s\x85\u2028\u2029\ufeff]+")
_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_LINE_START = re.compile(r"\n\s*[@#|<*_-]")
_COLON = re.compile("[:：](?!//)")  # would make a field of the words before it
_AS_GIVEN = Reading(header=False)


def _row(abstract: Abstract) -> dict[str, str]:
    """The fields of an abstract under the names that every reader knows; a derived title is none."""
    row = {
        "title": abstract.given_title,
        "authors": abstract.authors,
        "abstract": abstract.text,
        "url": abstract.page,
    }
    for name, value in abstract.extra.items():
        row[free_name(name, row)] = value
    return row


# --- tables and JSON Lines -----------------------------------------------------------------------------


def to_csv(abstracts: Sequence[Abstract]) -> str:
    """A table with a column for each field that occurs; no cell is a formula to a spreadsheet.

    It begins with a byte order mark, without which Excel misreads all but English letters.
    """
    rows = [_row(abstract) for abstract in abstracts]
    names = list(dict.fromkeys(["title", "authors", "abstract", "url", *(name for row in rows for name in row)]))
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    writer.writerow(map(_guarded, names))
    writer.writerows([_guarded(row.get(name, "")) for name in names] for row in rows)
    return "\ufeff" + out.getvalue()


def _guarded(cell: str) -> str:
    """The cell with an apostrophe before what a spreadsheet would compute."""
    return f"'{cell}" if _FORMULA.match(cell) else cell


def to_jsonl(abstracts: Sequence[Abstract]) -> str:
    """One JSON object a line."""
    return "".join(f"{json.dumps(_row(abstract), ensure_ascii=False)}\n" for abstract in abstracts)


# --- BibTeX --------------------------------------------------------------------------------------------


def to_bibtex(abstracts: Sequence[Abstract]) -> str:
    """One entry each, under its own citation key or one made of its id: unique, and the same in every export."""
    taken: set[str] = set()
    return "\n".join(_entry(abstract, taken) for abstract in abstracts)


def _entry(abstract: Abstract, taken: set[str]) -> str:
    extra = dict(abstract.extra)
    kind = extra["entry type"] if extra.get("entry type") in _TYPES - {"misc"} else "misc"
    key = _citation_key(abstract, taken)
    exact: dict[str, object] = {}
    author = _bibtex_names(abstract.authors)
    fields = {"title": _tex_title(abstract), "author": author, "abstract": abstract.text, "url": abstract.page}
    if parse(fields["title"]).plain != (parse(abstract.given_title).plain) or not _is_calm(fields["title"]):
        exact["title"] = abstract.given_title
    if people(author) != abstract.authors or not _is_calm(author):
        exact["authors"] = abstract.authors
    exact |= {name: fields[name] for name in ("abstract", "url") if not _is_calm(fields[name])}
    kept = {name: value for name, value in extra.items() if _is_field(name) and _is_calm(value)}
    fields |= kept
    kept |= {"entry type": kind} if kind != "misc" else {}
    kept |= {"citation key": key} if not OWN_KEY.fullmatch(key) else {}
    if kept != extra:
        exact["extra"] = extra
    if exact:
        fields[EXACT] = _json(exact)
    body = "".join(f",\n  {name} = {{{_tamed(value)}}}" for name, value in fields.items() if value)
    return f"@{kind}{{{key}{body}\n}}\n"


def _citation_key(abstract: Abstract, taken: set[str]) -> str:
    """The paper's own key if it has one that BibTeX takes and no other has, else one made of its id."""
    own = abstract.extra.get("citation key", "")
    key = own if _KEY.fullmatch(own) and not OWN_KEY.fullmatch(own) and own.lower() not in taken else ""
    if not key:
        key, number = f"abstract-{abstract.id}", 2
        while key.lower() in taken:
            key, number = f"abstract-{abstract.id[:10]}-{number}", number + 1
    taken.add(key.lower())
    return key


def _is_field(name: str) -> bool:
    """Whether an extra can be a field of its own and come back under the same name."""
    known = ("author", "entry type", "citation key", EXACT)
    return (
        bool(_SIMPLE_NAME.fullmatch(name)) and not role_of(name) and name not in known and extra_name(name) == name
    )


def _is_calm(value: str) -> bool:
    """Whether a value can stand between braces as it is."""
    if value != value.strip() or not value.isprintable() or "\\\\" in value or value.endswith("\\"):
        return False
    depth = 0
    for found in _BRACE.finditer(value):
        depth += (found[0] == "{") - (found[0] == "}")
        if depth < 0:
            return False
    return depth == 0 and not _BLOCK_START.search(value)


def _tamed(value: str) -> str:
    return value if _is_calm(value) else " ".join(_TAME.sub(" ", value).split())


def _tex_title(abstract: Abstract) -> str:
    """The title as LaTeX sets it: one without mark-up has its signs escaped."""
    title = abstract.given_title
    if title != abstract.title or parse(title).plain != title:
        return title
    return _TEX_SIGN.sub(r"\\\g<0>", title)


def _bibtex_names(authors: str) -> str:
    """`A B, C D` and `B, A; D, C` as BibTeX separates names."""
    return " and ".join(filter(None, map(str.strip, authors.split(";" if ";" in authors else ","))))


def _json(exact: Mapping[str, object]) -> str:
    """JSON without braces and at-signs in its strings, and without `--`."""
    text = json.dumps(exact)
    return re.sub(r'"(?:[^"\\]|\\.)*"', lambda found: _NOT_PLAIN.sub(_code, found[0]), text)


_NOT_PLAIN = re.compile(r"[{}@<>`#%]|-(?=-)|\\\\|\\\"")


def _code(found: re.Match[str]) -> str:
    """The sign as JSON's `\\u` and four digits."""
    return f"\\u{ord(found[0][-1]):04x}"


# --- Markdown ------------------------------------------------------------------------------------------


def to_markdown(abstracts: Sequence[Abstract], name: str = "Reading list") -> str:
    """A reading list: a heading for each paper, what is known of it as a list, its abstract."""
    heading = " ".join(_tag_free(name).split()).strip("#*_ ") or "Reading list"
    return "\n".join([f"# {heading}\n", *map(_section, abstracts)])


def _section(abstract: Abstract) -> str:
    """The most readable form that reads back as it was."""
    section = _markdown(abstract)
    if _reads_back(section, abstract):
        return section
    exact = {"title": abstract.given_title, "abstract": abstract.text, "authors": abstract.authors}
    remark = f"<!-- exact {_json({**exact, 'url': abstract.page, 'extra': dict(abstract.extra)})} -->\n"
    section = f"{_markdown(abstract, tame=True)}\n{remark}"
    return section if _reads_back(section, abstract) else f"## Untitled\n\n{remark}"


def _markdown(abstract: Abstract, tame: bool = False) -> str:
    """A section; with `tame` its fields are one line each and name no other field."""

    def line(text: str) -> str:
        text = " ".join(_tag_free(text).split())
        return _COLON.sub("∶", text) if tame else text

    text = _tag_free(abstract.text)
    if tame or _LINE_START.search(text):
        text = line(text)
    fields = {"Authors": abstract.authors, "URL": abstract.page, **abstract.extra}
    facts = "".join(f"- **{line(name)}:** {line(value)}\n" for name, value in fields.items() if value)
    title = line(abstract.given_title or abstract.title)
    return "\n".join([f"## {title}\n", *([facts] if facts else []), f"**Abstract:** {text}\n"])


def _tag_free(text: str) -> str:
    """Without tags that a page would run or hide."""
    return _TAG.sub("&lt;", text)


def _reads_back(section: str, abstract: Abstract) -> bool:
    """Whether a section is one paper to the reader, this one."""
    records = read_plain(lines_of(section), _AS_GIVEN).records
    if len(records) != 1:
        return False
    read = records[0]
    return (read.text, read.authors, read.page, read.extra, parse(read.title).plain) == (
        *(abstract.text, abstract.authors, abstract.page, dict(abstract.extra)),
        abstract.title,
    )
