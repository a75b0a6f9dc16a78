"""A decision as text: the answer, how sure it is, what comes next, the best load of each server, runs read."""

from __future__ import annotations

from collections.abc import Iterator

from cli.render.expected_error import expected_error_lines
from cli.render.rows import Paragraph, table_lines
from sweepdb.deciding import NEXT, Decision, outcome_line, sentences
from sweepdb.planning import short_plan

_MOST = 10  # servers of the table
_SHOWN = ("device", "deployment", "devices", "concurrency", "requests/s", "tokens/s", "ttft_ms", "tpot_ms", "holds",
          "stands", "row")  # fmt: skip
_RUNS = ("run", "device", "plan", "concurrency", "ttft_ms", "predicted", "tpot_ms", "predicted", "limits kept")


def decision_lines(found: Decision) -> Iterator[str]:
    yield from (f"{line}\n" for line in found.curve.scope)
    for line in sentences(found):
        yield Paragraph(line)
        if (start := found.next_start) is not None and line.startswith(NEXT):
            yield from (f"  {outcome_line(found, one)}\n" for one in start.outcomes)
    yield "\n"
    yield from table_lines(_SHOWN, [
        (one.device, f"{one.instances} x {short_plan(one.plan)}", one.num_devices, one.concurrency, one.requests_per_s,
         one.output_tokens_per_s, one.ttft_ms, one.tpot_ms, f"{100 * one.holds:.0f} %", one.stands, one.probe)
        for one in found.others[:_MOST]
    ])  # fmt: skip
    if len(found.others) > _MOST:
        yield f"the first {_MOST} of {len(found.others)} servers; --format csv has all\n"
    if found.runs:
        yield "\n"
        yield from table_lines(_RUNS, [
            (one.measurement[:8], one.device, short_plan(one.plan), one.concurrency, one.ttft_ms, one.predicted_ttft_ms,
             one.tpot_ms, one.predicted_tpot_ms, one.keeps_limits)
            for one in found.runs
        ])  # fmt: skip
    yield "\n"
    for line in dict.fromkeys(expected_error_lines(found.curve.expected_error)):
        yield Paragraph(f"Expected error: {line}", indent="  ")
