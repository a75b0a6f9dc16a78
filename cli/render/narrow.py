"""A table that fits a terminal: its longest texts are cut, never its numbers. Whole values: the other formats."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence

from cli.render.rows import cell, table_lines

_USUAL_WIDTH = 80
_SHORTEST = 6
_GAP = 2


def narrow_table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, names: Sequence[str]) -> Iterator[str]:
    """Rows as wide as the terminal, or 80 characters where there is none. Only the columns `names` are cut."""
    width = shutil.get_terminal_size((_USUAL_WIDTH, 24)).columns if sys.stdout.isatty() else _USUAL_WIDTH
    texts = [[cell(value) for value in row] for row in rows]
    widths = {name: max([len(name), *(len(row[index]) for row in texts)]) for index, name in enumerate(columns)}
    while sum(widths.values()) + _GAP * (len(widths) - 1) > width:
        longest = max(names, key=widths.__getitem__)
        if widths[longest] <= _SHORTEST:
            break
        widths[longest] -= 1
    cut = [[_cut(text, widths[name]) for text, name in zip(row, columns, strict=True)] for row in texts]
    return table_lines(columns, cut)


def _cut(text: str, most: int) -> str:
    """The end of a name tells more than its middle does: `h100_sxm` and `Qwen3-32B-FP8` differ there."""
    if len(text) <= most:
        return text
    head = (most - 1) // 2
    return f"{text[:head]}…{text[len(text) - (most - 1 - head) :]}"
