"""Bytes of an abstract file to text, and its lines."""

import codecs
import re

from charset_normalizer import from_bytes

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_LINE_END = re.compile("\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
_CJK = re.compile("[\u3400-\u9fff]")
_CJK_IN_WORD = re.compile("(?<=[A-Za-z])[\u3400-\u9fff](?=[A-Za-z])")
_CONTROL = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f]")


def decode(content: bytes, name: str) -> tuple[str, str, str]:
    """Text, encoding and a remark ("" if there is nothing to remark) of a file's bytes.

    Tried in this order: byte order mark, UTF-8, UTF-16 without a mark, GB18030, Windows-1252, a guess.
    ValueError names the file if it is no text.
    """
    for mark, encoding in _MARKS:
        if content.startswith(mark):
            try:
                return _text(content.decode(encoding), name), encoding.removesuffix("-sig"), ""
            except UnicodeDecodeError:
                return (
                    _text(content.decode(encoding, "replace"), name),
                    encoding,
                    f"{name}: damaged {encoding} text",
                )
    for encoding in ("utf-8", *_unmarked_utf16(content)):
        try:
            return _text(content.decode(encoding), name), encoding, ""
        except UnicodeDecodeError:
            continue
    _text("\x00" if b"\x00" in content else "", name)
    return _legacy(content, name)


def _unmarked_utf16(content: bytes) -> tuple[str, ...]:
    even, odd = content[:4000:2].count(0), content[1:4000:2].count(0)
    if (
        len(content) % 2
        or max(even, odd) * 5 < min(len(content), 4000) // 2
        or min(even, odd) * 10 > max(even, odd)
    ):
        return ()
    return ("utf-16-le",) if odd > even else ("utf-16-be",)


def _legacy(content: bytes, name: str) -> tuple[str, str, str]:
    """A file of the time before Unicode: Chinese if that makes sense, else western."""
    try:
        chinese = content.decode("gb18030")
        inside_words, everywhere = len(_CJK_IN_WORD.findall(chinese)), len(_CJK.findall(chinese))
        if everywhere and inside_words * 2 < everywhere:
            return _text(chinese, name), "gb18030", ""
    except UnicodeDecodeError:
        pass
    try:
        return _text(content.decode("cp1252"), name), "cp1252", f"{name}: read as Windows-1252 (a guess)"
    except UnicodeDecodeError:
        guess = from_bytes(content[:200_000]).best()
        encoding = guess.encoding if guess else "latin-1"
        text = content.decode(encoding, "replace")
        return _text(text, name), encoding, f"{name}: read as {encoding} (a guess)"


def _text(text: str, name: str) -> str:
    """The text, unless it is none: then ValueError."""
    if "\x00" in text or len(_CONTROL.findall(text[:20_000])) * 50 > min(len(text), 20_000):
        raise ValueError(f"{name}: not a text file")
    return text


def lines_of(text: str) -> list[str]:
    """The lines, whatever their ends, without byte order marks."""
    return _LINE_END.sub("\n", text.replace("\ufeff", "")).split("\n")
