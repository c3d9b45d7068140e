"""`python -m core.deck --methods bass,timing --out deck.html`: a deck as one file, for a talk without a network."""

from __future__ import annotations

import argparse
import sys
from functools import cache
from pathlib import Path

import plotly.graph_objects as go

from core import demos as demo_files
from core.abstracts import Abstract, read_collection
from core.deck import offline
from core.lab import ledger
from core.lab.demo import Demo
from core.lab.verdicts import Verdict
from core.topics import build_map


def build(methods: list[str], *, dark: bool = False, progress=lambda done: None) -> str:
    """The file's text for these ids; `ValueError` names an unknown id or a missing ledger."""
    everything = demo_files.catalogue()
    unknown = [m for m in methods if m not in everything]
    if unknown or not methods:
        raise ValueError(f"methods cannot be {', '.join(unknown) or 'empty'}: they may be {', '.join(everything)}")
    demos = [everything[m] for m in dict.fromkeys(methods)]
    collection = read_collection()
    topic_map = build_map(collection)
    books = {d.id: ledger.read(d) for d in demos}
    if missing := [i for i, book in books.items() if book is None]:
        raise ValueError(f"no ledger of {', '.join(missing)}: run python -m core.lab.study --only {missing[0]}")

    @cache
    def figure(demo_id: str, preset: str) -> go.Figure:
        demo, samples = everything[demo_id], books[demo_id].samples(preset)  # type: ignore[union-attr]
        return demo.draw(demo.figures[0], demo.run(demo.preset(preset), 0), samples)

    def drawn(demo: Demo, preset: str) -> go.Figure:
        return figure(demo.id, preset)

    def judged(demo: Demo, preset: str) -> list[Verdict]:
        return books[demo.id].verdicts(preset)  # type: ignore[union-attr]

    def abstract_of(demo: Demo) -> Abstract | None:
        return collection.opening_with(demo.abstract)

    names = [demo_files.short_name(a.title, a.plain) for a in collection]
    runs = [i for i, a in enumerate(collection) if demo_files.demo_of(a.plain)]
    lit = [topic_map.index_of[a.id] for d in demos if (a := abstract_of(d)) is not None]
    the_map = offline.deck_map(topic_map, names, runs, lit, dark)
    return offline.write(demos, collection, the_map, drawn, judged, abstract_of, dark=dark, progress=progress)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m core.deck", description=(__doc__ or "").split(": ", 1)[1])
    parser.add_argument("--methods", default="all", help="ids of methods in the order of the talk, or all")
    parser.add_argument("--out", type=Path, default=Path("deck.html"), help="the file to write")
    parser.add_argument("--theme", choices=("light", "dark"), default="light")
    options = parser.parse_args()
    wanted = options.methods.split(",") if options.methods != "all" else list(demo_files.catalogue())
    try:
        page = build(
            [w.strip() for w in wanted], dark=options.theme == "dark", progress=lambda n: print(n, end=" ")
        )
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    ledger.replace_file(options.out, page)
    print(f"\n{options.out}: {len(page.encode()) / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
