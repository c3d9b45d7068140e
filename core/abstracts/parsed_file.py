"""What a reader of one format hands over: raw records of one file and remarks about it."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass
class RawRecord:
    """One paper as it stands in a file; `line` is the 1-based line where it begins."""

    text: str
    line: int
    title: str = ""
    authors: str = ""
    page: str = ""
    extra: dict[str, str] = field(default_factory=dict)


@dataclass
class ParsedFile:
    """The records of a file in order; remarks are (line, reason)."""

    records: list[RawRecord]
    name: str = ""
    joined: list[tuple[int, str]] = field(default_factory=list)
    skipped: list[tuple[int, str]] = field(default_factory=list)
    guesses: list[str] = field(default_factory=list)


KEYS: Mapping[str, str] = {
    **dict.fromkeys(("title", "paper title", "标题", "题目", "论文标题"), "title"),
    **dict.fromkeys(("author", "authors", "作者"), "authors"),
    **dict.fromkeys(("abstract", "summary", "abs", "摘要"), "abstract"),
    **dict.fromkeys(("keyword", "keywords", "key words", "index terms", "关键词", "关键字"), "keywords"),
    **dict.fromkeys(("url", "link", "page", "链接"), "page"),
    **dict.fromkeys(("year", "年份"), "year"),
    **dict.fromkeys(("venue", "conference", "会议"), "venue"),
}
"""How lists call the fields of a paper, in lower case."""
