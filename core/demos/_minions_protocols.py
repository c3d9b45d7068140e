"""Four ways to answer a question about a document, each with its bill of words read and written by the remote."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from core.demos._minions_documents import Cell, Document, request, single_request, value_of, words
from core.demos._minions_readers import Reader

INSTRUCTION = "answer the question about the document with one number"
NOT_FOUND = "it was not found"


@dataclass
class Bill:
    """Words the remote read and wrote so far, and the log (who, text, words charged so far)."""

    price: float
    read: int = 0
    written: int = 0
    log: list[tuple[str, str, float]] = field(default_factory=list)

    @property
    def cost(self) -> float:
        return self.read + self.price * self.written

    def reads(self, *texts: str) -> None:
        self.read += sum(map(words, texts))

    def writes(self, *texts: str) -> None:
        self.written += sum(map(words, texts))

    def note(self, who: str, text: str) -> None:
        self.log.append((who, text, self.cost))


@dataclass(frozen=True)
class Answer:
    value: int | None
    bill: Bill


@dataclass(frozen=True)
class Case:
    """A question about a document with both readers' scores (parts, sentences) of its single-part requests."""

    document: Document
    cells: tuple[Cell, ...]
    local_reader: Reader
    codes: np.ndarray
    """the local reader's codes of the sentences"""
    local: np.ndarray
    remote: np.ndarray
    level: float
    """the remote accepts a sentence for a part from this score on"""

    @property
    def question(self) -> str:
        return request(self.cells)

    def local_best(self, message: str, n: int, without: list[int] | tuple[int, ...] = ()) -> list[int]:
        """The n sentences that the local reader likes best for one message, the best first."""
        scores = self.codes @ self.local_reader.request_codes([message])[0]
        scores[list(without)] = -np.inf
        return [int(i) for i in np.argsort(-scores, kind="stable")[:n]]

    def total(self, found: list[int | None]) -> int | None:
        """The sum of the values in the sentences found for the parts; None if one lacks."""
        values = [None if i is None else value_of(self.document.sentences[i]) for i in found]
        return None if None in values else sum(v for v in values if v is not None)

    def conclude(self, found: list[int | None], bill: Bill) -> Answer:
        """The remote adds up what was found and writes the answer."""
        value = self.total(found)
        answer = NOT_FOUND if value is None else f"the answer is {value}"
        bill.writes(answer)
        bill.note("remote", f"<b>{answer}</b>")
        return Answer(value, bill)


def cases_of(
    document: Document, questions: list[tuple[Cell, ...]], local: Reader, remote: Reader, level: float
) -> list[Case]:
    """The questions of a document; its sentences are encoded once for each reader."""
    codes, remote_codes = local.sentence_codes(document.sentences), remote.sentence_codes(document.sentences)
    out = []
    for cells in questions:
        singles = [single_request(c) for c in cells]
        scores = local.request_codes(singles) @ codes.T, remote.request_codes(singles) @ remote_codes.T
        out.append(Case(document, cells, local, codes, *scores, level))
    return out


def remote_only(case: Case, price: float) -> Answer:
    """The remote reads the whole document and takes its best sentence for each part."""
    bill = Bill(price)
    bill.reads(INSTRUCTION, case.question, case.document.text)
    return case.conclude([int(i) for i in case.remote.argmax(axis=1)], bill)


def local_only(case: Case) -> Answer:
    """One local reading with the whole request; nothing is charged."""
    best = case.local_best(case.question, len(case.cells))
    return Answer(case.total([*best]), Bill(0))


def minion(case: Case, price: float, rounds: int, repeats: bool = True) -> Answer:
    """MINION, the chat: one message for all open parts, answered over the full document; the history is re-read.

    Without `repeats` the local reader passes over the sentences it has already sent.
    """
    bill, history = Bill(price), [INSTRUCTION, case.question]
    found: list[int | None] = [None] * len(case.cells)
    said: list[int] = []
    for r in range(1, rounds + 1):
        left = [k for k, i in enumerate(found) if i is None]
        message = request([case.cells[k] for k in left])
        bill.reads(*history)
        bill.writes(message)
        reply = case.local_best(message, len(left), () if repeats else said)
        said += reply
        history += [message, *(case.document.sentences[i] for i in reply)]
        for k in left:
            best = max(said, key=lambda i: case.remote[k, i])
            if r == rounds or case.remote[k, best] >= case.level:
                found[k] = best
        if None not in found:
            break
    bill.reads(*history)
    return case.conclude(found, bill)


def jobs(scores: np.ndarray, chunk: int, tau: float) -> list[tuple[int, int]]:
    """(chunk, sentence) of the jobs of one task that do not abstain: each chunk's best sentence, if it scores τ."""
    starts = range(0, len(scores), chunk)
    best = ((c, s + int(scores[s : s + chunk].argmax())) for c, s in enumerate(starts))
    return [(c, i) for c, i in best if scores[i] >= tau]


def minions(case: Case, price: float, rounds: int, chunk: int, taus: tuple[float, float]) -> Answer:
    """MinionS: plan single-part tasks, execute them on every chunk, aggregate what does not abstain."""
    bill, memo = Bill(price), list[str]()
    found: list[int | None] = [None] * len(case.cells)
    candidates: list[list[int]] = [[] for _ in case.cells]
    for r in range(1, rounds + 1):
        left = [k for k, i in enumerate(found) if i is None]
        bill.reads(INSTRUCTION, case.question, *memo)
        asked = f"reads: {INSTRUCTION}: {case.question}" if r == 1 else "reads the question again"
        bill.note("remote", " · ".join([asked, *memo]))
        tasks = [single_request(case.cells[k]) for k in left]
        bill.writes(*tasks, f"chunks {chunk}")
        bill.note("remote", "plans: " + " · ".join([*tasks, f"chunks {chunk}"]))
        sent = {k: jobs(case.local[k], chunk, taus[min(r, 2) - 1]) for k in left}
        _send(case, sent, chunk, bill)
        for k, lines in sent.items():
            candidates[k] += [i for _, i in lines]
            best = max(candidates[k], key=lambda i: case.remote[k, i], default=None)
            if best is not None and (r == rounds or case.remote[k, best] >= case.level):
                found[k] = best
                memo.append(f"part {k + 1} {value_of(case.document.sentences[best])}")
        bill.note("remote", "keeps: " + (" · ".join(memo) or "nothing yet"))
        if None not in found:
            break
        chunk = max(1, chunk // 2)
    return case.conclude(found, bill)


def _send(case: Case, sent: dict[int, list[tuple[int, int]]], chunk: int, bill: Bill) -> None:
    """The local side sends a line for each job that found something: chunk, task, value, sentence."""
    total = len(sent) * -(-len(case.document.sentences) // chunk)
    bill.note("local", f"{total} jobs, {total - sum(map(len, sent.values()))} abstain: nothing is charged")
    for k, lines in sent.items():
        for c, i in lines:
            sentence = case.document.sentences[i]
            line = f"{c + 1} {k + 1} {value_of(sentence)} {sentence}"
            bill.reads(line)
            bill.note("local", f"sends: {line}")
