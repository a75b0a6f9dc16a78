"""Whether a store holds all that a request asks for already, so that nothing need be evaluated or written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from evaluator.canonical import canonical
from evaluator.identity import RecordBuilder
from evaluator.request import SweepRequest, planned_scenarios, request_arguments
from store.errors import StoreError
from store.location import StoreLocation
from store.reading import read_transaction

_SAME = """
SELECT s.key, s.id FROM sweep s
WHERE s.kind = 'request' AND s.status = 'finished' AND s.arguments = ?
    AND s.id NOT IN (SELECT sweep_id FROM tombstone WHERE lifted_at IS NULL AND sweep_id IS NOT NULL)
ORDER BY s.id DESC
LIMIT 1
"""
_SCENARIOS = "SELECT sc.key FROM sweep_interval i JOIN scenario sc ON sc.id = i.scenario_id WHERE i.sweep_id = ?"


class _Sweep(NamedTuple):
    key: str
    id: int


class _Scenario(NamedTuple):
    key: str


def stored_sweep(parts: Sequence[SweepRequest], location: StoreLocation) -> str | None:
    """The newest finished sweep of the same request, where its scenarios are those of today; else None.

    Keys of scenarios hold formula version, device profile and engine, so that none is taken for another."""
    if location.path is not None and not location.path.exists():
        return None
    try:
        with read_transaction(location) as transaction:
            found = list(transaction.rows(_Sweep, _SAME, (canonical(request_arguments(parts)),)))
            if not found:
                return None
            stored = {row.key for row in transaction.rows(_Scenario, _SCENARIOS, (found[0].id,))}
    except StoreError:  # an older revision, or none: evaluating says what to do about it
        return None
    records = RecordBuilder()
    wanted = {records.scenario(planned.model_name, planned.scenario).key for planned in planned_scenarios(parts)}
    return found[0].key if wanted <= stored else None
