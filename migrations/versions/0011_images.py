"""Keep what workloads say of images: how many of which size, what a model makes of them, and who shares its encoder.

Self-contained: the columns are declared as they were at this revision. Workloads that are there have no images."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"

ADDED = (
    ("images", sa.Integer(), "images of a request; NULL: text alone [images]"),
    ("image_width", sa.Integer(), "width of an image as it is sent [pixels]"),
    ("image_height", sa.Integer(), "height of an image as it is sent [pixels]"),
    ("image_patches", sa.Integer(), "patches that the encoder computes for an image [patches]"),
    ("image_tokens", sa.Integer(), "prompt tokens of an image, inside the prompt length [tokens]"),
    ("encoder_split", sa.String(16), "what ranks of the image encoder share: weights or data [none]"),
)


def upgrade() -> None:
    """Add six columns, empty in every workload that is there."""
    for name, kind, meaning in ADDED:
        op.add_column("workload", sa.Column(name, kind, nullable=True, comment=meaning))


def downgrade() -> None:
    """Drop them; refused where workloads have images, which older revisions would take for text."""
    held = op.get_bind().execute(sa.text("SELECT COUNT(*) FROM workload WHERE images IS NOT NULL")).scalar_one()
    if held:
        raise RuntimeError("workloads of this store have images, which older revisions cannot read")
    for name, _, _ in reversed(ADDED):
        op.drop_column("workload", name)
