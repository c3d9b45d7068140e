"""What trained neural processes are measured by: predictions for new tasks, next to the exact posterior."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from core.demos._renyi_np_network import Z, encode, kl_divergence, predict
from core.demos._renyi_np_tasks import Family, Tasks, corrupt, draw_tasks, exact_posterior
from core.lab.demo import Measures
from core.lab.nets import Parameters

EXACT = "exact GP"
TEST_TASKS, TEST_DRAWS = 128, 32


@dataclass(frozen=True)
class Scores:
    """Of one context size: measure -> (models, tasks), and the exact posterior's measures where there is one."""

    models: dict[str, np.ndarray]
    exact: dict[str, float]


def score(p: Parameters, family: Family, corruption: float, size: int, n: int, rng: np.random.Generator) -> Scores:
    """Predictions for new tasks from n context points, scored apart at targets and at the context (clean labels)."""
    tasks = draw_tasks(rng, family, TEST_TASKS, size)
    labels = corrupt(rng, tasks.y[:, :n], corruption)
    x, y, seen = (a.astype(np.float32) for a in (tasks.x, tasks.y, labels))
    noise = rng.standard_normal((TEST_TASKS, TEST_DRAWS, Z), dtype=np.float32)
    context = x[:, :n], seen
    found = predict(p, context, x, y, noise)
    target = slice(n, None)
    models = {
        "ll_target": found.log_density[..., target].mean(axis=-1),
        "ll_context": found.log_density[..., :n].mean(axis=-1),
        "predictive_sd": found.spread[..., target].mean(axis=-1),
        "decoder_sd": found.noise[..., target].mean(axis=-1),
        "kl": kl_divergence(*encode(p, x, y), *encode(p, *context)),
        "squared_error": ((found.mean - y)[..., target] ** 2).mean(axis=-1),
        "variation": found.mean[..., target].std(axis=-1),
    }
    return Scores(models, exact_scores(tasks, labels, n, corruption) if family == "gp" else {})


def exact_scores(tasks: Tasks, labels: np.ndarray, n: int, corruption: float) -> dict[str, float]:
    """Log-likelihood, sd and squared error at the targets of the exact Gaussian process."""
    mean, sd = exact_posterior(tasks, labels, n, corruption)
    truth = tasks.y[:, n:]
    return {
        "ll_target": float(stats.norm.logpdf(truth, mean, sd).mean()),
        "predictive_sd": float(sd.mean()),
        "squared_error": float(((truth - mean) ** 2).mean()),
        "variation": float(mean.std(axis=-1).mean()),
    }


def averaged(scores: list[Scores], names: list[str]) -> Measures:
    """Means over tasks and context sizes; errors become root mean squares."""
    measures: Measures = {}
    for key in scores[0].models:
        values = np.mean([f.models[key].mean(axis=-1) for f in scores], axis=0)
        measures[key] = {name: float(v) for name, v in zip(names, values, strict=True)}
        if key in scores[0].exact:
            measures[key][EXACT] = float(np.mean([f.exact[key] for f in scores]))
    measures["rmse"] = {name: float(np.sqrt(v)) for name, v in measures.pop("squared_error").items()}
    return measures
