"""Names thinned files beside their parts, and forgets them with their parts.

Not here: which rows such a file holds (queries.thinned) and writing it (sweepdb.thinning)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import NamedTuple

from sqlalchemy import Connection, delete, insert, select

from store.opening import Store
from store.parts.subjects import forget_state, settle
from store.schema.sql_tables import PART, PART_THINNED
from store.writing.statements import utc_now


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinnedFile:
    """A thinned file that was written and that no part has yet."""

    folder: str  # the address of its shelf
    name: str
    bytes: int
    sha256: str
    footer: str  # its digest
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
    """A thinned file by its name and where it was written."""

    name: str
    folder: str


def thinned_of(connection: Connection, part_id: int) -> list[ThinnedName]:
    """The thinned files of a part."""
    columns = select(PART_THINNED.c.name, PART_THINNED.c.folder).where(PART_THINNED.c.part_id == part_id)
    return [ThinnedName(*row) for row in connection.execute(columns).all()]


def forget_thinned(connection: Connection, part_id: int) -> None:
    """Forget the thinned files of a part that goes."""
    for file in thinned_of(connection, part_id):
        forget_state(connection, file.name)
    connection.execute(delete(PART_THINNED).where(PART_THINNED.c.part_id == part_id))
