"""schedule: replicas by hour for a day's rate. Not here: the schedule (sweepdb.scheduling)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.derived import as_typed
from cli.output import FORMATS, check_format, write_rows, write_text
from cli.shared_options import OutputOption, StoreOption


def schedule(  # noqa: PLR0917  one of each option
    trace: Annotated[
        Path, typer.Option(help="CSV of a day: minute and rate (requests/s), or a log of requests with times")
    ],
    ttft_limit: Annotated[float, typer.Option(help="longest time to first token, ms")],
    tpot_limit: Annotated[float, typer.Option(help="longest time per output token, ms")],
    attainment: Annotated[float, typer.Option(help="share of each hour's requests within the limits")] = 0.95,
    sweep: Annotated[str | None, typer.Option(help="only scenarios of this sweep")] = None,
    model: Annotated[str | None, typer.Option(help="only this model")] = None,
    device: Annotated[str | None, typer.Option(help="only this device")] = None,
    start_up: Annotated[int, typer.Option(help="minutes that a replica is paid for before it serves")] = 5,
    cool_down: Annotated[int, typer.Option(help="minutes that a replica serves on after it was last needed")] = 10,
    minimum: Annotated[int, typer.Option(help="replicas that always run")] = 1,
    maximum: Annotated[int | None, typer.Option(help="most replicas at once")] = None,
    spare: Annotated[int, typer.Option(help="replicas beyond those needed, for a node that is lost")] = 0,
    reactive: Annotated[
        str | None, typer.Option(help="a planner by queue=5 waiting requests to a replica, or ongoing=40 in all")
    ] = None,
    trace_unit: Annotated[str, typer.Option(help="s or ms: the unit of a log's times that are numbers")] = "s",
    seed: Annotated[int, typer.Option(help="seed of the day's arrivals and lengths")] = 1,
    format_: Annotated[
        str, typer.Option("--format", help="table, csv, json, jsonl, parquet; a picture: svg, png, pdf, html, vl")
    ] = "table",
    output: OutputOption = None,
    store: StoreOption = None,
) -> int:
    """Replicas by hour for a day, from stored loads: static, scheduled, and following the rate.

    The schedule with the fewest device-hours is simulated with the day's requests, and gets more where it misses."""
    from cli.pictures import PICTURES, check_picture, write_specification

    check_format(format_, output, known=(*FORMATS, *PICTURES))
    check_picture(format_, output)
    from sweepdb.scheduling import schedule as scheduled

    found = scheduled(
        trace, ttft_limit=ttft_limit, tpot_limit=tpot_limit, attainment=attainment, sweep=sweep, model=model,
        device=device, start_up=start_up, cool_down=cool_down, minimum=minimum, maximum=maximum, spare=spare,
        reactive=reactive, trace_unit=trace_unit, seed=seed,
        store=store,
    )  # fmt: skip
    if format_ == "table":
        from cli.render.schedules import schedule_lines

        write_text(map(as_typed, schedule_lines(found)), output)
    elif format_ in PICTURES:
        from sweepdb.reporting import scheduled_picture

        write_specification(scheduled_picture(found), format_, output)
    else:
        write_rows(found.columns, found.rows, format_, output)
    return 0
