"""The public views as SQL of the stores themselves, for programs that open a store, in a dialect that all share.

Not here: laying them down (migrations.views)."""

from __future__ import annotations

from collections.abc import Mapping

from store.schema.joins import BLOCK_TABLES, SCENARIO_TABLES
from store.schema.probe_columns import NAMED_COLUMNS, PROBE_COLUMNS, view_select
from store.schema.raw_relations import SCENARIO, as_it_is
from store.schema.tables import TABLES

_COPIED = {"models": "model", "devices": "device", "prices": "price", "sweeps": "sweep"}
_VOIDED = "(SELECT sweep_id FROM tombstone WHERE lifted_at IS NULL AND sweep_id IS NOT NULL)"
_ASKED = "EXISTS (SELECT 1 FROM sweep_interval i WHERE i.scenario_id = sc.id AND i.sweep_id {kind} {voided}{more})"
_INSIDE = " AND {batch} BETWEEN i.first_batch_size AND i.last_batch_size"


def store_views() -> Mapping[str, str]:
    """The SELECT of each view by its name, in a dialect that SQLite and PostgreSQL share."""
    views = {"probes": _probes(), "scenarios": _scenarios()}
    for name, table in _COPIED.items():
        columns = ", ".join(f"{column.source} AS {column.name}" for column in as_it_is(TABLES[table]).columns)
        views[name] = f"SELECT {columns} FROM {table}"  # noqa: S608 - our names
    views["sweep_intervals"] = (
        "SELECT sw.key AS sweep, i.scenario_id, i.first_batch_size, i.last_batch_size"
        " FROM sweep_interval i JOIN sweep sw ON sw.id = i.sweep_id"
    )
    return views


def _probes() -> str:
    stored = ", ".join(f"{column.source} AS {column.name}" for column in PROBE_COLUMNS)
    block = "pb.scenario_id = b.scenario_id AND pb.batch_size BETWEEN b.first_batch_size AND b.last_batch_size"
    return (
        f"SELECT {view_select()} FROM (SELECT {stored} FROM {BLOCK_TABLES} JOIN probe pb ON {block}"  # noqa: S608 - our text
        f" WHERE NOT {_hidden('pb.batch_size')}) AS stored"
    )


def _scenarios() -> str:
    known = {column.name for column in NAMED_COLUMNS}
    columns = ", ".join(
        f"{column.source if column.name in known or column.name != 'voided' else _hidden(None)} AS {column.name}"
        for column in SCENARIO.columns
    )
    return f"SELECT {columns} FROM {SCENARIO_TABLES}"  # noqa: S608 - our names


def _hidden(batch: str | None) -> str:
    """Whether voiding hides a scenario, or a probe of it: as queries/scoping/voided.py works it out."""

    def asked(kind: str, more: str = "") -> str:
        return _ASKED.format(kind=kind, voided=_VOIDED, more=more)

    inside = "" if batch is None else _INSIDE.format(batch=batch)
    whole = "EXISTS (SELECT 1 FROM tombstone t WHERE t.lifted_at IS NULL AND t.scenario_id = sc.id)"
    by_all = f"({asked('IN')} AND NOT {asked('NOT IN')})"
    of_some = f" OR ({asked('IN', inside)} AND NOT {asked('NOT IN', inside)})" if inside else ""
    return f"({whole} OR {by_all}{of_some})"
