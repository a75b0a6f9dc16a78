"""Deletes files of parts that a compaction replaced, and what stopped workers left: in folders of this database alone.

A row whose file belongs to another database is forgotten, its file stays."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from typing import NamedTuple

from sqlalchemy import Connection, delete, select

from store.opening import Store
from store.parts.naming import forget_state, forget_thinned, thinned_of
from store.placing import LEFT_S, Ownership, found_shelf, home_of
from store.reading import read_transaction
from store.schema.sql_tables import PART, PART_THINNED
from store.writing.statements import as_utc, utc_now


class _Retired(NamedTuple):
    id: int
    name: str
    folder: str


def remove_retired(store: Store, kept_s: float) -> int:
    removed = 0
    ownership = _ownership(store)
    with store.writing() as connection:
        for part in _retired(connection, kept_s):
            with suppress(OSError):  # a place that does not answer now is asked by the next compaction
                files = [(part.name, part.folder), *thinned_of(connection, part.id)]
                removed += sum(_removed(store, ownership, name, folder) for name, folder in files)
                forget_thinned(connection, part.id)
                forget_state(connection, part.name)
                connection.execute(delete(PART).where(PART.c.id == part.id))
    return removed


def remove_unneeded(store: Store) -> int:
    """Delete files of workers that did not come back for them within a day; no database ever named one."""
    removed = 0
    with store.reading() as connection:
        thinned = set(connection.scalars(select(PART_THINNED.c.name)))
    ownership = _ownership(store)
    for home, shelf in ownership.own_shelves():
        with suppress(OSError), shelf.locked():
            for name in shelf.unneeded(thinned, older_than_s=LEFT_S) if ownership.may_change(shelf, home) else ():
                shelf.remove(name)
                removed += 1
    return removed


def _ownership(store: Store) -> Ownership:
    with read_transaction(store.location) as transaction:
        return Ownership.read(transaction)


def _retired(connection: Connection, kept_s: float) -> Iterator[_Retired]:
    found = select(PART.c.id, PART.c.name, PART.c.folder, PART.c.retired_at).where(PART.c.retired_at.is_not(None))
    for id_, name, folder, moment in connection.execute(found).all():
        if utc_now() - as_utc(moment) >= timedelta(seconds=kept_s):
            yield _Retired(id_, name, folder)


def _removed(store: Store, ownership: Ownership, name: str, folder: str) -> bool:
    """Delete a file in a folder that belongs to this database, and to no other since a moment ago."""
    shelf, home = found_shelf(store.location, name, folder), home_of(folder)
    if not ownership.may_change(shelf, home):
        return False
    with shelf.locked():  # whoever takes the folder over does so under this lock
        mine = ownership.may_change(shelf, home)
        if mine:
            shelf.remove(name)
    return mine
