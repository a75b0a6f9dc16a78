"""Keep which loads were committed together, with a digest of their numbers, and refuse to change them.

Self-contained: the digest stands here as it was at this revision; a test compares it with today's. Loads that are
there already are taken as they are."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

Key = sa.BigInteger().with_variant(sa.Integer, "sqlite")
VALUES = (
    "key", "settings_key", "arrivals_per_s", "saturation_per_s", "play_seats", "kv_tokens", "kv_admission", "dispatch",
    "reject_ms", "counted_requests", "rejected", "preempted", "load_status", "in_flight", "busy_share",
    "generated_per_s", "ttft_mean_ms", "load_tpot_mean_ms", "outside_ms", "hit_rate", "prefill_policy",
    "pool_instances", "cache_blocks", "balance_threshold", "rejected_prompt_share",
)  # fmt: skip
KEPT = ("load_block", "load", "load_cell", "load_token")
BODIES = {
    "sqlite": "BEGIN SELECT RAISE(ABORT, 'a committed load never changes'); END",
    "postgresql": "FOR EACH ROW EXECUTE FUNCTION refuse_change()",
}


def upgrade() -> None:
    """Add a table, and fill it for the loads that are there; then let nothing change them."""
    connection = op.get_bind()
    comment = "longest predicted time between tokens that a request is let in with [ms]"
    op.add_column("load", sa.Column("reject_tbt_ms", sa.Double(), nullable=True, comment=comment))
    _create()
    for row in list(_blocks(connection)):
        connection.execute(
            sa.text(
                "INSERT INTO load_block (scenario_id, sweep_id, settings_key, first_load, last_load, load_count,"
                " digest, created_at) SELECT :scenario_id, :sweep_id, :settings_key, :first_load, :last_load,"
                " :load_count, :digest, created_at FROM load WHERE id = :last_load"
            ),
            row,
        )
    for table in KEPT:
        for change in ("update", "delete"):
            head = f"CREATE TRIGGER {table}_refuses_{change} BEFORE {change.upper()} ON {table}"
            op.execute(f"{head} {BODIES[connection.dialect.name]}")


def downgrade() -> None:
    """Drop both; triggers of the table go with it."""
    for table in KEPT[1:]:
        for change in ("update", "delete"):
            on = f" ON {table}" if op.get_bind().dialect.name == "postgresql" else ""
            op.execute(f"DROP TRIGGER {table}_refuses_{change}{on}")
    op.drop_table("load_block")
    op.drop_column("load", "reject_tbt_ms")


def _create() -> None:
    def column(name: str, type_: sa.types.TypeEngine[Any], comment: str) -> sa.Column[Any]:
        return sa.Column(name, type_, nullable=False, comment=comment)

    op.create_table(
        "load_block",
        sa.Column("id", Key, nullable=False, comment="integer key, ascending in time of commit [none]"),
        column("scenario_id", Key, "whose loads [none]"),
        column("sweep_id", Key, "the sweep that added it [none]"),
        column("settings_key", sa.String(64), "content key of all that its loads have in common [sha256]"),
        column("first_load", Key, "smallest id of its loads [none]"),
        column("last_load", Key, "largest id of its loads [none]"),
        column("load_count", sa.Integer(), "loads of the block [loads]"),
        column("digest", sa.String(64), "over every number of its loads, as committed [sha256]"),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, comment="when it was committed [UTC]"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_load_block")),
        sa.UniqueConstraint("settings_key", "first_load", name=op.f("uq_load_block_settings_key")),
        sa.CheckConstraint("last_load >= first_load", name=op.f("ck_load_block_loads")),
        *(
            sa.ForeignKeyConstraint([f"{name}_id"], [f"{name}.id"], name=op.f(f"fk_load_block_{name}_id_{name}"))
            for name in ("scenario", "sweep")
        ),
        comment="loads of one scenario that were committed together",
    )
    for name in ("scenario_id", "sweep_id"):
        op.create_index(op.f(f"ix_load_block_{name}"), "load_block", [name])


def _blocks(connection: sa.Connection) -> Iterator[dict[str, object]]:
    """Loads of the same settings and sweep, of which no other lies between, as one block."""
    names = ", ".join(f"l.{name}" for name in VALUES)
    rows = connection.execute(
        sa.text(
            "SELECT l.id, l.scenario_id, l.sweep_id, s.key AS scenario_key, a.key AS arrival_key, c.cells, t.gaps,"  # noqa: S608
            f" {names} FROM load l JOIN scenario s ON s.id = l.scenario_id JOIN arrival a ON a.id = l.arrival_id"
            " JOIN load_cell c ON c.load_id = l.id JOIN load_token t ON t.load_id = l.id ORDER BY l.settings_key, l.id"
        )
    )
    block: list[sa.Row[tuple[object, ...]]] = []
    for row in rows:
        if block and (block[0].settings_key, block[0].sweep_id) != (row.settings_key, row.sweep_id):
            yield _block(block)
            block = []
        block.append(row)
    if block:
        yield _block(block)


def _block(rows: list[sa.Row[tuple[object, ...]]]) -> dict[str, object]:
    loads = [
        (
            {
                name: value + 0.0 if isinstance(value, float) else value
                for name in VALUES
                if (value := getattr(row, name)) is not None
            },
            bytes(row.cells),
            bytes(row.gaps),
        )
        for row in rows
    ]
    return {
        "scenario_id": rows[0].scenario_id,
        "sweep_id": rows[0].sweep_id,
        "settings_key": rows[0].settings_key,
        "first_load": rows[0].id,
        "last_load": rows[-1].id,
        "load_count": len(rows),
        "digest": digest(rows[0].scenario_key, rows[0].arrival_key, loads),
    }


def digest(scenario_key: str, arrival_key: str, loads: list[tuple[dict[str, object], bytes, bytes]]) -> str:
    """Digest loads in the order of their keys: columns that have a value, and unpacked distributions."""
    head = {"format": 1, "scenario": scenario_key, "arrival": arrival_key}
    made = hashlib.sha256(json.dumps(head).encode())
    for values, cells, gaps in sorted(loads, key=lambda one: str(one[0]["key"])):
        made.update(json.dumps(values, sort_keys=True, allow_nan=False).encode())
        made.update(hashlib.sha256(zlib.decompress(cells)).digest())
        made.update(hashlib.sha256(zlib.decompress(gaps)).digest())
    return made.hexdigest()
