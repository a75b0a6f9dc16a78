"""measurements: import, look at, correct and export measured points."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from cli.commands.database import export_points
from cli.derived import as_typed
from cli.output import check_format, say, tell, write_rows, write_text
from cli.render.rows import cell, narrow_table, table_lines
from cli.shared_options import OutputOption, StoreOption
from store.errors import EvaluationError, InputError
from store.texts import counted
from sweepdb import measuring

_MOST_LISTED = 1_000  # in a table
_MOST_SAID = 200  # lines of an import
_TO_FILL = ("ttft_ms", "tpot_exclusive_ms")
_LISTED = ("measurement", "family", "model", "device", "engine", "lengths", "users")


_Points = Annotated[
    list[str] | None, typer.Argument(metavar="[FILE|POINT]...", help="files or folders of points; or stored points")
]
_Model = Annotated[str | None, typer.Option(help="list, export, set, delete, suggest: a part of the model's name")]
_Device = Annotated[str | None, typer.Option(help="list, export, set, delete, suggest: a part of the device's name")]
_Source = Annotated[str | None, typer.Option(help="list, export, set, delete: a part of the file's name, or a format")]
_Stated = Annotated[
    list[str] | None,
    typer.Option("--set", help="import: what files lack; set: what is corrected (device=h100_sxm, decode_tp=8)"),
]
_Tags = Annotated[
    list[str] | None, typer.Option(help="import: a tag of your own for what is read; list: points with this tag")
]
_Learn = Annotated[
    bool | None, typer.Option("--learn/--no-learn", help="set: whether points correct answers about their server")
]
_Count = Annotated[int | None, typer.Option(min=1, help="suggest: how many settings to measure; 15 if not given")]
_Engine = Annotated[
    str | None, typer.Option("--engine", "--serving-model", help="suggest: the engine whose stored rows are meant")
]
_Rows = Annotated[str | None, typer.Option(help="export: measured (if not given), predicted or both")]
_Sweep = Annotated[str | None, typer.Option(help="export: predictions of this sweep alone")]
_Format = Annotated[
    str,
    typer.Option(
        "--format", help="table, csv, json, jsonl or parquet; export: benchmark-report, inferencex or guidellm"
    ),
]


def measurements(  # noqa: PLR0911, PLR0917  one return an action, one parameter an option
    action: Annotated[
        str,
        typer.Argument(help="import FILE..., export, list, runs, show POINT, set POINT..., delete POINT..., suggest"),
    ] = "list",
    named: _Points = None,
    model: _Model = None,
    device: _Device = None,
    source: _Source = None,
    set_: _Stated = None,
    tag: _Tags = None,
    learn: _Learn = None,
    count: _Count = None,
    serving_model: _Engine = None,
    rows: _Rows = None,
    sweep: _Sweep = None,
    format_: _Format = "table",
    output: OutputOption = None,
    store: StoreOption = None,
) -> int:
    """Import measured serving points from results of benchmark clients or our own CSV; list, correct or delete them.

    `suggest` says which stored settings of a server are worth measuring, the one that says most of all others first."""
    points, filters = tuple(named or ()), {"model": model, "device": device, "source": source}
    if action != "export":
        check_format(format_, output)
        _refuse_strays("export", {"--sweep": sweep, "--rows": rows})
    if action == "suggest" and not points and source is None and not set_:
        return _suggest({"model": model, "device": device, "engine": serving_model}, count, format_, output, store)
    _refuse_strays("suggest", {"--count": count, "--engine": serving_model})
    _check(action, points, filters, set_ or [])
    _check_marks(action, tagged=bool(tag), corrected=bool(set_), learn=learn)
    if action == "export":
        return export_points({**filters, "points": points}, (rows, sweep), format_, output, store)
    if action == "import":
        return _import([Path(name) for name in points], set_ or [], tag or [], format_, output, store)
    if action == "list":
        return _list({**filters, "tag": _only(tag)}, format_, output, store)
    if action == "runs":
        return _runs({"model": model, "device": device}, format_, output, store)
    if action == "show":
        return _show(points[0], format_, output, store)
    selection = measuring.PointSelection(points=points, **filters)
    if action == "delete":
        return _delete(selection, store)
    return _set(selection, set_ or [], store) if learn is None else _learn(selection, store, learn=learn)


def _refuse_strays(owner: str, options: Mapping[str, object]) -> None:
    for option, value in options.items():
        if value is not None:
            raise InputError(f"{option} belongs to measurements {owner}", hint="sweepdb measurements --help")


def _check_marks(action: str, *, tagged: bool, corrected: bool, learn: bool | None) -> None:
    """Refuses tags and learning where an action takes none."""
    if learn is not None and (action != "set" or corrected):
        raise InputError("--learn and --no-learn belong to measurements set, alone", hint="sweepdb measurements --help")
    if tagged and action not in {"import", "list"}:
        raise InputError(
            "--tag belongs to measurements import and list", hint=f"sweepdb measurements {action} --set tags=..."
        )


def _check(action: str, named: Sequence[str], filters: Mapping[str, str | None], stated: Sequence[str]) -> None:
    if action == "import" and not named:
        raise InputError("measurements import needs files or folders of points", hint="sweepdb measurements --help")
    takes = {"import": bool(named), "list": not named, "runs": not named, "show": len(named) == 1}
    if not takes.get(action, action in {"export", "set", "delete"}):
        raise InputError(
            f"measurements {' '.join([action, *named])} is not one of: import FILE..., export, list, runs, show POINT,"
            " set POINT..., delete POINT..., suggest",
            hint="sweepdb measurements --help",
        )
    if stated and action not in {"import", "set"}:
        raise InputError("--set belongs to measurements import and set", hint="sweepdb measurements --help")
    if action == "runs" and filters["source"] is not None:
        raise InputError("--source belongs to measurements list, set and delete", hint="sweepdb measurements runs")
    if action in {"import", "show"}:
        for option, value in filters.items():
            if value is not None:
                raise InputError(
                    f"--{option} belongs to measurements list, set and delete",
                    hint=f"to state it: --set {option}={value}" if action == "import" else None,
                )


def _import(  # noqa: PLR0917  one parameter an option
    files: Sequence[Path],
    stated: Sequence[str],
    tags: Sequence[str],
    format_: str,
    output: Path | None,
    store: str | None,
) -> int:
    brought = measuring.import_measurements(files, store, measuring.parse_stated(stated), tags)
    found = brought.found
    say_problems(found)
    columns = ("read", "new", "replaced", "unreadable", "formats", "sources")
    sources = ", ".join(str(path) for path in files)
    formats = ", ".join(found.formats)
    if format_ != "table":
        values = [found.lines, brought.added, brought.replaced, len(found.problems), formats, sources]
        write_rows(columns, [values], format_, output)
    say(
        f"{brought.added:,} new of {counted(found.lines, 'point')} read from {sources}"
        + (f" ({formats})" if formats else "")
    )
    for line in found.said[:_MOST_SAID]:
        say(line)
    if len(found.said) > _MOST_SAID:
        say(f"and {counted(len(found.said) - _MOST_SAID, 'line')} more")
    if brought.replaced:
        say(f"{counted(brought.replaced, 'point')} replaced: these files held other points when they were read before")
    if brought.corrected:
        say(f"{counted(brought.corrected, 'point')} left as corrected or stated before; to read it anew, delete it")
    if found.problems:
        others = "the others are stored" if found.lines else "nothing was stored"
        raise EvaluationError(
            f"{counted(len(found.problems), 'line')} could not be read; {others}.",
            hint="Each is named above by file and line."
            if found.lines
            else "`sweepdb measurements --help` says which results of clients and which tables are read.",
        )
    if found.lines and (format_ != "table" or not _say_two_numbers(brought, store)):
        say("next: sweepdb validate")
    return 0


def _say_two_numbers(brought: measuring.Imported, store: str | None) -> bool:
    """Measured, predicted and difference of few points, in seconds. Returns whether it said anything."""
    from cli.render.validation import MOST_LISTED, point_lines

    if not 0 < len(brought.records) <= MOST_LISTED or brought.found.requests or brought.corrected:
        return False
    done, _ = measuring.compare_and_keep(brought.records, store)
    if not done.comparisons:
        return False
    write_text(("\n", *point_lines(done)), None)
    say("next: sweepdb validate compares every stored point")
    return True


def _only(tags: Sequence[str] | None) -> str | None:
    if tags and len(tags) > 1:
        raise InputError("measurements list takes one --tag", hint="sweepdb measurements list --tag nightly")
    return tags[0] if tags else None


def _list(filters: Mapping[str, str | None], format_: str, output: Path | None, store: str | None) -> int:
    found, count = measuring.listed_measurements(store, **filters, most=_MOST_LISTED if format_ == "table" else None)
    rows: Iterable[Sequence[object]] = found
    if format_ == "table":
        listed = [_listed(dict(zip(measuring.MEASUREMENT_COLUMNS, row, strict=True))) for row in found]
        write_text(narrow_table(_LISTED, listed, names=("model", "device", "engine")), output)
        if count > len(found):
            say(f"the first {_MOST_LISTED:,} of {count:,} points; --model, --device and --source choose others")
        say(
            "sweepdb measurements show POINT has metrics and source; --format csv has every column"
            if listed
            else "next: sweepdb measurements import FILE"
        )
        return 0
    if format_ in {"json", "jsonl"}:
        rows = ([json.loads(str(value)) if name == "metrics" else value
                 for name, value in zip(measuring.MEASUREMENT_COLUMNS, row, strict=True)] for row in rows)  # fmt: skip
    write_rows(measuring.MEASUREMENT_COLUMNS, rows, format_, output)
    return 0


_RUNS = ("model", "device", "engine", "lengths", "users", "runs", "ttft_ms", "tpot_ms", "tokens_per_s")


def _runs(filters: Mapping[str, str | None], format_: str, output: Path | None, store: str | None) -> int:
    found, count = measuring.measured_settings(store, **filters, most=_MOST_LISTED if format_ == "table" else None)
    if format_ != "table":
        write_rows(measuring.SETTING_COLUMNS, found, format_, output)
        return 0
    settings = [dict(zip(measuring.SETTING_COLUMNS, row, strict=True)) for row in found]
    failed = any(one["failed_requests"] for one in settings)
    rows = [[*_run_line(one), *([cell(one["failed_requests"])] if failed else [])] for one in settings]
    names = (*_RUNS, *(("failed",) if failed else ()))
    write_text(narrow_table(names, rows, names=("model", "device", "engine")), output)
    if count > len(found):
        say(f"the first {_MOST_LISTED:,} of {count:,} settings; --model and --device choose others")
    say("medians of the runs of a setting, with their standard deviation; --format csv has every column")
    return 0


def _run_line(setting: Mapping[str, object]) -> list[str]:
    def spread(value: str, ratio: str) -> str:
        middle, deviation = setting[value], setting[ratio]
        if not isinstance(middle, float):
            return "-"
        return f"{middle:.4g}" + (f" +-{100 * deviation:.1f} %" if isinstance(deviation, float) else "")

    engine = " ".join(str(part) for part in (setting["engine"], setting["engine_version"]) if part is not None)
    names = [_last_part(setting["model"]), cell(setting["device"]), engine or "-", _lengths(setting), _load(setting)]
    return [*names, cell(setting["runs"]), spread("ttft_ms", "ttft_spread"), spread("tpot_exclusive_ms", "tpot_spread"),
            spread("output_tokens_per_s", "output_spread")]  # fmt: skip


def _last_part(model: object) -> str:
    return "-" if model is None else str(model).rpartition("/")[2]


def _lengths(row: Mapping[str, object]) -> str:
    return "/".join("-" if row[name] is None else f"{row[name]:.0f}" for name in ("input_length", "output_length"))


def _load(row: Mapping[str, object]) -> str:
    users, rate = row["concurrency"], row["request_rate"]
    return f"{users:.6g}" if users is not None else f"{rate:.6g}/s" if rate is not None else "-"


def _listed(row: Mapping[str, object]) -> list[object]:
    family = "measured" if row["family"] == "measured" else "predicted"
    names = (_last_part(row["model"]), row["device"], row["engine"], _lengths(row), _load(row))
    return [str(row["measurement"])[:8], family, *names]


def _suggest(
    filters: Mapping[str, str | None], count: int | None, format_: str, output: Path | None, store: str | None
) -> int:
    found = measuring.suggested_points(store, count=measuring.USUAL_COUNT if count is None else count, **filters)
    if format_ == "csv":  # what the table of one's own is filled in with
        write_rows((*measuring.Suggested._fields, *_TO_FILL), ([*one, None, None] for one in found), format_, output)
    else:
        write_rows(measuring.Suggested._fields, found, format_, output)
    say(f"measure TTFT and TPOT of each; next: sweepdb calibrate --serving {found[0].engine} --measurements FILE")
    return 0


def _show(point: str, format_: str, output: Path | None, store: str | None) -> int:
    shown = measuring.shown_measurement(point, store)
    if format_ == "table":
        write_text(_shown_lines(shown), output)
        return 0
    fields = shown.fields()
    write_rows([name for name, _ in fields], [[value for _, value in fields]], format_, output)
    return 0


def _shown_lines(shown: measuring.ShownPoint) -> Iterator[str]:
    fields = shown.fields()
    width = max(len(name) for name, _ in fields if not name.startswith("definition of "))
    for name, value in fields:
        yield f"{name:<{width}}  {cell(value)}\n"
    if shown.comparisons:
        yield "\n"
        names = tuple(shown.comparisons[0].__slots__)
        yield from table_lines(names, [[getattr(one, name) for name in names] for one in shown.comparisons])


def _set(selection: measuring.PointSelection, stated: Sequence[str], store: str | None) -> int:
    keys = measuring.correct_measurements(selection, measuring.parse_stated(stated), store)
    named = keys[0][:12] if len(keys) == 1 else counted(len(keys), "point")
    say(f"{named} corrected; what was compared before is gone; next: sweepdb validate")
    return 0


def _learn(selection: measuring.PointSelection, store: str | None, *, learn: bool) -> int:
    keys = measuring.let_measurements_teach(selection, store, learn=learn)
    named = keys[0][:12] if len(keys) == 1 else counted(len(keys), "point")
    say(f"{named} {'corrects' if len(keys) == 1 else 'correct'} answers {'again' if learn else 'no more'}")
    return 0


def _delete(selection: measuring.PointSelection, store: str | None) -> int:
    gone = measuring.delete_measurements(selection, store)
    say(f"{counted(len(gone), 'point')} deleted, and what was compared with it")
    return 0


def say_problems(found: measuring.ReadFiles) -> None:
    """Every line that could not be read."""
    for problem in found.problems:
        tell(as_typed(f"{problem.where}: {problem.what}"))
