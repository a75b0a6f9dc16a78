"""The words of an answer on measured rows: which these are, whether they keep the limits, and no memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from queries.asking.limit_sql import with_limits
from queries.asking.limits import Limits, predicted_limits
from queries.judging.confidence import HELD, is_measured
from queries.measured_rows.asked import MEASURED, PREDICTED

if TYPE_CHECKING:
    import duckdb

    from queries.asking.question import Answer

ROWS = "rows"  # the column that says which rows of an answer were measured
_UNSTATED = ("memory_free_bytes", "memory_change_bytes", "prefill_memory_free_bytes", "decode_memory_free_bytes")
_COUNTS = ("batch_size", "concurrency", "prefill_batch_size", "decode_batch_size")
_VALUES = with_limits("""
    SELECT DISTINCT probe, each_predicted_metric FROM measured_row WHERE probe IN (SELECT unnest($probes::VARCHAR[]))
""")


def with_measured_words(
    answer: Answer, connection: duckdb.DuckDBPyConnection, ready: Callable[[str], str], notes: Sequence[str]
) -> Answer:
    """An answer that says which of its rows were measured: whether these hold, and nothing of what was not measured."""
    told = _Told(answer, _values(answer, connection, ready))
    return replace(
        answer,
        columns=told.columns(answer.columns),
        rows=tuple(told.rows(answer.columns, answer.rows)),
        nearest_columns=told.columns(answer.nearest_columns) if answer.nearest else answer.nearest_columns,
        nearest=tuple(told.rows(answer.nearest_columns, answer.nearest)),
        notes=(*answer.notes, *notes),
        counts="rows",
    )


def _values(
    answer: Answer, connection: duckdb.DuckDBPyConnection, ready: Callable[[str], str]
) -> Mapping[str, Sequence[float | None]]:
    """Measured values that limits are compared with, by the reference of a row."""
    if not answer.question.limits.on_times:
        return {}
    probes = sorted({
        str(row[place])
        for columns, rows in ((answer.columns, answer.rows), (answer.nearest_columns, answer.nearest))
        for place in _places(columns, _references(columns))
        for row in rows
        if is_measured(row[place])
    })  # fmt: skip
    if not probes:
        return {}
    asked = {"probes": probes, "tpot_rule": answer.question.definitions.tpot}
    return {probe: values for probe, *values in connection.execute(ready(_VALUES), asked).fetchall()}


class _Told:
    def __init__(self, answer: Answer, values: Mapping[str, Sequence[float | None]]) -> None:
        self._limits = answer.question.limits
        self._values = values

    def columns(self, columns: tuple[str, ...]) -> tuple[str, ...]:
        return (*columns, ROWS)

    def rows(self, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[tuple[object, ...]]:
        """The rows with their words, made column by column: there may be a hundred thousand."""
        if not rows:
            return iter(())
        made: list[Sequence[object]] = list(zip(*rows, strict=True))
        references = {
            name: [None if one is None else is_measured(one) for one in made[columns.index(name)]]
            for name in _references(columns)
        }
        flags = list(zip(*references.values(), strict=True)) or [()] * len(rows)
        words = {kinds: _word([one for one in kinds if one is not None]) for kinds in {*flags}}
        for place in _places(columns, _COUNTS):
            made[place] = [int(one) if type(one) is float and one.is_integer() else one for one in made[place]]
        for place in _places(columns, _UNSTATED):
            made[place] = [None if True in kinds else one for kinds, one in zip(flags, made[place], strict=True)]
        for held, reference in ((HELD[name], name) for name in HELD):
            if held in columns and reference in columns:
                place, told = columns.index(held), made[columns.index(reference)]
                made[place] = [
                    _held(self._values.get(str(probe), ()), self._limits) if measured else one
                    for probe, measured, one in zip(told, references[reference], made[place], strict=True)
                ]
        return zip(*made, map(words.__getitem__, flags), strict=True)


def _word(measured: Sequence[bool]) -> str:
    return " to ".join(dict.fromkeys(MEASURED if one else PREDICTED for one in measured)) or PREDICTED


def _references(columns: Sequence[str]) -> list[str]:
    return [name for name in columns if name == "probe" or name.endswith("_probe")]


def _places(columns: Sequence[str], names: Iterable[str]) -> list[int]:
    return [columns.index(name) for name in names if name in columns]


def _held(values: Sequence[float | None], limits: Limits) -> str | None:
    """`yes` or `no`: a measured value is within a limit or is not. None where no limit is about what was measured."""
    asked = {one.name: limit for one, limit in limits.given}
    compared = [
        value >= asked[one.name] if one.least else value <= asked[one.name]
        for one, value in zip(predicted_limits(), values, strict=False)
        if one.name in asked and value is not None
    ]
    return None if not compared else "yes" if all(compared) else "no"
