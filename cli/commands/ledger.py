"""measurements and validate: measured points into the store, predictions beside them. Computing: sweepdb.measuring."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.derived import as_typed
from cli.output import check_format, say, write_rows, write_text
from cli.shared_options import FormatOption, OutputOption, StoreOption
from store.errors import EvaluationError, InputError

if TYPE_CHECKING:
    from sweepdb.measuring import Kept, ReadFiles, Validation

PEERS = ("aic",)
FORMATS = ("table", "json", "html", "csv")


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("measurements")(measurements)
    app.command("validate")(validate)


def measurements(  # noqa: PLR0917  one parameter an option
    action: Annotated[str, typer.Argument(help="import FILE..., or list")] = "list",
    files: Annotated[list[Path] | None, typer.Argument(help="files of measured points, or folders of them")] = None,
    model: Annotated[str | None, typer.Option(help="list: a part of the model's name")] = None,
    device: Annotated[str | None, typer.Option(help="list: a part of the device's name")] = None,
    source: Annotated[str | None, typer.Option(help="list: a part of the file's name, or a format")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="import: what the files lack, such as device=h100_sxm or tp=2")
    ] = None,
    format_: FormatOption = "table",
    output: OutputOption = None,
    store: StoreOption = None,
) -> int:
    """Import measured serving points from results of benchmark clients or our own CSV, or list them."""
    check_format(format_, output)
    from sweepdb.measuring import MEASUREMENT_COLUMNS, import_measurements, listed_measurements, parse_stated

    filters = {"--model": model, "--device": device, "--source": source}
    if action == "list" and not files:
        if set_:
            raise InputError("--set belongs to measurements import", hint="sweepdb measurements --help")
        rows: Iterable[Sequence[object]] = listed_measurements(store, model=model, device=device, source=source)
        if format_ in {"json", "jsonl"}:
            rows = ([json.loads(str(cell)) if name == "metrics" else cell
                     for name, cell in zip(MEASUREMENT_COLUMNS, row, strict=True)] for row in rows)  # fmt: skip
        write_rows(MEASUREMENT_COLUMNS, rows, format_, output)
        return 0
    if action != "import" or not files:
        raise InputError(
            f"measurements {' '.join([action, *map(str, files or [])])} is not one of: import FILE..., list",
            hint="sweepdb measurements --help",
        )
    for option, value in filters.items():
        if value is not None:
            raise InputError(f"{option} belongs to measurements list", hint=f"to state it: --set {option[2:]}={value}")
    brought = import_measurements(files, store, parse_stated(set_ or []))
    found = brought.found
    _say_problems(found)
    columns = ("read", "new", "unreadable", "formats", "sources")
    sources = ", ".join(str(path) for path in files)
    formats = ", ".join(found.formats)
    if format_ != "table":
        values = [found.lines, brought.added, len(found.problems), formats, sources]
        write_rows(columns, [values], format_, output)
    say(f"{brought.added} new of {found.lines} points read from {sources}" + (f" ({formats})" if formats else ""))
    if found.problems:
        raise EvaluationError(
            f"{len(found.problems)} lines could not be read; the others are stored",
            hint="each is named above by file and line",
        )
    say("next: sweepdb validate")
    return 0


def _say_problems(found: ReadFiles) -> None:
    for problem in found.problems:
        say(as_typed(f"{problem.where}: {problem.what}"))


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
    format_: Annotated[str, typer.Option("--format", help="table, json, html or csv")] = "table",
    output: OutputOption = None,
    store: StoreOption = None,
) -> int:
    """Predict measured points and say how far off the predictions are, by device, model, engine and region."""
    check_format(format_, output, known=FORMATS)
    if against is not None and against not in PEERS:
        raise InputError(f"--against {against} is not one of {', '.join(PEERS)}")
    from cli.render.progress import ProgressLine
    from sweepdb.measuring import compare_and_keep, engine_named, read_files, with_unreadable

    chosen = None if engine is None else engine_named(engine, store)
    paths = [Path(part) for part in (measurements or "").split(",") if part]
    found = read_files(paths) if paths else None
    if found is not None:
        _say_problems(found)
    records = None if found is None else found.records
    with ProgressLine(sys.stderr) as line:
        done, kept = compare_and_keep(
            records,
            store,
            engine=chosen,
            on_progress=lambda done, points: line.show(done, points, "scenarios of measured points evaluated"),
            on_kept=lambda done, scenarios: line.show(done, scenarios, "scenarios stored"),
        )
    _write(with_unreadable(done, found), against, format_, output)
    _say_kept(kept, chosen is not None)
    return 0


def _write(done: Validation, against: str | None, format_: str, output: Path | None) -> None:
    from cli.render.validation import as_document, flat_rows, table_text

    if format_ == "json":
        write_text([json.dumps(as_document(done, against=against), indent=1, allow_nan=False), "\n"], output)
    elif format_ == "csv":
        columns, rows = flat_rows(done, against=against)
        write_rows(columns, rows, "csv", output)
    elif format_ == "html":
        from cli.render.scatter import page

        write_text(page(done, against=against), output)
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
