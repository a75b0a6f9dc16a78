"""Answers on stdout, in a file or browser; chatter on stderr."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cli.derived import as_typed
from cli.render.rows import Paragraph, rendered
from cli.visible import is_quiet, visible
from store.errors import InputError, SweepdbError
from store.texts import counted
from sweepdb import stores
from sweepdb.stores import in_memory, is_device, is_standard_output, unwritable, written_whole

if TYPE_CHECKING:
    from cli.render.rows import Format


INTERRUPTED = 130
FORMATS = ("table", "csv", "json", "jsonl", "parquet")


def check_format(format_: str, output: Path | None, *, known: Sequence[str] = FORMATS) -> None:
    if format_ not in known:
        raise InputError(f"--format {format_} is not one of {', '.join(known)}")
    if output is not None and output == Path():
        raise InputError("--output names no file", hint="without it, the answer goes to standard output")
    if format_ == "parquet" and output is None:
        raise InputError(
            "--format parquet needs --output FILE", hint="Parquet is not text; --output - sends it to a pipe"
        )


def write_rows(
    columns: Sequence[str], rows: Iterable[Sequence[object]], format_: str, output: Path | None = None
) -> None:
    check_format(format_, output)
    if format_ == "parquet" and output is not None:
        write_parquet(columns, rows, output)
        return
    write_text(pieces_of(columns, rows, format_), output, exact=format_ == "csv")


def pieces_of(columns: Sequence[str], rows: Iterable[Sequence[object]], format_: str) -> Iterable[str]:
    text_format: Format = format_  # type: ignore[assignment]
    return rendered(columns, rows, text_format)


def write_text(pieces: Iterable[str], output: Path | None = None, *, exact: bool = False) -> None:
    """`exact` text reaches files and pipes as it is; terminals get no control characters."""
    if output is None or is_standard_output(output):
        if sys.stdout.isatty() and not exact:
            from cli.render.screen import on_screen

            sys.stdout.writelines(on_screen(pieces))
        else:
            as_it_is = exact and not sys.stdout.isatty()
            sys.stdout.writelines(piece if as_it_is else visible(piece) for piece in pieces)
        sys.stdout.flush()
        return
    with written_whole(output) as temporary, temporary.open("w", encoding="utf-8") as file:
        file.writelines(map(visible, pieces) if is_device(output) else pieces)
    say_written(output)


def write_parquet(columns: Sequence[str], rows: Iterable[Sequence[object]], output: Path) -> None:
    """Types are those of each column's first value."""
    held = [tuple(row) for row in rows]
    types = [_parquet_type([row[index] for row in held]) for index in range(len(columns))]
    quoted = ", ".join(f'"{name}" {type_}' for name, type_ in zip(columns, types, strict=True))
    try:
        with written_whole(output) as temporary, in_memory() as connection:
            target = str(temporary).replace("'", "''")
            connection.execute(f"CREATE TABLE answer ({quoted})")
            if held:
                marks = ", ".join("?" for _ in columns)
                connection.executemany(f"INSERT INTO answer VALUES ({marks})", held)  # noqa: S608  marks only
            connection.execute(f"COPY answer TO '{target}' (FORMAT parquet, COMPRESSION zstd)")
    except stores.duckdb.IOException as error:
        raise unwritable(output, error) from error
    say_written(output, counted(len(held), "row"))


def say_written(output: Path, what: str = "") -> None:
    if not is_standard_output(output):
        say(f"{what} written to {output}".strip())


def _parquet_type(values: Sequence[object]) -> str:
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {bool} and kinds:
        return "BOOLEAN"
    if kinds <= {int} and kinds:
        return "BIGINT"
    if kinds <= {int, float} and kinds:
        return "DOUBLE"
    if {kind.__name__ for kind in kinds} == {"datetime"}:
        return "TIMESTAMP"
    return "VARCHAR"


def say(text: str = "") -> None:
    """On stderr, unless quiet."""
    if not is_quiet():
        tell(text)


def tell(text: str) -> None:
    """On stderr, always."""
    sys.stderr.write(visible(text) + "\n")


def say_interrupted() -> None:
    """After ^C, on a new line."""
    tell(("\n" if sys.stderr.isatty() else "") + "interrupted; what was acknowledged is kept")


def browse(address: str, *, shown: str | None = None) -> None:
    """Says what to open where no browser starts."""
    import webbrowser

    if not webbrowser.open(address):
        tell(f"no browser can be started here; this is what it would show: {address}")
    elif shown is not None:
        say(shown)


def typed(pieces: Iterable[str]) -> Iterator[str]:
    """Pieces of a text with options as they are typed; a terminal still breaks its sentences."""
    for piece in pieces:
        yield piece.in_words(as_typed) if isinstance(piece, Paragraph) else as_typed(piece)


def say_error(error: SweepdbError) -> None:
    tell(f"error: {sentence(as_typed(error.message), _NAMED)}")
    if error.hint:
        tell(f"hint: {sentence(as_typed(error.hint))}")


# A command or a name, which is to be typed as it is.
_TYPED = r"(?:sweepdb|pip|python|vllm|tp|pp|dp|ep) |[a-z]+(?:[0-9_./=@*-]|:[^ ])|[a-z]+$"
# Or a file before what is wrong with it, where a hint names what follows.
_NAMED = rf"{_TYPED}|[a-z]+:"
# What a full stop would spoil: a path, a file, an option's value or a command at the end.
_TO_COPY = r"[/@][^ ']*$|\.[a-z]+$|`$|sweepdb (?:[^.;,]|\.\d)*$|--[^ ]+(?: [^ ,;]+)?$"
# Names of what there is: a model's ends as a path does.
_LISTED = r"\b(?:stored|nearest|known): [^:]*$"


def sentence(text: str, names: str = _TYPED) -> str:
    """Capital letter and full stop, except for what is typed or copied."""
    named = re.match(names, text) or os.path.exists(text.partition(" ")[0])  # noqa: PTH110  Path refuses long words
    started = text if named else text[:1].upper() + text[1:]
    copied = re.search(_TO_COPY, started) and not re.search(_LISTED, text)
    return started if started[-1:] in ".?!:" or "\n" in started or copied else f"{started}."
