"""Slides for a talk: choose methods, then one claim and its limit at a time, by key or by button."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path

import plotly.graph_objects as go
import streamlit as st

from core.abstracts import escape
from core.deck import Slide, headline, offline, text
from core.deck.figures import same_axes
from core.lab import charts
from core.lab.demo import Control, Demo, Settings, caption, controls
from pages.parts import compute, deck_link, keys, library, settings_form, share, shell
from pages.parts.deck_link import Deck
from pages.parts.keys import Window

shell.begin()

STYLE = (Path(text.__file__).parent / "slide.css").read_text(encoding="utf-8")
STAGE = """
header[data-testid="stHeader"], [data-testid="stToolbar"], [data-testid="stDecoration"] { display: none; }
[data-testid="stMainBlockContainer"] { padding: 0; }
.st-key-stage { padding: calc(34px * var(--k, 1)) calc(56px * var(--k, 1)) 12px; min-height: 100vh; max-width: 100vw; }
.st-key-stage-body { min-height: calc(590px * var(--k, 1)); }
.st-key-keys { position: absolute; width: 0; height: 0; overflow: hidden; }
.st-key-notes { position: fixed; right: 0; top: 0; bottom: 0; width: min(560px, 100vw); overflow-y: auto; z-index: 99;
  padding: 24px 28px; background: light-dark(#F6F5F1, #1D2126); box-shadow: -2px 0 14px rgba(0, 0, 0, .18); }
@media (max-width: 760px) { .st-key-stage { padding: 14px; min-height: 0; } .st-key-stage-body { min-height: 0; } }
"""
_ahead = ThreadPoolExecutor(max_workers=1, thread_name_prefix="slides-ahead")


# --- figures -------------------------------------------------------------------------------------------


@st.cache_data(show_spinner=False, max_entries=120, max_size="80MB")
def figures(demo_id: str, kind: str, settings: Settings, window: Window, stamp: float) -> list[go.Figure] | str:
    """A slide's figures in the light palette, sized for the window: one, or default beside `settings`.

    A sentence where a run failed.
    """
    demo = library.demos()[demo_id]
    runs = [compute.shown(demo, s, 0) for s in ([settings] if kind == "claim" else [demo.settings(), settings])]
    for run in runs:
        if run.problem:
            return run.problem
    drawn = [run.figures[0] for run in runs]
    if kind == "claim":
        return drawn if window.narrow else [offline.claim_figure(drawn[0], window.scale)]
    return list(same_axes(*drawn)) if window.narrow else offline.break_figures(drawn[0], drawn[1], window.scale)


def slide_figures(slide: Slide, settings: Settings | None, window: Window) -> list[go.Figure] | str:
    """The figures of a method's slide."""
    assert slide.demo is not None
    asked = settings or deck_link.own_settings(slide)
    assert asked is not None
    return figures(slide.demo.id, slide.kind, asked, window, library.stamp(slide.demo))


def compute_ahead(deck: Deck) -> None:
    """Have the neighbours' demos computed in the background, the next slides first."""
    window = keys.window()
    for step in (1, 2, -1):
        at = deck.slide - 1 + step
        if 0 <= at < len(deck.slides) and deck.slides[at].demo is not None:
            _ahead.submit(slide_figures, deck.slides[at], None, window)


def chart(fig: go.Figure, key: str, alt: str) -> None:
    """A figure in the viewer's theme."""
    fig = charts.in_theme(fig, shell.is_dark())
    st.plotly_chart(fig, key=key, alt=alt, config=shell.chart_config(key.replace(".", "-")))


# --- slides --------------------------------------------------------------------------------------------


def cover(deck: Deck) -> None:
    counts = text.counts({d.id: library.verdicts(d) for d in deck.demos})
    st.html(text.cover(library.collection().name, deck.demos, counts))


def lit_by(deck: Deck) -> list[int]:
    """Indices of the deck's papers on the map."""
    index = library.topic_map().index_of
    return [index[a.id] for d in deck.demos if (a := library.abstract_of(d)) is not None]


def map_slide(deck: Deck) -> None:
    """The map with the deck's methods lit."""
    names, runs = library.names_and_runs(library.catalogue_key())
    the_map = library.topic_map()
    st.html(text.head("The map", f"{len(the_map)} abstracts by topic, this deck's methods lit"))
    st.plotly_chart(
        offline.deck_map(the_map, names, runs, lit_by(deck), shell.is_dark(), **asdict(keys.window())),
        key="slide.map",
        config={"displayModeBar": False},
        alt="Map of the collection by topic",
    )


def claim_slide(deck: Deck, slide: Slide) -> None:
    """Name and line, the abstract's sentence with its verdict and number, the main figure."""
    demo = slide.demo
    assert demo is not None
    settings = deck.settings or demo.settings()
    preset = demo.preset_of(settings)
    default = library.verdicts(demo)
    found = library.verdicts(demo, preset) if preset else default
    st.html(text.head(demo.name, demo.line))
    left, right = st.columns([5, 9], gap="large", vertical_alignment="center")
    with left:
        if default and found:
            index = headline(default, library.verdicts(demo, demo.break_it))
            where = (
                "" if deck.settings is None else f"at “{preset}”" if preset else "verdict at the default settings"
            )
            st.html(text.claim(demo, index, found[index], library.abstract_of(demo), where))
        else:
            st.html(text.foot(library.book_problem(demo)))
    with right:
        draw_figures(slide, deck.settings)


def break_slide(deck: Deck, slide: Slide) -> None:
    """The same figure at default and at the preset that breaks it, on the same axes, with both verdicts."""
    demo = slide.demo
    assert demo is not None
    settings = deck.settings or demo.preset(demo.break_it)
    preset = demo.preset_of(settings) or demo.break_it
    name = text.broken_name(demo) if preset == demo.break_it else preset
    st.html(text.head("Break it", f"{demo.name}: {name}"))
    default, broken = library.verdicts(demo), library.verdicts(demo, preset)
    index = headline(default, library.verdicts(demo, demo.break_it)) if default else 0
    drawn = slide_figures(slide, deck.settings, keys.window())
    if isinstance(drawn, str):
        st.error(drawn, icon=":material/block:")
        return
    for i, (column, side, found) in enumerate(
        zip(st.columns(2, gap="large"), ("Default", name), (default, broken), strict=True)
    ):
        with column:
            st.html(text.side(side))
            chart(drawn[i], f"slide.{demo.id}.{i}", caption(demo.figures[0]))
            if found:
                st.html(text.sentence(demo.claims[index], found[index]))
    st.html(text.why(demo, demo.claims[index]))


def draw_figures(slide: Slide, settings: Settings | None) -> None:
    assert slide.demo is not None
    drawn = slide_figures(slide, settings, keys.window())
    if isinstance(drawn, str):
        st.error(drawn, icon=":material/block:")
        return
    chart(drawn[0], f"slide.{slide.demo.id}", caption(slide.demo.figures[0]))


def verdict_slide(deck: Deck) -> None:
    st.html(text.head("What held", "Every claim of this deck, at the default settings"))
    st.html(text.verdict_table(deck.demos, {d.id: library.verdicts(d) for d in deck.demos}))


# --- controls ------------------------------------------------------------------------------------------


def turn(deck: Deck) -> None:
    """A callback: show this deck at its slide."""
    deck_link.go(deck, library.demos())


def stepped(control: Control, value: float, sign: int) -> float:
    """The next value of a number setting, a step or, on a log scale, about a factor of two away."""
    step = control.step or (control.high - control.low) / 10
    new = min(max(value * 2.0**sign if control.log else value + sign * step, control.low), control.high)
    return round(new) if control.kind == "int" else float(f"{new:.10g}")


def options_of(control: Control, value: object) -> list[tuple[str, object]]:
    """(label, value) of the buttons that change a setting."""
    if control.kind in ("int", "float"):
        return [("−", stepped(control, float(value), -1)), ("+", stepped(control, float(value), 1))]  # type: ignore[arg-type]
    choices = (False, True) if control.kind == "bool" else control.options
    return [(settings_form.words_for(control, o), o) for o in choices]


def try_box(deck: Deck, demo: Demo, settings: Settings) -> None:
    """Presets and settings as buttons; nothing here takes a clicker's keys."""

    def button(label: str, to: Settings, key: str, disabled: bool) -> None:
        changed = None if to == demo.settings() else to
        st.button(label, key=key, disabled=disabled, on_click=turn, args=(replace(deck, settings=changed),))

    with st.container(horizontal=True, gap="xxsmall"):
        for i, (name, preset) in enumerate(demo.presets.items()):
            button(name, preset, f"try.preset.{i}", preset == settings)
    for control in controls(demo.settings):
        if not control.shown:
            continue
        value = getattr(settings, control.name)
        with st.container(horizontal=True, vertical_alignment="center", gap="xxsmall"):
            unit = f" {control.unit}" if control.unit else ""
            st.markdown(
                f":small[{escape(control.title)}: **{escape(settings_form.words_for(control, value) + unit)}**]"
            )
            st.space("stretch")
            for i, (label, new) in enumerate(options_of(control, value)):
                try:
                    to = settings.replace(**{control.name: new})
                except ValueError:  # does not go together with the others
                    to = settings
                button(label, to, f"try.{control.name}.{i}", to == settings)


def foot(deck: Deck, slide: Slide) -> None:
    """The quiet line at the bottom: collection, then buttons for touch."""
    left, right = st.columns([4, 9], vertical_alignment="center")
    left.html(text.foot(f"{shell.NAME} · {library.collection().name}"))
    total = len(deck.slides)
    with (
        right,
        st.container(horizontal=True, horizontal_alignment="right", vertical_alignment="center", gap="xxsmall"),
    ):
        if slide.demo is not None and slide.kind == "claim":
            with st.popover("Try", type="tertiary"):
                try_box(deck, slide.demo, deck.settings or slide.demo.settings())
        elif slide.demo is not None:
            others = [(n, p) for n, p in slide.demo.presets.items() if n not in ("Default", slide.demo.break_it)]
            if others:
                with st.popover("Try", type="tertiary"):
                    for name, preset in [(slide.demo.break_it, None), *others]:
                        st.button(name, key=f"try.{name}", on_click=turn, args=(replace(deck, settings=preset),))
        if slide.demo is not None:
            there = deck.at(deck.slide + (1 if slide.kind == "claim" else -1))
            label = "Break it" if slide.kind == "claim" else "The claim"
            flat_button(label, "deck-break", there, "B")
            flat_button("Notes", "deck-notes", replace(deck, notes=not deck.notes), "N")
        share.button(type="tertiary")
        flat_button("Leave", "deck-leave", replace(deck.at(1), slide=0, notes=False), "Esc")
        flat_button("⇤", "deck-first", deck.at(1), "Home")
        flat_button("‹", "deck-back", deck.at(deck.slide - 1), "←")
        st.html(text.foot(f"{deck.slide} / {total}"), width="content")
        flat_button("›", "deck-next", deck.at(deck.slide + 1), "→")
        flat_button("⇥", "deck-last", deck.at(total), "End")


def flat_button(label: str, key: str, there: Deck, hint: str) -> None:
    st.button(label, key=key, type="tertiary", on_click=turn, args=(there,), help=f"Key {hint}")


def notes(slide: Slide) -> None:
    """The abstract and how the method works, for the speaker."""
    demo = slide.demo
    if demo is None:
        return
    with st.container(key="notes"):
        abstract = library.abstract_of(demo)
        if abstract is not None:
            with st.container(key="paper"):
                st.markdown(abstract.display)
        st.markdown(demo.how_it_works)


def show(deck: Deck) -> None:
    """One slide."""
    slide = deck.shown
    st.html(f"<style>{STYLE}{STAGE}</style>")
    with st.container(key="stage"):
        for message in deck.messages:
            st.info(message, icon=":material/link:")
        with st.container(key="stage-body"):
            if slide.kind == "cover":
                cover(deck)
            elif slide.kind == "map":
                map_slide(deck)
            elif slide.kind == "claim":
                claim_slide(deck, slide)
            elif slide.kind == "break":
                break_slide(deck, slide)
            else:
                verdict_slide(deck)
        foot(deck, slide)
    if deck.notes:
        notes(slide)
    keys.listen(keys.DECK)
    compute_ahead(deck)


# --- choosing ------------------------------------------------------------------------------------------


def choose(deck: Deck) -> None:
    """Which methods, in which order; start, share, or take the deck away as one file."""
    everything = library.demos()
    if "deck.chosen" not in st.session_state:
        st.session_state["deck.chosen"] = [d.id for d in deck.demos]

    def pick(ids: list[str]) -> None:
        st.session_state["deck.chosen"] = ids

    with shell.sheet("present"):
        for message in deck.messages:
            st.info(message, icon=":material/link:")
        st.title("Present", anchor=False)
        st.markdown("Choose methods; each becomes two slides: **its claim**, then **where it breaks**.")
        topics: dict[str, list[str]] = {}
        for demo in everything.values():
            topics.setdefault(demo.topic, []).append(demo.id)
        with st.container(horizontal=True, gap="xxsmall"):
            st.button("All methods", on_click=pick, args=(list(everything),), key="deck.all")
            for name in sorted(topics):
                st.button(f"{name} · {len(topics[name])}", on_click=pick, args=(topics[name],), key=f"deck.{name}")
            st.button("None", on_click=pick, args=([],), key="deck.none", type="tertiary")
        chosen = st.multiselect(
            "Methods, in the order of the talk",
            list(everything),
            key="deck.chosen",
            format_func=lambda i: everything[i].name,
            placeholder="Choose methods",
        )
        now = Deck(tuple(everything[i] for i in chosen if i in everything))
        deck_link.go(now, everything)
        if not chosen:
            st.caption("Nothing chosen yet. A deck of three to six methods fills ten minutes.")
            return
        with st.container(horizontal=True, vertical_alignment="center"):
            st.button("Start", icon=":material/play_arrow:", on_click=turn, args=(now.at(1),), key="deck.start")
            st.markdown(f":small[:gray[{len(now.slides)} slides]]")
            st.space("stretch")
            offline_button(now)
            share.button()
        st.caption(
            "Keys: → space PgDn next · ← PgUp back · Home End · B break it · N notes · Esc leave. "
            "Every slide has its own link in the address bar."
        )


def offline_button(deck: Deck) -> None:
    """Write the deck as one file for a talk without a network, then offer it."""
    wanted = (tuple(d.id for d in deck.demos), shell.is_dark())
    done = st.session_state.get("deck.file")
    if done is not None and done[0] == wanted:
        st.download_button(
            "Save deck.html",
            done[1],
            "deck.html",
            "text/html",
            icon=":material/download:",
            on_click="ignore",
            help=f"{len(done[1]) / 1e6:.1f} MB, opens from disk without a network; printing gives a handout",
        )
    elif st.button("Offline deck", icon=":material/draft:", help="One file with the same slides"):
        bar = st.progress(0.0, "Writing the deck")
        st.session_state["deck.file"] = (wanted, offline_file(deck, shell.is_dark(), bar))
        st.rerun()


def offline_file(deck: Deck, dark: bool, bar) -> bytes:
    """The deck's file, from the same runs and verdicts as the slides."""
    names, runs = library.names_and_runs(library.catalogue_key())
    total = len(deck.demos)
    page = offline.write(
        deck.demos,
        library.collection(),
        offline.deck_map(library.topic_map(), names, runs, lit_by(deck), dark),
        lambda demo, preset: compute.shown(demo, demo.preset(preset), 0).figures[0],
        library.verdicts,
        library.abstract_of,
        dark=dark,
        progress=lambda n: bar.progress(n / total, f"Writing the deck · method {n} of {total}"),
    )
    return page.encode()


def main() -> None:
    everything = library.demos()
    if not everything:
        st.error("No method can be loaded: " + " ".join(library.broken().values()))
        return
    deck = deck_link.from_page(everything)
    if deck.slide and deck.demos:
        show(deck)
    else:
        choose(deck)


main()
