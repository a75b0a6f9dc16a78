"""Measured points that state a rate of requests in place of users, beside loads at that rate.

Means are compared with means. Not here: playing loads (`evaluate` with `arrivals`), points with users (validating)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from evaluator.identity import RecordBuilder
from evaluator.ledger import OPEN_LOOP, Deployment, Exclusion, Unmatched, deployment_of, scenario_of
from evaluator.scenario import Scenario
from store.location import StoreLocation
from store.reading import ReadTransaction, read_transaction
from store.records import MeasurementRecord

NOT_WHOLE = f"{OPEN_LOOP}, and only instances that do both are compared with loads"
NO_MEAN = f"{OPEN_LOOP}, and no mean of a latency, which loads are compared by"
NO_LOAD = f"{OPEN_LOOP}, and no loads around it are stored: evaluate its deployment with `arrivals=poisson`"
_METRICS = {"ttft": ("ttft_ms_mean", "ttft_ms"), "tpot": ("tpot_exclusive_ms_mean", "tpot_exclusive_ms")}
_LOADS = """
    SELECT l.settings_key, l.arrivals_per_s, l.ttft_mean_ms + l.outside_ms AS ttft, l.load_tpot_mean_ms AS tpot
    FROM load l JOIN scenario s ON s.id = l.scenario_id
    WHERE s.key = ? AND l.prefill_policy IS NULL
    ORDER BY l.settings_key, l.arrivals_per_s
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class AtRate:
    """The mean of a measured latency beside that of loads, on a line between the rates played around it."""

    point: str
    metric: str
    requests_per_s: float  # of the whole deployment
    measured: float
    predicted: float
    knowledge: str  # asked or known, by a fit without this device and model; fitted: by the shipped fit
    scenario: str

    @property
    def error(self) -> float:
        """(predicted - measured) / measured."""
        return self.predicted / self.measured - 1.0


class _Load(NamedTuple):
    settings_key: str
    arrivals_per_s: float
    ttft: float
    tpot: float


def compared_at_rates(
    records: Sequence[MeasurementRecord], location: StoreLocation, excluded: Iterable[Exclusion]
) -> tuple[tuple[AtRate, ...], tuple[Exclusion, ...]]:
    """Open-loop points beside stored loads, and what is left out, with the reason of those that have none."""
    found: list[AtRate] = []
    reasons: Counter[str] = Counter()
    with read_transaction(location) as transaction:
        for record in records:
            try:
                found += _of_point(record, transaction) if _is_open(record) else ()
            except Unmatched as reason:
                reasons[reason.rule] += 1
    others = (one for one in excluded if one.rule != OPEN_LOOP)
    return tuple(found), (*others, *(Exclusion(rule=rule, rows=rows) for rule, rows in sorted(reasons.items())))


def _is_open(record: MeasurementRecord) -> bool:
    """Whether nothing but its users is missing."""
    if record.concurrency or not record.request_rate:
        return False
    try:
        deployment_of(record)
    except Unmatched as reason:
        return reason.rule == OPEN_LOOP
    return False


def _of_point(record: MeasurementRecord, transaction: ReadTransaction) -> Iterator[AtRate]:
    """A point beside loads at its rate. Raises Unmatched where there are none."""
    rate, deployment = record.request_rate or 0.0, deployment_of(replace(record, concurrency=1.0))
    measured = dict(_means(record.metrics))
    if deployment.mode != "aggregated" or not measured:
        raise Unmatched(NO_MEAN if deployment.mode == "aggregated" else NOT_WHOLE)
    for knowledge, scenario in _scenarios(deployment):
        key = RecordBuilder().scenario(deployment.model_name, scenario).key
        around = _around(list(transaction.rows(_Load, _LOADS, [key])), rate)
        if around is not None:
            for metric, value in measured.items():
                yield AtRate(point=record.key, metric=metric, requests_per_s=rate, measured=value,
                             predicted=around[metric], knowledge=knowledge, scenario=key)  # fmt: skip
            return
    raise Unmatched(NO_LOAD)


def _means(metrics: Mapping[str, float]) -> Iterator[tuple[str, float]]:
    for metric, names in _METRICS.items():
        value = next((metrics[name] for name in names if metrics.get(name)), None)
        if value is not None:
            yield metric, value


def _scenarios(deployment: Deployment) -> Iterator[tuple[str, Scenario]]:
    yield "asked", scenario_of(deployment, "asked")
    yield "known", scenario_of(deployment, "known")
    if deployment.engine is not None:
        yield "fitted", scenario_of(deployment, "asked", serving_model=deployment.engine)


def _around(loads: Sequence[_Load], rate: float) -> dict[str, float] | None:
    """Means at a rate, between two loads of one setting; None where none lie around it."""
    for one in loads:
        if one.arrivals_per_s == rate:
            return {"ttft": one.ttft, "tpot": one.tpot}
    for below, above in pairwise(loads):
        if below.settings_key == above.settings_key and below.arrivals_per_s < rate < above.arrivals_per_s:
            way = (rate - below.arrivals_per_s) / (above.arrivals_per_s - below.arrivals_per_s)
            return {name: getattr(below, name) + way * (getattr(above, name) - getattr(below, name))
                    for name in _METRICS}  # fmt: skip
    return None
