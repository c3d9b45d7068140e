"""The reporting checklist as a form: fill it in, see the score among 115 studies, take it away."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from core.demos._human_baselines_checklist import ANSWERS, STAGES, score, standing

TYPICAL = {"4.3": "Yes", "4.4": "Yes", "4.5": "Yes", "5.4": "Yes", "4.2": "Partial", "3.4": "Partial"}
"""Preset: what a benchmark paper usually reports."""


def _fill(answers: dict[str, str]) -> None:
    for items in STAGES.values():
        for item in items:
            st.session_state[f"checklist.{item}"] = answers.get(item, ANSWERS[0])


def draw() -> None:
    """Thirty questions by stage, the score, and the answers as CSV."""
    st.subheader("Score a study of your own", anchor=False)
    with st.container(horizontal=True):
        st.button(
            "Typical benchmark paper", type="tertiary", on_click=_fill, args=(TYPICAL,), key="checklist.typical"
        )
        st.button("Clear", type="tertiary", on_click=_fill, args=({},), key="checklist.clear")
    for stage, items in STAGES.items():
        with st.expander(stage):
            for item, text in items.items():
                st.selectbox(f"{item} · {text}", ANSWERS, key=f"checklist.{item}")
    answers = {i: st.session_state.get(f"checklist.{i}", ANSWERS[0]) for items in STAGES.values() for i in items}
    total, stages = score(answers)
    if total is None:
        st.markdown("Every item is marked as not applicable: there is nothing to score.")
    else:
        st.markdown(f"**Score {total:.2f} of 1**, {standing(total)}.")
    parts = [f"{stage} {'n/a' if value is None else f'{value:.2f}'}" for stage, value in stages.items()]
    st.caption(" · ".join(parts) + ". Unknown counts as no; items that do not apply are left out.")
    rows = [(s, i, text, answers[i]) for s, items in STAGES.items() for i, text in items.items()]
    table = pd.DataFrame(rows, columns=["stage", "item", "question", "answer"])
    st.download_button(
        "Answers",
        table.to_csv(index=False),
        "human-baseline-checklist.csv",
        "text/csv",
        type="tertiary",
        icon=":material/download:",
        on_click="ignore",
        key="checklist.get",
    )
