"""What a server takes: memory over many sessions, and how quick it stays with twenty at once.

python -m benchmarks.serving            memory, then load (about ten minutes)
python -m benchmarks.serving --quick    a tenth of it, to see that it works
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from pathlib import Path

import psutil

from benchmarks.viewer import Viewer, server
from core.demos import catalogue

RESULTS = Path(__file__).parent / "serving.json"
PAGES = ("", "topic_map", "claims", "collection", "present")
GROWTH, MOST_MB = 1.10, 700
CACHED_P95, BUSY_P95 = 2.0, 3.0


def resident_mb(pid: int) -> float:
    """Resident memory of a server and its children in MB."""
    process = psutil.Process(pid)
    return sum(p.memory_info().rss for p in (process, *process.children(recursive=True))) / 1e6


async def one_session(address: str, methods: list[str]) -> list[str]:
    """A session that visits every page and these methods; returns the errors it saw."""
    viewer = await Viewer(address).open()
    errors = []
    for page, query in [(p, "") for p in PAGES] + [("method", f"method={m}") for m in methods]:
        await viewer.visit(page, query)
        errors += viewer.errors
    await viewer.close()
    return errors


def memory(sessions: int, rounds: int) -> list[dict]:
    """Resident memory after each round of sessions that see every page and method one after another."""
    rows = []
    with server() as (address, pid):
        for number in range(1, rounds + 1):
            errors: list[str] = []
            for _ in range(sessions):
                errors += asyncio.run(one_session(address, list(catalogue())))
            time.sleep(2)
            rows.append({"round": number, "resident_mb": resident_mb(pid), "errors": len(errors)})
            print(f"round {number}: {rows[-1]['resident_mb']:.0f} MB, {len(errors)} errors", flush=True)
    return rows


async def _cached(viewer: Viewer, rounds: int, mark: str) -> tuple[list[float], list[str]]:
    """Seconds of cached pages, and what went wrong: errors, or another session's settings."""
    seconds, wrong = [], []
    for _ in range(rounds):
        for page, query in (("", ""), ("claims", ""), ("method", f"method=bass&{mark}"), ("topic_map", "")):
            seconds.append(await viewer.visit(page, query))
            wrong += viewer.errors
            if page == "method" and mark not in viewer.seen:
                wrong.append(f"a session asked for {mark} and was shown something else")
            await asyncio.sleep(0.5)
    return seconds, wrong


async def _runs(viewer: Viewer, number: int, rounds: int) -> tuple[list[float], list[str]]:
    """Seconds of runs that no cache has."""
    methods, seconds, wrong = list(catalogue()), [], []
    for i in range(rounds):
        method = methods[(number * 7 + i) % len(methods)]
        seconds.append(await viewer.visit("method", f"method={method}&seed={100 + 50 * number + i}"))
        wrong += viewer.errors
    return seconds, wrong


async def load(address: str, sessions: int, running: int, rounds: int) -> dict:
    """`sessions` sessions at once, `running` of which run demos that no cache has, the others see cached pages."""
    viewers = [await Viewer(address).open() for _ in range(sessions)]
    marks = [f"agents={4 + i % 8}" for i in range(sessions)]
    for viewer, mark in zip(viewers, marks, strict=True):  # warm the caches
        await _cached(viewer, 1, mark)
    busy = [_runs(v, i, rounds * 2) for i, v in enumerate(viewers[:running])]
    calm = [_cached(v, rounds, m) for v, m in list(zip(viewers, marks, strict=True))[running:]]
    found = await asyncio.gather(*busy, *calm)
    for viewer in viewers:
        await viewer.close()
    seconds = sorted(s for part, _ in found[running:] for s in part)
    wrong = [w for _, part in found for w in part]
    return {
        "sessions": sessions,
        "running_demos": running,
        "cached_pages": len(seconds),
        "p50": statistics.median(seconds),
        "p95": seconds[int(0.95 * (len(seconds) - 1))],
        "slowest": seconds[-1],
        "wrong": wrong[:10],
        "wrong_count": len(wrong),
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serving")
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    rows = memory(2 if quick else 20, 3)
    growth = rows[-1]["resident_mb"] / rows[0]["resident_mb"]
    last = rows[-1]["resident_mb"]
    print(f"memory: {growth:.2f} × from round 1 to 3 (at most {GROWTH}), {last:.0f} MB (at most {MOST_MB})")
    loads = []
    with server() as (address, _):
        for running, bound in ((0, CACHED_P95), (5, BUSY_P95)):
            found = asyncio.run(
                load(address, 6 if quick else 20, min(running, 2 if quick else 5), 1 if quick else 4)
            )
            loads.append(found)
            print(
                f"{found['sessions']} sessions, {found['running_demos']} of them running demos: cached pages p50 "
                f"{found['p50']:.2f} s, p95 {found['p95']:.2f} s (at most {bound}), {found['wrong_count']} wrong"
            )
            for wrong in found["wrong"]:
                print("  ", wrong[:200])
    report = {"date": time.strftime("%Y-%m-%d"), "memory": rows, "growth": growth, "load": loads}
    RESULTS.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
