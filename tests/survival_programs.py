"""Programs that the survival tests start, kill and starve: a writer and a reader of a store.

Run as: python tests/survival_programs.py write|read URL NUMBER SECONDS. Both print one JSON line for everything they are
sure of: the writer a block once it is acknowledged, the reader what it has counted."""

from __future__ import annotations

import json
import secrets
import sys
import time
from collections.abc import Iterator
from itertools import count as count_from
from itertools import islice

from generator import block, interval_length, scenarios, sweep_record

SEAL_EVERY = 20  # transactions, of one to three blocks


def say(**facts: object) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def write(url: str, number: int, seconds: float) -> None:
    """Write blocks until the time is over; every second scenario is asked for by all writers alike."""
    from store.opening import open_store
    from store.sealing import HeldRows, seal
    from store.writing import begin_sweep, finish_sweep, put_blocks, put_scenarios

    deadline = time.monotonic() + seconds
    with open_store(url, create=True) as store:
        sweep_id = begin_sweep(store, sweep_record(key=secrets.token_hex(16), label=f"writer {number}"))
        work = _work(number)
        held = HeldRows()  # as a sweep lays down what it has just written, beside what others have
        for count in count_from(1):
            if time.monotonic() > deadline and count > 1:  # beside thirty others the start alone may take that long
                break
            asked = [
                (record, first, first + interval_length(record, 64)) for record, first in islice(work, 1 + count % 3)
            ]
            refs = put_scenarios(store, sweep_id, [record for record, _, _ in asked])
            blocks = [(ref.id, block(*one)) for ref, one in zip(refs, asked, strict=True)]
            added = put_blocks(store, sweep_id, blocks, held=held)
            for record, first, last in asked:
                say(scenario=record.key, first=first, last=last)
            say(added=added, asked=sum(last - first + 1 for _, first, last in asked))
            if count % SEAL_EVERY == 0:
                seal(store, held)
                held.clear()
                say(sealed=True)
        finish_sweep(store, sweep_id, "finished")
        seal(store, held)


def _work(number: int) -> Iterator:
    """Yield scenarios with the batch size to start from: shared ones overlap, the others are the writer's own."""
    shared = (record for record in scenarios(seed=1000) if record.status == "ok")
    own = (record for record in scenarios(seed=number) if record.status == "ok")
    skipped = number * 7 % 50
    for turn, (mine, ours) in enumerate(zip(islice(own, skipped, None), islice(shared, skipped, None), strict=False)):
        yield mine, 1 + turn % 5
        yield ours, 1 + (turn + number) % 20


def read(url: str, number: int, seconds: float) -> None:
    """Count probes until the time is over, through DuckDB or through the driver, and check every count."""
    count = _count_with_duckdb if number % 2 else _count_with_driver
    deadline = time.monotonic() + seconds
    before = 0
    while time.monotonic() < deadline:
        probes, wrong_blocks = count(url)
        say(probes=probes, wrong_blocks=wrong_blocks, fell=probes < before)
        before = probes


def _count_with_duckdb(url: str) -> tuple[int, int]:
    """Count probes, and blocks that are not whole, with what `sweepdb sql` uses."""
    from queries.connect import connect

    with connect(url) as connection:
        row = connection.execute(
            "SELECT COALESCE(SUM(n), 0), COUNT(*) FILTER (WHERE n <> width) FROM ("
            " SELECT block_id, COUNT(*) AS n, MAX(batch_size) - MIN(batch_size) + 1 AS width"
            " FROM raw.stored_probe GROUP BY block_id)"
        ).fetchone()
    return int(row[0]), int(row[1])


def _count_with_driver(url: str) -> tuple[int, int]:
    from store.location import parse_url
    from store.reading import read_transaction

    statement = (
        "SELECT COUNT(p.batch_size), COUNT(DISTINCT b.id), MAX(b.probe_count) FROM block b"
        " LEFT JOIN probe p ON p.scenario_id = b.scenario_id"
        " AND p.batch_size BETWEEN b.first_batch_size AND b.last_batch_size GROUP BY b.id"
    )
    with read_transaction(parse_url(url)) as transaction:
        rows = [(int(found), int(promised)) for found, _, promised in transaction.cells(statement)]
        (total,) = next(iter(transaction.cells("SELECT COUNT(*) FROM probe")))
    wrong = sum(found != promised for found, promised in rows)
    return int(total), wrong + (sum(found for found, _ in rows) != int(total))


if __name__ == "__main__":
    {"write": write, "read": read}[sys.argv[1]](sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
