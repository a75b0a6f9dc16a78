"""validate: predictions beside measured points. Computing: sweepdb.measuring; the points: cli.commands.measured."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.derived import as_typed
from cli.output import check_format, say, tell, write_rows, write_text
from cli.shared_options import OutputOption, StoreOption
from store.errors import InputError

if TYPE_CHECKING:
    from sweepdb.measuring import Kept, ReadFiles, Validation

PEERS = ("aic",)
FORMATS = ("table", "json", "html", "csv", "svg", "png", "pdf", "vl")


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("validate")(validate)


def say_problems(found: ReadFiles) -> None:
    """Name every line that could not be read."""
    for problem in found.problems:
        tell(as_typed(f"{problem.where}: {problem.what}"))


def validate(  # noqa: PLR0917  one parameter an option
    measurements: Annotated[
        str | None, typer.Option(help="files of measured points, stored on the way [default: every stored point]")
    ] = None,
    against: Annotated[str | None, typer.Option(help="a peer whose columns the file has: aic")] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            help="predict with this engine for every point: a name, FILE.yaml, or a label such as vllm@0a239add"
        ),
    ] = None,
    workers: Annotated[
        str | None,
        typer.Option(help="who evaluates: dask://HOST:PORT, dask:N, processes:N, or shard:I/M of an array"),
    ] = None,
    format_: Annotated[
        str, typer.Option("--format", help="table, json, csv, html; a picture: svg, png, pdf, vl")
    ] = "table",
    output: OutputOption = None,
    store: StoreOption = None,
) -> int:
    """Predict measured points and say how far off the predictions are, by device, model, engine and region."""
    from cli.pictures import check_picture

    check_format(format_, output, known=FORMATS)
    check_picture(format_, output)
    if against is not None and against not in PEERS:
        raise InputError(f"--against {against} is not one of {', '.join(PEERS)}")
    from cli.render.progress import ProgressLine
    from sweepdb.measuring import compare_and_keep, engine_named, read_files, with_unreadable
    from sweepdb.working import parse_workers

    evaluating = None if workers is None else parse_workers(workers)
    chosen = None if engine is None else engine_named(engine, store)
    paths = [Path(part) for part in (measurements or "").split(",") if part]
    found = read_files(paths) if paths else None
    if found is not None:
        say_problems(found)
    records = None if found is None else found.records
    with ProgressLine(sys.stderr) as line:
        done, kept = compare_and_keep(
            records,
            store,
            files=() if found is None else found.whole,
            requests=None if found is None else found.requests,
            engine=chosen,
            on_progress=lambda done, points: line.show(done, points, "scenarios of measured points evaluated"),
            on_kept=lambda done, scenarios: line.show(done, scenarios, "scenarios stored"),
            workers=evaluating,
        )
    _write(with_unreadable(done, found), against, format_, output)
    _say_kept(kept, chosen is not None)
    return 0


def _write(done: Validation, against: str | None, format_: str, output: Path | None) -> None:
    from cli.pictures import PICTURES, write_specification
    from cli.render.validation import as_document, flat_rows, table_text

    if format_ == "json":
        write_text([json.dumps(as_document(done, against=against), indent=1, allow_nan=False), "\n"], output)
    elif format_ == "csv":
        columns, rows = flat_rows(done, against=against)
        write_rows(columns, rows, "csv", output)
    elif format_ == "html":
        from cli.render.scatter import page

        write_text([page(done, against=against)], output)
    elif format_ in PICTURES:
        from sweepdb.reporting import validated_picture

        write_specification(validated_picture(done), format_, output)
    else:
        write_text(table_text(done, against=against), output)


def _say_kept(kept: Kept, own_engine: bool) -> None:
    if own_engine:
        say("predicted with an engine of your own: nothing was stored")
        return
    say(
        f"{kept.errors} errors stored, of {kept.scenarios} scenarios ({kept.probes} probes new);"
        " next: sweepdb sql 'FROM validation LIMIT 10'"
    )
