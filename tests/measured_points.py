"""Measured points for tests: one that says nothing, one of a closed loop, and one of a generated model."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

from generator import MODELS, WORKLOADS

from store.records import MeasurementRecord, SideRecord

MODEL, (PROMPT, OUTPUT, *_) = MODELS[4][0], WORKLOADS[0]
_WITH_DEFAULTS = {"prefill", "decode", "metrics", "definitions", "extra", "run"}


def bare_point(**said: object) -> MeasurementRecord:
    """A point of which nothing is known but what is said."""
    nothing = dict.fromkeys(set(MeasurementRecord.__slots__) - _WITH_DEFAULTS)
    return MeasurementRecord(**{**nothing, "key": "k", "source": "s", "source_format": "own", **said})


def closed_loop(**changes: object) -> MeasurementRecord:
    said = {
        "model": "Qwen/Qwen3-32B", "device": "h100_sxm", "engine": "vllm", "mode": "aggregated", "precision": "fp8",
        "num_devices": 1, "input_length": 1024.0, "output_length": 512.0, "concurrency": 8.0,
        "decode": SideRecord(tp=1), "metrics": {"ttft_ms_mean": 100.0},
    }  # fmt: skip
    return bare_point(**{**said, **changes})


def point(number, *, device, tp, users, model=MODEL, version="0.1", prompt=PROMPT, prefills=None, rate=None, **metrics):
    side = SideRecord(instances=1, tp=tp, pp=1, dp=1, ep=1)
    return MeasurementRecord(
        key=hashlib.sha256(str(number).encode()).hexdigest(), source=f"file:{number}", source_format="test", model=model,
        device=device, engine="vllm", engine_version=version, mode="disaggregated" if prefills else "aggregated",
        precision="BF16", kv_precision=None, num_devices=tp + (prefills or 0), input_length=float(prompt),
        output_length=float(OUTPUT), concurrency=None if users is None else float(users), request_rate=rate,
        prefill=SideRecord(instances=prefills, tp=1) if prefills else side, decode=side, metrics=metrics,
        measured_at=datetime(2026, 5, 1, tzinfo=UTC),
    )  # fmt: skip
