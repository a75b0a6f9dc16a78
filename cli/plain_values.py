"""Reads plain words, whole numbers and numbers of the command line itself, and leaves all else to Typer.

Typer builds a validator of pydantic for every option, given or not: 70 of `query` and the import take as long as the
program's other imports together. What is not plainly right goes to Typer, whose errors people then read."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

_WHOLE = re.compile(r"[+-]?[0-9]{1,15}", re.ASCII)
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,2})?", re.ASCII)
_READ: dict[object, Callable[[str], Any]] = {
    str: lambda text: text,
    int: lambda text: int(text) if _WHOLE.fullmatch(text) else None,
    float: lambda text: float(text) if _NUMBER.fullmatch(text) else None,
}


class PlainValue:
    """Stands in the place of Typer's reader of one parameter, which is built once it is needed."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:  # noqa: ANN401  Typer's own types, of one version or another
        """The value of a parameter."""
        several = param.multiple or param.nargs == -1
        if value is None:
            return () if several else None
        if not several and (found := _plain(value, param.type_descriptor)) is not None:
            return found
        param._runtime_param = None  # noqa: SLF001  the seam that Typer leaves; without it, every option is its own
        return param.get_runtime_param().coerce(value, param=param, ctx=ctx)


def _plain(value: object, described: Any) -> object | None:  # noqa: ANN401  Typer's own type
    """The value where it is plainly right, else None. A default is of its type already."""
    kind = described.annotation
    if kind not in _READ or described.is_choice:
        return None
    found = _READ[kind](value) if isinstance(value, str) else value if type(value) is kind else None
    if found is None or not described.is_ranged:
        return found
    least, most = described.parameter_info.min, described.parameter_info.max
    within = (least is None or least <= found) and (most is None or found <= most)
    return found if within else None


def read_plainly(parameters: list[Any]) -> list[Any]:
    """Parameters of a command, which from now on read what is plain themselves."""
    for param in parameters:
        if getattr(param, "_runtime_param", _READER) is None:
            param._runtime_param = _READER  # noqa: SLF001  see above
    return parameters


_READER = PlainValue()
