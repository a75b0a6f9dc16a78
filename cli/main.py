"""Builds the application; the single error boundary. Exit codes: store.errors."""

from __future__ import annotations

import errno
import functools
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from cli.completion import VARIABLE
from cli.ending import ENDING
from cli.joined_arguments import joined, root_options_first
from cli.output import INTERRUPTED, say_error, say_interrupted, sentence
from cli.visible import visible
from store.errors import SweepdbError

if TYPE_CHECKING:
    import typer

USAGE, BUG, SURROUNDINGS = 2, 1, 3
WIDEST_HELP = 100
# Of the system rather than of the program: names that no disk takes, no space, too many files.
_SURROUNDINGS = frozenset(
    {errno.ENAMETOOLONG, errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM}
)
# What a list of commands shows beside each: the sentences of their own help are longer than a line.
SUMMARIES = {
    "evaluate": "Evaluate every plan and batch size, and store every point.",
    "query": "Answer a question from the stored rows, evaluating nothing.",
    "plan": "The best whole deployments for a question: evaluate what is missing, then answer.",
    "schedule": "How many replicas to run in each hour of a day, simulated with its requests.",
    "decide": "What to deploy, how sure that is, and the next run that is worth most.",
    "report": "Write an answer as one file to send.",
    "launch": "Write the files that start a stored row.",
    "worker": "Evaluate shards for a Dask scheduler.",
    "explain": "Show a stored step operator by operator.",
    "verify": "Check a proof against a store.",
    "sql": "Run one read-only SQL statement, or open a prompt.",
    "serve": "Serve a page with sliders over the stored rows.",
    "watch": "Compare a server that runs with its stored row; exit 5 on drift.",
    "mcp": "Answer an assistant's questions, as tools over stdio.",
    "sweeps": "List sweeps, the newest first.",
    "show": "Show a sweep or a probe.",
    "void": "Hide a sweep or a scenario from every answer.",
    "unvoid": "Show a voided sweep or scenario again.",
    "models": "List the model catalogue, or show one model.",
    "workloads": "Named workloads of the store: list, show, add.",
    "support": "What is exact, fitted, carried over or refused.",
    "devices": "List or show device profiles, or add your own.",
    "prices": "Enter and list prices and power of devices.",
    "calibrate": "Fit a device or an engine to measurements.",
    "measurements": "Import, list, correct or delete measured serving points; say which to measure.",
    "compare": "Hold result files beside one another, without a store.",
    "validate": "Hold predictions against measured points.",
    "regress": "What got worse between measured runs, for people and for CI.",
    "export": "Write a store as a bundle of files, or the profile that a planner reads.",
    "publish": "Lay public views down for other programs.",
    "import": "Bring a bundle into this store.",
    "db": "Create, upgrade, check, seal and compact a store.",
}


_LISTING: tuple[list[str], ...] = ([], ["--help"], ["-h"])
# Modules of commands with these, in the order of help texts.
_MODULES: Mapping[str, tuple[str, ...]] = {
    "planning": ("plan", "report"),
    "scheduling": ("schedule",),
    "decide": ("decide",),
    "evaluating": ("launch", "evaluate", "explain", "worker"),
    "questions": ("query", "verify"),
    "sql": ("sql",),
    "serving": ("serve", "mcp", "watch"),
    "sweeps": ("sweeps", "show", "void", "unvoid"),
    "catalogue": ("models", "devices", "workloads", "support", "prices"),
    "calibrating": ("calibrate",),
    "measured": ("measurements",),
    "comparing": ("compare", "regress", "validate"),
    "database": ("export", "import", "publish"),  # and db, a group of its own
}
_NONE = ""  # of the commands: what lists them needs their names and summaries alone


def build_app(only: str | None = None, words: frozenset[str] | None = None) -> typer.Typer:
    """`only` takes half as long as all; without options a third.

    With `words`, only those options are read. Imports nothing that commands need."""
    import typer

    from cli.derived import as_typer_reads
    from cli.help.commands import DescribedCommand, DescribedGroup

    app = typer.Typer(
        name="sweepdb",
        cls=DescribedGroup,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": WIDEST_HELP},
        help="Evaluate an LLM serving space once, keep every point, answer every later question as SQL.",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    import_module("cli.commands.root").register(app)
    for module, names in _MODULES.items():
        for name in names:
            if only == _NONE:
                app.command(name, short_help=SUMMARIES[name])(_listed)
            elif only in {None, name}:
                function = getattr(import_module(f"cli.commands.{module}"), "import_" if name == "import" else name)
                app.command(name, short_help=SUMMARIES[name])(as_typer_reads(function, words))
    if only == _NONE:
        app.command("db", short_help=SUMMARIES["db"])(_listed)
    elif only in {None, "db"}:
        import_module("cli.commands.database").register(app, SUMMARIES["db"])
    for group in (app, *(one.typer_instance for one in app.registered_groups if one.typer_instance)):
        for command in group.registered_commands:
            command.cls = DescribedCommand
    return app


def _listed() -> None:
    """A stand-in where commands are only listed."""


@functools.lru_cache(maxsize=64)  # whoever runs several lines in one process builds it once
def _program(only: str | None = None, words: frozenset[str] | None = None) -> Any:  # noqa: ANN401  a command of Typer's, whose type moved between its versions
    import typer.main

    return typer.main.get_command(build_app(only, words))


def _outcome(typed: Sequence[str], *, listing: bool) -> object:
    """An unknown option is looked for in all commands."""
    alone = _NONE if listing else typed[0] if typed[0] in SUMMARIES else None
    helped = any(word == "-h" or word.startswith("--help") for word in typed)
    words = None if helped else frozenset(word.partition("=")[0] for word in typed)
    run = {"args": typed, "prog_name": "sweepdb", "standalone_mode": False}
    try:
        return _program(alone, words).main(**run)
    except Exception as error:
        if type(error).__name__ != "NoSuchOption":
            raise
    return _program(alone).main(**run)


def main(arguments: Sequence[str] | None = None) -> None:
    shell = os.environ.get(VARIABLE)
    if shell is not None:
        from cli.completion.offers import complete

        sys.exit(complete(shell, sys.argv[1:] if arguments is None else arguments, _program))
    if arguments is None:
        ENDING.expect(sys.argv[1:])
    code = run(sys.argv[1:] if arguments is None else arguments)
    ENDING.end(code)
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Every error ends as one sentence and an exit code."""
    import typer

    # Older Typers bring their errors from click, newer ones their own: both stand behind BadParameter.
    click_error: type[Exception] = next(
        kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException"
    )
    try:
        listing = list(arguments) in _LISTING
        typed = ["--help"] if listing else root_options_first(joined(arguments))
        outcome = _outcome(typed, listing=listing)
    except SweepdbError as error:
        say_error(error)
        return error.exit_code
    except click_error as error:
        sys.stderr.write(visible(_said(error)))
        return USAGE
    except (KeyboardInterrupt, typer.Abort):
        say_interrupted()
        return INTERRUPTED
    except (BrokenPipeError, SystemExit):
        # The reader has seen enough: not an error, and nothing more can be written. Typer turns it into SystemExit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:  # noqa: BLE001  the boundary
        return _unforeseen(error)
    if outcome == INTERRUPTED:  # Typer turns ^C into this code and says nothing
        say_interrupted()
    return outcome if isinstance(outcome, int) else 0


def _unforeseen(error: Exception) -> int:
    if isinstance(error, OSError) and error.errno in _SURROUNDINGS:
        sys.stderr.write(visible(f"error: {error.filename or 'a file'}: {error.strerror}\n"))
        return SURROUNDINGS
    traceback.print_exception(error)
    sys.stderr.write("error: this is a bug in sweepdb; the lines above say where\n")
    return BUG


def _said(error: Exception) -> str:
    """With its option or argument; a group without a command shows its help."""
    formatted = getattr(error, "format_message", None)
    message = str(formatted() if formatted is not None else error)
    if type(error).__name__ == "NoArgsIsHelpError":
        return f"{message}\n"
    context = getattr(error, "ctx", None)
    if (
        context is not None
        and (option := getattr(error, "option_name", None))
        and type(error).__name__ == "NoSuchOption"
    ):
        from cli.field_words import unknown_option

        wrong, hint = unknown_option(option, context, _program().commands)
        return f"error: {wrong}\nhint: {hint}\n"
    command = getattr(context, "command_path", "sweepdb COMMAND")
    listed = "commands" if "o such command" in message or command == "sweepdb" else "options"
    return f"error: {sentence(message)}\nhint: {command} --help lists the {listed}.\n"


if __name__ == "__main__":
    main()
