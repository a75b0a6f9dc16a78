"""Opens a store for writing: its transactions, and the checks before anything is done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field
from typing import Self

from sqlalchemy import Connection, Engine

from store.errors import StoreError
from store.faults import store_faults
from store.light_dataclass import dataclass
from store.location import StoreLocation, parse_url
from store.migrating import create_if_missing, make_engine, make_reading_engine
from store.reading import interrupts_held, read_store_id
from store.revision import check_revision
from store.running_lock import RunningLock


@dataclass(slots=True, kw_only=True)
class Store:
    """An opened store. `ids` remembers integer ids by content key, so that dimensions are looked up once."""

    location: StoreLocation
    engine: Engine
    store_id: str
    running_lock: RunningLock
    read_only: bool = False
    ids: dict[str, dict[object, int]] = field(default_factory=dict)
    joint: Connection | None = None  # the transaction of `together`

    @property
    def url(self) -> str:
        return self.location.url

    @property
    def kind(self) -> str:
        return self.location.kind

    def close(self) -> None:
        with store_faults(self.location):
            self.running_lock.close()
            self.engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        reader = self.engine.execution_options(sweepdb_reading=True)
        with store_faults(self.location), reader.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Write inside one transaction; what it did is durable when the block has ended, and undone if it raised.

        ^C waits for the end of the block."""
        if self.joint is not None:
            yield self.joint
            return
        with interrupts_held(), self._transaction() as connection:
            yield connection

    @contextmanager
    def together(self) -> Iterator[None]:
        """Make one transaction of everything written inside: all of it is there once the block has ended, or nothing.

        ^C ends it at once."""
        try:
            with self._transaction() as self.joint:
                yield
        except BaseException:
            self.ids.clear()  # of rows that are not there after all
            raise
        finally:
            self.joint = None

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        if self.read_only:
            raise StoreError(f"The store {self.location.display} was opened for reading only.")
        with store_faults(self.location), self.engine.connect() as connection, connection.begin():
            # Somebody may have upgraded the store since it was opened.
            found = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar_one()
            check_revision(self.location, found)
            yield connection


def open_store(url: str | None, *, create: bool = False, read_only: bool = False) -> Store:
    location = parse_url(url)
    if create and not read_only:
        create_if_missing(location)
    store_id = read_store_id(location)
    engine = make_reading_engine(location) if read_only else make_engine(location)
    running_lock = RunningLock(location=location, store_id=store_id)
    return Store(location=location, engine=engine, store_id=store_id, running_lock=running_lock, read_only=read_only)
