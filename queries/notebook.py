"""Questions from Python: one method a report, keywords named as the command's options. For notebooks."""

from __future__ import annotations

import difflib
import os
import warnings
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Self

from queries.asking.library import OLD_NAMES, old_name_note, question_report, reports
from queries.asking.question import Answer, Question, question_of
from queries.asking.report_keywords import asked_reports
from queries.asking.report_methods import ReportMethods
from queries.learning.own_points import PointReader, no_points
from queries.session import Session
from store.location import parse_url


class Notebook(ReportMethods):
    """A store open for questions; `best(tpot_limit=50)` is `sweepdb query best` with that limit."""

    def __init__(self, url: str | os.PathLike[str] | None = None, own_points: PointReader = no_points) -> None:
        self._session = Session(parse_url(url), own_points=own_points)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._session.location.display}>"

    def ask(self, question: Question) -> Answer:
        return self._session.ask(question)

    def report(self, name: str, **options: object) -> Answer:
        """Any report by its name, also one that was added to the folder and that no type checker knows."""
        question_report(name)
        if (note := old_name_note(name, options.get("rank_by"))) is not None:
            warnings.warn(note, DeprecationWarning, stacklevel=3)
        return self._session.ask(question_of(name, options))

    def reports(self) -> dict[str, str]:
        """Every report's name and summary."""
        return {name: item.summary for name, item in reports().items()}

    def refresh(self) -> None:
        """Look at the store as it is now; until then every question sees one moment."""
        self._session.refresh()

    def close(self) -> None:
        self._session.close()

    if not TYPE_CHECKING:  # a checker would take every misspelt method for a report

        def __getattr__(self, name: str) -> Callable[..., Answer]:
            """A report that was added since the methods were made; another name is an error with the nearest."""
            known = {**asked_reports(), **{old.replace("-", "_"): old for old in OLD_NAMES}}
            if name in known:
                return partial(self.report, getattr(known[name], "name", known[name]))
            nearest = difflib.get_close_matches(name, [*known, "ask", "report", "reports", "close"], n=3)
            told = f"; nearest: {', '.join(nearest)}" if nearest and not name.startswith("_") else ""
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}{told}", name=name, obj=self)
