"""Options of `sweepdb` itself rather than of one of its commands: its version, and how long it waits for others."""

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


def _tell(waited_s: float, limit_s: float) -> None:
    from cli.output import say

    say(f"waiting for another process that writes to the store: {waited_s:.0f} s of {limit_s:.0f} (--wait)")


def options(
    version: Annotated[  # noqa: ARG001  printed by its callback
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    wait: Annotated[
        float | None,
        typer.Option(
            help="seconds to wait for others that write to the store: 300, or $SWEEPDB_WAIT; any command takes it"
        ),
    ] = None,
) -> None:
    """Set what every command obeys; the version's own callback prints it."""
    from sweepdb.stores import wait_at_most

    wait_at_most(wait, _tell)
