"""Measured points as a store keeps them, for tests that need no file of a client."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

from generator import MODELS, WORKLOADS

from store.records import MeasurementRecord, SideRecord

MODEL, (PROMPT, OUTPUT, *_) = MODELS[4][0], WORKLOADS[0]


def point(number, *, device, tp, users, model=MODEL, version="0.1", prompt=PROMPT, prefills=None, rate=None, **metrics):
    """A measured point; with `prefills` instances of tp 1 beside one that decodes it is of a pair."""
    side = SideRecord(instances=1, tp=tp, pp=1, dp=1, ep=1)
    return MeasurementRecord(
        key=hashlib.sha256(str(number).encode()).hexdigest(), source=f"file:{number}", source_format="test", model=model,
        device=device, engine="vllm", engine_version=version, mode="disaggregated" if prefills else "aggregated",
        precision="BF16", kv_precision=None, num_devices=tp + (prefills or 0), input_length=float(prompt),
        output_length=float(OUTPUT), concurrency=None if users is None else float(users), request_rate=rate,
        prefill=SideRecord(instances=prefills, tp=1) if prefills else side, decode=side, metrics=metrics,
        measured_at=datetime(2026, 5, 1, tzinfo=UTC),
    )  # fmt: skip
