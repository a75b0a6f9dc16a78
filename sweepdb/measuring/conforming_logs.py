"""The share of a measured log's requests that met limits. Not here: replays of logs (sweepdb.measuring.log_scoring)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from store.errors import InputError
from store.loads import MeasuredRequests
from sweepdb.measuring.log_scoring import SHARES
from sweepdb.measuring.measurement_files import read_files


@dataclass(frozen=True, slots=True, kw_only=True)
class Conforming:
    """The requests of one log within limits; one that failed meets none. Rates are of the run's whole time."""

    log: str
    requests: int
    failed: int
    requests_per_s: float | None
    share: float
    share_ttft: float
    share_tpot: float
    share_e2e: float
    conforming_per_s: float | None
    ttft_p50_ms: float
    ttft_p90_ms: float
    ttft_p99_ms: float
    tpot_p50_ms: float
    tpot_p90_ms: float
    tpot_p99_ms: float


CONFORMING_COLUMNS: tuple[str, ...] = Conforming.__slots__


def conforming(
    files: Sequence[Path],
    *,
    ttft_ms: float | None = None,
    tpot_ms: float | None = None,
    e2e_ms: float | None = None,
) -> list[Conforming]:
    """Every log of these files, and how many of its requests met all limits at once."""
    for keyword, limit in (("ttft_limits", ttft_ms), ("tpot_limits", tpot_ms), ("e2e_limits", e2e_ms)):
        if limit is not None and not limit > 0.0:
            raise InputError(f"`{keyword}` must be a number of ms above 0, not {limit:g}")
    if ttft_ms is None and tpot_ms is None and e2e_ms is None:
        raise InputError("`conforming` needs a limit", hint="add `ttft_limits=200` or `tpot_limits=50`")
    found = read_files(list(files))
    logs = [(record.source, found.requests[record.key]) for record in found.records if record.key in found.requests]
    if not logs:
        names = ", ".join(str(file) for file in files)
        raise InputError(
            f"{names}: no log of requests" + (f" ({found.problems[0].what})" if found.problems else ""),
            hint="results of vllm with details saved, benchmarks.json of GuideLLM, profile_export.jsonl of aiperf,"
            " or per_request_lifecycle_metrics.json of inference-perf",
        )
    return [_conforming(name, log, (ttft_ms, tpot_ms, e2e_ms)) for name, log in logs]


def _conforming(
    name: str, log: MeasuredRequests, limits: tuple[float | None, float | None, float | None]
) -> Conforming:
    import numpy as np

    count, completed = log.sent_us.size, int(log.completed.sum())
    times = (log.ttft_ms, log.tpot_ms, log.e2e_ms)
    within = [
        np.ones(completed, dtype=bool) if limit is None else values <= limit
        for values, limit in zip(times, limits, strict=True)
    ]
    shares = [float(one.sum()) / count for one in (within[0] & within[1] & within[2], *within)]
    span = log.span_s
    percentiles = {
        f"{metric}_p{share}_ms": float(np.percentile(values, share)) if completed else float("nan")
        for metric, values in (("ttft", times[0]), ("tpot", times[1]))
        for share in SHARES
    }
    return Conforming(
        log=name,
        requests=count,
        failed=count - completed,
        requests_per_s=None if not span else count / span,
        share=shares[0],
        share_ttft=shares[1],
        share_tpot=shares[2],
        share_e2e=shares[3],
        conforming_per_s=None if not span else shares[0] * count / span,
        **percentiles,
    )
