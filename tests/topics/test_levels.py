"""Broad topics over fine ones."""

import numpy as np
import pytest

from core.topics import build_map
from core.topics.levels import broader


@pytest.fixture(scope="module")
def fine(themed):
    return build_map(themed[0], topics=12)


def test_broad_topics_are_unions_of_fine_ones(fine):
    broad = broader(fine, 3)
    assert len(broad.topics) == 3
    assert np.array_equal(broad.xy, fine.xy)
    for topic in fine.topics:
        assert len(set(broad.topic_of[list(topic.members)])) == 1
    assert sorted(i for t in broad.topics for i in t.members) == list(range(len(fine)))
    for number, topic in enumerate(broad.topics):
        assert set(np.flatnonzero(broad.topic_of == number)) == set(topic.members)


def test_few_topics_stay_as_they_are(fine):
    assert broader(fine, len(fine.topics)) is fine
    with pytest.raises(ValueError, match="count: 0"):
        broader(fine, 0)
