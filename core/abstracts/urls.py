"""Web addresses in running text: where they end, which may become links, how they are written in Markdown."""

import html
import re

HTTP = "[hH][tT][tT][pP][sS]?://"
URL = re.compile(HTTP + r"(?:\\[_%#&~]|[!#%-;=?-Z_a-z~]){1,2000}")  # visible ASCII but \" $ < > [ ] { } | \ ^ `
_LINKABLE = re.compile(HTTP + r"[A-Za-z0-9][^\s\x00-\x1f\x7f<>\"{}|\\^`]*")
_LATEX_ESCAPE = re.compile(r"\\([_%#&~])")
_ENDINGS = ".,;:!?'*"


def trimmed_url(raw: str) -> str:
    """An address without the punctuation of the sentence around it: final `.`, `)`, `*` go, `(x)` stays."""
    surplus = raw.count(")") - raw.count("(")
    end = len(raw)
    while end and (raw[end - 1] in _ENDINGS or (raw[end - 1] == ")" and surplus > 0)):
        surplus -= raw[end - 1] == ")"
        end -= 1
    return raw[:end].rstrip("\\")


def clean_url(raw: str) -> str | None:
    """The address to link to, or None if it is not a plain http or https one."""
    url = html.unescape(_LATEX_ESCAPE.sub(r"\1", raw.strip()))
    return url if len(url) <= 2100 and _LINKABLE.fullmatch(url) else None


def markdown_target(url: str) -> str:
    """The address as the target of a Markdown link, in pointed brackets."""
    url = url.replace("&", "&amp;").replace(":material/", "%3Amaterial/")
    return f"<{url}>"
