"""A coarser level of topics over the fine ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from sklearn.cluster import AgglomerativeClustering

from core.topics.labels import describe
from core.topics.topic_map import TopicMap

BROAD = 7
"""So many broad topics there are at most: as many as there are hues."""
LEVELS_FROM = 12
"""From so many topics on a second level helps."""


def broader(topic_map: TopicMap, count: int = BROAD) -> TopicMap:
    """The same map with its topics joined to at most `count` broad ones, each named anew; places stay.

    Topics are joined by the likeness of their mean papers (Ward). ValueError if `count` is below 1.
    """
    if count < 1:
        raise ValueError(f"count: {count} is too few; there is at least 1 topic")
    if len(topic_map.topics) <= count:
        return topic_map
    rows = topic_map.vectors.rows
    centres = np.stack([rows[list(t.members)].mean(axis=0) for t in topic_map.topics])
    centres /= np.maximum(np.linalg.norm(centres, axis=1, keepdims=True), 1e-9)
    joined = AgglomerativeClustering(count, linkage="ward").fit_predict(centres)
    topics, topic_of = describe(topic_map.phrase_book, joined[topic_map.topic_of], rows)
    made = replace(topic_map, topics=tuple(topics), topic_of=topic_of)
    for name in ("phrase_book", "search_index", "_kept", "lonely"):  # these do not depend on topics
        if name in topic_map.__dict__:
            made.__dict__[name] = topic_map.__dict__[name]
    return made
