"""Says what to install where kernels are timed and torch is not there: nothing else needs it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from store.errors import InputError


@contextmanager
def torch_needed() -> Iterator[None]:
    """Around whatever times kernels."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "torch":
            raise
        raise InputError(
            "kernels are timed with torch, which is not installed", hint="pip install 'sweepdb[measure]'"
        ) from None
