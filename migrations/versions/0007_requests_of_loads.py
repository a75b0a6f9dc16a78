"""Keep every request of a load, where that is asked for.

Self-contained: the table is declared as it was at this revision. Nothing that was there changes. What is kept never
changes; it may be removed, which loses no distribution."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

Key = sa.BigInteger().with_variant(sa.Integer, "sqlite")
BODIES = {
    "sqlite": "BEGIN SELECT RAISE(ABORT, 'a committed load never changes'); END",
    "postgresql": "FOR EACH ROW EXECUTE FUNCTION refuse_change()",
}


def upgrade() -> None:
    """Add a table."""
    op.create_table(
        "load_request",
        sa.Column("load_id", Key, nullable=False, comment="its load [none]"),
        sa.Column("kept_requests", sa.Integer(), nullable=False, comment="how many they are [requests]"),
        sa.Column(
            "digest",
            sa.String(64),
            nullable=False,
            comment="over the load's key and every number of its requests [sha256]",
        ),
        sa.Column(
            "requests",
            sa.LargeBinary(),
            nullable=False,
            comment="arrival, lengths, TTFT, TPOT, longest gap and preemptions of each [none]",
        ),
        sa.PrimaryKeyConstraint("load_id", name=op.f("pk_load_request")),
        sa.ForeignKeyConstraint(["load_id"], ["load.id"], name=op.f("fk_load_request_load_id_load")),
        comment="every request of a load, packed, where they are kept",
    )
    body = BODIES[op.get_bind().dialect.name]
    op.execute(f"CREATE TRIGGER load_request_refuses_update BEFORE UPDATE ON load_request {body}")


def downgrade() -> None:
    """Drop it; its trigger goes with it."""
    op.drop_table("load_request")
