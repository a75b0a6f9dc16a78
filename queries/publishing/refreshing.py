"""Publishes a store of one moment: unchanged blocks of probes stay, small tables are rewritten."""

from __future__ import annotations

import contextlib
import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from queries.connect import StoreConnection
from queries.publishing import targets
from queries.publishing.duckdb_targets import DuckdbTarget, ParquetTarget
from queries.publishing.row_targets import PostgresqlTarget, SqliteTarget
from store.errors import InputError
from store.location import StoreLocation
from store.reading import read_store_id
from store.sealing import put_temporary

if TYPE_CHECKING:
    import duckdb

_VIEWS = ("probe", "scenario", "sweep", "model", "device", "price", "measurement", "validation", "sweep_interval")
# Rows of a block never change; voiding hides some or all of them, which moves these figures.
_STORED_BLOCKS = targets.BLOCKS.format(probes="probe")
_PROBES = "SELECT shown.* FROM ({select}) AS shown SEMI JOIN changed USING (scenario_id, block_id)"
_KINDS = "FILE.duckdb, FILE.sqlite, FOLDER.parquet, FOLDER.site or postgresql://user@host/database"


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """Probes there, come and gone."""

    target: str
    probes: int
    added: int
    removed: int


def publish(location: StoreLocation, target: str) -> Publication:
    """Creates or refreshes."""
    written = target_of(target)
    store_id = read_store_id(location)
    with contextlib.ExitStack() as stack:
        connection = stack.enter_context(StoreConnection(location))
        connection.provide(_VIEWS)  # before anything is written: DuckDB writes one database in a transaction
        stack.enter_context(written.opened(connection.duckdb))
        found = written.published_of()
        if found is not None and found.store_id != store_id:
            raise InputError(
                f"{target} holds what another store published ({found.store_id})", hint="name another target"
            )
        layout = _layout()
        if found is None or found.layout != layout:
            written.begin_anew(targets.published_relations()[0])
            known: targets.Blocks = {}
        else:
            known = written.blocks()
        return _refreshed(connection.duckdb, written, known, _Stamp(store_id=store_id, layout=layout))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stamp:
    store_id: str
    layout: str


def _refreshed(
    duckdb: duckdb.DuckDBPyConnection, target: targets.Target, known: targets.Blocks, stamp: _Stamp
) -> Publication:
    stored: targets.Blocks = {(row[0], row[1]): tuple(row[2:]) for row in duckdb.execute(_STORED_BLOCKS).fetchall()}
    gone = [place for place, figures in known.items() if stored.get(place) != figures]
    came = [place for place, figures in stored.items() if known.get(place) != figures]
    probes = targets.published_relations()[0]
    target.remove(gone)
    put_temporary(duckdb, "changed", targets.BLOCK_COLUMNS, came)
    if came:
        target.append([(column.name, column.type) for column in probes.columns], _PROBES.format(select=probes.select))
    for relation in targets.published_relations()[1:]:
        target.replace(relation.name, [(column.name, column.type) for column in relation.columns], relation.select)
    put_temporary(duckdb, "told", targets.DICTIONARY_COLUMNS, targets.dictionary_rows())
    target.replace(targets.DICTIONARY, targets.DICTIONARY_COLUMNS, "SELECT * FROM told")
    total = sum(figures[0] for figures in stored.values())
    target.stamp(stamp.store_id, stamp.layout, datetime.now(UTC).isoformat(timespec="seconds"), total)
    target.comment(targets.published_relations())
    return Publication(
        target=target.display,
        probes=total,
        added=sum(stored[place][0] for place in came),
        removed=sum(known[place][0] for place in gone),
    )


def _layout() -> str:
    """Names and types of probes, so that other versions' tables are rewritten."""
    text = ",".join(
        f"{targets.PROBES}.{column.name} {column.type}" for column in targets.published_relations()[0].columns
    )
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def target_of(text: str) -> targets.Target:
    if "://" in text:
        if not text.startswith(("postgresql://", "postgres://")):
            raise InputError(f"{text!r} is no place to publish to", hint=f"name {_KINDS}")
        return PostgresqlTarget(text)
    path = Path(text).expanduser()
    match path.suffix.lower():
        case ".duckdb":
            return DuckdbTarget(path)
        case ".parquet":
            return ParquetTarget(path)
        case ".sqlite" | ".db":
            return SqliteTarget(path)
    raise InputError(f"{text!r} does not say what it is to be", hint=f"name {_KINDS}")
