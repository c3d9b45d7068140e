"""Links of decks: `?deck=bass,timing&slide=3&agents=12`, read without ever failing and written short."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import streamlit as st

from core.deck import Slide, plan
from core.lab.demo import Demo, Settings
from pages.parts import link

ALL = "all"
_OWN = {"deck", "slide", "notes"}
_KEPT = "deck.now", "deck.written"


@dataclass(frozen=True)
class Deck:
    """What a deck's link asks for, validated; slides count from 1, and 0 is the choice of methods.

    `settings` are those of the slide's method, None for the ones that the slide has by itself.
    """

    demos: tuple[Demo, ...] = ()
    slide: int = 0
    notes: bool = False
    settings: Settings | None = None
    messages: tuple[str, ...] = field(default=(), compare=False)

    @property
    def slides(self) -> tuple[Slide, ...]:
        return plan(self.demos)

    @property
    def shown(self) -> Slide:
        return self.slides[max(self.slide, 1) - 1]

    def at(self, slide: int) -> Deck:
        """The same deck at another slide, as near as there is one, with that slide's own settings."""
        return replace(self, slide=min(max(slide, 1), len(self.slides)), settings=None, messages=())


def own_settings(slide: Slide) -> Settings | None:
    """The settings that a slide shows when its link names none."""
    if slide.demo is None:
        return None
    return slide.demo.preset(slide.demo.break_it) if slide.kind == "break" else slide.demo.settings()


def read(params: Mapping[str, Sequence[str]], demos: Mapping[str, Demo]) -> Deck:
    """A deck from raw query parameters (name -> all its values). Never raises on anything in `params`."""
    messages: list[str] = []
    wanted = [w.strip() for w in ",".join(params.get("deck", [])).split(",") if w.strip()]
    names = list(demos) if ALL in wanted else list(dict.fromkeys(wanted))
    for name in [n for n in names if n not in demos][:5]:
        messages.append(f"There is no method “{name[:40]}”; the deck has the others.")
    chosen = tuple(demos[n] for n in names if n in demos)
    deck = Deck(chosen)
    if chosen and "slide" in params:
        deck = replace(deck, slide=_slide(params["slide"], len(deck.slides), messages))
    deck = replace(deck, notes=params.get("notes", [""])[0] in ("1", "true"))
    rest = {k: v for k, v in params.items() if k not in _OWN and not k.startswith("embed")}
    if rest and deck.slide and deck.shown.demo is not None:
        demo = deck.shown.demo
        found = link.read({"method": [demo.id], **rest}, demos, demo.id)
        messages += found.messages
        if found.settings != own_settings(deck.shown) and found.settings != demo.settings():
            deck = replace(deck, settings=found.settings)
    elif rest:
        messages.append(f"A deck has no setting “{next(iter(rest))[:40]}” here; the rest is as in the link.")
    return replace(deck, messages=tuple(messages))


def _slide(given: Sequence[str], count: int, messages: list[str]) -> int:
    raw = given[0] if len(given) == 1 else ""
    if raw.isascii() and raw.isdigit() and len(raw) < 6 and 1 <= int(raw) <= count:
        return int(raw)
    messages.append(f"slide cannot be “{raw[:40]}”: it may be 1 to {count}. Slide 1 is shown.")
    return 1


def write(deck: Deck, demos: Mapping[str, Demo]) -> dict[str, str]:
    """The query parameters of a deck at a slide; defaults left out."""
    if not deck.demos:
        return {}
    ids = [d.id for d in deck.demos]
    params = {"deck": ALL if ids == list(demos) else ",".join(ids)}
    if deck.slide:
        params["slide"] = str(deck.slide)
        if deck.notes:
            params["notes"] = "1"
        if deck.settings is not None and deck.shown.demo is not None:
            params |= {k: v for k, v in link.write(deck.shown.demo, deck.settings).items() if k != "method"}
    return params


def from_page(demos: Mapping[str, Demo]) -> Deck:
    """The deck that the page shows now: from the address bar if it is news, else from the session."""
    now, written = (st.session_state.get(key) for key in _KEPT)
    if now is None or st.query_params.to_dict() != written:
        params = {k: st.query_params.get_all(k) for k in st.query_params}
        now = read(params, demos) if params or now is None else now.at(now.slide) if now.slide else now
        go(now, demos)
    return now


def go(deck: Deck, demos: Mapping[str, Demo]) -> None:
    """Show this deck and slide from now on, in the address bar too; for callbacks."""
    params = write(deck, demos) | {k: v for k, v in st.query_params.items() if k.startswith("embed")}
    if st.query_params.to_dict() != params:
        st.query_params.from_dict(params)
    st.session_state["deck.now"], st.session_state["deck.written"] = deck, params
