"""schedule: replicas by hour for a day's rate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.output import FORMATS, check_format, typed, write_rows, write_text
from cli.pictures import PICTURES, check_picture, write_specification
from cli.render.decisions import pool_lines, schedule_lines
from cli.shared_options import OutputOption, StoreOption
from store.errors import InputError
from sweepdb import reporting, scheduling
from sweepdb.scheduling import USUAL


def schedule(  # noqa: PLR0917  one of each option
    trace: Annotated[
        list[str],
        typer.Option(help="CSV of a day: minute and rate (requests/s), or a log; MODEL=FILE for each model of a pool"),
    ],
    ttft_limit: Annotated[float, typer.Option(help="longest time to first token, ms")],
    tpot_limit: Annotated[float, typer.Option(help="longest time per output token, ms")],
    attainment: Annotated[
        float, typer.Option(help="share of each hour's requests within the limits")
    ] = USUAL.attainment,
    pool: Annotated[
        list[str] | None, typer.Option(help="devices that several models share: 8, or h100_sxm=8,h200_sxm=16")
    ] = None,
    sweep: Annotated[str | None, typer.Option(help="only scenarios of this sweep")] = None,
    model: Annotated[str | None, typer.Option(help="only this model")] = None,
    device: Annotated[str | None, typer.Option(help="only this device")] = None,
    start_up: Annotated[int, typer.Option(help="minutes that a replica is paid for before it serves")] = USUAL.start_up,
    cool_down: Annotated[
        int, typer.Option(help="minutes that a replica serves on after it was last needed")
    ] = USUAL.cool_down,
    minimum: Annotated[
        int, typer.Option(help="replicas that always run: of each side, on a pool of each model")
    ] = USUAL.minimum,
    maximum: Annotated[int | None, typer.Option(help="most replicas at once")] = None,
    spare: Annotated[int, typer.Option(help="replicas beyond those needed, for a node that is lost")] = USUAL.spare,
    reactive: Annotated[
        str | None, typer.Option(help="a planner by queue=5 waiting requests to a replica, or ongoing=40 in all")
    ] = None,
    trace_unit: Annotated[
        str, typer.Option(help="s or ms: the unit of a log's times that are numbers")
    ] = USUAL.trace_unit,
    seed: Annotated[int, typer.Option(help="seed of the day's arrivals and lengths")] = USUAL.seed,
    format_: Annotated[
        str, typer.Option("--format", help="table, csv, json, jsonl, parquet; a picture: svg, png, pdf, html, vl")
    ] = "table",
    output: OutputOption = None,
    store: StoreOption = None,
) -> None:
    """Replicas by hour for a day, from stored loads: static, scheduled, and following the rate.

    The schedule with the fewest device-hours is simulated with the day's requests, and gets more where it misses."""
    check_format(format_, output, known=(*FORMATS, *PICTURES))
    check_picture(format_, output)
    common: dict[str, Any] = {
        "ttft_limit": ttft_limit, "tpot_limit": tpot_limit, "attainment": attainment, "sweep": sweep, "store": store,
        "device": device, "start_up": start_up, "minimum": minimum, "trace_unit": trace_unit, "seed": seed,
    }  # fmt: skip
    alone: dict[str, Any] = {
        "model": model, "cool_down": cool_down, "maximum": maximum, "spare": spare, "reactive": reactive,
    }  # fmt: skip
    if pool:
        _check_pool(format_, alone)
        return _show_pool(_by_model(trace), {**common, "pool": _devices(pool)}, format_, output)
    if len(trace) > 1:
        raise InputError("several traces share a pool of devices", hint="`pool=N`, and `trace=MODEL=FILE` for each")
    return _show_day(scheduling.schedule(trace[0], **common, **alone), format_, output)


def _show_day(found: scheduling.DaySchedule, format_: str, output: Path | None) -> None:
    if format_ == "table":
        write_text(typed(schedule_lines(found)), output)
    elif format_ in PICTURES:
        write_specification(reporting.scheduled_picture(found), format_, output)
    else:
        write_rows(found.columns, found.rows, format_, output)


def _check_pool(format_: str, alone: Mapping[str, object]) -> None:
    for keyword, value in alone.items():
        if value != getattr(USUAL, keyword, None):
            raise InputError(
                f"`{keyword}={value}` is not scheduled on a pool", hint="leave it out, or leave `pool` out"
            )
    if format_ not in FORMATS:
        raise InputError("a pool has no picture", hint="--format csv has its hours")


def _devices(pool: Sequence[str]) -> int | dict[str, int]:
    """`8`, or a count of each kind."""
    words = ",".join(pool).split(",")
    try:
        if len(words) == 1 and "=" not in words[0]:
            return int(words[0])
        named = [(name, int(count)) for name, _, count in (word.partition("=") for word in words)]
    except ValueError:
        raise InputError(
            f"`pool={','.join(pool)[:100]}` is no number of devices", hint="`pool=8`, or `pool=h100_sxm=8,h200_sxm=16`"
        ) from None
    if len(dict(named)) < len(named):
        raise InputError("`pool` names a device twice", hint="one number for each kind")
    return dict(named)


def _by_model(traces: Sequence[str]) -> dict[str, str]:
    found = dict[str, str]()
    for trace in traces:
        model, separator, path = trace.partition("=")
        if not (model and separator and path):
            raise InputError(
                f"`trace={trace[:100]}` names no model and file", hint="such as --trace Qwen/Qwen3-32B=day.csv"
            )
        if model in found:
            raise InputError(f"`trace={model}=...` stands twice", hint="one trace for each model")
        found[model] = path
    return found


def _show_pool(traces: dict[str, str], asked: dict[str, Any], format_: str, output: Path | None) -> None:
    found = scheduling.schedule_pool(traces, **asked)
    if format_ == "table":
        write_text(typed(pool_lines(found)), output)
    else:
        write_rows(found.columns, found.rows, format_, output)
