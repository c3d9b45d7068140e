"""LaTeX as it stands in abstracts: which macros mean what, and formulas as words and signs."""

import logging
import re
import unicodedata
from functools import lru_cache

from pylatexenc.latex2text import LatexNodes2Text

logging.getLogger("pylatexenc").setLevel(logging.ERROR)  # it reports every unknown macro
_CONVERTER = LatexNodes2Text(math_mode="text", keep_comments=True)

BOLD, ITALIC, CODE = 1, 2, 4

# Macros that style their argument, and declarations that style the rest of their group.
STYLED = {
    **dict.fromkeys(("textbf", "mathbf", "boldsymbol", "bm"), BOLD),
    **dict.fromkeys(("textit", "emph", "textsl", "mathit"), ITALIC),
    **dict.fromkeys(("texttt", "mathtt", "code"), CODE),
}
DECLARED = {
    **dict.fromkeys(("bf", "bfseries"), BOLD),
    **dict.fromkeys(("em", "it", "itshape", "sl"), ITALIC),
    **dict.fromkeys(("tt", "ttfamily"), CODE),
}
SILENT = frozenset(
    (
        *("noindent", "centering", "par", "newline", "linebreak", "xspace", "protect", "relax", "sloppy", "null"),
        *("small", "footnotesize", "normalsize", "large", "Large", "rm", "sf", "sc", "rmfamily", "sffamily"),
        *("scshape", "upshape", "smallskip", "medskip", "bigskip", "hfill", "vfill", "maketitle", "left", "right"),
        *("displaystyle", "textstyle", "ignorespaces", "unskip", "nobreak", "break"),
    )
)
SIGNS = {
    **{sign: sign for sign in "%$&#_{}*[]()+.!|<>@;:/?^~\"'`="},
    "\\": " ",
    " ": " ",
    "\n": " ",
    "\t": " ",
    ",": " ",
    "-": "",
}
KNOWN = {
    "item": " • ",
    "LaTeX": "LaTeX",
    "TeX": "TeX",
    "S": "§",
    "P": "¶",
    "euro": "€",
    "quad": " ",
    "qquad": " ",
}
_NOT_SYMBOLS = frozenset(("today", "cite", "ref", "title", "author", "date"))

MATH_ENVIRONMENT = re.compile(r"\\begin\s*\{(equation|align|gather|multline|eqnarray|displaymath|math)\*?\}")

# What a formula may not do when it is drawn: call out, define macros, or leave its place in the line.
_UNSAFE = re.compile(
    r"\\(?:href|url|includegraphics|html\w*|[gex]?def|let|futurelet|global|newcommand|renewcommand|providecommand"
    r"|rule|[mh]?kern|[hv]space|[hmv]?skip|raisebox|char|class|cssId|style|require|input|write|immediate|tag)(?![A-Za-z])"
)
_FOREIGN = re.compile(
    r"(?<!\\)[#@\"]|://|\]\(|</?[A-Za-z]+>|!\[|:[a-z_+-]+:|\\[()]|[_^]$"
)  # no sign of mathematics
_PROSE = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{3,}[,;]?\s+[A-Za-z]{2,}")
_MONEY = re.compile(r"\d[\d.,]*\s?(?:[kKmMbB]n?|million|billion|trillion|thousand|USD|dollars?|per)\b")
_TEXT_ARGUMENT = re.compile(r"\\(?:text|mbox|operatorname|mathrm|textrm|textit|textbf)\*?\s*\{[^{}]*\}")
_MACRO = re.compile(r"\\[A-Za-z]+")
_MATH_LETTERS = re.compile("[\U0001d400-\U0001d7ff]+")
_MAX_FORMULA = 2000


@lru_cache(maxsize=4096)
def macro_text(source: str) -> str | None:
    r"""The sign that a macro stands for (`\alpha`, `\'{e}`), or None if it is not a known one."""
    name = source[1:]
    if name in KNOWN:
        return KNOWN[name]
    if name in _NOT_SYMBOLS:
        return None
    try:
        text = _CONVERTER.latex_to_text(source)
    except Exception:  # the library's parser raises its own and Python's errors alike on odd input
        return None
    return unicodedata.normalize("NFC", text).strip() or None


def is_formula(content: str, after: str, block: bool = False) -> bool:
    """Whether what stands between two dollar signs is mathematics rather than money or prose.

    `after` is the character behind the closing sign: `$5-$10` has a digit there, as no number
    would follow a formula that starts with one.
    """
    inner = content.strip()
    if not inner or len(content) > _MAX_FORMULA or "\n\n" in content:
        return False
    if inner.count("{") - inner.count(r"\{") != inner.count("}") - inner.count(r"\}"):
        return False
    if _FOREIGN.search(inner) or ("&" in inner.replace(r"\&", "") and r"\begin" not in inner):
        return False
    if block:
        return True
    if content[0].isspace() != content[-1].isspace() or _MONEY.match(inner):
        return False
    signs = any(sign in inner for sign in "\\^_{=<>")
    if (inner != content or (inner[0].isdigit() and after.isdigit())) and not signs:
        return False
    return not _PROSE.search(_TEXT_ARGUMENT.sub("", inner))


@lru_cache(maxsize=4096)
def formula_text(latex: str) -> str:
    r"""A formula in one line of Unicode without backslashes, braces and dollar signs: `3\times` → `3×`."""
    text = ""
    if len(latex) <= _MAX_FORMULA and 0 <= _depth(latex) <= 40:
        try:
            text = _CONVERTER.latex_to_text("$" + latex.replace(r"\$", "").rstrip("\\") + "$")
        except Exception:  # as in macro_text
            text = ""
    if not text.strip("$ ") or "%s" in text:
        text = formula_letters(latex)
    text = _MATH_LETTERS.sub(lambda found: unicodedata.normalize("NFKC", found[0]), text)
    text = text.translate({ord("{"): "(", ord("}"): ")", ord("\\"): " ", ord("$"): " "})
    return " ".join(unicodedata.normalize("NFC", text).split())


def formula_letters(latex: str) -> str:
    """The same by rule of thumb, for formulas that no parser takes or that are too many for one."""
    return " ".join(_MACRO.sub(lambda found: f" {found[0][1:]} ", latex).translate(_DROP).split())


_DROP = {ord(sign): None for sign in "{}\\$"}


def _depth(latex: str) -> int:
    """Deepest nesting of braces, -1 if they do not pair up."""
    depth = deepest = 0
    for sign in re.findall(r"\\.|[{}]", latex):
        depth += (sign == "{") - (sign == "}")
        deepest = max(deepest, depth)
        if depth < 0:
            return -1
    return deepest if depth == 0 else -1


def formula_markdown(latex: str, block: bool) -> str | None:
    """A formula for `$…$` on a page, or None where drawing it could do harm."""
    if _UNSAFE.search(latex) or "`" in latex or _depth(latex) < 0:
        return None
    body = latex.replace(r"\$", r"\text{\textdollar}")
    body = re.sub(r"\\(begin|end)\{(?:align|eqnarray|gather|multline)\*?\}", r"\\\1{aligned}", body)
    body = " ".join(body.split())
    if "$" in body or not body or len(body) - len(body.rstrip("\\")) & 1:
        return None
    return rf"\displaystyle {body}" if block else body
