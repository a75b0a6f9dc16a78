"""Text that is safe on a terminal: controls and direction marks are escaped.

All output of `cli` passes here (tests/cli/test_visible.py). Also two switches of every command: quiet, and exact
CSV."""

from __future__ import annotations

from sweepdb.stores import escaped as visible

__all__ = ["visible"]


class _Quiet:
    wanted = False
    exact = False


def be_quiet(wanted: bool) -> None:
    """Errors are always said."""
    _Quiet.wanted = wanted


def is_quiet() -> bool:
    return _Quiet.wanted


def be_exact(wanted: bool) -> None:
    """Else texts that a spreadsheet would run are marked."""
    _Quiet.exact = wanted


def is_exact() -> bool:
    return _Quiet.exact
