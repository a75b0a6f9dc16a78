"""Which cases of a test run with every change; the others run with `make survival`.

Cases whose number a parametrisation decides are chosen where it stands (`quick`, `one_each`). Cases that are merely dear are
listed in further_cases.txt."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

STALE = pytest.StashKey[list[str]]()  # listed cases that no test has any more, of the files collected


def quick(
    cases: Iterable[Any], which: int | Callable[[Any], bool] = 1, *, rest: pytest.MarkDecorator = pytest.mark.survival
) -> list[Any]:
    """Parameters of a test: the first `which` cases, or those that `which` accepts, as they are; the others marked.

    A tuple is the values of several arguments, as `parametrize` takes it."""
    return [
        case if (place < which if isinstance(which, int) else which(case)) else _marked(case, rest)
        for place, case in enumerate(cases)
    ]


def one_each(cases: Iterable[Any], of: Callable[[Any], Any]) -> list[Any]:
    """Parameters of a test: the first case of each kind as it is, the others with `make survival`."""
    seen: set[Any] = set()

    def is_new(case: Any) -> bool:
        kind = of(case)
        return not (kind in seen or seen.add(kind))

    return quick(cases, is_new)


def _marked(case: Any, mark: pytest.MarkDecorator) -> Any:
    if hasattr(case, "marks"):  # a pytest.param
        return pytest.param(*case.values, id=case.id, marks=[*case.marks, mark])
    return pytest.param(*case, marks=mark) if isinstance(case, tuple) else pytest.param(case, marks=mark)


def further_cases() -> set[str]:
    """The cases that further_cases.txt lists."""
    lines = Path(__file__).with_name("further_cases.txt").read_text(encoding="utf-8").splitlines()
    return {line for line in lines if not line.startswith("#")}
