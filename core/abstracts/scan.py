r"""One pass over mixed Markdown, LaTeX and HTML mark-up that leaves a flat list of pieces.

Nothing is interpreted twice: plain text and page Markdown are both rendered from these pieces.
Every rule looks a bounded distance ahead, so that time is linear in the length.
"""

import html
import re

from core.abstracts.latex import BOLD, CODE, ITALIC
from core.abstracts.pieces import PARAGRAPH, Piece, Toggle, settle
from core.abstracts.scan_latex import AHEAD, HIDDEN, INVISIBLE, RUNS, LatexScanner
from core.abstracts.urls import HTTP, URL, clean_url, trimmed_url

_SPACES = re.compile(r"\s+")
_SIGNS = rf"\\$*_`\[\]&<~{{}}{HIDDEN}"


def _special(spaces: bool, urls: bool) -> re.Pattern[str]:
    """Where a rule may apply. It begins with a set of signs, so that a search skips all others quickly.

    White space and the first letter of an address are common, so they are sought only in texts that need it.
    """
    signs = "[" + _SIGNS + r"'\-!" + spaces * r"\s" + urls * "hH" + "]"
    rules = [rf"(?<=[{_SIGNS}])", "(?<=')'", "(?<=-)-", r"(?<=!)(?=\[)"]
    rules += [r"(?<=[^\S ])", r"(?<= )(?=\s)"] if spaces else []
    rules += [r"(?<=[hH])(?<![A-Za-z].)[tT][tT][pP][sS]?://"] if urls else []
    return re.compile(f"{signs}(?:{'|'.join(rules)})")


_SPECIAL = {(spaces, urls): _special(spaces, urls) for spaces in (False, True) for urls in (False, True)}
_TWIN = re.compile(r"\}\{(?:\\texttt\{)?([^{}\s]{1,2000})\}{0,2}")
_INLINE_LINK = re.compile(
    r"!?\[([^\[\]]{0,500})\]\(\s*<?([^\s()<>]{0,1000}(?:\([^\s()<>]{0,200}\)[^\s()<>]{0,200}){0,5})>?"
    r"(?:\s+\"[^\"\n]{0,300}\")?\s*\)"
)
_ANGLE_LINK = re.compile(rf"<({HTTP}[^\s<>]{{1,2000}})>")
_ENTITY = re.compile(r"&(?:amp;)?(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")

_TAG_STYLES = {"b": BOLD, "strong": BOLD, "bold": BOLD, "i": ITALIC, "em": ITALIC, "italic": ITALIC}
_TAG_STYLES |= {"code": CODE, "tt": CODE, "monospace": CODE}
_BLOCK_TAGS = frozenset(("p", "br", "div", "li", "ul", "ol"))
_TAG = re.compile(
    rf"<(/?)(?:jats:)?({'|'.join(_TAG_STYLES)}|{'|'.join(sorted(_BLOCK_TAGS))}|sup|sub|u|small|span|font|a)"
    r"((?:\s+[\w:-]{1,30}\s*=\s*(?:\"[^\"<>]{0,500}\"|'[^'<>]{0,500}')){0,8})\s*/?>",
    re.IGNORECASE,
)
_TAG_URL = re.compile(r"href\s*=\s*[\"'](https?://[^\s\"']+)", re.IGNORECASE)
_RAISED_TAG = re.compile(r"<(?:jats:)?(sup|sub)>([^<>]{1,40})</(?:jats:)?\1>", re.IGNORECASE)


def scan(source: str) -> list[Piece]:
    """The pieces of a text in order; never raises, whatever the string."""
    return settle(_Scanner(source).run())


class _Scanner(LatexScanner):
    """The rules of Markdown, HTML and punctuation."""

    def __init__(self, source: str):
        super().__init__(source)
        self.openers: list[Toggle] = []  # emphasis that waits for its end
        self.waiting: dict[str, int] = {}  # how many of each kind wait
        self.tags: list[tuple[str, Toggle]] = []
        self.link_ends: dict[int, int] = {}  # the `]` of a link: where its `)` ends
        self.quote_ends: set[int] = set()

    def run(self) -> list[Piece | Toggle]:
        source, size = self.source, len(self.source)
        rules = {
            "\\": self.macro, "$": self.dollar, "*": self.emphasis, "_": self.emphasis, "`": self.backtick,
            "''": self.end_quote, "--": self.dash, "~": self.tilde, "[": self.bracket, "!": self.bracket,
            "]": self.end_bracket, "{": self.brace, "}": self.end_brace, "&": self.entity, "<": self.tag,
            "https://": self.url, "http://": self.url,
        }  # fmt: skip
        special = _SPECIAL["  " in source or not source.isprintable(), "://" in source]
        while self.at < size:
            found = special.search(source, self.at)
            start = found.start() if found else size
            if start > self.at:
                self.put(source[self.at : start], start)
            if found:
                rules.get(found[0].lower(), self.space)()
        self.close_groups()
        for _, mark in self.tags:
            mark.cancel()
        return self.items

    # White space and punctuation --------------------------------------------------------------

    def space(self) -> None:
        hidden = INVISIBLE.match(self.source, self.at)
        if hidden:
            self.at = hidden.end()
            return
        found = _SPACES.match(self.source, self.at)
        end = found.end() if found else self.at + 1
        ends_paragraph = self.source.count("\n", self.at, end) > 1
        if ends_paragraph:
            self.openers.clear()
            self.waiting.clear()
        self.put(" ", end, PARAGRAPH if ends_paragraph else None)

    def dash(self) -> None:
        found = RUNS["-"].match(self.source, self.at)
        assert found is not None
        run, end = found[0], found.end()
        before, after = self.source[max(self.at - 1, 0) : self.at], self.source[end : end + 1]
        option = not before.strip() and after.isalnum()  # a command line's --option
        if len(run) > 3 or after == ">" or self.code_depth or (len(run) == 2 and option):
            return self.put(run, end)
        return self.put("–" if len(run) == 2 else "—", end)

    def tilde(self) -> None:
        """LaTeX's tie is a space; `~30` (about 30) and `1~2` keep their sign."""
        found = RUNS["~"].match(self.source, self.at)
        assert found is not None
        before, after = self.source[max(self.at - 1, 0) : self.at], self.source[found.end() : found.end() + 1]
        lone = not before or before.isspace() or before in "([{" or not after.strip()
        sign = len(found[0]) > 1 or lone or (before.isdigit() and after.isdigit()) or self.code_depth
        self.put(found[0] if sign else " ", found.end())

    def backtick(self) -> None:
        """Markdown code, or LaTeX quotation marks."""
        found = RUNS["`"].match(self.source, self.at)
        assert found is not None
        source, start = self.source, found.end()
        close, tick = source.find("''", start, start + 300), source.find("`", start, start + 300)
        if len(found[0]) == 2 and close > 0:
            self.quote_ends.add(close)
            return self.put("“", start)
        single = source.find("'", start, start + 300)
        quoted = single > 0 and not source[single + 1 : single + 2].isalnum()
        if len(found[0]) == 1 and quoted and (tick < 0 or " " in source[single:tick].rstrip()):
            return self.put("'", start)
        if len(found[0]) == 1 and tick > start and "\n\n" not in source[start:tick]:
            code = _SPACES.sub(" ", INVISIBLE.sub("", source[start:tick]))
            self.items.append(Piece(code, start, tick, CODE))
            self.at = tick + 1
            return None
        return self.put_run()

    def end_quote(self) -> None:
        if self.at in self.quote_ends:
            self.put("”", self.at + 2)
        else:
            self.put_run() if not self.quote_ends else self.put("''", self.at + 2)

    # Markdown -----------------------------------------------------------------------------------

    def emphasis(self) -> None:
        """Words stay whole; `a * b`, `a*b`, `snake_case` and `__init__` keep their signs."""
        found = RUNS[self.source[self.at]].match(self.source, self.at)
        assert found is not None
        run, end = found[0], found.end()
        before = self.source[self.at - 1] if self.at else " "
        after = self.source[end : end + 1] or " "
        single = len(run) == 1
        inside = before.isalnum() and after.isalnum()
        if len(run) > 3 or run in ("__", "___") or (inside and (single or (before + after).isdigit())):
            return self.put(run, end)
        closes = not before.isspace() and not (single and after.isalnum())
        if closes and self.waiting.get(run, 0) > 0:
            return self.close_emphasis(run, end)
        if closes and run == "***" and self.waiting.get("*", 0) > 0 and self.waiting.get("**", 0) > 0:
            inner = self.openers[-1].text if self.openers[-1].text in ("*", "**") else "*"
            self.close_emphasis(inner, self.at + len(inner))
            return self.close_emphasis(run[len(inner) :], end) if self.waiting.get(run[len(inner) :]) else None
        if after.isspace() or (single and before.isalnum()):
            return self.put(run, end)
        self.openers.append(self.toggle(run, end))
        self.waiting[run] = self.waiting.get(run, 0) + 1
        return None

    def close_emphasis(self, run: str, end: int) -> None:
        while True:
            opener = self.openers.pop()
            self.waiting[opener.text] -= 1
            if opener.text == run:
                break
        opener.style = {1: ITALIC, 2: BOLD, 3: BOLD | ITALIC}[len(run)]
        opener.text, opener.step = "", 1
        self.toggle("", end, opener.style, -1)

    def bracket(self) -> None:
        """`[text](url)`; an image is a link to it, and any other address than http(s) stays text."""
        if self.source.startswith("[[", self.at):
            found = RUNS["["].match(self.source, self.at)
            assert found is not None
            return self.put(found[0][:-1], found.end() - 1)
        found = _INLINE_LINK.match(self.source, self.at)
        url = clean_url(found[2]) if found else None
        if found is None or url is None:
            return self.put(self.source[self.at], self.at + 1)
        if not found[1].strip():
            return self.put(url, found.end(), link=url)
        self.link_ends[found.end(1)] = found.end()
        self.toggle("", found.start(1), step=1, link=url).limit = found.end(1)
        return None

    def end_bracket(self) -> None:
        end = self.link_ends.pop(self.at, 0)
        if end:
            self.toggle("", end, step=-1, link="")
        elif self.link_ends:
            self.put("]", self.at + 1)
        else:
            self.put_run()

    def url(self) -> None:
        found = URL.match(self.source, self.at)
        raw = trimmed_url(found[0]) if found else ""
        url = clean_url(raw)
        if url is None:
            return self.put(self.source[self.at : self.at + 4], self.at + 4)
        end = self.at + len(raw)
        twin = _TWIN.match(self.source, end) if not self.groups else None
        if twin:  # `url}{text`, which is left when `\href{` is lost
            text = trimmed_url(twin[1])
            return self.put(text, twin.end() if twin[0].endswith("}") else twin.start(1) + len(text), link=url)
        return self.put(raw if "\\" not in raw and "&" not in raw else url, end, link=url)

    # HTML ---------------------------------------------------------------------------------------

    def entity(self) -> None:
        found = _ENTITY.match(self.source, self.at)
        if not found:
            return self.put_run()
        text = html.unescape(html.unescape(found[0]))
        return self.put(_SPACES.sub(" ", INVISIBLE.sub("", text)), found.end())

    def tag(self) -> None:
        """Harmless formatting tags style or vanish; everything else is text, `<script>` too."""
        link = _ANGLE_LINK.match(self.source, self.at)
        url = clean_url(link[1]) if link else None
        if link and url:
            return self.put(link[1], link.end(), link=url)
        raised = _RAISED_TAG.match(self.source, self.at)
        if raised:
            return self.raised(raised[1], raised[2], raised.end())
        found = _TAG.match(self.source, self.at)
        if not found:
            return self.put_run()
        name = found[2].lower()
        if name in _BLOCK_TAGS:
            return self.put(" ", found.end())
        if found[1]:
            return self.end_tag(name, found.end())
        if not any(
            self.source.find(end, self.at, self.at + AHEAD) > 0
            for end in (f"/{name}", f"/{name.upper()}", f":{name}")
        ):
            return self.put(found[0], found.end())
        target = _TAG_URL.search(found[3])
        link_to = clean_url(target[1]) if target and name == "a" else None
        self.tags.append((name, self.toggle("", found.end(), _TAG_STYLES.get(name, 0), 1, link_to)))
        return None

    def end_tag(self, name: str, end: int) -> None:
        if not self.tags or self.tags[-1][0] != name:
            return self.put(self.source[self.at : end], end)
        _, opener = self.tags.pop()
        self.toggle("", end, opener.style, -1, opener.link)
        return None
