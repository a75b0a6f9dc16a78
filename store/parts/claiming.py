"""Claims folders for a database's parts.

The database notes a folder, then the folder notes the database: a stop in between owns nothing, and the command goes
on. Deletes nothing."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import Connection, delete, insert, select, update

from store import placing
from store.errors import StoreError
from store.location import StoreLocation
from store.opening import Store, open_store
from store.parts.files import disk_fault
from store.parts.naming import keep_state
from store.reading import ReadTransaction, read_transaction
from store.schema.sql_tables import PART, PART_CLAIM, PART_THINNED, STORE_IDENTITY
from store.writing.statements import utc_now

_AT_ONCE = 2**20
_IN_USE = (
    "SELECT 0, name, folder, bytes, sha256 FROM part WHERE retired_at IS NULL UNION ALL"
    " SELECT 1, t.name, t.folder, t.bytes, t.sha256 FROM part_thinned t JOIN part p ON p.id = t.part_id"
    " WHERE p.retired_at IS NULL ORDER BY 2"
)


class _File(NamedTuple):
    thinned: int
    name: str
    folder: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptReport:
    copied: int = 0
    bytes: int = 0
    taken: tuple[str, ...] = ()
    noted: int = 0  # files whose times were others than in the database, and that are what was registered


def part_shelf(store: Store) -> placing.Shelf:
    """Made if this very database has none here."""
    root = placing.made_root(store.location)
    with read_transaction(store.location) as transaction:
        ownership = placing.Ownership.read(transaction)
    with _place_faults(root):
        claim = _own_claim(ownership, root) or _claimed(store, ownership, root)
        shelf = placing.made(root.below(claim.home))
        if ownership.token_on(shelf) is None:
            shelf.put_note(placing.owner_note(store.store_id), _note(store, claim))
    return shelf


def claim_beside(store: Store) -> None:
    with read_transaction(store.location) as transaction:
        ownership, files = placing.Ownership.read(transaction), _files(transaction)
    for shelf in {
        file.folder: _shelf(store, file) for file in files if placing.home_of(file.folder) == placing.AT_THE_ROOT
    }.values():
        if ownership.lies_beside(shelf, placing.AT_THE_ROOT):
            _take(store, ownership, [(shelf, placing.AT_THE_ROOT)])
            return


def require_own(store: Store) -> None:
    """Refuses copies, and older stores in a shared folder."""
    with read_transaction(store.location) as transaction:
        others = placing.parts_not_owned(transaction)
    if others:
        first = others[0]
        raise StoreError(
            f"{sum(one.parts for one in others):,} parts of {store.location.display} lie in {first.address}, which"
            f" belongs to {first.owner}: another database may read them, so nothing is rewritten or deleted.",
            hint=f"To copy them into a folder of this database: sweepdb db adopt-parts{store.location.argument}   (with"
            " `move` the folder becomes this database's, for one that has moved or was restored)",
        )


def adopt_parts(location: StoreLocation, *, move: bool = False) -> AdoptReport:
    """By copying each part, or taking over their folders."""
    with open_store(location.url) as store:
        claim_beside(store)
        with read_transaction(location) as transaction:
            ownership, files = placing.Ownership.read(transaction), _files(transaction)
            states = placing.states_of_files(transaction, [file.name for file in files])
        with _place_faults(None):
            foreign = list(_foreign(store, ownership, files))
        if not move:
            own = part_shelf(store)
            return AdoptReport(copied=len(foreign), bytes=sum(_copied(store, own, file) for file in foreign))
        noted = sum(_noted(store, file, states.get(file.name)) for file in files)
        folders = {
            shelf.address: (shelf, placing.home_of(file.folder)) for file in foreign for shelf in [_shelf(store, file)]
        }
        _take(store, ownership, list(folders.values()))
        return AdoptReport(taken=tuple(folders), noted=noted)


@contextmanager
def _place_faults(shelf: placing.Shelf | None) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        where = shelf.address if shelf is not None else error.filename or "a folder of parts"
        raise StoreError(
            f"{where} belongs to whom it did: it cannot be read or written: {error.strerror or error}.",
            hint="Check its permissions; where it is to stay read-only: sweepdb db adopt-parts copies its parts",
        ) from error


def _own_claim(ownership: placing.Ownership, root: placing.Shelf) -> placing.Claim | None:
    for home in sorted(ownership.claims):
        claim = ownership.claims[home]
        own = home != placing.AT_THE_ROOT and ownership.says_so(home)
        if own and ownership.token_on(root.below(home)) in {None, claim.token}:
            return claim
    return None


def _claimed(store: Store, before: placing.Ownership, root: placing.Shelf) -> placing.Claim:
    """Unless another process of this database just has."""
    with store.writing() as connection:
        connection.execute(select(STORE_IDENTITY.c.id).with_for_update())
        rows = connection.execute(select(PART_CLAIM.c.home, PART_CLAIM.c.token, PART_CLAIM.c.database)).all()
        claims = {row.home: placing.Claim(*row) for row in rows}
        now = placing.Ownership(
            location=before.location, store_id=before.store_id, database=before.database, claims=claims
        )
        if (known := _own_claim(now, root)) is not None:
            return known
        made_now = placing.Claim(
            f"{store.store_id}-{os.urandom(6).hex()}", os.urandom(16).hex(), before.database.as_json()
        )
        _keep(connection, made_now)
    return made_now


def _take(store: Store, ownership: placing.Ownership, folders: Sequence[tuple[placing.Shelf, str]]) -> None:
    """The last note owns them; other databases then own nothing."""
    for home in sorted({home for _, home in folders}):
        claim = placing.Claim(home, os.urandom(16).hex(), ownership.database.as_json())
        with store.writing() as connection:
            _keep(connection, claim)
        for shelf in (shelf for shelf, its in folders if its == home):
            with _place_faults(shelf), shelf.locked():
                shelf.put_note(placing.owner_note(store.store_id), _note(store, claim))


def _keep(connection: Connection, claim: placing.Claim) -> None:
    connection.execute(delete(PART_CLAIM).where(PART_CLAIM.c.home == claim.home))
    connection.execute(insert(PART_CLAIM).values(**claim._asdict(), claimed_at=utc_now()))


def _note(store: Store, claim: placing.Claim) -> str:
    said = {"store_id": store.store_id, "token": claim.token, "store": store.location.display}
    return json.dumps(said | {"claimed_at": utc_now().isoformat()}, indent=1) + "\n"


def _files(transaction: ReadTransaction) -> list[_File]:
    return list(transaction.rows(_File, _IN_USE))


def _shelf(store: Store, file: _File) -> placing.Shelf:
    return placing.found_shelf(store.location, file.name, file.folder)


def _foreign(store: Store, ownership: placing.Ownership, files: Sequence[_File]) -> Iterator[_File]:
    own: dict[tuple[str, str], bool] = {}
    for file in files:
        shelf, home = _shelf(store, file), placing.home_of(file.folder)
        if (shelf.address, home) not in own:
            own[shelf.address, home] = ownership.may_change(shelf, home)
        if not own[shelf.address, home]:
            yield file


def _copied(store: Store, own: placing.Shelf, file: _File) -> int:
    source = _shelf(store, file)
    temporary = own.scratch / f".{file.name}.{os.urandom(4).hex()}"
    try:
        digest, footer = _copy(_path(store, source, file), temporary)
        if digest != file.sha256:
            raise placing.damaged_part(
                store.location, f"{source.address}/{file.name}", "is not the file that was registered"
            )
        own.put(temporary, file.name)
        times = own.settle(file.name)
    except OSError as error:
        raise disk_fault(own, file.name, error) from error
    finally:
        temporary.unlink(missing_ok=True)
    table = PART_THINNED if file.thinned else PART
    with store.writing() as connection:
        connection.execute(update(table).where(table.c.name == file.name).values(folder=own.address))
        keep_state(connection, file.name, footer, times)
    return file.bytes


def _path(store: Store, source: placing.Shelf, file: _File) -> Path:
    try:
        return source.fetched(file.name, file.bytes, file.sha256)
    except OSError as error:
        fault = "is not there" if isinstance(error, FileNotFoundError) else f"cannot be read: {error.strerror}"
        raise placing.damaged_part(store.location, f"{source.address}/{file.name}", fault) from error


def _copy(source: Path, target: Path) -> tuple[str, str]:
    digest = hashlib.sha256()
    with source.open("rb") as read, target.open("wb") as written:
        while chunk := read.read(_AT_ONCE):
            digest.update(chunk)
            written.write(chunk)
        written.flush()
        os.fsync(written.fileno())
    return digest.hexdigest(), placing.footer_digest(target)


def _noted(store: Store, file: _File, state: placing.FileState | None) -> bool:
    """So that questions need not compare a moved file whole."""
    shelf = _shelf(store, file)
    if not isinstance(shelf, placing.Folder):
        return False
    path = _path(store, shelf, file)
    times = placing.FileTimes.of(path.stat())
    if state is not None and state.times == times:
        return False
    if placing.whole_digest(path) != file.sha256:
        raise placing.damaged_part(
            store.location, f"{shelf.address}/{file.name}", "is not the file that was registered"
        )
    with store.writing() as connection:
        keep_state(connection, file.name, placing.footer_digest(path), times)
    return True
