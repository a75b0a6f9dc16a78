"""The measured points of a store that are runs of the servers a question is about, beside what was predicted of them.

Not here: what they say of other settings (queries.learning)."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from evaluator.ledger import Deployment, Unmatched, central_metrics, deployment_of, measured_model
from queries.learning import Run as Observed
from store.opening import open_store
from store.records import MeasurementRecord
from store.writing import get_measurements
from sweepdb.deciding.settings import Server, Setting, located
from sweepdb.measuring.own_runs import run_of

_NEAR = 0.06  # of lengths: clients that draw them state means or what they draw below
_METRICS = {"ttft_ms": "ttft_ms", "tpot_exclusive_ms": "tpot_ms"}


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRun:
    """A measured point, and what is predicted where it was measured."""

    server: Server
    users: float
    setting: Setting | None  # the stored one at as many users
    measured: Mapping[str, float]  # ttft_ms and tpot_ms, as far as measured
    predicted: Mapping[str, float]
    observed: Observed

    @property
    def measurement(self) -> str:
        """The key of the point."""
        return self.observed.key


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
    if server is None:
        return None
    ladder = sorted(of_servers[server], key=lambda one: one.concurrency)
    users = float(deployment.users)
    predicted = {theirs: _predicted(ladder, users, ours) for theirs, ours in _METRICS.items()}
    whole = predicted["ttft_ms"] + (server.output_length - 1.0) * predicted["tpot_exclusive_ms"]
    rate = {"e2e_ms": whole, "output_tokens_per_s": 1e3 * users * server.output_length / whole}
    observed = run_of(record, deployment, predicted | rate)
    if observed is None:
        return None
    metrics = central_metrics(record.metrics)
    return OwnRun(
        server=server,
        users=users,
        setting=next((one for one in ladder if one.concurrency == users), None),
        measured={ours: metrics[theirs] for theirs, ours in _METRICS.items() if metrics.get(theirs, 0.0) > 0.0},
        predicted={ours: predicted[theirs] for theirs, ours in _METRICS.items()},
        observed=replace(observed, setting=located(server, users)),
    )


def _is_of(deployment: Deployment, server: Server) -> bool:
    plan = deployment.plan
    return (
        deployment.mode == "aggregated"
        and deployment.device.name == server.device
        and (plan.tp, plan.pp, plan.dp, plan.ep) == (server.tp, server.pp, server.dp, server.ep)
        and deployment.engine == server.engine
        and deployment.precision.linear == server.quantization
        and deployment.model_name in _names(server)
        and abs(deployment.input_length / server.input_length - 1.0) < _NEAR
        and abs(_mean_output(deployment) / server.output_length - 1.0) < _NEAR
    )


def _names(server: Server) -> set[str]:
    try:
        return {server.model, measured_model(server.model)[0]}
    except Unmatched:
        return {server.model}


def _mean_output(deployment: Deployment) -> float:
    return deployment.output_length * (1.0 + (1.0 if deployment.client is None else deployment.client.shortest)) / 2


def _predicted(ladder: Sequence[Setting], users: float, metric: str) -> float:
    """A prediction between two stored numbers of users: linear in the logarithms."""
    above = min(bisect_left([one.concurrency for one in ladder], users), len(ladder) - 1)
    low, high = ladder[max(above - 1, 0)], ladder[above]
    values = math.log(getattr(low, metric)), math.log(getattr(high, metric))
    if low.concurrency == high.concurrency:
        return math.exp(values[0])
    share = math.log(users / low.concurrency) / math.log(high.concurrency / low.concurrency)
    return math.exp(values[0] + share * (values[1] - values[0]))
