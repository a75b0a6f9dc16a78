"""Tell requests from validations and imports, and keep what a scenario knows of client, launch and routing.

Self-contained: columns are declared here as they were at this revision. Every table gains its columns in place: none is
built anew, so triggers stay, and `probe`, the largest, is not copied."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

KIND = "kind IN ('request', 'validation', 'import')"
Declared = tuple[str, type[sa.types.TypeEngine[Any]] | sa.types.TypeEngine[Any], str]  # name, type, comment
_PROMPT_SERVICE = (
    "what one more prompt adds to a prefill replica that runs full steps;"
    " NULL under waves and seed002, and outside the prefill phase [ms]"
)
ADDED: dict[str, tuple[Declared, ...]] = {  # each may be NULL
    "subject": (
        ("shortest_length", sa.Double, "shortest request of the client, of its nominal length; NULL: not read [ratio]"),
        ("prompts_per_user", sa.Integer, "requests each user sends; NULL: not read [requests]"),
        ("poll_steps", sa.Integer, "steps between looks for new requests; NULL: not read [steps]"),
        ("seats", sa.Integer, "requests a replica decodes at once; NULL: no bound or not read [requests]"),
        ("wait_steps", sa.Integer, "steps that prompts wait for each other; NULL: not read [steps]"),
        ("routing", sa.String(32), "how experts are loaded; NULL: not read [none]"),
        (
            "unusual_service",
            sa.String(100),
            "which of client, launch and routing were said, by column; NULL: not known [none]",
        ),
    ),
    "scenario": (
        ("launchable_by", sa.String(200), "engines that launch the plan as one server; NULL: not known [none]"),
    ),
    "probe": (("prompt_service_ms", sa.Double, _PROMPT_SERVICE),),
    "validation": (
        ("knowledge", sa.String(8), "evaluated as asked, as known, or both where they are one; NULL: not known [none]"),
    ),
}


def upgrade() -> None:
    """Add the columns, then mark the sweeps that comparisons left, and those that an import brought: such a sweep kept
    the time at which it ended elsewhere, and the blocks that came with it are all younger than that."""
    for table, columns in ADDED.items():
        for name, type_, comment in columns:
            op.add_column(table, sa.Column(name, type_, nullable=True, comment=comment))
    kind = sa.Column(
        "kind",
        sa.String(16),
        sa.CheckConstraint(KIND, name=op.f("ck_sweep_kind")),
        nullable=False,
        server_default="request",
        comment="request, validation or import [none]",
    )
    op.add_column("sweep", kind)
    stored = sa.table("sweep", sa.column("label"), sa.column("arguments"), sa.column("kind"))
    compared = (stored.c.label == "validation") & stored.c.arguments.like('%"kind": "validation"%')
    op.execute(stored.update().where(compared).values(kind="validation"))
    sweep = sa.table("sweep", sa.column("id"), sa.column("finished_at"), sa.column("kind"))
    block = sa.table("block", sa.column("sweep_id"), sa.column("created_at"))
    mine = block.c.sweep_id == sweep.c.id
    within = sa.exists().where(mine, block.c.created_at <= sweep.c.finished_at)
    imported = sweep.c.finished_at.is_not(None) & sa.exists().where(mine) & ~within & (sweep.c.kind == "request")
    op.execute(sweep.update().where(imported).values(kind="import"))


def downgrade() -> None:
    """Drop the columns; the check of `kind` goes with it."""
    op.drop_column("sweep", "kind")
    for table, columns in ADDED.items():
        for name, _, _ in columns:
            op.drop_column(table, name)
