"""Say which folders of parts belong to a database, and how each file was when it was named.

Self-contained: tables are declared as they were at this revision. Nothing that was there changes: parts of before lie
in no folder of their own, and their files are compared by their digest."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    """Add two tables."""
    op.create_table(
        "part_file",
        sa.Column("name", sa.String(200), nullable=False, comment="file name [none]"),
        sa.Column(
            "footer",
            sa.String(64),
            nullable=False,
            comment="digest of the footer, which says where every column lies [sha256]",
        ),
        sa.Column(
            "mtime_ns",
            sa.BigInteger(),
            nullable=True,
            comment="when the content changed; NULL: the place keeps no such times [ns]",
        ),
        sa.Column(
            "ctime_ns",
            sa.BigInteger(),
            nullable=True,
            comment="when anything of the file changed, which nobody can set back [ns]",
        ),
        sa.Column("inode", sa.BigInteger(), nullable=True, comment="number of the file on its disk [none]"),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_part_file")),
        comment="how files of parts, thinned ones too, were when they were named; where none is known the digest tells",
    )
    op.create_table(
        "part_claim",
        sa.Column(
            "home",
            sa.String(60),
            nullable=False,
            comment="name of the folder below the place of parts, or . for it [none]",
        ),
        sa.Column(
            "token",
            sa.String(32),
            nullable=False,
            comment="secret that the folder names, too, while it belongs to this database [hex]",
        ),
        sa.Column(
            "database",
            sa.Text(),
            nullable=False,
            comment="the database that said so: its file, or its server [none]",
        ),
        sa.Column("claimed_at", sa.DateTime(timezone=True), nullable=False, comment="when [UTC]"),
        sa.PrimaryKeyConstraint("home", name=op.f("pk_part_claim")),
        comment="folders of parts that this database may change, by the database that said so: a copy is another",
    )


def downgrade() -> None:
    """Drop both."""
    op.drop_table("part_claim")
    op.drop_table("part_file")
