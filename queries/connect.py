"""DuckDB over a store: parts and unsealed rows as one relation, read in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from queries.parsing import ParsedSelect, parse_select
from queries.scoping.voided import load_scenarios, read_hidden
from queries.thinned import THINNED, Intervals, ThinnedBlocks
from queries.vocabulary import VocabularyFile, files_for, vocabulary
from store import schema, sealing
from store.errors import InputError, StoreError
from store.location import StoreLocation, parse_url
from store.placing import parts_elsewhere, places_of
from store.reading import Cells, ReadTransaction, duckdb, in_memory, machine_memory, read_store_id, read_transaction
from store.running_lock import abandoned_sweeps

_T = TypeVar("_T")
Parameters = Sequence[object] | Mapping[str, object]

_COLUMNS = ", ".join(column.name for column in schema.PROBE_COLUMNS)
_WIDE = [(column.name, column.type) for column in schema.PROBE_COLUMNS]
_WORTH_SEALING = 200_000  # reading as many probes from the store takes as long as laying them down once
_ATTEMPTS = 5  # sealers keep a replaced part for minutes: whoever is slower that often has another trouble
_POINTS = "measurement"
PROBE_ROWS = "rows of probes"  # to bring in without a view of them, for `stored_rows`
# Rows that never change and are named by what they hold: whoever reads them later reads no other moment.
_FOR_GOOD = frozenset({"device"})
# Of what measured points share names and sizes repeat. A text loses digits of other numbers, and zones of times.
_REPEATING = frozenset(("VARCHAR", "BIGINT", "INTEGER"))


@cache
def _every_column() -> frozenset[str]:
    return frozenset(column.name for column in schema.raw_table(_POINTS).columns)


_HIDDEN = [("scenario_id", "BIGINT"), ("first_batch_size", "BIGINT"), ("last_batch_size", "BIGINT")]


class StoreConnection:
    """One moment; `refresh` moves on.

    `execute` brings in what a statement refers to. `unsealed` scenarios, by key, are read from the database alone.
    DuckDB may use `most_bytes`."""

    def __init__(
        self, location: StoreLocation, *, unsealed: Collection[str] | None = None, most_bytes: int | None = None
    ) -> None:
        self.location = location
        self._most_bytes = most_bytes
        self._straight = None if unsealed is None else tuple(unsealed)
        self.duckdb = in_memory(most_bytes)
        self.snapshot = sealing.Snapshot()
        self.parts_elsewhere: tuple[str, ...] = ()  # folders of parts that another database has claimed
        self.unsealed_probes = 0
        self.loaded = 0  # how often the store was read: what is made of its rows is of one time
        self._points_by = frozenset[str]()  # columns of measured points that are there
        self._made: set[str] = set()  # raw relations that may be there
        self._load_files: dict[str, tuple[Path, ...]] = {}
        self._part_files: tuple[Path, ...] = ()  # that stand in place of rows
        self._load_counts: sealing.LoadCounts = {}
        self._wanted: frozenset[int] | None = None  # scenarios that are asked about; None: all there are
        self._bound: frozenset[int] | None = None  # scenarios whose probes are there
        self.thinned = ThinnedBlocks()
        self._raw: frozenset[str] = frozenset()
        self._parts_alone: str | None = None  # the files that hold all rows
        self._stored = ""  # the statement that reads all rows
        self._viewed = False  # whether a view has it
        self._public: frozenset[str] = frozenset()
        self.duckdb.execute("SET python_enable_replacements = false")  # a name is never a Python variable
        self.duckdb.execute("SET parquet_metadata_cache = true")  # parts never change under their names
        # Row groups without a scenario of the scope are passed over, not only those beyond its first and last.
        self.duckdb.execute("SET dynamic_or_filter_threshold = 2000")
        self.duckdb.execute("CREATE SCHEMA raw")

    @property
    def part_bytes(self) -> int:
        """Files opened in place of rows."""
        return sum(path.stat().st_size for path in self._part_files)

    @contextmanager
    def within_limits(self) -> Iterator[None]:
        """Says in a sentence that memory ran out, or counts overflowed."""
        try:
            yield
        except (duckdb.OutOfMemoryException, MemoryError) as error:
            limit = self._most_bytes or machine_memory()
            raise InputError(
                f"The answer takes more than the {limit / 2**30:.1f} GiB of memory that a question may use.",
                hint="Narrow it down: fewer models, devices or workloads, a smaller `top`.",
            ) from error
        except (duckdb.ConversionException, duckdb.OutOfRangeException) as error:
            raise InputError(
                "A number of the question leads to numbers of instances beyond what can be counted.",
                hint="Ask for a smaller rate, or for fewer users or devices.",
            ) from error

    def execute(self, sql: str, parameters: Parameters | None = None) -> duckdb.DuckDBPyConnection:
        """Parts replaced meanwhile are looked up again."""
        with self.damage_named():
            self.provide_for(sql)
            return self._despite_replaced_parts(lambda: self.duckdb.execute(sql, parameters), between=self.refresh)

    def damage_named(self) -> AbstractContextManager[None]:
        return sealing.damage_named(self.location, lambda: self.files)

    def provide_for(self, sql: str) -> None:
        """Everything, where the parser cannot tell."""
        parsed = parse_select(self.duckdb, sql)
        if parsed is None:
            self.provide({*vocabulary(), *schema.RAW_NAMES})
        else:
            self.provide_parsed(parsed)

    def provide_parsed(self, parsed: ParsedSelect) -> None:
        """Relations that could only be listed get their shape, without rows."""
        self.provide(parsed.tables | parsed.functions)
        if parsed.looks_at_catalog:
            self.provide(self._raw & {schema.STORED_PROBE})
            for name in sorted(schema.RAW_NAMES - self._raw):
                create_shape(self.duckdb, name)
                self._made.add(name)
            self._create(files_for(vocabulary()))

    def provide(self, names: Iterable[str], *, points_by: Callable[[], Collection[str]] = _every_column) -> None:
        """Bring in public and raw names, and of measured points at least the columns `points_by`."""
        names = frozenset(names)
        files = files_for(names)
        shown = (names & schema.RAW_NAMES).union(*(file.raw for file in files))
        raw = shown | {schema.STORED_PROBE} if PROBE_ROWS in names else shown
        by = frozenset(points_by() if _POINTS in raw else ())
        lacking = bool(by) and not by & _every_column() <= self._points_by
        unbound = schema.STORED_PROBE in raw and not self._is_bound()
        # A name can be both: `scenario` is a public view over raw.scenario.
        if self._raw and not (lacking or unbound) and raw - self._raw <= _FOR_GOOD:
            self._add(raw - self._raw)
        elif lacking or unbound or not raw <= self._raw:
            if lacking:
                self._points_by = by
            self._load(self._raw | raw)
        if schema.STORED_PROBE in shown:
            self._view_probes()
        self._create(files)

    def stored_rows(self) -> str:
        """A relation to read probes of: part files where they hold all rows, or the view."""
        for _ in range(_ATTEMPTS):
            if self._parts_alone is None or all(path.exists() for path in self.files):
                break
            self.refresh()
        if self._parts_alone is None:
            self._view_probes()
        return self._parts_alone or f"raw.{schema.STORED_PROBE}"

    def narrow_to(self, scenario_ids: Iterable[int], *, winners_within: Intervals | None = None) -> None:
        """Only these scenarios are asked about from here on.

        `winners_within`: rows that can win suffice, by batch sizes. Parts without them stay closed; others may be
        there as well. New ones are read at the next `provide`."""
        self._wanted = frozenset(scenario_ids)
        self.thinned.within = winners_within

    def _is_bound(self) -> bool:
        bound = self._bound is None or (self._wanted is not None and self._wanted <= self._bound)
        return bound and self.thinned.serve()

    def _create(self, files: Iterable[VocabularyFile]) -> None:
        for file in files:
            if file.name not in self._public:
                self.duckdb.execute(file.sql)
                self._public |= {file.name}

    @property
    def files(self) -> tuple[Path, ...]:
        of_loads = (path for paths in self._load_files.values() for path in paths)
        return (*(part.path for part in self.snapshot.parts), *self._part_files, *of_loads)

    def require_store(self) -> None:
        if not self._raw:
            read_store_id(self.location)

    def refresh(self) -> None:
        self._load(self._raw)

    def close(self) -> None:
        self.duckdb.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is not None:
                with self.damage_named():
                    raise error
        finally:
            self.close()

    def _despite_replaced_parts(self, attempt: Callable[[], _T], between: Callable[[], None] = lambda: None) -> _T:
        """A sealer may delete a part between listing and reading."""
        for _ in range(_ATTEMPTS - 1):
            try:
                return attempt()
            except duckdb.IOException:
                if all(path.exists() for path in self.files):
                    raise
            between()
        return attempt()

    def _load(self, names: frozenset[str]) -> None:
        self._raw = frozenset()  # should reading fail half-way, the next statement reads everything again
        self._despite_replaced_parts(lambda: self._load_once(names))
        self._raw = names
        self.loaded += 1

    def _add(self, names: frozenset[str]) -> None:
        if names:
            with read_transaction(self.location) as transaction:
                for name in sorted(names):
                    self._load_table(transaction, name)
            self._raw |= names

    def _load_once(self, names: frozenset[str]) -> None:
        if not self._read(names, most_unsealed_probes=_WORTH_SEALING):
            # Snapshots are missing or wrong. Where they cannot be made now, the store itself answers, more slowly.
            with suppress(StoreError):
                sealing.seal_location(self.location, wait_s=0.0)
            self._read(names)

    def _read(self, names: frozenset[str], *, most_unsealed_probes: int | None = None) -> bool:
        """At one moment; gives up beyond so many unsealed probes."""
        self._load_counts = {}
        with read_transaction(self.location) as transaction:
            reads_parts = schema.STORED_PROBE in names and self._straight is None
            listed = sealing.list_parts(self.location, transaction.store_id) if reads_parts else ()
            if schema.STORED_PROBE in names and not self._load_probes(transaction, listed, most_unsealed_probes):
                return False
            for name in sorted(names - {schema.STORED_PROBE}):
                self._load_table(transaction, name)
        return True

    def _load_table(self, transaction: ReadTransaction, name: str) -> None:
        table = schema.raw_table(name)
        self._drop(name)
        if table is schema.SCENARIO:
            load_scenarios(self.duckdb, transaction)
            return
        if name in sealing.LOAD_RELATIONS:
            counts = None if self._straight is not None else self._load_counts
            self._load_files[name] = sealing.create_load_relation(self.duckdb, transaction, self.location, name, counts)
            return
        if name == _POINTS:
            self._load_points(transaction)
            return
        sealing.create_table(self.duckdb, f"raw.{name}", table.typed_names)
        rows = transaction.cells(table.statement)
        if name == "sweep":
            rows = self._of_now(transaction, rows, [column.name for column in table.columns])
        sealing.insert_rows(self.duckdb, f"raw.{name}", table.typed_names, rows)

    def _load_points(self, transaction: ReadTransaction) -> None:
        """Points, and what they share: its names and sizes repeat and come as one text, since cells take long."""
        shares = str(schema.TABLES[_POINTS].shares)
        points, facts = (
            [one for one in _typed(part) if one[0] in self._points_by or one[0].endswith("id")]
            for part in (_POINTS, shares)
        )
        others = [one for one in facts if one[0] != "id" and one[1] in _REPEATING]
        apart = [one for one in facts if one not in others]
        self.duckdb.execute(f"DROP TABLE IF EXISTS raw.{_POINTS}_own")
        sealing.create_table(self.duckdb, f"raw.{_POINTS}_own", points)
        rows = transaction.cells(f"SELECT {_listed(points)} FROM {_POINTS}")  # noqa: S608 - our names
        sealing.insert_rows(self.duckdb, f"raw.{_POINTS}_own", points, rows, arrays=True)
        listed = f"CAST({transaction.json_list}({_listed(others)}) AS TEXT)"
        rows = transaction.cells(f"SELECT {_listed(apart)}, {listed} FROM {shares}")  # noqa: S608 - our names
        read = sealing.put_repeating(self.duckdb, f"raw.{shares}", apart, others, rows)
        there = {*points, *facts}
        selected = ", ".join(
            ("point." if (name, type_) in points else "") + name
            if (name, type_) in there
            else f"NULL::{type_} AS {name}"
            for name, type_ in schema.raw_table(_POINTS).typed_names
        )
        self.duckdb.execute(
            f"CREATE VIEW raw.{_POINTS} AS SELECT {selected} FROM raw.{_POINTS}_own AS point"  # noqa: S608 - our names
            f" JOIN (FROM {read}) AS facts ON facts.id = point.facts_id"
        )

    def _of_now(self, transaction: ReadTransaction, rows: Iterable[Cells], names: Sequence[str]) -> Iterator[Cells]:
        gone = {sweep.id for sweep in abandoned_sweeps(self.location, transaction)}
        number, status = names.index("id"), names.index("status")
        for row in rows:
            yield (*row[:status], "interrupted", *row[status + 1 :]) if row[number] in gone else row

    def _drop(self, name: str) -> None:
        if name not in self._made:  # looking it up takes milliseconds
            self._made.add(name)
            return
        kind = self.duckdb.execute(
            "SELECT table_type FROM information_schema.tables WHERE table_schema = 'raw' AND table_name = $name",
            {"name": name},
        ).fetchone()
        if kind is not None:
            self.duckdb.execute(f"DROP {'VIEW' if kind[0] == 'VIEW' else 'TABLE'} raw.{name}")

    def _load_probes(
        self, transaction: ReadTransaction, listed: Sequence[sealing.Part], most_unsealed_probes: int | None
    ) -> bool:
        for table in ("unsealed_block", "unsealed_probe", "unsealed_row", "unsealed_place", THINNED, "hidden"):
            self._drop(table)
        self.thinned.clear()
        hidden = read_hidden(transaction)
        if self._straight is not None:
            most_unsealed_probes = None
        uncovered = self._bind(transaction, listed)
        waiting = sealing.blocks_within(transaction, uncovered)
        places = places_of(transaction, uncovered)
        in_parts = {place.block_id for place in places}
        self.parts_elsewhere = parts_elsewhere(transaction, {place.folder for place in places})
        self.unsealed_probes = sum(block.probe_count for block in waiting if block.id not in in_parts)
        if most_unsealed_probes is not None and self.unsealed_probes > most_unsealed_probes:
            return False
        parts = self.snapshot.parts
        sources = [f"SELECT {_COLUMNS} FROM {_files_of(parts)}"] if parts else []  # noqa: S608 - paths of ours, quoted
        self._part_files = ()
        if waiting or not sources:
            place = partial(self.thinned.place, transaction, hidden=hidden.intervals)
            self._part_files = sealing.load_unsealed(
                self.duckdb, transaction, uncovered, schema="raw", placed=tuple if self._straight is not None else place
            )
            sources.append(sealing.unsealed_select("raw"))
        if self.thinned:
            self.thinned.create(self.duckdb)
        self._parts_alone = None if hidden.rows or len(sources) > 1 or not parts else _files_of(parts)
        self._stored = self._visible(hidden.rows, " UNION ALL ".join(sources))
        if self._viewed:
            self._make_view()
        return True

    def _view_probes(self) -> None:
        """Where something reads the view: its hundred columns take milliseconds."""
        if not self._viewed:
            self._despite_replaced_parts(self._make_view, between=self.refresh)
            self._viewed = True

    def _make_view(self) -> None:
        self.duckdb.execute(f"CREATE OR REPLACE VIEW raw.{schema.STORED_PROBE} AS {self._stored}")

    def _bind(self, transaction: ReadTransaction, listed: Sequence[sealing.Part]) -> sealing.Ranges:
        """Opens needed parts; returns blocks that none holds."""
        blocks = None
        if self._wanted is not None and sealing.worth_pruning(transaction, listed, self._wanted):
            blocks = sealing.blocks_of_scenarios(transaction, self._wanted)
            listed = sealing.parts_with(listed, blocks)
        self._bound = None if blocks is None else self._wanted
        self.snapshot = sealing.load_snapshot(
            self.duckdb, transaction, self.location, transaction.store_id, listed=listed
        )
        if self._straight is not None:
            return sealing.blocks_of(transaction, self._straight)
        covered = self.snapshot.blocks
        return sealing.complement(covered) if blocks is None else sealing.not_within(blocks, covered)

    def _visible(self, hidden: Sequence[tuple[int, int, int]], stored: str) -> str:
        if not hidden:
            return stored
        sealing.create_table(self.duckdb, "raw.hidden", _HIDDEN)
        sealing.insert_rows(self.duckdb, "raw.hidden", _HIDDEN, hidden)
        return (
            f"SELECT {_COLUMNS} FROM ({stored}) s WHERE NOT EXISTS (SELECT 1 FROM raw.hidden h"  # noqa: S608 - our text
            " WHERE h.scenario_id = s.scenario_id AND s.batch_size BETWEEN h.first_batch_size AND h.last_batch_size)"
        )


def create_shape(connection: duckdb.DuckDBPyConnection, name: str) -> None:
    columns = _WIDE if name == schema.STORED_PROBE else schema.raw_table(name).typed_names
    empty = ", ".join(f"NULL::{type_} AS {column}" for column, type_ in columns)
    connection.execute(f"CREATE OR REPLACE VIEW raw.{name} AS SELECT {empty} WHERE false")


def _files_of(parts: Sequence[sealing.Part]) -> str:
    files = ", ".join("'" + str(part.path).replace("'", "''") + "'" for part in parts)
    return f"read_parquet([{files}])"


def elsewhere_note(folder: str) -> str:
    return (
        f"note: rows are read from {folder}, which belongs to another database: this one is a copy. Until"
        " `sweepdb db adopt-parts` it depends on what the other keeps there."
    )


def connect(store: StoreLocation | str | None = None) -> StoreConnection:
    return StoreConnection(store if isinstance(store, StoreLocation) else parse_url(store))


def _typed(table: str) -> list[tuple[str, str]]:
    return [(column.name, column.type.read_as) for column in schema.TABLES[table].columns]


def _listed(columns: Iterable[tuple[str, str]]) -> str:
    return ", ".join(name for name, _ in columns)
