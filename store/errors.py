"""The one error tree of sweepdb. Every error says what, where and what to do next, and carries an exit code.

    SweepdbError (2)
    ├── InputError (2)          a wrong option, file or value; the user can fix it
    ├── StoreError (3)          the store cannot be opened, read or written
    │   ├── RevisionError       the store's schema is older or newer than this program
    │   ├── NotAStoreError      the file is something else, or damaged
    │   ├── UnreadableRowsError stored rows hold what no row can
    │   └── StoreBusyError      another process holds the write lock for too long
    ├── EvaluationError (4)     some probes could not be evaluated
    ├── NothingFits (5)         nothing satisfies the limits and --fail-empty was given
    ├── Worsened (5)            measured runs are worse than --fail-over lets pass
    └── Drifted (5)             a server that runs is not as planned

Numbers in brackets are exit codes; an error without one has the code of the error above it."""

from __future__ import annotations


class SweepdbError(Exception):
    """Base of everything sweepdb raises on purpose: `message`, and optionally a `hint` naming what to do next."""

    exit_code = 2

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message


class InputError(SweepdbError):
    """A wrong option, file or value that the user can correct."""


class StoreError(SweepdbError):
    """The store cannot be opened, read or written."""

    exit_code = 3


class RevisionError(StoreError):
    """The store's schema revision is not the one this program reads and writes."""


class NotAStoreError(StoreError):
    """The file or database is not a sweepdb store, or it is damaged."""


class UnreadableRowsError(StoreError):
    """A number of a stored row is none: something else than this program wrote it."""


class StoreBusyError(StoreError):
    """Another process held the write lock for longer than the busy timeout."""


class EvaluationError(SweepdbError):
    """Some probes could not be evaluated; the others are stored."""

    exit_code = 4


class NothingFits(SweepdbError):  # noqa: N818 - an answer rather than a fault
    """Nothing satisfies the limits, and the caller asked to fail on that."""

    exit_code = 5


class Worsened(SweepdbError):  # noqa: N818 - an answer rather than a fault
    """Measured runs are surely worse than the caller lets pass."""

    exit_code = 5


class Drifted(SweepdbError):  # noqa: N818 - an answer rather than a fault
    """A server that runs is slower than planned, misses a limit, or gets other requests."""

    exit_code = 5
