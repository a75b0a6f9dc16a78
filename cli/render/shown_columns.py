"""Which columns of an answer a person's table shows: about ten, of about a hundred characters. `--wide` shows all.

Not here: how a table looks (cli.render.rows). The machine formats always hold every column."""

from __future__ import annotations

from collections.abc import Sequence

from sweepdb.asking import HELD, NEAREST, Answer, given_options, report, shown_names


def with_holds(columns: Sequence[str], answer: Answer) -> Sequence[str]:
    """The columns with those that say whether limits hold, each before the reference of its row."""
    if not answer.question.limits.on_times:
        return columns
    return [name for column in columns for name in (*([HELD[column]] if column in HELD else []), column)]


def shown_columns(answer: Answer) -> Sequence[str] | None:
    """The columns of a report's default table, None for all of them."""
    columns = shown_names(report(answer.report), _given(answer))
    return None if columns is None else with_holds(columns, answer)


def nearest_columns(answer: Answer) -> Sequence[str]:
    """The columns of the nearest misses beside an answer without rows."""
    return with_holds(shown_names(report(NEAREST), _given(answer)) or answer.nearest_columns, answer)


def _given(answer: Answer) -> frozenset[str]:
    """Options that were given, and facts of the rows: an engine's pairs, instances of several sizes, first tokens as
    intervals."""
    rows = answer.dicts()
    served = ("served",) if any(row.get("users") is not None for row in rows) else ()
    sized = ("sized",) if any(row.get("ranked_by") == "rate_per_device" for row in rows) else ()
    spans = ("ttft_intervals",) if answer.ttft_intervals else ()
    return given_options(answer.question).union(served, sized, spans)
