"""The options that a report takes. Light: the command line reads them before anything is asked."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from queries.asking import Declared, keywords_of, option_table, question_report

REPORT = "deployments"


@cache
def report_options() -> Mapping[str, Declared]:
    """The options of a report by keyword: those of the question about whole deployments, at one number of devices."""
    taken = {one.name for one in keywords_of(question_report(REPORT))}
    return {keyword: item for keyword, item in option_table().items() if keyword in taken - {"top", "budgets"}}
