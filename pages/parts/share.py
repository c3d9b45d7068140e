"""The link to what is on the screen, as text and as a QR code for a room."""

from __future__ import annotations

from urllib.parse import urlencode

import segno
import streamlit as st


def here() -> str:
    """The address of this page with all that it shows; call when the address bar is up to date."""
    base = st.context.url or ""
    params = {k: v for k, v in st.query_params.items() if not k.startswith("embed")}
    return base + (f"?{urlencode(params, safe=',')}" if params else "")


def button(label: str = "Share", **options) -> None:
    """A button that opens the link and its QR code. Draw it last, into a place kept for it."""
    with st.popover(label, icon=":material/link:", **options):
        st.caption("This link restores what you see.")
        link = here()
        st.code(link, language=None, wrap_lines=True)
        if len(link) < 1500:  # beyond that a phone no longer reads the code from a wall
            st.image(qr(link), width=220, alt="QR code of this link")


@st.cache_data(show_spinner=False, max_entries=200)
def qr(link: str) -> str:
    """A QR code as an image address, dark on light in both themes so that every camera reads it."""
    return segno.make(link, error="m").svg_data_uri(scale=6, border=3, light="#FFFFFF", dark="#1D2126")
