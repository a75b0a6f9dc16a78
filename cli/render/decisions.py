"""Decisions, schedules of a day and watched servers as text: sentences first, then tables."""

from __future__ import annotations

from collections.abc import Iterator

from cli.render.expected_error import expected_error_lines
from cli.render.rows import Paragraph, table_lines
from sweepdb import deciding, planning, scheduling, watching

_MOST = 10  # servers or candidates of a table
_SHOWN = ("device", "deployment", "devices", "concurrency", "requests/s", "tokens/s", "ttft_ms", "tpot_ms", "holds",
          "stands", "row")  # fmt: skip
_WATCHED = ("metric", "measured", "planned", "expected", "change", "verdict")
_RUNS = ("run", "device", "plan", "concurrency", "ttft_ms", "predicted", "tpot_ms", "predicted", "limits kept")


def decision_lines(found: deciding.Decision) -> Iterator[str]:
    yield from (f"{line}\n" for line in found.curve.scope)
    for line in deciding.sentences(found):
        yield Paragraph(line)
        if (start := found.next_start) is not None and line.startswith(deciding.NEXT):
            yield from (f"  {deciding.outcome_line(found, one)}\n" for one in start.outcomes)
    yield "\n"
    yield from table_lines(_SHOWN, [
        (one.device, f"{one.instances} x {planning.short_plan(one.plan)}", one.num_devices, one.concurrency,
         one.requests_per_s, one.output_tokens_per_s, one.ttft_ms, one.tpot_ms, f"{100 * one.holds:.0f} %", one.stands,
         one.probe)
        for one in found.others[:_MOST]
    ])  # fmt: skip
    if len(found.others) > _MOST:
        yield f"the first {_MOST} of {len(found.others)} servers; --format csv has all\n"
    if found.runs:
        yield "\n"
        yield from table_lines(_RUNS, [
            (one.measurement[:8], one.device, planning.short_plan(one.plan), f"{one.concurrency:g}", one.ttft_ms,
             one.predicted_ttft_ms, one.tpot_ms, one.predicted_tpot_ms, one.keeps_limits)
            for one in found.runs
        ])  # fmt: skip
    yield "\n"
    for line in dict.fromkeys(expected_error_lines(found.curve.expected_error)):
        yield Paragraph(f"Expected error: {line}", indent="  ")


def schedule_lines(found: scheduling.DaySchedule) -> Iterator[str]:
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


def pool_lines(found: scheduling.PoolSchedule) -> Iterator[str]:
    for line in found.sentences():
        yield Paragraph(line)
    yield "\n"
    shown = [place for place, name in enumerate(found.columns) if name != "scenario"]
    rows = [
        [planning.short_plan(str(row[place])) if found.columns[place] == "plan" else row[place] for place in shown]
        for row in found.rows
    ]
    yield from table_lines([found.columns[place] for place in shown], rows)


def watched_lines(found: watching.Watched) -> Iterator[str]:
    for line in found.sentences():
        yield Paragraph(line)
    yield "\n"
    rows = [
        (
            *(() if found.decode is None else (side.role,)),
            f"{one.metric} ({one.unit})",
            *(None if value is None else f"{value:.4g}" for value in (one.measured, one.planned, one.expected)),
            None if one.change_percent is None else f"{one.change_percent:+.1f} %",
            one.verdict,
        )
        for side in found.sides
        for one in side.judged
    ]
    yield from table_lines((*(() if found.decode is None else ("role",)), *_WATCHED), rows)
