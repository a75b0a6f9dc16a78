"""A small store of loads for tests: one model of 0.6B on one device, every phase."""

from __future__ import annotations

import sweepdb
from sweepdb.evaluating.running import Evaluation

DEVICE = "a100_sxm"


def evaluate_loads(store: str, **options) -> Evaluation:
    """Evaluate and play 1,000 requests a rate, unless something else is said."""
    usual = {
        "device": DEVICE, "input_length": 500, "output_length": 60, "batch_range": 4, "serving_model": "vllm",
        "arrivals": "poisson", "requests": 1_500,
    }  # fmt: skip
    return sweepdb.evaluate("Qwen/Qwen3-0.6B", store=store, **{**usual, **options})
