"""Tests of membership: the paired test of STAMP and its rivals, as p-values from log-perplexities."""

from __future__ import annotations

import numpy as np
from scipy import stats

LOW_SHARE = 0.2
"""Share of the least likely words that Min-K % averages."""
SHUFFLES = 39


def differences(table: np.ndarray) -> np.ndarray:
    """Mean of the private versions minus the published one, (n,), from log-perplexities (n, 1 + private)."""
    if table.shape[1] < 2:
        raise ValueError("keys: at least 1 private version is needed")
    return table[:, 1:].mean(axis=1) - table[:, 0]


def paired_p(d: np.ndarray) -> float:
    """One-sided t test that the mean of d (n,) is above 0; if all are equal, 0 above and 1 at or below."""
    if len(d) < 2:
        raise ValueError(f"documents: the test needs at least 2, not {len(d)}")
    if np.ptp(d) == 0:
        return float(d[0] <= 0)
    t = d.mean() / (d.std(ddof=1) / np.sqrt(len(d)))
    return float(stats.t.sf(t, len(d) - 1))


def unpaired_p(members: np.ndarray, others: np.ndarray) -> float:
    """One-sided Welch test that members (n,) score below other documents (m,)."""
    return float(stats.ttest_ind(members, others, equal_var=False, alternative="less").pvalue)


def lowest_mean(words: np.ndarray) -> float:
    """Mean of the least likely fifth of log-probabilities (words,), as a cost."""
    k = max(1, round(LOW_SHARE * len(words)))
    return float(-np.partition(words, k - 1)[:k].mean())


def order_p(joins: np.ndarray, rng: np.random.Generator) -> float:
    """Rank of the published order 0, 1, … among shuffles.

    `joins` (n + 1, n): log-probability of the first two words of each document after each document's last two;
    the last row is for the document that comes first.
    """
    n = joins.shape[1]

    def total(order: np.ndarray) -> float:
        return float(joins[np.r_[n, order[:-1]], order].sum())

    published = total(np.arange(n))
    return (1 + sum(total(rng.permutation(n)) >= published for _ in range(SHUFFLES))) / (SHUFFLES + 1)


def rank_p(table: np.ndarray) -> float:
    """Exact: the share of versions, over all documents, that are at least as cheap as the published one."""
    means = table.mean(axis=0)
    return float((1 + (means[1:] <= means[0]).sum()) / len(means))
