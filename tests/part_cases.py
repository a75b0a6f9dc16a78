"""A sweep of generated scenarios in parts, for tests of files and folders of parts."""

from __future__ import annotations

from itertools import islice, pairwise

from generator import block, interval_length, scenarios, sweep_record

from queries.connect import connect
from store.parts import ShardBlock, part_shelf, register_part, write_part
from store.reading import read_transaction
from store.reading.silent_duckdb import in_memory
from store.schema.tables import MEASURES
from store.sealing.snapshots import load_snapshot
from store.writing import begin_sweep, finish_sweep, put_scenarios

NAMES = ", ".join(["scenario", "model", "workload", "phase", "batch_size", *(column.name for column in MEASURES)])
ROWS = f"SELECT {NAMES} FROM raw.stored_probe ORDER BY scenario, batch_size"
RECORDS = [record for record in islice(scenarios(), 200) if record.status == "ok"][:24]
MEAN = 20


def rows(url):
    with connect(url) as connection:
        return connection.execute(ROWS).fetchall()


def whole_snapshot(store):
    """Every part compared by its full hash, as `sweepdb db check` does."""
    with read_transaction(store.location) as transaction, in_memory() as connection:
        return load_snapshot(connection, transaction, store.location, transaction.store_id, full_hash=lambda _: True)


def begun(store, key="b"):
    sweep_id = begin_sweep(store, sweep_record(key=key * 32))
    return sweep_id, put_scenarios(store, sweep_id, RECORDS)


def shard_blocks(refs, chosen=slice(None)):
    return [
        ShardBlock(
            scenario_id=ref.id, scenario_key=ref.key, replicas=record.subject.plan.dp * record.subject.plan.pp,
            record=block(record, 1, interval_length(record, MEAN)),
        )
        for record, ref in list(zip(RECORDS, refs, strict=True))[chosen]
    ]  # fmt: skip


def shards(folder):
    return {path.name for path in folder.path.iterdir() if "shard-" in path.name}


def registered(store, *, cuts=(0, 9, 24)):
    sweep_id, refs = begun(store)
    folder = part_shelf(store)
    for low, high in pairwise(cuts):
        file = write_part(folder, f"{low:064d}", shard_blocks(refs, slice(low, high)))
        register_part(store, sweep_id, f"{low:064d}", file)
    finish_sweep(store, sweep_id, "finished")
    return sweep_id, refs
