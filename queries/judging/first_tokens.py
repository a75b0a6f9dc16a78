"""TTFT as an interval: in-step and drifting requests differ too much for one number."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from queries.judging.subjects import KEY_LENGTH
from store.light_dataclass import dataclass
from store.sealing import insert_rows

if TYPE_CHECKING:
    import duckdb

    from queries.asking.question import Answer

MOST_PROBES = 1000  # that are looked up for an answer; a curve may have many more
_TOLD = 2  # in words; a table marks each
_INTERVALS = """
    SELECT DISTINCT probe, ttft_ms, ttft_in_step_ms, e2e_ms, output_tokens_per_s
    FROM stored_rows((SELECT list(asked_about) FROM asked_about)) AS stored
    JOIN asked_about ON asked_about.scenario_id = stored.scenario_id AND asked_about.batch_size = stored.batch_size
    WHERE ttft_in_step_ms IS NOT NULL
"""
_OWN = ("probe", "ttft_ms", "ttft_in_step_ms", "e2e_ms", "output_tokens_per_s")  # as _INTERVALS names them
_ASKED_ABOUT = (("scenario_id", "BIGINT"), ("batch_size", "INTEGER"))


@dataclass(frozen=True, slots=True, kw_only=True)
class TtftInterval:
    """Two mean TTFTs, with what hardly depends on them: whole requests, tokens/s."""

    probe: str
    least_ms: float
    most_ms: float
    e2e_ms: float
    output_tokens_per_s: float  # of one instance

    def parted_by(self, limit_ms: float | None) -> bool:
        """A limit between the two, which some requests keep."""
        return limit_ms is not None and self.least_ms <= limit_ms < self.most_ms

    def said(self, limit_ms: float | None) -> str:
        least, most, whole = map(four_figures, (self.least_ms, self.most_ms, self.e2e_ms))
        parted = f" (the limit of {limit_ms:g} ms lies between)" if self.parted_by(limit_ms) else ""
        return (
            f"note: TTFT of {self.probe} is {least} to {most} ms: less if users drift apart, more if they stay in"
            f" step{parted}; end to end {whole} ms, {self.output_tokens_per_s:,.0f} output tokens/s an instance"
        )


Known = dict[str, TtftInterval | None]  # by probe; None: one number says it


def with_intervals(
    answer: Answer,
    numbers: Mapping[str, int],
    connection: duckdb.DuckDBPyConnection,
    ready: Callable[[str], str],
    known: Known,
) -> Answer:
    """Marks TTFTs that are intervals; `known` gains missing probes.

    `numbers` maps beginnings of keys to scenario numbers."""
    named: list[str] = []
    for columns, rows in ((answer.columns, answer.rows), (answer.nearest_columns, answer.nearest)):
        if not {"probe", "ttft_ms"} <= set(columns):
            continue
        probe, ttft = columns.index("probe"), columns.index("ttft_ms")
        there = [row for row in rows[:MOST_PROBES] if row[probe] is not None and row[ttft] is not None]
        named += (str(row[probe]) for row in there)
        if set(_OWN) <= set(columns):  # the rows say it themselves
            places = [columns.index(name) for name in _OWN]
            known |= {one.probe: one for one in _of_rows(there, places)}
            known |= dict.fromkeys({str(row[probe]) for row in there} - known.keys())
    probes = list(dict.fromkeys(named))
    missing = [probe for probe in probes if probe not in known and probe[:KEY_LENGTH] in numbers]
    if missing:
        asked = sorted((numbers[probe[:KEY_LENGTH]], int(probe.rpartition(":")[2])) for probe in missing)
        ask_about(connection, asked)
        known |= dict.fromkeys(missing)
        known |= {one.probe: one for one in map(_interval, connection.execute(ready(_INTERVALS)).fetchall())}
    found = [interval for probe in probes if (interval := known.get(probe)) is not None]
    if not found:
        return answer
    return replace(
        answer, ttft_intervals=tuple(found), notes=(*answer.notes, *_notes(found, answer.question.limits.ttft_ms))
    )


def ask_about(connection: duckdb.DuckDBPyConnection, places: Sequence[tuple[int, int]]) -> None:
    """Fills the table `asked_about`: scenarios and batch sizes of a statement."""
    typed = ", ".join(f"{column} {type_}" for column, type_ in _ASKED_ABOUT)
    connection.execute(f"CREATE OR REPLACE TEMP TABLE asked_about ({typed})")
    insert_rows(connection, "asked_about", _ASKED_ABOUT, places)


def _of_rows(rows: Sequence[Sequence[object]], places: Sequence[int]) -> Iterable[TtftInterval]:
    in_step = places[_OWN.index("ttft_in_step_ms")]
    return (_interval([row[place] for place in places]) for row in rows if row[in_step] is not None)


def _interval(row: Sequence[object]) -> TtftInterval:
    ttft, in_step, whole, rate = (float(str(value)) for value in row[1:])
    return TtftInterval(
        probe=str(row[0]), least_ms=min(ttft, in_step), most_ms=max(ttft, in_step), e2e_ms=whole,
        output_tokens_per_s=rate,
    )  # fmt: skip


def _notes(found: Sequence[TtftInterval], limit_ms: float | None) -> Iterable[str]:
    for one in found[:_TOLD]:
        yield one.said(limit_ms)
    if len(found) > _TOLD:
        yield f"note: TTFT of {len(found) - _TOLD} more rows is such an interval"


def four_figures(value: float) -> str:
    """0.1235, 671, 1,044 and 30,528; never an exponent."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
