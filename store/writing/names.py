"""Names that models and workloads were given elsewhere, for those that this store knows."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select

from store.opening import Store
from store.schema.sql_tables import MODEL, MODEL_ALIAS, WORKLOAD
from store.schema.tables import TABLES
from store.writing.scenarios import name_workloads
from store.writing.statements import insert_missing


def put_names(store: Store, names: Sequence[tuple[str, str, str]]) -> None:
    """Store names: each is a kind (model or workload), the name, and the content key of what it names."""
    with store.writing() as connection:
        models = {row.key: row.id for row in connection.execute(select(MODEL.c.key, MODEL.c.id))}
        workloads = {row.key: row.id for row in connection.execute(select(WORKLOAD.c.key, WORKLOAD.c.id))}
        of_models = TABLES["model_alias"]
        aliases = [
            of_models.row_of(None, alias=name, model_id=models[key])
            for kind, name, key in names
            if kind == "model" and key in models
        ]
        insert_missing(connection, MODEL_ALIAS, aliases)
        named = {name: workloads[key] for kind, name, key in names if kind == "workload" and key in workloads}
        name_workloads(connection, named)
