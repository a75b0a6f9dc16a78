"""Sweeps of a store that were asked for as a request is: what needs no evaluating again.

Not here: evaluating (sweepdb.evaluating), and asking (sweepdb.planning.answering)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
) -> Iterator[tuple[str, frozenset[str]]]:
    """The newest finished sweep of the same request with the keys of its scenarios; nothing where there is none."""
    if location.path is not None and not location.path.exists():
        return
    arguments = request_arguments(parts) | ({} if arrivals is None else {"arrivals": arrivals})
    try:
        with read_transaction(location) as transaction:
            for sweep in list(transaction.rows(_Sweep, _SAME, (canonical(arguments),))):
                yield sweep.key, frozenset(transaction.values(str, _SCENARIOS, (sweep.id,)))
    except StoreError:  # an older revision, or none: evaluating says what to do about it
        return


def stored_sweep(parts: Sequence[SweepRequest], location: StoreLocation) -> str | None:
    """The newest finished sweep of the same request, where its scenarios are those of today; else None.

    Keys of scenarios hold formula version, device profile and engine, so that none is taken for another."""
    records = RecordBuilder()
    for sweep, scenarios in stored_scenarios(parts, location):
        planned = planned_scenarios(parts)
        wanted = {records.scenario(one.model_name, one.scenario).key for one in planned}
        return sweep if wanted <= scenarios else None
    return None
