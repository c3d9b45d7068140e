"""The contract of a demo: settings, measures, claims, figures and what binds them together."""

from __future__ import annotations

import ast
import inspect
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Protocol, Self, get_args, get_origin

import plotly.graph_objects as go
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo

from core.lab.verdicts import Rule, Samples, Verdict, untestable

Measures = dict[str, dict[str, float]]
"""measure -> method -> value"""


class Settings(BaseModel):
    """The controls of one demo: the only declaration that form, link, cache key and command line read.

    Declare number controls with `control(...)` and choices with `choice(...)`. Instances are frozen and
    hashable; a value out of range raises `ValueError` that names the setting and what it may be.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, hide_input_in_errors=True)

    def replace(self, **changes: Any) -> Self:
        """A validated copy with some settings changed."""
        return type(self).checked({**self.model_dump(), **changes})

    @classmethod
    def checked(cls, raw: Mapping[str, Any]) -> Self:
        """Settings from raw values; `ValueError` with one sentence per wrong setting."""
        try:
            return cls(**raw)
        except ValidationError as error:
            raise ValueError(" ".join(problems(error, cls))) from None

    def changed(self) -> dict[str, Any]:
        """The settings that differ from their defaults, in the order of their declaration."""
        default = type(self)()
        return {k: v for k, v in self.model_dump().items() if v != getattr(default, k)}


def control(
    default: float,
    title: str,
    low: float,
    high: float,
    step: float | None = None,
    *,
    unit: str = "",
    help: str = "",
    log: bool = False,
) -> Any:
    """A number with a range, shown as a slider; `log` for ranges over orders of magnitude."""
    extra: dict[str, Any] = {"step": step, "unit": unit, "log": log, "shown": True}
    return Field(default, ge=low, le=high, title=title, description=help, json_schema_extra=extra)


def choice(default: Any, title: str, *, labels: Mapping[Any, str] | None = None, help: str = "") -> Any:
    """One of the values of the field's `Literal` type (or a bool); `labels` are the words shown for them."""
    extra: dict[str, Any] = {"labels": dict(labels or {}), "shown": True}
    return Field(default, title=title, description=help, json_schema_extra=extra)


def fixed(default: Any, title: str, **bounds: Any) -> Any:
    """A setting that presets and programs can change but that has no control; give numbers `ge` and `le`."""
    return Field(default, title=title, json_schema_extra={"shown": False}, **bounds)


@dataclass(frozen=True)
class Control:
    """What a page needs to draw one setting and to read it from a link."""

    name: str
    title: str
    kind: Literal["int", "float", "bool", "choice"]
    default: Any
    low: float = -math.inf
    high: float = math.inf
    step: float | None = None
    options: tuple[Any, ...] = ()
    labels: Mapping[Any, str] = field(default_factory=dict)
    unit: str = ""
    help: str = ""
    log: bool = False
    shown: bool = True

    @property
    def may_be(self) -> str:
        """The allowed values in words: '2 to 20', or 'adaptive or fixed'."""
        if self.kind == "bool":
            return "true or false"
        if self.kind == "choice":
            return " or ".join(str(o) for o in self.options)
        unit = f" {self.unit}" if self.unit else ""
        whole = "a whole number " if self.kind == "int" else ""
        if math.isinf(self.high):
            return f"{whole}from {self.low:g} up{unit}"
        return f"{whole}{self.low:g} to {self.high:g}{unit}"


def controls(settings: type[Settings]) -> list[Control]:
    """All settings of a class as controls, in the order of declaration."""
    return [_control(name, info) for name, info in settings.model_fields.items()]


def _control(name: str, info: FieldInfo) -> Control:
    extra: dict[str, Any] = info.json_schema_extra if isinstance(info.json_schema_extra, dict) else {}
    low = next((v for m in info.metadata for v in _limits(m, "ge", "gt")), -math.inf)
    high = next((v for m in info.metadata for v in _limits(m, "le", "lt")), math.inf)
    options: tuple[Any, ...] = ()
    if get_origin(info.annotation) is Literal:
        kind: Any = "choice"
        options = get_args(info.annotation)
    else:
        kind = "int" if info.annotation is int else "bool" if info.annotation is bool else "float"
    return Control(
        name=name,
        title=info.title or name,
        kind=kind,
        default=info.default,
        low=float(low),
        high=float(high),
        step=extra.get("step"),
        options=options,
        labels=extra.get("labels", {}),
        unit=extra.get("unit", ""),
        help=info.description or "",
        log=extra.get("log", False),
        shown=extra.get("shown", True),
    )


def _limits(bound: Any, *names: str) -> list[float]:
    return [getattr(bound, n) for n in names if getattr(bound, n, None) is not None]


def problems(error: ValidationError, settings: type[Settings]) -> list[str]:
    """One sentence per wrong setting: its name, the value given, what it may be."""
    known = {c.name: c for c in controls(settings)}
    sentences = []
    for item in error.errors(include_url=False):
        name = str(item["loc"][0]) if item["loc"] else ""
        if item["type"] == "extra_forbidden":
            sentences.append(f"There is no setting {name!r} (there are: {', '.join(known)}).")
        elif name in known:
            given = repr(item.get("input"))[:60]
            sentences.append(f"{name} cannot be {given}: it may be {known[name].may_be}.")
        else:  # a rule over several settings, written as "name: sentence" by the demo
            sentences.append(item["msg"].removeprefix("Value error, ").rstrip(".") + ".")
    return sentences


@dataclass(frozen=True)
class Measure:
    """What a measure is called and how to read it; `drift` overrides the tolerance of the ledger check."""

    title: str
    unit: str = ""
    better: Literal["lower", "higher", ""] = ""
    digits: int = 3
    timing: bool = False
    """Clock readings differ between machines: shown, never compared."""
    drift: float | None = None


@dataclass(frozen=True)
class Paper:
    """The paper that a demo re-implements."""

    title: str
    url: str
    code: str = ""


class Run(Protocol):
    """What a run returns: anything its figures need, plus the measures."""

    @property
    def measures(self) -> Measures: ...


Probe = Callable[[Any, int], Measures]
"""(settings, seed) -> measures that only some claims need (other data, other presets)."""


@dataclass(frozen=True)
class Claim:
    """A sentence of the abstract that the demo puts to the test.

    `quote` is an exact piece of the abstract, `says` what it means in this demo, `rule` decides from the
    samples of all seeds. `probe` runs what the rule needs beyond the demo's own run. `applies` returns the
    reason why the claim cannot be tested at some settings, or "".
    """

    quote: str
    says: str
    rule: Rule
    probe: Probe | None = None
    applies: Callable[[Any], str] | None = None

    def judge(self, samples: Samples, settings: Settings) -> Verdict:
        """The verdict of this claim over the seeds in `samples`."""
        reason = self.applies(settings) if self.applies else ""
        return untestable(reason)(samples) if reason else self.rule(samples)


Figure = Callable[..., go.Figure]
"""A function of a run (and, if marked `across_seeds`, of the samples); its docstring is the caption."""


def across_seeds(draw: Figure) -> Figure:
    """Mark a figure that also wants the samples over seeds: it is called as draw(run, samples | None)."""
    draw.wants_samples = True  # type: ignore[attr-defined]
    return draw


def caption(draw: Figure) -> str:
    """The caption of a figure: its docstring on one line. The first sentence says what to see."""
    return " ".join(inspect.cleandoc(draw.__doc__ or "").split())


@dataclass(frozen=True)
class Demo:
    """One runnable method. Everything a page, the ledger or a slide shows comes from here."""

    name: str
    line: str
    topic: str
    abstract: str
    paper: Paper
    settings: type[Settings]
    run: Callable[[Any, int], Any]
    measures: Mapping[str, Measure]
    figures: Sequence[Figure]
    thumbnail: Callable[[Any], str]
    claims: Sequence[Claim]
    break_it: str
    """The name of the preset that removes the advantage."""
    why_it_breaks: str
    simplified: str
    presets: Mapping[str, Settings] = field(default_factory=dict)
    seeds: int = 8
    sound: Callable[[Any], dict[str, bytes]] | None = None
    """Clips of a run as WAV bytes, by name, where the method makes sound."""
    extra: str = ""
    """Name of a part of the method page that only this demo has (a form), drawn by the page."""

    def __post_init__(self) -> None:
        presets = {"Default": self.settings(), **self.presets}
        object.__setattr__(self, "presets", presets)
        if self.break_it not in presets:
            raise ValueError(f"break_it names no preset: {self.break_it!r}; there are {', '.join(presets)}")
        for draw in self.figures:
            if not caption(draw):
                raise ValueError(f"figure {draw.__name__} has no docstring, so no caption")

    @property
    def module(self) -> str:
        return self.run.__module__

    @property
    def id(self) -> str:
        """The demo's id: the name of its file."""
        return self.module.rsplit(".", 1)[-1]

    @cached_property
    def how_it_works(self) -> str:
        """The module's docstring: Markdown with LaTeX, each displayed formula as a block of its own."""
        text = inspect.cleandoc(inspect.getmodule(self.run).__doc__ or "")
        return re.sub(r"\s*\$\$(.+?)\$\$[ \t]*", r"\n\n$$\n\1\n$$\n\n", text, flags=re.DOTALL)

    @cached_property
    def source(self) -> str:
        """The demo's own code, without its docstring (the page shows that as prose)."""
        text = inspect.getsource(inspect.getmodule(self.run))  # type: ignore[arg-type]
        body = ast.parse(text).body
        start = body[0].end_lineno if ast.get_docstring(ast.parse(text)) else 0
        return "\n".join(text.splitlines()[start:]).strip() + "\n"

    @property
    def probes(self) -> dict[str, Probe]:
        """The probes of the claims by function name, each once."""
        return {c.probe.__name__: c.probe for c in self.claims if c.probe is not None}

    def preset(self, name: str) -> Settings:
        """A preset's settings; `ValueError` for an unknown name."""
        if name not in self.presets:
            raise ValueError(f"preset cannot be {name!r}: it may be {' or '.join(self.presets)}")
        return self.presets[name]

    def preset_of(self, settings: Settings) -> str | None:
        """The name of the preset with exactly these settings, if there is one."""
        return next((name for name, preset in self.presets.items() if preset == settings), None)

    def draw(self, figure: Figure, run: Any, samples: Samples | None = None) -> go.Figure:
        """A figure of a run, in the light palette (see `charts.in_theme` for the dark one)."""
        return figure(run, samples) if getattr(figure, "wants_samples", False) else figure(run)
