"""Traces the operators of a bundle again: what they hold would price every later evaluation of this store.

Not here: keys and sizes of scenarios (identities), numbers of rows (store.writing)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from evaluator.graph import CaptureRequest, capture_operators, operators_to_json
from evaluator.together import captures
from store.errors import InputError, SweepdbError
from store.opening import Store
from store.records import OperatorSetRecord, ScenarioRecord
from store.writing import get_operators
from sweepdb.restoring import recorded_scenario
from sweepdb.torch_needed import torch_installed


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedOperators:
    """Operators to take in, and how many of them nothing here could trace again."""

    taken: tuple[OperatorSetRecord, ...]
    untraced: int


def traced_again(
    store: Store, scenarios: Iterable[ScenarioRecord], operators: Iterable[OperatorSetRecord]
) -> TracedOperators:
    """The operators that `store` lacks and a scenario needs; raises where tracing here gives others.

    Operators that no scenario of the bundle needs could price those of another one, so they stay out."""
    requests = {request.key: request for record in scenarios for request in _requests(record)}
    wanted = [one for one in operators if one.key in requests]
    known = get_operators(store, [one.key for one in wanted])
    for one in wanted:
        if known.get(one.key, one.payload) != one.payload:
            raise _others(one)
    missing = [one for one in wanted if one.key not in known]
    traceable = torch_installed()
    for one in missing if traceable else ():
        if operators_to_json(capture_operators(requests[one.key])) != one.payload:
            raise _others(one)
    return TracedOperators(taken=tuple(missing), untraced=0 if traceable else len(missing))


def _requests(record: ScenarioRecord) -> Iterable[CaptureRequest]:
    try:
        return captures(recorded_scenario(record)).values()
    except SweepdbError:  # a scenario that failed, or one that only another release evaluates
        return ()


def _others(record: OperatorSetRecord) -> InputError:
    return InputError(
        f"operators {record.key[:12]}, traced with torch {record.torch_version}, are not what this program traces",
        hint="nothing of the bundle was taken in; evaluate its scenarios here instead",
    )
