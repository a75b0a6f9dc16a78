"""A day's schedule as text: sentences, replicas by hour, and what each candidate takes."""

from __future__ import annotations

from collections.abc import Iterator

from cli.render.rows import Paragraph, table_lines
from sweepdb.scheduling import DaySchedule, PoolSchedule

_MOST = 10  # candidates of the table


def schedule_lines(found: DaySchedule) -> Iterator[str]:
    for line in found.sentences():
        yield Paragraph(line)
    yield "\n"
    left_out = {"rank", "device", "plan", "scenario", *(() if found.candidates[0].decode else ("role",))}
    shown = [place for place, name in enumerate(found.columns) if name not in left_out]
    rows = [[row[place] for place in shown] for row in found.rows if row[0] == 1]
    yield from table_lines([found.columns[place] for place in shown], rows)
    yield "\n"
    yield from table_lines(found.totals_columns, list(found.totals())[:_MOST])
    if len(found.candidates) > _MOST:
        yield f"the first {_MOST} of {len(found.candidates)} candidates; --format csv has the hours of all\n"


def pool_lines(found: PoolSchedule) -> Iterator[str]:
    for line in found.sentences():
        yield Paragraph(line)
    yield "\n"
    shown = [place for place, name in enumerate(found.columns) if name != "scenario"]
    rows = ([row[place] for place in shown] for row in found.rows)
    yield from table_lines([found.columns[place] for place in shown], list(rows))
