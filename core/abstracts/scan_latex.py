"""The part of the scanner that knows LaTeX: formulas, macros and groups."""

import html
import re

from core.abstracts import latex as tex
from core.abstracts.latex import CODE
from core.abstracts.pieces import Piece, Toggle
from core.abstracts.urls import clean_url

AHEAD = 2000  # characters in which a formula, a link or a tag has to end
_MAX_FORMULAS = 2000  # in one text; beyond that they are spelled out by rule of thumb
_DEEPEST = 20  # braces in a row that may still be groups

HIDDEN = (  # control, zero-width and direction characters, lone surrogates
    "\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\xad\u200b\u2060\u202a-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff"
)
INVISIBLE = re.compile(f"[{HIDDEN}]+")
RUNS = {sign: re.compile(re.escape(sign) + "+") for sign in "\\$*_`[]{}<~-&'"}

_BRACED = r"\{\s*([^{}\s]{1,2000})\s*\}"
_HREF = re.compile(rf"\\href\s?{_BRACED}\s?\{{")
_URL_MACRO = re.compile(rf"\\(?:url|nolinkurl)\s?{_BRACED}")
_RAISED = re.compile(r"\\text(sup|sub)(?:er)?script\s?\{([^{}]{1,40})\}")
_COMPARISON = re.compile("&(?:lt|gt|amp);")
_ORDINALS = frozenset(("st", "nd", "rd", "th"))
_MACRO = re.compile(r"\\([A-Za-z]{1,80})\*?")
_ACCENT = re.compile(
    r"\\(?:([`'^\"~=.])|[HcvukrdbtG](?:\s|(?=[{\\])))(\{\\?[A-Za-z]{1,2}\}|\\[ij](?![A-Za-z])|[A-Za-z])"
)
_ENVIRONMENT = re.compile(r"\\(?:begin|end)\s?\{[A-Za-z*]{1,30}\}(?:\[[^\]\n]{0,80}\])?")
_ARGUMENT = re.compile(r"\s?(?:\[[^\[\]{}\n]{0,80}\])?\{")
_CITATION = re.compile(
    r"\\(?:cite[a-z]{0,8}|(?:eq|auto|c)?ref)\*?(?:\[[^\[\]{}\n]{0,80}\]){0,2}\{([^{}\n]{1,300})\}"
)
_NOISE = re.compile(r"\\(?:(?:text)?color|colorbox|label|vspace|hspace)\*?\s?\{[^{}\n]{0,100}\}")


class LatexScanner:
    """State of the pass (where it stands, what it has put out, what is still open) and the LaTeX rules."""

    def __init__(self, source: str):
        self.source, self.at = source, 0
        self.items: list[Piece | Toggle] = []
        self.groups: list[tuple[Toggle, list[Toggle]]] = []  # open braces, each with its declarations
        self.formulas = self.code_depth = 0

    def put(self, text: str, end: int, latex: str | None = None, link: str | None = None) -> None:
        """Put out text for the source up to `end`, and go on there."""
        if text or latex:
            self.items.append(Piece(text, self.at, end, 0, link, latex))
        self.at = end

    def put_run(self) -> None:
        """Put out the signs at this place as they are."""
        found = RUNS[self.source[self.at]].match(self.source, self.at)
        end = found.end() if found else self.at + 1
        self.put(self.source[self.at : end], end)

    def toggle(self, text: str, end: int, style: int = 0, step: int = 0, link: str | None = None) -> Toggle:
        mark = Toggle(text, self.at, end, style, step, link)
        self.items.append(mark)
        self.at = end
        return mark

    # Formulas -----------------------------------------------------------------------------------

    def formula(self, content: str, end: int, block: bool = False) -> None:
        self.formulas += 1
        if self.formulas > _MAX_FORMULAS:
            return self.put(tex.formula_letters(content), end)
        return self.put(tex.formula_text(content), end, tex.formula_markdown(content, block))

    def dollar(self) -> None:
        source, at = self.source, self.at
        if source.startswith("$$$", at):
            return self.put_run()
        fence = "$$" if source.startswith("$$", at) else "$"
        start = at + len(fence)
        close = self.closing(fence, start)
        if close > start:
            content, end = source[start:close], close + len(fence)
            content = _COMPARISON.sub(lambda found: html.unescape(found[0]), content)
            if tex.is_formula(content, source[end : end + 1], block=len(fence) == 2):
                return self.formula(content.strip(), end, block=len(fence) == 2)
        return self.put(fence, start)

    def closing(self, fence: str, start: int) -> int:
        """Where the next fence stands that is not escaped, -1 if none is near."""
        close, stop = start, start + AHEAD
        while (close := self.source.find(fence, close, stop)) >= 0:
            before = self.source[max(start, close - 20) : close]
            if (len(before) - len(before.rstrip("\\"))) % 2 == 0:
                return close
            close += 1
        return -1

    def fenced(self) -> bool:
        r"""Mathematics in `\(…\)`, `\[…\]` or an environment; whether there was some."""
        source, at = self.source, self.at
        environment = tex.MATH_ENVIRONMENT.match(source, at)
        if environment:
            start, fence = environment.end(), f"\\end{{{environment[1]}"
        else:
            start, fence = at + 2, "\\)" if source[at + 1] == "(" else "\\]"
        close = source.find(fence, start, start + AHEAD)
        content = source[start:close].strip() if close > 0 else ""
        if not content or "\\(" in content or "\\[" in content:
            return False
        end = source.find("}", close) + 1 if environment else close + len(fence)
        if environment and environment[1] in ("align", "gather", "eqnarray"):
            content = rf"\begin{{aligned}}{content}\end{{aligned}}"
        self.formula(content, end or close + len(fence), block=fence != "\\)")
        return True

    def raised(self, kind: str, content: str, end: int) -> None:
        """A superscript or subscript in running text; ordinals stay words."""
        sign = "^" if kind.lower() == "sup" else "_"
        text = " ".join(INVISIBLE.sub("", html.unescape(content)).split())
        if text in _ORDINALS or not re.fullmatch(r"[A-Za-z\d+\-*()., ]+", text):
            return self.put(text, end)
        body = text if re.fullmatch(r"[\d+\-*]+", text) else rf"\text{{{text}}}"
        return self.put(sign + text, end, f"{sign}{{{body}}}")

    # Groups -------------------------------------------------------------------------------------

    def brace(self) -> None:
        found = RUNS["{"].match(self.source, self.at)
        if found and len(found[0]) > _DEEPEST:
            return self.put(found[0], found.end())
        self.groups.append((self.toggle("{", self.at + 1), []))
        return None

    def argument(self, start: int, style: int = 0, link: str | None = None) -> None:
        """Enter the argument of a macro; `start` is behind its brace."""
        self.groups.append((self.toggle("", start, style, 1, link), []))
        self.code_depth += style == CODE

    def end_brace(self) -> None:
        if not self.groups:
            return self.put_run()
        opener, declared = self.groups.pop()
        opener.text = ""
        for mark in declared:
            self.items.append(Toggle("", self.at, self.at, mark.style, -1))
        if opener.step:
            self.code_depth -= opener.style == CODE
            self.toggle("", self.at + 1, opener.style, -1, opener.link)
        else:
            self.at += 1
        return None

    def close_groups(self) -> None:
        """At the end of the text: what is still open styles nothing."""
        for opener, declared in self.groups:
            for mark in (opener, *declared) if opener.step or not opener.text else declared:
                mark.cancel()

    # Macros -------------------------------------------------------------------------------------

    def macro(self) -> None:
        source, at = self.source, self.at
        following = source[at + 1 : at + 2]
        if following == "\\" and source.startswith("\\\\\\\\", at):
            return self.put_run()
        if following in ("(", "[") and self.fenced():
            return None
        accent = self.accent()
        if accent:
            return self.put(*accent)
        if not ("a" <= following.lower() <= "z"):
            sign = tex.SIGNS.get(following)
            return self.put("\\", at + 1) if sign is None else self.put(sign, at + 2)
        if not self.link_macro():
            self.named_macro()
        return None

    def accent(self) -> tuple[str, int] | None:
        r"""The letter and the end of `\'e`, `\"{o}`, `\c c`; None where the sign is no accent."""
        found = _ACCENT.match(self.source, self.at)
        if not found:
            return None
        text = tex.macro_text(re.sub(r"\s", " ", found[0]))
        before = self.source[self.at - 1 : self.at] if self.at else ""
        quoted = (
            found[1] == '"'
            and found[2][0] != "{"
            and not (before.isalpha() or before == "{")
            and not found[2].isupper()
        )
        return (text, found.end()) if text and len(text) == 1 and not quoted else None

    def link_macro(self) -> bool:
        """Links, raised text and what says nothing about the words; whether there was one."""
        source, at = self.source, self.at
        if found := _HREF.match(source, at):
            self.argument(found.end(), link=clean_url(found[1]))
        elif found := _URL_MACRO.match(source, at):
            url = clean_url(found[1])
            self.put(url or found[1], found.end(), link=url)
        elif found := _RAISED.match(source, at):
            self.raised(found[1], found[2], found.end())
        elif found := _CITATION.match(source, at):
            self.put(f"[{found[1]}]", found.end())
        elif found := _NOISE.match(source, at):
            self.at = found.end()
        elif (found := _ENVIRONMENT.match(source, at)) and not (
            tex.MATH_ENVIRONMENT.match(source, at) and self.fenced()
        ):
            self.put(" ", found.end())
        return self.at > at

    def named_macro(self) -> None:
        """A style, a sign, or an unknown name: that one leaves its argument, or itself if it has none."""
        found = _MACRO.match(self.source, self.at)
        assert found is not None
        name, end = found[1], found.end()
        argument = _ARGUMENT.match(self.source, end)
        if argument and not self.source.startswith("}", argument.end()):
            return self.argument(argument.end(), tex.STYLED.get(name, 0))
        if argument:
            end = argument.end() + 1
        if name in tex.DECLARED:
            mark = self.toggle("", end, tex.DECLARED[name], 1)
            if self.groups:
                self.groups[-1][1].append(mark)
            else:
                mark.cancel()
            return None
        if name in tex.SILENT or name in tex.STYLED:
            self.at = end
            return None
        return self.put(tex.macro_text(f"\\{name}") or name, end)
