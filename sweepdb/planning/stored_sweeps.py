"""Stored sweeps of the same request, which need no evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from evaluator.canonical import canonical
from evaluator.identity import RecordBuilder
from evaluator.request import SweepRequest, planned_scenarios, request_arguments
from store.errors import StoreError
from store.location import StoreLocation
from store.reading import read_transaction

if TYPE_CHECKING:
    from evaluator.arrivals import ArrivalRequest

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


def stored_scenarios(
    parts: Sequence[SweepRequest], location: StoreLocation, arrivals: ArrivalRequest | None = None
) -> tuple[str, frozenset[str]] | None:
    if location.is_to_be_made:
        return None
    arguments = request_arguments(parts) | ({} if arrivals is None else {"arrivals": arrivals})
    try:
        with read_transaction(location) as transaction:
            sweep = next(iter(list(transaction.rows(_Sweep, _SAME, (canonical(arguments),)))), None)
            if sweep is None:
                return None
            return sweep.key, frozenset(transaction.values(str, _SCENARIOS, (sweep.id,)))
    except StoreError:  # an older revision, or none: evaluating says what to do about it
        return None


def stored_sweep(parts: Sequence[SweepRequest], location: StoreLocation) -> str | None:
    """The newest finished one of today's scenarios.

    Keys hold formula version, device profile and engine."""
    found = stored_scenarios(parts, location)
    if found is None:
        return None
    sweep, scenarios = found
    records = RecordBuilder()
    wanted = {records.scenario(one.model_name, one.scenario).key for one in planned_scenarios(parts)}
    return sweep if wanted <= scenarios else None
