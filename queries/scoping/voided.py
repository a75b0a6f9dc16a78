"""Probes hidden by voids: of the scenario, or of every sweep that asked."""

from __future__ import annotations

from collections import defaultdict

from store.light_dataclass import NamedTuple, dataclass
from store.reading import ReadTransaction
from store.schema import VOIDED_SWEEPS
from store.sealing import LARGEST_KEY, Range, Ranges, complement, merged

_EVERY_SIZE: Ranges = ((0, LARGEST_KEY),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hidden:
    """Batch intervals by scenario; a whole one covers all sizes."""

    intervals: dict[int, Ranges]

    @property
    def rows(self) -> list[tuple[int, int, int]]:
        return [(scenario, low, high) for scenario, ranges in self.intervals.items() for low, high in ranges]

    @property
    def whole_scenarios(self) -> list[int]:
        """Nothing is visible, whatever is stored."""
        return [scenario for scenario, ranges in self.intervals.items() if ranges == _EVERY_SIZE]


def read_hidden(transaction: ReadTransaction) -> Hidden:
    voided = "SELECT scenario_id FROM tombstone WHERE lifted_at IS NULL AND scenario_id IS NOT NULL"
    intervals = _without_askers(transaction)
    for scenario in transaction.values(int, voided):
        intervals[scenario] = _EVERY_SIZE
    return Hidden(intervals=intervals)


class _Interval(NamedTuple):
    scenario_id: int
    first_batch_size: int
    last_batch_size: int
    is_voided: int  # 1 where its sweep is


def _without_askers(transaction: ReadTransaction) -> dict[int, Ranges]:
    statement = (
        f"SELECT i.scenario_id, i.first_batch_size, i.last_batch_size,"  # noqa: S608 - our text
        f" CASE WHEN i.sweep_id IN ({VOIDED_SWEEPS}) THEN 1 ELSE 0 END FROM sweep_interval i WHERE i.scenario_id IN"
        f" (SELECT scenario_id FROM sweep_interval WHERE sweep_id IN ({VOIDED_SWEEPS}))"
    )
    asked: dict[int, tuple[list[Range], list[Range]]] = defaultdict(lambda: ([], []))
    for row in transaction.rows(_Interval, statement):
        asked[row.scenario_id][row.is_voided].append((row.first_batch_size, row.last_batch_size))
    hidden = {scenario: _difference(voided, visible) for scenario, (visible, voided) in asked.items()}
    return {scenario: ranges for scenario, ranges in hidden.items() if ranges}


def _difference(voided: list[Range], visible: list[Range]) -> Ranges:
    if not visible:
        return _EVERY_SIZE
    gaps = complement(visible)
    return merged(
        (max(low, gap_low), min(high, gap_high))
        for low, high in voided
        for gap_low, gap_high in gaps
        if max(low, gap_low) <= min(high, gap_high)
    )
