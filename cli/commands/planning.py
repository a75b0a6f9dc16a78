"""plan and report: the best whole deployments."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from shlex import join
from typing import Annotated, Any

import typer

from cli import shared_options
from cli.derived import as_typed, spelled, with_parameters
from cli.output import FORMATS, check_format, say, typed, write_rows, write_text
from cli.render.expected_error import error_lines
from cli.render.plans import plan_lines, server_lines
from cli.render.progress import READING, ProgressBar
from store.errors import InputError, NothingFits
from store.texts import counted
from sweepdb import planning, reporting
from sweepdb.planning import plan_options
from sweepdb.reporting import report_options
from sweepdb.stores import is_standard_output, parse_url

# What a command line writes otherwise than Python: a number or the file of a distribution.
WRITTEN = {"input_length": str | None}


@with_parameters(plan_options(), WRITTEN, after="model")
def plan(
    model: Annotated[str | None, typer.Argument(help="id, directory or config.json; of a server its own")] = None,
    *,
    from_deployment: Annotated[
        str | None,
        typer.Option(help="about a server that runs: its command line, a file that starts it, or - (standard input)"),
    ] = None,
    jobs: shared_options.JobsOption = 8,
    wide: Annotated[bool, typer.Option("--wide", help="every column in the table")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="rules, cost model and assumptions too")] = False,
    fail_empty: shared_options.FailEmptyOption = False,
    format_: Annotated[
        str, typer.Option("--format", help="table, csv, json, jsonl, parquet, json-full, or html: a report to send")
    ] = "table",
    output: shared_options.OutputOption = None,
    store: shared_options.StoreOption = None,
    **options: Any,  # noqa: ANN401  those that sweepdb.planning.planning_options declares
) -> int:
    """The best whole deployments for a question, aggregated and disaggregated.

    Evaluates what the store lacks first; asked again with other limits, it evaluates nothing."""
    given = shared_options.joined_numbers(options, plan_options())
    if from_deployment is not None:
        return _plan_server(from_deployment, model, given, store, jobs, format_, output)
    if model is None:
        raise InputError("no model given", hint="sweepdb plan MODEL ...; --from-deployment is about a server that runs")
    check_format(format_, output, known=(*FORMATS, "html", "json-full"))
    with asking(store, jobs) as asked:
        found = planning.plan(model, **asked, **given)
    if found.probes_evaluated:
        say(f"sweep {found.sweep}: {counted(found.probes_evaluated, 'probe')} stored")
    if format_ == "table":
        write_text(typed(plan_lines(found, wide=wide, explain=explain)), output)
    elif format_ == "html":
        _write_page(found, ["plan", model, *_typed(options), "--format", "html"], output, store)
    elif format_ == "json-full":
        from cli.commands.questions import full_answer

        document = {**full_answer(found.answer), "sentences": [as_typed(line) for line in found.sentences()]}
        write_text((json.dumps(document, ensure_ascii=False, indent=1), "\n"), output)
    else:
        write_rows(found.columns, found.rows, format_, output)
    if fail_empty and found.best is None:
        raise NothingFits("nothing satisfies the limits")
    return 0


def _write_page(
    found: planning.DeploymentPlan | planning.RatePlan, typed: Sequence[str], output: Path | None, store: str | None
) -> None:
    if not isinstance(found, planning.RatePlan):
        _write_report(reporting.of_plan(found), typed, output, store)
        return
    errors = dict.fromkeys(error_lines(found.answer))
    command = _repeated(typed, output, store)
    write_text((reporting.rate_page(found, command=command, spoken=as_typed, errors=iter(errors)),), output)


@contextmanager
def asking(store: str | None, jobs: int) -> Iterator[Any]:
    """Shows progress on a terminal."""
    with ProgressBar(sys.stderr).begin(READING) as bar:

        def say_notes(notes: Sequence[str]) -> None:
            bar.clear()
            for note in notes:
                say(as_typed(note))

        yield {"store": store, "jobs": jobs, "progress": bar.show, "on_notes": say_notes}


def _plan_server(  # noqa: PLR0917  what the command was given
    started: str, model: str | None, given: Mapping[str, Any], store: str | None, jobs: int, format_: str,
    output: Path | None,
) -> int:  # fmt: skip
    check_format(format_, output, known=FORMATS)
    with asking(store, jobs) as asked:
        found = planning.plan_server(started, model, **asked, **given)
    if format_ == "table":
        write_text(typed(server_lines(found)), output)
    else:
        write_rows(found.columns, found.rows, format_, output)
    return 0


@with_parameters(report_options(), WRITTEN, after="output")
def report(
    *,
    output: Annotated[
        Path,
        typer.Option(
            parser=shared_options.output_path,
            metavar=shared_options.OUTPUT_SHAPE,
            help="write the report to this file or pipe; - is standard output",
        ),
    ],
    preset: shared_options.PresetOption = "sweepdb",
    store: shared_options.StoreOption = None,
    **options: Any,  # noqa: ANN401  those of the question about whole deployments
) -> int:
    """Write one HTML file about the best whole deployments in the store, for people who decide.

    It opens without a network: the answer, its frontier, costs, expected errors, and sliders over stored answers."""
    from cli.commands.questions import typed_keywords

    found = reporting.contents_of({**typed_keywords(options, store), "preset": preset}, store)
    chosen = [] if preset == "sweepdb" else ["--preset", preset]
    _write_report(found, ["report", *_typed(options), *_typed(found.scope), *chosen], output, store)
    return 0


def _write_report(found: reporting.Contents, typed: Sequence[str], output: Path | None, store: str | None) -> None:
    command = _repeated(typed, output, store)
    write_text((reporting.report_page(found, command=command, spoken=as_typed),), output)


def _repeated(typed: Sequence[str], output: Path | None, store: str | None) -> str:
    file = [] if output is None else ["--output", "-" if is_standard_output(output) else str(output)]
    return f"sweepdb {join([*typed, *file])}{as_typed(parse_url(store).argument)}"


def _typed(options: Mapping[str, Any]) -> list[str]:
    words = []
    for keyword, value in options.items():
        if value is True:
            words.append(spelled(keyword))
        elif value not in {None, False}:
            words += [spelled(keyword), f"{value:g}" if isinstance(value, float) else str(value)]
    return words
