"""Keep probes of blocks in files that the store names, so that many workers can write without its database.

Self-contained: the tables are declared as they were at this revision. Nothing that was there changes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

Key = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Add four tables."""
    _parts()
    op.create_table(
        "shard",
        sa.Column("sweep_id", Key, nullable=False, comment="the sweep [none]"),
        sa.Column(
            "key", sa.String(64), nullable=False, comment="content key of its scenarios and batch intervals [sha256]"
        ),
        sa.Column("scenarios", sa.Integer(), nullable=False, comment="how many scenarios [scenarios]"),
        sa.Column("probes", sa.BigInteger(), nullable=False, comment="how many probes [probes]"),
        sa.Column("state", sa.String(16), nullable=False, comment="waiting, stored or failed [none]"),
        sa.Column("reason", sa.Text(), nullable=True, comment="why it failed [none]"),
        sa.Column("changed_at", sa.DateTime(timezone=True), nullable=False, comment="when its state changed [UTC]"),
        sa.PrimaryKeyConstraint("sweep_id", "key", name=op.f("pk_shard")),
        sa.ForeignKeyConstraint(["sweep_id"], ["sweep.id"], name=op.f("fk_shard_sweep_id_sweep")),
        sa.CheckConstraint("state IN ('waiting', 'stored', 'failed')", name=op.f("ck_shard_state")),
        comment="pieces of sweeps that workers evaluate, each a part",
    )


def _parts() -> None:
    op.create_table(
        "part",
        sa.Column("id", Key, nullable=False, comment="integer key [none]"),
        sa.Column("name", sa.String(200), nullable=False, comment="file name, of its own for each attempt [none]"),
        sa.Column("folder", sa.Text(), nullable=False, comment="where it was written [none]"),
        sa.Column("bytes", sa.BigInteger(), nullable=False, comment="size of the file [bytes]"),
        sa.Column("sha256", sa.String(64), nullable=False, comment="digest of the file [sha256]"),
        sa.Column("row_count", sa.BigInteger(), nullable=False, comment="probes of the blocks that it holds [probes]"),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, comment="when it was registered [UTC]"),
        sa.Column(
            "retired_at",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="when a compaction replaced it; NULL: in use [UTC]",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_part")),
        sa.UniqueConstraint("name", name=op.f("uq_part_name")),
        comment="files that hold the probes of blocks; what no row here names is no part of the store",
    )
    op.create_table(
        "part_block",
        sa.Column("first_block", Key, nullable=False, autoincrement=False, comment="from this block on [none]"),
        sa.Column("last_block", sa.BigInteger(), nullable=False, comment="to this one [none]"),
        sa.Column("part_id", Key, nullable=False, comment="the part [none]"),
        sa.PrimaryKeyConstraint("first_block", name=op.f("pk_part_block")),
        sa.ForeignKeyConstraint(["part_id"], ["part.id"], name=op.f("fk_part_block_part_id_part")),
        sa.CheckConstraint("last_block >= first_block", name=op.f("ck_part_block_interval")),
        comment="which part holds which blocks; the probes of other blocks are rows",
    )
    op.create_index(op.f("ix_part_block_part_id"), "part_block", ["part_id"])
    op.create_table(
        "part_subject",
        sa.Column("part_id", Key, nullable=False, comment="the part [none]"),
        sa.Column("model_id", Key, nullable=False, comment="the model [none]"),
        sa.Column("workload_id", Key, nullable=False, comment="what is served [none]"),
        sa.Column("phase", sa.String(16), nullable=False, comment="prefill, decode or aggregated [none]"),
        sa.Column("probes", sa.BigInteger(), nullable=False, comment="how many of it [probes]"),
        sa.PrimaryKeyConstraint("part_id", "model_id", "workload_id", "phase", name=op.f("pk_part_subject")),
        sa.ForeignKeyConstraint(["part_id"], ["part.id"], name=op.f("fk_part_subject_part_id_part")),
        sa.ForeignKeyConstraint(["model_id"], ["model.id"], name=op.f("fk_part_subject_model_id_model")),
        sa.ForeignKeyConstraint(["workload_id"], ["workload.id"], name=op.f("fk_part_subject_workload_id_workload")),
        comment="what a part is about, for its compaction",
    )
    op.create_index(op.f("ix_part_subject_model_id"), "part_subject", ["model_id"])


def downgrade() -> None:
    """Drop them; refused where probes lie in parts, whose blocks would be left without any."""
    held = op.get_bind().execute(sa.text("SELECT COUNT(*) FROM part_block")).scalar_one()
    if held:
        raise RuntimeError("probes of this store lie in parts, which older revisions cannot read")
    for table in ("shard", "part_subject", "part_block", "part"):
        op.drop_table(table)
