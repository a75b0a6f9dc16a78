"""Alembic environment: runs revisions over the connection that store.migrating hands in, and lays the views down anew.

Not for the alembic command line: `sweepdb db upgrade` is the way to migrate."""

from __future__ import annotations

from alembic import context
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from migrations.views import drop_views
from store.schema import METADATA, create_views


def run() -> None:
    """Run the asked revisions inside the caller's transaction. Only a store at the newest one has views."""
    connection = context.config.attributes.get("connection")
    if not isinstance(connection, Connection):
        raise TypeError("Revisions run over a connection that store.migrating hands in: use `sweepdb db upgrade`.")
    context.configure(
        connection=connection,
        target_metadata=METADATA,
        transactional_ddl=True,  # SQLite's tables too come and go with their transaction
        render_as_batch=connection.dialect.name == "sqlite",  # SQLite changes a table by building it anew
        compare_type=True,
    )
    drop_views(connection)
    context.run_migrations()
    if context.get_context().get_current_heads() == tuple(ScriptDirectory.from_config(context.config).get_heads()):
        create_views(connection)


run()
