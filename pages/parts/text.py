"""Plain text into Markdown that shows exactly that text."""

from __future__ import annotations

_ACTIVE = "\\`*_{}[]()<>#+-.!|~$:&=^"


def escape(text: str) -> str:
    """The text with all characters escaped that Markdown could act on; line ends become spaces."""
    return "".join("\\" + c if c in _ACTIVE else c for c in " ".join(text.split()))
