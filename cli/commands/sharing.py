"""export, import and publish: rows for other stores and other programs.

Not here: formats (queries.bundles, queries.publishing)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.output import counted, say
from cli.shared_options import StoreOption


def export(
    folder: Annotated[Path, typer.Argument(help="a new folder for the bundle")],
    sweep: Annotated[str | None, typer.Option(help="only what this sweep asked for")] = None,
    format_: Annotated[str, typer.Option("--format", help="parquet or csv")] = "parquet",
    store: StoreOption = None,
) -> int:
    """Write a store, or one sweep, as a bundle with its data dictionary."""
    from sweepdb.sharing import export_bundle

    done = export_bundle(folder, sweep=sweep, format=format_, store=store)
    scenarios, probes = counted(done.scenarios, "scenario"), counted(done.probes, "probe")
    say(f"{folder}: {counted(done.sweeps, 'sweep')}, {scenarios}, {probes}")
    return 0


def import_(
    folder: Annotated[Path, typer.Argument(help="a bundle written by export")], store: StoreOption = None
) -> int:
    """Bring a bundle into this store; what is there already is not added again."""
    from sweepdb.sharing import import_bundle

    done = import_bundle(folder, store=store)
    say(f"{counted(done.sweeps, 'sweep')} and {counted(done.probes, 'probe')} added")
    if done.untraced_operators:
        sets = counted(done.untraced_operators, "operator set")
        say(f"assumed: {sets} as the bundle has them; torch, which would trace them again, is not installed")
    return 0


def publish(
    *,
    to: Annotated[str, typer.Option(help="FILE.duckdb, FILE.sqlite, FOLDER.parquet or postgresql://...")],
    store: StoreOption = None,
) -> int:
    """Lay the public views down as tables that other programs read; again, only what changed is written."""
    from sweepdb.sharing import publish as published

    done = published(to, store=store)
    changed = f"{done.added:,} added" + (f", {done.removed:,} removed" if done.removed else "")
    say(f"{done.target}: {counted(done.probes, 'probe')}, {changed}")
    return 0
