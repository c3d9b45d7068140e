"""Decks for talks: which slides there are, their words and figures, and a deck as one file.

The page and the file draw the same slides from the same words and figures.
"""

from core.deck.slides import Slide, headline, plan

__all__ = ["Slide", "headline", "plan"]
