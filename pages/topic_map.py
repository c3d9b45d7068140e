"""A collection as a map: topics, search, neighbours with their reasons, selections."""

from __future__ import annotations

import html
from functools import partial
from typing import Any

import numpy as np
import plotly.graph_objects as go
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.abstracts import Abstract
from core.topics import TopicMap, levels, map_figure
from core.topics.colouring import Colouring, by_column, by_kind, by_number, columns
from core.topics.map_picture import Canvas
from pages.parts import address, library, map_panels, names, share, shelf, shell, snapshot
from pages.parts.address import Field
from pages.parts.shelf import Shown

shell.begin()

TOPIC, VERDICTS, FILE, SCORE = "Topic", "Verdicts", "File", "Search score"
LEVELS = ("Fine", "Broad")
VERDICT_HUES = {"holds": ("#0072B2", "#56B4E9"), "fails": ("#D55E00", "#F08A3C"), "": ("#6B7076", "#9AA0A6")}
WORDED = {"holds": "all that was tested holds or is unclear", "fails": "a claim does not hold", "": "does not run"}


def views() -> list[str]:
    """By what the points can be coloured."""
    abstracts = shelf.shown().mapped
    out = [TOPIC]
    if shelf.shown().runs:
        out.append(VERDICTS)
    if len({a.source for a in abstracts}) > 1:
        out.append(FILE)
    return [*out, *columns([a.extra for a in abstracts]), SCORE]


def fields() -> tuple[Field, ...]:
    """What a link to this page carries."""
    the_map = shelf.shown().topic_map
    return (
        Field(
            "abstract",
            "map.abstract",
            options=lambda: [a.id for a in shelf.shown().mapped],
            wrong="This collection has no abstract “{}”.".format,
        ),
        Field("level", "map.level", LEVELS[0], lambda: LEVELS),
        Field(
            "topic",
            "map.topic",
            options=(lambda: topic_names(shelf.shown())) if the_map else None,
            wrong="This map has no topic “{}”.".format,
        ),
        Field("q", "map.query"),
        Field("colour", "map.view", TOPIC, views),
    )


def topic_names(shown: Shown) -> list[str]:
    """Names of the topics of both levels."""
    return [t.label for m in (shown.topic_map, shown.broad()) if m is not None for t in m.topics]


def levelled(shown: Shown) -> TopicMap:
    """The map of what is shown at the level of topics that was asked for."""
    assert shown.topic_map is not None
    many = len(shown.topic_map.topics) >= levels.LEVELS_FROM
    return shown.broad() if many and st.session_state.get("map.level") == LEVELS[1] else shown.topic_map


def colouring(the_map: TopicMap, dark: bool) -> Colouring | None:
    """Colours of the points in the chosen view; None means the topics' own hues."""
    view, abstracts = st.session_state.get("map.view") or TOPIC, shelf.shown().mapped
    if view == TOPIC:
        return None
    if view == FILE:
        return by_kind([a.source for a in abstracts], dark)
    if view == VERDICTS:
        found = [_outcome(a) for a in abstracts]
        legend = [(WORDED[o], hues[dark], found.count(o)) for o, hues in VERDICT_HUES.items()]
        return Colouring([VERDICT_HUES[o][dark] for o in found], legend)
    if view == SCORE:
        scores = np.full(len(abstracts), np.nan)
        for match in shelf.shown().search((st.session_state.get("map.query") or "").strip()):
            scores[match.index] = match.score
        return by_number(scores.tolist(), dark)
    return by_column([a.extra.get(view, "") for a in abstracts], dark)


def _outcome(abstract: Abstract) -> str:
    """What the claims of an abstract come to: 'fails' if one does, 'holds' if one does, else ''."""
    demo = library.demo_of(abstract)
    found = {v.outcome for v in library.verdicts(demo)} if demo else set()
    return "fails" if "fails" in found else "holds" if "holds" in found else ""


def lit_papers(the_map: TopicMap) -> list[int] | None:
    """Indices that stay bright: what the query finds, or the chosen topic's papers; None for all."""
    query = (st.session_state.get("map.query") or "").strip()
    if query:
        return [m.index for m in shelf.shown().search(query)]
    topic = st.session_state.get("map.topic")
    return next((list(t.members) for t in the_map.topics if t.label == topic), None) if topic else None


def toolbar(shown: Shown) -> DeltaGenerator:
    """Search, colours, levels and what the points mean; returns the place at its right end."""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.text_input(
            "Search",
            key="map.query",
            icon=":material/search:",
            label_visibility="collapsed",
            placeholder="Search titles and abstracts",
            width=260,
        )
        choices = views()
        if len(choices) <= 4:
            st.segmented_control("Colour", choices, key="map.view", required=True, label_visibility="collapsed")
        else:
            st.selectbox("Colour", choices, key="map.view", label_visibility="collapsed", width=150)
        if shown.topic_map is not None and len(shown.topic_map.topics) >= levels.LEVELS_FROM:
            st.segmented_control("Topics", LEVELS, key="map.level", required=True, label_visibility="collapsed")
        st.space("stretch")
        if shown.runs:
            st.markdown(":small[:gray[● runs ○ abstract only]]")
        return st.container(width="content")


def figure(shown: Shown, the_map: TopicMap, canvas: Canvas, drag: str | bool = "pan", **options: Any) -> go.Figure:
    """The map as it is shown, without its chosen paper's lines where nothing is chosen."""
    chosen = the_map.index_of.get(st.session_state.get("map.abstract") or "")
    linked = [n.index for n in map_panels.near(the_map, chosen)] if chosen is not None else []
    found = colouring(the_map, shell.is_dark())
    fig = map_figure.figure(
        the_map,
        shown.names,
        shown.runs,
        canvas=canvas,
        dark=shell.is_dark(),
        chosen=chosen,
        linked=linked,
        lit=lit_papers(the_map),
        colours=found.colours if found else None,
        hover=shown.hover,
        **options,
    )
    return fig.update_layout(dragmode=drag)


def draw_map(shown: Shown, the_map: TopicMap) -> list[str]:
    """The map; returns the ids of a box or lasso selection."""
    generation = st.session_state.get("map.generation", 0)
    alt = f"Map of {len(the_map)} abstracts. Topics: " + ", ".join(t.label for t in the_map.topics if not t.mixed)
    picked: list[Any] = []
    for form, canvas, size in (("wide", Canvas(830, 640), 18), ("narrow", Canvas(370, 430), 15)):
        drag = "pan" if form == "wide" else False
        state = tuple(
            str(st.session_state.get(f"map.{part}") or "")
            for part in ("abstract", "topic", "query", "view", "level")
        )
        fig = shown.figure(
            (form, shell.is_dark(), library.catalogue_key(), *state),
            partial(figure, shown, the_map, canvas, drag, paper_names=False, topic_size=size),
        )
        with st.container(key=form):
            event = st.plotly_chart(
                fig,
                key=f"map.{form}.{generation}",
                on_select="rerun",
                selection_mode=("points", "box", "lasso"),
                alt=alt,
                config={"displayModeBar": "hover", "displaylogo": False, "scrollZoom": form == "wide"},
            )
        picked = picked or [p["customdata"] for p in event["selection"]["points"] if p.get("customdata")]
    names.follow("wide")
    if found := colouring(the_map, shell.is_dark()):
        legend(found)
    st.caption(trust_in_words(the_map))
    return [p[0] if isinstance(p, list) else p for p in picked]


def legend(found: Colouring) -> None:
    """What the colours mean."""
    parts = [
        f'<span><span style="color:{colour}">●</span> {html.escape(words)}{f" {n:,}" if n else ""}</span>'
        for words, colour, n in found.legend
    ]
    st.html(f'<div class="legend">{"".join(parts)}</div>')


def trust_in_words(the_map: TopicMap) -> str:
    """What nearness on this map is worth."""
    kept = the_map.trust
    words = "few" if kept < 0.25 else "less than half" if kept < 0.45 else "about half" if kept < 0.6 else "most"
    return (
        f"Near means similar words. On this map of {len(the_map):,} papers {words} of a paper's nearest "
        f"neighbours stand next to it: read groups as hints. {int(the_map.lonely.sum()):,} papers have no close one."
    )


def below(shown: Shown, the_map: TopicMap) -> None:
    """Take the map away; fit it anew where papers were added to it."""
    with st.container(horizontal=True):
        st.download_button(
            "Map as a page",
            lambda: figure(shown, the_map, Canvas(1200, 800)).to_html(include_plotlyjs=True, full_html=True),
            "map.html",
            "text/html",
            type="tertiary",
            icon=":material/download:",
            on_click="ignore",
            help="One file with the live map, for a browser without a network. The button on the map saves a picture.",
        )
        snapshot.svg()
        if shown is not shelf.built_in():
            st.button(
                "Fit the map anew",
                type="tertiary",
                icon=":material/refresh:",
                on_click=shelf.settle,
                help="Papers that were added stand by their nearest ones; this lets all of them find their places.",
            )


def side_panel(shown: Shown, the_map: TopicMap, picked: list[str]) -> None:
    """What the right column shows, by what was chosen last."""
    chosen = the_map.index_of.get(st.session_state.get("map.abstract") or "")
    if len(picked) > 1:
        map_panels.selection(shown, the_map, picked)
    elif chosen is not None:
        map_panels.paper(shown, the_map, chosen)
    elif (st.session_state.get("map.query") or "").strip():
        map_panels.found(shown, lit_papers(the_map) or [])
    else:
        map_panels.topics(shown, the_map)


@st.fragment(run_every=1.5)
def wait(shown: Shown) -> None:
    """While a map is made, look every second whether it is there; search and the map before stay in use."""
    before = shown.topic_map
    shown.ready()
    if shown.topic_map is not before or shown.problem:
        st.rerun()
    seconds = shelf.expected_seconds(len(shown.mapped))
    if before is None:
        st.skeleton(height=560)
    st.caption(
        f"Drawing the map of {len(shown.mapped):,} papers, about {seconds:.0f} seconds. "
        "Search, the table under Collection and every other page work meanwhile."
    )


def main() -> None:
    shown = shelf.shown()
    shown.ready()
    wrong = address.read("map", fields())
    with shell.sheet("map"):
        address.messages(wrong)
        shelf.heading(shown)
        left, right = st.columns([9, 4], gap="large")
        picked: list[str] = []
        with left:
            to_share = toolbar(shown)
            if shown.topic_map is not None:
                the_map = levelled(shown)
                if the_map.has_map:
                    picked = draw_map(shown, the_map)
                    below(shown, the_map)
                else:
                    st.info("A map needs 8 abstracts or more; here is the list.", icon=":material/info:")
                    map_panels.papers(list(shown.mapped))
            elif shown.problem:
                st.error(shown.problem, icon=":material/error:")
        if len(picked) == 1 and picked[0] != st.session_state.get("map.abstract"):
            map_panels.choose(picked[0])
            st.rerun()
        with right:
            if shown.topic_map is not None:
                side_panel(shown, levelled(shown), picked)
            elif query := (st.session_state.get("map.query") or "").strip():
                map_panels.found(shown, [m.index for m in shown.search(query)])
        if shown.job is not None:
            with left:
                wait(shown)
        address.write("map", fields())
        with to_share:
            share.button(type="tertiary")


main()
