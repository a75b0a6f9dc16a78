"""Writes the probes of many blocks as one Parquet file: numbers alone, no names, by scenario and batch size.

Names are joined when it is read, so that renaming a model changes no file."""

from __future__ import annotations

import atexit
import errno
import functools
import hashlib
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from store.digests import DigestedBlocks, as_floats
from store.errors import InputError, StoreError
from store.light_dataclass import dataclass
from store.placing import Shelf, footer_digest
from store.reading.silent_duckdb import in_memory
from store.records import BlockRecord
from store.schema.tables import MEASURES
from store.sealing.into_duckdb import handed_columns
from store.sealing.part_files import copy_rows
from store.whole_files import number_of
from store.writing.arrays import check_block
from store.writing.plausible import refuse_impossible

if TYPE_CHECKING:
    import duckdb

    from store.digests import Composition

Columns = Mapping[str, np.ndarray | None]  # of every measure, in their order; None where no block has it
_DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EFBIG, errno.ENOENT, errno.EACCES})

_WRITTEN = [
    ("scenario_id", "BIGINT"),
    ("batch_size", "INTEGER"),
    *((column.name, column.type.read_as) for column in MEASURES),
]
_WRITING = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardBlock:
    """The probes of one scenario over one batch interval, before they are stored."""

    scenario_id: int
    scenario_key: str
    replicas: int  # batches that an instance has in flight
    record: BlockRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class PartBlock:
    scenario_id: int
    first: int
    last: int
    digest: str
    composition: Composition | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PutFile:
    """A file that waits on its shelf and is not registered yet: so far it is no part of any store."""

    folder: str  # the address of its shelf
    name: str
    bytes: int
    sha256: str
    footer: str  # its digest


@dataclass(frozen=True, slots=True, kw_only=True)
class PartFile(PutFile):
    blocks: tuple[PartBlock, ...]


def write_part(shelf: Shelf, shard_key: str, blocks: Sequence[ShardBlock]) -> PartFile:
    ordered = sorted(blocks, key=lambda block: (block.scenario_id, int(block.record.batch_sizes[0])))
    lengths = [len(block.record.batch_sizes) for block in ordered]
    columns = _checked(ordered, lengths)
    described = _described(ordered, lengths, columns)
    name = f"shard-{shard_key[:16]}-{os.urandom(6).hex()}.parquet"
    with unfinished(shelf, name) as temporary:
        _write(temporary, ordered, lengths, columns)
        put = put_in_place(shelf, temporary, name)
    return PartFile(**asdict(put), blocks=described)


@contextmanager
def unfinished(shelf: Shelf, name: str) -> Iterator[Path]:
    """The path to write a file of a shelf at. What was not put on the shelf goes."""
    from store.reading.silent_duckdb import duckdb

    temporary = shelf.scratch / f".{name}"
    try:
        yield temporary
    except duckdb.IOException as error:
        raise disk_fault(shelf, name, OSError(errno.EIO, str(error).partition("\n")[0])) from error
    except OSError as error:
        raise disk_fault(shelf, name, error) from error
    finally:
        temporary.unlink(missing_ok=True)


def disk_fault(shelf: Shelf, name: str, error: OSError) -> StoreError:
    number = number_of(error)
    said = error.strerror or (str(error).partition("\n")[0] if number is None else os.strerror(number))
    return StoreError(
        f"The part {name} could not be written to {shelf.address}: {said}.",
        hint="Nothing of it is stored. Free some space; the same command again adds what is missing.",
    )


def _checked(blocks: Sequence[ShardBlock], lengths: Sequence[int]) -> Columns:
    """The measures of all blocks as columns, once nothing speaks against storing them; rules see all rows at once."""
    try:
        shapes = [(length,) for length in lengths]
        columns = {column.name: _column(column.name, blocks, shapes) for column in MEASURES}
        _check_together(blocks, lengths, columns)
    except (InputError, ValueError):
        for block in blocks:  # one by one, to name the one that is wrong
            check_block(block.record)
            refuse_impossible(block.scenario_key, block.record, block.replicas)
        raise
    return columns


def _check_together(blocks: Sequence[ShardBlock], lengths: Sequence[int], columns: Columns) -> None:
    sizes = _sizes(blocks)
    ends = np.cumsum(lengths)
    rising = np.diff(sizes) == 1
    rising[ends[:-1] - 1] = True  # where the next block begins
    named = all(block.record.columns.keys() <= columns.keys() for block in blocks)
    if min(lengths) < 1 or len(sizes) != ends[-1] or sizes[ends - lengths].min() < 1 or not rising.all() or not named:
        raise InputError("A block of this part is none.")
    for block in blocks:
        if block.record.composition is not None:
            check_block(block.record)
    check_block(BlockRecord(batch_sizes=np.arange(1, sum(lengths) + 1), columns=columns))
    in_flight = sizes * np.repeat([block.replicas for block in blocks], lengths)
    refuse_impossible(blocks[0].scenario_key, BlockRecord(batch_sizes=in_flight, columns=columns), 1)


def _described(blocks: Sequence[ShardBlock], lengths: Sequence[int], columns: Columns) -> tuple[PartBlock, ...]:
    sizes = _sizes(blocks)
    rows = DigestedBlocks(sizes, columns)
    ends = np.cumsum(lengths).tolist()
    made = []
    for block, length, end in zip(blocks, lengths, ends, strict=True):
        composition = block.record.composition
        made.append(
            PartBlock(
                scenario_id=block.scenario_id,
                first=int(sizes[end - length]),
                last=int(sizes[end - 1]),
                digest=rows.digest(block.scenario_key, end - length, end, composition),
                composition=composition,
            )
        )
    return tuple(made)


def _write(path: Path, blocks: Sequence[ShardBlock], lengths: Sequence[int], columns: Columns) -> None:
    columns = {
        "scenario_id": np.repeat([block.scenario_id for block in blocks], lengths),
        "batch_size": _sizes(blocks),
        **columns,
    }
    arrays, selected = handed_columns(_WRITTEN, columns)
    with _WRITING:
        connection = _writer(os.getpid())
        connection.register("handed", arrays)
        try:
            copy_rows(connection, f"SELECT {', '.join(selected)} FROM handed", path)  # noqa: S608 - our names
        except BaseException:
            _writer.cache_clear()  # one that failed may stay broken: the next file has another
            raise
        else:
            connection.unregister("handed")


@functools.cache
def _writer(process: int) -> duckdb.DuckDBPyConnection:  # noqa: ARG001  a copied process makes its own
    """A DuckDB that writes the files of a process one after another: starting one takes as long as 10,000 rows."""
    connection = in_memory()
    connection.execute("SET threads = 1")
    return connection


atexit.register(_writer.cache_clear)  # DuckDB says at the end of a process what it still holds


def _sizes(blocks: Sequence[ShardBlock]) -> np.ndarray:
    return np.concatenate([np.asarray(block.record.batch_sizes) for block in blocks])


def _column(name: str, blocks: Sequence[ShardBlock], shapes: Sequence[tuple[int]]) -> np.ndarray | None:
    given = [block.record.columns.get(name) for block in blocks]
    if all(values is None for values in given):
        return None
    whole = [
        np.full(shape, np.nan) if values is None else as_floats(values)
        for values, shape in zip(given, shapes, strict=True)
    ]
    if [values.shape for values in whole] != shapes:
        raise InputError("A block of this part is none.")
    return np.concatenate(whole)


def put_in_place(shelf: Shelf, temporary: Path, name: str) -> PutFile:
    with temporary.open("rb") as file:
        os.fsync(file.fileno())
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    size, footer = temporary.stat().st_size, footer_digest(temporary)
    shelf.put(temporary, name)
    return PutFile(folder=shelf.address, name=name, bytes=size, sha256=sha256, footer=footer)
