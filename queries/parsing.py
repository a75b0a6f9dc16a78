"""DuckDB's parser, without binding: what statements refer to and would do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from store.light_dataclass import dataclass

if TYPE_CHECKING:
    import duckdb

from store.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedSelect:
    tables: frozenset[str]  # relations, common table expressions among them
    functions: frozenset[str]  # scalar and table functions, macros among them
    table_functions: frozenset[str]
    node_types: frozenset[str]  # kinds of query nodes: what the statement and its parts do
    looks_at_catalog: bool  # SHOW TABLES and the like, which list what exists


def parse_select(connection: duckdb.DuckDBPyConnection, sql: str) -> ParsedSelect | None:
    row = connection.execute(
        "SELECT json_serialize_sql($sql, skip_null := true, skip_empty := true)", {"sql": sql}
    ).fetchone()
    try:
        document = json.loads(row[0]) if row else {}
        if document.get("error", True) or len(document["statements"]) != 1:
            return None
        return _parsed(document["statements"][0])
    except RecursionError:
        raise InputError("The statement is nested too deeply.", hint="Name its parts in a WITH clause.") from None


def _parsed(tree: dict[str, Any]) -> ParsedSelect:
    tables, functions, table_functions, nodes = set(), set(), set(), set()
    catalog = False
    for node in _dictionaries(tree):
        kind = node.get("type")
        if isinstance(kind, str) and kind.endswith("_NODE"):
            nodes.add(kind)
        if kind == "SHOW_REF":
            catalog = catalog or "table_name" in node
        elif kind == "BASE_TABLE":
            tables.add(str(node.get("table_name", "")).lower())
            catalog = catalog or str(node.get("schema_name", "")).lower() in {"information_schema", "pg_catalog"}
        if "function_name" in node:
            functions.add(str(node["function_name"]).lower())
        if kind == "TABLE_FUNCTION":
            table_functions.add(str(node.get("function", {}).get("function_name", "")).lower())
    catalog = catalog or any(name.startswith(("duckdb_", "pragma_", "sqlite_", "pg_")) for name in functions | tables)
    return ParsedSelect(
        tables=frozenset(tables),
        functions=frozenset(functions),
        table_functions=frozenset(table_functions),
        node_types=frozenset(nodes),
        looks_at_catalog=catalog,
    )


def _dictionaries(tree: object) -> Iterator[dict[str, Any]]:
    pending = [tree]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            yield item
            pending.extend(item.values())
        elif isinstance(item, list):
            pending.extend(item)
