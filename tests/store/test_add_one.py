"""A column of a table reaches rows, SQL, checks and the reference page by its declaration and a migration alone.

Columns of probes, plans and subjects: tests/test_add_column.py."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

from store.migrating import create_store
from store.revision import HEAD_REVISION

ROOT = Path(__file__).parents[2]
PROGRAM = """
import json, sys
from queries.connect import connect
from queries.dictionary import schema_markdown
from store.location import parse_url
from store.migrating import upgrade_store
from store.opening import open_store
from store.records import PriceRecord
from store.upkeep import check_store
from store.writing.beside import put_prices
(url,) = sys.argv[1:]
upgrade_store(url)
with open_store(url) as store:
    price = PriceRecord(device_name="H100", effective_from="2026-01-01", usd_per_device_hour=2, watts_per_device=None)
    put_prices(store, [price])
with connect(url) as connection:
    answered = connection.execute("SELECT notice_s FROM price").fetchall()
print(json.dumps({
    "faults": check_store(parse_url(url)).faults,  # differences of tables and declaration among them
    "answered": answered,
    "page": [line for line in schema_markdown().splitlines() if line.startswith("| `notice_s` |")],
}))
"""
NEXT = f"{int(HEAD_REVISION) + 1:04d}"
MIGRATION = f'''"""Add a column, as the next release might."""
import sqlalchemy as sa
from alembic import op

revision = "{NEXT}"
down_revision = "{HEAD_REVISION}"


def upgrade():
    op.add_column("price", sa.Column("notice_s", sa.Double(), nullable=True, comment="how long before it is due [s]"))
    op.execute("CREATE TRIGGER due AFTER INSERT ON price BEGIN UPDATE price SET notice_s = 7.5; END")
'''
DECLARED = (
    "price,watts_per_device,",
    "price,notice_s,double,s,how long before it is due,null,\n",
)


def test_a_column_of_a_table_is_its_declaration_and_a_migration(tmp_path):
    for package in ("store", "queries", "migrations"):
        shutil.copytree(ROOT / package, tmp_path / package)
    file, (before, declared) = tmp_path / "store" / "schema" / "columns.csv", DECLARED
    assert file.read_text().count(before) == 1
    file.write_text(file.read_text().replace(before, f"{declared}{before}"))
    create_store(f"sqlite:///{tmp_path}/store.sqlite")
    (tmp_path / "migrations" / "versions" / f"{NEXT}_added.py").write_text(MIGRATION)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, f"sqlite:///{tmp_path}/store.sqlite"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
        env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["faults"] == []
    assert found["answered"] == [[7.5]]
    assert found["page"] == ["| `notice_s` | DOUBLE | s | how long before it is due |"] * 2  # of price and raw.price
