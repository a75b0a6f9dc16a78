"""Public views of a store's database, as today's program generates them.

No revision holds their text."""

from __future__ import annotations

from sqlalchemy import Connection, inspect

from store.errors import StoreError
from store.faults import store_faults
from store.location import StoreLocation
from store.migrating import make_engine, make_reading_engine
from store.schema import create_views, store_views

_COMPARED = "sweepdb_view_of_today"


def drop_views(connection: Connection) -> None:
    present = set(inspect(connection).get_view_names())
    for name in store_views():
        if name in present:
            connection.exec_driver_sql(f"DROP VIEW {name}")


def differing_views(location: StoreLocation) -> tuple[str, ...]:
    """Missing or another program's; none where a server's account may not compare."""
    in_file = location.kind == "sqlite"
    as_today = _of_file if in_file else _of_server
    try:
        with store_faults(location):
            engine = make_reading_engine(location) if in_file else make_engine(location)
            try:
                with engine.connect() as connection:  # and nothing of it is committed
                    return tuple(
                        name for name, select in store_views().items() if not as_today(connection, name, select)
                    )
            finally:
                engine.dispose()
    except StoreError:
        if in_file:
            raise
        return ()  # a temporary view is refused to whoever may only read


def renew_views(location: StoreLocation) -> tuple[str, ...]:
    """Returns those that were not today's; writes nothing where all are."""
    differing = differing_views(location)
    if differing:
        with store_faults(location):
            engine = make_engine(location)
            try:
                with engine.begin() as connection:
                    drop_views(connection)
                    create_views(connection)
            finally:
                engine.dispose()
    return differing


def _of_file(connection: Connection, name: str, select: str) -> bool:
    kept = connection.exec_driver_sql("SELECT sql FROM sqlite_master WHERE type = 'view' AND name = ?", (name,))
    return kept.scalar() == f"CREATE VIEW {name} AS {select}"


def _of_server(connection: Connection, name: str, select: str) -> bool:
    """A server rewrites views as it understands them, so today's is rewritten beside it."""
    kept = connection.exec_driver_sql(f"SELECT pg_get_viewdef(to_regclass('{name}'))").scalar()
    connection.exec_driver_sql(f"CREATE TEMPORARY VIEW {_COMPARED} AS {select}")
    wanted = connection.exec_driver_sql(f"SELECT pg_get_viewdef('{_COMPARED}'::regclass)").scalar()
    connection.exec_driver_sql(f"DROP VIEW {_COMPARED}")
    return bool(kept == wanted)
