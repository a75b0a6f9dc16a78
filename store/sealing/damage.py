"""Finds the damaged file behind an error of DuckDB: one that is not what was registered, or what its manifest says.

An error of another cause stays what it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from store.errors import StoreError
from store.light_dataclass import NamedTuple
from store.location import StoreLocation
from store.placing import damaged_part, whole_digest
from store.reading import read_transaction
from store.sealing.load_parts import parts_in_manifests
from store.sealing.snapshots import list_parts

if TYPE_CHECKING:
    import duckdb

_REGISTERED = (
    "SELECT name, sha256 FROM part WHERE name IN ({marks})"
    " UNION ALL SELECT name, sha256 FROM part_thinned WHERE name IN ({marks})"
)


class _Digest(NamedTuple):
    name: str
    sha256: str


@contextmanager
def damage_named(location: StoreLocation, files: Callable[[], Sequence[Path]]) -> Iterator[None]:
    """Name the first damaged file among those that are read inside, where DuckDB could not read one."""
    from store.reading.silent_duckdb import duckdb

    try:
        yield
    except duckdb.Error as error:
        found = next(_damaged(location, files()), None) if _may_be_damage(error) else None
        if found is None:
            raise
        raise found from error


def _may_be_damage(error: duckdb.Error) -> bool:
    """Whether reading a damaged file raises such an error: never one in a statement, so that nothing is hashed then."""
    from store.reading.silent_duckdb import duckdb

    kinds = (
        duckdb.IOException,
        duckdb.InvalidInputException,
        duckdb.InternalException,
        duckdb.FatalException,
        duckdb.SerializationException,
        duckdb.OutOfRangeException,
    )
    return type(error) is duckdb.Error or isinstance(error, kinds)


def _damaged(location: StoreLocation, files: Sequence[Path]) -> Iterator[StoreError]:
    with read_transaction(location) as transaction:
        registered = dict(transaction.rows_of(_Digest, _REGISTERED, (path.name for path in files)))
        laid = {part.path: part.sha256 for part in list_parts(location, transaction.store_id)}
        laid |= parts_in_manifests(transaction, location)
    for path in files:
        said = laid.get(path) or registered.get(path.name)
        if said is None or not path.is_file() or whole_digest(path) == said:
            continue
        if path in laid:
            yield damaged_snapshot(location, path)
        yield damaged_part(location, str(path), "is damaged")


def damaged_snapshot(location: StoreLocation, path: Path) -> StoreError:
    return StoreError(
        f"The snapshot {path} of {location.display} is damaged.",
        hint=f"Nothing is lost: sweepdb db check{location.argument} `repair` lays it down again; then ask again",
    )
