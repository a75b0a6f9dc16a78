"""Lists sweeps, newest first, and shows one: plain SQL through the driver, so that it starts fast.

Not here: writing (store.writing) and voiding (store.voiding)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from store.errors import InputError
from store.location import StoreLocation
from store.presence import told_apart
from store.readers import ReadTransaction, read_transaction

_NAMES = ("id", "key", "label", "version", "started_at", "finished_at", "status")  # the first columns of a summary
# The counts of a finished sweep are stored with it; those of a running one are taken from its blocks.
_SUMMARY = """
SELECT s.id, s.key, s.label, s.program_version, s.started_at, s.finished_at, s.status,
       CASE WHEN s.status = 'running'
            THEN (SELECT COALESCE(SUM(b.probe_count), 0) FROM block b WHERE b.sweep_id = s.id)
            ELSE s.probes_stored END,
       s.probes_known, s.scenarios_failed,
       (SELECT MAX(t.reason) FROM tombstone t WHERE t.sweep_id = s.id AND t.lifted_at IS NULL),
       s.arguments, s.kind
FROM sweep s
"""
_NEWEST_FIRST = " ORDER BY s.started_at DESC, s.id DESC LIMIT ? OFFSET ?"
_OUTCOMES = """
SELECT c.status, c.reason, COUNT(DISTINCT c.id)
FROM sweep_interval i JOIN scenario c ON c.id = i.scenario_id
WHERE i.sweep_id = ?
GROUP BY c.status, c.reason
ORDER BY COUNT(DISTINCT c.id) DESC, c.status, c.reason
"""
_CONTENTS = """
SELECT m.name, j.device_name, COALESCE(w.name, w.label), j.phase,
       COUNT(DISTINCT c.id),
       SUM(CASE WHEN i.first_batch_size > 0 THEN i.last_batch_size - i.first_batch_size + 1 ELSE 0 END)
FROM sweep_interval i
JOIN scenario c ON c.id = i.scenario_id
JOIN subject j ON j.id = c.subject_id
JOIN model m ON m.id = j.model_id
JOIN workload w ON w.id = j.workload_id
WHERE i.sweep_id = ?
GROUP BY m.name, j.device_name, COALESCE(w.name, w.label), w.id, j.phase
ORDER BY m.name, j.device_name, COALESCE(w.name, w.label), w.id, j.phase
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepSummary:
    """One line of the list of sweeps. `voided` is the reason, None when it counts."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeCount:
    """How many scenarios of a sweep ended the same way."""

    status: str
    reason: str | None
    scenarios: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepContent:
    """What a sweep asked for of one model, device, workload and phase."""

    model: str
    device: str
    workload: str
    phase: str
    scenarios: int
    probes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepDetail:
    """A sweep with how its scenarios ended and what it asked for."""

    summary: SweepSummary
    outcomes: tuple[OutcomeCount, ...]
    contents: tuple[SweepContent, ...]


def list_sweeps(location: StoreLocation, *, limit: int = 20, offset: int = 0) -> list[SweepSummary]:
    """Return sweeps, the newest first."""
    with read_transaction(location) as transaction:
        rows = transaction.rows(_SUMMARY + _NEWEST_FIRST, (limit, offset))
        return [_summary(row) for row in told_apart(location, rows, _NAMES)]


def show_sweep(location: StoreLocation, reference: str) -> SweepDetail:
    """Return the one sweep whose key starts with the reference, or the newest that carries it as its label."""
    with read_transaction(location) as transaction:
        (row,) = told_apart(location, [_find(transaction, reference.strip())], _NAMES)
        outcomes = [
            OutcomeCount(status=str(status), reason=_text(reason), scenarios=_integer(count))
            for status, reason, count in transaction.rows(_OUTCOMES, (row[0],))
        ]
        contents = [
            SweepContent(
                model=str(model),
                device=str(device),
                workload=str(workload),
                phase=str(phase),
                scenarios=_integer(scenarios),
                probes=_integer(probes),
            )
            for model, device, workload, phase, scenarios, probes in transaction.rows(_CONTENTS, (row[0],))
        ]
    return SweepDetail(summary=_summary(row), outcomes=tuple(outcomes), contents=tuple(contents))


def _find(transaction: ReadTransaction, reference: str) -> Sequence[object]:
    labelled = list(transaction.rows(f"{_SUMMARY} WHERE s.label = ?{_NEWEST_FIRST}", (reference, 1, 0)))
    if labelled:
        return labelled[0]
    start = reference.lower()
    found: list[Sequence[object]] = []
    if start and set(start) <= set("0123456789abcdef"):  # `g` follows every hexadecimal digit
        within = f"{_SUMMARY} WHERE s.key >= ? AND s.key < ?{_NEWEST_FIRST}"
        found = list(transaction.rows(within, (start, f"{start}g", 2, 0)))
    if len(found) == 1:
        return found[0]
    if found:
        raise InputError(f"Several sweeps start with {reference!r}.", hint="Give more digits.")
    raise InputError(
        f"No sweep of this store has the reference or the label {reference!r}.", hint="`sweepdb sweeps` lists them."
    )


def _summary(row: Sequence[object]) -> SweepSummary:
    _, key, label, version, started, finished, status, stored, known, failed, voided, arguments, kind = row
    return SweepSummary(
        key=str(key),
        label=_text(label),
        program_version=str(version),
        started_at=_moment(started),
        finished_at=None if finished is None else _moment(finished),
        status=str(status),
        probes_stored=_integer(stored),
        probes_known=_integer(known),
        scenarios_failed=_integer(failed),
        voided=_text(voided),
        arguments=str(arguments),
        kind=str(kind),
    )


def _moment(value: object) -> datetime:
    """Read a stored moment: SQLite gives text without a zone, PostgreSQL a moment in the session's zone."""
    moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _integer(value: object) -> int:
    return int(str(value))
