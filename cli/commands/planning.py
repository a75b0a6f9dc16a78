"""plan: options into the best whole deployments. Not here: evaluating, asking and deciding (sweepdb.planning)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from cli.derived import as_typed, derived_parameters, with_parameters
from cli.output import check_format, say, write_rows, write_text
from cli.shared_options import OutputOption, StoreOption, joined_numbers
from store.errors import NothingFits
from sweepdb.planning import plan_options

# What a command line writes otherwise than Python: a number or the file of a distribution.
_WRITTEN = {"input_length": str | None}


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command("plan")(with_parameters(plan, derived_parameters(plan_options(), _WRITTEN), after="model"))


def plan(
    model: Annotated[str, typer.Argument(help="id, directory or config.json")],
    *,
    jobs: Annotated[int, typer.Option(help="threads that evaluate while rows are written")] = 8,
    wide: Annotated[bool, typer.Option("--wide", help="every column in the table")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="rules, cost model and assumptions too")] = False,
    fail_empty: Annotated[bool, typer.Option("--fail-empty", help="exit 5 when nothing fits")] = False,
    format_: Annotated[str, typer.Option("--format", help="table, csv, json, jsonl or parquet")] = "table",
    output: OutputOption = None,
    store: StoreOption = None,
    **options: Any,  # noqa: ANN401  those that sweepdb.planning.planning_options declares
) -> int:
    """The best whole deployments for a question, aggregated and with prefill and decode apart.

    Evaluates what the store lacks first; asked again with other limits, it evaluates nothing."""
    check_format(format_, output)
    from cli.render.plans import plan_lines
    from cli.render.progress import ProgressBar
    from sweepdb.planning import plan as planned

    with ProgressBar(sys.stderr) as bar:
        found = planned(
            model,
            store=store,
            jobs=jobs,
            progress=bar.show,
            on_notes=_say_notes,
            **joined_numbers(options, plan_options()),
        )
    if found.probes_evaluated:
        say(f"sweep {found.sweep}: {found.probes_evaluated:,} probes stored")
    if format_ == "table":
        write_text(map(as_typed, plan_lines(found, wide=wide, explain=explain)), output)
    else:
        write_rows(found.columns, found.rows, format_, output)
    if fail_empty and found.best is None:
        raise NothingFits("nothing satisfies the limits")
    return 0


def _say_notes(notes: Sequence[str]) -> None:
    for note in notes:
        say(as_typed(note))
