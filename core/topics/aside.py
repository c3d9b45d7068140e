"""Making a map in another process: what is sent there, and all that a page will ask of the map."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from core.topics.topic_map import Paper, TopicMap


@dataclass(frozen=True, eq=False)
class OnMap:
    """The papers of a map, for `build_map` and its like."""

    abstracts: Sequence[Paper]


def made(make: Callable[..., TopicMap], *given: object) -> TopicMap:
    """`make(*given)` with the parts that are computed when first asked for already there."""
    topic_map = make(*given)
    _ = topic_map.trust, topic_map.lonely, topic_map.phrase_book
    return topic_map
