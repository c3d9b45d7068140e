"""A reporting checklist for human baselines: thirty items in five stages, scored against 115 published studies."""

from __future__ import annotations

from collections.abc import Mapping

ANSWERS = ("Unknown", "Yes", "Partial", "No", "Not applicable")
_VALUE = {"Yes": 1.0, "Partial": 0.5, "No": 0.0, "Unknown": 0.0}
REVERSED = "2.4"

STAGES: dict[str, dict[str, str]] = {
    "Design": {
        "1.5": "The task accounts for both people and the model",
        "1.6": "The baseline was piloted",
        "1.7": "Equal effort went into people and model",
        "1.8": "A power analysis set the number of raters",
        "1.9": "An ethics review took place",
        "1.10": "The study was pre-registered",
    },
    "Recruitment": {
        "2.1": "The population of interest is named",
        "2.3": "Raters were screened",
        "2.4": "Authors served as raters (counts against)",
        "2.5": "Raters who knew the items were left out",
        "2.6": "Raters were trained",
        "2.7": "Raters were paid",
    },
    "Execution": {
        "3.1.1": "Items came in random order",
        "3.2": "Quality checks were built in",
        "3.3": "People and model used the same interface",
        "3.4": "People and model had the same instructions",
        "3.5": "People and model had the same tools",
        "3.6": "Explanations were collected",
    },
    "Analysis": {
        "4.1": "A significance test compares the two",
        "4.2": "Uncertainty is reported",
        "4.3": "The same metric is used for both",
        "4.4": "The same rubric is used for both",
        "4.5": "The same scoring procedure is used for both",
        "4.6": "Results are robust to exclusions",
    },
    "Documentation": {
        "5.1.1": "Demographics are reported",
        "5.1.2": "Instructions are published",
        "5.1.3": "Time taken is reported",
        "5.2": "Data are published",
        "5.3": "Materials are published",
        "5.4": "Code is published",
    },
}
SHARES = dict(
    zip(
        (k for items in STAGES.values() for k in items),
        (
            12,
            32,
            11,
            2,
            14,
            2,
            31,
            11,
            38,
            7,
            23,
            41,
            13,
            23,
            9,
            22,
            30,
            11,
            8,
            31,
            87,
            68,
            60,
            7,
            18,
            32,
            18,
            21,
            33,
            45,
        ),
        strict=True,
    )
)
"""Per cent of the 115 reviewed studies that fulfil each item, "partial" counted half (counts from the paper)."""
QUANTILES = {0.10: 0.07, 0.25: 0.15, 0.50: 0.26, 0.75: 0.34, 0.90: 0.45, 1.00: 0.80}
"""Total scores of the reviewed studies."""


def score(answers: Mapping[str, str]) -> tuple[float | None, dict[str, float | None]]:
    """Total and stage scores in 0…1; None where every item is left out as not applicable.

    Unanswered items count as unknown. Raises ValueError for an unknown item or answer.
    """
    for item, answer in answers.items():
        if item not in SHARES:
            raise ValueError(f"item {item!r} is not on the checklist: it may be {', '.join(SHARES)}")
        if answer not in ANSWERS:
            raise ValueError(f"answer to {item} cannot be {answer!r}: it may be {' or '.join(ANSWERS)}")
    stages: dict[str, float | None] = {}
    for stage, items in STAGES.items():
        values = []
        for item in items:
            answer = answers.get(item, "Unknown")
            if answer != "Not applicable":
                known = _VALUE[answer]
                values.append(1 - known if item == REVERSED and answer in ("Yes", "Partial", "No") else known)
        stages[stage] = sum(values) / len(values) if values else None
    known_stages = [v for v in stages.values() if v is not None]
    return (sum(known_stages) / len(known_stages) if known_stages else None), stages


def standing(total: float) -> str:
    """Where a total stands among the reviewed studies, in words."""
    better = [q for q, v in QUANTILES.items() if total >= v]
    if not better:
        return "below nine in ten of the 115 reviewed studies"
    if better[-1] == 1.0:
        return "at or above the best of the 115 reviewed studies"
    return f"at or above {better[-1]:.0%} of the 115 reviewed studies"
