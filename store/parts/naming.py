"""Names files in the store: a part with its blocks and what it is about, and thinned files beside parts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import NamedTuple

from sqlalchemy import Connection, delete, insert, select, text

from store.errors import StoreError
from store.light_dataclass import dataclass
from store.opening import Store
from store.parts.files import PutFile
from store.placing import FileTimes, shelf_at
from store.schema.sql_tables import PART, PART_BLOCK, PART_FILE, PART_THINNED
from store.sealing.ranges import ranges_of
from store.writing.statements import utc_now

_SUBJECTS = text(
    "INSERT INTO part_subject (part_id, model_id, workload_id, phase, probes)"
    " SELECT pb.part_id, sj.model_id, sj.workload_id, sj.phase, SUM(b.probe_count)"
    " FROM part_block pb JOIN block b ON b.id BETWEEN pb.first_block AND pb.last_block"
    " JOIN scenario sc ON sc.id = b.scenario_id JOIN subject sj ON sj.id = sc.subject_id"
    " WHERE pb.part_id = :part_id GROUP BY pb.part_id, sj.model_id, sj.workload_id, sj.phase"
)


def insert_part(connection: Connection, file: PutFile, block_ids: Iterable[int], probes: int) -> int:
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


def settle(connection: Connection, file: PutFile) -> None:
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
    forget_state(connection, name)
    connection.execute(insert(PART_FILE).values(name=name, footer=footer, **times._asdict()))


def forget_state(connection: Connection, name: str) -> None:
    connection.execute(delete(PART_FILE).where(PART_FILE.c.name == name))


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinnedFile(PutFile):
    """A thinned file that was written and that no part has yet."""

    row_count: int
    rules: int


def register_thinned(store: Store, part_id: int, file: ThinnedFile) -> bool:
    """Name a file as the thinned one of a part, in place of what it had. False: the part is not in use any more."""
    with store.writing() as connection:
        held = connection.execute(
            select(PART.c.id).where(PART.c.id == part_id, PART.c.retired_at.is_(None)).with_for_update()
        ).first()
        if held is None:
            return False
        connection.execute(delete(PART_THINNED).where(PART_THINNED.c.part_id == part_id))
        row = {name: value for name, value in asdict(file).items() if name != "footer"}
        connection.execute(insert(PART_THINNED).values(part_id=part_id, created_at=utc_now(), **row))
        settle(connection, file)
    return True


class ThinnedName(NamedTuple):
    name: str
    folder: str


def thinned_of(connection: Connection, part_id: int) -> list[ThinnedName]:
    columns = select(PART_THINNED.c.name, PART_THINNED.c.folder).where(PART_THINNED.c.part_id == part_id)
    return [ThinnedName(*row) for row in connection.execute(columns).all()]


def forget_thinned(connection: Connection, part_id: int) -> None:
    for file in thinned_of(connection, part_id):
        forget_state(connection, file.name)
    connection.execute(delete(PART_THINNED).where(PART_THINNED.c.part_id == part_id))
