"""A read-only statement in a process of its own, with its own limits.

Reads the store's address and the statement from standard input, writes one JSON document."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable

from queries.sandbox import StatementLimits, run_sql
from store.errors import InputError, SweepdbError
from store.location import StoreLocation, parse_url
from store.texts import plain
from sweepdb.web.documents import table_document

STATEMENT_LETTERS = 100_000
_MOST_ROWS = 10_000
MOST_BYTES = 8 * 2**20  # of a result as JSON
_TIMEOUT_S = 10.0
_GRACE_S = 10.0  # to start, and to stop what does not look up
_MEMORY_BYTES = 2**30
_ENDED = 2


def rows_apart(location: StoreLocation, statement: str) -> str:
    if len(statement.encode(errors="replace")) > STATEMENT_LETTERS:
        raise InputError(f"A statement has at most {STATEMENT_LETTERS:,} bytes.")
    asked = json.dumps({"store": location.url, "statement": statement})
    command = [sys.executable, "-m", "sweepdb.web.statements_apart"]
    try:
        done = subprocess.run(  # noqa: S603  our own program
            command, input=asked, capture_output=True, text=True, timeout=_TIMEOUT_S + _GRACE_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise InputError(f"the statement was stopped after {_TIMEOUT_S:g} s") from None
    if done.returncode != 0:
        try:
            told = json.loads(done.stdout)
        except json.JSONDecodeError:
            raise InputError("the statement ended its process", hint="narrow it down") from None
        raise InputError(str(told["error"]), hint=told["hint"])
    return done.stdout


def main() -> int:
    asked = json.load(sys.stdin)
    limits = StatementLimits(timeout_s=_TIMEOUT_S, memory_bytes=_MEMORY_BYTES, when_stuck=lambda _: os._exit(_ENDED))
    try:
        with run_sql(parse_url(asked["store"]), asked["statement"], limits) as result:
            told = json.dumps(table_document([column.name for column in result.columns], ()))
            rows, more = bounded_rows(result, MOST_BYTES - len(told))
    except SweepdbError as error:
        json.dump({"error": error.message, "hint": error.hint}, sys.stdout)
        return _ENDED
    sys.stdout.write(f'{told.removesuffix("[]}")}[{",".join(rows)}], "more_rows": {json.dumps(more)}}}')
    return 0


def bounded_rows(result: Iterable[tuple[object, ...]], most_bytes: int) -> tuple[list[str], bool]:
    """Up to 10,000 rows and 8 MiB, and whether there are more."""
    rows: list[str] = []
    for row in result:
        text = json.dumps(plain(row))  # ASCII: a letter is a byte
        most_bytes -= len(text) + 1
        if most_bytes < 0 and not rows:
            raise InputError(
                f"One row of the result is larger than the {MOST_BYTES // 2**20} MiB that are sent.",
                hint="Select fewer columns, or cut texts with left().",
            )
        if most_bytes < 0 or len(rows) == _MOST_ROWS:
            return rows, True
        rows.append(text)
    return rows, False


if __name__ == "__main__":
    sys.exit(main())
