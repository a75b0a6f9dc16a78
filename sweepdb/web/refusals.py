"""Errors that only a server has, and the status that each error of the store's tree is answered with."""

from __future__ import annotations

from store.errors import InputError, NothingFits, StoreBusyError, SweepdbError
from store.texts import escaped


class UnknownPathError(InputError):
    """Nothing stands under an address."""


class ServerBusyError(SweepdbError):
    """More questions wait than a server lets wait."""


class TooSlowError(SweepdbError):
    """An answer took longer than one may take."""


_STATUS: tuple[tuple[type[SweepdbError], int], ...] = (
    (UnknownPathError, 404),
    (InputError, 400),
    (NothingFits, 400),
    (ServerBusyError, 503),
    (StoreBusyError, 503),
    (TooSlowError, 504),
)


def told(error: SweepdbError) -> dict[str, str | None]:
    """An error as a document: a stored name in it steers no reader."""
    return {"error": escaped(error.message), "hint": None if error.hint is None else escaped(error.hint)}


def status_of(error: SweepdbError) -> int:
    """The HTTP status of an error: a store that cannot be read is the server's fault."""
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
