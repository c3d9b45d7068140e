"""Bring your own list of abstracts: drop or paste, see what was read, show it, take it away."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pandas as pd
import streamlit as st

from core.abstracts import Collection, Reading, Report, escape, limits, read_texts
from pages.parts import library, map_panels, reading_list, shelf, shell
from pages.parts.shelf import Shown

shell.begin()

ROWS, NOTES = 5_000, 200  # so many are shown; the whole list leaves by the download buttons


# --- bringing a list -----------------------------------------------------------------------------------


def bring() -> None:
    """The places where a list comes in."""
    files, paste, place = st.tabs(["Files", "Paste", "Place one abstract"])
    with files:
        given = st.file_uploader(
            "Files",
            accept_multiple_files=True,
            key=f"collection.files.{st.session_state.get('collection.round', 0)}",
            label_visibility="collapsed",
        )
        st.caption(
            f"Text, Markdown, CSV, JSON, BibTeX, RIS or a zip of them · up to {limits.FILE_BYTES // 1_000_000} MB "
            f"a file and {limits.ABSTRACTS:,} abstracts"
        )
        if given:
            consider([(f.getvalue(), f.name) for f in given])
    with paste:
        text = st.text_area(
            "Abstracts",
            key="collection.text",
            height=200,
            label_visibility="collapsed",
            placeholder="Paste abstracts, one a paragraph: with or without titles",
        )
        if st.button("Read", key="collection.read", disabled=not text.strip()):
            consider([(text, "pasted")])
    with place:
        place_one()


def consider(files: Sequence[tuple[bytes | str, str]]) -> None:
    """Read files and hold the result for a look; what is shown stays until the reader says so."""
    key = tuple((name, hash(content)) for content, name in files)
    if st.session_state.get("collection.key") == key:
        return
    st.session_state["collection.key"], st.session_state["collection.given"] = key, files
    read(Reading())


def read(how: Reading) -> None:
    """Read the held files in this way."""
    state = st.session_state
    state["collection.how"] = how
    try:
        state["collection.draft"] = read_texts(state["collection.given"], how)
        state["collection.problem"] = ""
    except ValueError as error:
        state["collection.draft"], state["collection.problem"] = None, str(error)


def forget_draft() -> None:
    """A callback: let go of what was read but not used."""
    for key in ("key", "given", "draft", "problem", "how"):
        st.session_state.pop(f"collection.{key}", None)
    st.session_state["collection.round"] = st.session_state.get("collection.round", 0) + 1


def use(add: bool) -> None:
    """A callback: show the draft as the own list, or add it to that."""
    draft: Collection = st.session_state["collection.draft"]
    name = (st.session_state.get("collection.name") or "").strip()
    shelf.put(replace(draft, name=name or draft.name), add=add)
    forget_draft()


def draft() -> None:
    """What was read just now: report, guesses to undo, a look at it, and what to do with it."""
    state = st.session_state
    if problem := state.get("collection.problem"):
        st.error(problem, icon=":material/block:")
        return
    found: Collection | None = state.get("collection.draft")
    if found is None:
        return
    with st.container(border=True):
        badges(found.report, len(found))
        st.text_input("Name", found.name, key="collection.name")
        guesses(found.report)
        st.dataframe(
            pd.DataFrame([(a.title, a.plain[:160]) for a in found.abstracts[:20]], columns=["Title", "Begins"]),
            row_height=32,
            height=180,
            hide_index=True,
            alt="The first abstracts as they were read",
        )
        with st.container(horizontal=True):
            st.button("Show this list", icon=":material/check:", on_click=use, args=(False,), key="collection.use")
            if shelf.own() is not None:
                st.button("Add to my list", on_click=use, args=(True,), key="collection.add")
            st.button("Forget it", type="tertiary", on_click=forget_draft, key="collection.forget")


def guesses(report: Report) -> None:
    """What was guessed while reading, each guess with a switch that undoes it."""
    how: Reading = st.session_state.get("collection.how") or Reading()
    switches = {
        "header": ("The first line is a header, not an abstract", report.guessed_header),
        "titles": ("Short lines before abstracts are titles", report.guessed_titles),
        "join": (f"{len(report.joined)} pieces belong to the abstract before them", bool(report.joined)),
    }
    for name, (words, guessed) in switches.items():
        kept = getattr(how, name) is not False
        if not guessed and kept:
            continue
        key = f"collection.{name}.{st.session_state.get('collection.round', 0)}"
        if st.toggle(words, value=kept, key=key) != kept:
            read(replace(how, **{name: False if kept else getattr(Reading(), name)}))
            st.rerun()


# --- one abstract --------------------------------------------------------------------------------------


def place_one() -> None:
    """Where a pasted abstract falls: topic, nearest papers and why, nearest methods that run."""
    text = st.text_area(
        "Your abstract",
        key="collection.one",
        height=200,
        label_visibility="collapsed",
        placeholder="Paste one abstract, a draft's too: it stays in this session",
        max_chars=limits.CHARACTERS,
    )
    if len(text.strip()) < 40:
        return
    now = shelf.shown()
    if not now.ready() or now.topic_map is None:
        st.caption("The map of this collection is still being drawn.")
        return
    placed = now.topic_map.place(text, k=8)
    near = [n for n in placed.neighbours if n.close]
    if not placed.neighbours or not near:
        st.markdown(":gray[No close paper in this collection.]")
        return
    topic = now.topic_map.topics[placed.topic]
    st.markdown(f"It falls among **{escape(topic.label)}**." if not topic.mixed else "It falls among mixed papers.")
    st.markdown("#### Nearest, and why")
    map_panels.neighbours(near[:5], "collection.near")
    methods = [(n, d) for n in shelf.built_in_near(text) if (d := library.demo_of(n.abstract)) is not None]
    if methods:
        st.markdown("#### Nearest methods that run")
    for n, demo in methods[:3]:
        st.page_link(
            shell.page_path("method.py"),
            label=f"**{escape(demo.name)}** {escape(', '.join(n.shared))}",
            icon=":material/play_arrow:",
            query_params={"method": demo.id},
        )


# --- what there is -------------------------------------------------------------------------------------


def badges(report: Report, count: int) -> None:
    """The report in a line."""
    parts = [f":blue-badge[{count:,} abstracts]"]
    for n, word in (
        (len(report.encodings), "files"),
        (len(report.joined), "joined"),
        (len(report.duplicates), "duplicates"),
        (len(report.placeholders), "without abstract"),
        (len(report.skipped), "skipped"),
    ):
        parts.append(f":gray-badge[{n:,} {word}]")
    parts += [f":gray-badge[{escape(e)}]" for e in dict.fromkeys(report.encodings.values())]
    st.markdown(" ".join(parts))


def notes(report: Report) -> None:
    """Everything that reading did, place by place."""
    rows = [
        (what, n.file, n.line, n.reason)
        for what, found in (
            ("skipped", report.skipped),
            ("duplicate", report.duplicates),
            ("no abstract", report.placeholders),
            ("joined", report.joined),
            ("cut", report.cut),
        )
        for n in found
    ]
    with st.expander("What was guessed while reading", icon=":material/rule:"):
        for guess in report.guesses:
            st.markdown(f"- {escape(guess)}")
        if rows:
            table = pd.DataFrame(rows[:NOTES], columns=["what", "file", "line", "reason"])
            st.dataframe(table, hide_index=True, row_height=32, alt="Remarks of the reader, place by place")
        if len(rows) > NOTES:
            st.caption(f"and {len(rows) - NOTES:,} more")
        if not rows and not report.guesses:
            st.caption("Nothing: every abstract stands as it was in the file.")


def table(now: Shown) -> None:
    """The list that is shown, filtered."""
    head, box = st.columns([3, 2], vertical_alignment="center")
    head.subheader(escape(now.collection.name), anchor=False)
    query = box.text_input(
        "Filter",
        key="collection.query",
        icon=":material/search:",
        label_visibility="collapsed",
        placeholder="Filter",
    )
    badges(now.collection.report, len(now.collection))
    the_map = now.topic_map if now.ready() else None
    if query.strip():
        abstracts = [now.mapped[m.index] for m in now.search(query)]
    else:
        abstracts = list(now.collection.abstracts)
    rows = [
        {
            "#": i + 1,
            "Title": a.title,
            "Topic": "" if the_map is None or a.id not in the_map.index_of else topic_of(the_map, a.id),
            "Runs": "●" if library.demo_of(a) is not None else "○",
            "Saved": "★" if a.id in reading_list.starred() else "",
        }
        for i, a in enumerate(abstracts[:ROWS])
    ]
    st.dataframe(
        pd.DataFrame(rows, columns=["#", "Title", "Topic", "Runs", "Saved"]),
        hide_index=True,
        row_height=32,
        height=560,
        alt=f"{len(rows)} abstracts of {now.collection.name}",
        column_config={
            "#": st.column_config.NumberColumn(width=50),
            "Title": st.column_config.TextColumn(width=420),
        },
        key="collection.table",
        on_select="rerun",
        selection_mode="multi-row",
    )
    if len(abstracts) > ROWS:
        st.caption(f"The first {ROWS:,} of {len(abstracts):,}.")
    if not abstracts:
        st.caption("Nothing passes this filter.")
    chosen = st.session_state["collection.table"]["selection"]["rows"]
    if picked := [abstracts[i] for i in chosen if i < len(abstracts)]:
        st.button(
            f"Add {len(picked)} to my reading list",
            icon=":material/star:",
            type="tertiary",
            on_click=reading_list.add,
            args=(picked,),
        )
    notes(now.collection.report)


def topic_of(the_map, key: str) -> str:
    return the_map.topics[the_map.topic_of[the_map.index_of[key]]].label


def showing() -> None:
    """Which collection the map and the search show."""
    mine = shelf.own()
    names: dict[str, str] = {"built-in": f"{library.collection().name} · built in, {len(library.collection())}"}
    if mine is not None:
        names |= {"own": f"{mine.collection.name} · {len(mine.collection):,}", "both": "Both together"}
    st.markdown("#### Showing")
    st.session_state["collection.choice"] = shelf.choice()
    st.radio(
        "Showing",
        list(names),
        key="collection.choice",
        format_func=names.__getitem__,
        label_visibility="collapsed",
        on_change=_chosen,
    )
    if mine is not None:
        st.button(
            "Forget my list", type="tertiary", icon=":material/delete:", on_click=shelf.drop, key="collection.drop"
        )


def _chosen() -> None:
    st.session_state["shelf.choice"] = st.session_state["collection.choice"]


def away(now: Shown) -> None:
    """Downloads of the list that is shown and of the reading list."""
    st.markdown("#### Take it away")
    reading_list.take_away(now.collection.abstracts, "abstracts", "collection.away")
    starred = list(reading_list.starred().values())
    if starred:
        st.markdown(f"#### Reading list · {len(starred)}")
        reading_list.take_away(starred, "reading-list", "collection.starred")
        clear: Callable[[], None] = reading_list.starred().clear
        st.button("Clear", type="tertiary", icon=":material/close:", on_click=clear, key="collection.unstar")


def main() -> None:
    with shell.sheet("collection"):
        left, right = st.columns([5, 8], gap="large")
        with left:
            st.title("Your own list", anchor=False)
            st.markdown(
                "Drop abstracts in any common form. They stay in this browser session and are gone when you close it."
            )
            bring()
            draft()
            showing()
        now = shelf.shown()
        with left:
            away(now)
        with right:
            table(now)


main()
