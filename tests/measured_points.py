"""Measured points for tests: one that says nothing, and one of a closed loop."""

from __future__ import annotations

from store.records import MeasurementRecord, SideRecord

_WITH_DEFAULTS = {"prefill", "decode", "metrics", "definitions", "extra", "run"}


def bare_point(**said: object) -> MeasurementRecord:
    """A point of which nothing is known but what is said."""
    nothing = dict.fromkeys(set(MeasurementRecord.__slots__) - _WITH_DEFAULTS)
    return MeasurementRecord(**{**nothing, "key": "k", "source": "s", "source_format": "own", **said})


def closed_loop(**changes: object) -> MeasurementRecord:
    """Eight users of vLLM on one H100."""
    said = {
        "model": "Qwen/Qwen3-32B", "device": "h100_sxm", "engine": "vllm", "mode": "aggregated", "precision": "fp8",
        "num_devices": 1, "input_length": 1024.0, "output_length": 512.0, "concurrency": 8.0,
        "decode": SideRecord(tp=1), "metrics": {"ttft_ms_mean": 100.0},
    }  # fmt: skip
    return bare_point(**{**said, **changes})
