"""Logs of measured requests: beside simulations, and shares within limits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from evaluator.ledger import Deployment, Exclusion, LookUp, MeasuredLog, PlayedLog, replayed_all
from store.errors import InputError
from store.loads import MeasuredRequests
from sweepdb.measuring.measurement_files import read_files

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


SHARES = (50, 90, 99)
Replaying = Callable[[Sequence[MeasuredLog], LookUp], Sequence[PlayedLog]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """One metric: percentiles measured and simulated, and the largest distance of distributions."""

    point: str
    metric: str
    requests: int
    requests_per_s: float
    measured_p50: float
    played_p50: float
    measured_p90: float
    played_p90: float
    measured_p99: float
    played_p99: float
    distance: float  # Kolmogorov and Smirnov's: between 0 and 1


def replays(
    points: Mapping[str, Deployment],
    logs: Mapping[str, MeasuredRequests],
    seats: Mapping[str, int | None],
    captured: LookUp,
    play: Replaying = replayed_all,
) -> tuple[tuple[Replay, ...], tuple[Exclusion, ...]]:
    """Replays, and logs excluded by rule. `seats` as stated; `play` says where."""
    found: list[Replay] = []
    left_out: dict[str, int] = {}
    asked = [
        MeasuredLog(point=key, deployment=points[key], requests=logs[key], seats=seats.get(key))
        for key in sorted(logs.keys() & points.keys())
    ]
    for log, played in zip(asked, play(asked, captured) if asked else (), strict=True):
        if isinstance(played, str):
            left_out[played] = left_out.get(played, 0) + 1
        else:
            found += replays_of(log.point, log.requests, played)
    return tuple(found), tuple(Exclusion(rule=rule, rows=rows) for rule, rows in sorted(left_out.items()))


def replays_of(point: str, log: MeasuredRequests, played: Mapping[str, NDArray[np.float64]]) -> Iterable[Replay]:
    import numpy as np

    measured = {"ttft": log.ttft_ms, "tpot": log.tpot_ms, "e2e": log.e2e_ms}
    for metric, values in measured.items():
        both = (values, played[metric])
        at = {share: [float(np.percentile(one, share)) for one in both] for share in SHARES}
        yield Replay(
            point=point,
            metric=metric,
            requests=values.size,
            requests_per_s=log.sent_per_s or 0.0,
            measured_p50=at[50][0],
            played_p50=at[50][1],
            measured_p90=at[90][0],
            played_p90=at[90][1],
            measured_p99=at[99][0],
            played_p99=at[99][1],
            distance=largest_distance(*both),
        )


def largest_distance(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    import numpy as np

    # 1, 2 and 2, 3: at or below 1 are half and none, at or below 2 all and half: 0.5.
    values = np.concatenate((one, other))
    shares = [np.searchsorted(np.sort(sample), values, side="right") / sample.size for sample in (one, other)]
    return float(np.abs(shares[0] - shares[1]).max())


@dataclass(frozen=True, slots=True, kw_only=True)
class Conforming:
    """One log; failed requests meet no limit. Rates are of the whole run."""

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
    for keyword, limit in (("ttft_limit", ttft_ms), ("tpot_limit", tpot_ms), ("e2e_limit", e2e_ms)):
        if limit is not None and not limit > 0.0:
            raise InputError(f"`{keyword}` must be a number of ms above 0, not {limit:g}")
    if ttft_ms is None and tpot_ms is None and e2e_ms is None:
        raise InputError("`conforming` needs a limit", hint="add `ttft_limit=200` or `tpot_limit=50`")
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
