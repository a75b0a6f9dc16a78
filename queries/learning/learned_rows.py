"""Stored rows as own runs correct them, in place of the view `probe`.

Only stored times are corrected; the rest follows."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from queries.asking.macros import macros_of
from queries.learning.conditioning import ApartRun, Learned, Lessons, Row, ServerGroup
from queries.learning.process import Setting
from store.schema import STORED_PROBE, WHOLE_MS, probe_select
from store.sealing import put_temporary

if TYPE_CHECKING:
    import duckdb

_TIMES = f"scenario_id, batch_size, coalesce(ttft_ms, 0), coalesce(tpot_exclusive_ms, 0), coalesce({WHOLE_MS}, 0)"
# Rows of a ladder of so many requests, or nearest on both sides. Numbers as text: parts without them are skipped.
_NEAREST = f"""
    SELECT {_TIMES} FROM (VALUES {{points}}) AS point (asked, size)
    JOIN raw.{STORED_PROBE} ON scenario_id = asked
    WHERE scenario_id IN ({{scenarios}})
    QUALIFY batch_size = max(batch_size) FILTER (WHERE batch_size <= size) OVER (PARTITION BY asked, size)
        OR batch_size = min(batch_size) FILTER (WHERE batch_size >= size) OVER (PARTITION BY asked, size)
"""  # noqa: S608  our names
_SIZES = f"""
    SELECT DISTINCT batch_size FROM raw.{STORED_PROBE}
    WHERE scenario_id IN (SELECT unnest($scenarios::BIGINT[])) ORDER BY batch_size
"""  # noqa: S608  our names
_SIDES = Path(__file__).with_name("sides.sql")
_COUNTED = {"number", "scenario_id", "instances", "prompts_per_user"}
_APART = [(name, "BIGINT" if name in _COUNTED else "DOUBLE") for name in ApartRun._fields]
# What follows the first token takes TPOT's factor; a whole request is both parts.
_CORRECTED = f"""
    SELECT stored.* REPLACE (
        stored.ttft_ms * coalesce(factor.ttft, 1) AS ttft_ms,
        stored.ttft_in_step_ms * coalesce(factor.ttft, 1) AS ttft_in_step_ms,
        stored.makespan_ms * CASE WHEN phase = 'prefill' THEN coalesce(factor.ttft, 1) ELSE 1 END AS makespan_ms,
        stored.prompt_service_ms * coalesce(factor.ttft, 1) AS prompt_service_ms,
        stored.tpot_exclusive_ms * coalesce(factor.tpot, 1) AS tpot_exclusive_ms,
        CASE WHEN factor.ttft IS NULL THEN stored.e2e_ms
            ELSE stored.ttft_ms * factor.ttft + (stored.e2e_ms - stored.ttft_ms) * factor.tpot END AS e2e_ms,
        CASE WHEN factor.ttft IS NULL THEN stored.tpot_inclusive_ms
            WHEN phase = 'decode' THEN stored.tpot_inclusive_ms * factor.tpot
            ELSE stored.tpot_inclusive_ms
                * (stored.ttft_ms * factor.ttft + (stored.e2e_ms - stored.ttft_ms) * factor.tpot) / stored.e2e_ms
        END AS tpot_inclusive_ms
    )
    FROM raw.{STORED_PROBE} AS stored
    LEFT JOIN learned_scenario AS known ON known.scenario_id = stored.scenario_id
    LEFT JOIN learned_factor AS factor ON factor.place = known.place + stored.batch_size
"""  # noqa: S608  our names


def taught_by(connection: duckdb.DuckDBPyConnection, lessons: Lessons) -> Learned:
    lacking = lessons.points - {(row.scenario_id, row.batch_size) for row in lessons.rows}
    return lessons.taught([*lessons.rows, *_nearest(connection, lacking)], dict(_longer_prompts(connection, lessons)))


def _nearest(connection: duckdb.DuckDBPyConnection, points: Collection[tuple[int, int]]) -> list[Row]:
    if not points:
        return []
    scenarios = ", ".join(map(str, sorted({scenario for scenario, _ in points})))
    asked = _NEAREST.format(scenarios=scenarios, points=", ".join(map(str, sorted(points))))
    return list(dict.fromkeys(Row(*row) for row in connection.execute(asked).fetchall()))


def _longer_prompts(connection: duckdb.DuckDBPyConnection, lessons: Lessons) -> Iterator[tuple[int, float]]:
    """Log factors of prompts, of disaggregated runs."""
    runs = list(lessons.apart)
    if not runs:
        return
    put_temporary(connection, "apart_run", _APART, runs)
    sql = _SIDES.read_text(encoding="utf-8")
    for macro in macros_of(sql):
        connection.execute(macro.sql)
    yield from connection.execute(sql).fetchall()


def _looked_up(connection: duckdb.DuckDBPyConnection, scenarios: Collection[int]) -> list[int]:
    return [size for (size,) in connection.execute(_SIZES, {"scenarios": list(scenarios)}).fetchall()]


def learn(
    connection: duckdb.DuckDBPyConnection, lessons: Lessons, sizes: range | None = None
) -> tuple[Learned, str | None]:
    """Also the relation of corrected rows; None where runs correct none.

    `sizes` hold all batch sizes of what is corrected; None: looked up."""
    learned = taught_by(connection, lessons)
    if not learned.groups:
        return learned, None
    _create_factors(connection, learned, sizes)
    return learned, f"({probe_select(f'({_CORRECTED})')})"


def _create_factors(connection: duckdb.DuckDBPyConnection, learned: Learned, known_sizes: range | None) -> None:
    """A row's place, by which it is joined, is that of its ladder and its batch size."""
    ladders: dict[tuple[ServerGroup, Setting], int] = {}
    numbers = [ladders.setdefault(ladder, len(ladders)) for ladder in learned.ladders.values()]
    sizes = np.array(known_sizes or _looked_up(connection, learned.ladders), dtype=np.int64)
    apart = int(sizes.max(initial=0)) + 1
    starts = apart * np.array(numbers)
    connection.register("learned_scenario", {"scenario_id": np.array(list(learned.ladders)), "place": starts})
    factors = []
    for group, process in learned.processes.items():
        own = {base: number for (of, base), number in ladders.items() if of == group}
        users = np.array([base.users for base in own])[:, None] * sizes[None, :].astype(np.float64)
        ttft, tpot = np.exp(process.ladders(list(own), users))
        places = apart * np.array(list(own.values()))[:, None] + sizes
        factors.append([array.ravel() for array in (places, ttft, tpot)])
    joined = map(np.concatenate, zip(*factors, strict=True))
    connection.register("learned_factor", dict(zip(("place", "ttft", "tpot"), joined, strict=True)))
