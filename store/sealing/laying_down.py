"""Lays committed blocks down as Parquet parts, merges small parts, and rebuilds what does not match the store.

The database stays the only truth: deleting every part changes no answer."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from store.errors import StoreBusyError, StoreError
from store.light_dataclass import dataclass
from store.location import StoreLocation
from store.placing import placed_ranges
from store.reading import ReadTransaction, read_transaction
from store.reading.silent_duckdb import in_memory
from store.schema.probe_columns import PROBE_COLUMNS, SORT_ORDER
from store.sealing import part_files, snapshots
from store.sealing.digesting import changed_blocks, groups_of
from store.sealing.footers import FOOTER_KEY
from store.sealing.held import HeldRows, with_repeated_texts
from store.sealing.load_parts import seal_loads
from store.sealing.part_files import LARGEST_PART_ROWS, RETIRED_KEPT_S
from store.sealing.ranges import Ranges, complement, merged, ranges_of
from store.sealing.unsealed import UnsealedBlock, blocks_within, load_unsealed, unsealed_select

if TYPE_CHECKING:
    import duckdb

_ALWAYS_MERGED_ROWS = 50_000
_LOCK_WAIT_S = 120.0
_SEALING_MEMORY = 10**9
_SORTING = ".sorting"  # where DuckDB sorts what does not fit in memory


class Located(Protocol):
    @property
    def location(self) -> StoreLocation: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SealReport:
    """The outcome of sealing. `rejected` lists the parts that did not match and were laid down again."""

    directory: Path
    probes_sealed: int
    parts_written: int
    parts: int
    probes: int
    bytes: int
    rejected: tuple[snapshots.RejectedPart, ...]


def seal(store: Located, held: HeldRows | None = None, *, wait_s: float = _LOCK_WAIT_S) -> SealReport:
    """Lay down every committed block that no valid part holds; nothing else changes, in the store or for readers.

    Rows that are `held` in memory are not read from the store."""
    return seal_location(store.location, held, wait_s=wait_s)


def seal_held(store: Located, held: HeldRows) -> None:
    """Lay down in the midst of writing what is held, and forget it: where that fails, the rows are in the store."""
    with suppress(StoreError):
        seal(store, held, wait_s=0.0)
    held.clear()


def seal_location(location: StoreLocation, held: HeldRows | None = None, *, wait_s: float = _LOCK_WAIT_S) -> SealReport:
    """Seal the store at an address. Runs beside writers and readers; a second sealer waits for the first."""

    with read_transaction(location) as transaction:
        store_id = transaction.store_id
    with (
        _locked_directory(location, store_id, wait_s) as directory,
        _disk_faults(directory),
        read_transaction(location) as transaction,  # begun inside the lock, to see what the sealer before left over
        in_memory(_SEALING_MEMORY, directory / _SORTING) as connection,
    ):
        seal_loads(connection, transaction, location, store_id, directory)
        return _Sealing(connection, transaction, location, store_id, directory, held=held).run()


class _Sealing:
    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        transaction: ReadTransaction,
        location: StoreLocation,
        store_id: str,
        directory: Path,
        *,
        held: HeldRows | None = None,
    ) -> None:
        self._connection = connection
        self._transaction = transaction
        self._location = location
        self._store_id = store_id
        self._directory = directory
        self._held = held or HeldRows()

    def run(self) -> SealReport:
        snapshot = snapshots.load_snapshot(
            self._connection, self._transaction, self._location, self._store_id, full_hash=_may_be_merged
        )
        elsewhere = placed_ranges(self._transaction)  # these files are read as they are
        hot = blocks_within(self._transaction, complement((*snapshot.blocks, *elsewhere)))
        parts = [snapshots.with_current_times(part) for part in snapshot.parts if part.path.parent == self._directory]
        steps = plan_steps(hot, parts)
        self._publish(tuple(parts))
        for step in steps:
            part = self._write(step)
            parts = [kept for kept in parts if kept not in step.merged] + [part]
            self._publish(tuple(parts))  # whoever is killed in the next step has not lost this one
        return SealReport(
            directory=self._directory,
            probes_sealed=sum(block.probe_count for block in hot),
            parts_written=len(steps),
            parts=len(parts),
            probes=sum(part.contents.rows for part in parts),
            bytes=sum(part.size for part in parts),
            rejected=snapshot.rejected,
        )

    def _write(self, step: SealStep) -> snapshots.Part:
        """Write one part under a temporary name, compare it with what went in, and give it its name."""
        blocks = merged([*step.blocks, *(block for part in step.merged for block in part.contents.blocks)])
        contents = snapshots.describe_blocks(self._transaction, self._store_id, blocks)
        held = self._held.of(self._transaction, step.blocks)
        self._connection.execute("CREATE SCHEMA sealing")
        try:
            load_unsealed(self._connection, self._transaction, step.blocks, schema="sealing", held=held)
            self._connection.execute(f"CREATE VIEW sealing.wide AS {_source(step.merged)}")
            self._require_committed(blocks)
            return self._copy(contents, in_order=len(held) == contents.block_count)
        finally:
            self._connection.execute("DROP SCHEMA sealing CASCADE")

    def _require_committed(self, blocks: Ranges) -> None:
        """Refuse rows that are not those of the blocks' digests: they would be laid down as if they were true."""
        if changed := changed_blocks(self._connection, self._transaction, "sealing.wide", blocks):
            many = f"{len(changed)} blocks are" if len(changed) > 1 else "1 block is"
            raise StoreError(
                f"{many} not what was committed to {self._location.display}, block {changed[0].block_id} of scenario"
                f" {changed[0].scenario_key[:12]} first: its numbers were changed by something else than this program.",
                hint=f"Run: sweepdb db check{self._location.argument} `repair`",
            )

    def _copy(self, contents: snapshots.Contents, *, in_order: bool) -> snapshots.Part:
        path = self._directory / f"part-{os.urandom(6).hex()}.parquet"
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        columns = ", ".join(column.name for column in PROBE_COLUMNS)
        footer = contents.as_json().replace("'", "''")
        rows = f"SELECT {columns} FROM sealing.wide ORDER BY {SORT_ORDER}"  # noqa: S608 - our text
        try:
            if in_order:
                rows = unsealed_select("sealing", with_repeated_texts(self._connection, "sealing"))
                self._connection.execute("SET threads = 1")  # several would not keep the order
            more = f", KV_METADATA {{{FOOTER_KEY}: '{footer}'}}"
            part_files.copy_rows(self._connection, rows, temporary, footer=more)
            self._connection.execute("RESET threads")
            self._compare(temporary, contents)
            written = part_files.give_name(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
        return snapshots.Part(path=path, contents=contents, **asdict(written))

    def _compare(self, written: Path, contents: snapshots.Contents) -> None:
        columns = ", ".join(f"f.{column.name}" for column in PROBE_COLUMNS)
        rows = part_files.rows_written(self._connection, columns, "FROM sealing.wide AS f", written)
        if rows is None:
            raise StoreError(
                f"The snapshot {written} does not hold what was written to it.",
                hint="Check the disk; the store itself is not affected, and questions are answered from it.",
            )
        if rows != contents.rows:
            raise StoreError(
                f"The store {self._location.display} holds {rows} probes in blocks that promise {contents.rows}.",
                hint=f"Run: sweepdb db check{self._location.argument}",
            )

    def _publish(self, parts: tuple[snapshots.Part, ...]) -> None:
        """Name the parts in the manifest, then delete files that no reader can be waiting for any more."""
        manifest = snapshots.read_manifest(self._directory)
        moment = time.time()
        names = {part.path.name for part in parts}
        replaced = [(part.path.name, moment) for part in manifest.parts if part.path.name not in names]
        retired = [(name, since) for name, since in manifest.retired if 0 <= moment - since < RETIRED_KEPT_S]
        published = snapshots.Manifest(parts=parts, retired=(*retired, *replaced))
        if published != manifest:
            snapshots.write_manifest(self._directory, published)
        kept = names | {name for name, _ in published.retired}
        for file in self._directory.glob("*part-*.parquet*"):
            if file.name not in kept:
                file.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class SealStep:
    """One part to write: blocks that no part holds, and parts to merge with them."""

    blocks: Ranges = ()
    merged: tuple[snapshots.Part, ...] = ()


def plan_steps(hot: Sequence[UnsealedBlock], parts: Sequence[snapshots.Part]) -> list[SealStep]:
    """Cut the blocks that are not laid down into parts of bounded size. The last is merged with parts of its own size.

    A part is rewritten only into one at least half as large again, so a probe is rewritten a logarithmic number of
    times and few parts remain however often one seals."""
    groups = list(groups_of(hot, LARGEST_PART_ROWS))
    steps = [SealStep(blocks=ranges_of(block.id for block in group)) for group in groups[:-1]]
    last = groups[-1] if groups else []
    rows = sum(block.probe_count for block in last)
    merging: list[snapshots.Part] = []
    for part in sorted(parts, key=lambda part: part.contents.rows):
        size = part.contents.rows
        if size <= max(2 * rows, _ALWAYS_MERGED_ROWS) and rows + size <= LARGEST_PART_ROWS:
            merging.append(part)
            rows += size
    if last or len(merging) > 1:
        steps.append(SealStep(blocks=ranges_of(block.id for block in last), merged=tuple(merging)))
    return steps


def _may_be_merged(part: snapshots.Part) -> bool:
    return part.contents.rows < LARGEST_PART_ROWS


def _source(parts: Sequence[snapshots.Part]) -> str:
    if not parts:
        return unsealed_select("sealing")
    columns = ", ".join(column.name for column in PROBE_COLUMNS)
    files = ", ".join(part_files.quoted(part.path) for part in parts)
    return f"{unsealed_select('sealing')} UNION ALL SELECT {columns} FROM read_parquet([{files}])"  # noqa: S608 - our text


@contextmanager
def _locked_directory(location: StoreLocation, store_id: str, wait_s: float) -> Iterator[Path]:
    """Hold the sealers' lock of the first directory that can be written; the system frees it when a sealer dies."""
    directory, lock = _open_lock(snapshots.snapshot_directories(location, store_id))
    with lock:
        deadline = time.monotonic() + wait_s
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise StoreBusyError(
                        f"Another process has been laying down snapshots in {directory} for more than {wait_s:.0f} s.",
                        hint="Nothing is lost: run `sweepdb db seal` again when it has finished.",
                    ) from None
                time.sleep(0.05)
        yield directory


def _open_lock(directories: Sequence[Path]) -> tuple[Path, TextIOWrapper]:
    for directory in directories:
        try:
            directory.mkdir(parents=True, exist_ok=True)
            return directory, (directory / "lock").open("a", encoding="utf-8")
        except OSError as error:
            failure = error
    raise StoreError(
        f"No directory for snapshots can be written: {failure}.",
        hint="Nothing is lost: questions are answered from the store itself, more slowly. Set XDG_CACHE_HOME to a "
        "directory you may write.",
    )


@contextmanager
def _disk_faults(directory: Path) -> Iterator[None]:
    from store.reading.silent_duckdb import duckdb

    try:
        yield
    except (OSError, duckdb.IOException) as error:
        first_line = str(error).partition("\n")[0]
        raise StoreError(
            f"The snapshot in {directory} could not be written: {first_line}",
            hint="Nothing is lost: the store holds every probe and questions are answered from it, more slowly. "
            "Free some space, then run: sweepdb db seal",
        ) from error
