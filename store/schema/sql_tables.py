"""Declared tables as SQLAlchemy's, by name in capitals: `SCENARIO.c.status`.

Comments end in the unit in brackets."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.schema import SchemaItem
from sqlalchemy.types import TypeEngine

from store.schema.declaring import Column, Kind, Table
from store.schema.raw_relations import store_views
from store.schema.tables import TABLES

NAMING = {  # deterministic, so that migrations can address constraints
    "ix": "ix_%(table_name)s_%(column_0_name)s",
    "uq": "uq_%(table_name)s_%(column_0_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}
_TYPES: dict[Kind, TypeEngine[Any]] = {
    "key": sa.BigInteger().with_variant(sa.Integer, "sqlite"),  # SQLite's row ids are of the exact type INTEGER
    "integer": sa.Integer(),
    "long": sa.BigInteger(),
    "short": sa.SmallInteger(),
    "double": sa.Double(),
    "flag": sa.Boolean(),
    "text": sa.Text(),
    "moment": sa.DateTime(timezone=True),
    "bytes": sa.LargeBinary(),
}


def _column(column: Column) -> sa.Column[Any]:
    bounded = column.type.length is not None
    return sa.Column(
        column.name,
        sa.String(column.type.length) if bounded else _TYPES[column.type.kind],
        *([sa.ForeignKey(column.refers_to)] if column.refers_to else []),
        primary_key=column.primary,
        autoincrement=column.name == "id",
        nullable=column.nullable,
        unique=column.unique or None,
        index=column.index or None,
        server_default=column.default,
        comment=f"{column.meaning} [{column.unit}]",
    )


def _constraints(table: Table) -> list[SchemaItem]:
    closed = [
        (column.name, f"{column.name} IN ({', '.join(map(repr, column.one_of))})")
        for column in table.columns
        if column.one_of
    ]
    return [
        *([sa.UniqueConstraint(*table.unique)] if table.unique else []),
        *(sa.CheckConstraint(condition, name=name) for name, condition in (*closed, *table.checks)),
        *(sa.Index(f"ix_{table.name}_{name}", column) for name, column in table.indexes),
    ]


def built(tables: dict[str, Table]) -> sa.MetaData:
    metadata = sa.MetaData(naming_convention=NAMING)
    for table in tables.values():
        sa.Table(
            table.name,
            metadata,
            *map(_column, table.columns),
            *_constraints(table),
            comment=table.meaning,
            sqlite_with_rowid=not table.by_key,
        )
    return metadata


METADATA = built(TABLES)
DEVICE, SWEEP = METADATA.tables["device"], METADATA.tables["sweep"]  # named, for packages that import them by the face
_REFUSE = (
    "CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS "
    "$$ BEGIN RAISE EXCEPTION 'a committed block never changes'; END $$"
)


def create_tables(connection: sa.Connection) -> None:
    METADATA.create_all(connection, checkfirst=False)
    on_server = connection.dialect.name == "postgresql"
    if on_server:
        connection.exec_driver_sql(_REFUSE)
    for table in TABLES.values():
        aborted = f"BEGIN SELECT RAISE(ABORT, 'a committed {table.committed_with} never changes'); END"
        body = "FOR EACH ROW EXECUTE FUNCTION refuse_change()" if on_server else aborted
        for name, change in table.refusals.items():
            connection.exec_driver_sql(f"CREATE TRIGGER {name} BEFORE {change.upper()} ON {table.name} {body}")


def create_views(connection: sa.Connection) -> None:
    for name, select in store_views().items():
        connection.exec_driver_sql(f"CREATE VIEW {name} AS {select}")


def __getattr__(name: str) -> sa.Table:
    try:
        return METADATA.tables[name.lower()]
    except KeyError:
        raise AttributeError(f"the store has no table {name}") from None
