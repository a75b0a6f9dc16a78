"""Keep the run that measured a point beside it, and in columns where a point was read from.

Self-contained: columns are declared as they were at this revision. What `extra` said of the file moves to columns."""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"

_COLUMNS: tuple[tuple[str, Any, str], ...] = (
    ("measured_by", sa.String(200), "who ran it [none]"),
    ("engine_commit", sa.String(64), "commit of the engine [none]"),
    ("image", sa.String(500), "container image of the server [none]"),
    ("host", sa.String(200), "machine it ran on [none]"),
    ("driver", sa.String(64), "version of the device's driver [none]"),
    ("flags", sa.Text(), "flags the server was started with [none]"),
    ("git_revision", sa.String(64), "revision of the user's own project [none]"),
    ("tags", sa.String(500), "tags in the order of the alphabet, parted by commas [none]"),
    ("completed_requests", sa.Integer(), "requests that got their whole answer [requests]"),
    ("failed_requests", sa.Integer(), "requests that got none; no value counts them [requests]"),
    ("accept_length", sa.Double(), "tokens a step, where drafts are accepted [tokens]"),
    ("cached_share", sa.Double(), "prompt tokens that a prefix cache held [ratio]"),
    ("file", sa.String(64), "digest of the path it was read from [none]"),
    ("read_as", sa.String(64), "content key of what its file alone says; NULL: its own [sha256]"),
)
_INDEXED = ("file", "read_as")
_PROVENANCE = "provenance"
_MEASUREMENT = sa.table("measurement", *(sa.column(name) for name in ("id", "key", "extra", *_INDEXED)))
_SAID = _MEASUREMENT.c.extra.contains(f'"{_PROVENANCE}"')
_AT_ONCE = 1000


def upgrade() -> None:
    """Add the columns, and fill those that say where a point was read."""
    for name, kind, meaning in _COLUMNS:
        op.add_column("measurement", sa.Column(name, kind, nullable=True, comment=meaning))
    rows = []
    for row in op.get_bind().execute(sa.select(_MEASUREMENT).where(_SAID)).fetchall():
        extra = json.loads(row.extra)
        said = extra.pop(_PROVENANCE, None)
        if isinstance(said, dict):
            known = {"file": said.get("file"), "read_as": said.get("read_as")}
            rows.append({"id_": row.id, "extra": _written(extra), **known})
    _update(rows)
    for name in _INDEXED:
        op.create_index(op.f(f"ix_measurement_{name}"), "measurement", [name])


def downgrade() -> None:
    """Say in `extra` again where a point was read, and drop the columns."""
    rows = []
    for row in (
        op.get_bind()
        .execute(sa.select(_MEASUREMENT).where(_MEASUREMENT.c.file.is_not(None) | _MEASUREMENT.c.read_as.is_not(None)))
        .fetchall()
    ):
        kept = {name: getattr(row, name) for name in _INDEXED if getattr(row, name) is not None}
        extra = _written({**json.loads(row.extra), _PROVENANCE: kept})
        rows.append({"id_": row.id, "extra": extra, "file": None, "read_as": None})
    _update(rows)
    for name in _INDEXED:
        op.drop_index(op.f(f"ix_measurement_{name}"), table_name="measurement")
    for name, *_ in _COLUMNS:
        op.drop_column("measurement", name)


def _update(rows: list[dict[str, object]]) -> None:
    names = ("extra", *_INDEXED)
    statement = (
        sa.update(_MEASUREMENT)
        .where(_MEASUREMENT.c.id == sa.bindparam("id_"))
        .values({name: sa.bindparam(name) for name in names})
    )
    for start in range(0, len(rows), _AT_ONCE):
        op.get_bind().execute(statement, rows[start : start + _AT_ONCE])


def _written(extra: object) -> str:
    return json.dumps(extra, sort_keys=True, ensure_ascii=False)
