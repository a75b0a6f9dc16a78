"""A day's schedule as text: sentences, replicas by hour, and what each candidate takes."""

from __future__ import annotations

from collections.abc import Iterator

from cli.render.rows import Paragraph, table_lines
from sweepdb.planning import DaySchedule

_MOST = 10  # candidates of the table
_TOTALS = ("rank", "device", "plan", "num_devices", "static_device_hours", "scheduled_device_hours",
           "reactive_device_hours", "static_usd", "scheduled_usd", "reactive_usd")  # fmt: skip


def schedule_lines(found: DaySchedule) -> Iterator[str]:
    for line in found.sentences():
        yield Paragraph(line)
    yield "\n"
    first = found.columns.index("hour")
    yield from table_lines(found.columns[first:], [row[first:] for row in found.rows if row[0] == 1])
    yield "\n"
    yield from table_lines(_TOTALS, list(found.totals())[:_MOST])
    if len(found.candidates) > _MOST:
        yield f"the first {_MOST} of {len(found.candidates)} candidates; --format csv has the hours of all\n"
