"""Measure, print a table, write results.json: medians of five, each divided by its own reference.

python -m benchmarks            everything
python -m benchmarks --quick    medians of one, to see that it works
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).parent / "results.json"
SIZES = (38, 3_000, 20_000)
DEMO_CAP = 2.0
"""Processor seconds that a default run may take on one core; the hard cap is 5."""


def reference() -> None:
    """A fixed workload of the demos' kind: small matrix products with an elementwise function between them."""
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(200, 200)), rng.normal(size=(200, 200)) / 14
    for _ in range(300):
        x = np.tanh(x @ w)


def processor_seconds(work: Callable[[], object], repeats: int) -> float:
    """Median processor seconds of a piece of work."""
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        seconds.append(time.process_time() - start)
    return statistics.median(seconds)


def import_seconds(statement: str, repeats: int) -> float:
    """Median wall seconds of a fresh interpreter that runs one statement."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", statement], check=True, capture_output=True)
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def demos(repeats: int) -> list[dict]:
    """Every demo's default run against the reference workload."""
    from core.demos import catalogue

    base = processor_seconds(reference, max(repeats, 3))
    rows = []
    for name, demo in catalogue().items():
        demo.run(demo.settings(), 0)  # loads data, compiles nothing else
        seconds = processor_seconds(lambda demo=demo: demo.run(demo.settings(), 1), repeats)
        rows.append({"what": f"demo {name}", "seconds": seconds, "reference": base, "ratio": seconds / base})
    return rows


def papers(n: int) -> list:
    """n different abstracts: the built-in ones, then mixtures of their sentences."""
    from core.abstracts import make_abstract, read_collection

    built_in = list(read_collection())
    sentences = [a.plain.split(". ") for a in built_in]
    rng = np.random.default_rng(0)
    made = built_in[:n]
    while len(made) < n:
        a, b = rng.choice(len(sentences), 2, replace=False)
        parts = [s for s in (*sentences[a], *sentences[b]) if rng.random() < 0.5]
        made.append(make_abstract(". ".join([*parts, f"Variant {len(made)}."]), title=f"Paper {len(made)}"))
    return made


def topic_maps(repeats: int) -> list[dict]:
    """Maps of collections of several sizes against plain TF-IDF and PCA on the same texts."""
    from sklearn.decomposition import PCA
    from sklearn.feature_extraction.text import TfidfVectorizer

    from core.topics import build_map
    from core.topics.aside import OnMap

    rows = []
    for n in SIZES:
        collection = OnMap(papers(n))
        texts = [a.plain for a in collection.abstracts]

        def plain(texts: list[str] = texts) -> None:
            PCA(2, svd_solver="arpack").fit_transform(TfidfVectorizer().fit_transform(texts))

        times = repeats if n < 1000 else 1
        base = processor_seconds(plain, times)
        seconds = processor_seconds(lambda collection=collection: build_map(collection), times)
        rows.append(
            {"what": f"map of {n:,} abstracts", "seconds": seconds, "reference": base, "ratio": seconds / base}
        )
    return rows


def imports(repeats: int) -> list[dict]:
    """Importing what the entry file needs against importing Streamlit."""
    base = import_seconds("import streamlit", repeats)
    seconds = import_seconds("import pages.parts.shell", repeats)
    return [{"what": "import of app.py's parts", "seconds": seconds, "reference": base, "ratio": seconds / base}]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("--quick", action="store_true", help="one repeat")
    repeats = 1 if parser.parse_args().quick else 5
    rows = [*imports(repeats), *topic_maps(repeats), *demos(repeats)]
    print("| what | seconds | reference | ratio |\n| --- | --- | --- | --- |")
    for r in rows:
        print(f"| {r['what']} | {r['seconds']:.2f} | {r['reference']:.2f} | {r['ratio']:.1f} |")
    runs = [r["seconds"] for r in rows if r["what"].startswith("demo ")]
    over = [r["what"] for r in rows if r["what"].startswith("demo ") and r["seconds"] > DEMO_CAP]
    print(f"\nMedian default run {statistics.median(runs):.2f} s, slowest {max(runs):.2f} s"
          f" ({len(over)} above {DEMO_CAP:g} s{': ' + ', '.join(over) if over else ''}).")  # fmt: skip
    machine = {"cores": os.cpu_count(), "python": sys.version.split()[0], "date": time.strftime("%Y-%m-%d")}
    RESULTS.write_text(json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
