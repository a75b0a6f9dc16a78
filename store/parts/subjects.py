"""Inserts a part with its blocks and what it is about, inside a transaction of whoever registers or compacts.

Not here: the transactions (store.parts.registering, store.parts.compacting)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from sqlalchemy import Connection, delete, insert, text

from store.errors import StoreError
from store.placing import FileTimes, shelf_at
from store.schema.sql_tables import PART, PART_BLOCK, PART_FILE
from store.sealing.ranges import ranges_of
from store.writing.statements import utc_now

_SUBJECTS = text(
    "INSERT INTO part_subject (part_id, model_id, workload_id, phase, probes)"
    " SELECT pb.part_id, sj.model_id, sj.workload_id, sj.phase, SUM(b.probe_count)"
    " FROM part_block pb JOIN block b ON b.id BETWEEN pb.first_block AND pb.last_block"
    " JOIN scenario sc ON sc.id = b.scenario_id JOIN subject sj ON sj.id = sc.subject_id"
    " WHERE pb.part_id = :part_id GROUP BY pb.part_id, sj.model_id, sj.workload_id, sj.phase"
)


class File(Protocol):
    """A file that is to be a part."""

    @property
    def folder(self) -> str:
        """The address of the shelf that it was written to."""
        ...

    @property
    def name(self) -> str:
        """Its name there."""
        ...

    @property
    def bytes(self) -> int:
        """Its size."""
        ...

    @property
    def sha256(self) -> str:
        """The digest of its content."""
        ...

    @property
    def footer(self) -> str:
        """The digest of its footer."""
        ...


def insert_part(connection: Connection, file: File, block_ids: Iterable[int], probes: int) -> int:
    """Name a file as the part that holds these blocks, and return its id."""
    row = {
        "name": file.name,
        "folder": file.folder,
        "bytes": file.bytes,
        "sha256": file.sha256,
        "row_count": probes,
        "created_at": utc_now(),
    }
    part_id = int(connection.execute(insert(PART).values(row).returning(PART.c.id)).scalar_one())
    ranges = [{"first_block": low, "last_block": high, "part_id": part_id} for low, high in ranges_of(block_ids)]
    connection.execute(insert(PART_BLOCK), ranges)
    connection.execute(_SUBJECTS, {"part_id": part_id})
    settle(connection, file)
    return part_id


def settle(connection: Connection, file: File) -> None:
    """Give a file that waits its name, which this transaction is about to store; what came before may still fail."""
    try:
        times = shelf_at(file.folder).settle(file.name)
    except OSError as error:
        raise StoreError(
            f"The part {file.folder}/{file.name} is not there to be named: {error.strerror or error}.",
            hint="Nothing of it is stored; the same command again adds what is missing.",
        ) from error
    keep_state(connection, file.name, file.footer, times)


def keep_state(connection: Connection, name: str, footer: str, times: FileTimes) -> None:
    """Note how a file is now that it has its name."""
    forget_state(connection, name)
    connection.execute(insert(PART_FILE).values(name=name, footer=footer, **times._asdict()))


def forget_state(connection: Connection, name: str) -> None:
    """Forget a file that is no part any more."""
    connection.execute(delete(PART_FILE).where(PART_FILE.c.name == name))
