"""Keep what many measured points share in a table that they refer to, so that an import writes half as much.

Self-contained: columns are declared as they were at this revision. Points that agree in all of them share a row, which
has the number of the first of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"

_KEY = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_OF_POINTS: tuple[tuple[str, Any, str], ...] = (
    ("source_format", sa.String(64), "reader that understood it [none]"),
    ("model", sa.String(500), "model as the source names it [none]"),
    ("device", sa.String(200), "device, our name where known [none]"),
    ("engine", sa.String(64), "serving engine [none]"),
    ("engine_version", sa.String(64), "its version [none]"),
    ("mode", sa.String(32), "aggregated, disaggregated, prefill, decode [none]"),
    ("precision", sa.String(64), "weights, as the source names them [none]"),
    ("kv_precision", sa.String(64), "KV cache, as the source names it [none]"),
    ("num_devices", sa.Integer(), "devices of everything that served it [devices]"),
    ("definitions", sa.Text(), "how the source defines each metric [JSON]"),
    ("measured_by", sa.String(200), "who ran it [none]"),
    ("engine_commit", sa.String(64), "commit of the engine [none]"),
    ("image", sa.String(500), "container image of the server [none]"),
    ("host", sa.String(200), "machine it ran on [none]"),
    ("driver", sa.String(64), "version of the device's driver [none]"),
    ("flags", sa.Text(), "flags the server was started with [none]"),
    ("git_revision", sa.String(64), "revision of the user's own project [none]"),
    ("tags", sa.String(500), "tags in the order of the alphabet, parted by commas [none]"),
    ("file", sa.String(64), "digest of the path it was read from [none]"),
    ("imported_at", sa.DateTime(timezone=True), "when imported [UTC]"),
)
_SAME = " (aggregated: the same on both)"
_OF_SIDES: tuple[tuple[str, Any, str, str], ...] = (
    ("instances", sa.Integer(), _SAME, "instances of this side [instances]"),
    ("tp", sa.Integer(), _SAME, "tensor parallel size [devices]"),
    ("pp", sa.Integer(), _SAME, "pipeline stages [devices]"),
    ("dp", sa.Integer(), _SAME, "data parallel replicas [replicas]"),
    ("ep", sa.Integer(), _SAME, "expert parallel size [devices]"),
    ("moe_tp", sa.Integer(), _SAME, "tensor parallel size inside experts [devices]"),
    ("moe_dp", sa.Integer(), _SAME, "replicas of the expert group [replicas]"),
    ("batch_size", sa.Double(), "", "batch size [requests]"),
    ("dcp", sa.Integer(), _SAME, "devices that share the tokens of a context [devices]"),
    ("pcp", sa.Integer(), _SAME, "groups that the new tokens of prompts are divided among [devices]"),
    ("micro_batches", sa.Integer(), _SAME,
     "parts of a batch, of which one exchanges tokens while another computes [batches]"),
)  # fmt: skip
_NEVER_MISSING = ("source_format", "definitions", "imported_at")
_INDEXED = ("model", "device", "file")


def _shared(*, filled: bool) -> Iterator[sa.Column[Any]]:
    """As they are, or before they are `filled`."""
    sides = [
        (f"{side}_{name}", kind, f"{side} side{same}: {meaning}")
        for name, kind, same, meaning in _OF_SIDES
        for side in ("prefill", "decode")
    ]
    for name, kind, meaning in (*_OF_POINTS, *sides):
        yield sa.Column(name, kind, nullable=not filled or name not in _NEVER_MISSING, comment=meaning)


_NAMES = [column.name for column in _shared(filled=True)]


def upgrade() -> None:
    """Number the points that agree, move what they share, and drop it from them."""
    op.create_table(
        "measurement_facts",
        sa.Column("id", _KEY, primary_key=True, autoincrement=True, nullable=False, comment="integer key [none]"),
        *_shared(filled=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_measurement_facts")),
        comment="what many measured points of one import have in common",
    )
    op.add_column("measurement", sa.Column("facts_id", _KEY, nullable=True, comment="the rest of what it says [none]"))
    listed = ", ".join(_NAMES)
    op.execute(
        "UPDATE measurement SET facts_id = told.first FROM"  # noqa: S608  names of this file
        f" (SELECT id, min(id) OVER (PARTITION BY {listed}) AS first FROM measurement) AS told"
        " WHERE told.id = measurement.id"
    )
    op.execute(
        f"INSERT INTO measurement_facts (id, {listed})"  # noqa: S608  names of this file
        f" SELECT id, {listed} FROM measurement WHERE id = facts_id"
    )
    if op.get_bind().dialect.name == "postgresql":
        op.execute(
            "SELECT setval(pg_get_serial_sequence('measurement_facts', 'id'), coalesce(max(id), 1),"
            " max(id) IS NOT NULL) FROM measurement_facts"
        )
    for name in _INDEXED:
        op.drop_index(op.f(f"ix_measurement_{name}"), table_name="measurement")
    with op.batch_alter_table("measurement") as table:
        table.alter_column("facts_id", existing_type=_KEY, nullable=False)
        table.create_foreign_key(
            op.f("fk_measurement_facts_id_measurement_facts"), "measurement_facts", ["facts_id"], ["id"]
        )
        for name in _NAMES:
            table.drop_column(name)
    op.create_index(op.f("ix_measurement_facts_id"), "measurement", ["facts_id"])
    op.create_index(op.f("ix_measurement_facts_file"), "measurement_facts", ["file"])


def downgrade() -> None:
    """Give every point what it shares again."""
    for column in _shared(filled=False):
        op.add_column("measurement", column)
    given = ", ".join(f"{name} = told.{name}" for name in _NAMES)
    op.execute(
        f"UPDATE measurement SET {given} FROM measurement_facts AS told WHERE told.id = measurement.facts_id"  # noqa: S608
    )
    op.drop_index(op.f("ix_measurement_facts_id"), table_name="measurement")
    with op.batch_alter_table("measurement") as table:
        for column in _shared(filled=True):
            if not column.nullable:
                table.alter_column(column.name, existing_type=column.type, nullable=False)
        table.drop_constraint(op.f("fk_measurement_facts_id_measurement_facts"), type_="foreignkey")
        table.drop_column("facts_id")
    op.drop_table("measurement_facts")
    for name in _INDEXED:
        op.create_index(op.f(f"ix_measurement_{name}"), "measurement", [name])
