"""Points with a request rate, beside loads stored or simulated at that rate.

Means beside means, else medians."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from evaluator import ledger
from evaluator.identity import RecordBuilder
from evaluator.scenario import Scenario
from store.loads import MeasuredRequests
from store.location import StoreLocation
from store.reading import ReadTransaction, read_transaction
from store.records import MeasurementRecord

NOT_WHOLE = f"{ledger.OPEN_LOOP}, and only instances that do both are compared with loads"
NO_MEAN = f"{ledger.OPEN_LOOP}, and no mean or median of a latency"
_METRICS = {
    "ttft": (("ttft_ms_mean", "ttft_ms"), "ttft_ms_p50"),
    "tpot": (("tpot_exclusive_ms_mean", "tpot_exclusive_ms"), "tpot_exclusive_ms_p50"),
}
_FEWEST, _MOST = 200, 4_000  # requests that are simulated for a point
_SEED = 2026
_LOADS = """
    SELECT l.settings_key, l.arrivals_per_s, l.ttft_mean_ms + l.outside_ms AS ttft, l.load_tpot_mean_ms AS tpot
    FROM load l JOIN scenario s ON s.id = l.scenario_id
    WHERE s.key = ? AND l.prefill_policy IS NULL
    ORDER BY l.settings_key, l.arrivals_per_s
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class AtRate:
    """Measured and simulated mean, on a line between neighbouring rates."""

    point: str
    metric: str
    requests_per_s: float  # of the whole deployment
    measured: float
    predicted: float
    knowledge: str  # asked or known, by a fit without this device and model; fitted: by the shipped fit; or simulated
    scenario: str

    @property
    def error(self) -> float:
        return self.predicted / self.measured - 1.0


class _Load(NamedTuple):
    settings_key: str
    arrivals_per_s: float
    ttft: float
    tpot: float


def compared_at_rates(
    records: Sequence[MeasurementRecord],
    location: StoreLocation,
    excluded: Iterable[ledger.Exclusion],
    captured: ledger.LookUp | None = None,
) -> tuple[tuple[AtRate, ...], tuple[ledger.Exclusion, ...]]:
    found: list[AtRate] = []
    reasons: Counter[str] = Counter()
    with read_transaction(location) as transaction:
        for record in records:
            try:
                found += _of_point(record, transaction, captured) if _is_open(record) else ()
            except ledger.Unmatched as reason:
                reasons[reason.rule] += 1
    others = (one for one in excluded if one.rule != ledger.OPEN_LOOP)
    return tuple(found), (*others, *(ledger.Exclusion(rule=rule, rows=rows) for rule, rows in sorted(reasons.items())))


def _is_open(record: MeasurementRecord) -> bool:
    """Only its concurrency is missing."""
    if record.concurrency or not record.request_rate:
        return False
    try:
        ledger.deployment_of(record)
    except ledger.Unmatched as reason:
        return reason.rule == ledger.OPEN_LOOP
    return False


def _of_point(
    record: MeasurementRecord, transaction: ReadTransaction, captured: ledger.LookUp | None
) -> Iterator[AtRate]:
    """Simulated where not stored. Raises Unmatched."""
    rate, deployment = record.request_rate or 0.0, ledger.deployment_of(replace(record, concurrency=1.0))
    measured = dict(_measured(record.metrics))
    if deployment.mode != "aggregated" or not measured:
        raise ledger.Unmatched(NO_MEAN if deployment.mode == "aggregated" else NOT_WHOLE)
    found = _stored(deployment, rate, transaction) if all(one == "mean" for one, _ in measured.values()) else None
    if found is None:
        times = ledger.replayed_log(deployment, _arrivals(record, deployment, rate), captured, seats=_seats(record))
        predicted = {
            metric: float(times[metric].mean() if statistic == "mean" else np.median(times[metric]))
            for metric, (statistic, _) in measured.items()
        }
        found = "simulated", ledger.replayed_scenario(deployment), predicted
    knowledge, scenario, predicted = found
    key = RecordBuilder().scenario(deployment.model_name, scenario).key
    for metric, (_, value) in measured.items():
        yield AtRate(point=record.key, metric=metric, requests_per_s=rate, measured=value, predicted=predicted[metric],
                     knowledge=knowledge, scenario=key)  # fmt: skip


def _stored(
    deployment: ledger.Deployment, rate: float, transaction: ReadTransaction
) -> tuple[str, Scenario, dict[str, float]] | None:
    for knowledge, scenario in _scenarios(deployment):
        key = RecordBuilder().scenario(deployment.model_name, scenario).key
        predicted = _around(list(transaction.rows(_Load, _LOADS, [key])), rate)
        if predicted is not None:
            return knowledge, scenario, predicted
    return None


def _arrivals(record: MeasurementRecord, deployment: ledger.Deployment, rate: float) -> MeasuredRequests:
    count = min(max(record.run.completed_requests or _FEWEST, _FEWEST), _MOST)
    rate /= deployment.plan.dp * max(1, deployment.instances)  # a replica gets its part
    gaps = (
        np.full(count, 1.0)
        if ledger.circumstances_of(record).evenly
        else np.random.default_rng(_SEED).exponential(size=count)
    )
    sent = np.round(1e6 * np.cumsum(gaps) / rate).astype(np.int64)
    answered = np.ones(count, dtype=np.int64)
    return MeasuredRequests(
        sent_us=sent - sent[0],
        prompt=np.full(count, deployment.input_length, dtype=np.int64),
        answer=np.full(count, deployment.output_length, dtype=np.int64),
        ttft_us=answered,
        e2e_us=answered,
        duration_s=None,
    )


def _seats(record: MeasurementRecord) -> int | None:
    return None if record.decode.batch_size is None else int(record.decode.batch_size)


def _measured(metrics: Mapping[str, float]) -> Iterator[tuple[str, tuple[str, float]]]:
    """(metric, (statistic, value)): mean, or else median."""
    for metric, (means, median) in _METRICS.items():
        value = next((metrics[name] for name in means if metrics.get(name)), None)
        if value is not None:
            yield metric, ("mean", value)
        elif metrics.get(median):
            yield metric, ("p50", metrics[median])


def _scenarios(deployment: ledger.Deployment) -> Iterator[tuple[str, Scenario]]:
    yield "asked", ledger.scenario_of(deployment, "asked")
    yield "known", ledger.scenario_of(deployment, "known")
    if deployment.engine is not None:
        yield "fitted", ledger.scenario_of(deployment, "asked", serving_model=deployment.engine)


def _around(loads: Sequence[_Load], rate: float) -> dict[str, float] | None:
    for one in loads:
        if one.arrivals_per_s == rate:
            return {"ttft": one.ttft, "tpot": one.tpot}
    for below, above in pairwise(loads):
        if below.settings_key == above.settings_key and below.arrivals_per_s < rate < above.arrivals_per_s:
            way = (rate - below.arrivals_per_s) / (above.arrivals_per_s - below.arrivals_per_s)
            return {name: getattr(below, name) + way * (getattr(above, name) - getattr(below, name))
                    for name in _METRICS}  # fmt: skip
    return None
