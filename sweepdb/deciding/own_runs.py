"""The measured points of a store that are runs of the servers a question is about, beside what was predicted of them.

Not here: what they say of other settings (sweepdb.deciding.process)."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from evaluator.ledger.deployments import Deployment, deployment_of
from evaluator.ledger.matching import Unmatched, measured_model
from evaluator.ledger.metrics import central_metrics
from store.opening import open_store
from store.records import MeasurementRecord
from store.writing import get_measurements
from sweepdb.deciding.settings import Server, Setting

_NEAR = 0.06  # of lengths: clients that draw them state means or what they draw below


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRun:
    """A measured point, and what is predicted where it was measured."""

    measurement: str
    server: Server
    users: float
    setting: Setting | None  # the stored one at as many users
    measured: Mapping[str, float]  # ttft_ms and tpot_ms, as far as measured
    predicted: Mapping[str, float]

    def ratio(self, metric: str) -> float | None:
        """log(measured / predicted)."""
        if metric not in self.measured:
            return None
        return math.log(self.measured[metric] / self.predicted[metric])


def own_runs(store: str | None, settings: Iterable[Setting]) -> tuple[OwnRun, ...]:
    """Measured points of these settings' servers, in the order of their import."""
    of_servers: dict[Server, list[Setting]] = defaultdict(list)
    for one in settings:
        of_servers[one.server].append(one)
    with open_store(store, read_only=True) as opened:
        records = get_measurements(opened)
    return tuple(found for record in records if (found := _run_of(record, of_servers)) is not None)


def _run_of(record: MeasurementRecord, of_servers: Mapping[Server, Sequence[Setting]]) -> OwnRun | None:
    if any("predicted by" in text for text in record.definitions.values()):
        return None
    try:
        deployment = deployment_of(record)
    except Unmatched:
        return None
    server = next((one for one in of_servers if _is_of(deployment, one)), None)
    metrics = central_metrics(record.metrics)
    measured = {
        ours: metrics[name]
        for ours, name in (("ttft_ms", "ttft_ms"), ("tpot_ms", "tpot_exclusive_ms"))
        if metrics.get(name, 0.0) > 0.0
    }
    if server is None or not measured:
        return None
    ladder = sorted(of_servers[server], key=lambda one: one.concurrency)
    users = float(deployment.users)
    return OwnRun(
        measurement=record.key,
        server=server,
        users=users,
        setting=next((one for one in ladder if one.concurrency == users), None),
        measured=measured,
        predicted={name: _predicted(ladder, users, name) for name in measured},
    )


def _is_of(deployment: Deployment, server: Server) -> bool:
    plan = deployment.plan
    return (
        deployment.mode == "aggregated"
        and deployment.device.name == server.device
        and (plan.tp, plan.pp, plan.dp, plan.ep) == (server.tp, server.pp, server.dp, server.ep)
        and deployment.engine == server.engine
        and deployment.precision.linear == server.quantization
        and deployment.model_name in set(_names(server))
        and abs(deployment.input_length / server.input_length - 1.0) < _NEAR
        and abs(_mean_output(deployment) / server.output_length - 1.0) < _NEAR
    )


def _names(server: Server) -> Iterator[str]:
    yield server.model
    try:
        yield measured_model(server.model)[0]
    except Unmatched:
        return


def _mean_output(deployment: Deployment) -> float:
    return deployment.output_length * (1.0 + (1.0 if deployment.client is None else deployment.client.shortest)) / 2


def _predicted(ladder: Sequence[Setting], users: float, metric: str) -> float:
    """A prediction between two stored numbers of users: linear in the logarithms."""
    above = min(max(bisect_left([one.concurrency for one in ladder], users), 1), len(ladder) - 1)
    low, high = ladder[max(above - 1, 0)], ladder[above]
    values = math.log(getattr(low, metric)), math.log(getattr(high, metric))
    if low.concurrency == high.concurrency:
        return math.exp(values[0])
    share = math.log(users / low.concurrency) / math.log(high.concurrency / low.concurrency)
    return math.exp(values[0] + share * (values[1] - values[0]))
