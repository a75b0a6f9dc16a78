"""Whether only answers and errors are wanted: an option of every command, which whoever speaks beside answers obeys."""

from __future__ import annotations


class _Quiet:
    wanted = False


def be_quiet(wanted: bool) -> None:
    """Leave out what is said beside answers, or say it again. Errors are always said."""
    _Quiet.wanted = wanted


def is_quiet() -> bool:
    """Whether only answers and errors are wanted."""
    return _Quiet.wanted
