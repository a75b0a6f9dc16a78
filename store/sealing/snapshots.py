"""Snapshots: Parquet parts beside the store that hold committed blocks column-wise, and the checks before one is read.

A part is derived data. What does not match the store or its own manifest is left aside and read from the store."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from store.light_dataclass import NamedTuple, dataclass
from store.location import StoreLocation
from store.placing import whole_digest
from store.reading import ReadTransaction, Recalled, version_of
from store.revision import HEAD_REVISION
from store.schema.probe_columns import layout_digest
from store.sealing.footers import footer_fault, known_footers
from store.sealing.part_files import WrittenFile, put_document
from store.sealing.ranges import Ranges, as_parameter, meets, merged, ranges_of

if TYPE_CHECKING:
    import duckdb

MANIFEST = "manifest.json"
# Whatever a damaged manifest raises: it then lists nothing.
UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)
_MANIFEST_FORMAT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """The contents of a part: written into its Parquet footer, and compared with the store whenever that is opened."""

    store_id: str
    revision: str
    layout: str  # names, order and types of the columns
    blocks: Ranges
    rows: int
    block_count: int
    digests: str  # of the digests of the blocks, in the order of their ids
    models: Ranges  # ids of the models and workloads known when the part was written,
    workloads: Ranges
    names: str  # and a digest of their names, which are joined into the rows

    def as_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Contents:
        """Read what `as_json` wrote; raises KeyError, TypeError or ValueError on anything else."""
        known = {name: fields[name] for name in cls.__slots__}
        for name in ("blocks", "models", "workloads"):
            known[name] = tuple((int(low), int(high)) for low, high in known[name])
        return cls(**known)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part(WrittenFile):
    path: Path
    contents: Contents


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedPart:
    path: Path
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The parts that may be read, the blocks they cover, and the parts that were left aside."""

    parts: tuple[Part, ...] = ()
    rejected: tuple[RejectedPart, ...] = ()

    @property
    def blocks(self) -> Ranges:
        return merged(block for part in self.parts for block in part.contents.blocks)

    @property
    def rows(self) -> int:
        return sum(part.contents.rows for part in self.parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The parts of one directory, and files replaced by a compaction that a reader may still have open."""

    parts: tuple[Part, ...] = ()
    retired: tuple[tuple[str, float], ...] = ()  # file name, when it was replaced


_MANIFESTS: Recalled[Manifest] = Recalled(most=64)


def snapshot_directories(location: StoreLocation, store_id: str) -> tuple[Path, ...]:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sweepdb"
    if location.path is None:
        return (cache / store_id,)
    place = hashlib.sha256(str(location.path.resolve()).encode()).hexdigest()[:8]
    return (location.path.with_name(f"{location.path.name}.snapshots"), cache / f"{store_id}-{place}")


def read_manifest(directory: Path) -> Manifest:
    """Read the manifest of a directory; an absent or damaged one lists nothing."""
    path = directory / MANIFEST
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            version = version_of(path, status)
            if (known := _MANIFESTS.get(version)) is not None:
                return known
            document = json.load(file)
        if document["format"] != _MANIFEST_FORMAT:
            return Manifest()
        manifest = Manifest(
            parts=tuple(_part_of(directory, entry) for entry in document["parts"]),
            retired=tuple((str(name), float(when)) for name, when in document["retired"]),
        )
    except UNREADABLE:
        return Manifest()
    _MANIFESTS.keep(version, manifest)
    return manifest


def _part_of(directory: Path, entry: dict[str, Any]) -> Part:
    if Path(entry["name"]).name != entry["name"]:
        raise ValueError(entry["name"])
    return Part(
        path=directory / entry["name"],
        size=int(entry["size"]),
        mtime_ns=int(entry["mtime_ns"]),
        ctime_ns=int(entry["ctime_ns"]),
        sha256=str(entry["sha256"]),
        contents=Contents.from_json(entry["contents"]),
    )


def write_manifest(directory: Path, manifest: Manifest) -> None:
    document = {
        "format": _MANIFEST_FORMAT,
        "parts": [{"name": entry.pop("path").name, **entry} for entry in map(asdict, manifest.parts)],
        "retired": manifest.retired,
    }
    put_document(directory / MANIFEST, document)


def list_parts(location: StoreLocation, store_id: str) -> tuple[Part, ...]:
    return tuple(
        part for directory in snapshot_directories(location, store_id) for part in read_manifest(directory).parts
    )


def load_snapshot(
    connection: duckdb.DuckDBPyConnection,
    transaction: ReadTransaction,
    location: StoreLocation,
    store_id: str,
    *,
    listed: Sequence[Part] | None = None,
    full_hash: Callable[[Part], bool] = lambda _: False,
) -> Snapshot:
    """Return the parts that match the store as this transaction sees it; no block is in two of them.

    `full_hash` tells for which parts the whole file is hashed even though its size and times of change are right."""
    listed = list_parts(location, store_id) if listed is None else listed
    if not listed:
        return Snapshot()
    store = _StoreState.read(transaction, listed, store_id)
    footers = known_footers(connection, [part.path for part in listed], full_hash=any(map(full_hash, listed)))
    apart = _all_apart(listed)
    accepted: list[Part] = []
    rejected: list[RejectedPart] = []
    for number, part in enumerate(listed):
        reason = (
            file_fault(part.path, part, full_hash=full_hash(part))
            or footer_fault(part, footers.get(str(part.path)))
            or store.fault(number, part.contents)
        )
        if reason is None and not apart and any(meets(part.contents.blocks, one.contents.blocks) for one in accepted):
            reason = "another part holds the same blocks"
        if reason is None:
            accepted.append(part)
        else:
            rejected.append(RejectedPart(path=part.path, reason=reason))
    return Snapshot(parts=tuple(accepted), rejected=tuple(rejected))


def _all_apart(parts: Sequence[Part]) -> bool:
    ranges = sorted(block for part in parts for block in part.contents.blocks)
    return all(before[1] < after[0] for before, after in pairwise(ranges))


def file_fault(path: Path, written: WrittenFile, *, full_hash: bool = False) -> str | None:
    """Compare size and times of change; where only a time differs, as after a copy, the full hash decides."""
    try:
        status = path.stat()
    except OSError:
        return "the file is missing"
    if status.st_size != written.size:
        return f"the file has {status.st_size} bytes, {written.size} were written"
    untouched = (status.st_mtime_ns, status.st_ctime_ns) == (written.mtime_ns, written.ctime_ns)
    if (full_hash or not untouched) and hash_file(path) != written.sha256:
        return "the file was changed after it was written"
    return None


def hash_file(path: Path) -> str:
    try:
        return whole_digest(path)
    except OSError:
        return ""


class _BlockSums(NamedTuple):
    """The store's own count of the blocks of one part, of their rows, and what it says they hold."""

    block_count: int
    rows: int
    digests: str


@dataclass(frozen=True, slots=True)
class _StoreState:
    store_id: str
    blocks: dict[int, _BlockSums]
    names: StoreNames

    @classmethod
    def read(cls, transaction: ReadTransaction, parts: Sequence[Part], store_id: str) -> _StoreState:
        ranges = [[number, low, high] for number, part in enumerate(parts) for low, high in part.contents.blocks]
        return cls(store_id, block_sums(transaction, json.dumps(ranges)), StoreNames.read(transaction))

    def fault(self, number: int, contents: Contents) -> str | None:
        if contents.store_id != self.store_id:
            return "the part belongs to another store"
        if contents.revision != HEAD_REVISION or contents.layout != layout_digest():
            return f"the part was written for revision {contents.revision} or for other columns"
        known = _BlockSums(contents.block_count, contents.rows, contents.digests)
        if self.blocks.get(number) != known:
            return "the store holds other blocks than the part"
        if self.names.digest(contents.models, contents.workloads) != contents.names:
            return "a model or workload has been renamed"
        return None


def block_sums(transaction: ReadTransaction, ranges: str) -> dict[int, _BlockSums]:
    statement = (
        "SELECT r.part, b.probe_count, COALESCE(b.digest, '')"  # noqa: S608 - our text
        f" FROM {transaction.ranges} CROSS JOIN block b WHERE b.id BETWEEN r.lo AND r.hi ORDER BY r.part, b.id"
    )
    sums = {}
    for part, found in groupby(transaction.cells(statement, (ranges,)), key=itemgetter(0)):
        _, rows, digests = zip(*found, strict=True)  # a store has thousands of blocks, read before every answer
        text = "".join(map(str, digests))
        sums[int(part)] = _BlockSums(len(rows), sum(map(int, rows)), hashlib.sha256(text.encode()).hexdigest())
    return sums


@dataclass(frozen=True, slots=True)
class StoreNames:
    models: dict[int, str]
    workloads: dict[int, str]

    @classmethod
    def read(cls, transaction: ReadTransaction) -> StoreNames:
        return cls(
            transaction.named("SELECT id, name FROM model ORDER BY id"),
            transaction.named("SELECT id, COALESCE(name, label) FROM workload ORDER BY id"),
        )

    def digest(self, models: Ranges, workloads: Ranges) -> str:
        text = json.dumps([_within(self.models, models), _within(self.workloads, workloads)])
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def _within(names: dict[int, str], ranges: Ranges) -> list[tuple[int, str]]:
    return [(key, name) for key, name in names.items() if any(low <= key <= high for low, high in ranges)]


def describe_blocks(transaction: ReadTransaction, store_id: str, blocks: Ranges) -> Contents:
    sums = block_sums(transaction, as_parameter(blocks))[0]
    names = StoreNames.read(transaction)
    models, workloads = ranges_of(names.models), ranges_of(names.workloads)
    return Contents(
        store_id=store_id,
        revision=HEAD_REVISION,
        layout=layout_digest(),
        blocks=blocks,
        rows=sums.rows,
        block_count=sums.block_count,
        digests=sums.digests,
        models=models,
        workloads=workloads,
        names=names.digest(models, workloads),
    )


def with_current_times(part: Part) -> Part:
    """Return the part with the times of change its file has now; where they differ, the full hash was compared."""
    status = part.path.stat()
    return replace(part, mtime_ns=status.st_mtime_ns, ctime_ns=status.st_ctime_ns)
