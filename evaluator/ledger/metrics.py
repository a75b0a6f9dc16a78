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


def requests_running(metrics: Mapping[str, float], output_length: float | None) -> float | None:
    """Requests in flight on average: finished ones a second times the time of each (Little's law).

    J. D. C. Little, "A proof for the queuing formula L = lambda W", Operations Research 9 (1961). None where a time or
    the rate was not measured."""
    found = central_metrics(metrics)
    rate, time_ms = found.get("requests_per_s"), found.get("e2e_ms")
    ttft, tpot = found.get("ttft_ms"), found.get("tpot_exclusive_ms")
    if rate is None and output_length:
        rate = found.get("output_tokens_per_s", 0.0) / output_length or None
    if time_ms is None and output_length and ttft is not None and tpot is not None:
        time_ms = ttft + (output_length - 1.0) * tpot
    return None if rate is None or time_ms is None else rate * time_ms / 1000.0
