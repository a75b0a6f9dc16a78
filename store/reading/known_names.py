"""Stored names that begin as typed."""

from __future__ import annotations

from typing import Literal, NamedTuple

from store.location import StoreLocation
from store.reading.transactions import read_transaction

NameKind = Literal["device", "model", "workload", "sweep", "probe"]
_MOST = 200
_SHOWN_KEY = 8  # digits of a scenario's key in a reference to a probe
_SHOWN_SWEEP = 12
_STATEMENTS = {
    "device": "SELECT DISTINCT name, '' AS about FROM device WHERE lower(name) LIKE ? ESCAPE '!' ORDER BY name LIMIT ?",
    "model": "SELECT DISTINCT name, '' AS about FROM model WHERE lower(name) LIKE ? ESCAPE '!' ORDER BY name LIMIT ?",
    "workload": "SELECT DISTINCT name, label AS about FROM workload WHERE lower(name) LIKE ? ESCAPE '!' ORDER BY name"
    " LIMIT ?",
    "label": "SELECT DISTINCT label AS name, 'label' AS about FROM sweep WHERE lower(label) LIKE ? ESCAPE '!'"
    " ORDER BY name LIMIT ?",
    "sweep": "SELECT key AS name, coalesce(label, status) AS about FROM sweep WHERE key LIKE ? ESCAPE '!'"
    " ORDER BY id DESC LIMIT ?",
    "probe": "SELECT s.key AS name, m.name || ' ' || u.device_name || ' ' || u.phase AS about FROM scenario s"
    " JOIN subject u ON u.id = s.subject_id JOIN model m ON m.id = u.model_id"
    " WHERE s.key LIKE ? ESCAPE '!' AND s.status = 'ok' ORDER BY s.id DESC LIMIT ?",
    "batch": "SELECT b.first_batch_size AS first, b.last_batch_size AS last FROM block b"
    " JOIN scenario s ON s.id = b.scenario_id WHERE s.key LIKE ? ESCAPE '!' ORDER BY 1 LIMIT ?",
}


class StoredName(NamedTuple):
    name: str
    about: str | None


def stored_names(location: StoreLocation, kind: NameKind, start: str) -> list[StoredName]:
    """In any case; a probe's scenario first, then batch sizes after its colon."""
    if kind == "probe" and ":" in start:
        return _probes(location, start)
    with read_transaction(location) as transaction:

        def found(statement: str) -> list[StoredName]:
            return list(transaction.rows(StoredName, _STATEMENTS[statement], (_begins(start), _MOST)))

        if kind == "probe":
            return [StoredName(f"{one.name[:_SHOWN_KEY]}:", one.about) for one in found("probe")]
        if kind == "sweep":
            keys = [StoredName(one.name[:_SHOWN_SWEEP], one.about) for one in found("sweep")]
            return [*found("label"), *keys]
        return found(kind)


def _probes(location: StoreLocation, start: str) -> list[StoredName]:
    scenario, _, size = start.partition(":")
    with read_transaction(location) as transaction:
        blocks = list(transaction.numbers(_STATEMENTS["batch"], (_begins(scenario), _MOST)))
    sizes = (batch for first, last in blocks for batch in range(first, last + 1))
    offered = [str(batch) for batch in sizes if str(batch).startswith(size)]
    return [StoredName(f"{scenario}:{batch}", None) for batch in offered[:_MOST]]


def _begins(start: str) -> str:
    escaped = start.lower().replace("!", "!!").replace("%", "!%").replace("_", "!_")
    return f"{escaped}%"
