"""Brings a store to this program, checks it whole, and lays thinned files down beside its parts."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from migrations.views import differing_views, renew_views
from queries.bundles import scenario_lines, scenario_of
from queries.thinned import RULES, create_winners
from store import reading
from store.errors import InputError, StoreError
from store.location import StoreLocation, parse_url
from store.migrating import UpgradeReport
from store.migrating import upgrade_store as run_revisions
from store.opening import open_store
from store.parts import ThinnedFile, checked_path, part_shelf, put_in_place, register_thinned, unfinished
from store.placing import WAITING, PartRow, Shelf, found_shelf, is_registered, parts_in_use, thinned_in_use
from store.reading import in_memory, read_transaction
from store.schema import MEASURES
from store.sealing import copy_rows, digest_of, quoted, rows_written
from store.upkeep import CheckReport
from store.upkeep import check_store as check_rows
from store.writing import list_calibrations
from sweepdb.sharing.identities import engines_of, refuse_forged

if TYPE_CHECKING:
    import duckdb


_MOST_FAULTS = 20


def upgrade_store(url: str | None) -> UpgradeReport:
    """At the newest revision, renews another program's views."""
    report = run_revisions(url)
    return report if report.before != report.after else replace(report, views=renew_views(parse_url(url)))


def check_store(location: StoreLocation) -> CheckReport:
    """With snapshots and thinned files; no faults: whole, and as evaluated."""
    report = check_rows(location)
    forged = list(_identity_faults(location))
    if more := len(forged[_MOST_FAULTS:]):
        forged = [*forged[:_MOST_FAULTS], f"{more:,} more scenarios are not what their specs say."]
    return replace(report, faults=(*report.faults, *_view_faults(location), *forged, *winner_faults(location)))


def _identity_faults(location: StoreLocation) -> Iterator[str]:
    with open_store(location.url, read_only=True) as store:
        engines = engines_of(list_calibrations(store))
    with read_transaction(location) as transaction:
        for line in scenario_lines(transaction):
            try:
                refuse_forged([scenario_of(line)], engines)
            except (InputError, ValueError) as error:
                said = error.message if isinstance(error, InputError) else f"scenario {line['key']}: {error}"
                yield f"{said[:1].upper()}{said[1:]}."


def _view_faults(location: StoreLocation) -> Iterator[str]:
    """Missing, or another program's."""
    for name in differing_views(location):
        yield f"The view {name} is not what this program lays down: run `sweepdb db upgrade{location.argument}`."


_MEMORY = 2 * 10**9
_COLUMNS = ", ".join(f"f.{name}" for name in ("scenario_id", "batch_size", *(column.name for column in MEASURES)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinReport:
    """Files written; over all parts probes, winners and bytes."""

    written: int
    probes: int
    winners: int
    bytes: int


def thin_parts(location: StoreLocation) -> ThinReport:
    """For parts without one by today's rules."""
    with read_transaction(location) as transaction:
        right = {
            row.part_id: row
            for row in thinned_in_use(transaction)
            if row.rules == RULES and is_registered(location, row)
        }  # fmt: skip
        parts = parts_in_use(transaction)
    missing = [part for part in parts if part.id not in right]
    written = 0
    if missing:
        with open_store(location.url) as store:
            shelf = part_shelf(store)
            for part in missing:
                file = write_thinned(location, shelf, part)
                if register_thinned(store, part.id, file):
                    written += 1
                    continue
                with suppress(OSError):  # a compaction has replaced the part meanwhile
                    shelf.remove(f"{WAITING}{file.name}")
    with read_transaction(location) as transaction:
        rows = thinned_in_use(transaction)
    return ThinReport(
        written=written,
        probes=sum(part.row_count for part in parts),
        winners=sum(row.row_count for row in rows),
        bytes=sum(row.bytes for row in rows),
    )


@contextmanager
def winners_of(
    location: StoreLocation, scratch: Path, part: PartRow
) -> Iterator[tuple[duckdb.DuckDBPyConnection, str]]:
    """A DuckDB and SQL for them, in order."""
    checked_path(location, part)
    with in_memory(_MEMORY, scratch / ".thinning") as connection, read_transaction(location) as transaction:
        blocks = "SELECT first_block, last_block FROM part_block WHERE part_id = ? ORDER BY 1"
        ranges = tuple(transaction.numbers(blocks, (part.id,)))
        if not ranges:
            raise StoreError(
                "A compaction has replaced a part that was to be thinned.",
                hint="Nothing is lost: run `sweepdb db compact` again.",
            )
        create_winners(connection, transaction, ranges)
        ((path,),) = connection.execute("SELECT any_value(file) FROM raw.unsealed_place").fetchall()
        held = f"read_parquet({quoted(Path(str(path)))}, file_row_number = true)"
        same = "can_win.scenario_id = f.scenario_id AND can_win.batch_size = f.batch_size"
        yield connection, f"FROM {held} AS f SEMI JOIN can_win ON {same}"


def write_thinned(location: StoreLocation, shelf: Shelf, part: PartRow) -> ThinnedFile:
    name = f"shard-thin-{secrets.token_hex(6)}.parquet"
    with unfinished(shelf, name) as temporary, winners_of(location, shelf.scratch, part) as (connection, source):
        copy_rows(connection, f"SELECT {_COLUMNS} {source} ORDER BY file_row_number", temporary)
        rows = rows_written(connection, _COLUMNS, source, temporary)
        if rows is None:
            raise StoreError(
                f"The thinned file {name} does not hold what was written to it, so it is not used.",
                hint="Check the disk; the parts are as they were.",
            )
        put = put_in_place(shelf, temporary, name)
    return ThinnedFile(**asdict(put), row_count=rows, rules=RULES)


def winner_faults(location: StoreLocation) -> Iterator[str]:
    """Wrong rows. Older rules hold more, or are not read."""
    with read_transaction(location) as transaction:
        rows = [row for row in thinned_in_use(transaction) if row.rules == RULES and is_registered(location, row)]
        parts = {part.id: part for part in parts_in_use(transaction)}
    for row in rows:
        try:
            shelf = found_shelf(location, row.name, row.folder)
            path = shelf.fetched(row.name, row.bytes, row.sha256)
            with winners_of(location, shelf.scratch, parts[row.part_id]) as (connection, source):
                held = digest_of(connection, _COLUMNS, f"FROM read_parquet({quoted(path)}) AS f")
                right = held == digest_of(connection, _COLUMNS, source) and held[0] == row.row_count
        except (StoreError, OSError, reading.duckdb.Error):  # that a file cannot be read is said of the file
            continue
        if not right:
            yield (
                f"The thinned file {row.folder}/{row.name} does not hold the rows of its part that can win; remove"
                f" it, then write it anew with: sweepdb db compact{location.argument} `thin`"
            )
