"""Keep the device, kind of model, engine, mode, batch and length of a comparison in columns, not in one text.

Self-contained: columns are declared as they were at this revision.
Regions of before are taken apart at their commas."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"

_COLUMNS = (
    ("device", 200, "device that was measured, our name [none]"),
    ("kind", 8, "dense or moe [none]"),
    ("engine", 64, "serving engine as we name it; unstated where the source does not say [none]"),
    ("mode", 32, "aggregated, disaggregated, prefill, decode [none]"),
    ("batch_region", 32, "range of the users of the whole deployment [none]"),
    ("length_region", 32, "range of the prompt length [none]"),
)
_VALIDATION = sa.table("validation", sa.column("region"), *(sa.column(name) for name, *_ in _COLUMNS))
_MEANING = "device, model kind, engine, batch, length [none]"


def upgrade() -> None:
    """Add a column for each part, fill them in, and drop the text."""
    for name, length, meaning in _COLUMNS:
        op.add_column("validation", sa.Column(name, sa.String(length), nullable=True, comment=meaning))
    connection = op.get_bind()
    for (region,) in connection.execute(sa.select(_VALIDATION.c.region).distinct()).fetchall():
        parts = dict(zip((name for name, *_ in _COLUMNS), region.split(", "), strict=False))
        connection.execute(sa.update(_VALIDATION).where(_VALIDATION.c.region == region).values(parts))
    op.drop_index(op.f("ix_validation_region"), table_name="validation")
    op.drop_column("validation", "region")
    op.create_index(op.f("ix_validation_device"), "validation", ["device"])


def downgrade() -> None:
    """Write the parts as one text again."""
    op.add_column(
        "validation", sa.Column("region", sa.String(200), nullable=False, server_default="", comment=_MEANING)
    )
    names = [name for name, *_ in _COLUMNS]
    connection = op.get_bind()
    columns = [_VALIDATION.c[name] for name in names]
    for parts in connection.execute(sa.select(*columns).distinct()).fetchall():
        same = [column.is_not_distinct_from(part) for column, part in zip(columns, parts, strict=True)]
        region = ", ".join(part for part in parts if part is not None)
        connection.execute(sa.update(_VALIDATION).where(*same).values(region=region))
    op.drop_index(op.f("ix_validation_device"), table_name="validation")
    for name in names:
        op.drop_column("validation", name)
    op.create_index(op.f("ix_validation_region"), "validation", ["region"])
