"""Text as a terminal may be given it: what would move its cursor, clear it or turn its letters round is shown escaped.

Every writer of `cli` to the standard streams goes through here; tests/cli/test_visible.py finds those that do not. Two
switches that every command takes are here, too: only answers and errors, and texts of CSV as they are stored."""

from __future__ import annotations

from sweepdb.stores import escaped as visible

__all__ = ["visible"]


class _Quiet:
    wanted = False
    exact = False


def be_quiet(wanted: bool) -> None:
    """Leave out what is said beside answers, or say it again. Errors are always said."""
    _Quiet.wanted = wanted


def is_quiet() -> bool:
    return _Quiet.wanted


def be_exact(wanted: bool) -> None:
    """Leave texts of CSV as they are stored, or mark those that a spreadsheet would run."""
    _Quiet.exact = wanted


def is_exact() -> bool:
    return _Quiet.exact
