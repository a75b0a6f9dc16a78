"""Options of `sweepdb` itself rather than of one of its commands: its version."""

from __future__ import annotations

import sys
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the options of this module."""
    app.callback()(options)


def _show_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        sys.stdout.write(f"sweepdb {version('sweepdb')}\n")
        raise typer.Exit


def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Nothing: the option's own callback does it."""
