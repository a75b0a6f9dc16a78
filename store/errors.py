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
    """`message`, and perhaps a `hint` naming what to do next."""

    exit_code = 2

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message


class InputError(SweepdbError):
    pass


class StoreError(SweepdbError):
    exit_code = 3


class RevisionError(StoreError):
    """Not the revision that this program reads and writes."""


class NotAStoreError(StoreError):
    """Something else, or damaged."""


class UnreadableRowsError(StoreError):
    """Something else than this program wrote a row."""


class StoreBusyError(StoreError):
    """Another process held the write lock too long."""


class EvaluationError(SweepdbError):
    exit_code = 4


class NothingFits(SweepdbError):  # noqa: N818 - an answer rather than a fault
    """The caller asked to fail where nothing satisfies the limits."""

    exit_code = 5


class Worsened(SweepdbError):  # noqa: N818 - an answer rather than a fault
    """Surely worse than the caller lets pass."""

    exit_code = 5


class Drifted(SweepdbError):  # noqa: N818 - an answer rather than a fault
    """Slower than planned, a limit missed, or other requests."""

    exit_code = 5
