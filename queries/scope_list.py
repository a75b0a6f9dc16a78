"""Scopes that a store can be asked about: models, devices, workloads and formats, each combination once.

Not here: how densely each is stored (the report coverage)."""

from __future__ import annotations

from typing import NamedTuple

from store.location import StoreLocation
from store.reading import read_transaction
from store.schema import scenario_tables

_STATEMENT = f"""
SELECT m.name, sj.device_name, COALESCE(w.name, w.label), pr.linear_quantization, pr.attention_quantization,
       sj.convention, sj.serving_model, d.family, sj.phase, COUNT(*), MAX(p.num_devices)
FROM {scenario_tables("m", "w", "pr", "p", "d")}
WHERE sc.status = 'ok'
GROUP BY m.name, sj.device_name, COALESCE(w.name, w.label), pr.linear_quantization, pr.attention_quantization,
         sj.convention, sj.serving_model, d.family, sj.phase
ORDER BY MAX(sc.id) DESC, m.name, sj.device_name, d.family, sj.phase
"""  # noqa: S608  our names

# What narrows a question down to one picture: rows that differ in it are not ranked together.
SHOWN_FIRST = (
    "model", "workload", "quantize_linear_action", "quantize_attention_action", "serving_model", "convention",
)  # fmt: skip


class ScopeEntry(NamedTuple):
    """The subject of some stored scenarios. Fields are called as the options that narrow a question down to them."""

    model: str
    device: str
    workload: str
    quantize_linear_action: str
    quantize_attention_action: str
    convention: str
    serving_model: str
    family: str
    phase: str
    scenarios: int
    most_devices: int


def stored_scopes(location: StoreLocation) -> list[ScopeEntry]:
    """Every combination that has numbers, that of the newest scenario first."""
    with read_transaction(location) as transaction:
        return list(transaction.rows(ScopeEntry, _STATEMENT))
