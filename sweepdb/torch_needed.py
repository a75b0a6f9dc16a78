"""Says what to install where operators must be captured and torch is not there: asking and reading never need it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from store.errors import InputError


@contextmanager
def torch_needed() -> Iterator[None]:
    """Around whatever may capture operators, or time kernels."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "torch":
            raise
        raise InputError(
            "operators that this store lacks are captured with torch, which is not installed",
            hint="pip install 'sweepdb[evaluate]'",
        ) from None
