"""Logs of measured requests beside their replays: percentiles, and the distance of the distributions.

Not here: the share of a log that met limits (sweepdb.measuring.conforming_logs)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evaluator.ledger import Deployment, Exclusion, LookUp, MeasuredLog, PlayedLog, replayed_all
from store.loads import MeasuredRequests

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SHARES = (50, 90, 99)
Replaying = Callable[[Sequence[MeasuredLog], LookUp], Sequence[PlayedLog]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """One metric of a log replayed: percentiles measured and played, and the largest distance of the distributions."""

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
    """Every log of a predicted point, replayed, and those that cannot be, by rule. `seats` as stated; `play` says
    where."""
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
    """A log beside its replay, by metric: `played` has the times of the completed requests."""
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
    """The largest difference of two distributions: of the shares at or below any value."""
    import numpy as np

    # 1, 2 and 2, 3: at or below 1 are half and none, at or below 2 all and half: 0.5.
    values = np.concatenate((one, other))
    shares = [np.searchsorted(np.sort(sample), values, side="right") / sample.size for sample in (one, other)]
    return float(np.abs(shares[0] - shares[1]).max())
