"""Own runs at a rate in an answer about simulated loads, and notes of the runs of any answer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from queries.judging.learned import (
    MEASURED,
    OwnRuns,
    elsewhere_notes,
    failed_notes,
    near_runs,
    silent_notes,
    with_words,
)
from queries.judging.subjects import KEY_LENGTH

if TYPE_CHECKING:
    from queries.asking.question import Answer
    from queries.learning.at_rates import LongerSteps, RateLessons
    from queries.learning.session_runs import SessionRuns

_TPOT = "tpot_exclusive_ms"


def with_notes_of_runs(answer: Answer, runs: SessionRuns, scenarios: Iterable[int]) -> Answer:
    """An answer with what runs at rates say, and notes of runs that say nothing and of failed starts."""
    if runs.at_rates is not None:
        answer = _with_runs_at_rates(answer, runs.at_rates)
    failed = failed_notes(answer, runs.failed(scenarios))
    return replace(answer, notes=(*answer.notes, *elsewhere_notes(runs.elsewhere), *failed))


def _with_runs_at_rates(answer: Answer, lessons: RateLessons) -> Answer:
    """An answer that says how each row stands to runs at rates, and in its header what they changed."""
    answer = replace(answer, notes=(*answer.notes, *silent_notes(lessons.unpredicted)))
    by_key = {one.scenario[:KEY_LENGTH]: one for one in lessons.steps.values()}
    places = [place for place, name in enumerate(answer.columns) if name == "scenario"]
    found = [by_key.get(str(row[place])[:KEY_LENGTH]) for row in answer.rows for place in places]
    told = [one for one in found if one is not None] or list(by_key.values())
    if not told:
        return answer
    from statistics import median

    keys = sorted(frozenset[str]().union(*(one.keys for one in told)))
    error, bare = (100 * median(getattr(one, name) for one in told) for name in ("error", "bare_error"))
    runs = "1 run" if len(keys) == 1 else f"{len(keys)} runs"
    said = OwnRuns(
        lines=(f"steps +-{error:.0f} %, from {runs} of yours at a rate; +-{bare:.0f} % without",), points=tuple(keys),
        percent={_TPOT: error}, corrected=sum(one is not None for one in found),
        shown=len(found),
    )  # fmt: skip
    answer = replace(answer, own_runs=said)
    return with_words(answer, map(_word, found)) if places else answer


def _word(one: LongerSteps | None) -> str | None:
    return None if one is None else MEASURED if one.measured else near_runs(one.near, one.runs)
