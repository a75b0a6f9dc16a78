"""Stored rows as own runs correct them, in place of the view `probe`.

Only stored times are corrected; the rest follows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from queries.asking.macros import macros_of
from queries.learning.conditioning import ApartRun, Learned, Lessons, Row
from queries.learning.process import Setting
from store.schema import STORED_PROBE, probe_select
from store.sealing import insert_arrays, put_temporary

if TYPE_CHECKING:
    import duckdb

LEARNED = "learned_probe"
_TIMES = "scenario_id, batch_size, coalesce(ttft_ms, 0), coalesce(tpot_exclusive_ms, 0), coalesce(e2e_ms, 0)"
# Rows of so many requests. Numbers as text: parts without them are skipped.
_EXACT = f"""
    SELECT {_TIMES} FROM raw.{STORED_PROBE}
    WHERE scenario_id IN ({{scenarios}}) AND batch_size IN ({{sizes}})
"""  # noqa: S608  our names
# The rows of a ladder that lie nearest on both sides.
_NEAREST = f"""
    SELECT {_TIMES} FROM (VALUES {{points}}) AS point (scenario, size)
    JOIN raw.{STORED_PROBE} ON scenario_id = scenario
    WHERE scenario_id IN ({{scenarios}})
    QUALIFY batch_size = max(batch_size) FILTER (WHERE batch_size < size) OVER (PARTITION BY scenario, size)
        OR batch_size = min(batch_size) FILTER (WHERE batch_size > size) OVER (PARTITION BY scenario, size)
"""  # noqa: S608  our names
_SIZES = f"""
    SELECT DISTINCT batch_size FROM raw.{STORED_PROBE}
    WHERE scenario_id IN (SELECT unnest($scenarios::BIGINT[])) ORDER BY batch_size
"""  # noqa: S608  our names
_SIDES = Path(__file__).with_name("sides.sql")
_COUNTED = {"number", "scenario_id", "instances"}
_APART = [(name, "BIGINT" if name in _COUNTED else "DOUBLE") for name in ApartRun._fields]
# A row's place is that of its ladder and its batch size: joined by one number without gaps, which DuckDB looks up.
_SCENARIOS = [("scenario_id", "BIGINT"), ("place", "BIGINT")]
_FACTORS = [("place", "BIGINT"), ("ttft", "DOUBLE"), ("tpot", "DOUBLE")]
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
    points = {(known.id, point.batch_size) for some in lessons.matched.values() for point, known, _ in some}
    rows = _rows(connection, _EXACT, points)
    between = points - {(row.scenario_id, row.batch_size) for row in rows}
    return lessons.taught([*rows, *_rows(connection, _NEAREST, between)], dict(_longer_prompts(connection, lessons)))


def _rows(connection: duckdb.DuckDBPyConnection, sql: str, points: Collection[tuple[int, int]]) -> list[Row]:
    if not points:
        return []
    scenarios, sizes = (", ".join(map(str, sorted(set(numbers)))) for numbers in zip(*points, strict=True))
    asked = sql.format(scenarios=scenarios, sizes=sizes, points=", ".join(map(str, sorted(points))))
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


def learn(connection: duckdb.DuckDBPyConnection, lessons: Lessons, sizes: range | None = None) -> Learned:
    """Creates the relation of corrected rows.

    `sizes` hold all batch sizes of what is corrected; None: looked up."""
    learned = taught_by(connection, lessons)
    _create_factors(connection, learned, sizes)
    connection.execute(f"CREATE OR REPLACE TEMP VIEW {LEARNED} AS {probe_select(f'({_CORRECTED})')}")
    return learned


def _create_factors(connection: duckdb.DuckDBPyConnection, learned: Learned, known_sizes: range | None) -> None:
    """By ladder and batch size. Scenarios that differ in a name alone share a ladder."""
    ladders: dict[tuple[object, ...], dict[object, int]] = defaultdict(dict)
    numbers: list[tuple[int, int]] = []
    bases: list[tuple[object, Setting]] = []
    for number, known in learned.told.items():
        of_group, base = ladders[known.group], known.setting(1.0)
        if base not in of_group:
            of_group[base] = len(bases)
            bases.append((known.group, base))
        numbers.append((number, of_group[base]))
    sizes = np.array(known_sizes or _looked_up(connection, [number for number, _ in numbers]), dtype=np.int64)
    apart = int(sizes.max(initial=0)) + 1
    placed = [(number, apart * ladder) for number, ladder in numbers]
    put_temporary(connection, "learned_scenario", _SCENARIOS, placed, arrays=True)
    put_temporary(connection, "learned_factor", _FACTORS, ())
    for group, process in learned.processes.items():
        own = [(ladder, base) for ladder, (of, base) in enumerate(bases) if of == group]
        if not own or not sizes.size:
            continue
        users = np.array([base.users for _, base in own])[:, None] * sizes[None, :].astype(np.float64)
        ttft, tpot = np.exp(process.ladders([base for _, base in own], users))
        places = apart * np.array([ladder for ladder, _ in own])[:, None] + sizes
        arrays = {"place": places.ravel(), "ttft": ttft.ravel(), "tpot": tpot.ravel()}
        insert_arrays(connection, "learned_factor", _FACTORS, arrays)
