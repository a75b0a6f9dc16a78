"""Options of `sweepdb` itself."""

from __future__ import annotations

from typing import Annotated

import typer

from store.errors import InputError
from sweepdb import evaluating, stores


def register(app: typer.Typer) -> None:
    app.callback(invoke_without_command=True)(options)


def _tell(waited_s: float, limit_s: float) -> None:
    from cli.output import say

    say(f"waiting for another process that writes to the store: {waited_s:.0f} s of {limit_s:.0f} (--wait)")


def options(  # noqa: PLR0917  one parameter an option
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="print the version and exit")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="with --version: those of what a number depends on, too, as JSON")
    ] = False,
    quiet: Annotated[
        bool,
        typer.Option("--quiet", "-q", help="only answers and errors, no notes and no progress; any command takes it"),
    ] = False,
    exact_csv: Annotated[
        bool,
        typer.Option(
            "--exact-csv",
            help="texts of CSV as they are stored; without it, one that a spreadsheet would run begins with an"
            " apostrophe; any command takes it",
        ),
    ] = False,
    wait: Annotated[
        float | None,
        typer.Option(
            help="seconds to wait for others that write to the store: 300, or $SWEEPDB_WAIT; any command takes it"
        ),
    ] = None,
    show_completion: Annotated[
        str | None,
        typer.Option(metavar="SHELL", help="print what makes bash, zsh or fish complete what is typed"),
    ] = None,
) -> None:
    """Set what every command obeys; two of them print something in a command's place."""
    from cli.output import write_text
    from cli.visible import be_exact, be_quiet

    be_quiet(quiet)
    be_exact(exact_csv)
    if version:
        write_text((_versions() if as_json else f"sweepdb {_installed()}\n",))
        raise typer.Exit
    if as_json:
        raise InputError("--json belongs to --version", hint="answers come as JSON by --format json")
    if show_completion is not None:
        write_text((_script(show_completion),))
        raise typer.Exit
    if context.invoked_subcommand is None:
        context.fail("Missing command.")
    stores.wait_at_most(wait, _tell)


def _installed() -> str:
    from importlib.metadata import version

    return version("sweepdb")


def _versions() -> str:
    """For reports of faults: one JSON line."""
    import json
    import platform
    from importlib.metadata import PackageNotFoundError, version

    found: dict[str, object] = {
        "sweepdb": _installed(),
        "formula_version": evaluating.FORMULA_VERSION,
        "store_revision": stores.HEAD_REVISION,
        "python": platform.python_version(),
    }
    for package in ("duckdb", "sqlalchemy", "numpy", "torch"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return json.dumps(found) + "\n"


def _script(shell: str) -> str:
    from cli.completion import SHELLS, completion_script

    if shell not in SHELLS:
        raise InputError(f"--show-completion {shell} is not one of {', '.join(SHELLS)}")
    return completion_script(shell)
