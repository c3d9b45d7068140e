"""One file per method. `catalogue()` finds them by themselves; a broken file is reported, never hidden."""

from __future__ import annotations

import importlib
import pkgutil
import re
from functools import cache

from core.lab.demo import Demo

_NAME = 26
"""Most letters of a short name."""
_SMALL = {"of", "for", "in", "via", "and", "with", "the", "a", "on"}


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


def _letters(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


def demo_of(plain: str) -> Demo | None:
    """The demo of an abstract (its plain text), wherever it comes from: known by its opening words."""
    opening = _letters(plain[:400])
    return next((d for d in _scan()[0].values() if opening.startswith(_letters(d.abstract))), None)


def short_name(title: str, plain: str) -> str:
    """A name short enough for the map: the demo's, or the title up to its colon, or its first words."""
    demo = demo_of(plain)
    if demo is not None:
        return demo.name
    title = title.removeprefix("Position: ").replace("^3", "³")
    lead = title.split(":")[0].strip()
    if len(lead) <= _NAME:
        return lead
    words = lead.split()
    while len(" ".join(words)) > _NAME and len(words) > 1:
        words.pop()
    while len(words) > 1 and words[-1].lower() in _SMALL:
        words.pop()
    return " ".join(words) + " …"
