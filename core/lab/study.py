"""Studies: a demo over seeds, here in the process or as a parallel job that fills the ledger.

python -m core.lab.study                        what is missing or stale, on all cores
python -m core.lab.study --only bass --fresh    one demo anew
python -m core.lab.study --check                compare a sample of runs with the ledger
"""

from __future__ import annotations

import argparse
import importlib
import math
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import joblib
import pandas as pd

from core.lab import ledger
from core.lab.demo import Demo, Measures, Settings


def run_seed(demo: Demo, settings: Settings, seed: int) -> pd.DataFrame:
    """One seed of a demo with the probes of its claims: tidy rows seed, part, measure, method, value."""
    _reset_peak()
    parts: dict[str, Measures] = {}
    cost: Measures = {"seconds": {}, "peak_mb": {}}
    for part, function in {"run": lambda s, k: demo.run(s, k).measures, **demo.probes}.items():
        start = time.process_time()
        parts[part] = function(settings, seed)
        cost["seconds"][part] = time.process_time() - start
    cost["peak_mb"]["run"] = _peak_mb()
    parts["cost"] = cost
    rows = [
        (seed, part, measure, method, float(value))
        for part, measures in parts.items()
        for measure, by_method in measures.items()
        for method, value in by_method.items()
    ]
    frame = pd.DataFrame(rows, columns=["seed", "part", "measure", "method", "value"])
    twice = frame[frame.duplicated(["measure", "method"])]
    if not twice.empty:
        raise ValueError(f"{demo.id}: measure {twice['measure'].iloc[0]!r} is given by two parts")
    return frame


def study(
    demo: Demo,
    settings: Settings,
    seeds: Sequence[int],
    progress: Callable[[int, int], None] | None = None,
) -> pd.DataFrame:
    """A demo at some settings over seeds, one after the other: tidy rows seed, part, measure, method, value.

    `progress(done, of)` is called after each seed and may raise to stop.
    """
    frames = []
    for i, seed in enumerate(seeds):
        frames.append(run_seed(demo, settings, seed))
        if progress:
            progress(i + 1, len(seeds))
    return pd.concat(frames, ignore_index=True)


def run_task(demo_id: str, preset: str, seed: int) -> tuple[str, pd.DataFrame]:
    """One cell of the ledger, callable in a worker process."""
    demo: Demo = importlib.import_module(f"core.demos.{demo_id}").DEMO
    return demo_id, run_seed(demo, demo.preset(preset), seed).assign(preset=preset)


def _reset_peak() -> None:
    """Start a new high-water mark of memory, where the system can (Linux)."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return


def _peak_mb() -> float:
    """Most memory since the last reset in MiB, NaN where the system does not tell (anywhere but Linux)."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return int(status.split("VmHWM:")[1].split()[0]) / 1024
    except (OSError, IndexError):
        return math.nan


def fill(
    demos: dict[str, Demo],
    *,
    presets: Sequence[str] = (),
    fresh: bool = False,
    workers: int = -1,
    scheduler: str = "",
    folder: Path = ledger.LEDGER,
    report: Callable[[str], None] = lambda text: None,
) -> int:
    """Run what the ledger lacks and write each result at once; returns the number of runs done.

    Rows made by other code or other preset settings are dropped first. Stopping and starting again goes on
    where it stopped.
    """
    tables = {name: _kept(demo, fresh, folder) for name, demo in demos.items()}
    tasks = [
        (name, preset, seed)
        for name, demo in demos.items()
        for preset, seed in ledger.Ledger(demo, tables[name], {}).missing()
        if not presets or preset in presets
    ]
    start = time.monotonic()
    for done, (name, frame) in enumerate(_results(tasks, workers, scheduler), 1):
        tables[name] = pd.concat([tables[name], frame], ignore_index=True)
        ledger.write(demos[name], tables[name], folder)
        report(_bar(done, len(tasks), time.monotonic() - start, name))
    return len(tasks)


def _kept(demo: Demo, fresh: bool, folder: Path) -> pd.DataFrame:
    """The rows of a demo's ledger that are still valid."""
    empty = pd.DataFrame(columns=ledger.COLUMNS).astype({"seed": int, "value": float})
    try:
        old = None if fresh else ledger.read(demo, folder)
    except ValueError:
        old = None
    if old is None or old.made_with.get("digest") != ledger.digest(demo):
        return empty
    same = [
        name
        for name, settings in demo.presets.items()
        if old.made_with.get("presets", {}).get(name) == settings.model_dump(mode="json")
    ]
    return old.frame[old.frame["preset"].isin(same)]


def _results(tasks: list, workers: int, scheduler: str) -> Iterator[tuple[str, pd.DataFrame]]:
    jobs = [joblib.delayed(run_task)(*task) for task in tasks]
    if scheduler:
        from distributed import Client

        with Client(scheduler), joblib.parallel_config("dask"):
            yield from joblib.Parallel(return_as="generator_unordered")(jobs)
        return
    with joblib.parallel_config("loky", n_jobs=workers, inner_max_num_threads=1):
        yield from joblib.Parallel(return_as="generator_unordered")(jobs)


def _bar(done: int, of: int, seconds: float, name: str) -> str:
    full = round(30 * done / of)
    left = seconds / done * (of - done)
    return f"\r[{'█' * full}{'·' * (30 - full)}] {done}/{of} · {left:4.0f} s left · {name:<26}"


def draw_thumbnails(demos: dict[str, Demo], folder: Path = ledger.THUMBNAILS) -> None:
    """Write the gallery picture of each demo from its default run at seed 0."""
    for name, demo in demos.items():
        ledger.replace_file(folder / f"{name}.svg", demo.thumbnail(demo.run(demo.settings(), 0)) + "\n")


def check(demos: dict[str, Demo], sample: int = 6, folder: Path = ledger.LEDGER) -> list[str]:
    """Stale or missing ledgers, and drift in seed 0 of every default and in a random further sample."""
    found, tasks = [], []
    for name, demo in demos.items():
        book = ledger.read(demo, folder)
        reason = "there is no ledger of " + name if book is None else book.stale()
        if reason:
            found.append(reason)
        else:
            tasks.append((name, "Default", 0))
    cells = [
        (n, p, s)
        for n, d in demos.items()
        for p in d.presets
        for s in range(1, d.seeds)
        if (n, "Default", 0) in tasks
    ]
    tasks += random.Random().sample(cells, min(sample, len(cells)))
    for (name, preset, seed), (_, frame) in zip(tasks, (run_task(*t) for t in tasks), strict=True):
        found += ledger.drift(demos[name], ledger.read(demos[name], folder), frame, preset, seed)  # type: ignore[arg-type]
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; see the module's docstring."""
    from core.demos import broken, catalogue  # the one place of the lab that knows the demos

    parser = argparse.ArgumentParser(prog="python -m core.lab.study", description="Fill or check the ledger.")
    parser.add_argument("--only", default="", help="ids of demos, separated by commas")
    parser.add_argument("--presets", default="", help="names of presets, separated by ';'")
    parser.add_argument("--seeds", type=int, default=0, help="seeds a preset (default: what each demo asks for)")
    parser.add_argument("--workers", type=int, default=-1, help="processes (-1: one a core)")
    parser.add_argument("--scheduler", default="", help="address of a Dask scheduler, tcp://…")
    parser.add_argument("--fresh", action="store_true", help="measure again what is already there")
    parser.add_argument("--check", action="store_true", help="compare a sample of runs with the ledger")
    parser.add_argument("--show", action="store_true", help="print the verdicts at every preset")
    options = parser.parse_args(arguments)
    demos, wanted = catalogue(), [n for n in options.only.split(",") if n]
    unknown = [n for n in wanted if n not in demos]
    for sentence in [*broken().values(), *(f"there is no demo {n!r}" for n in unknown)]:
        print(sentence, file=sys.stderr)
    if unknown or (broken() and not wanted):
        return 2
    demos = {n: d for n, d in demos.items() if not wanted or n in wanted}
    if options.seeds:
        demos = {n: replace(d, seeds=options.seeds) for n, d in demos.items()}
    if options.check:
        found = check(demos)
        print("\n".join(found) or f"The ledger agrees with the code: {len(demos)} demos.")
        return 1 if found else 0
    if not options.show:
        presets = [p.strip() for p in options.presets.split(";") if p.strip()]
        done = fill(
            demos,
            presets=presets,
            fresh=options.fresh,
            workers=options.workers,
            scheduler=options.scheduler,
            report=_show,
        )
        draw_thumbnails(demos)
        print(f"\n{done} runs done.", file=sys.stderr)
    for demo in demos.values():
        _print_verdicts(demo)
    return 0


def _show(bar: str) -> None:
    """Progress on a terminal; a log file gets none."""
    if sys.stderr.isatty():
        print(bar, end="", file=sys.stderr, flush=True)


def _print_verdicts(demo: Demo) -> None:
    book = ledger.read(demo)
    for preset in demo.presets if book else ():
        if book.rows(preset).empty:  # type: ignore[union-attr]
            continue
        print(f"{demo.id} · {preset} · {book.seconds(preset):.2f} s a run")  # type: ignore[union-attr]
        for claim, verdict in zip(demo.claims, book.verdicts(preset), strict=True):  # type: ignore[union-attr]
            print(f"  {verdict.mark} {claim.says}: {verdict.effect or ''} {verdict.note}")
            for part in verdict.parts:
                print(f"      {part.mark} {part.effect or ''} {part.note}")


if __name__ == "__main__":
    sys.exit(main())
