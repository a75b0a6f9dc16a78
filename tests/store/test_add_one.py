"""A column that is declared reaches table, stored rows, snapshots, SQL and the reference page without another edit.

Each test adds one to a copy of the program, with the migration that stores get it by."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from store.migrating import create_store
from store.revision import HEAD_REVISION

ROOT = Path(__file__).parents[2]
PROGRAM = """
import json, sys
from dataclasses import fields, replace
import duckdb, numpy as np
from generator import block, scenarios, sweep_record
from queries.connect import connect
from queries.dictionary import schema_markdown
from store.migrating import upgrade_store
from store.upkeep import check_store
from store.location import parse_url
from store.opening import open_store
from store.records import PriceRecord, SubjectRecord
from store.sealing import seal
from store.writing import begin_sweep, put_block, put_scenarios
from store.writing.prices import put_prices
url, relation, column = sys.argv[1:]
upgrade_store(url)
with open_store(url) as store:
    record = next(item for item in scenarios(seed=1) if item.status == "ok")
    if column in {field.name for field in fields(SubjectRecord)}:
        record = replace(record, subject=replace(record.subject, **{column: 7.5}))
    (ref,) = put_scenarios(store, begin_sweep(store, sweep_record(key="a" * 32)), [record])
    probes = block(record, 1, 3)
    if column in probes.columns:
        probes = replace(probes, columns={**probes.columns, column: np.array([7.5, np.nan, 7.5])})
    put_block(store, 1, ref.id, probes)
    if relation == "price":
        price = PriceRecord(device_name="H100", effective_from="2026-01-01", usd_per_device_hour=2, watts_per_device=None)
        put_prices(store, [price])
    seal(store)
(part,) = parse_url(url).path.parent.glob("*.snapshots/part-*.parquet")
with connect(url) as connection:
    answered = connection.execute(f"SELECT {column} FROM {relation} ORDER BY 1 NULLS LAST").fetchall()
print(json.dumps({
    "faults": check_store(parse_url(url)).faults,  # differences of tables and declaration among them
    "answered": [value for (value,) in answered],
    "sealed": column in duckdb.sql(f"SELECT * FROM read_parquet('{part}')").columns,
    "page": [line for line in schema_markdown().splitlines() if line.startswith(f"| `{column}` |")],
}))
"""
NEXT = f"{int(HEAD_REVISION) + 1:04d}"
MIGRATION = f'''"""Add a column, as the next release might."""
import sqlalchemy as sa
from alembic import op

revision = "{NEXT}"
down_revision = "{HEAD_REVISION}"


def upgrade():
    op.add_column("{{table}}", sa.Column("{{column}}", sa.Double(), nullable=True, comment="{{meaning}} [s]"))
    {{then}}
'''
COLUMN = '    optional("{column}", DOUBLE, "s", "{meaning}"),\n'


@pytest.fixture
def program(tmp_path):
    """A copy of the program; called with what is inserted before which text of which files, and the migration."""
    for package in ("store", "queries", "migrations"):
        shutil.copytree(ROOT / package, tmp_path / package)

    def run(*edits, relation, table, column, meaning, then="pass"):
        declared = COLUMN.format(column=column, meaning=meaning)
        for file, before, text in (
            *edits,
            ("store/revision.py", "HEAD_REVISION = REVISIONS", f'REVISIONS = (*REVISIONS, "{NEXT}")\n'),
        ):
            source = (tmp_path / file).read_text()
            assert source.count(before) == 1, (file, before)
            (tmp_path / file).write_text(source.replace(before, f"{text or declared}{before}"))
        migration = MIGRATION.format(table=table, column=column, meaning=meaning, then=then)
        (tmp_path / "migrations" / "versions" / f"{NEXT}_added.py").write_text(migration)
        url = f"sqlite:///{tmp_path}/store.sqlite"
        create_store(url)
        command = [sys.executable, "-c", PROGRAM, url, relation, column]
        path = f"{tmp_path}:{ROOT / 'tests'}"
        done = subprocess.run(
            command, cwd=tmp_path, env={"PYTHONPATH": path, "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


@pytest.mark.survival
def test_a_measure_of_probes_is_its_declaration_and_a_migration(program):
    found = program(
        ("store/schema/measures.py", '    _milliseconds(\n        "prompt_service_ms"', None),
        relation="probe", table="probe", column="warm_up_s", meaning="time of the first request",
    )  # fmt: skip
    assert found["faults"] == []
    assert found["answered"] == [7.5, 7.5, None]
    assert found["sealed"]
    assert set(found["page"]) == {"| `warm_up_s` | DOUBLE | s | time of the first request |"}
    assert len(found["page"]) == 2  # of probe and raw.stored_probe; the other views repeat those of probe


def test_a_column_of_a_table_is_its_declaration_and_a_migration(program):
    found = program(
        ("store/schema/compared_tables.py", '            optional("watts_per_device"', None),
        relation="price", table="price", column="notice_s", meaning="how long before it is due",
        then="op.execute('CREATE TRIGGER due AFTER INSERT ON price BEGIN UPDATE price SET notice_s = 7.5; END')",
    )  # fmt: skip
    assert found["faults"] == []
    assert found["answered"] == [7.5]
    assert not found["sealed"]
    assert found["page"] == ["| `notice_s` | DOUBLE | s | how long before it is due |"] * 2  # of price and raw.price


@pytest.mark.survival
def test_a_field_of_subjects_is_its_declaration_its_record_and_a_migration(program):
    found = program(
        ("store/schema/tables.py", '            Column("serving_cost_ms"', None),
        ("store/records.py", "    shortest_length: float | None", "    patience_s: float | None = None\n"),
        relation="probe", table="subject", column="patience_s", meaning="how long a client waits",
    )  # fmt: skip
    assert found["faults"] == []
    assert found["answered"] == [7.5] * 3
    assert found["sealed"]
    assert set(found["page"]) == {"| `patience_s` | DOUBLE | s | how long a client waits |"}
