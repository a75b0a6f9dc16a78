"""Lists and shows sweeps by the plain driver, which starts fast."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from store.errors import InputError
from store.location import StoreLocation
from store.reading.transactions import ReadTransaction, read_transaction
from store.running_lock import status_now
from store.schema.tables import with_scenarios
from store.texts import LONGEST_NAME, LONGEST_TEXT, arguments_of

# The counts of a finished sweep are stored with it; those of a running one are taken from its blocks.
_SUMMARY = """
SELECT s.id, s.key, s.label, s.program_version, s.started_at, s.finished_at, s.status,
       CASE WHEN s.status = 'running'
            THEN (SELECT COALESCE(SUM(b.probe_count), 0) FROM block b WHERE b.sweep_id = s.id)
            ELSE s.probes_stored END,
       s.probes_known, s.scenarios_failed,
       (SELECT MAX(t.reason) FROM tombstone t WHERE t.sweep_id = s.id AND t.lifted_at IS NULL),
       s.arguments, s.kind,
       (SELECT COUNT(*) FROM shard h WHERE h.sweep_id = s.id),
       (SELECT COUNT(*) FROM shard h WHERE h.sweep_id = s.id AND h.state = 'stored'),
       (SELECT MIN(h.reason) FROM shard h WHERE h.sweep_id = s.id AND h.state = 'failed')
FROM sweep s
"""
_NEWEST_FIRST = " ORDER BY s.started_at DESC, s.id DESC LIMIT ?"
_OUTCOMES = """
SELECT sc.status, sc.reason, COUNT(DISTINCT sc.id)
FROM sweep_interval i JOIN scenario sc ON sc.id = i.scenario_id
WHERE i.sweep_id = ?
GROUP BY sc.status, sc.reason
ORDER BY COUNT(DISTINCT sc.id) DESC, sc.status, sc.reason
"""
_CONTENTS = f"""
SELECT m.name, sj.device_name, COALESCE(w.name, w.label), sj.phase,
       COUNT(DISTINCT sc.id),
       SUM(CASE WHEN i.first_batch_size > 0 THEN i.last_batch_size - i.first_batch_size + 1 ELSE 0 END)
FROM {with_scenarios("sweep_interval i", "i.scenario_id", "m", "w")}
WHERE i.sweep_id = ?
GROUP BY m.name, sj.device_name, COALESCE(w.name, w.label), w.id, sj.phase
ORDER BY m.name, sj.device_name, COALESCE(w.name, w.label), w.id, sj.phase
"""  # noqa: S608 - our names


class SweepSummary(NamedTuple):
    """`voided` is the reason; None: it counts."""

    id: int
    key: str
    label: str | None
    program_version: str
    started_at: datetime
    finished_at: datetime | None
    status: str
    probes_stored: int
    probes_known: int
    scenarios_failed: int
    voided: str | None
    arguments: str
    kind: str  # request, validation or import
    shards: int  # that were handed to workers so far
    shards_stored: int
    shard_failed: str | None  # why, of one that was given up

    @property
    def status_told(self) -> str:
        if self.status == "finished" or not self.shards:
            return self.status
        return f"{self.status}, {self.shards_stored} of {self.shards} shards stored"


class OutcomeCount(NamedTuple):
    status: str
    reason: str | None
    scenarios: int


class SweepContent(NamedTuple):
    model: str
    device: str
    workload: str
    phase: str
    scenarios: int
    probes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepDetail:
    summary: SweepSummary
    outcomes: tuple[OutcomeCount, ...]
    contents: tuple[SweepContent, ...]


def list_sweeps(location: StoreLocation, *, limit: int = 20) -> list[SweepSummary]:
    with read_transaction(location) as transaction:
        rows = transaction.rows(SweepSummary, _SUMMARY + _NEWEST_FIRST, (limit,))
        return [_of_now(location, row) for row in rows]


def show_sweep(location: StoreLocation, reference: str) -> SweepDetail:
    """By the start of its key, else the newest of that label."""
    with read_transaction(location) as transaction:
        found = _find(transaction, reference.strip())
        return SweepDetail(
            summary=_of_now(location, found),
            outcomes=tuple(transaction.rows(OutcomeCount, _OUTCOMES, (found.id,))),
            contents=tuple(transaction.rows(SweepContent, _CONTENTS, (found.id,))),
        )


def _of_now(location: StoreLocation, sweep: SweepSummary) -> SweepSummary:
    """With its status now. Longer texts than this program writes are cut."""
    return sweep._replace(
        status=status_now(location, sweep.id, sweep.key, sweep.status),
        label=None if sweep.label is None else sweep.label[:LONGEST_NAME],
        voided=None if sweep.voided is None else sweep.voided[:LONGEST_TEXT],
        program_version=sweep.program_version[:LONGEST_NAME],
        arguments=sweep.arguments[:LONGEST_NAME] if arguments_of(sweep.arguments) is None else sweep.arguments,
    )


def _find(transaction: ReadTransaction, reference: str) -> SweepSummary:
    labelled = list(transaction.rows(SweepSummary, f"{_SUMMARY} WHERE s.label = ?{_NEWEST_FIRST}", (reference, 1)))
    if labelled:
        return labelled[0]
    start = reference.lower()
    found: list[SweepSummary] = []
    if start and set(start) <= set("0123456789abcdef"):  # `g` follows every hexadecimal digit
        within = f"{_SUMMARY} WHERE s.key >= ? AND s.key < ?{_NEWEST_FIRST}"
        found = list(transaction.rows(SweepSummary, within, (start, f"{start}g", 2)))
    if len(found) == 1:
        return found[0]
    if found:
        raise InputError(f"Several sweeps start with {reference!r}.", hint="Give more digits.")
    raise InputError(
        f"No sweep of this store has the reference or the label {reference!r}.", hint="`sweepdb sweeps` lists them."
    )
