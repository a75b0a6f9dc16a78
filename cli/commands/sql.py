"""sql: a read-only statement from the command line, a file, standard input or a prompt."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.output import (
    INTERRUPTED,
    check_format,
    pieces_of,
    say,
    say_error,
    say_interrupted,
    say_written,
    tell,
    write_rows,
    write_text,
)
from cli.shared_options import FormatOption, OutputOption, StoreOption
from store.errors import InputError, SweepdbError
from store.texts import counted
from sweepdb import asking, reporting, stores

if TYPE_CHECKING:
    from sweepdb.statements import SqlRows


_WHOLE = ("table", "json")  # held until every row is there: what meets a limit or an interrupt prints nothing
_FLUSHED_WITHIN_S = 0.5


def sql(  # noqa: PLR0917  one parameter an option
    statement: Annotated[str | None, typer.Argument(help="one SELECT or EXPLAIN")] = None,
    file: Annotated[Path | None, typer.Option("-f", "--file", help="read the statement from this file")] = None,
    param: Annotated[list[str] | None, typer.Option(help="NAME=VALUE of a parameter $NAME, once for each")] = None,
    save: Annotated[str | None, typer.Option(help="keep the statement under this name, too")] = None,
    saved: Annotated[str | None, typer.Option(help="run the statement kept under this name")] = None,
    open_: Annotated[bool, typer.Option("--open", help="show the rows as a page in the browser")] = False,
    schema: Annotated[bool, typer.Option("--schema", help="print the data dictionary")] = False,
    timeout: Annotated[float, typer.Option(help="seconds a statement may take")] = 300.0,
    memory_limit: Annotated[float | None, typer.Option(help="GiB a statement may use")] = None,
    format_: FormatOption = "table",
    output: OutputOption = None,
    store: StoreOption = None,
) -> int:
    """Run one read-only statement over the stored probes, or open a prompt on a terminal."""
    check_format(format_, output)
    if schema:
        return _schema(format_, output)
    from sweepdb.statements import statement_limits

    limits = statement_limits(timeout, memory_limit, when_stuck=_give_up)
    location = stores.parse_url(store)
    text = _statement(statement, file, saved)
    if text is None:
        return _prompt(location, limits, format_)
    values = _values(param or ())
    if save is not None:
        from sweepdb.statements import keep_statement

        say(f"kept as {save}: {keep_statement(save, text)}")
    if open_:
        from cli.output import browse
        from sweepdb.statements import rows_of

        if output is not None and stores.is_stream(output):
            raise InputError(f"--open shows a file, and {output} is none", hint="name a file, or leave --output out")
        path = write_page(rows_of(location, text, limits, values), text, values, output)
        browse(path.resolve().as_uri(), shown=f"opened {path}")
        return 0
    _run(location, text, limits, format_, output, values=values)
    return 0


def _values(typed: Sequence[str]) -> dict[str, object]:
    """`ttft=2000`: a number where it reads as one, else text."""
    found: dict[str, object] = {}
    for text in typed:
        name, separator, value = text.partition("=")
        if not separator or not name.isidentifier():
            raise InputError(f"--param {text}: a name and its value are expected", hint="such as --param ttft=2000")
        found[name] = _value(value)
    return found


def _value(text: str) -> object:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _statement(statement: str | None, file: Path | None, saved: str | None) -> str | None:
    if statement is not None and file is not None:
        raise InputError("give a statement or --file, not both")
    if saved is not None:
        if statement is not None or file is not None:
            raise InputError("give a statement, --file or --saved, not two of them")
        from sweepdb.statements import kept_statement

        return kept_statement(saved)
    if file is not None:
        try:
            return file.read_text(encoding="utf-8")
        except OSError as error:
            raise InputError(f"{file}: cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise InputError(f"{file}: not a text file in UTF-8") from error
    if statement not in {None, "-"}:
        return statement
    return sys.stdin.read() if statement == "-" or not sys.stdin.isatty() else None


def _run(
    location: stores.StoreLocation,
    text: str,
    limits: asking.StatementLimits,
    format_: str,
    output: Path | None,
    *,
    values: Mapping[str, object] | None = None,
) -> None:
    if format_ == "parquet" and output is not None:
        say_written(output, f"{asking.write_parquet(location, text, output, limits, values):,} rows")
        return
    with asking.run_sql(location, text, limits, values) as result:
        names = [column.name for column in result.columns]
        if not (output is None or stores.is_standard_output(output)) or format_ not in _WHOLE:
            write_rows(names, result, format_, output)
            return
        pieces = list(pieces_of(names, result, format_))
    write_text(pieces)


def _give_up(interrupted: bool) -> None:
    stores.drop_unfinished_files()
    flusher = threading.Thread(target=sys.stdout.flush, daemon=True)  # who reads it may have stopped reading
    flusher.start()
    flusher.join(_FLUSHED_WITHIN_S)
    if interrupted:
        say_interrupted()
        os._exit(INTERRUPTED)
    tell("error: the statement did not stop after its time was over, so this process ends")
    os._exit(2)


def _schema(format_: str, output: Path | None) -> int:
    if format_ == "table":
        write_text((asking.schema_text(),), output)
        return 0
    columns = ("relation", "kind", "column", "type", "unit", "meaning")
    rows = [
        [relation.name, relation.kind, column.name, column.type, column.unit, column.meaning]
        for relation in asking.dictionary()
        for column in relation.columns
    ]
    write_rows(columns, rows, format_, output)
    return 0


def _prompt(location: stores.StoreLocation, limits: asking.StatementLimits, format_: str) -> int:
    stores.read_store_id(location)  # a prompt over nothing would answer every statement with the same error
    _remember()
    _complete_words()
    say("one SELECT at a time, ended by ;  --  .schema shows views and columns, .quit leaves")
    while True:
        try:
            text = _typed()
            if text is None:
                return 0
            if text == ".schema":
                _schema(format_, None)
            elif text.startswith("."):
                tell(f"error: no command {text}\nhint: .schema shows views and columns, .quit leaves")
            elif text:
                _run(location, text, limits, format_, None)
        except KeyboardInterrupt:
            say("\ninterrupted; .quit leaves")
        except SweepdbError as error:
            say_error(error)


def _remember() -> None:
    """Keeps history between prompts, where the user's directory allows."""
    import atexit
    import readline
    from contextlib import suppress

    history = Path(os.environ.get("XDG_STATE_HOME", Path.home() / ".local" / "state")) / "sweepdb" / "history"
    with suppress(OSError):
        readline.read_history_file(history)

    def keep_history() -> None:
        with suppress(OSError):
            history.parent.mkdir(parents=True, exist_ok=True)
            readline.write_history_file(history)

    atexit.register(keep_history)


def _complete_words() -> None:
    import readline

    readline.set_completer(completer())
    readline.parse_and_bind("tab: complete")


def _typed() -> str | None:
    """None at the terminal's end."""
    lines: list[str] = []
    while True:
        try:
            line = input("sweepdb> " if not lines else "    ...> ")
        except EOFError:
            return None
        if not lines and line.strip() in {".quit", ".exit"}:
            return None
        lines.append(line)
        text = "\n".join(lines).strip()
        if not text or text.startswith(".") or text.endswith(";"):
            return text.rstrip(";").strip()


_MOST_ROWS = 10_000


def write_page(rows: SqlRows, statement: str, values: Mapping[str, object], output: Path | None) -> Path:
    """To a temporary file where none is named."""
    path = output or _own_file()
    with stores.written_whole(path) as temporary:
        temporary.write_text(rows_page(rows, statement, values), encoding="utf-8")
    return path


def rows_page(rows: SqlRows, statement: str, values: Mapping[str, object]) -> str:
    """A table with units and meanings, and the statement."""
    units = {column.name: column.unit for relation in asking.dictionary() for column in relation.columns}
    heads = [f"{name} [{units[name]}]" if units.get(name, "none") != "none" else name for name in rows.columns]
    left = len(rows.rows) - _MOST_ROWS
    given = "".join(f"\n${name} = {value!r}" for name, value in values.items())
    asked = reporting.preformatted(f"{statement.strip()}{given and chr(10)}{given}")
    told = reporting.paragraph(
        f"{counted(len(rows.rows), 'row')}{f', the first {_MOST_ROWS:,} of them' if left > 0 else ''}"
    )
    table = reporting.table_text(heads, rows.rows[:_MOST_ROWS], named="Rows")
    return reporting.plain_page("Rows of a statement", [asked, told, table])


def _own_file() -> Path:
    number, name = tempfile.mkstemp(prefix="sweepdb-", suffix=".html")
    os.close(number)
    return Path(name)


_WORDS = (
    "SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "LIMIT", "JOIN", "USING", "DESC", "DISTINCT", "QUALIFY",
    "HAVING", "max(", "min(", "avg(", "count(", "arg_max(", "quantile_cont(",
)  # fmt: skip


@cache
def _names() -> tuple[str, ...]:
    relations = [one for one in asking.dictionary() if one.kind != "raw"]
    columns = {column.name for relation in relations for column in relation.columns}
    return tuple(sorted({*_WORDS, *columns, *(relation.name for relation in relations)}))


def completer() -> Callable[[str, int], str | None]:
    """For readline: the n-th word that begins as typed, in any case."""

    def complete(text: str, number: int) -> str | None:
        found = [name for name in _names() if name.lower().startswith(text.lower())]
        return found[number] if number < len(found) else None

    return complete
