"""Names thinned files beside their parts, and forgets them with their parts.

Not here: which rows such a file holds (queries.thinned) and writing it (sweepdb.thinning)."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, dataclass

from sqlalchemy import Connection, delete, insert, select

from store.location import StoreLocation
from store.opening import Store
from store.placing import found_shelf
from store.schema.sql_tables import PART, PART_THINNED
from store.writing.statements import utc_now


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinnedFile:
    """A thinned file that was written and that no part has yet."""

    folder: str  # the address of its shelf
    name: str
    bytes: int
    sha256: str
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
        connection.execute(insert(PART_THINNED).values(part_id=part_id, created_at=utc_now(), **asdict(file)))
    return True


def thinned_names(connection: Connection) -> set[str]:
    """Names of every thinned file that the store knows."""
    return set(connection.scalars(select(PART_THINNED.c.name)))


def remove_thinned(connection: Connection, location: StoreLocation, part_id: int) -> int:
    """Delete the thinned file of a part that is about to go, and forget it; how many there were."""
    rows = connection.execute(
        select(PART_THINNED.c.name, PART_THINNED.c.folder).where(PART_THINNED.c.part_id == part_id)
    ).all()
    for name, folder in rows:
        with suppress(OSError):  # a stranger then, which a later compaction removes
            found_shelf(location, name, folder).remove(name)
    connection.execute(delete(PART_THINNED).where(PART_THINNED.c.part_id == part_id))
    return len(rows)
