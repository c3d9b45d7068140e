"""A tiny demo for the tests of the lab: its numbers are known in closed form."""

import sys
import textwrap

import pytest

from core.lab import ledger

SOURCE = '''
r"""A coin with a known bias, which is all there is to it."""
from dataclasses import dataclass
from typing import Literal
import numpy as np
from pydantic import model_validator
from core.lab import charts, thumbnails
from core.lab.demo import Claim, Demo, Measure, Paper, Settings, choice, control, fixed
from core.lab.verdicts import above, difference

class CoinSettings(Settings):
    bias: float = control(0.5, "Bias", 0.0, 1.0, 0.1)
    tosses: int = control(100, "Tosses", 10, 1000, 10, unit="tosses")
    side: Literal["heads", "tails"] = choice("heads", "Side", labels={"heads": "Heads up"})
    fair: bool = choice(True, "Fair")
    hidden: float = fixed(1.0, "Hidden", gt=0, le=2)

    @model_validator(mode="after")
    def _sane(self):
        if self.bias == 1.0 and self.side == "tails":
            raise ValueError("bias: a coin that always shows heads has no tails")
        return self

@dataclass(frozen=True)
class Run:
    measures: dict

def run(settings, seed):
    value = settings.bias + 0.01 * seed
    return Run({"rate": {"coin": value, "rival": value - 0.3}})

def extra(settings, seed):
    return {"extra": {"coin": settings.bias * 2}}

def rate_figure(run):
    """Look at the dot. It is the rate."""
    fig = charts.blank("Rate (share)")
    charts.dots(fig, {"coin": (run.measures["rate"]["coin"], 0.4, 0.6)}, charts.roles("coin"))
    return fig

def thumbnail(run):
    return thumbnails.dots({"coin": (0.5, 0.4, 0.6)}, {"coin": "method"})

DEMO = Demo(
    name="Coin", line="A coin.", topic="Tests", abstract="We toss", paper=Paper("Coins", "https://example.org"),
    settings=CoinSettings, run=run,
    measures={"rate": Measure("Rate", better="higher"), "extra": Measure("Extra")},
    figures=(rate_figure,), thumbnail=thumbnail,
    claims=(
        Claim("toss", "The coin beats its rival", above(difference("rate", "coin", "rival"), 0), probe=extra),
        Claim("coin", "Only for heads", above(difference("rate", "coin", "rival"), 0),
              applies=lambda s: "" if s.side == "heads" else "no heads here"),
    ),
    presets={"Break it: no bias": CoinSettings(bias=0.0)}, break_it="Break it: no bias",
    why_it_breaks="No bias.", simplified="Everything.",
)
'''


@pytest.fixture
def coin(tmp_path, monkeypatch):
    """The demo of a file core/demos/coin.py in a project of its own."""
    folder = tmp_path / "core" / "demos"
    folder.mkdir(parents=True)
    (folder / "coin.py").write_text(textwrap.dedent(SOURCE), encoding="utf-8")
    import core.demos

    monkeypatch.setattr(core.demos, "__path__", [str(folder)])
    monkeypatch.setattr(ledger, "ROOT", tmp_path)
    sys.modules.pop("core.demos.coin", None)
    core.demos._scan.cache_clear()
    yield core.demos.catalogue()["coin"]
    sys.modules.pop("core.demos.coin", None)
    core.demos._scan.cache_clear()
