"""compare, regress and validate."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, fields
from pathlib import Path
from typing import Annotated
from xml.sax.saxutils import quoteattr

import typer

from cli.commands.measured import say_problems
from cli.output import FORMATS, check_format, say, write_rows, write_text
from cli.pictures import PICTURES, check_picture, write_specification
from cli.render.progress import ProgressLine
from cli.render.rows import markdown_lines, table_lines
from cli.shared_options import OutputOption, StoreOption, WorkersOption
from store.errors import EvaluationError, InputError, Worsened
from store.texts import counted
from sweepdb import measuring, reporting

_MARKDOWN = "markdown"  # for the comment of a pull request
_SHOWN = ("verdict", "metric", "before", "after", "change", "interval", "runs", "setting")
_MOST_SHOWN = 50
PEERS = ("aic",)
_OF_VALIDATION = ("table", "json", "html", "csv", "svg", "png", "pdf", "vl")
_KNOWN = (*FORMATS, _MARKDOWN, "junit")


def compare(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="results of benchmark clients; a folder is one")
    ],
    format_: Annotated[str, typer.Option("--format", help="table, markdown, csv, json, jsonl or parquet")] = "table",
    output: OutputOption = None,
) -> None:
    """Compare result files or folders with the first of them: values, differences in percent, what only one has."""
    check_format(format_, output, known=(*FORMATS, _MARKDOWN))
    found = measuring.compare_files([Path(name) for name in files])
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


def _said(side: measuring.Side) -> str:
    served = ", ".join(f"{name} {value}" for name, value in side.served.items())
    return f"{side.name}: {counted(side.points, 'point')}" + (f" of {served}" if served else "")


def regress(  # noqa: PLR0917  one parameter an option
    baseline: Annotated[
        str | None,
        typer.Option(help="compare with this tag, engine's version, days (2026-05-01..2026-05-31) or predicted sweep"),
    ] = None,
    against: Annotated[str | None, typer.Option(help="what is compared: as --baseline")] = None,
    trend: Annotated[
        bool, typer.Option("--trend", help="in place of two sides: each step of each setting over its days")
    ] = False,
    fail_over: Annotated[
        str | None, typer.Option(metavar="<percent>", help="exit 5 when something is surely worse by more, such as 5%")
    ] = None,
    model: Annotated[str | None, typer.Option(help="a part of the model's name")] = None,
    device: Annotated[str | None, typer.Option(help="a part of the device's name")] = None,
    format_: Annotated[
        str,
        typer.Option(
            "--format",
            help="table, csv, json, jsonl, parquet, markdown or junit; of --trend a picture: svg, png, vl, html",
        ),
    ] = "table",
    output: OutputOption = None,
    store: StoreOption = None,
) -> None:
    """Compare measured runs of two sides, setting by setting: what is surely worse comes first.

    Intervals hold 95 % and come from repeated runs. Of all that is called worse or better, at most a twentieth is by
    chance. A sweep is predicted: it has no interval, and runs are compared with its rows of the same setting."""
    if trend:
        if baseline or against or fail_over or format_ in {_MARKDOWN, "junit"}:
            raise InputError("--trend takes no sides, no --fail-over, and no Markdown or JUnit")
        _trend(model, device, format_, output, store)
        return
    check_format(format_, output, known=_KNOWN)
    if baseline is None or against is None:
        raise InputError(
            "regress needs --baseline and --against, or --trend",
            hint="sweepdb regress --baseline before --against after",
        )
    least = None if fail_over is None else _percent(fail_over)
    found = measuring.regressions(store, baseline=baseline, against=against, model=model, device=device)
    if format_ in {_MARKDOWN, "junit"}:
        write_text(_markdown(found) if format_ == _MARKDOWN else _junit(found, least or 0.0), output, exact=True)
    elif format_ == "table":
        _write_table(found.changes, output)
    else:
        rows = [(*astuple(one), one.worse_percent) for one in found.changes]
        write_rows((*(field.name for field in fields(found.changes[0])), "worse_percent"), rows, format_, output)
    say(found.verdict)
    if least is not None and found.worse(least):
        worse = len(found.worse(least))
        said = f"{counted(worse, 'number')} {'is' if worse == 1 else 'are'}"
        raise Worsened(f"{said} surely worse by more than {least:g} %")


def _write_table(changes: Sequence[measuring.Change], output: Path | None) -> None:
    shown = changes[:_MOST_SHOWN]
    shared, told = _told_apart(one.setting for one in shown)
    write_text(table_lines(_SHOWN, [_line(one, told) for one in shown]), output)
    if shared:
        say(f"settings of {shared}")
    if len(changes) > _MOST_SHOWN:
        say(f"the first {_MOST_SHOWN} of {len(changes):,} changes; --format csv has all")


def _percent(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*%?", text.strip())
    if match is None:
        raise InputError(f"--fail-over {text} is no percentage", hint="--fail-over 5%")
    return float(match[1])


def _told_apart(settings: Iterable[str]) -> tuple[str, Mapping[str, str]]:
    """The words that settings share, and those of each that they do not."""
    words = {one: one.split(" ") for one in settings}
    shared = set[str]().union(*words.values()).intersection(*words.values())
    told = {one: " ".join(word for word in its if word not in shared) or "-" for one, its in words.items()}
    return " ".join(word for word in next(iter(words.values()), []) if word in shared), told


def _line(one: measuring.Change, told: Mapping[str, str]) -> list[str]:
    reach = "-" if one.least_percent is None else f"{one.least_percent:+.1f} to {one.most_percent:+.1f} %"
    runs = f"{one.runs_before or '-'} {one.runs_after or '-'}"
    numbers = [f"{one.before:.4g}", f"{one.after:.4g}", f"{one.change_percent:+.1f} %"]
    return [one.verdict, one.metric, *numbers, reach, runs, told[one.setting]]


def _markdown(found: measuring.Regression) -> Iterator[str]:
    yield f"{found.verdict}\n"
    sure = [one for one in found.changes if one.verdict in {"worse", "better"}][:_MOST_SHOWN]
    if sure:
        shared, told = _told_apart(one.setting for one in sure)
        yield f"\nSettings of {shared}.\n\n" if shared else "\n"
        yield from markdown_lines(_SHOWN, [_line(one, told) for one in sure])


def _junit(found: measuring.Regression, least: float) -> Iterator[str]:
    """A case a number; surely worse ones failed."""
    failed = found.worse(least)
    yield '<?xml version="1.0" encoding="UTF-8"?>\n'
    yield f'<testsuite name="sweepdb regress" tests="{len(found.changes)}" failures="{len(failed)}">\n'
    for one in found.changes:
        case = f"  <testcase classname={quoteattr(one.setting)} name={quoteattr(one.metric)}"
        said = quoteattr(" ".join(_line(one, {one.setting: ""})[:-1]))
        yield f"{case}><failure message={said}/></testcase>\n" if one in failed else f"{case}/>\n"
    yield "</testsuite>\n"


def _trend(model: str | None, device: str | None, format_: str, output: Path | None, store: str | None) -> None:
    check_format(format_, output, known=(*FORMATS, *PICTURES))
    check_picture(format_, output)
    every = measuring.trends(store, model=model, device=device)
    found = every.steps
    if format_ in PICTURES:
        write_specification(reporting.trend_picture(every), format_, output)
    elif format_ == "table":
        levels = [(one, f"{one.before:.4g}", f"{one.after:.4g}", f"{one.change_percent:+.1f} %") for one in found]
        shared, told = _told_apart(one.setting for one in found)
        lines = [[str(one.day), one.version or "-", one.metric, *cells, told[one.setting]] for one, *cells in levels]
        columns = ("day", "version", "metric", "before", "after", "change", "setting")
        write_text(table_lines(columns, lines), output)
        if shared:
            say(f"settings of {shared}")
    else:
        write_rows(measuring.Trend._fields, found, format_, output)
    steps = counted(len(found), "step")
    say(f"{steps}; a step is a level that holds for three days or more, and is larger than chance makes one")


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
    workers: WorkersOption = None,
    format_: Annotated[
        str, typer.Option("--format", help="table, json, csv, html; a picture: svg, png, pdf, vl")
    ] = "table",
    output: OutputOption = None,
    store: StoreOption = None,
) -> None:
    """Predict measured points and say how far off the predictions are, by device, model, engine and region."""
    check_format(format_, output, known=_OF_VALIDATION)
    check_picture(format_, output)
    if against is not None and against not in PEERS:
        raise InputError(f"--against {against} is not one of {', '.join(PEERS)}")
    with ProgressLine(sys.stderr) as line:
        done, kept = measuring.validated(
            [Path(part) for part in (measurements or "").split(",") if part],
            engine,
            store,
            workers=workers,
            on_read=say_problems,
            on_progress=lambda done, points: line.show(done, points, "scenarios of measured points evaluated"),
            on_kept=lambda done, scenarios: line.show(done, scenarios, "scenarios stored"),
        )
    _write_validation(done, against, format_, output)
    _say_kept(kept, engine is not None)


def _write_validation(done: measuring.Validation, against: str | None, format_: str, output: Path | None) -> None:
    from cli.render.validation import as_document, flat_rows, table_text

    if format_ == "json":
        write_text([json.dumps(as_document(done, against=against), indent=1, allow_nan=False), "\n"], output)
    elif format_ == "csv":
        columns, rows = flat_rows(done, against=against)
        write_rows(columns, rows, "csv", output)
    elif format_ == "html":
        from cli.render.validation import page

        write_text([page(done, against=against)], output)
    elif format_ in PICTURES:
        write_specification(reporting.validated_picture(done), format_, output)
    else:
        write_text(table_text(done, against=against), output)


def _say_kept(kept: measuring.Kept, own_engine: bool) -> None:
    if own_engine:
        say("predicted with an engine of your own: nothing was stored")
        return
    say(
        f"{counted(kept.errors, 'error')} stored, of {counted(kept.scenarios, 'scenario')}"
        f" ({counted(kept.probes, 'probe')} new)"
        + ("; next: sweepdb sql 'FROM validation LIMIT 10'" if kept.errors else "")
    )
