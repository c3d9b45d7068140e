"""Records to a map: topics, neighbours, search."""

from core.topics.labels import Term, Topic
from core.topics.search import Found, Match
from core.topics.topic_map import Neighbour, Placed, TopicMap, build_map, place_new, refit

__all__ = [
    "Found",
    "Match",
    "Neighbour",
    "Placed",
    "Term",
    "Topic",
    "TopicMap",
    "build_map",
    "place_new",
    "refit",
]
