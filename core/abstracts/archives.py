"""Zips of lists: their entries, within limits that no bomb gets past; nothing is ever written to disk."""

from __future__ import annotations

import io
import lzma
import unicodedata
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from core.abstracts import limits

_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # others let an entry claim gigabytes for its dictionary
_OFFICE = {
    "word/": "a Word document; save it as text",
    "xl/": "an Excel workbook; save it as CSV",
    "ppt/": "a PowerPoint file; save it as text",
    "META-INF/container.xml": "an e-book; save it as text",
    "content.xml": "an OpenDocument file; save it as text or CSV",
}
_DAMAGED = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, ValueError),
    *(NotImplementedError, RuntimeError, OverflowError),
)


@dataclass(frozen=True)
class Entry:
    """One file of a zip under the zip's name; its bytes, or the reason why there are none."""

    name: str
    content: bytes = b""
    problem: str = ""


def is_zip(content: bytes) -> bool:
    """Whether the bytes begin as a zip does."""
    return content.startswith((b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08"))


def entries(content: bytes, name: str) -> Iterator[Entry]:
    """The files of a zip in its order. ValueError if it is damaged, an office document or beyond the limits."""
    try:
        archive = zipfile.ZipFile(io.BytesIO(content))
    except _DAMAGED as error:
        raise ValueError(f"{name}: a damaged zip ({error})") from error
    with archive:
        infos = [info for info in archive.infolist() if not info.is_dir()]
        _check_office({info.filename for info in infos}, name)
        infos = [info for info in infos if not _is_system_file(info.filename)]
        if len(infos) > limits.ZIP_ENTRIES:
            raise ValueError(f"{name}: {len(infos):,} files; a zip may have up to {limits.ZIP_ENTRIES:,}")
        left = limits.TOTAL_BYTES
        for info in infos:
            entry = _entry(archive, info, f"{name}/{safe_name(_entry_name(info))}", left)
            left -= len(entry.content)
            if left < 0:
                raise ValueError(f"{name}: more than {limits.TOTAL_BYTES / 1e6:,.0f} MB when unpacked")
            yield entry


def _check_office(names: set[str], name: str) -> None:
    if "[Content_Types].xml" in names or "mimetype" in names:
        for part, what in _OFFICE.items():
            if any(entry.startswith(part) for entry in names):
                raise ValueError(f"{name}: {what}")


def _is_system_file(name: str) -> bool:
    parts = name.replace("\\", "/").split("/")
    return (
        "__MACOSX" in parts or parts[-1] in (".DS_Store", "Thumbs.db", "desktop.ini") or parts[-1].startswith("._")
    )


def _entry(archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str, left: int) -> Entry:
    """An entry's bytes; never more than the limit and one, whatever size it claims."""
    if info.flag_bits & 1:
        return Entry(name, problem="locked with a password")
    if info.compress_type not in _METHODS:
        return Entry(name, problem="packed in a way that is not read here; use plain zip (deflate)")
    most = min(limits.FILE_BYTES, left)
    try:
        with archive.open(info) as file:
            content = file.read(most + 1)
    except _DAMAGED as error:
        return Entry(name, problem=f"damaged ({error})")
    if len(content) > limits.FILE_BYTES:
        return Entry(name, problem=f"larger than {limits.FILE_BYTES / 1e6:,.0f} MB when unpacked")
    if is_zip(content):
        return Entry(name, problem="a zip in a zip; unpack it first")
    return Entry(name, content)


def _entry_name(info: zipfile.ZipInfo) -> str:
    """The name; one without the mark of UTF-8 is often UTF-8 or Chinese all the same."""
    if info.flag_bits & 0x800:
        return info.filename
    try:
        raw = info.filename.encode("cp437")
    except UnicodeEncodeError:
        return info.filename
    for encoding in ("utf-8", "gb18030"):
        try:
            return raw.decode(encoding)
        except UnicodeDecodeError:
            continue
    return info.filename


def safe_name(name: str) -> str:
    """A file's name for messages and records: one line, no direction marks or steps up, not too long."""
    shown = "".join(sign for sign in name if unicodedata.category(sign)[0] != "C").replace("\\", "/")
    shown = "/".join(part for part in shown.split("/") if part.strip(" ."))
    if len(shown) > limits.NAME:
        shown = f"{shown[: limits.NAME // 2]}…{shown[-limits.NAME // 2 :]}"
    return " ".join(shown.split()) or "unnamed"
