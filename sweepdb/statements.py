"""Read-only statements: checked limits, rows, and named .sql files in the user's folder."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from queries.asking import Framed
from queries.sandbox import StatementLimits, run_sql
from store.errors import InputError
from store.location import StoreLocation
from store.texts import counted
from store.whole_files import unwritable, written_whole

_MOST = 1e6
TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlRows(Framed):
    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]

    def __repr__(self) -> str:
        """How many rows there are; `df()` and `dicts()` have them."""
        names = ", ".join(self.columns[:5]) + (" ..." if len(self.columns) > 5 else "")
        return f"<SqlRows: {counted(len(self.rows), 'row')} of {names}>"


def statement_limits(
    timeout: float = TIMEOUT_S, memory_limit: float | None = None, when_stuck: Callable[[bool], None] | None = None
) -> StatementLimits:
    _check("timeout", timeout, "seconds")
    if memory_limit is not None:
        _check("memory_limit", memory_limit, "GiB")
    memory = None if memory_limit is None else int(memory_limit * 2**30)
    return StatementLimits(timeout_s=timeout, memory_bytes=memory, when_stuck=when_stuck)


def rows_of(
    location: StoreLocation, statement: str, limits: StatementLimits, values: Mapping[str, object] | None = None
) -> SqlRows:
    if not isinstance(statement, str):
        raise InputError(f"`statement` is a text, not {statement!r}")
    with run_sql(location, statement, limits, values) as result:
        columns = tuple(column.name for column in result.columns)
        types = tuple(column.type for column in result.columns)
        return SqlRows(columns=columns, types=types, rows=tuple(result))


def _check(keyword: str, value: object, unit: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"`{keyword}` is a number of {unit}, not {value!r}")
    if not 0 < value < _MOST:
        raise InputError(f"`{keyword}` must be a number of {unit} above 0, not {value:g}")


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def kept_folder() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "sweepdb" / "statements"


def keep_statement(name: str, text: str) -> Path:
    path = _file(name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(path, error) from error
    with written_whole(path) as temporary:
        temporary.write_text(text.strip() + "\n", encoding="utf-8")
    return path


def kept_statement(name: str) -> str:
    try:
        return _file(name).read_text(encoding="utf-8")
    except OSError:
        known = (
            ", ".join(sorted(path.stem for path in kept_folder().glob("*.sql"))) or "none yet; `save=NAME` keeps one"
        )
        raise InputError(f"no statement is kept as {name}", hint=f"kept: {known}") from None


def _file(name: str) -> Path:
    if not _NAME.fullmatch(name):
        raise InputError(f"{name!r} is no name of a statement", hint="letters, digits, - and _")
    return kept_folder() / f"{name}.sql"
