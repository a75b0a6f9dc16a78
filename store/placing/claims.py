"""Whose the folders of parts are. A database may change a folder that it claimed itself and that names the same claim.

A copy of a database has its claims and is another file, or another table of a server: it reads, and changes nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Iterator

from store.light_dataclass import NamedTuple, dataclass
from store.location import StoreLocation
from store.placing.folders import AT_THE_ROOT, beside, found_shelf, home_of, parts_root
from store.placing.shelves import Folder, Shelf
from store.reading import ReadTransaction

_SERVER = (
    "SELECT CAST(system_identifier AS text) || '/' || (SELECT CAST(oid AS text) FROM pg_database WHERE datname ="
    " current_database()) || '/' || CAST(CAST(CAST('store_identity' AS regclass) AS oid) AS text)"
    " FROM pg_control_system()"
)


class Claim(NamedTuple):
    home: str
    token: str
    database: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """A database as its copies are not: a file by inode, disk, device and path; a table of a server by number."""

    table: str = ""
    inode: int = 0
    disk: int = 0
    device: int = 0
    path: str = ""

    def as_json(self) -> str:
        return json.dumps({name: getattr(self, name) for name in self.__slots__})

    def is_that_of(self, claim: Claim) -> bool:
        """Whether it made a claim: a file may move on its disk, and a disk may get another device at the next start."""
        try:
            said = Database(**json.loads(claim.database))
        except (ValueError, TypeError):
            return False
        same_file = (self.inode, self.disk) == (said.inode, said.disk)
        return self.table == said.table and same_file and (self.device == said.device or self.path == said.path)


def owner_note(store_id: str) -> str:
    """The name of the file in which a folder says whose it is, for each store that has parts there."""
    return f"owner-{store_id}.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    location: StoreLocation
    store_id: str
    database: Database
    claims: dict[str, Claim]

    @classmethod
    def read(cls, transaction: ReadTransaction) -> Ownership:
        rows = transaction.rows(Claim, "SELECT home, token, database FROM part_claim")
        return cls(
            location=transaction.location,
            store_id=transaction.store_id,
            claims={claim.home: claim for claim in rows},
            database=_database(transaction),
        )

    def says_so(self, home: str) -> bool:
        """Whether this very database has claimed a folder. The folder may say otherwise."""
        claim = self.claims.get(home)
        return claim is not None and self.database.is_that_of(claim)

    def own_shelves(self) -> Iterator[tuple[str, Shelf]]:
        """The folders of today's place that this very database has claimed, by name."""
        root = parts_root(self.location)
        for home in sorted(self.claims) if root is not None else ():
            if root is not None and home != AT_THE_ROOT and self.says_so(home):
                yield home, root.below(home)

    def may_change(self, shelf: Shelf, home: str) -> bool:
        """Whether both agree: this database has claimed the folder, and the folder names this claim."""
        return self.says_so(home) and self.token_on(shelf) == self.claims[home].token

    def token_on(self, shelf: Shelf) -> str | None:
        said = _said(shelf, self.store_id)
        return str(said.get("token")) if said else None

    def owner_of(self, shelf: Shelf) -> str:
        return str(_said(shelf, self.store_id).get("store") or "no database that is known")

    def elsewhere(self, folders: Iterable[str]) -> tuple[str, ...]:
        """Folders of parts that another database has claimed, by what this one says: no folder is asked."""
        homes = ((folder, home_of(folder)) for folder in sorted(set(folders)))
        return tuple(folder for folder, home in homes if home != AT_THE_ROOT and not self.says_so(home))

    def lies_beside(self, shelf: Shelf, home: str) -> bool:
        """Whether parts of before lie beside a file store under its name, and nobody else has claimed them."""
        path = self.location.path
        return (
            path is not None
            and home == AT_THE_ROOT
            and isinstance(shelf, Folder)
            and shelf.path.resolve() == beside(path).path.resolve()
            and self.token_on(shelf) is None
            and home not in self.claims
        )


def parts_elsewhere(transaction: ReadTransaction, folders: Collection[str]) -> tuple[str, ...]:
    if not any(home_of(folder) != AT_THE_ROOT for folder in folders):
        return ()
    return Ownership.read(transaction).elsewhere(folders)


class NotOwned(NamedTuple):
    parts: int
    address: str
    owner: str


class _Written(NamedTuple):
    folder: str
    name: str
    parts: int


_WRITTEN = "SELECT folder, MIN(name), COUNT(*) FROM part WHERE retired_at IS NULL GROUP BY folder ORDER BY folder"


def parts_not_owned(transaction: ReadTransaction) -> list[NotOwned]:
    """The parts in use that another database may name, too, or that nobody has claimed."""
    ownership = Ownership.read(transaction)
    found: list[NotOwned] = []
    for written in transaction.rows(_Written, _WRITTEN):
        home = home_of(written.folder)
        try:
            shelf = found_shelf(transaction.location, written.name, written.folder)
            if not ownership.may_change(shelf, home) and not ownership.lies_beside(shelf, home):
                found.append(NotOwned(written.parts, shelf.address, ownership.owner_of(shelf)))
        except OSError as error:
            found.append(NotOwned(written.parts, written.folder, f"nobody knows whom ({error.strerror or error})"))
    return found


def _said(shelf: Shelf, store_id: str) -> dict[str, object]:
    try:
        said = json.loads(shelf.note(owner_note(store_id)) or "{}")
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _database(transaction: ReadTransaction) -> Database:
    path = transaction.location.path
    if path is None:
        return Database(table=next(transaction.values(str, _SERVER)))
    status = path.stat()
    return Database(
        inode=status.st_ino, disk=os.statvfs(path).f_fsid, device=status.st_dev, path=os.path.realpath(path)
    )
