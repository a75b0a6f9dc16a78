"""A method a report, made from its header for `help()` and completion.

report_methods.pyi, for type checkers, comes from `python -m tools.keyword_types`."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from textwrap import fill

from queries.asking.headers import Report
from queries.asking.question import Answer
from queries.asking.report_keywords import Keyword, asked_reports, keywords_of

_WIDTH = 100


class ReportMethods(ABC):
    """Every report as a method. Each returns the answer; a keyword that is not given, or None, takes its default."""

    @abstractmethod
    def report(self, name: str, **options: object) -> Answer:
        """Any report by its name."""


def _method(asked: Report) -> Callable[..., Answer]:
    def ask(self: ReportMethods, **options: object) -> Answer:
        return self.report(asked.name, **options)

    keywords = keywords_of(asked)
    ask.__name__ = asked.name.replace("-", "_")
    ask.__qualname__ = f"ReportMethods.{ask.__name__}"
    ask.__doc__ = _documented(asked, keywords)
    itself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    taken = [
        inspect.Parameter(
            one.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if one.required else one.default,
            annotation=one.hint if one.required or one.default is not None else one.hint | None,
        )
        for one in keywords
    ]
    ask.__signature__ = inspect.Signature([itself, *taken], return_annotation=Answer)  # type: ignore[attr-defined]
    return ask


def _documented(asked: Report, keywords: tuple[Keyword, ...]) -> str:
    summary = fill(f"{asked.summary[:1].upper()}{asked.summary[1:]}.", _WIDTH)
    options = (f"    {one.name}: {one.help}" for one in keywords)
    columns = (
        f"    {one.name}: {one.meaning}" + (f" ({one.unit})" if one.unit != "none" else "") for one in asked.columns
    )
    parts = [summary, "", "Keywords:", *options]
    return "\n".join([*parts, "", "Columns, besides those of the probe view:", *columns] if asked.columns else parts)


class _Method:
    """Made when first looked at: all signatures take longer than an answer."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, instance: ReportMethods | None, owner: type[ReportMethods]) -> Callable[..., Answer]:
        made = _method(asked_reports()[self._name])
        setattr(ReportMethods, self._name, made)
        return getattr(owner if instance is None else instance, self._name)  # type: ignore[no-any-return]


for _name in asked_reports():
    setattr(ReportMethods, _name, _Method(_name))
