"""How many examples a property gets, and how many rounds of kills are made: all of them in `make long`."""

from __future__ import annotations

import os

PROFILE = os.environ.get("SWEEPDB_EXAMPLES", "same")  # or new
MOST = 100  # where a property says nothing


def examples(number: int) -> int:
    return number if PROFILE == "new" else max(number // 3, 4)


def rounds(number: int) -> int:
    """Of `number` rounds, those of this run: a fifth outside `make long`."""
    return number if PROFILE == "new" else max(number // 5, 2)
