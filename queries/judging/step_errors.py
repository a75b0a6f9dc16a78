"""Expected errors of step times of scenarios, as a table that reports about requests that arrive read.

Not here: which errors these are (queries.errors.expected)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from queries.errors.expected import nearest_error
from queries.judging.subjects import stored_errors, subjects_of_scenarios
from store.errors import InputError
from store.sealing import insert_rows

if TYPE_CHECKING:
    import duckdb

    from store.reading import ReadTransaction

TABLE = "step_error"
_COLUMNS = (("scenario_id", "BIGINT"), ("error", "DOUBLE"), ("beside_ms", "DOUBLE"))
# A prompt's time says how far steps of prompts are off; elsewhere that of a token does.
_METRIC: Mapping[str, str] = {"prefill": "ttft_ms", "decode": "tpot_exclusive_ms", "aggregated": "tpot_exclusive_ms"}
_PLAYED = "SELECT count(*) FROM load JOIN scope ON scope.scenario_id = load.scenario_id WHERE load.phase = $phase"
# The time to move a prompt's keys and values, as pairs of probes have it (queries/paired.sql); and the decode instance
# receives the request, too, in the time that the prefill instance takes.
_MOVED = """
    UPDATE step_error SET beside_ms = moved.beside_ms
    FROM (
        SELECT
            load.scenario_id, any_value(load.outside_ms) + any_value(
                1000.0 * kv_bytes_per_request / coalesce($bytes_per_s, tp * pp * link_bytes_per_s)
            ) AS beside_ms
        FROM load
        JOIN scoped ON scoped.scenario_id = load.scenario_id
        JOIN (
            SELECT key, any_value(string_split(link_bandwidths, ' | ')[1])::DOUBLE AS link_bytes_per_s
            FROM device GROUP BY key
        ) AS outermost ON outermost.key = scoped.device_key
        WHERE load.phase = 'prefill'
        GROUP BY load.scenario_id
    ) AS moved
    WHERE moved.scenario_id = step_error.scenario_id
"""
_LARGEST = 0.9  # a step is never shorter than a tenth


def provide_step_errors(
    transaction: ReadTransaction, connection: duckdb.DuckDBPyConnection, scenario_ids: Iterable[int]
) -> None:
    """Create the table of these scenarios; the error is the median of the nearest region, NULL where there is none."""
    found = subjects_of_scenarios(transaction, scenario_ids, "exclusive")
    stored = stored_errors(transaction, [one.subject for one in found])
    errors = {
        subject: nearest_error(subject, _METRIC[subject.phase], stored).median_ape_percent
        for subject in dict.fromkeys(one.subject for one in found)
    }
    rows: list[tuple[int, float | None, None]] = []
    for one in found:
        percent = errors[one.subject]
        rows.append((one.scenario_id, None if percent is None else min(percent / 100.0, _LARGEST), None))
    connection.execute(f"CREATE OR REPLACE TEMP TABLE {TABLE} (scenario_id BIGINT, error DOUBLE, beside_ms DOUBLE)")
    insert_rows(connection, TABLE, _COLUMNS, rows)


def provide_moved_prompts(connection: duckdb.DuckDBPyConnection, bytes_per_s: float | None) -> None:
    """Add to the table what pairs add to the TTFT of prefill sides."""
    connection.execute(_MOVED, {"bytes_per_s": bytes_per_s})


def check_played(connection: duckdb.DuckDBPyConnection, report: str, phases: Iterable[str]) -> None:
    """Refuse a question about requests that arrive where none were played."""
    for phase in phases:
        row = connection.execute(_PLAYED, {"phase": phase}).fetchone()
        if row is None or not row[0]:
            raise InputError(
                f"report {report} is about requests that arrive, and no {phase} rows of this scope have been played",
                hint="sweepdb evaluate ... `arrivals=poisson` plays them",
            )
