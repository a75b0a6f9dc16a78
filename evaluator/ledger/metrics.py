"""Measured metrics by the names of what is predicted.

Not here: what is predicted (evaluator.ledger.predicting)."""

from __future__ import annotations

from collections.abc import Mapping

CENTRAL = ("mean", "", "p50")  # statistics of a measured metric that a prediction is compared with, best first


def central_metrics(metrics: Mapping[str, float]) -> dict[str, float]:
    """Measured metrics by the names of predictions, each once: its mean where there are mean and median."""
    statistics: dict[str, dict[str, float]] = {}
    for name, value in metrics.items():
        head, _, tail = name.rpartition("_")
        known = tail in {"mean", "std"} or (tail[:1] == "p" and tail[1:].replace(".", "").isdigit())
        bare, statistic = (head, tail) if known else (name, "")
        statistics.setdefault(bare, {})[statistic] = value
    return {
        bare: next(found[one] for one in CENTRAL if one in found)
        for bare, found in statistics.items()
        if not found.keys().isdisjoint(CENTRAL)
    }
