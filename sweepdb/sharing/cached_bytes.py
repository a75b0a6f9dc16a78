"""The KV cache of a scenario by batch size, which follows from its specs alone: no operator is traced for it.

Not here: memory beside it (evaluator.serving)."""

from __future__ import annotations

import numpy as np

from evaluator.evaluate import cost_of, moved_bytes
from evaluator.scenario import Scenario
from evaluator.serving import Run, cache_bytes, serving_model_of

Bytes = dict[str, np.ndarray]


def cached_bytes(scenario: Scenario, batch_sizes: np.ndarray) -> Bytes:
    """Columns of the KV cache as an evaluation rounds them; without the full one, where batches would be composed."""
    run = Run(
        scenario=scenario,
        operators={},
        source=serving_model_of(scenario).source(scenario),
        cost=cost_of(scenario),
        batch_sizes=batch_sizes,
    )
    full, mean = cache_bytes(run, mean_only=bool(scenario.workload.bins))
    found = {"kv_cache_mean_bytes": np.rint(mean), "kv_bytes_per_request": moved_bytes(run)}
    if not scenario.workload.bins:
        found["kv_cache_bytes"] = np.rint(full)
    return found
