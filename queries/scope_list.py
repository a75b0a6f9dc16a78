"""Stored combinations of model, device, workload and formats."""

from __future__ import annotations

from typing import NamedTuple

from store.location import StoreLocation
from store.reading import read_transaction
from store.schema import scenario_tables

# Scenarios that count, each with the newest that asked for it: requests before imports, these before comparisons with
# measurements, as a question without filters takes them.
_ASKED = """
(SELECT i.scenario_id,
        MAX(CASE s.kind WHEN 'request' THEN 2000000000000 WHEN 'import' THEN 1000000000000 ELSE 0 END + s.id) AS newest
 FROM sweep_interval i JOIN sweep s ON s.id = i.sweep_id
 WHERE s.id NOT IN (SELECT sweep_id FROM tombstone WHERE lifted_at IS NULL AND sweep_id IS NOT NULL)
   AND i.scenario_id NOT IN (SELECT scenario_id FROM tombstone WHERE lifted_at IS NULL AND scenario_id IS NOT NULL)
 GROUP BY i.scenario_id)
"""
_STATEMENT = f"""
SELECT m.name, sj.device_name, COALESCE(w.name, w.label), pr.linear_quantization, pr.attention_quantization,
       sj.convention, sj.serving_model, d.family, sj.phase, COUNT(*), MAX(p.num_devices)
FROM {scenario_tables("m", "w", "pr", "p", "d")} JOIN {_ASKED} asked ON asked.scenario_id = sc.id
WHERE sc.status = 'ok'
GROUP BY m.name, sj.device_name, COALESCE(w.name, w.label), pr.linear_quantization, pr.attention_quantization,
         sj.convention, sj.serving_model, d.family, sj.phase
ORDER BY MAX(asked.newest) DESC, MAX(sc.id) DESC, m.name, sj.device_name, d.family, sj.phase
"""  # noqa: S608  our names

# What narrows a question down to one picture: rows that differ in it are not ranked together.
SHOWN_FIRST = (
    "model", "workload", "quantization", "kv_cache_quantization", "serving_model", "convention",
)  # fmt: skip


class ScopeEntry(NamedTuple):
    """Fields are named as the options that narrow to them."""

    model: str
    device: str
    workload: str
    quantization: str
    kv_cache_quantization: str
    convention: str
    serving_model: str
    family: str
    phase: str
    scenarios: int
    most_devices: int


def stored_scopes(location: StoreLocation) -> list[ScopeEntry]:
    with read_transaction(location) as transaction:
        return list(transaction.rows(ScopeEntry, _STATEMENT))


def any_measured(location: StoreLocation) -> bool:
    with read_transaction(location) as transaction:
        return any(transaction.values(int, "SELECT 1 FROM measurement LIMIT 1"))
