"""compare: files of measured points beside one another, without a store.

Not here: stored rows (query compare)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.output import FORMATS, check_format, counted, say, write_rows, write_text
from cli.render.rows import markdown_lines
from cli.shared_options import OutputOption
from store.errors import EvaluationError

if TYPE_CHECKING:
    from sweepdb.measuring import Side


_MARKDOWN = "markdown"  # for the comment of a pull request


def compare(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="results of benchmark clients; a folder is one")
    ],
    format_: Annotated[str, typer.Option("--format", help="table, markdown, csv, json, jsonl or parquet")] = "table",
    output: OutputOption = None,
) -> int:
    """Compare result files or folders with the first of them: values, differences in percent, what only one has."""
    check_format(format_, output, known=(*FORMATS, _MARKDOWN))
    from sweepdb.measuring import compare_files

    found = compare_files([Path(name) for name in files])
    for problem in found.problems:
        say(f"{problem.where}: {problem.what}")
    if format_ == _MARKDOWN:
        write_text(markdown_lines(found.columns, found.rows), output)
    else:
        write_rows(found.columns, found.rows, format_, output)
    for side in found.sides:
        say(_said(side))
    if found.problems:
        raise EvaluationError(
            f"{counted(len(found.problems), 'line')} could not be read; the others are compared.",
            hint="Each is named above by file and line.",
        )
    return 0


def _said(side: Side) -> str:
    served = ", ".join(f"{name} {value}" for name, value in side.served.items())
    return f"{side.name}: {counted(side.points, 'point')}" + (f" of {served}" if served else "")
