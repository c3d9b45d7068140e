"""What stands beside the map: a paper, a topic, a selection, what a search found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pandas as pd
import streamlit as st

from core.abstracts import Abstract, escape
from core.lab.verdicts import WORDS
from core.topics import Neighbour, Topic, TopicMap, map_figure
from core.topics.labels import telling
from pages.parts import library, reading_list, shell, verdict_rows
from pages.parts.shelf import Shown

SHOWN_TERMS, READ_TERMS, LISTED = 10, 40, 25
RELEVANCE = tuple(i / 10 for i in range(11))


def choose(abstract: str = "", topic: str = "") -> None:
    """A callback: look at an abstract, a topic, or at nothing in particular."""
    st.session_state["map.abstract"] = abstract
    st.session_state["map.topic"] = topic
    st.session_state["map.generation"] = st.session_state.get("map.generation", 0) + 1


def near(the_map: TopicMap, index: int) -> list[Neighbour]:
    """The close papers among the three nearest."""
    return [n for n in the_map.neighbours(the_map.abstracts[index].id, 3) if n.close]


def neighbours(found: Sequence[Neighbour], key: str) -> None:
    """Papers near another, each with the shared words as the reason, or that there is none."""
    if not found:
        st.markdown(":gray[No close paper in this collection.]")
    for n in found:
        runs = "●" if library.demo_of(n.abstract) else "○"
        with st.container(gap=None):
            st.button(
                f"{runs} **{escape(library.short_name(n.abstract))}**",
                type="tertiary",
                key=f"{key}.{n.abstract.id}",
                help=escape(n.abstract.title),
                on_click=choose,
                args=(n.abstract.id,),
            )
            st.markdown(f":small[:gray[{escape(', '.join(n.shared))}]]")


def paper(shown: Shown, the_map: TopicMap, index: int) -> None:
    """The chosen abstract: names, verdicts, the demo, its neighbours and why, its text."""
    abstract = shown.mapped[index]
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
        reading_list.star(abstract)
        st.button("All topics", type="tertiary", icon=":material/close:", on_click=choose, key="map.clear")
    st.markdown("#### Nearest, and why")
    neighbours(near(the_map, index), "map.near")
    with st.container(key="paper"):
        marked = demo is not None and found
        st.markdown(verdict_rows.annotated(demo, abstract, found) if marked else abstract.display)  # type: ignore[arg-type]
    if found:
        verdict_rows.legend()


def topics(shown: Shown, the_map: TopicMap) -> None:
    """All topics with their terms; the chosen one with its papers."""
    chosen = st.session_state.get("map.topic")
    for topic in the_map.topics:
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
            if not topic.mixed and not chosen:
                st.markdown(f":small[:gray[{escape(', '.join(t.text for t in topic.terms[:6]))}]]")
            if topic.mixed and not chosen:
                st.markdown(":small[:gray[papers that share no telling phrase]]")
        if chosen:
            members(shown, the_map, topic)
            break


def members(shown: Shown, the_map: TopicMap, topic: Topic) -> None:
    """Terms by relevance, the most central paper, and the papers of one topic."""
    balance = st.select_slider(
        "Terms that are",
        RELEVANCE,
        0.4,
        key="map.relevance",
        format_func=lambda v: {0.0: "telling", 1.0: "frequent"}.get(v, f"{v:.1f}"),
        help="Telling phrases hardly occur in other topics; frequent ones are in most papers of this topic.",
    )
    found = [t for _, t in telling(the_map.phrase_book, list(topic.members), READ_TERMS)]
    found = sorted(found, key=lambda t: -t.relevance(balance))[:SHOWN_TERMS]
    if found:
        table = pd.DataFrame(
            {
                "term": [t.text for t in found],
                "here": [t.inside for t in found],
                "elsewhere": [t.outside for t in found],
            }
        )
        share = st.column_config.ProgressColumn(min_value=0, max_value=1, format="percent")
        st.dataframe(
            table,
            hide_index=True,
            row_height=30,
            column_config={"here": share, "elsewhere": share},
            alt=f"Terms of the topic {topic.label}: share of its papers that use each, and of the others",
        )
    st.markdown(f":small[:gray[Most central: {escape(shown.mapped[topic.central].title)}]]")
    papers([shown.mapped[i] for i in topic.members])
    st.button("All topics", type="tertiary", icon=":material/close:", on_click=choose, key="map.topics")


def papers(abstracts: Sequence[Abstract]) -> None:
    """The first papers as buttons that choose them, and how many more there are."""
    for a in abstracts[:LISTED]:
        mark = "●" if library.demo_of(a) else "○"
        st.button(
            f"{mark} {escape(library.short_name(a))}",
            type="tertiary",
            key=f"map.paper.{a.id}",
            help=escape(a.title),
            on_click=choose,
            args=(a.id,),
        )
    if len(abstracts) > LISTED:
        st.caption(f"and {len(abstracts) - LISTED} more")


def selection(shown: Shown, the_map: TopicMap, ids: Sequence[str]) -> None:
    """What was lassoed: how many, of which topics, telling phrases against the rest, a table to take away."""
    chosen = [the_map.index_of[i] for i in ids if i in the_map.index_of]
    abstracts = [shown.mapped[i] for i in chosen]
    st.subheader(f"{len(chosen)} papers selected", anchor=False)
    if terms := the_map.telling_terms(chosen):
        st.markdown("More here than elsewhere: " + escape(", ".join(t.text for t in terms[:8])))
    counts = Counter(the_map.topics[the_map.topic_of[i]].label for i in chosen)
    words = ", ".join(f"{label} {n}" for label, n in counts.most_common(6))
    st.markdown(f":small[:gray[{escape(words)}]]")
    table = pd.DataFrame(
        {
            "title": [a.title for a in abstracts],
            "topic": [the_map.topics[the_map.topic_of[i]].label for i in chosen],
            "runs": ["●" if library.demo_of(a) is not None else "○" for a in abstracts],
        }
    )
    st.dataframe(table, hide_index=True, row_height=35, alt="The selected papers")
    reading_list.take_away(abstracts, "selection", "map.selection")
    st.button(
        "Add to my reading list",
        type="tertiary",
        icon=":material/star:",
        on_click=reading_list.add,
        args=(abstracts,),
        key="map.star.selection",
    )


def found(shown: Shown, lit: Sequence[int]) -> None:
    """Search results, best first, or the nearest words of the collection."""
    query = st.session_state["map.query"].strip()
    if not lit:
        suggestions = shown.search(query).suggestions
        with st.container(border=True):
            st.markdown(f"Nothing here about **{escape(query)}**.")
            if suggestions:
                st.markdown("Nearest words: " + ", ".join(map(escape, suggestions)))
        return
    st.subheader(f"{len(lit)} found", anchor=False)
    papers([shown.mapped[i] for i in lit])
