"""Name files that hold the rows of a part that can win, so that questions about many scenarios read few rows.

Self-contained: the table is declared as it was at this revision. Nothing that was there changes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"

Key = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Add one table."""
    op.create_table(
        "part_thinned",
        sa.Column("part_id", Key, nullable=False, autoincrement=False, comment="the part [none]"),
        sa.Column("name", sa.String(200), nullable=False, comment="file name, of its own for each attempt [none]"),
        sa.Column("folder", sa.Text(), nullable=False, comment="where it was written [none]"),
        sa.Column("bytes", sa.BigInteger(), nullable=False, comment="size of the file [bytes]"),
        sa.Column("sha256", sa.String(64), nullable=False, comment="digest of the file [sha256]"),
        sa.Column("row_count", sa.BigInteger(), nullable=False, comment="probes that it holds [probes]"),
        sa.Column(
            "rules",
            sa.Integer(),
            nullable=False,
            comment="version of the rules by which others were left out [none]",
        ),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, comment="when it was registered [UTC]"),
        sa.PrimaryKeyConstraint("part_id", name=op.f("pk_part_thinned")),
        sa.ForeignKeyConstraint(["part_id"], ["part.id"], name=op.f("fk_part_thinned_part_id_part")),
        sa.UniqueConstraint("name", name=op.f("uq_part_thinned_name")),
        comment="files beside parts with those of their rows alone that can win; what they lack is in the part",
    )


def downgrade() -> None:
    """Drop it; its files are strangers then, which a compaction removes."""
    op.drop_table("part_thinned")
