"""Labels are real phrases: no stop words, no stems, no residue of mark-up."""

import re

import numpy as np
import pytest

from core.topics.labels import PhraseBook, describe, telling
from core.topics.words import STOP_WORDS, VAGUE, fold, phrase_forms, singular, tokens


def test_labels_of_the_seeds_are_phrases_of_their_papers(seed_map):
    named = [topic for topic in seed_map.topics if not topic.mixed]
    assert len(named) >= 6
    for topic in named:
        texts = [
            re.sub(r"\s+", " ", f"{seed_map.abstracts[i].title}. {seed_map.abstracts[i].plain}").lower()
            for i in topic.members
        ]
        for phrase in topic.phrases:
            stem = phrase.lower().removesuffix("s")
            assert sum(re.search(rf"\b{re.escape(stem)}", text) is not None for text in texts) >= 2


def test_labels_and_terms_hold_no_stop_word_and_no_residue(seed_map):
    for topic in seed_map.topics:
        for text in (*topic.phrases, *(term.text for term in topic.terms)):
            assert not re.search(r"[\\${}_^*~]|https?|www", text)
            assert not any(word.lower() in STOP_WORDS for word in text.split())
            assert re.fullmatch(r"[^\W\d_][\w-]*( [^\W\d_][\w-]*){0,2}", text)
        assert all(phrase.lower() not in VAGUE for phrase in topic.phrases)
        assert topic.label == (", ".join(topic.phrases) or "mixed")
        assert topic.mixed == (not topic.phrases)


def test_what_the_seeds_are_about_is_named(seed_map):
    """The groups that anybody sees in this collection have the names that anybody would give them."""
    labels = {topic.label for topic in seed_map.topics}
    assert {"large language models", "time series", "federated learning", "generative models"} <= labels


def test_two_topics_never_share_a_name(seed_map):
    labels = [topic.label for topic in seed_map.topics if not topic.mixed]
    assert len(set(labels)) == len(labels)


def test_a_cut_phrase_gives_way_to_the_whole_one():
    texts = ["A large language model writes.", "Our large language models read."] * 2
    others = [f"Bandits pull arm{n} with regret." for n in "abcdef"]
    book = PhraseBook([("", text) for text in (*texts, *others)])
    terms = [term.text for _, term in telling(book, range(4))]
    assert terms == ["large language model"]


def test_an_acronym_does_not_repeat_its_phrase():
    texts = ["Federated learning (FL) of clients."] * 4
    others = ["Bandits pull arms with regret."] * 4
    book = PhraseBook([("", text) for text in (*texts, *others)])
    terms = [term.text for _, term in telling(book, range(4))]
    assert "federated learning" in terms
    assert "FL" not in terms


def test_papers_that_share_nothing_are_mixed():
    words = ["apple", "harbour", "violin", "granite", "meadow", "copper", "lantern", "saddle"]
    book = PhraseBook([("", word) for word in words])
    topics, topic_of = describe(book, np.array([0] * 4 + [1] * 4), np.eye(8, dtype=np.float32))
    assert [topic.label for topic in topics] == ["mixed", "mixed"]
    assert topic_of.tolist() == [0] * 4 + [1] * 4


def test_a_name_is_written_as_the_papers_write_it():
    texts = ["We use Shapley values."] * 3
    others = ["Bandits pull arms."] * 3
    book = PhraseBook([("A Study Of Shapley Values", text) for text in texts] + [("", text) for text in others])
    assert telling(book, range(3))[0][1].text == "Shapley values"


def test_phrases_do_not_reach_over_signs_and_stop_words():
    keys = [key for key, _ in phrase_forms("Reinforcement learning from human feedback, policies. Time series")]
    assert "reinforcement learning" in keys
    assert "human feedback" in keys
    assert "time series" in keys
    assert not any(key.startswith("learning human") or "feedback policy" in key for key in keys)
    assert "policy time" not in keys


@pytest.mark.parametrize(
    ("plural", "one"),
    [
        ("policies", "policy"),
        ("losses", "loss"),
        ("series", "series"),
        ("bias", "bias"),
        ("matrices", "matrix"),
        ("axes", "axis"),
        ("boxes", "box"),
        ("llms", "llm"),
        ("analysis", "analysis"),
        ("dynamics", "dynamics"),
        ("is", "is"),
        ("agents", "agent"),
        ("process", "process"),
    ],
)
def test_singular(plural, one):
    assert singular(plural) == one


def test_fold_takes_case_and_accents_off():
    assert fold("Rényi") == "renyi"
    assert fold("µnit") == "unit"
    assert fold("STRASSE") == fold("straße")


def test_tokens_leave_addresses_and_fillers_out():
    text = "We propose spiking networks, see https://github.com/a/b-c and www.x.org/y or code.io."
    assert tokens(text) == ["spiking", "network"]
