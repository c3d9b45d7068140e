"""The map: right neighbours, honest doubts, equal re-runs, any size, old points unmoved, no network."""

import socket
import subprocess
import sys
import time

import numpy as np
import pytest

from core.topics import build_map, place_new, refit
from tests.topics.conftest import THEMES, Papers, papers

TRIO = (
    "event-based communication strategy",
    "Decentralized federated learning (DFL)",
    "proposing FedECADO",
)


def test_the_federated_papers_are_mutual_nearest(seed_map, find):
    trio = [find(piece) for piece in TRIO]
    for abstract in trio:
        near = {neighbour.abstract.id for neighbour in seed_map.neighbours(abstract.id, 3)}
        assert {other.id for other in trio if other is not abstract} <= near


def test_shared_terms_are_the_reason_and_stand_in_both_texts(seed_map, find):
    dfl, fedecado = find(TRIO[1]), find(TRIO[2])
    nearest = seed_map.neighbours(dfl.id, 1)[0]
    assert nearest.abstract.id == fedecado.id
    assert nearest.close
    assert nearest.shared[0] == "federated"
    for term in nearest.shared:
        assert term.lower() in f"{fedecado.title} {fedecado.plain}".lower()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("TIMING", "Morphing-Flow"),  # both on time series
        ("INRFlow", "AIGC detection"),  # both on generative models of images
        ("Policy-labeled Preference Learning", "Rejecting Instruction Preferences"),  # both on preferences
    ],
)
def test_known_pairs_are_close_and_on_one_topic(seed_map, find, one, other):
    one, other = find(one), find(other)
    near = {neighbour.abstract.id: neighbour for neighbour in seed_map.neighbours(one.id, 3)}
    assert near[other.id].close
    assert seed_map.topic_of[seed_map.index(one.id)] == seed_map.topic_of[seed_map.index(other.id)]


def test_a_paper_alone_in_its_field_has_no_close_paper(seed_map, find):
    renyi = find("Rényi Neural Processes (RNP)")
    neighbours = seed_map.neighbours(renyi.id, 10)
    assert neighbours
    assert not any(neighbour.close for neighbour in neighbours)
    assert seed_map.lonely[seed_map.index(renyi.id)]


def test_lonely_means_that_no_neighbour_is_close(seed_map):
    for index, abstract in enumerate(seed_map.abstracts):
        near = seed_map.neighbours(abstract.id, 10)
        assert seed_map.lonely[index] == (not any(neighbour.close for neighbour in near))


def test_neighbours_come_nearest_first_and_never_the_paper_itself(seed_map):
    for abstract in seed_map.abstracts:
        near = seed_map.neighbours(abstract.id, 6)
        values = [neighbour.similarity for neighbour in near]
        assert values == sorted(values, reverse=True)
        assert abstract.id not in {neighbour.abstract.id for neighbour in near}


def test_unknown_id_is_named(seed_map):
    with pytest.raises(ValueError, match="nobody"):
        seed_map.neighbours("nobody")


def test_every_paper_is_in_one_topic(seed_map):
    members = sorted(index for topic in seed_map.topics for index in topic.members)
    assert members == list(range(38))
    for number, topic in enumerate(seed_map.topics):
        assert topic.central in topic.members
        assert all(seed_map.topic_of[index] == number for index in topic.members)


def test_two_runs_are_identical_and_quick(seeds, seed_map):
    start = time.process_time()
    again = build_map(seeds)
    assert time.process_time() - start < 1.0
    assert np.array_equal(again.xy, seed_map.xy)
    assert again.topics == seed_map.topics
    assert again.trust == seed_map.trust


def test_map_of_the_seeds_keeps_what_a_flat_map_can(seed_map):
    """Random places keep 10/37 of the neighbours; trustworthiness of random places is about a half."""
    assert seed_map.xy.shape == (38, 2)
    assert 0.40 < seed_map.trust < 1.0
    assert 0.65 < seed_map.trustworthiness <= 1.0


@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, 8])
def test_any_size(seeds, n):
    small = build_map(Papers(tuple(seeds.abstracts[:n])))
    assert len(small) == n
    assert small.xy.shape == (n, 2)
    assert np.isfinite(small.xy).all()
    assert small.has_map == (n >= 8)
    assert small.topic_of.shape == small.lonely.shape == (n,)
    assert 0 <= small.trust <= 1
    assert sum(len(topic.members) for topic in small.topics) == n
    assert small.search("learning") is not None
    for abstract in small.abstracts:
        assert len(small.neighbours(abstract.id, 5)) <= n - 1
    assert small.place("bandit regret of agents").xy.shape == (2,)


@pytest.mark.parametrize("n", [9, 120])
def test_identical_texts_do_not_end_the_process(n):
    code = f"""
import numpy as np
from core.topics import build_map
from tests.topics.conftest import papers
made = build_map(papers(["Spiking networks classify images with low power consumption."] * {n}))
assert np.isfinite(made.xy).all() and len(made.topics) == 1, made.topics
assert made.neighbours("p0", 1)[0].similarity > 0.99
print("alive")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "alive", done.stderr


@pytest.mark.parametrize("n", [3, 12, 110])
def test_texts_without_telling_words(n):
    made = build_map(papers(["We show that this is it and that it is not."] * n))
    assert np.isfinite(made.xy).all()
    assert made.neighbours("p0") == []
    assert made.lonely.all()
    assert all(topic.mixed for topic in made.topics)
    assert made.place("and so on").topic == -1


def test_empty_texts_among_others(seeds):
    mixed = Papers((*seeds.abstracts[:10], *papers(["", "-", "N/A"]).abstracts))
    made = build_map(mixed)
    assert np.isfinite(made.xy).all()
    assert made.neighbours("p0") == []


def test_a_very_long_text(seeds):
    long = " ".join(f"{abstract.plain}" for abstract in seeds.abstracts)[:20_000]
    made = build_map(Papers((*seeds.abstracts, *papers([long]).abstracts)))
    assert np.isfinite(made.xy).all()
    assert len(made) == 39


def test_themes_become_topics_with_their_own_words(themed):
    collection, names = themed
    made = build_map(collection)
    for topic in made.topics:
        (theme,) = set(names[list(topic.members)])
        words = {word for term in topic.terms for word in term.text.split()}
        assert words <= set(THEMES[theme].split())
        assert not topic.mixed
        assert topic.terms[0].weight == 1.0
        assert all(0 < term.weight <= 1 for term in topic.terms)


def test_number_of_topics_is_the_readers_choice(themed):
    collection, _ = themed
    assert len(build_map(collection, topics=3).topics) == 3
    with pytest.raises(ValueError, match="topics"):
        build_map(collection, topics=0)


@pytest.mark.parametrize("start", [30, 135])
def test_new_papers_leave_the_old_where_they_are(themed, start):
    collection, names = themed
    old = build_map(Papers(collection.abstracts[:start]))
    both = Papers(collection.abstracts[: start + 15])
    new = place_new(old, both)
    assert np.array_equal(new.xy[:start], old.xy)
    assert np.array_equal(new.topic_of[:start], old.topic_of)
    assert np.isfinite(new.xy).all()
    for index in range(start, start + 15):
        neighbour = np.argsort(((new.xy[:start] - new.xy[index]) ** 2).sum(axis=1))[0]
        assert names[neighbour] == names[index]
        members = list(new.topics[new.topic_of[index]].members)
        assert index in members
        assert set(names[members]) == {names[index]}


def test_papers_that_are_gone_leave_the_map(themed):
    collection, _ = themed
    old = build_map(collection)
    fewer = place_new(old, Papers(collection.abstracts[40:]))
    assert np.array_equal(fewer.xy, old.xy[40:])
    assert sorted(i for topic in fewer.topics for i in topic.members) == list(range(110))


def test_place_new_of_a_list_makes_a_map(seeds):
    old = build_map(Papers(tuple(seeds.abstracts[:3])))
    assert place_new(old, seeds).has_map


def test_refit_of_the_same_collection_lies_on_the_old_map(seeds, seed_map):
    again = refit(seed_map, seeds)
    width = np.ptp(seed_map.xy, axis=0).max()
    assert np.abs(again.xy - seed_map.xy).max() < 0.01 * width


def test_refit_of_a_larger_map_starts_from_it(themed):
    collection, _ = themed
    old = build_map(Papers(collection.abstracts[:140]))
    fresh, settled = build_map(collection), refit(old, collection)

    def overlap(xy):
        near = [
            np.argsort(((place[:140, None] - place[None, :140]) ** 2).sum(-1), axis=1)[:, 1:11]
            for place in (old.xy, xy)
        ]
        return np.mean([len(set(a) & set(b)) / 10 for a, b in zip(*near, strict=True)])

    assert overlap(settled.xy) > overlap(fresh.xy)


def test_a_text_from_outside_falls_among_its_like(themed):
    collection, names = themed
    made = build_map(collection)
    placed = made.place("We fold a protein: residue, amino sequence, ligand docking.")
    assert set(names[list(made.topics[placed.topic].members)]) == {"protein"}
    assert {names[neighbour.index] for neighbour in placed.neighbours} == {"protein"}
    nearest = np.argsort(((made.xy - placed.xy) ** 2).sum(axis=1))[:3]
    assert set(names[nearest]) == {"protein"}


def test_telling_terms_of_a_selection(themed):
    collection, names = themed
    made = build_map(collection)
    terms = made.telling_terms(np.flatnonzero(names == "speech")[:10].tolist())
    assert terms
    assert {word for term in terms for word in term.text.split()} <= set(THEMES["speech"].split())
    assert terms[0].relevance(1.0) <= 0.0 <= terms[0].relevance(0.0)


def test_no_network(seeds, monkeypatch):
    def refuse(*_args, **_kwargs):
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    made = build_map(seeds)
    assert made.search("federated", 1)
    assert made.neighbours(made.abstracts[0].id)
