"""Abstract files to records: `read_collection()` gives a `Collection` of `Abstract`s and a `Report`."""

from core.abstracts.markup import (
    Parsed,
    Quote,
    display_with_quotes,
    escape,
    find_quote,
    parse,
)
from core.abstracts.readers import read_collection, read_text, read_texts
from core.abstracts.record import Abstract, Collection, Note, Report, make_abstract, opening

__all__ = [
    "Abstract",
    "Collection",
    "Note",
    "Parsed",
    "Quote",
    "Report",
    "display_with_quotes",
    "escape",
    "find_quote",
    "make_abstract",
    "opening",
    "parse",
    "read_collection",
    "read_text",
    "read_texts",
]
