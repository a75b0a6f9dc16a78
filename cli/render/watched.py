"""A watched server as text: sentences, then a line a number."""

from __future__ import annotations

from collections.abc import Iterator

from cli.render.rows import Paragraph, table_lines
from sweepdb.watching import Watched

_COLUMNS = ("metric", "measured", "planned", "expected", "change", "verdict")


def watched_lines(found: Watched) -> Iterator[str]:
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
    yield from table_lines((*(() if found.decode is None else ("role",)), *_COLUMNS), rows)
