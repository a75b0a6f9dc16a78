"""Creates stores and moves them between schema revisions, driving Alembic from code.

A new store is laid down from the declaration; revisions change those that are there, and views follow both
(migrations.views). Alembic takes as long to import as a whole answer takes, so only what needs it imports it. Engines
are here, too: which driver, with which settings, and how transactions begin."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from filecmp import cmp
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    URL,
    Column,
    Connection,
    Engine,
    MetaData,
    NullPool,
    PrimaryKeyConstraint,
    String,
    Table,
    create_engine,
    event,
    insert,
    inspect,
    make_url,
)
from sqlalchemy.schema import CreateTable

from store.errors import StoreError
from store.faults import store_faults
from store.light_dataclass import dataclass
from store.location import StoreLocation, parse_url
from store.reading.connecting import BUSY_TIMEOUT_S, connect_sqlite, read_revision, require_store_file
from store.revision import HEAD_REVISION, REVISIONS, revision_error
from store.schema.sql_tables import METADATA, STORE_IDENTITY, create_tables, create_views
from store.waiting import limit_s, patiently
from store.whole_files import refuse_special

if TYPE_CHECKING:
    from alembic.config import Config

_ALEMBIC_VERSION = Table(
    "alembic_version",
    MetaData(),
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)


def make_engine(location: StoreLocation, *, foreign_keys: bool = True) -> Engine:
    if location.kind == "postgresql":
        waiting = {"options": f"-c lock_timeout={int(1000 * limit_s())}"}
        return create_engine(make_url(location.url), connect_args=waiting)
    return sqlite_engine(str(location.path), foreign_keys=foreign_keys)


def make_reading_engine(location: StoreLocation) -> Engine:
    """Build an engine that cannot write, which a SQLite store in a read-only directory needs."""
    if location.kind == "postgresql":
        return create_engine(make_url(location.url), execution_options={"postgresql_readonly": True})
    return create_engine("sqlite://", creator=lambda: connect_sqlite(location), poolclass=NullPool)


def sqlite_engine(path: str, *, foreign_keys: bool = True) -> Engine:
    """Build an engine on a SQLite file: WAL, foreign keys, a busy timeout, and BEGIN IMMEDIATE for writers."""
    engine = create_engine(
        URL.create("sqlite", database=path),
        connect_args={"timeout": BUSY_TIMEOUT_S, "check_same_thread": False},
    )

    @event.listens_for(engine, "connect")
    def set_up(connection: sqlite3.Connection, _: Any) -> None:  # noqa: ANN401 - SQLAlchemy's own record
        connection.isolation_level = None  # the driver must not begin transactions of its own
        connection.execute(f"PRAGMA foreign_keys = {'ON' if foreign_keys else 'OFF'}")
        # A commit survives the death of the process. A power cut may take the last commits, never the store; a
        # finished sweep is checkpointed, which makes it durable against that too.
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA wal_autocheckpoint = 4000")  # pages: copying back every 16 MB instead of every 4

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # Reading first and upgrading the lock later fails at once when another writer was faster, whatever the
        # timeout; taking the write lock at the start waits its turn.
        if connection.get_execution_options().get("sweepdb_reading", False):
            connection.exec_driver_sql("BEGIN")
        elif isinstance(driver := connection.connection.driver_connection, sqlite3.Connection):
            patiently(driver, "BEGIN IMMEDIATE")

    return engine


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeReport:
    """The outcome of an upgrade: revisions before and after, where the backup of a file store lies, and views that were
    laid down anew though the revision was right."""

    before: str
    after: str
    backup: Path | None
    views: tuple[str, ...] = ()


def create_store(url: str | None) -> bool:
    """Create an empty store; False when a store at the current revision is already there."""
    location = parse_url(url)
    if create_if_missing(location):
        return True
    found = current_revision(url)
    if found != HEAD_REVISION:
        raise revision_error(location, found)
    return False


def create_if_missing(location: StoreLocation) -> bool:
    """Create the store unless something is there; say whether it was created. What is there is left alone."""
    if location.path is not None:
        return _create_file(location, location.path)
    with store_faults(location):
        engine = make_engine(location)
        try:
            with engine.begin() as connection:
                # One creator at a time; the number is arbitrary and only has to be the same in every process.
                connection.exec_driver_sql("SELECT pg_advisory_xact_lock(7277231)")
                if inspect(connection).get_table_names():
                    return False
                _initialise(connection)
        finally:
            engine.dispose()
    return True


def upgrade_store(url: str | None) -> UpgradeReport:
    location = parse_url(url)
    before = current_revision(url)
    if before == HEAD_REVISION:
        return UpgradeReport(before=before, after=before, backup=None)
    if before not in REVISIONS:
        raise revision_error(location, before)
    backup = None if location.path is None else back_up(location, f"backup-{before}")
    migrate(location, _to_head)
    return UpgradeReport(before=before, after=current_revision(url), backup=backup)


def _to_head(config: Config) -> None:
    from alembic import command

    command.upgrade(config, "head")


def current_revision(url: str | None) -> str:
    return read_revision(parse_url(url))


def migrate(location: StoreLocation, action: Callable[[Config], None]) -> None:
    """Run an Alembic command over a store in one transaction, and check every foreign key afterwards."""
    with store_faults(location):
        # Building a table anew must not be taken for deleting what refers to it, hence no enforcement meanwhile.
        engine = make_engine(location, foreign_keys=False)
        try:
            with engine.begin() as connection:
                if location.kind == "sqlite":
                    # A table that is built anew is renamed while views refer to it: they mean the name, not the table.
                    connection.exec_driver_sql("PRAGMA legacy_alter_table = ON")
                action(alembic_config(connection))
                if location.kind == "sqlite" and connection.exec_driver_sql("PRAGMA foreign_key_check").first():
                    raise StoreError(f"The migration of {location.display} broke a reference; nothing was changed.")
        finally:
            engine.dispose()


def schema_drift(connection: Connection) -> list[str]:
    from alembic.autogenerate import compare_metadata
    from alembic.runtime.migration import MigrationContext

    context = MigrationContext.configure(connection, opts={"compare_type": True, "target_metadata": METADATA})
    return [repr(difference) for difference in compare_metadata(context, METADATA)]


def alembic_config(connection: Connection | None) -> Config:
    from alembic.config import Config

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(migrations_directory()).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


def migrations_directory() -> Path:
    return Path(__file__).resolve().parents[1] / "migrations"


def back_up(location: StoreLocation, label: str) -> Path:
    """Copy a file store, its log included, beside itself with SQLite's own backup, and return the copy."""
    path = require_store_file(location)
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    target = path.with_name(f"{path.name}.{label}-{moment}")
    temporary = _temporary_beside(target)
    try:
        with (
            store_faults(location),
            closing(sqlite3.connect(path)) as source,
            closing(sqlite3.connect(temporary)) as copy,
        ):
            source.backup(copy)
        if (same := _same_backup(path, label, temporary)) is not None:  # of an upgrade that was killed
            temporary.unlink()
            return same
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return target


def _same_backup(path: Path, label: str, made: Path) -> Path | None:
    known = sorted(path.parent.glob(f"{escape(path.name)}.{label}-*Z"))
    return next((one for one in known if cmp(one, made, shallow=False)), None)


def _create_file(location: StoreLocation, path: Path) -> bool:
    if path.is_dir():
        raise StoreError(f"{location.display} is a directory.", hint="Name a file in it.")
    refuse_special(path)
    if path.exists() and path.stat().st_size > 0:
        return False
    if not path.parent.is_dir():
        raise StoreError(
            f"The directory {path.parent} does not exist.", hint="Create it, or name another with `store`."
        )
    temporary = _temporary_beside(path)
    try:
        with store_faults(location):
            _initialise_file(temporary)
        return _publish(temporary, path)
    except OSError as error:
        raise StoreError(
            f"The store {location.display} cannot be created: {error.strerror}.",
            hint="Check the directory's permissions.",
        ) from error
    finally:
        temporary.unlink(missing_ok=True)


def _initialise_file(path: Path) -> None:
    engine = sqlite_engine(str(path), foreign_keys=False)
    try:
        with engine.begin() as connection:
            _initialise(connection)
    finally:
        engine.dispose()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")  # kept in the file; the log goes away on closing


def _publish(temporary: Path, path: Path) -> bool:
    """Give a finished file its name without ever replacing a store that another process created meanwhile."""
    if path.exists() and path.stat().st_size == 0:
        temporary.replace(path)
        return True
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    except OSError:  # a file system without hard links
        if path.exists():
            return False
        temporary.replace(path)
    return True


def _temporary_beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.urandom(4).hex()}.tmp")


def _initialise(connection: Connection) -> None:
    create_tables(connection)
    create_views(connection)
    # As `alembic stamp head` does, whose import costs more than all the rest of a new store.
    connection.execute(CreateTable(_ALEMBIC_VERSION))
    connection.execute(insert(_ALEMBIC_VERSION).values(version_num=HEAD_REVISION))
    connection.execute(insert(STORE_IDENTITY).values(id=1, store_id=os.urandom(16).hex(), created_at=datetime.now(UTC)))
