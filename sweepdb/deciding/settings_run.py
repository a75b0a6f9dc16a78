"""The measured points of a store that say something of the settings of a question, and servers that failed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from queries.judging import KEY_LENGTH
from queries.learning import FailedStart, Known, Lessons, OwnPoint, Prior, Process, failed_scenarios
from queries.learning import Setting as Located
from store.location import StoreLocation
from store.reading import read_transaction
from sweepdb.deciding.settings import Server, Setting
from sweepdb.own_runs import taught_of

_METRICS = {"ttft_ms": "ttft_ms", "tpot_exclusive_ms": "tpot_ms"}


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
    prior: Prior
    processes: Mapping[Hashable, Process] = field(default_factory=dict)
    known: Mapping[int, Known] = field(default_factory=dict)  # by scenario
    versions_left_out: tuple[str, ...] = ()  # of engines, whose runs disagree with the others

    def group_of(self, one: Setting) -> Hashable:
        known = self.known.get(one.server.scenario_id)
        return one.server.group if known is None else known.group

    def process_of(self, group: Hashable) -> Process:
        return self.processes.get(group) or Process((), self.prior)

    def located(self, one: Setting) -> Located:
        server, known = one.server, self.known.get(one.server.scenario_id)
        if known is not None:
            return known.setting(one.batch_size)
        return Located(
            users=float(one.concurrency), input_length=server.input_length, output_length=server.output_length,
            num_devices=float(server.num_devices), dp=float(server.dp), ep=float(server.ep), plan=server.scenario,
        )  # fmt: skip


def own_runs(
    location: StoreLocation, points: Sequence[OwnPoint], settings: Iterable[Setting], prior: Prior
) -> tuple[tuple[OwnRun, ...], Teaching]:
    of_scenarios: dict[int, list[Setting]] = defaultdict(list)
    for one in settings:
        of_scenarios[one.server.scenario_id].append(one)
    found = taught_of(location, points, frozenset(of_scenarios))
    if found is None:
        return (), Teaching(prior=prior)
    lessons, learned = found
    left_out = dict.fromkeys(version for group in learned.groups.values() for version in group.read[1])
    order = {point.key: place for place, point in enumerate(points)}
    runs = {run.measurement: run for run in _runs(lessons, of_scenarios)}
    processes: dict[Hashable, Process] = dict(learned.processes.items())
    teaching = Teaching(prior=prior, processes=processes, known=learned.told, versions_left_out=tuple(left_out))
    return tuple(sorted(runs.values(), key=lambda run: order[run.measurement])), teaching


def _runs(lessons: Lessons, of_scenarios: Mapping[int, Sequence[Setting]]) -> Iterable[OwnRun]:
    for point, known, _ in (match for some in lessons.matched.values() for match in some):
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


def failed_plans(location: StoreLocation, failed: Sequence[FailedStart], settings: Iterable[Setting]) -> dict[str, str]:
    """Scenarios of plans that are out since a server of theirs failed, and why."""
    ids = frozenset(one.server.scenario_id for one in settings)
    with read_transaction(location) as transaction:
        found = failed_scenarios(transaction, failed, ids)
    return {key[:KEY_LENGTH]: one.why for key, one in found.items()}
