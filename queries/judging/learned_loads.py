"""Own runs at a rate in answers about simulated loads, and notes of runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from queries.errors.basis import BASIS
from queries.judging.learned import (
    MEASURED,
    PREDICTED,
    OwnRuns,
    elsewhere_notes,
    failed_notes,
    near_runs,
    silent_notes,
)
from queries.judging.subjects import KEY_LENGTH

if TYPE_CHECKING:
    from queries.asking.question import Answer
    from queries.learning.at_rates import LongerSteps, RateLessons
    from queries.learning.session_runs import SessionRuns

_TPOT = "tpot_exclusive_ms"


def with_notes_of_runs(answer: Answer, runs: SessionRuns, scenarios: Iterable[int]) -> Answer:
    """Also of runs that say nothing, and of failed starts."""
    if runs.at_rates is not None:
        answer = _with_runs_at_rates(answer, runs.at_rates)
    failed = failed_notes(answer, runs.failed(scenarios))
    return replace(answer, notes=(*answer.notes, *elsewhere_notes(runs.elsewhere), *failed))


def _with_runs_at_rates(answer: Answer, lessons: RateLessons) -> Answer:
    """How rows stand to runs, and what runs changed."""
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
    return _with_words(answer, [_word(one) for one in found]) if places else answer


def _with_words(answer: Answer, words: Sequence[str]) -> Answer:
    if BASIS not in answer.columns:
        rows = tuple((*row, word) for row, word in zip(answer.rows, words, strict=True))
        return replace(answer, columns=(*answer.columns, BASIS), rows=rows)
    basis = answer.columns.index(BASIS)
    rows = tuple(
        (*row[:basis], row[basis] if word == PREDICTED else word, *row[basis + 1 :])
        for row, word in zip(answer.rows, words, strict=True)
    )
    return replace(answer, rows=rows)


def _word(one: LongerSteps | None) -> str:
    return PREDICTED if one is None else MEASURED if one.measured else near_runs(one.near, one.runs)
