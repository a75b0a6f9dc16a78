"""export and import: carrying rows between stores. Not here: the bundle's format (queries.bundle)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.output import counted, say
from cli.shared_options import StoreOption
from store.errors import InputError


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("export")(export)
    app.command("import")(import_)


def export(
    folder: Annotated[Path, typer.Argument(help="a new folder for the bundle")],
    sweep: Annotated[str | None, typer.Option(help="only what this sweep asked for")] = None,
    format_: Annotated[str, typer.Option("--format", help="parquet or csv")] = "parquet",
    store: StoreOption = None,
) -> int:
    """Write a store, or one sweep, as a bundle with its data dictionary."""
    from queries.bundle import export_bundle
    from store.location import parse_url

    if format_ not in {"parquet", "csv"}:
        raise InputError(f"--format {format_} is not one of parquet, csv")
    done = export_bundle(parse_url(store), folder, sweep=sweep, format_="csv" if format_ == "csv" else "parquet")
    scenarios, probes = counted(done.scenarios, "scenario"), counted(done.probes, "probe")
    say(f"{folder}: {counted(done.sweeps, 'sweep')}, {scenarios}, {probes}")
    return 0


def import_(
    folder: Annotated[Path, typer.Argument(help="a bundle written by export")], store: StoreOption = None
) -> int:
    """Bring a bundle into this store; what is there already is not added again."""
    from queries.bundle import Bundle
    from store.location import parse_url
    from store.migrating import create_if_missing
    from store.opening import open_store
    from sweepdb.bundles import import_bundle

    Bundle(folder)  # checked before a store is made for it
    create_if_missing(parse_url(store))
    with open_store(store) as opened:
        done = import_bundle(opened, folder)
    say(f"{counted(done.sweeps, 'sweep')} and {counted(done.probes, 'probe')} added")
    return 0
