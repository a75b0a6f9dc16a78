"""Asks questions of one store: scope resolved, report run, nearest misses looked up. The only door to the reports.

Not here: SQL (queries/reports), rendering (cli)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import TracebackType
from typing import Self

from queries.connect import StoreConnection
from queries.library import SCOPED, Report, report
from queries.question import Answer, Definitions, Limits, Question
from queries.scope import ResolvedScope, resolve_scope
from store.errors import InputError
from store.location import StoreLocation, parse_url
from store.readers import read_transaction

PHASES_OF_REPORT: Mapping[str, tuple[str, ...]] = {
    "best": ("aggregated",),
    "prefill": ("prefill",),
    "decode": ("decode",),
    "pd-ratio": ("prefill", "decode"),
    "capacity": ("prefill", "decode"),
    "compare": ("aggregated", "prefill", "decode"),
}
OBJECTIVES = {
    "throughput": "rate",
    "qps": "qps",
    "throughput-per-device": "rate_per_device",
    "ttft": "ttft",
    "tpot": "tpot",
    "e2e": "e2e",
    "batch-size": "batch_size",
    "concurrency": "concurrency",
    "tokens-per-s-per-user": "tokens_per_s_per_user",
}
PAIR_OBJECTIVES = ("balanced-qps", "system-qps", "qps-per-device", "qps-per-device-bound")


class Session:
    """One store, open for questions. Several questions of one scope share what was read for it."""

    def __init__(self, location: StoreLocation) -> None:
        self.location = location
        self._connection = StoreConnection(location)
        self._scope: ResolvedScope | None = None
        self._asked: object = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release DuckDB."""
        self._connection.close()

    def ask(self, question: Question) -> Answer:
        """Answer one question from the stored rows alone."""
        asked = report(question.report)
        scope = self._prepare(question)
        phases = PHASES_OF_REPORT.get(question.report, ())
        check_phases(question, phases, scope)
        parameters = parameters_of(question, asked)
        cursor = self._connection.duckdb.execute(asked.sql, parameters)
        columns = tuple(str(item[0]) for item in cursor.description or ())
        rows = tuple(cursor.fetchall())
        answer = Answer(
            question=question,
            report=asked.name,
            columns=columns,
            rows=rows,
            probes_considered=self._considered(phases),
            scenarios_considered=len(scope.rows),
            scope=scope.groups,
            versions={
                "formula_version": list(scope.formula_versions),
                "family": list(scope.families),
                "serving_model": list(scope.serving_models),
            },
            sql=asked.sql,
            parameters=parameters,
        )
        return answer if rows or asked.name == "nearest" or not phases else self._with_nearest(answer, phases)

    def _prepare(self, question: Question) -> ResolvedScope:
        if self._scope is not None and self._asked == question.scope:
            return self._scope
        with read_transaction(self.location) as transaction:
            scope = resolve_scope(transaction, question.scope)
        duckdb = self._connection.duckdb
        self._connection.provide({"probe"})
        duckdb.execute(
            "CREATE OR REPLACE TEMP TABLE scope (scenario_id BIGINT, first_batch_size INTEGER,"
            " last_batch_size INTEGER, question_group INTEGER)"
        )
        # One list a column: a row at a time costs a millisecond a hundred scenarios.
        duckdb.execute(
            "INSERT INTO scope SELECT unnest($scenarios), unnest($firsts), unnest($lasts), unnest($groups)",
            {
                "scenarios": [row.scenario_id for row in scope.rows],
                "firsts": [row.first_batch_size for row in scope.rows],
                "lasts": [row.last_batch_size for row in scope.rows],
                "groups": [row.question_group for row in scope.rows],
            },
        )
        for statement in duckdb.extract_statements(SCOPED.read_text(encoding="utf-8")):
            duckdb.execute(statement)
        self._scope, self._asked = scope, question.scope
        return scope

    def _considered(self, phases: tuple[str, ...]) -> int:
        row = self._connection.duckdb.execute(
            "SELECT count(*) FROM scoped WHERE len($phases) = 0 OR phase IN (SELECT unnest($phases::VARCHAR[]))",
            {"phases": list(phases)},
        ).fetchone()
        return int(row[0]) if row else 0

    def _with_nearest(self, answer: Answer, phases: tuple[str, ...]) -> Answer:
        nearest = report("nearest")
        columns: tuple[str, ...] = ()
        rows: list[tuple[object, ...]] = []
        for phase in phases:
            cursor = self._connection.duckdb.execute(
                nearest.sql, {**parameters_of(answer.question, nearest), "wanted_phase": phase}
            )
            columns = tuple(str(item[0]) for item in cursor.description or ())
            rows += cursor.fetchall()
        return replace(answer, nearest_columns=columns, nearest=tuple(rows))


def check_phases(question: Question, phases: tuple[str, ...], scope: ResolvedScope) -> None:
    """Refuse a report whose phases are not stored, and a limit that none of its phases has a metric for."""
    missing = [phase for phase in phases if phase not in scope.phases]
    if missing:
        stored = ", ".join(sorted(scope.phases)) or "nothing"
        raise InputError(
            f"report {question.report} needs {' and '.join(missing)} rows; stored in this scope: {stored}",
            hint=f"run: sweepdb evaluate ... --mode {missing[0]}",
        )
    limits = question.limits
    if phases == ("prefill",):
        for value, option in (
            (limits.tpot_ms, "--tpot-limits"),
            (limits.e2e_ms, "--e2e-limits"),
            (limits.min_tokens_per_s_per_user, "--min-tokens-per-s-per-user"),
        ):
            if value is not None:
                raise InputError(f"prefill rows have no such metric: drop {option}", hint="or ask: best, pd-ratio")
    if phases == ("decode",):
        for value, option in ((limits.ttft_ms, "--ttft-limits"), (limits.e2e_ms, "--e2e-limits")):
            if value is not None:
                raise InputError(f"decode rows have no such metric: drop {option}", hint="or ask: best, pd-ratio")


def parameters_of(question: Question, asked: Report) -> dict[str, object]:
    """The values of exactly the parameters a report names."""
    limits: Limits = question.limits
    rules: Definitions = question.definitions
    pairs = question.pairs
    values: dict[str, object] = {
        "reserved_gib": limits.reserved_gib,
        "kv_charge": rules.kv_charge,
        "tpot_rule": rules.tpot,
        "prefill_qps_rule": rules.prefill_qps,
        "decode_qps_rule": rules.decode_qps,
        "throughput_rule": rules.throughput,
        "allocation_rule": rules.allocation,
        "ttft_limit_ms": limits.ttft_ms,
        "tpot_limit_ms": limits.tpot_ms,
        "e2e_limit_ms": limits.e2e_ms,
        "min_user_rate": limits.min_tokens_per_s_per_user,
        "objective": objective_of(question),
        "top": question.top,
        "num_devices": pairs.num_devices,
        "target_qps": pairs.target_qps,
        "prefill_device": pairs.prefill_device,
        "decode_device": pairs.decode_device,
        "prefill_instance_devices": pairs.prefill_devices_per_instance,
        "decode_instance_devices": pairs.decode_devices_per_instance,
        "kv_transfer_bytes_per_s": None if pairs.kv_transfer_gb_per_s is None else pairs.kv_transfer_gb_per_s * 1e9,
        "prefill_degradation": pairs.prefill_degradation,
        "decode_degradation": pairs.decode_degradation,
        **dict(question.extra),
    }
    missing = asked.parameter_names - set(values) - {"wanted_phase"}
    if missing:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in sorted(missing))
        raise InputError(f"report {asked.name} needs {names}")
    return {name: values[name] for name in asked.parameter_names if name in values}


def objective_of(question: Question) -> str:
    """What candidates are compared by."""
    asked = question.rank_by
    if question.report in {"pd-ratio", "capacity", "compare"}:
        if asked is not None and asked not in PAIR_OBJECTIVES:
            raise InputError(f"--rank-by {asked} is not one of {', '.join(PAIR_OBJECTIVES)}")
        default = "balanced-qps" if question.pairs.num_devices is None else "system-qps"
        if asked in {"system-qps", "qps-per-device"} and question.pairs.num_devices is None:
            raise InputError(f"--rank-by {asked} needs --num-devices")
        return (asked or default).replace("-", "_")
    if asked is None:
        return "rate"
    if asked not in OBJECTIVES:
        raise InputError(f"--rank-by {asked} is not one of {', '.join(OBJECTIVES)}")
    return OBJECTIVES[asked]


def open_session(url: str | None = None) -> Session:
    """A session on the store at `url`, or at SWEEPDB_STORE, or on sweepdb.sqlite here."""
    return Session(parse_url(url))
