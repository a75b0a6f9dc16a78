"""Stored rows of a decision, read by one session."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from queries.asking import Answer, Limits, Question, ReportOptions
from queries.connect import StoreConnection
from queries.judging import KEY_LENGTH
from queries.probes import find_scenario
from queries.session import Session
from store.errors import InputError
from store.reading import read_transaction
from sweepdb.deciding.decision import MODES
from sweepdb.deciding.pairs import StoredSides
from sweepdb.deciding.settings import Server, Setting
from sweepdb.planning.ranking import number_of

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
