"""The ledger and the study that fills it: resumed, atomic, stale, drifting, corrupt."""

import numpy as np
import pandas as pd
import pytest

from core.lab import ledger, study, sweep
from core.lab.demo import controls


@pytest.fixture
def in_process(monkeypatch, coin):
    """Run tasks here instead of in workers, which would not know the tests' demo."""
    monkeypatch.setattr(
        study, "run_task", lambda i, p, s: (i, study.run_seed(coin, coin.preset(p), s).assign(preset=p))
    )
    monkeypatch.setattr(study, "_results", lambda tasks, workers, scheduler: (study.run_task(*t) for t in tasks))


def test_one_seed_is_tidy(coin):
    rows = study.run_seed(coin, coin.settings(), 3)
    values = rows.set_index(["part", "measure", "method"])["value"]
    assert values["run", "rate", "coin"] == pytest.approx(0.53)
    assert values["extra", "extra", "coin"] == 1.0
    assert values["cost", "seconds", "run"] >= 0
    assert values["cost", "peak_mb", "run"] > 1


def test_a_study_reports_progress_and_can_be_stopped(coin):
    seen = []

    def stop(done, of):
        seen.append((done, of))
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        study.study(coin, coin.settings(), range(5), stop)
    assert seen == [(1, 5), (2, 5)]
    frame = study.study(coin, coin.settings(), range(3))
    assert list(ledger.samples_of(frame)("rate", "coin")) == pytest.approx([0.5, 0.51, 0.52])


def test_fill_resumes_and_judges(coin, in_process, tmp_path):
    assert study.fill({"coin": coin}, presets=["Default"], folder=tmp_path) == 8
    book = ledger.read(coin, tmp_path)
    assert [p for p, _ in book.missing()] == ["Break it: no bias"] * 8
    assert "lacks 8 runs" in book.stale()
    assert study.fill({"coin": coin}, folder=tmp_path) == 8
    assert study.fill({"coin": coin}, folder=tmp_path) == 0
    book = ledger.read(coin, tmp_path)
    assert book.stale() == ""
    assert [v.outcome for v in book.verdicts()] == ["holds", "holds"]
    assert book.verdicts()[0].effect.value == pytest.approx(0.3)
    assert book.samples("Default").seeds == tuple(range(8))
    with pytest.raises(ValueError, match="no preset 'x'"):
        book.verdicts("x")


def test_an_interrupted_job_loses_nothing_finished(coin, in_process, tmp_path):
    count = iter(range(100))

    def report(_):
        if next(count) == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        study.fill({"coin": coin}, folder=tmp_path, report=report)
    assert len(ledger.read(coin, tmp_path).missing()) == 16 - 5
    assert study.fill({"coin": coin}, folder=tmp_path) == 11
    assert not list(tmp_path.glob("*.draft"))


def test_changed_code_is_stale_and_prose_is_not(coin, in_process, tmp_path):
    study.fill({"coin": coin}, folder=tmp_path)
    file = tmp_path / "core" / "demos" / "coin.py"
    text = file.read_text(encoding="utf-8")
    file.write_text(
        text.replace("A coin with a known bias", "Words").replace("Look at the dot", "Look"), encoding="utf-8"
    )
    assert ledger.read(coin, tmp_path).stale() == ""
    file.write_text(text.replace("0.01 * seed", "0.02 * seed"), encoding="utf-8")
    assert "changed since" in ledger.read(coin, tmp_path).stale()
    assert study.fill({"coin": coin}, folder=tmp_path) == 16


def test_drift_is_found_within_its_tolerance(coin, in_process, tmp_path):
    study.fill({"coin": coin}, folder=tmp_path)
    book = ledger.read(coin, tmp_path)
    fresh = study.run_seed(coin, coin.settings(), 0)
    assert ledger.drift(coin, book, fresh, "Default", 0) == []
    moved = fresh.assign(value=np.where(fresh["measure"] == "rate", fresh["value"] + 0.1, fresh["value"]))
    assert len(ledger.drift(coin, book, moved, "Default", 0)) == 2
    assert study.check({"coin": coin}, folder=tmp_path) == []
    assert study.check({"coin": coin}, folder=tmp_path / "none") == ["there is no ledger of coin"]


def test_a_corrupt_ledger_is_named(coin, tmp_path):
    assert ledger.read(coin, tmp_path) is None
    (tmp_path / "coin.csv").write_text("nonsense\n1\n", encoding="utf-8")
    (tmp_path / "coin.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ValueError, match=r"coin\.csv cannot be read"):
        ledger.read(coin, tmp_path)


def test_a_measure_given_twice_is_refused(coin, monkeypatch):
    import dataclasses

    twice = dataclasses.replace(coin.claims[0], probe=lambda s, k: {"rate": {"coin": 1.0}})
    with pytest.raises(ValueError, match="given by two parts"):
        study.run_seed(dataclasses.replace(coin, claims=(twice,)), coin.settings(), 0)


def test_thumbnails_and_command_line(coin, in_process, tmp_path, monkeypatch, capsys):
    study.draw_thumbnails({"coin": coin}, tmp_path)
    assert (tmp_path / "coin.svg").read_text(encoding="utf-8").startswith("<svg")
    monkeypatch.setattr(ledger, "LEDGER", tmp_path)
    monkeypatch.setattr(study.ledger, "THUMBNAILS", tmp_path)
    for function in (study.fill, study.check, ledger.read, study.draw_thumbnails):
        defaults = function.__kwdefaults__ or {}
        if "folder" in defaults:
            monkeypatch.setitem(function.__kwdefaults__, "folder", tmp_path)
        elif function.__defaults__:
            monkeypatch.setattr(function, "__defaults__", (*function.__defaults__[:-1], tmp_path))
    assert study.main(["--only", "nobody"]) == 2
    assert study.main(["--only", "coin", "--workers", "1"]) == 0
    assert study.main(["--check"]) == 0
    assert study.main(["--show"]) == 0
    assert study.main(["--only", "coin", "--workers", "1", "--seeds", "9"]) == 0
    assert ledger.read(coin, tmp_path).samples("Default").seeds == tuple(range(9))
    assert "✓ The coin beats its rival" in capsys.readouterr().out


def test_sweep_finds_where_settings_do_not_go_together(coin):
    bias = next(c for c in controls(coin.settings) if c.name == "bias")
    grid = sweep.values(bias)
    assert grid[0] == 0.0
    assert grid[-1] == 1.0
    assert 0.5 in grid
    tails = coin.settings(side="tails")
    done = []
    table = sweep.sweep(
        coin, tails, "bias", grid, lambda s, k: study.run_seed(coin, s, k), lambda i, of: done.append(i)
    )
    assert len(done) == (len(grid) - 1) * sweep.SEEDS
    assert "always shows heads" in table[table["value"] == 1.0]["note"].iloc[0]
    first = table[(table["claim"] == "The coin beats its rival") & (table["value"] < 1)]
    assert first["effect"].to_numpy() == pytest.approx(0.3)
    assert sweep.sweep_figure(table, coin.claims[0], bias, 0.5).data
    assert sweep.sweep_figure(table, coin.claims[1], bias, 0.5) is None


def test_sweep_values_of_whole_and_logarithmic_settings(coin):
    from core.lab.demo import Control

    whole = Control("k", "K", "int", 3, 1, 6)
    assert sweep.values(whole) == [1, 2, 3, 4, 5, 6]
    log = Control("e", "E", "float", 0.1, 0.001, 10.0, log=True)
    grid = sweep.values(log)
    assert grid[0] == pytest.approx(0.001)
    assert grid[-1] == pytest.approx(10)
    assert np.diff(np.log(grid)) == pytest.approx(np.log(10_000) / 6, rel=1e-3)


def test_rows_of_other_presets_stay_apart():
    frame = pd.DataFrame({"seed": [0, 1], "part": "run", "measure": "m", "method": "a", "value": [1.0, 2.0]})
    assert ledger.samples_of(frame, [1]).seeds == (1,)
