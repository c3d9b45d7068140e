"""Where a claim stops holding: one setting swept over its range on the method page."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from core.lab import charts
from core.lab import sweep as lab_sweep
from core.lab.demo import Demo, controls
from pages.parts import compute, library, shell
from pages.parts.link import Link, key_of


def draw(now: Link) -> None:
    """The sweep block: choose a setting and a claim, run it with progress, see where the effect crosses."""
    demo, state = now.demo, st.session_state
    numbers = {c.name: c for c in controls(demo.settings) if c.shown and c.kind in ("int", "float")}
    if not numbers:
        return
    head, pick = st.columns([3, 2], vertical_alignment="center")
    head.subheader("Where it stops holding", anchor=False)
    pick.selectbox(
        "Setting to sweep",
        list(numbers),
        format_func=lambda n: numbers[n].title,
        index=None,
        placeholder="Choose a setting",
        key=key_of(demo, "sweep"),
        label_visibility="collapsed",
    )
    name = state.get(key_of(demo, "sweep"))
    if not name:
        st.caption("Choose a setting: the claims are then checked over its whole range.")
        return
    claim = st.selectbox(
        "Claim",
        demo.claims,
        format_func=lambda c: c.says,
        key=f"{demo.id}/sweep.claim",
        label_visibility="collapsed",
    )
    grid = lab_sweep.values(numbers[name])
    key = (demo.id, now.settings.replace(**{name: numbers[name].default}), name)
    table = _table(now, name, grid, key)
    if table is None:
        return
    fig = lab_sweep.sweep_figure(table, claim, numbers[name], float(getattr(now.settings, name)))
    if fig is None:
        st.caption("This claim is not defined at any value of the setting: " + "; ".join(set(table["note"])) + ".")
    else:
        alt = f"Effect of “{claim.says}” against {numbers[name].title}, with 95 % intervals and bound"
        st.plotly_chart(
            charts.in_theme(fig, shell.is_dark()),
            key=f"{demo.id}/sweep.figure",
            alt=alt,
            config={"displayModeBar": False},
        )
        st.caption(f"{lab_sweep.SEEDS} paired seeds at each value. ✗ does not hold · hollow: unclear.")
    st.download_button(
        "Sweep",
        table.to_csv(index=False),
        f"{demo.id}-sweep-{name}.csv",
        "text/csv",
        type="tertiary",
        icon=":material/download:",
        on_click="ignore",
        key=f"{demo.id}/sweep.get",
    )


def _table(now: Link, name: str, grid: list, key: tuple) -> pd.DataFrame | None:
    """The sweep's result from this session, or the button and the progress that lead to it."""
    demo, state = now.demo, st.session_state
    done = state.get("sweep.done")
    if done and done[0] == key:
        return done[1]
    busy = state.get("sweep.wanted") == key
    place = st.container(horizontal=True, vertical_alignment="center")
    if not busy:
        seconds = _seconds(demo) * len(grid) * lab_sweep.SEEDS
        place.button(
            "Run the sweep",
            icon=":material/timeline:",
            key="sweep.start",
            on_click=lambda: state.update({"sweep.wanted": key}),
        )
        place.markdown(
            f":small[:gray[{len(grid)} values × {lab_sweep.SEEDS} seeds, about {max(1, round(seconds))} s]]"
        )
        return None
    place.button("Stop", icon=":material/stop:", key="sweep.stop", on_click=lambda: state.pop("sweep.wanted", None))
    bar = st.progress(0.0)

    def report(i: int, of: int) -> None:
        bar.progress(i / of, f"Sweeping · run {i + 1} of {of}")

    table = lab_sweep.sweep(
        demo,
        now.settings,
        name,
        grid,
        lambda s, seed: compute.seed_rows(demo.id, s, seed),
        report,
    )
    state["sweep.done"] = (key, table)
    state.pop("sweep.wanted", None)
    st.rerun()
    return None


def _seconds(demo: Demo) -> float:
    book = library.book(demo)
    if book is None:
        return 1.0
    cost = book.rows("Default")
    return float(cost[cost["measure"] == "seconds"].groupby("method")["value"].median().sum())
