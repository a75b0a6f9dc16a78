"""Expected errors of step times of scenarios, as a table that reports about requests that arrive read.

Not here: which errors these are (queries.errors.expected)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from queries.errors.expected import nearest_error
from queries.judging.subjects import stored_errors, subjects_of_scenarios
from store.sealing import insert_rows

if TYPE_CHECKING:
    import duckdb

    from store.reading import ReadTransaction

TABLE = "step_error"
_COLUMNS = (("scenario_id", "BIGINT"), ("error", "DOUBLE"))
# A prompt's time says how far steps of prompts are off; elsewhere that of a token does.
_METRIC: Mapping[str, str] = {"prefill": "ttft_ms", "decode": "tpot_exclusive_ms", "aggregated": "tpot_exclusive_ms"}
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
    rows: list[tuple[int, float | None]] = []
    for one in found:
        percent = errors[one.subject]
        rows.append((one.scenario_id, None if percent is None else min(percent / 100.0, _LARGEST)))
    connection.execute(f"CREATE OR REPLACE TEMP TABLE {TABLE} (scenario_id BIGINT, error DOUBLE)")
    insert_rows(connection, TABLE, _COLUMNS, rows)
