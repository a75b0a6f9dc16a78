"""How many examples a property gets: all of them in `make long`, a third with every change."""

from __future__ import annotations

import os

PROFILE = os.environ.get("SWEEPDB_EXAMPLES", "same")  # or new
MOST = 100  # where a property says nothing


def examples(number: int) -> int:
    """Of `number` examples, those of this run."""
    return number if PROFILE == "new" else max(number // 3, 4)
