"""Which cases of a test run with every change; others run with `make survival` or `make long`.

Cases whose number a parametrisation decides are chosen where it stands (`quick`, `one_each`). Cases that are merely dear are
listed in further_cases.txt and long_cases.txt."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

STALE = pytest.StashKey[list[str]]()  # listed cases that no test has any more, of the files collected
LATER = {"further_cases.txt": pytest.mark.survival, "long_cases.txt": pytest.mark.long}
LONGEST = (  # a minute or more, the longest first
    "web/test_page.py", "cli/test_document_commands.py", "cli/test_outputs.py", "test_packaging.py",
    "cli/test_newcomer.py", "sweepdb/test_running_survival.py", "sweepdb/test_plan.py", "store/test_survival.py",
    "cli/test_from_question_to_servers.py", "cli/test_calibrate.py", "sweepdb/test_report_file.py",
    "store/test_attack.py", "evaluator/test_calibration_shipped.py", "cli/test_calibrate_serving.py",
    "evaluator/test_scenario_keys.py", "evaluator/test_fits_have_one_answer.py", "web/test_access.py",
)  # fmt: skip


def quick(
    cases: Iterable[Any], which: int | Callable[[Any], bool] = 1, *, rest: pytest.MarkDecorator = pytest.mark.long
) -> list[Any]:
    """Parameters of a test: the first `which` cases, or those that `which` accepts, as they are; the others marked.

    A tuple is the values of several arguments, as `parametrize` takes it."""
    return [
        case if (place < which if isinstance(which, int) else which(case)) else _marked(case, rest)
        for place, case in enumerate(cases)
    ]


def one_each(cases: Iterable[Any], of: Callable[[Any], Any]) -> list[Any]:
    """Parameters of a test: the first case of each kind as it is, the others with `make long`."""
    seen: set[Any] = set()

    def is_new(case: Any) -> bool:
        kind = of(case)
        return not (kind in seen or seen.add(kind))

    return quick(cases, is_new)


def _marked(case: Any, mark: pytest.MarkDecorator) -> Any:
    if hasattr(case, "marks"):  # a pytest.param
        return pytest.param(*case.values, id=case.id, marks=[*case.marks, mark])
    return pytest.param(*case, marks=mark) if isinstance(case, tuple) else pytest.param(case, marks=mark)


def listed(name: str) -> set[str]:
    lines = Path(__file__).with_name(name).read_text(encoding="utf-8").splitlines()
    return {line for line in lines if not line.startswith("#")}


def begun_first(item: pytest.Item) -> int:
    file = item.nodeid.partition("::")[0].removeprefix("tests/")
    return LONGEST.index(file) if file in LONGEST else len(LONGEST)
