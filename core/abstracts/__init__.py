"""Abstract files to records: `read_collection()` gives a `Collection` of `Abstract`s and a `Report`."""

from core.abstracts import export, limits
from core.abstracts.markup import (
    Parsed,
    Quote,
    display_with_quotes,
    escape,
    find_quote,
    parse,
)
from core.abstracts.parsed_file import Reading
from core.abstracts.readers import read_collection, read_text, read_texts
from core.abstracts.record import Abstract, Collection, FileRead, Note, Report, make_abstract, opening

__all__ = [
    "Abstract",
    "Collection",
    "FileRead",
    "Note",
    "Parsed",
    "Quote",
    "Reading",
    "Report",
    "display_with_quotes",
    "escape",
    "export",
    "find_quote",
    "limits",
    "make_abstract",
    "opening",
    "parse",
    "read_collection",
    "read_text",
    "read_texts",
]
