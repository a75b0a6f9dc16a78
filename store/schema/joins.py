"""The one join of scenarios with what they are made of, and the letters that statements call the tables by."""

from __future__ import annotations

ALIASES = {
    "b": "block",
    "sw": "sweep",
    "pb": "probe",
    "sc": "scenario",
    "sj": "subject",
    "m": "model",
    "d": "device",
    "p": "plan",
    "pr": "precision",
    "w": "workload",
}
SCENARIO_REFERENCES = {  # table by alias, and the column of an earlier table that refers to it
    "sj": "sc.subject_id",
    "m": "sj.model_id",
    "d": "sc.device_id",
    "p": "sj.plan_id",
    "pr": "sj.precision_id",
    "w": "sj.workload_id",
}


def scenario_tables(*aliases: str, schema: str = "") -> str:
    return f"{schema}scenario sc{_joined(aliases, schema)}"


def with_scenarios(table: str, reference: str, *aliases: str) -> str:
    return f"{table} JOIN scenario sc ON sc.id = {reference}{_joined(aliases, '')}"


def _joined(aliases: tuple[str, ...], schema: str) -> str:
    wanted = {"sj", *aliases} if aliases else set(SCENARIO_REFERENCES)
    return "".join(
        f" JOIN {schema}{ALIASES[alias]} {alias} ON {alias}.id = {reference}"
        for alias, reference in SCENARIO_REFERENCES.items()
        if alias in wanted
    )


SCENARIO_TABLES = scenario_tables()
BLOCK_TABLES = with_scenarios("block b JOIN sweep sw ON sw.id = b.sweep_id", "b.scenario_id")
# Left joins keep SQLite, which ANALYZE tells how small other tables are, from beginning with these: minutes instead of
# milliseconds in a store of a million scenarios. A reference is never NULL, so rows are the same.
BLOCKS_FIRST = BLOCK_TABLES.replace(" JOIN ", " LEFT JOIN ")
