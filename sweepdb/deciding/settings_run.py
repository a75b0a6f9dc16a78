"""The measured points of a store that say something of the settings of a question, and servers that failed.

Not here: what they say (queries.learning)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from evaluator.ledger import Deployment, Unmatched, deployment_of, failure_of, measured_model
from queries.connect import StoreConnection
from queries.learning import Known, Lessons, Prior, Process, Row, lessons_of
from queries.learning import Setting as Located
from store.location import StoreLocation
from store.opening import open_store
from store.reading import read_transaction
from store.records import MeasurementRecord
from store.writing import get_measurements
from sweepdb.deciding.settings import Server, Setting
from sweepdb.sessions import own_points

_NEAR = 0.06  # of lengths: clients that draw them state means or what they draw below
_METRICS = {"ttft_ms": "ttft_ms", "tpot_exclusive_ms": "tpot_ms"}
_LADDERS = """
SELECT scenario_id, batch_size, ttft_ms, tpot_exclusive_ms, e2e_ms
FROM probe
WHERE list_contains($scenarios::BIGINT[], scenario_id)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRun:
    """A measured point of one of the question's servers."""

    measurement: str
    server: Server
    users: float
    setting: Setting | None  # the stored one that was measured
    measured: Mapping[str, float]  # ttft_ms and tpot_ms, as far as measured


@dataclass(frozen=True, slots=True, kw_only=True)
class Teaching:
    """The process of each group of settings, and where settings lie in it."""

    prior: Prior
    processes: Mapping[Hashable, Process] = field(default_factory=dict)
    known: Mapping[int, Known] = field(default_factory=dict)  # by scenario
    versions_left_out: tuple[str, ...] = ()  # of engines, whose runs disagree with the others

    def group_of(self, one: Setting) -> Hashable:
        """Settings of one group are off alike."""
        known = self.known.get(one.server.scenario_id)
        return one.server.group if known is None else known.group

    def process_of(self, group: Hashable) -> Process:
        """The process of a group; without any run where none is of it."""
        return self.processes.get(group) or Process((), self.prior)

    def located(self, one: Setting) -> Located:
        """Where a setting lies in its group."""
        server, known = one.server, self.known.get(one.server.scenario_id)
        if known is not None:
            return known.setting(one.batch_size)
        return Located(
            users=float(one.concurrency), input_length=server.input_length, output_length=server.output_length,
            num_devices=float(server.num_devices), dp=float(server.dp), ep=float(server.ep), plan=server.scenario,
        )  # fmt: skip


def own_runs(location: StoreLocation, settings: Iterable[Setting], prior: Prior) -> tuple[tuple[OwnRun, ...], Teaching]:
    """The measured points of these settings' servers, and what all points of their groups teach."""
    of_scenarios: dict[int, list[Setting]] = defaultdict(list)
    for one in settings:
        of_scenarios[one.server.scenario_id].append(one)
    points = own_points(location).points
    with read_transaction(location) as transaction:
        lessons = lessons_of(transaction, points, frozenset(of_scenarios))
    if lessons is None:
        return (), Teaching(prior=prior)
    learned = lessons.taught(_ladders(location, lessons.predicting))
    left_out = dict.fromkeys(version for group in learned.groups.values() for version in group.read[1])
    order = {point.key: place for place, point in enumerate(points)}
    runs = {run.measurement: run for run in _runs(lessons, of_scenarios)}
    processes: dict[Hashable, Process] = dict(learned.processes.items())
    teaching = Teaching(prior=prior, processes=processes, known=learned.told, versions_left_out=tuple(left_out))
    return tuple(sorted(runs.values(), key=lambda run: order[run.measurement])), teaching


def _runs(lessons: Lessons, of_scenarios: Mapping[int, Sequence[Setting]]) -> Iterable[OwnRun]:
    for point, known in (pair for pairs in lessons.matched.values() for pair in pairs):
        settings = of_scenarios.get(known.id)
        if settings is not None:
            measured = {ours: point.measured[theirs] for theirs, ours in _METRICS.items() if theirs in point.measured}
            yield OwnRun(
                measurement=point.key,
                server=settings[0].server,
                users=point.setting.users,
                setting=next((one for one in settings if one.batch_size == point.batch_size), None),
                measured=measured,
            )


def _ladders(location: StoreLocation, scenarios: Sequence[int]) -> list[Row]:
    """The stored rows that predict the points."""
    with StoreConnection(location) as connection:
        connection.narrow_to(scenarios)
        return [Row(*row) for row in connection.execute(_LADDERS, {"scenarios": list(scenarios)}).fetchall()]


def failed_plans(store: str | None, settings: Iterable[Setting]) -> dict[str, str]:
    """Scenarios of plans that are out since a server of theirs failed, and why: a plan fails at all its users."""
    servers = dict.fromkeys(one.server for one in settings)
    failed = [(record, why) for record in _records(store) if (why := failure_of(record)) is not None]
    found = ((_server_of(record, servers), why) for record, why in failed)
    return {of[1].scenario: why for of, why in found if of is not None}


def _records(store: str | None) -> list[MeasurementRecord]:
    with open_store(store, read_only=True) as opened:
        return get_measurements(opened)


def _server_of(record: MeasurementRecord, servers: Iterable[Server]) -> tuple[Deployment, Server] | None:
    try:
        deployment = deployment_of(record)
    except Unmatched:
        return None
    server = next((one for one in servers if _is_of(deployment, one)), None)
    return None if server is None else (deployment, server)


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
