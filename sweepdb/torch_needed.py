"""Says what to install where operators must be captured and torch is not there: asking and reading never need it."""

from __future__ import annotations

import importlib.util
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
        raise without_torch() from None


def torch_installed() -> bool:
    """Whether operators can be captured here; torch is not imported for it."""
    return importlib.util.find_spec("torch") is not None


def without_torch() -> InputError:
    """The error of whoever needs operators that only torch brings."""
    return InputError(
        "operators that this store lacks are captured with torch, which is not installed",
        hint="pip install 'sweepdb[evaluate]'",
    )
