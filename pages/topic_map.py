"""The collection as a map: topics, search, neighbours with their reasons, selections."""

from __future__ import annotations

import textwrap
from typing import Any

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.abstracts import Abstract, escape
from core.lab.verdicts import WORDS
from core.topics import Topic, map_figure
from core.topics.map_picture import Canvas
from pages.parts import address, library, share, shell, verdict_rows
from pages.parts.address import Field

shell.begin()

VIEWS = ("Topic", "Verdicts", "File")
FILE_HUES = (("#0072B2", "#B8860B"), ("#56B4E9", "#F0B429"))
FIELDS = (
    Field(
        "abstract",
        "map.abstract",
        options=lambda: list(library.topic_map().index_of),
        wrong="This collection has no abstract “{}”.".format,
    ),
    Field(
        "topic",
        "map.topic",
        options=lambda: [t.label for t in library.topic_map().topics],
        wrong="This map has no topic “{}”.".format,
    ),
    Field("q", "map.query"),
    Field("colour", "map.view", VIEWS[0], lambda: VIEWS),
)
VERDICT_HUES = {"holds": ("#0072B2", "#56B4E9"), "fails": ("#D55E00", "#F08A3C"), "": ("#6B7076", "#9AA0A6")}


def choose(abstract: str = "", topic: str = "") -> None:
    """A callback: look at an abstract, a topic, or at nothing in particular."""
    st.session_state["map.abstract"] = abstract
    st.session_state["map.topic"] = topic
    st.session_state["map.generation"] = st.session_state.get("map.generation", 0) + 1


def colours(view: str, dark: bool) -> list[str] | None:
    """Colours of the points for a view; None means the topics' own hues."""
    abstracts = library.collection().abstracts
    if view == "File":
        files = sorted({a.source for a in abstracts})
        return [FILE_HUES[dark][files.index(a.source) % 2] for a in abstracts]
    if view == "Verdicts":
        return [VERDICT_HUES[_outcome(a)][dark] for a in abstracts]
    return None


def _outcome(abstract: Abstract) -> str:
    """What the claims of an abstract come to: 'fails' if one does, 'holds' if one does, else ''."""
    demo = library.demo_of(abstract)
    found = {v.outcome for v in library.verdicts(demo)} if demo else set()
    return "fails" if "fails" in found else "holds" if "holds" in found else ""


def hover(abstract: Abstract) -> str:
    """Title and first sentence for a hover label, as safe text."""
    lines = textwrap.wrap(library.first_sentence(abstract.plain, 220), 60)
    safe = [map_figure.safe(line) for line in lines]
    return f"<b>{map_figure.safe(abstract.title)}</b><br>" + "<br>".join(safe)


def lit_papers() -> list[int] | None:
    """Indices that stay bright: what the query finds, or the chosen topic's papers; None for all."""
    query = (st.session_state.get("map.query") or "").strip()
    if query:
        return [m.index for m in library.topic_map().search(query)]
    topic = st.session_state.get("map.topic")
    if topic:
        return list(next(t.members for t in library.topic_map().topics if t.label == topic))
    return None


def toolbar() -> DeltaGenerator:
    """Search, colours and what the points mean; returns the place at its right end."""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.text_input(
            "Search",
            key="map.query",
            icon=":material/search:",
            label_visibility="collapsed",
            placeholder="Search titles and abstracts",
            width=300,
        )
        st.segmented_control("Colour", VIEWS, key="map.view", required=True, label_visibility="collapsed")
        st.space("stretch")
        st.markdown(":small[:gray[● runs ○ abstract only]]")
        return st.container(width="content")


def draw_map() -> list[str]:
    """The map; returns the ids of a box or lasso selection."""
    state = st.session_state
    the_map = library.topic_map()
    names, runs = library.names_and_runs(library.catalogue_key())
    chosen = the_map.index_of.get(state.get("map.abstract") or "")
    linked = [n.index for n in _near(chosen)] if chosen is not None else []
    lit, dark = lit_papers(), shell.is_dark()
    common: dict[str, Any] = {
        "dark": dark,
        "chosen": chosen,
        "linked": linked,
        "lit": lit,
        "colours": colours(state.get("map.view") or VIEWS[0], dark),
        "hover": [hover(a) for a in library.collection().abstracts],
    }
    alt = f"Map of {len(the_map)} abstracts. Topics: " + ", ".join(t.label for t in the_map.topics if not t.mixed)
    picked: list[str] = []
    for form, canvas, size in (("wide", Canvas(830, 640), 18), ("narrow", Canvas(370, 430), 15)):
        fig = map_figure.figure(
            the_map, names, runs, canvas=canvas, paper_names=form == "wide", topic_size=size, **common
        )
        fig.update_layout(dragmode="pan" if form == "wide" else False)
        with st.container(key=form):
            event = st.plotly_chart(
                fig,
                key=f"map.{form}.{state.get('map.generation', 0)}",
                on_select="rerun",
                selection_mode=("points", "box", "lasso"),
                alt=alt,
                config={"displayModeBar": "hover", "displaylogo": False, "scrollZoom": form == "wide"},
            )
        picked = picked or [p["customdata"] for p in event["selection"]["points"] if p.get("customdata")]
    st.caption(trust_in_words())
    return [p[0] if isinstance(p, list) else p for p in picked]


def trust_in_words() -> str:
    """What nearness on this map is worth."""
    the_map = library.topic_map()
    kept = the_map.trust
    words = "few" if kept < 0.25 else "less than half" if kept < 0.45 else "about half" if kept < 0.6 else "most"
    return (
        f"Near means similar words. On this map of {len(the_map)} papers {words} of a paper's nearest "
        f"neighbours stand next to it: read groups as hints. {int(the_map.lonely.sum())} papers have no close one."
    )


def _near(index: int) -> list:
    the_map = library.topic_map()
    return [n for n in the_map.neighbours(the_map.abstracts[index].id, 3) if n.close]


def paper_panel(index: int) -> None:
    """The chosen abstract: names, verdicts, the demo, its neighbours and why, its beginning."""
    abstract = library.collection().abstracts[index]
    demo = library.demo_of(abstract)
    with st.container(gap="xxsmall"):
        st.subheader(escape(library.short_name(abstract)), anchor=False)
        st.markdown(escape(abstract.title))
        if abstract.authors:
            st.markdown(f":small[:gray[{escape(abstract.authors)}]]")
    found = library.verdicts(demo) if demo is not None else []
    if demo is not None and found:
        rows = [
            f'<div class="vr" id="{verdict_rows.anchor(i, v)}"><span class="{v.outcome}" title="{WORDS[v.outcome]}">'
            f"{v.mark}</span><span>{map_figure.safe(c.says)}</span></div>"
            for i, (c, v) in enumerate(zip(demo.claims, found, strict=True))
        ]
        st.html(f'<div class="vrs short">{"".join(rows)}</div>')
    with st.container(horizontal=True):
        if demo is not None:
            st.page_link(
                shell.page_path("method.py"),
                label="Open the demo",
                icon=":material/play_arrow:",
                query_params={"method": demo.id},
            )
        st.button("All topics", type="tertiary", icon=":material/close:", on_click=choose, key="map.clear")
    near = _near(index)
    st.markdown("#### Nearest, and why")
    if not near:
        st.markdown(":gray[No close paper in this collection.]")
    for n in near:
        runs = "●" if library.demo_of(n.abstract) else "○"
        with st.container(gap=None):
            st.button(
                f"{runs} **{escape(library.short_name(n.abstract))}**",
                type="tertiary",
                key=f"map.near.{n.abstract.id}",
                on_click=choose,
                args=(n.abstract.id,),
            )
            st.markdown(f":small[:gray[{escape(', '.join(n.shared))}]]")
    with st.container(key="paper"):
        marked = demo is not None and found
        st.markdown(verdict_rows.annotated(demo, abstract, found) if marked else abstract.display)  # type: ignore[arg-type]
    if found:
        verdict_rows.legend()


def topic_panel() -> None:
    """All topics with their terms; the chosen one with its papers."""
    chosen = st.session_state.get("map.topic")
    for topic in library.topic_map().topics:
        if chosen and topic.label != chosen:
            continue
        with st.container(gap="xxsmall"):
            st.button(
                f"**{escape(topic.label)}** :gray[· {len(topic.members)}]",
                type="tertiary",
                key=f"map.topic.{topic.members[0]}",
                on_click=choose,
                kwargs={"topic": "" if chosen else topic.label},
                help="Show all topics" if chosen else "Show this topic's papers",
            )
            if not topic.mixed:
                st.markdown(f":small[:gray[{escape(', '.join(t.text for t in topic.terms[:6]))}]]")
            if topic.mixed and not chosen:
                st.markdown(":small[:gray[papers that share no telling phrase]]")
        if chosen:
            topic_members(topic)


def topic_members(topic: Topic) -> None:
    """Terms with weights and the papers of one topic."""
    terms = pd.DataFrame(
        {
            "term": [t.text for t in topic.terms],
            "weight": [t.weight for t in topic.terms],
            "here": [t.inside for t in topic.terms],
            "elsewhere": [t.outside for t in topic.terms],
        }
    )
    if len(terms):
        st.dataframe(
            terms,
            hide_index=True,
            row_height=30,
            height=min(35 * len(terms) + 38, 260),
            column_config={
                "weight": st.column_config.ProgressColumn(min_value=0, max_value=1, format="%.2f"),
                "here": st.column_config.NumberColumn(format="percent"),
                "elsewhere": st.column_config.NumberColumn(format="percent"),
            },
            alt=f"Most telling terms of the topic {topic.label} with their weights",
        )
    paper_list([library.collection().abstracts[i] for i in topic.members])
    st.button("All topics", type="tertiary", icon=":material/close:", on_click=choose, key="map.topics")


def paper_list(abstracts: list[Abstract]) -> None:
    """Papers as buttons that choose them."""
    for a in abstracts:
        mark = "●" if library.demo_of(a) else "○"
        st.button(
            f"{mark} {escape(library.short_name(a))}",
            type="tertiary",
            key=f"map.paper.{a.id}",
            help=escape(a.title),
            on_click=choose,
            args=(a.id,),
        )


def selection_panel(ids: list[str]) -> None:
    """What was lassoed: how many, telling phrases, a table to take away."""
    the_map = library.topic_map()
    members = [the_map.index_of[i] for i in ids]
    st.subheader(f"{len(members)} papers selected", anchor=False)
    terms = the_map.telling_terms(members)
    if terms:
        st.markdown(f":small[:gray[{escape(', '.join(t.text for t in terms[:8]))}]]")
    table = pd.DataFrame(
        [(a.title, library.demo_of(a) is not None) for a in (library.collection().abstracts[i] for i in members)],
        columns=["title", "runs"],
    )
    st.dataframe(table, hide_index=True, row_height=35, alt="The selected papers")
    st.download_button(
        "CSV",
        table.to_csv(index=False),
        "selection.csv",
        "text/csv",
        type="tertiary",
        icon=":material/download:",
        on_click="ignore",
    )


def search_panel(lit: list[int]) -> None:
    """Search results beside the map, best first, or the nearest words."""
    query = st.session_state["map.query"].strip()
    if not lit:
        found = library.topic_map().search(query)
        with st.container(border=True):
            st.markdown(f"Nothing here about **{escape(query)}**.")
            if found.suggestions:
                st.markdown("Nearest words: " + ", ".join(map(escape, found.suggestions)))
        return
    st.subheader(f"{len(lit)} found", anchor=False)
    paper_list([library.collection().abstracts[i] for i in lit[:25]])


def side_panel(picked: list[str]) -> None:
    """What the right column shows, by what was chosen last."""
    chosen = library.topic_map().index_of.get(st.session_state.get("map.abstract") or "")
    if len(picked) > 1:
        selection_panel(picked)
    elif chosen is not None:
        paper_panel(chosen)
    elif (st.session_state.get("map.query") or "").strip():
        search_panel(lit_papers() or [])
    else:
        topic_panel()


def main() -> None:
    wrong = address.read("map", FIELDS)
    with shell.sheet("map"):
        address.messages(wrong)
        left, right = st.columns([9, 4], gap="large")
        with left:
            to_share = toolbar()
            picked = draw_map()
        if len(picked) == 1 and picked[0] != st.session_state.get("map.abstract"):
            choose(picked[0])
            st.rerun()
        with right:
            side_panel(picked)
        address.write("map", FIELDS)
        with to_share:
            share.button(type="tertiary")


main()
