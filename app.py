"""Runnable Abstracts: start with `streamlit run app.py`."""

from pages.parts import shell

shell.run_app()
