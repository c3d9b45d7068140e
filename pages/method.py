"""One abstract and its demo: the claim, the picture, the verdicts, then the knobs."""

from __future__ import annotations

import json

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.abstracts import Abstract, escape
from core.lab import charts, ledger
from core.lab.demo import Demo, caption
from core.lab.verdicts import Verdict, number
from pages.parts import (
    checklist,
    compute,
    library,
    link,
    settings_form,
    share,
    shell,
    snapshot,
    sweep,
    verdict_rows,
)
from pages.parts.link import Link

shell.begin()


def heading(now: Link, abstract: Abstract | None) -> DeltaGenerator:
    """Name, one line, paper and authors; previous and next at the right, and a place that is returned."""
    demo, order = now.demo, list(library.demos().values())
    at = [d.id for d in order].index(demo.id)
    left, right = st.columns([5, 2], vertical_alignment="center")
    with left, st.container(gap="xxsmall"):
        st.title(demo.name, anchor=False)
        st.markdown(demo.line)
        authors = f" · {abstract.authors}" if abstract is not None and abstract.authors else ""
        st.markdown(f":small[:gray[{escape(demo.paper.title + authors)}]]", wrap=False, width="stretch")
    with right, st.container(horizontal=True, horizontal_alignment="right"):
        before, after = order[at - 1], order[(at + 1) % len(order)]
        for sign, word, there in (("‹", "Previous", before), ("›", "Next", after)):
            st.button(
                sign,
                type="tertiary",
                help=f"{word}: {there.name}",
                key=word.lower(),
                on_click=link.go_to,
                args=(Link(there, there.settings()),),
            )
        return st.container(width="content")


def presets(now: Link) -> None:
    """The presets as one row of buttons; none is lit at other settings."""
    demo = now.demo
    key = f"{demo.id}/preset"
    st.session_state[key] = demo.preset_of(now.settings)

    def chosen() -> None:
        name = st.session_state[key]
        if name:
            link.go_to(Link(demo, demo.preset(name), now.seed, now.sweep))

    st.segmented_control("Preset", list(demo.presets), key=key, on_change=chosen, label_visibility="collapsed")


def figure(demo: Demo, index: int, run: compute.Shown) -> None:
    """A caption as headline with its figure below."""
    words = caption(demo.figures[index])
    first, _, rest = words.partition(". ")
    lead = first if first.endswith((".", "!", "?", ":")) else first + "."
    st.markdown(f"**{escape(lead)}** {escape(rest)}")
    fig = charts.in_theme(run.figures[index], shell.is_dark())
    st.plotly_chart(
        fig,
        key=f"{demo.id}.{demo.figures[index].__name__}",
        alt=words,
        config=shell.chart_config(f"{demo.id}-{index + 1}"),
    )


def verdict_block(now: Link, checked: pd.DataFrame | None) -> list[Verdict]:
    """Verdict rows with a line on their evidence; returns what the abstract is coloured by."""
    demo = now.demo
    preset = demo.preset_of(now.settings)
    default = library.verdicts(demo)
    if checked is not None:
        found = ledger.judge(demo, now.settings, checked)
        origin = f"{checked['seed'].nunique()} paired seeds · computed just now, at these settings"
    elif preset and (found := library.verdicts(demo, preset)):
        origin = f"{library.seeds(demo, preset)} paired seeds · from the ledger, preset “{preset}”"
    elif default:
        found, origin = (
            default,
            "**not at your settings but at the default ones**; check them here under Settings",
        )
    else:
        st.info(library.book_problem(demo), icon=":material/history:")
        return []
    st.html(verdict_rows.rows(demo, found, default if found is not default else ()))
    st.caption(f"Small re-implementation, not the authors' code · {origin}")
    return found


def check_here(now: Link, progress) -> pd.DataFrame | None:
    """The study at the present settings: a result, or the button and the progress that lead to it."""
    demo, state = now.demo, st.session_state
    key = (demo.id, now.settings)
    book = library.book(demo)
    seconds = (book.seconds() if book else 1.0) * demo.seeds
    busy = state.get("check.wanted") == key
    with st.container(horizontal=True, vertical_alignment="center"):
        if busy:
            st.button(
                "Stop",
                icon=":material/stop:",
                key="check.stop",
                on_click=lambda: state.pop("check.wanted", None),
            )
        else:
            st.button(
                "Check the claims here",
                icon=":material/fact_check:",
                key="check.start",
                on_click=lambda: state.update({"check.wanted": key}),
            )
            st.markdown(f":small[:gray[{demo.seeds} seeds, about {max(1, round(seconds))} s]]")
    done = state.get("check.done")
    if not busy:
        return done[1] if done and done[0] == key else None
    with progress:
        bar = st.progress(0.0)

    def report(i: int, of: int) -> None:
        bar.progress(i / of, f"Checking the claims here · seed {min(i + 1, of)} of {of}")

    try:
        frame = compute.live_study(demo, now.settings, demo.seeds, report)
    except ValueError as error:
        progress.error(str(error), icon=":material/block:")
        state.pop("check.wanted", None)
        return None
    state["check.done"] = (key, frame)
    state.pop("check.wanted", None)
    st.rerun()
    return None


def abstract_tab(demo: Demo, abstract: Abstract | None, verdicts: list[Verdict]) -> None:
    """The abstract with its claims marked, the marks' meaning, the paper's page and two neighbours."""
    if abstract is None:
        st.caption("The abstract of this method is not in the collection.")
        return
    with st.container(key="paper"):
        st.markdown(verdict_rows.annotated(demo, abstract, verdicts) if verdicts else abstract.display)
    verdict_rows.legend()
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        if demo.paper.url:
            st.link_button("ICML page", demo.paper.url, type="tertiary", icon=":material/open_in_new:")
        if demo.paper.code:
            st.link_button("Authors' code", demo.paper.code, type="tertiary", icon=":material/code:")
        near = [n for n in library.topic_map().neighbours(abstract.id, 6) if n.close]
        runnable = [(n, d) for n in near if (d := library.demo_of(n.abstract)) is not None]
        for n, other in runnable[:2]:
            st.button(
                f"Near: {other.name}",
                type="tertiary",
                key=f"near.{other.id}",
                on_click=link.go_to,
                args=(Link(other, other.settings()),),
                help="Shared words: " + ", ".join(n.shared),
            )


def downloads(now: Link, run: compute.Shown) -> None:
    """The numbers to take away."""
    demo = now.demo

    def table() -> str:
        rows = [(m, k, v, now.seed) for m, by in run.measures.items() for k, v in by.items()]
        return pd.DataFrame(rows, columns=["measure", "method", "value", "seed"]).to_csv(index=False)

    def data() -> str:
        parts = [pd.DataFrame(charts.data_table(f)).assign(figure=i + 1) for i, f in enumerate(run.figures)]
        return pd.concat(parts or [pd.DataFrame()]).to_csv(index=False)

    settings = {"method": demo.id, "seed": now.seed, "settings": now.settings.model_dump(mode="json")}
    with st.container(horizontal=True):
        for label, text, name, mime in (
            ("Measures", table, f"{demo.id}-measures.csv", "text/csv"),
            ("Figures' data", data, f"{demo.id}-figures.csv", "text/csv"),
            (
                "Settings",
                json.dumps(settings, indent=1, ensure_ascii=False),
                f"{demo.id}-settings.json",
                "application/json",
            ),
        ):
            st.download_button(
                label,
                text,
                name,
                mime,
                type="tertiary",
                icon=":material/download:",
                on_click="ignore",
                key=f"get.{name}",
            )
        snapshot.svg()


def measures_table(demo: Demo, run: compute.Shown) -> None:
    """All measures of this run: a row a measure, a column a method, empty where a method has none."""
    rows = {}
    for name, by in run.measures.items():
        m = demo.measures.get(name)
        if m is None:  # kept for a figure's band, not for reading
            continue
        arrow = {"lower": " ↓", "higher": " ↑", "": ""}[m.better]
        unit = f" ({m.unit})" if m.unit else ""
        rows[m.title + unit + arrow] = {k: number(v, m.digits) for k, v in by.items()}
    table = pd.DataFrame.from_dict(rows, orient="index").fillna("")
    st.dataframe(table, row_height=35, alt=f"Measures of {demo.name} at these settings, one seed")
    st.caption("One run at these settings. ↓ lower is better, ↑ higher is better.")


def main() -> None:
    """Draw the page: places first, then the controls, then what they lead to."""
    everything = library.demos()
    if not everything:
        st.error("No method can be loaded: " + " ".join(library.broken().values()))
        return
    now = link.settings_from_page(everything, next(iter(everything)))
    demo = now.demo
    abstract = library.abstract_of(demo)
    with shell.sheet("method"):
        to_share = heading(now, abstract)
        for message in now.messages:
            st.info(message, icon=":material/link:")
        if refused := st.session_state.get("link.refused"):
            st.error(
                f"{refused} The picture still shows the last settings that work together.",
                icon=":material/block:",
            )
        left, right = st.columns([15, 11], gap="large")
        with left:
            presets(now)
            first = st.empty()
            first.skeleton(height=charts.HEIGHT + 60)
            progress = st.container()
            judged = st.container()
            more = st.container()
        with right:
            tabs = st.tabs(["Abstract", "Settings", "How it works", "Code"])
            with tabs[1]:
                settings_form.draw(demo)
                checked = check_here(now, progress)
                st.caption(
                    "The picture follows these settings at once. Verdicts belong to a preset "
                    "until you check them here."
                )
        link.remember(now)
        with to_share:
            share.button()
        with judged:
            verdicts = verdict_block(now, checked)
        with tabs[0]:
            abstract_tab(demo, abstract, verdicts)
        with tabs[2]:
            st.markdown(demo.how_it_works)
        with tabs[3]:
            st.code(demo.source, language="python", height=640)
        run = compute.shown(demo, now.settings, now.seed)
        below_left, below_right = st.columns([15, 11], gap="large")
        fill(now, run, first, more)
        with below_left:
            sweep.draw(now)
            if demo.extra == "checklist":
                checklist.draw()
        with below_right:
            st.subheader("What is smaller than in the paper", anchor=False)
            st.markdown(demo.simplified)
            st.markdown(f"**Why it breaks.** {demo.why_it_breaks}")
            if not run.problem:
                measures_table(demo, run)
                downloads(now, run)


def fill(now: Link, run: compute.Shown, first, more) -> None:
    """Put the figures into their places."""
    if run.problem:
        first.empty()
        more.error(run.problem, icon=":material/block:")
        return
    with more:
        for i in range(1, len(run.figures)):
            figure(now.demo, i, run)
        for name, clip in run.sound.items():
            st.markdown(f":small[:gray[{escape(name)}]]")
            st.audio(clip, format="audio/wav")
    with first.container():
        figure(now.demo, 0, run)


main()
