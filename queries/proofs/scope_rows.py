"""Digests of rows that a question read, from the database, by scenario."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from queries.asking.headers import Report
from queries.asking.library import report, variants_of
from queries.asking.macros import macros_of, names_in
from queries.asking.parameters import answered_instead
from queries.asking.question import Question
from queries.connect import StoreConnection
from queries.judging.ladders import KEPT_REQUESTS
from queries.proofs.document import LookedAt
from queries.session import Pinned
from store import sealing
from store.digests import DigestedRows, rows_digest
from store.errors import StoreError
from store.loads import kept_digest
from store.location import StoreLocation
from store.placing import whole_digest
from store.reading import in_memory, read_transaction, stored_loads
from store.schema import MEASURES

if TYPE_CHECKING:
    import duckdb

_SCENARIOS_AT_ONCE = 200


def digests_of_scope(location: StoreLocation, pinned: Pinned, question: Question) -> list[LookedAt]:
    """As they are now; voided ones are missing.

    Simulated questions also digest loads; those that join pools by request, every kept request."""
    asked = report(answered_instead(question).report)
    of_loads = asked.of_loads
    keys = sorted({key for key, *_ in pinned})
    found: dict[tuple[str, int, int], str] = {}
    for start in range(0, len(keys), _SCENARIOS_AT_ONCE):
        some = set(keys[start : start + _SCENARIOS_AT_ONCE])
        wanted = sorted({(key, first, last) for key, first, last, _ in pinned if key in some})
        found |= dict(zip(wanted, _digests(location, wanted), strict=True))
    loads = _loads(location, keys, with_requests=_joins_requests(asked, question)) if of_loads else {}
    return [
        LookedAt(
            key,
            first,
            last,
            group,
            _joined(found[key, first, last], loads.get(key, ())) if of_loads else found[key, first, last],
        )
        for key, first, last, group in pinned
    ]


def _joins_requests(asked: Report, question: Question) -> bool:
    texts = [asked.sql, *(report(name).sql for name in variants_of(asked))]
    return question.options.mode == "pd" and any(
        KEPT_REQUESTS in names_in(macro.sql) for text in texts for macro in macros_of(text, of_loads=True)
    )


def _loads(location: StoreLocation, keys: Sequence[str], *, with_requests: bool) -> dict[str, list[str]]:
    """Each by itself: a copy may have other blocks."""
    made: dict[str, list[str]] = {}
    with read_transaction(location) as transaction:
        numbers = {key: number for number, key in transaction.keys("scenario").items()}
        for block in stored_loads(transaction, [numbers[key] for key in keys if key in numbers]):
            mine = made.setdefault(block.scenario, [])
            mine += block.digests
            if with_requests:
                mine += [kept_digest(str(load.values["key"]), load.requests) for load in block.loads if load.requests]
    return made


def _joined(of_probes: str, of_loads: Sequence[str]) -> str:
    return hashlib.sha256("".join([of_probes, *sorted(of_loads)]).encode()).hexdigest()


def _require_committed(location: StoreLocation, connection: duckdb.DuckDBPyConnection) -> None:
    blocks = sealing.ranges_of(
        int(row[0]) for row in connection.execute("SELECT block_id FROM raw.unsealed_block").fetchall()
    )
    with read_transaction(location) as transaction:
        changed = sealing.changed_blocks(connection, transaction, f"({sealing.unsealed_select('raw')})", blocks)
    if changed:
        raise StoreError(
            f"The numbers of block {changed[0].block_id} of {location.display}, of scenario"
            f" {changed[0].scenario_key[:12]}, are not those that were committed.",
            hint=f"sweepdb db check{location.argument} names every block, and the part that holds it",
        )


def require_whole_snapshots(location: StoreLocation, pinned: Pinned) -> None:
    """Refuses answers that a wrong snapshot may have given."""
    keys = {key for key, *_ in pinned}
    with in_memory() as connection, read_transaction(location) as transaction:
        blocks = sealing.blocks_within(transaction, sealing.blocks_of(transaction, keys))
        listed = sealing.parts_with(sealing.list_parts(location, transaction.store_id), blocks)
        read = sealing.load_snapshot(connection, transaction, location, transaction.store_id, listed=listed).parts
    for part in read:
        if whole_digest(part.path) != part.sha256:
            raise sealing.damaged_snapshot(location, part.path)


def _digests(location: StoreLocation, wanted: Sequence[tuple[str, int, int]]) -> Iterator[str]:
    names = ", ".join(column.name for column in MEASURES)
    with StoreConnection(location, unsealed={key for key, _, _ in wanted}) as connection:
        connection.provide({"stored_probe", "composition"})
        _require_committed(location, connection.duckdb)
        rows = sealing.fetched_arrays(
            connection.duckdb.execute(
                f"SELECT scenario, scenario_id, batch_size, {names} FROM raw.stored_probe ORDER BY scenario, batch_size"  # noqa: S608
            )
        )
        composed = sealing.fetched_arrays(
            connection.duckdb.execute(
                "SELECT scenario_id, batch_size, bin_index, samples FROM raw.composition WHERE scenario_id IN"
                " (SELECT scenario_id FROM raw.stored_probe) ORDER BY scenario_id"
            )
        )
    digested = DigestedRows.of_columns(rows["batch_size"], rows)
    scenarios = np.asarray(rows["scenario"], dtype=str)
    for key, first, last in wanted:
        low, high = np.searchsorted(scenarios, key), np.searchsorted(scenarios, key, side="right")
        mine = digested.part(slice(low, high))
        composition = None
        if high > low:
            number = int(rows["scenario_id"][low])
            begin, end = np.searchsorted(composed["scenario_id"], [number, number + 1])
            parts = (
                composed["batch_size"][begin:end],
                composed["bin_index"][begin:end],
                composed["samples"][begin:end],
            )
            composition = parts if end > begin else None
        yield rows_digest(key, mine.within(first, last), composition)
