"""MinionS: right values from counting words by hand, from linear algebra and from cases that must coincide."""

import re
from dataclasses import replace

import numpy as np
import pytest

from core.demos._minions_documents import (
    COMPANIES,
    METRICS,
    YEARS,
    Document,
    ask,
    filler,
    make_document,
    request,
    single_request,
    value_of,
    words,
)
from core.demos._minions_protocols import (
    INSTRUCTION,
    cases_of,
    jobs,
    local_only,
    minion,
    minions,
    remote_only,
)
from core.demos._minions_readers import FULL_RANK, RIDGE, level, reader, training
from core.demos.minions import ACCEPT, LOCAL, MINION, MINIONS, REMOTE, Settings, answers, is_right, make_cases, run

NEVER, ALWAYS = (2.0, 2.0), (-1.0, -1.0)
"""τ above and below every cosine."""


def some_cases(**changes):
    settings = Settings(**changes)
    return settings, make_cases(settings, np.random.default_rng(7))


def share_right(cases, how):
    return np.mean([is_right(c, how(c)) for c in cases])


@pytest.fixture
def by_hand():
    """Five sentences, two of them facts, and the question for both."""
    document = Document(
        (
            "these data are old",
            "in 2019 the sales of elm was 300 million",
            "nobody knows the names of the flowers",
            "the debt at fir reached 450 during 2021",
            "the data set is small",
        ),
        {(4, 0, 1): 300, (5, 2, 3): 450},
    )
    local, remote = reader(14), reader(FULL_RANK)
    return cases_of(document, [((4, 0, 1), (5, 2, 3))], local, remote, level(FULL_RANK, ACCEPT))[0]


# --- readers ------------------------------------------------------------------------------------------


def test_the_map_has_seventeen_directions():
    """Of 8 companies, 6 metrics, 6 years all but one each are free once centred: 7 + 5 + 5."""
    assert (training().svd[1] > 1e-9).sum() == 17 == FULL_RANK


def test_the_map_solves_the_ridge_problem():
    """Independent second way: T makes the gradient of ½‖BT‖²/N − ⟨T, BₚᵀA/n⟩ + ½λ‖T‖² vanish."""
    t = training()
    n = len(t.requests)
    gradient = t.sentences.T @ (t.sentences @ t.ridge_map) / len(t.sentences) + RIDGE * t.ridge_map
    assert np.allclose(gradient, t.sentences[:n].T @ t.requests / n, atol=1e-12)


@pytest.mark.parametrize("rank", [1, 6, 14, 17])
def test_codes_are_the_best_approximation(rank):
    """Eckart–Young: the Frobenius error of LRᵀ is the root of the sum of the squared singular values left out."""
    t, r = training(), reader(rank)
    error = np.linalg.norm(r.sentence_map @ r.request_map.T - t.ridge_map)
    s = np.linalg.svd(t.ridge_map, compute_uv=False)
    assert error == pytest.approx(np.sqrt((s[rank:] ** 2).sum()), abs=1e-9)


def test_scores_against_sums_over_words():
    """Brute force: a cosine from the maps' rows, added up word by word; values and unknown words do not count."""
    r, t = reader(14), training()
    sentence, asked = "in 2019 the sales of elm was 300 million zzz", "revenue of elm in 2019"
    code = sum(r.sentence_map[t.sentence_words[w]] for w in set(sentence.split()) - {"300", "zzz"})
    code = code - t.sentence_mean @ r.sentence_map
    wanted = sum(r.request_map[t.request_words[w]] for w in asked.split()) - t.request_mean @ r.request_map
    cosine = code @ wanted / np.linalg.norm(code) / np.linalg.norm(wanted)
    assert float(r.sentence_codes([sentence])[0] @ r.request_codes([asked])[0]) == pytest.approx(cosine, abs=1e-12)
    assert "300" not in t.sentence_words


def test_full_rank_makes_the_readers_equal_and_minions_right():
    settings, cases = some_cases(rank=17)
    assert all(np.abs(c.local - c.remote).max() < 1e-12 for c in cases)
    assert share_right(cases, lambda c: minions(c, 4, 3, settings.chunk, ALWAYS)) == 1


@pytest.mark.parametrize(("rank", "quantile"), [(14, 0.02), (6, 0.15)])
def test_level_is_a_quantile(rank, quantile):
    """By definition: less than this share of the training pairs is below, at least this share is not above.

    Equal texts have equal scores, so the two shares differ; a sentence exactly at the level passes.
    """
    scores = reader(rank).trained
    assert np.mean(scores < level(rank, quantile)) <= quantile + 1 / len(scores)
    assert np.mean(scores <= level(rank, quantile) + 2e-9) >= quantile - 1 / len(scores)


# --- documents ----------------------------------------------------------------------------------------


def test_half_of_a_document_states_its_facts_and_no_filler_has_a_number():
    document = make_document(np.random.default_rng(1), 120)
    stated = [s for s in document.sentences if value_of(s) is not None]
    assert len(document.sentences) == 120
    assert len(stated) == len(document.facts) == 60
    for s in stated:
        found = set(s.split())
        company = next(i for i, c in enumerate(COMPANIES) if c in found)
        metric = next(i for i, m in enumerate(METRICS) if found & set(m))
        year = next(i for i, y in enumerate(YEARS) if y in found)
        assert document.facts[company, metric, year] == value_of(s)
    assert all(5 <= words(s) <= 25 and re.fullmatch(r"[a-z' ]+", s) for s in filler())


def test_years_are_no_values():
    assert value_of("in 2019 the sales of elm was 300 million") == 300
    assert value_of("the debt at fir reached 450 during 2021") == 450
    assert value_of("nothing happened in 2020") is None


# --- bills --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parts", [1, 2, 4])
def test_remote_only_is_right_and_its_bill_is_the_document(parts):
    """Closed form: words of instruction, question and document, and 4 words written at 4 each."""
    _, cases = some_cases(parts=parts)
    for c in cases:
        answer = remote_only(c, 4)
        assert is_right(c, answer)
        assert answer.bill.cost == words(INSTRUCTION) + words(c.question) + words(c.document.text) + 16


def test_nothing_passes_a_threshold_of_two():
    """A cosine is at most 1: no lines, 3 × (9 + 11) = 60 words read, 3 × (5 + 5 + 2) + 4 written."""
    _, cases = some_cases()
    for c in cases:
        answer = minions(c, 4, 3, 10, NEVER)
        assert (answer.value, answer.bill.read, answer.bill.written) == (None, 60, 40)
        assert not is_right(c, answer)
        assert not any(text.startswith("sends") for _, text, _ in answer.bill.log)


@pytest.mark.parametrize("how", [minion, lambda c, a, r: minions(c, a, r, 10, (0.96, 0.95)), remote_only])
def test_price_of_words_written(how):
    """cost = P + aD: a doubled price adds a·D, and changes nothing else."""
    _, cases = some_cases()
    rounds = () if how is remote_only else (3,)
    for c in cases[:10]:
        once, twice = how(c, 4, *rounds), how(c, 8, *rounds)
        assert twice.bill.cost - once.bill.cost == 4 * once.bill.written
        assert (twice.value, twice.bill.read) == (once.value, once.bill.read)


def test_bills_by_hand(by_hand):
    """Words counted on paper. Question: 11 words, instruction 9; the facts have 9 and 8 words.

    Chat, one round: reads 20, writes 11, then reads 20 + 11 + 9 + 8 and writes 4. MinionS, one chunk and round:
    reads 20 and two lines of 3 + 9 and 3 + 8 words, writes 5 + 5 + 2 and 4.
    """
    assert by_hand.question == "revenue of elm in 2019 and debt of fir in 2021"
    assert sorted(by_hand.local_best(by_hand.question, 2)) == [1, 3]
    chat = minion(by_hand, 4, 1)
    assert (chat.value, chat.bill.read, chat.bill.written) == (750, 20 + 48, 15)
    jobs_done = minions(by_hand, 4, 1, 5, ALWAYS)
    assert (jobs_done.value, jobs_done.bill.read, jobs_done.bill.written) == (750, 20 + 23, 16)
    assert local_only(by_hand).value == 750
    assert local_only(by_hand).bill.cost == 0


def test_the_chat_reads_its_history_again(by_hand):
    """Nothing is verified (level 2): round 2 reads the 20 words, the message of 11 and the reply of 17 again."""
    strict = replace(by_hand, level=2.0)
    chat = minion(strict, 4, 2)
    assert chat.bill.read == 20 + (20 + 28) + (20 + 28 + 28)
    assert chat.bill.written == 11 + 11 + 4
    assert chat.value == 750
    fresh = minion(strict, 4, 2, repeats=False)
    others = fresh.bill.read - (20 + 48) - 48
    left = [words(by_hand.document.sentences[i]) for i in (0, 2, 4)]
    assert others - 11 in {left[0] + left[1], left[0] + left[2], left[1] + left[2]}


def test_a_verified_part_is_not_asked_again():
    """With a level between the two parts' scores, round 2 asks for one part of 5 words and carries a memo of 3."""
    _, cases = some_cases()
    c = cases[0]
    best = np.sort(c.remote.max(axis=1))
    answer = minions(replace(c, level=float(best.mean())), 4, 2, 10, ALWAYS)
    plans = [text for _, text, _ in answer.bill.log if text.startswith("plans")]
    assert [p.count("in 20") for p in plans] == [2, 1]
    assert plans[1].endswith("chunks 5")
    again = next(text for _, text, _ in answer.bill.log if text.startswith("reads the question again"))
    assert words(again.split(" · ")[1]) == 3
    assert answer.bill.written == (5 + 5 + 2) + (5 + 2) + 4


def test_the_log_ends_with_the_bill():
    settings, cases = some_cases(rank=8, parts=3)
    for c in cases[:10]:
        bill = answers(c, settings)[MINIONS].bill
        costs = [cost for *_, cost in bill.log]
        assert costs == sorted(costs)
        assert costs[-1] == bill.read + settings.price * bill.written


# --- protocols ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("chunk", "tau"), [(1, 0.5), (7, -1.0), (10, 0.9), (200, 0.2)])
def test_jobs_against_a_loop(chunk, tau):
    """Brute force: the best sentence of every chunk, the earlier of two equal ones."""
    scores = np.round(np.random.default_rng(3).uniform(-1, 1, 53), 1)
    expected = []
    for c in range(-(-53 // chunk)):
        best = None
        for i in range(c * chunk, min((c + 1) * chunk, 53)):
            if best is None or scores[i] > scores[best]:
                best = i
        if scores[best] >= tau:
            expected.append((c, best))
    assert jobs(scores, chunk, tau) == expected


def test_one_chunk_one_part_one_round_is_the_chat():
    """The same request over the same text: MinionS and MINION must give the same value, right or wrong."""
    _, cases = some_cases(parts=1, rank=5)
    chat = [minion(c, 4, 1).value for c in cases]
    assert [minions(c, 4, 1, 200, ALWAYS).value for c in cases] == chat
    assert 0 < np.mean([is_right(c, minion(c, 4, 1)) for c in cases]) < 1


def test_without_abstention_every_job_is_sent():
    """τ = −1: each of 20 chunks sends a line for each part; the remote then finds every fact."""
    _, cases = some_cases()
    for c in cases:
        answer = minions(c, 4, 3, 10, ALWAYS)
        assert is_right(c, answer) or answer.value is None
        assert answer.bill.log[2][1].startswith("40 jobs, 0 abstain")


def test_a_fact_that_the_document_lacks_is_never_right():
    document = make_document(np.random.default_rng(2), 40)
    absent = next(c for c in np.ndindex(8, 6, 6) if c not in document.facts)
    case = cases_of(document, [(absent,)], reader(14), reader(17), level(17, ACCEPT))[0]
    assert not any(is_right(case, a) for a in answers(case, Settings()).values())
    found = minions(case, 4, 3, 10, (level(14, 0.02), level(14, 0.02)))
    assert found.value is None
    assert found.bill.log[-1][1] == "<b>it was not found</b>"


def test_no_reader_sees_the_truth():
    """Other values in the answer key change neither what is sent nor what is answered."""
    settings, cases = some_cases()
    for c in cases[:10]:
        blind = replace(c, document=replace(c.document, facts=dict.fromkeys(c.document.facts, 0)))
        for a, b in zip(answers(c, settings).values(), answers(blind, settings).values(), strict=True):
            assert (a.value, a.bill) == (b.value, b.bill)


def test_break_it_leaves_little_to_save():
    """Sending twenty sentences costs less than twice the talk; at the default it costs many times more."""
    short, long = (run(Settings(sentences=n), 3).measures for n in (20, 200))
    assert all(short["cheaper"][m] < 2 < long["cheaper"][m] for m in (MINION, MINIONS))
    assert long["accuracy"][LOCAL] < long["accuracy"][MINIONS] <= long["accuracy"][REMOTE] == 1


# --- bad input ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "value"),
    [("rank", 0), ("rank", 18), ("sentences", 3), ("parts", 0), ("parts", 5), ("chunk", 0), ("rounds", 0),
     ("price", -1), ("price", float("nan")), ("abstain", -0.1), ("chunk", 2.5)],
)  # fmt: skip
def test_bad_settings_are_named(setting, value):
    with pytest.raises(ValueError, match=setting):
        Settings.checked({setting: value})


def test_bad_input_is_named():
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="document"):
        Document((), {})
    with pytest.raises(ValueError, match="sentences"):
        make_document(rng, 3)
    with pytest.raises(ValueError, match="sentences"):
        make_document(rng, 577)
    document = make_document(rng, 4)
    for parts in (0, 3):
        with pytest.raises(ValueError, match="parts"):
            ask(rng, document, parts)
    for rank in (0, 18):
        with pytest.raises(ValueError, match="rank"):
            reader(rank)


def test_requests_use_the_first_wording():
    assert request([(0, 0, 0), (1, 1, 1)]) == f"{single_request((0, 0, 0))} and profit of birch in 2019"
