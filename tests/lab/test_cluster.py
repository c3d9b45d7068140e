"""The same study on a real Dask scheduler, with a worker killed midway: the ledger is the local one."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from core.demos import catalogue
from core.lab import ledger, study

pytest.importorskip("distributed")
ROOT = Path(__file__).resolve().parents[2]


def start(*arguments):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([sys.executable, "-m", *arguments], cwd=ROOT, env=environment, stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL, start_new_session=True)  # fmt: skip


@pytest.fixture
def cluster(tmp_path):
    """The address of a scheduler on this machine, and its two workers."""
    file = tmp_path / "scheduler.json"
    here = ["--scheduler-file", str(file)]
    processes = [
        start("distributed.cli.dask_scheduler", *here, "--host", "127.0.0.1", "--no-dashboard", "--port", "0")
    ]
    worker = ["distributed.cli.dask_worker", *here, "--nthreads", "1", "--no-dashboard", "--no-nanny"]
    for _ in range(120):
        if file.exists() and file.stat().st_size:
            break
        time.sleep(0.25)
    processes += [start(*worker), start(*worker)]
    import json

    yield json.loads(file.read_text(encoding="utf-8"))["address"], processes[1:]
    for process in processes:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)


def test_a_killed_worker_changes_nothing(cluster, tmp_path):
    address, workers = cluster
    demos = {"cat_iv": catalogue()["cat_iv"]}
    seen = []

    def report(text):
        seen.append(text)
        if len(seen) == 5:
            os.killpg(workers[0].pid, signal.SIGKILL)

    study.fill(demos, scheduler=address, folder=tmp_path / "remote", report=report)
    study.fill(demos, workers=1, folder=tmp_path / "local")
    remote, local = (ledger.read(demos["cat_iv"], tmp_path / where) for where in ("remote", "local"))
    assert workers[0].wait(10) != 0
    assert remote.stale() == ""
    numbers = [f.frame[f.frame["part"] != "cost"].reset_index(drop=True) for f in (remote, local)]
    assert numbers[0].equals(numbers[1])
