"""Search: ranking, marking, unfinished words, accents, and what to say when nothing fits."""

import pytest

from core.topics.search import SearchIndex

TITLES = ["Rényi Neural Processes", "Federated Averaging", "", "Bandits"]
TEXTS = [
    "We use the Rényi divergence for the prior.",
    "Federated learning with many clients, federated by a server.",
    "Learning to search: a client asks once about federated data among many other long matters of state.",
    "Regret of a bandit is small.",
]


@pytest.fixture(scope="module")
def index():
    return SearchIndex(TITLES, TEXTS)


def test_the_best_match_comes_first(index):
    found = index("federated")
    assert [match.index for match in found] == [1, 2]
    assert found[0].score > found[1].score > 0


@pytest.mark.parametrize("query", ["renyi", "RÉNYI", "Rényi", "  rényi  ", "reny"])
def test_case_accents_and_endings_do_not_matter(index, query):
    found = index(query)
    assert [match.index for match in found] == [0]
    (span,) = found[0].spans
    assert TEXTS[0][slice(*span)] == "Rényi"
    assert TITLES[0][slice(*found[0].title_spans[0])] == "Rényi"
    assert found[0].words == ("Rényi",)


def test_plural_finds_singular(index):
    assert [match.index for match in index("bandits ")] == [3]
    assert [match.index for match in index("clients in")] == [1, 2]


def test_only_the_last_word_may_be_unfinished(index):
    assert [match.index for match in index("learning cli")] == [1, 2]
    assert not any(match.complete for match in index("lear client"))
    assert list(index("cli ")) == []


def test_all_words_or_else_some(index):
    assert all(match.complete for match in index("federated client"))
    partial = index("federated bandit")
    assert {match.index for match in partial} == {1, 2, 3}
    assert not any(match.complete for match in partial)


def test_stop_words_are_passed_over_unless_alone(index):
    assert [match.index for match in index("the regret of the")] == [3]
    assert {match.index for match in index("the")} >= {0}


@pytest.mark.parametrize("query", ["", "   ", "?!", "$$"])
def test_an_empty_query_finds_nothing_and_suggests_nothing(index, query):
    found = index(query)
    assert found == []
    assert found.suggestions == ()


def test_an_unknown_word_brings_the_nearest_words(index):
    found = index("fedrated")
    assert found == []
    assert found.suggestions[0] == "federated"
    assert index("qqqqqqqq").suggestions == ()


def test_k_limits_the_list(index):
    assert len(index("federated", 1)) == 1


def test_spans_mark_every_matching_word(seed_map):
    for match in seed_map.search("federated learn"):
        plain = seed_map.abstracts[match.index].plain
        marked = {plain[a:b].lower() for a, b in match.spans}
        assert marked
        assert all(word.startswith(("federated", "learn")) for word in marked)
        assert list(match.spans) == sorted(match.spans)


def test_search_of_the_seeds(seed_map, find):
    (only,) = seed_map.search("shapley values")
    assert seed_map.abstracts[only.index].id == find("Shapley value-based").id
    first_two = {seed_map.abstracts[match.index].id for match in seed_map.search("federated", 2)}
    assert first_two == {find("Decentralized federated").id, find("FedECADO").id}


def test_no_papers():
    assert SearchIndex([], [])("bandit") == []
