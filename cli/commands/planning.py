"""plan and report: the best whole deployments, as text or as a file to send.

Not here: evaluating, asking and deciding (sweepdb.planning), and what a file says (sweepdb.reporting)."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import join
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.derived import as_typed, spelled, with_parameters
from cli.output import FORMATS, check_format, say, write_rows, write_text
from cli.shared_options import (
    OUTPUT_SHAPE,
    FailEmptyOption,
    JobsOption,
    OutputOption,
    PresetOption,
    StoreOption,
    joined_numbers,
    output_path,
)
from store.errors import InputError, NothingFits
from sweepdb.planning import plan_options
from sweepdb.reporting import report_options
from sweepdb.stores import is_standard_output, parse_url

if TYPE_CHECKING:
    from sweepdb.reporting import Decision

# What a command line writes otherwise than Python: a number or the file of a distribution.
_WRITTEN = {"input_length": str | None}


@with_parameters(plan_options(), _WRITTEN, after="model")
def plan(
    model: Annotated[str | None, typer.Argument(help="id, directory or config.json; of a server its own")] = None,
    *,
    from_deployment: Annotated[
        str | None,
        typer.Option(help="about a server that runs: its command line, a file that starts it, or - (standard input)"),
    ] = None,
    jobs: JobsOption = 8,
    wide: Annotated[bool, typer.Option("--wide", help="every column in the table")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="rules, cost model and assumptions too")] = False,
    fail_empty: FailEmptyOption = False,
    format_: Annotated[
        str, typer.Option("--format", help="table, csv, json, jsonl, parquet, json-full, or html: a report to send")
    ] = "table",
    output: OutputOption = None,
    store: StoreOption = None,
    **options: Any,  # noqa: ANN401  those that sweepdb.planning.planning_options declares
) -> int:
    """The best whole deployments for a question, aggregated and with prefill and decode apart.

    Evaluates what the store lacks first; asked again with other limits, it evaluates nothing."""
    check_format(format_, output, known=FORMATS if from_deployment is not None else (*FORMATS, "html", "json-full"))
    from cli.render.plans import plan_lines, server_lines
    from cli.render.progress import ProgressBar
    from sweepdb.planning import plan as planned
    from sweepdb.planning import plan_server

    given: Any = {"store": store, "jobs": jobs, "on_notes": _say_notes, **joined_numbers(options, plan_options())}
    if from_deployment is not None:
        with ProgressBar(sys.stderr) as bar:
            server = plan_server(from_deployment, model, progress=bar.show, **given)
        if format_ == "table":
            write_text(map(as_typed, server_lines(server)), output)
        else:
            write_rows(server.columns, server.rows, format_, output)
        return 0
    if model is None:
        raise InputError("no model given", hint="sweepdb plan MODEL ...; --from-deployment is about a server that runs")
    with ProgressBar(sys.stderr) as bar:
        found = planned(model, progress=bar.show, **given)
    if found.probes_evaluated:
        say(f"sweep {found.sweep}: {found.probes_evaluated:,} probes stored")
    if format_ == "table":
        write_text(map(as_typed, plan_lines(found, wide=wide, explain=explain)), output)
    elif format_ == "html":
        from sweepdb.reporting import of_plan

        typed = ["plan", model, *_typed(options), "--format", "html"]
        _write_report(of_plan(found), typed, output, store)
    elif format_ == "json-full":
        from cli.commands.questions import full_answer

        document = {**full_answer(found.answer), "sentences": [as_typed(line) for line in found.sentences()]}
        write_text((json.dumps(document, ensure_ascii=False, indent=1), "\n"), output)
    else:
        write_rows(found.columns, found.rows, format_, output)
    if fail_empty and found.best is None:
        raise NothingFits("nothing satisfies the limits")
    return 0


def _say_notes(notes: Sequence[str]) -> None:
    for note in notes:
        say(as_typed(note))


@with_parameters(report_options(), _WRITTEN, after="output")
def report(
    *,
    output: Annotated[
        Path,
        typer.Option(
            parser=output_path, metavar=OUTPUT_SHAPE, help="write the report to this file or pipe; - is standard output"
        ),
    ],
    preset: PresetOption = "sweepdb",
    store: StoreOption = None,
    **options: Any,  # noqa: ANN401  those of the question about whole deployments
) -> int:
    """Write one HTML file about the best whole deployments in the store, for people who decide.

    It opens without a network: the answer, its frontier, costs, expected errors, and sliders over stored answers."""
    from cli.commands.questions import typed_keywords
    from sweepdb.reporting import decide

    found = decide({**typed_keywords(options, store), "preset": preset}, store)
    chosen = [] if preset == "sweepdb" else ["--preset", preset]
    _write_report(found, ["report", *_typed(options), *_typed(found.scope), *chosen], output, store)
    return 0


def _write_report(found: Decision, typed: Sequence[str], output: Path | None, store: str | None) -> None:
    from sweepdb.reporting import report_page

    file = [] if output is None else ["--output", "-" if is_standard_output(output) else str(output)]
    command = f"sweepdb {join([*typed, *file])}{as_typed(parse_url(store).argument)}"
    write_text((report_page(found, command=command, spoken=as_typed),), output)


def _typed(options: Mapping[str, Any]) -> list[str]:
    """Options as they were typed, those that were not given left out."""
    words = []
    for keyword, value in options.items():
        if value is True:
            words.append(spelled(keyword))
        elif value not in {None, False}:
            words += [spelled(keyword), f"{value:g}" if isinstance(value, float) else str(value)]
    return words
