"""Runs revisions over the connection of store.migrating, then renews views.

Not for alembic's command line: use `sweepdb db upgrade`."""

from __future__ import annotations

from alembic import context
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from migrations.views import drop_views
from store.schema import METADATA, create_views


def run() -> None:
    """In the caller's transaction. Only the newest revision has views."""
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
