"""Stored rows of a decision, read by one session; measured points about its settings, and failed servers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from queries import learning
from queries.asking import Answer, Limits, Question, ReportOptions
from queries.connect import StoreConnection
from queries.judging import KEY_LENGTH
from queries.learning import Setting as Located
from queries.probes import find_scenario
from queries.session import Session
from store.errors import InputError
from store.location import StoreLocation
from store.reading import read_transaction
from sweepdb.deciding.decision import MODES
from sweepdb.deciding.pairs import StoredSides
from sweepdb.deciding.settings import Pair, Server, Setting
from sweepdb.own_runs import taught_of
from sweepdb.planning.ranking import number_of

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
    prior: learning.Prior
    processes: Mapping[Hashable, learning.Process] = field(default_factory=dict)
    known: Mapping[int, learning.Known] = field(default_factory=dict)  # by scenario
    versions_left_out: tuple[str, ...] = ()  # of engines, whose runs disagree with the others

    def group_of(self, one: Setting) -> Hashable:
        known = self.known.get(one.server.scenario_id)
        return (one.pair is not None, *one.server.group) if known is None else known.group

    def process_of(self, group: Hashable, one: Setting) -> learning.Process:
        return self.processes.get(group) or learning.Process(
            (), self.prior if one.pair is None else learning.prior_of("apart")
        )

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
    location: StoreLocation,
    points: Sequence[learning.OwnPoint],
    settings: Iterable[Setting],
    sides: StoredSides,
    prior: learning.Prior,
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
    processes: dict[Hashable, learning.Process] = dict(learned.processes.items())
    teaching = Teaching(prior=prior, processes=processes, known=learned.told, versions_left_out=tuple(left_out))
    return tuple(sorted(runs.values(), key=lambda run: order[run.measurement])), teaching


def _runs(
    lessons: learning.Lessons, of_scenarios: Mapping[int, Sequence[Setting]], sides: StoredSides
) -> Iterable[OwnRun]:
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


def failed_plans(location: StoreLocation, failed: Sequence[learning.FailedStart], stored: Stored) -> dict[str, str]:
    """With reasons; pairs by both plans."""
    ids = frozenset(one.server.scenario_id for one in stored.settings)
    with read_transaction(location) as transaction:
        found = learning.failed_scenarios(transaction, failed, ids)
        pairs = learning.failed_pairs(transaction, failed, stored.sides.scenarios)
    whole = {key[:KEY_LENGTH]: one.why for key, one in found.items()}
    return whole | {" ".join(key[:KEY_LENGTH] for key in both): one.why for both, one in pairs.items()}


_EVERY = 10_000  # servers
_SERVERS = f"""
SELECT
    left(scenario, {KEY_LENGTH}) AS scenario, any_value(scenario_id) AS scenario_id, any_value(model) AS model,
    any_value(device) AS device,
    any_value(serving_model) AS engine, any_value(linear_quantization) AS quantization,
    any_value(tp) AS tp, any_value(pp) AS pp, any_value(dp) AS dp, any_value(ep) AS ep,
    any_value(num_devices) AS num_devices, any_value(input_length_mean) AS input_length,
    any_value(output_length * (1 + coalesce(shortest_length, 1)) / 2) AS output_length
FROM probe
WHERE probe IN (SELECT unnest($probes::VARCHAR[]))
GROUP BY left(scenario, {KEY_LENGTH})
"""  # noqa: S608  a number of ours


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    curve: Answer  # those of one phase, for what an answer says of its scope
    settings: tuple[Setting, ...]  # of servers that do both
    sides: StoredSides  # none where pairs are not asked about


def stored_settings(session: Session, question: Question, mode: str) -> Stored:
    if mode not in MODES:
        raise InputError(f"`mode={mode}` is not one of {', '.join(MODES)}")
    curves = {phase: _curve(session, question, phase) for phase in MODES[mode]}
    rows = {phase: curve.dicts() for phase, curve in curves.items()}
    for phase in ("aggregated", "decode", "prefill"):
        if phase in rows and not rows[phase]:
            raise InputError(
                f"no {phase} rows that fit memory are stored of this question", hint="sweepdb plan MODEL evaluates them"
            )
    curve = next(iter(reversed(curves.values()))) if mode == "pd" else curves["aggregated"]
    firsts = {_scenario(row): str(row["probe"]) for some in rows.values() for row in some}
    with StoreConnection(session.location) as connection:
        connection.narrow_to([find_scenario(session.location, name) for name in firsts])
        servers = {one.scenario: one for one in _servers(connection, list(firsts.values()))}
        if len({(one.model, one.input_length, one.output_length) for one in servers.values()}) > 1:
            raise InputError(
                f"a decision is about one model and workload; this question is about {len(curve.scope)} groups",
                hint="choose with `model`, `workload` or `sweep`; stored: " + "; ".join(curve.scope[:4]),
            )
        sides = _sides(connection, servers, rows)
    return Stored(
        curve=curve, settings=tuple(_setting(row, servers) for row in rows.get("aggregated", ())), sides=sides
    )


def _curve(session: Session, question: Question, phase: str) -> Answer:
    return session.ask(
        Question(
            report="curve",
            scope=question.scope,
            definitions=question.definitions,
            limits=Limits(reserved_gib=question.limits.reserved_gib),
            options=ReportOptions(mode=phase, as_predicted=True),
        )
    )


def _scenario(row: Mapping[str, object]) -> str:
    return str(row["probe"]).partition(":")[0]


def _setting(row: Mapping[str, object], servers: Mapping[str, Server]) -> Setting:
    return Setting(
        probe=str(row["probe"]),
        server=servers[_scenario(row)],
        plan=str(row["plan"]),
        concurrency=int(number_of(row["concurrency"])),
        batch_size=int(number_of(row["batch_size"])),
        ttft_ms=number_of(row["ttft_ms"]),
        tpot_ms=number_of(row["tpot_ms"]),
    )


def _sides(
    connection: StoreConnection, servers: Mapping[str, Server], rows: Mapping[str, Sequence[Mapping[str, object]]]
) -> StoredSides:
    if "decode" not in rows:
        return StoredSides()
    plans = {_scenario(row): str(row["plan"]) for some in rows.values() for row in some}
    prompts, steps = ([str(row["probe"]) for row in rows[phase]] for phase in ("prefill", "decode"))
    found = StoredSides.of(connection, servers, plans, prompts, steps)
    if not found.prefills:
        raise InputError(
            "pairs are decided of rows that an engine serves, with prompts one by one among them",
            hint="sweepdb plan MODEL `engine=vllm` evaluates them",
        )
    return found


def carried_rates(session: Session, question: Question) -> Mapping[str, float]:
    """Requests/s of an instance within limits, as simulated.

    Empty without stored loads."""
    limits = Limits(ttft_ms=question.limits.ttft_ms, tpot_ms=question.limits.tpot_ms)
    if not limits.given or not _has_loads(session):
        return {}
    options = ReportOptions(mode="aggregated", by="goodput", as_predicted=True, top=_EVERY)
    try:
        found = session.ask(Question(report="best", scope=question.scope, limits=limits, options=options))
    except InputError:  # loads are of other scenarios
        return {}
    return {str(row["scenario"])[:KEY_LENGTH]: number_of(row["goodput"] or 0.0) for row in found.dicts()}


def _has_loads(session: Session) -> bool:
    with read_transaction(session.location) as transaction:
        return bool(list(transaction.values(int, "SELECT id FROM load LIMIT 1")))


def _servers(connection: StoreConnection, probes: Sequence[str]) -> Iterator[Server]:
    yield from (Server(*row) for row in connection.execute(_SERVERS, {"probes": list(probes)}).fetchall())
