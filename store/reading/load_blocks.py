"""Loads as they were committed together, from the database: rows of a block and its digests, said and made again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from store.errors import StoreError
from store.light_dataclass import dataclass
from store.loads import PackedLoad, kept_digest, loads_digest
from store.reading.transactions import ReadTransaction
from store.schema.tables import TABLES

LOAD_VALUES = tuple(
    column.name
    for column in TABLES["load"].columns
    if column.name not in {"id", "scenario_id", "arrival_id", "sweep_id", "created_at"}
)


def as_digested(values: Mapping[str, Any]) -> dict[str, object]:
    """Values as every database gives them back: 2 of a column of floats is 2.0, and -0.0 is 0.0."""
    made: dict[str, object] = {}
    for name, value in values.items():
        kind = TABLES["load"].column(name).type.kind
        if value is None or kind == "text":
            made[name] = value
        else:
            made[name] = float(value) + 0.0 if kind == "double" else int(value)
    return made


class _Block(NamedTuple):
    id: int
    scenario_id: int
    scenario_key: str
    settings_key: str
    load_count: int
    digest: str
    sweep_key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredLoads:
    """A block of loads: what it says of itself, and its loads as they are now."""

    block_id: int
    scenario: str
    sweep: str
    settings: str
    arrival: str  # content key of the stream; empty where no load is left
    load_count: int
    digest: str
    loads: tuple[PackedLoad, ...]

    @property
    def made(self) -> str:
        """The digest of the loads as they are now; empty where they cannot be read."""
        try:
            return loads_digest(self.scenario, self.arrival, self.loads)
        except StoreError:
            return ""

    @property
    def digests(self) -> list[str]:
        return [loads_digest(self.scenario, self.arrival, [one]) for one in self.loads]

    @property
    def unchanged(self) -> bool:
        return (
            len(self.loads) == self.load_count
            and self.made == self.digest
            and all(map(_requests_unchanged, self.loads))
        )


def stored_loads(transaction: ReadTransaction, scenarios: Sequence[int] | None = None) -> Iterator[StoredLoads]:
    """Blocks of loads, of all scenarios or of these, in the order of commit. Few are in memory at a time."""
    blocks = transaction.rows(
        _Block,
        "SELECT b.id, b.scenario_id, s.key, b.settings_key, b.load_count, b.digest, w.key FROM load_block b"
        " JOIN scenario s ON s.id = b.scenario_id JOIN sweep w ON w.id = b.sweep_id ORDER BY b.id",
    )
    wanted = None if scenarios is None else set(scenarios)
    chosen = {block.id: block for block in blocks if wanted is None or block.scenario_id in wanted}
    if not chosen:
        return
    names = ", ".join(f"l.{name}" for name in LOAD_VALUES)
    rows = transaction.cells(
        f"SELECT b.id, a.key, c.cells, t.gaps, q.requests, q.digest, {names} FROM load_block b"  # noqa: S608 - our names
        " JOIN load l ON l.settings_key = b.settings_key AND l.id BETWEEN b.first_load AND b.last_load"
        " JOIN arrival a ON a.id = l.arrival_id LEFT JOIN load_cell c ON c.load_id = l.id"
        " LEFT JOIN load_token t ON t.load_id = l.id LEFT JOIN load_request q ON q.load_id = l.id ORDER BY b.id, l.id"
    )
    left = dict(chosen)
    for number, lines in groupby(rows, key=itemgetter(0)):
        if (block := left.pop(number, None)) is not None:
            yield _with_loads(block, [tuple(line) for line in lines])
    for block in left.values():
        yield _with_loads(block, [])


def _with_loads(block: _Block, lines: Sequence[Sequence[object]]) -> StoredLoads:
    return StoredLoads(
        block_id=block.id,
        scenario=block.scenario_key,
        sweep=block.sweep_key,
        settings=block.settings_key,
        arrival=str(lines[0][1]) if lines else "",
        load_count=block.load_count,
        digest=block.digest,
        loads=tuple(
            PackedLoad(
                values=as_digested(dict(zip(LOAD_VALUES, line[6:], strict=True))),
                cells=_bytes(line[2]),
                gaps=_bytes(line[3]),
                requests=None if line[4] is None else _bytes(line[4]),
                requests_digest=None if line[5] is None else str(line[5]),
            )
            for line in lines
        ),
    )


def _requests_unchanged(load: PackedLoad) -> bool:
    if load.requests is None:
        return True
    try:
        return kept_digest(str(load.values["key"]), load.requests) == load.requests_digest
    except StoreError:
        return False


def _bytes(cell: object) -> bytes:
    """A column of bytes; nothing where its row is gone."""
    return bytes(cell) if isinstance(cell, bytes | bytearray | memoryview) else b""
