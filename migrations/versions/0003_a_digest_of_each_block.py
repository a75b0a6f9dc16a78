"""Keep a digest of every block, so that a number that changed behind the program's back is found.

Self-contained: measures and the digest stand here as they were at this revision; a test compares both with today's.
Blocks that are there already are taken as they are."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter

import numpy as np
import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

KINDS = ("matrix", "vector", "memory", "communication", "overhead")
MEASURES = (
    "concurrency", "ttft_ms", "prefill_step_ms", "prefill_chunks", "makespan_ms", "decode_step_ms", "tokens_per_step",
    "tpot_inclusive_ms", "tpot_exclusive_ms", "e2e_ms", "weight_bytes", "kv_cache_bytes", "kv_cache_mean_bytes",
    "activation_bytes", "kv_bytes_per_request", *(f"prefill_step_{kind}_ms" for kind in KINDS),
    *(f"decode_step_{kind}_ms" for kind in KINDS), "realised_input_length_mean", "decode_step_p50_ms",
    "decode_step_p90_ms", "decode_step_p99_ms", "prompt_service_ms",
)  # fmt: skip
REFUSAL = "CREATE TRIGGER block_refuses_update BEFORE UPDATE ON block"
BODIES = {
    "sqlite": "BEGIN SELECT RAISE(ABORT, 'a committed block never changes'); END",
    "postgresql": "FOR EACH ROW EXECUTE FUNCTION refuse_change()",
}


def upgrade() -> None:
    """Add the column, and fill it for the blocks that are there; a trigger that refuses changes rests meanwhile."""
    connection = op.get_bind()
    dialect = connection.dialect.name
    comment = "over every number of the block, as committed [sha256]"
    op.add_column("block", sa.Column("digest", sa.String(64), nullable=True, comment=comment))
    op.execute("DROP TRIGGER block_refuses_update" + (" ON block" if dialect == "postgresql" else ""))
    rows = [{"number": block, "made": digest} for block, digest in _digests(connection)]
    if rows:
        connection.execute(sa.text("UPDATE block SET digest = :made WHERE id = :number"), rows)
    op.execute(f"{REFUSAL} {BODIES[dialect]}")


def _digests(connection: sa.Connection) -> Iterator[tuple[int, str]]:
    composed = set(connection.scalars(sa.text("SELECT DISTINCT scenario_id FROM composition")))
    blocks = sa.text(
        f"SELECT b.id, s.id, s.key, p.batch_size, {', '.join(f'p.{name}' for name in MEASURES)} FROM block b"  # noqa: S608
        " JOIN scenario s ON s.id = b.scenario_id JOIN probe p ON p.scenario_id = b.scenario_id"
        " AND p.batch_size BETWEEN b.first_batch_size AND b.last_batch_size ORDER BY b.id, p.batch_size"
    )
    found = connection.execute(blocks, execution_options={"yield_per": 10_000})
    for (block, scenario, key), rows in groupby(found, key=itemgetter(0, 1, 2)):
        lines = [tuple(row[3:]) for row in rows]
        sizes = [line[0] for line in lines]
        composition = _composition(connection, scenario, sizes) if scenario in composed else None
        yield block, digest(key, sizes, [line[1:] for line in lines], composition)


def _composition(connection: sa.Connection, scenario: int, sizes: list[int]) -> list[tuple[int, int, int]]:
    rows = connection.execute(
        sa.text(
            "SELECT batch_size, bin_index, samples FROM composition WHERE scenario_id = :scenario"
            " AND batch_size BETWEEN :first AND :last AND samples > 0 ORDER BY batch_size, bin_index"
        ),
        {"scenario": scenario, "first": sizes[0], "last": sizes[-1]},
    )
    return [(row[0], row[1], row[2]) for row in rows]


def digest(
    key: str,
    sizes: list[int],
    lines: list[tuple[float | None, ...]],
    composition: list[tuple[int, int, int]] | None,
) -> str:
    """Digest the rows of a block: the key of its scenario, batch sizes, numbers by measure, and the composition."""
    values = np.array(lines, dtype=np.float64) + 0.0
    missing = np.isnan(values)
    values[missing] = np.nan
    present = np.flatnonzero(~missing.all(axis=0))
    head = {"format": 1, "scenario": key, "measures": [MEASURES[number] for number in present]}
    made = hashlib.sha256(json.dumps(head).encode())
    made.update(np.array(sizes, dtype="<i8").tobytes())
    made.update(np.ascontiguousarray(values[:, present].T, dtype="<f8").tobytes())
    if composition is not None:
        made.update(np.array(composition, dtype="<i8").tobytes())
    return made.hexdigest()


def downgrade() -> None:
    """Drop the column."""
    op.drop_column("block", "digest")
