"""The ledger: measured results of every demo, preset and seed, kept as one CSV and one JSON file a demo.

`data/ledger/<id>.csv` is tidy: preset, seed, part, measure, method, value. Part is "run" for the demo's own
run, a probe's name for its measures, "cost" for processor seconds and peak memory. `<id>.json` says what the
numbers were made with: a digest of the code that computes, package versions, the settings of each preset.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from core.lab.demo import Demo, Settings
from core.lab.verdicts import Samples, Verdict

ROOT = Path(__file__).resolve().parents[2]
LEDGER = ROOT / "data" / "ledger"
THUMBNAILS = ROOT / "data" / "thumbnails"
COLUMNS = ["preset", "seed", "part", "measure", "method", "value"]
PACKAGES = ("numpy", "scipy", "scikit-learn", "autograd", "ml_dtypes", "pillow")
_NOT_COMPUTING = {"charts", "palette", "thumbnails", "demo", "verdicts", "study", "ledger"}


def samples_of(frame: pd.DataFrame, seeds: Sequence[int] | None = None) -> Samples:
    """Samples from tidy rows of one preset; seeds without every measure are left out."""
    rows = frame[frame["part"] != "cost"]
    if seeds is not None:
        rows = rows[rows["seed"].isin(seeds)]
    keys = rows["measure"] + "\0" + rows["method"].astype(str)
    wide = rows.assign(key=keys).pivot_table(
        index="seed", columns="key", values="value", aggfunc="first", dropna=False, sort=False
    )
    wide = wide.sort_index()
    values = {tuple(str(k).split("\0")): wide[k].to_numpy(dtype=float) for k in wide.columns}
    return Samples(values, [int(s) for s in wide.index])  # type: ignore[arg-type]


def judge(demo: Demo, settings: Settings, frame: pd.DataFrame) -> list[Verdict]:
    """The verdict of each claim of a demo, from tidy rows measured at these settings."""
    samples = samples_of(frame)
    return [claim.judge(samples, settings) for claim in demo.claims]


@dataclass(frozen=True)
class Ledger:
    """The measured results of one demo."""

    demo: Demo
    frame: pd.DataFrame
    made_with: dict[str, Any]

    def rows(self, preset: str) -> pd.DataFrame:
        """Tidy rows of a preset, empty where it was not measured."""
        return self.frame[self.frame["preset"] == preset]

    def samples(self, preset: str) -> Samples:
        """Samples of a preset over its seeds."""
        return samples_of(self.rows(preset))

    def verdicts(self, preset: str = "Default") -> list[Verdict]:
        """Verdicts of all claims at a preset; `ValueError` if the preset was not measured."""
        rows = self.rows(preset)
        if rows.empty:
            raise ValueError(f"the ledger of {self.demo.id} has no preset {preset!r}")
        return judge(self.demo, self.demo.preset(preset), rows)

    def seconds(self, preset: str = "Default") -> float:
        """Median processor seconds of one run, its probes left out."""
        rows = self.rows(preset)
        return float(rows.loc[(rows["measure"] == "seconds") & (rows["method"] == "run"), "value"].median())

    def missing(self) -> list[tuple[str, int]]:
        """(preset, seed) pairs that are not measured yet."""
        done = set(self.frame[["preset", "seed"]].drop_duplicates().itertuples(index=False, name=None))
        return [(p, s) for p in self.demo.presets for s in range(self.demo.seeds) if (p, s) not in done]

    def stale(self) -> str:
        """Why the ledger no longer belongs to the code, or ""."""
        if self.made_with.get("digest") != digest(self.demo):
            return f"the code of {self.demo.id} changed since its ledger was made"
        for name, settings in self.demo.presets.items():
            if self.made_with.get("presets", {}).get(name) != settings.model_dump(mode="json"):
                return f"the settings of {self.demo.id}'s preset {name!r} changed since its ledger was made"
        if gaps := self.missing():
            return f"the ledger of {self.demo.id} lacks {len(gaps)} runs, first {gaps[0]}"
        return ""


def read(demo: Demo, folder: Path = LEDGER) -> Ledger | None:
    """The ledger of a demo, or None where there is none; `ValueError` names a file that is corrupt."""
    csv, meta = folder / f"{demo.id}.csv", folder / f"{demo.id}.json"
    if not csv.exists() or not meta.exists():
        return None
    try:
        frame = pd.read_csv(csv, keep_default_na=False, na_values={"value": ["nan"]}, encoding="utf-8")
        frame = frame[COLUMNS].astype({"seed": int, "value": float, "method": str})
        return Ledger(demo, frame, json.loads(meta.read_text(encoding="utf-8")))
    except (KeyError, ValueError, json.JSONDecodeError, pd.errors.ParserError) as error:
        raise ValueError(f"the ledger file {csv.name} cannot be read: {error}") from error


def write(demo: Demo, frame: pd.DataFrame, folder: Path = LEDGER) -> None:
    """Write a demo's ledger so that a crash leaves the old files or the new ones, never half."""
    folder.mkdir(parents=True, exist_ok=True)
    order = {p: i for i, p in enumerate(demo.presets)}
    frame = frame.assign(_p=frame["preset"].map(order)).sort_values(["_p", "seed"], kind="stable")
    text = frame[COLUMNS].to_csv(index=False, float_format="%.8g", na_rep="nan", lineterminator="\n")
    made_with = {
        "digest": digest(demo),
        "python": platform.python_version(),
        "packages": {p: version(p) for p in PACKAGES},
        "presets": {n: s.model_dump(mode="json") for n, s in demo.presets.items()},
    }
    replace_file(folder / f"{demo.id}.csv", text)
    replace_file(folder / f"{demo.id}.json", json.dumps(made_with, indent=1, ensure_ascii=False) + "\n")


def replace_file(path: Path, text: str) -> None:
    """Write a text file in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(path.suffix + f".{os.getpid()}.draft")
    draft.write_text(text, encoding="utf-8")
    os.replace(draft, path)


def digest(demo: Demo) -> str:
    """A digest of the code that computes: the demo and the lab modules it uses, without prose and figures."""
    files = [ROOT / "core" / "demos" / f"{demo.id}.py"]
    seen: set[Path] = set()
    sha = hashlib.sha256()
    while files:
        path = files.pop(0)
        if path in seen or not path.exists():
            continue
        seen.add(path)
        tree = ast.parse(path.read_text(encoding="utf-8"))
        files += _own_modules(tree)
        sha.update(ast.dump(_Computing().visit(tree)).encode())
    return sha.hexdigest()[:16]


def _own_modules(tree: ast.AST) -> list[Path]:
    """Files of the project that a module computes with: lab modules and private parts of demos."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in ("core.lab", "core.demos"):
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(("core.lab.", "core.demos._")):
            names.add(str(node.module))
    names = {n for n in names if n.rsplit(".", 1)[1] not in _NOT_COMPUTING}
    return [ROOT / f"{n.replace('.', '/')}.py" for n in sorted(names)]


class _Computing(ast.NodeTransformer):
    """Strips docstrings, figure functions, thumbnails and the DEMO record from a module's tree."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        if node.name.endswith("_figure") or node.name == "thumbnail":
            return None
        return self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> Any:
        if any(isinstance(t, ast.Name) and t.id == "DEMO" for t in node.targets):
            return None
        return self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> Any:
        prose = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return None if prose else self.generic_visit(node)


def drift(demo: Demo, ledger: Ledger, fresh: pd.DataFrame, preset: str, seed: int) -> list[str]:
    """Sentences about measures of one run that left their tolerance against the ledger.

    The tolerance is a quarter of the standard deviation between seeds plus 0.1 % of the value, or the
    measure's own `drift`; another processor may round differently and a trained network amplifies that.
    """
    old = ledger.rows(preset)
    old = old[old["part"] != "cost"]
    spread = old.groupby(["measure", "method"])["value"].std().to_dict()
    before = old[old["seed"] == seed].set_index(["measure", "method"])["value"].to_dict()
    found = []
    rows = fresh[fresh["part"] != "cost"]
    for key, value in zip(zip(rows["measure"], rows["method"], strict=True), rows["value"], strict=True):
        measure = demo.measures.get(key[0])
        if measure is not None and measure.timing:
            continue
        if key not in before:
            found.append(f"{demo.id} · {preset} · seed {seed}: {key[0]}/{key[1]} is not in the ledger")
            continue
        was = before[key]
        allowed = 0.25 * np.nan_to_num(spread.get(key, 0.0)) + 1e-3 * abs(was) + 1e-9
        if measure is not None and measure.drift is not None:
            allowed = measure.drift
        same = value == was or (np.isnan(value) and np.isnan(was)) or abs(value - was) <= allowed
        if not same:
            found.append(f"{demo.id} · {preset} · seed {seed}: {key[0]}/{key[1]} was {was:.5g}, is {value:.5g}")
    return found
