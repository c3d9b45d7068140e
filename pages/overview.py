"""The collection at a glance: what it is, search, the verdicts in one bar, and every method that runs."""

from __future__ import annotations

import plotly.graph_objects as go
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.abstracts import escape
from core.lab.demo import Demo
from core.lab.verdicts import MARKS, WORDS
from core.topics import map_figure
from core.topics.map_picture import Canvas
from pages.parts import address, library, share, shell, verdict_rows
from pages.parts.address import Field

shell.begin()

ORDERS = ("By topic", "Surprises first", "A–Z")
FIELDS = (Field("q", "overview.query"), Field("order", "overview.order", ORDERS[0], lambda: ORDERS))


def verdict_bar(counts: dict[str, int]) -> str:
    """Four proportional pieces as SVG."""
    total = sum(counts.values()) or 1
    colours = {
        "holds": ("#0072B2", "#56B4E9"),
        "fails": ("#D55E00", "#F08A3C"),
        "unclear": ("#6B7076", "#9AA0A6"),
    }
    light = "".join(f".{k}{{fill:{a}}}" for k, (a, _) in colours.items())
    dark = "".join(f".{k}{{fill:{b}}}" for k, (_, b) in colours.items())
    body, x = "", 0.0
    for outcome, count in counts.items():
        if not count:
            continue
        wide = count / total * 560
        style = (
            'fill="none" stroke="#8a8f94" stroke-width="1.5"' if outcome == "untestable" else f'class="{outcome}"'
        )
        body += f'<rect x="{x + 1:.1f}" y="1" width="{max(wide - 4, 2):.1f}" height="9" rx="2.5" {style}/>'
        x += wide
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 562 11" width="562" height="11"><style>{light}'
        f"@media (prefers-color-scheme:dark){{{dark}}}</style>{body}</svg>"
    )


def lead() -> str:
    """Title, two sentences, search and totals; returns the query."""
    counts, n = library.totals(), len(library.collection().abstracts)
    st.title("Abstracts that run", anchor=False)
    st.markdown(
        "Each paper here has a small, honest re-implementation of its method. Open one to see "
        "**which of its claims hold**, how strongly, and where they stop holding."
    )
    query = st.text_input(
        "Search",
        key="overview.query",
        icon=":material/search:",
        label_visibility="collapsed",
        placeholder=f"Search {n} abstracts: try “federated”, “spurious bias”, “attribution”",
    )
    st.markdown(f"![Verdicts in proportion]({shell.data_uri(verdict_bar(counts))})")
    words = {"holds": "hold", "fails": "do not hold"}
    parts = [
        f'<span class="{o}">{MARKS[o]}</span> {c} {words.get(o, WORDS[o])}'  # type: ignore[index]
        for o, c in counts.items()
    ]
    st.html(" &nbsp;&nbsp; ".join(parts))
    st.caption(
        f"{sum(counts.values())} claims of {len(library.demos())} methods, each decided over 8 seeds or more "
        "in our own small re-implementation, not the authors' code."
    )
    return query


@st.cache_resource(show_spinner=False, max_entries=4)
def map_drawn(catalogue: str, dark: bool) -> go.Figure:
    """The small map, shared by all sessions."""
    names, runs = library.names_and_runs(catalogue)
    canvas = Canvas(640, 330)
    fig = map_figure.figure(
        library.topic_map(), names, runs, canvas=canvas, dark=dark, paper_names=False, topic_size=15
    )
    return fig.update_layout(dragmode=False)


def small_map() -> DeltaGenerator:
    """The map without paper names, a picture to get an idea; returns the place beside its link."""
    topics = ", ".join(t.label for t in library.topic_map().topics if not t.mixed)
    with st.container(key="wide"):
        st.plotly_chart(
            map_drawn(library.catalogue_key(), shell.is_dark()),
            key="overview.map",
            config={"staticPlot": True},
            alt=f"Map of the abstracts by topic: {topics}",
        )
    with st.container(horizontal=True, vertical_alignment="center"):
        st.page_link(shell.page_path("topic_map.py"), label="Open the map", icon=":material/map:")
        return st.container(width="content")


def results(query: str) -> None:
    """Abstracts that a query finds, best first, or the nearest words of the collection."""
    found = library.topic_map().search(query, 12)
    if not found:
        with st.container(border=True):
            st.markdown(f"Nothing here about **{escape(query)}**.")
            if found.suggestions:
                st.markdown("Nearest words in this collection: " + ", ".join(map(escape, found.suggestions)))
        return
    st.subheader(f"{len(found)} abstracts", anchor=False)
    for match in found:
        abstract = library.collection().abstracts[match.index]
        demo = library.demo_of(abstract)
        with st.container(gap="xxsmall"):
            if demo is not None:
                st.page_link(
                    shell.page_path("method.py"),
                    label=f"**{escape(abstract.title)}**",
                    icon=":material/play_arrow:",
                    query_params={"method": demo.id},
                )
            else:
                st.page_link(
                    shell.page_path("topic_map.py"),
                    label=escape(abstract.title),
                    icon=":material/circle:",
                    query_params={"abstract": abstract.id},
                )
            st.markdown(f":small[{excerpt(abstract.plain, match.spans)}]")


def excerpt(text: str, spans: tuple[tuple[int, int], ...], around: int = 90) -> str:
    """The piece of a text around its first match, matches in bold, everything else escaped."""
    if not spans:
        return escape(library.first_sentence(text))
    start = max(0, spans[0][0] - around)
    end = min(len(text), spans[0][0] + 2 * around)
    out, at = "… " if start else "", start
    for a, b in spans:
        if start <= a and b <= end:
            out += escape(text[at:a]) + f"**{escape(text[a:b])}**"
            at = b
    return out + escape(text[at:end]) + (" …" if end < len(text) else "")


def order(demos: list[Demo], how: str) -> list[Demo]:
    """The gallery's order: by topic, surprises (claims that fail) first, or by name."""
    if how == "Surprises first":
        fails = {d.id: sum(v.outcome == "fails" for v in library.verdicts(d)) for d in demos}
        return sorted(demos, key=lambda d: (-fails[d.id], d.name.lower()))
    return sorted(demos, key=lambda d: ("" if how == "A–Z" else d.topic, d.name.lower()))


def card(demo: Demo) -> None:
    """One method: picture, name, line, marks, and the way in."""
    with st.container(border=True, height="stretch", gap="xsmall"):
        if svg := library.thumbnail(demo.id):
            st.markdown(f"![{escape(demo.name)}, in a picture]({shell.data_uri(svg)})")
        with st.container(gap="xxsmall"):
            st.markdown(f":small[:gray[{escape(demo.topic)}]]")
            st.markdown(f"**{escape(demo.name)}**")
            st.markdown(f":small[{escape(demo.line)}]")
        st.space("stretch")
        with st.container(horizontal=True, vertical_alignment="center"):
            found = library.verdicts(demo)
            st.html(verdict_rows.marks(found, demo.claims) if found else '<span class="untestable">○</span>')
            st.space("stretch")
            st.page_link(
                shell.page_path("method.py"),
                label="Run",
                icon=":material/play_arrow:",
                query_params={"method": demo.id},
            )


def gallery() -> None:
    """All methods that run, then what does not."""
    head, pick = st.columns([3, 2], vertical_alignment="center")
    head.subheader("Run one", anchor=False)
    with pick, st.container(horizontal=True, horizontal_alignment="right"):
        how = st.segmented_control(
            "Order",
            ORDERS,
            required=True,
            label_visibility="collapsed",
            key="overview.order",
        )
    with st.grid("auto", min_column_width=270, gap="medium"):
        for demo in order(list(library.demos().values()), how or "By topic"):
            card(demo)
    for name, reason in library.broken().items():
        st.warning(f"○ {name} does not load. {reason}", icon=":material/error:")
    waiting = [a for a in library.collection().abstracts if library.demo_of(a) is None]
    if waiting:
        st.space("medium")
        st.subheader("Not runnable yet", anchor=False)
        with st.grid("auto", min_column_width=270, gap="xxsmall"):
            for a in waiting:
                st.page_link(
                    shell.page_path("topic_map.py"),
                    label=f":gray[○ {escape(library.short_name(a))}]",
                    query_params={"abstract": a.id},
                    help=escape(a.title),
                )


def main() -> None:
    wrong = address.read("overview", FIELDS)
    with shell.sheet("overview"):
        address.messages(wrong)
        left, right = st.columns([6, 7], vertical_alignment="center", gap="large")
        with left:
            query = lead()
        with right:
            to_share = small_map()
        if query.strip():
            results(query)
        gallery()
        address.write("overview", FIELDS)
        with to_share:
            share.button(type="tertiary")


main()
