"""Maps of real lists, where they lie beside the project: nearness agrees with areas and keywords that people gave."""

import json

import numpy as np
import pytest

from core.abstracts import read_text
from core.topics import layout
from core.topics.vectors import nearest, vectorise
from tests.browser.conftest import ROOT

LISTS = ROOT.parent / "shared" / "lists"
pytestmark = pytest.mark.skipif(not LISTS.exists(), reason="the real lists are not part of the project")


def labelled(pattern, label):
    """(texts, labels) of a list's papers that have a label which at least 30 papers share."""
    (file,) = LISTS.glob(pattern)
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").split("\n") if line]
    words = [str(row.get(label) or "").split(":")[0].strip().lower() for row in rows]
    counts = {w: words.count(w) for w in set(words) if w}
    kept = [i for i, w in enumerate(words) if counts.get(w, 0) >= 30]
    texts = [f"{rows[i]['title']}. {rows[i]['title']}. {rows[i]['abstract']}" for i in kept]
    return texts, np.array([words[i] for i in kept])


def agreement(rows, labels, k=10):
    """Mean share of a paper's k nearest that have its label."""
    near, _ = nearest(rows, rows, k + 1)
    others = np.array([[j for j in row if j != i][:k] for i, row in enumerate(near.tolist())])
    return float((labels[others] == labels[:, None]).mean())


def test_nearest_papers_share_the_official_area():
    texts, labels = labelled("ijcai*.jsonl", "area")
    found = agreement(vectorise(texts).rows, labels)
    chance = float(sum((labels == c).mean() ** 2 for c in set(labels)))
    assert found >= 0.52, (found, chance)
    assert found > 2 * chance


def test_a_conference_is_read_whole_and_its_map_is_trustworthy():
    (file,) = LISTS.glob("ml_*.jsonl")
    collection = read_text(file.read_bytes(), file.name)
    assert len(collection) == 3476
    assert collection.report.skipped == ()
    rows = vectorise([f"{a.title}. {a.title}. {a.plain}" for a in collection]).rows
    kept, trustworthy = layout.kept(rows, layout.arrange(rows))
    assert trustworthy >= 0.97
    assert kept >= 0.4
