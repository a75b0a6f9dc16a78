"""Types of reports' methods, and of keywords of `evaluate` and `plan`.

`python -m tools.keyword_types`; a test compares."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from textwrap import fill
from types import UnionType
from typing import Literal, Union, get_args, get_origin

from queries.asking import PARTS, Declared, Keyword, Report, asked_reports, declared, keywords_of, option_table
from sweepdb.evaluating import kind_of, options_by_keyword
from sweepdb.planning import plan_options

_HEAD = '''# fmt: off
"""The methods of queries.asking.report_methods for type checkers; `python -m tools.keyword_types` writes this file."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Literal, Required, TypedDict, Unpack

from queries.asking.question import Answer

class ScopeKeywords(TypedDict, total=False):
    """Which stored rows a question is about."""
'''
_CLASS = '''
class ReportMethods(ABC):
    """Every report as a method. Each returns the answer; a keyword that is not given, or None, takes its default."""

    @abstractmethod
    def report(self, name: str, **options: object) -> Answer:
        """Any report by its name."""
'''


def report_methods() -> str:
    found = asked_reports()
    scope = {item.keyword for item in declared(PARTS["scope"])}
    of_scope = next(taken for taken in map(keywords_of, found.values()) if scope <= {one.name for one in taken})
    parts = [_HEAD, *(_field(one) for one in of_scope if one.name in scope)]
    parts += [_keywords(method, item, scope) for method, item in found.items()]
    return "".join([*parts, _CLASS, *(_method(method, item) for method, item in found.items())])


def _keywords(method: str, asked: Report, scope: set[str]) -> str:
    keywords = keywords_of(asked)
    base = "ScopeKeywords" if scope & {one.name for one in keywords} else "TypedDict"
    fields = [_field(one) for one in keywords if one.name not in scope]
    return f"\nclass {_class_name(method)}({base}, total=False):\n{''.join(fields)}"


def _field(one: Keyword) -> str:
    hint = _text(one.hint)
    item = option_table().get(one.name)
    others = "".join(f"    {other}: {hint} | None\n" for other in (item.others if item else ()))
    return f"    {one.name}: {f'Required[{hint}]' if one.required else f'{hint} | None'}\n{others}"


def _text(hint: object) -> str:
    """Older versions of Python print unions with literals otherwise."""
    parts = get_args(hint)
    if get_origin(hint) in {Union, UnionType}:
        return " | ".join(map(_text, parts))
    if get_origin(hint) is Literal:
        return f"Literal[{', '.join(json.dumps(word) for word in parts)}]"
    if get_origin(hint) is Sequence:
        return f"Sequence[{_text(parts[0])}]"
    return inspect.formatannotation(hint).replace("collections.abc.", "")


def _method(method: str, asked: Report) -> str:
    summary = fill(f'"""{asked.summary[:1].upper()}{asked.summary[1:]}."""', 112).replace("\n", f"\n{' ' * 8}")
    return f"\n    def {method}(self, **options: Unpack[{_class_name(method)}]) -> Answer:\n        {summary}\n"


def _class_name(method: str) -> str:
    return "".join(part.title() for part in method.split("_")) + "Keywords"


_EVALUATE = '''# fmt: off
"""Keywords of sweepdb.evaluate and their types; `python -m tools.keyword_types` writes this file."""

import os
from collections.abc import Sequence
from typing import Literal, TypedDict

class EvaluateKeywords(TypedDict, total=False):
    """The options of `evaluate`; what is not given, or None, is left to the device, model or engine."""
'''


_PLAN = '''# fmt: off
"""Keywords of sweepdb.plan and their types; `python -m tools.keyword_types` writes this file."""

import os
from collections.abc import Sequence
from typing import Literal, TypedDict

class PlanKeywords(TypedDict, total=False):
    """The options of `plan`; what is not given, or None, is left to the device, model or engine."""
'''


def plan_keywords() -> str:
    return _PLAN + _fields(plan_options())


def evaluate_keywords() -> str:
    return _EVALUATE + _fields({keyword: item for keyword, item in options_by_keyword().items() if keyword != "model"})


def _fields(items: Mapping[str, Declared]) -> str:
    return "".join(
        f"    {name}: {_text(kind_of(item).hint)} | None\n"
        for keyword, item in items.items()
        for name in (keyword, *item.others)
    )


FILES: Mapping[str, Callable[[], str]] = {
    "queries/asking/report_methods.pyi": report_methods,
    "sweepdb/evaluating/evaluate_keywords.pyi": evaluate_keywords,
    "sweepdb/planning/plan_keywords.pyi": plan_keywords,
}

if __name__ == "__main__":
    for name, text in FILES.items():
        (Path(__file__).parents[1] / name).write_text(text(), encoding="utf-8")
