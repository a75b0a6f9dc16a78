"""Keep logs of measured requests, and what pools of prompt instances find in their caches and turn away.

Self-contained: columns and the table are declared as they were at this revision. Nothing that was there changes."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

Key = sa.BigInteger().with_variant(sa.Integer, "sqlite")
OF_LOADS: tuple[tuple[str, sa.types.TypeEngine[Any], str], ...] = (
    ("hit_rate", sa.Double(), "of prompt tokens that a prefix cache held; NULL: no cache was played [ratio]"),
    ("prefill_policy", sa.String(16), "random, load, cache or mooncake; NULL: no pool was played [none]"),
    ("pool_instances", sa.Integer(), "of a pool, which arrivals_per_s is one's part of [instances]"),
    ("cache_blocks", sa.BigInteger(), "that the prefix cache of each instance holds [blocks]"),
    ("balance_threshold", sa.Double(), "best prefix over own, above which it is fetched [ratio]"),
    ("rejected_prompt_share", sa.Double(), "of prompt tokens, those of rejected requests [ratio]"),
)


def _column(name: str, type_: sa.types.TypeEngine[Any], comment: str) -> sa.Column[Any]:
    return sa.Column(name, type_, nullable=False, comment=comment)


def _create(name: str, owner: str, told: str, comment: str, *columns: sa.Column[Any]) -> None:
    """Create a table with a row for some rows of another one."""
    op.create_table(
        name,
        _column(f"{owner}_id", Key, told),
        *columns,
        sa.PrimaryKeyConstraint(f"{owner}_id", name=op.f(f"pk_{name}")),
        sa.ForeignKeyConstraint([f"{owner}_id"], [f"{owner}.id"], name=op.f(f"fk_{name}_{owner}_id_{owner}")),
        comment=comment,
    )


def upgrade() -> None:
    """Add columns to loads, and a table."""
    for name, type_, comment in OF_LOADS:
        op.add_column("load", sa.Column(name, type_, nullable=True, comment=comment))
    _create(
        "measured_requests",
        "measurement",
        "its point [none]",
        "requests of a measured point that has a log of them, packed",
        _column("asked_requests", sa.Integer(), "that the log has [requests]"),
        _column("failed_requests", sa.Integer(), "of those, that got no whole answer [requests]"),
        _column("requests", sa.LargeBinary(), "when each was sent, its lengths, first token and end [none]"),
    )


def downgrade() -> None:
    """Drop both."""
    op.drop_table("measured_requests")
    for name, _, _ in reversed(OF_LOADS):
        op.drop_column("load", name)
