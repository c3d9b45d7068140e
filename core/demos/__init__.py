"""One file per method. `catalogue()` finds them by themselves; a broken file is reported, never hidden."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from core.lab.demo import Demo


@cache
def _scan() -> tuple[dict[str, Demo], dict[str, str]]:
    good: dict[str, Demo] = {}
    broken: dict[str, str] = {}
    for name in sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_")):
        file = f"core/demos/{name}.py"
        try:
            demo = importlib.import_module(f"{__name__}.{name}").DEMO
        except AttributeError as error:
            broken[name] = f"{file} has no DEMO ({error})"
        except Exception as error:
            broken[name] = f"{file}: {type(error).__name__}: {error}"
        else:
            if isinstance(demo, Demo):
                good[name] = demo
            else:
                broken[name] = f"{file}: DEMO is a {type(demo).__name__}, not a Demo"
    return good, broken


def catalogue() -> dict[str, Demo]:
    """All demos that load, by id."""
    return dict(_scan()[0])


def broken() -> dict[str, str]:
    """Demo files that do not load, by id, each with a sentence that names the file and the error."""
    return dict(_scan()[1])
