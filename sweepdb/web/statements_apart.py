"""One read-only statement in a process of its own: its limits of memory and time are those of that process alone.

Run as a program it reads the store's address and the statement from standard input, and writes one JSON document."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import islice

from queries.sandbox import StatementLimits, run_sql
from store.errors import InputError, SweepdbError
from store.location import StoreLocation, parse_url
from sweepdb.web.documents import table_document

STATEMENT_LETTERS = 100_000
_MOST_ROWS = 10_000
_TIMEOUT_S = 10.0
_GRACE_S = 10.0  # to start, and to stop what does not look up
_MEMORY_BYTES = 2**30
_ENDED = 2


def rows_apart(location: StoreLocation, statement: str) -> str:
    """The rows of a statement as a JSON document; what is wrong with it is an error."""
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
    """Run one statement for the process that started this one."""
    asked = json.load(sys.stdin)
    limits = StatementLimits(timeout_s=_TIMEOUT_S, memory_bytes=_MEMORY_BYTES, when_stuck=lambda _: os._exit(_ENDED))
    try:
        with run_sql(parse_url(asked["store"]), asked["statement"], limits) as result:
            rows = list(islice(result, _MOST_ROWS + 1))
            document = table_document([column.name for column in result.columns], rows[:_MOST_ROWS])
    except SweepdbError as error:
        json.dump({"error": error.message, "hint": error.hint}, sys.stdout)
        return _ENDED
    json.dump({**document, "more_rows": len(rows) > _MOST_ROWS}, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
