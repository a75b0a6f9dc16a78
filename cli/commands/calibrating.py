"""calibrate: fit a device profile to measured kernels, or an engine's to measured serving points."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from cli.derived import as_typed
from cli.output import check_format, pieces_of, say, tell, write_rows
from cli.shared_options import OUTPUT_SHAPE, FormatOption, StoreOption, output_path
from cli.visible import is_quiet
from store.errors import InputError
from store.texts import counted
from sweepdb import measuring
from sweepdb.stores import is_standard_output, is_stream, parse_url


def calibrate(  # noqa: PLR0917  one parameter an option
    device: Annotated[
        str | None,
        typer.Argument(
            help="a known device; with --measure, the new profile's name [default: this-cpu];"
            " with --serving, an engine or a profile FILE.yaml to start from"
        ),
    ] = None,
    kernels: Annotated[Path | None, typer.Option(help="folder or file of measured kernels (CSV, Parquet)")] = None,
    measure: Annotated[str | None, typer.Option(help="time kernels on this machine: cpu or cuda")] = None,
    serving: Annotated[
        bool, typer.Option("--serving", help="fit an engine's profile to measured serving points instead")
    ] = False,
    measurements: Annotated[
        list[Path] | None,
        typer.Option(help="with --serving: files to import and fit to [default: every stored point]"),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="with --serving: only points with this in their device, model or version")
    ] = None,
    budget: Annotated[float, typer.Option("--budget", "--seconds", help="seconds to measure")] = 60.0,
    profile: Annotated[
        Path | None,
        typer.Option(
            "--profile",
            "--output",
            parser=output_path,
            metavar=OUTPUT_SHAPE,
            help="write the profile to this new file or pipe; - is standard output [default: DEVICE-calibrated.yaml]",
        ),
    ] = None,
    format_: FormatOption = "table",
    store: StoreOption = None,
) -> None:
    """Fit a device's profile to measured kernels, or an engine's to measured serving.

    Says how well the profile predicts what it was not fitted to."""
    check_format(format_, None)
    if serving:
        if kernels is not None or measure is not None:
            raise InputError("--serving fits an engine: --kernels and --measure fit a device")
        return _serving(device, measurements or [], only or [], profile, format_=format_, store=store)
    if measurements or only:
        raise InputError(
            "--measurements and --only are for --serving", hint="kernels of a device: --kernels DIR_OR_FILE"
        )
    return _device(device, kernels, measure, budget, profile, format_=format_, store=store)


def _device(
    device: str | None,
    kernels: Path | None,
    measure: str | None,
    budget: float,
    profile: Path | None,
    *,
    format_: str,
    store: str | None,
) -> None:
    import sweepdb

    kept = sweepdb.calibrate(
        device, kernels, measure=measure, budget=budget, profile=profile, store=store, progress=_progress
    )
    done, output, version = kept.fit, kept.output, kept.version
    _show(measuring.KERNEL_COLUMNS, done.rows(), format_, output)
    if done.calibration.assumed:
        say(f"assumed, because nothing was measured: {', '.join(done.calibration.assumed)}")
    if done.calibration.carried:
        listed = ", ".join(f"{name} x {factor:.4g}" for name, factor in done.calibration.carried.items())
        say(f"assumed, carried from the shipped {done.calibration.donor} and scaled as their family: {listed}")
    say(f"{output} written; version {version} of {done.profile.name} is stored with its measurements")
    if not is_stream(output):
        say(f"next: sweepdb evaluate MODEL --device {output} ...   (or keep it by name: sweepdb devices add {output})")


def _serving(
    engine: str | None,
    measurements: list[Path],
    only: list[str],
    profile: Path | None,
    *,
    format_: str,
    store: str | None,
) -> None:
    kept = measuring.fit_serving(engine, measurements, profile, store, only=only)
    _show(measuring.ENGINE_COLUMNS, kept.rows(), format_, kept.output)
    for problem in kept.problems:
        tell(as_typed(f"{problem.where}: {problem.what}"))
    points = kept.fit.points
    say(f"{len(points.records)} of {counted(kept.read, 'point')} of {points.engine} used")
    for one in points.excluded:
        say(f"  {one.rows} left out: {one.rule}")
    say("; ".join(f"{name} {before:g} -> {after:g}" for name, before, after in kept.changes()))
    say(f"besides, TTFT and TPOT of closed loops are corrected near {len(kept.fit.profile.near)} of these points")
    say(f"{kept.output} written; version {kept.version} of {kept.fit.profile.name} is stored as {kept.label}")
    if not is_stream(kept.output):
        say(as_typed(f"next: sweepdb evaluate MODEL ... --serving-model {kept.output}{parse_url(store).argument}"))


def _show(columns: Sequence[str], rows: list[list[object]], format_: str, profile: Path) -> None:
    if is_standard_output(profile):
        say("".join(pieces_of(columns, rows, format_)).rstrip("\n"))
    else:
        write_rows(columns, rows, format_)


def _progress(share: float, what: str) -> None:
    if sys.stderr.isatty() and not is_quiet():
        sys.stderr.write(f"\r\x1b[K{share:4.0%} {what}" if share < 1 else "\r\x1b[K")
        sys.stderr.flush()
