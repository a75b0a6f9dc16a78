"""Tell plans apart by the devices that share a context's tokens, and by copies of experts.

Self-contained: the columns are declared as they were at this revision. Plans that are there share no context and have
no copies; a plan is one of all sizes together."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

SIZES = ("tp", "pp", "dp", "ep", "moe_tp", "moe_dp")
ADDED = (
    ("dcp", "1", "devices that share the tokens of a context [devices]"),
    ("redundant_experts", "0", "copies of experts in a layer beside them [experts]"),
)


def upgrade() -> None:
    """Add two sizes, and make the set of all unique."""
    with op.batch_alter_table("plan") as plan:
        for name, default, meaning in ADDED:
            plan.add_column(sa.Column(name, sa.Integer(), nullable=False, server_default=default, comment=meaning))
        plan.drop_constraint(op.f("uq_plan_tp"), type_="unique")
        plan.create_unique_constraint(op.f("uq_plan_tp"), [*SIZES, *(name for name, _, _ in ADDED)])


def downgrade() -> None:
    """Drop them; plans that differ in nothing else cannot be kept apart, and stop it."""
    with op.batch_alter_table("plan") as plan:
        plan.drop_constraint(op.f("uq_plan_tp"), type_="unique")
        plan.create_unique_constraint(op.f("uq_plan_tp"), list(SIZES))
        for name, _, _ in ADDED:
            plan.drop_column(name)
