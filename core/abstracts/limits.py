"""How much a list of abstracts may hold. What goes beyond is refused with a message, or cut and told."""

FILE_BYTES = 100_000_000
"""Size of one file, and of one unpacked entry of a zip."""
TOTAL_BYTES = 150_000_000
"""Size of all files that are read together, zips unpacked."""
ABSTRACTS = 100_000
"""Abstracts in a collection; also the most lines or entries that may be skipped in one file."""
CHARACTERS = 20_000
"""Length of one abstract, title or other field; longer ones are cut and named in the report."""
LINES = 3_000_000
"""Lines of one file."""
PARTS = 10_000_000
"""Commas, tabs, bars and opening brackets of one file: a file of nothing else would fill the memory."""
ZIP_ENTRIES = 500
"""Files in one zip."""
NAME = 120
"""Characters of a file's name that are shown."""


def check_bytes(size: int, name: str) -> None:
    """ValueError if a file of this size is too large."""
    if size > FILE_BYTES:
        raise ValueError(f"{name}: {size / 1e6:,.1f} MB; a file may have up to {FILE_BYTES / 1e6:,.0f} MB")


def check_text(text: str, name: str) -> None:
    """ValueError if a text has so many lines or parts that its records would fill the memory."""
    lines = sum(map(text.count, "\n\r\x0b\x0c\x85\u2028\u2029")) - text.count("\r\n")
    if lines > LINES:
        raise ValueError(f"{name}: {lines:,} lines; a file may have up to {LINES:,}")
    parts = sum(map(text.count, ",\t|;[{"))
    if parts > PARTS:
        raise ValueError(f"{name}: {parts:,} separators and brackets; a file may have up to {PARTS:,}")


def check_count(count: int, name: str) -> None:
    """ValueError if there are too many abstracts."""
    if count > ABSTRACTS:
        raise ValueError(f"{name}: {count:,} abstracts; a collection may have up to {ABSTRACTS:,}")
