"""DuckDB of this process alone, in memory, by its engine without the Python around it.

Importing that (relations that are built step by step) took a fifth of the processor time of a question."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb
else:
    try:
        import _duckdb as duckdb
    except ImportError:  # another layout of the package
        import duckdb

__all__ = ["duckdb", "in_memory", "machine_memory"]

# In a notebook DuckDB refuses to hear of its progress bar, even of having none, where the package that would draw it is
# not installed; it draws none then.
_SILENCED = (
    "SET enable_progress_bar = false",
    "SET enable_progress_bar_print = false",  # even where somebody asks how far a statement is
)

# Nothing is ever downloaded.
_OFFLINE: Mapping[str, str | bool] = {"autoinstall_known_extensions": False, "autoload_known_extensions": False}
_GIVEN = Path("/sys/fs/cgroup/memory.max")  # what a container may use


@cache
def machine_memory() -> int:
    """Bytes of memory of this machine, or of the container."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        given = _GIVEN.read_text(encoding="ascii").strip()
    except OSError:
        return physical
    return min(physical, int(given)) if given.isdecimal() else physical


def in_memory(most_bytes: int | None = None, folder: Path | None = None) -> duckdb.DuckDBPyConnection:
    """An empty DuckDB that prints nothing: where no script is run, as in `python -c`, it would draw a progress bar.

    With `most_bytes` it lays what takes more down in `folder`, and refuses it where none is named."""
    config: dict[str, str | bool | int | float | list[str]] = dict(_OFFLINE)
    if most_bytes is not None:
        config |= {"memory_limit": f"{most_bytes} bytes", "temp_directory": "" if folder is None else str(folder)}
    connection = duckdb.connect(config=config)
    for statement in _SILENCED:
        with suppress(duckdb.InvalidInputException):
            connection.execute(statement)
    return connection
