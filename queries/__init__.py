"""Questions answered from stored probes, as DuckDB SQL. Nothing here evaluates, and nothing writes to the store.

For example:

    import queries
    queries.open("sqlite:///sweepdb.sqlite").best(tpot_limit=50).df()
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from os import PathLike

    from queries.notebook import Notebook

__all__ = ["open"]


def open(url: str | PathLike[str] | None = None) -> Notebook:  # noqa: A001  the documented name
    """The store at `url` (default: SWEEPDB_STORE, else sweepdb.sqlite here), with one method a report."""
    from queries.notebook import Notebook

    return Notebook(url)
