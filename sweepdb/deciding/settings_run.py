"""Measured points about a question's settings, and failed servers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from queries.judging import KEY_LENGTH
from queries.learning import (
    FailedStart,
    Known,
    Lessons,
    OwnPoint,
    Prior,
    Process,
    failed_pairs,
    failed_scenarios,
    prior_of,
)
from queries.learning import Setting as Located
from store.location import StoreLocation
from store.reading import read_transaction
from sweepdb.deciding.pairs import StoredSides
from sweepdb.deciding.settings import Pair, Server, Setting
from sweepdb.deciding.stored import Stored
from sweepdb.own_runs import taught_of

_METRICS = {"ttft_ms": "ttft_ms", "tpot_exclusive_ms": "tpot_ms"}


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRun:
    """Of one of the question's servers."""

    measurement: str
    server: Server
    plan: str
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
        return (one.pair is not None, *one.server.group) if known is None else known.group

    def process_of(self, group: Hashable, one: Setting) -> Process:
        return self.processes.get(group) or Process((), self.prior if one.pair is None else prior_of("apart"))

    def located(self, one: Setting) -> Located:
        return self.at(one.server, one.batch_size)

    def sides(self, one: Pair, batch_size: int) -> tuple[Located, Located]:
        """Of a pair's prompts and decode steps."""
        return self.at(one.prefill, 1), self.at(one.decode, batch_size)

    def at(self, server: Server, batch_size: int) -> Located:
        known = self.known.get(server.scenario_id)
        if known is not None:
            return known.setting(batch_size)
        return Located(
            users=float(batch_size * server.dp * server.pp), input_length=server.input_length,
            output_length=server.output_length, num_devices=float(server.num_devices), dp=float(server.dp),
            ep=float(server.ep), plan=server.scenario,
        )  # fmt: skip


def own_runs(
    location: StoreLocation, points: Sequence[OwnPoint], settings: Iterable[Setting], sides: StoredSides, prior: Prior
) -> tuple[tuple[OwnRun, ...], Teaching]:
    of_scenarios: dict[int, list[Setting]] = defaultdict(list)
    for one in settings:
        of_scenarios[one.server.scenario_id].append(one)
    found = taught_of(location, points, frozenset(of_scenarios) | sides.scenarios)
    if found is None:
        return (), Teaching(prior=prior)
    lessons, learned = found
    left_out = dict.fromkeys(version for group in learned.groups.values() for version in group.read[1])
    order = {point.key: place for place, point in enumerate(points)}
    runs = {run.measurement: run for run in _runs(lessons, of_scenarios, sides)}
    processes: dict[Hashable, Process] = dict(learned.processes.items())
    teaching = Teaching(prior=prior, processes=processes, known=learned.told, versions_left_out=tuple(left_out))
    return tuple(sorted(runs.values(), key=lambda run: order[run.measurement])), teaching


def _runs(lessons: Lessons, of_scenarios: Mapping[int, Sequence[Setting]], sides: StoredSides) -> Iterable[OwnRun]:
    for match in (match for some in lessons.matched.values() for match in some):
        settings, measured = of_scenarios.get(match.known.id, ()), match.point.measured
        users, setting = match.point.setting.users, None
        if (prompts := match.point.prompts) is not None and match.prompts is not None:
            users = prompts.requests_per_s * (measured["ttft_ms"] + prompts.answer_ms) / 1e3
            counts = (prompts.instances, prompts.decoding)
            setting = sides.of_run(match.prompts.id, match.known.id, counts, max(round(users), 1))
        elif settings:
            setting = next((one for one in settings if one.batch_size == match.point.batch_size), None)
        first = setting or next(iter(settings), None)
        if first is not None:
            yield OwnRun(
                measurement=match.point.key,
                server=first.server,
                plan=first.plan,
                users=users,
                setting=setting,
                measured={ours: measured[theirs] for theirs, ours in _METRICS.items() if theirs in measured},
            )


def failed_plans(location: StoreLocation, failed: Sequence[FailedStart], stored: Stored) -> dict[str, str]:
    """With reasons; pairs by both plans."""
    ids = frozenset(one.server.scenario_id for one in stored.settings)
    with read_transaction(location) as transaction:
        found = failed_scenarios(transaction, failed, ids)
        pairs = failed_pairs(transaction, failed, stored.sides.scenarios)
    whole = {key[:KEY_LENGTH]: one.why for key, one in found.items()}
    return whole | {" ".join(key[:KEY_LENGTH] for key in both): one.why for both, one in pairs.items()}
