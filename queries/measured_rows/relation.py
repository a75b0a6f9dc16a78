"""The relation of measured settings that takes the place of `probe`, and the ladders of its rows.

A ladder is a server at one pair of lengths: what a scenario is among predictions. Its number is negative, so that it
is none of the store.

Lengths that clients count differ a little between repeated runs: near ones are those of one setting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from queries.learning.own_points import NEAR_LENGTHS
from queries.measured_rows.asked import BOTH, MEASURED
from queries.measured_rows.servers import UNSTATED, NamedServer, ServerNamer, StatedServer
from queries.narrow.scope_tables import STORED
from store import schema
from store.sealing import put_temporary

if TYPE_CHECKING:
    import duckdb


Lengths = tuple[float | None, float | None]  # of prompts and answers; None where it is not known

_COUNTED = 0.02  # that lengths of one setting may differ by, as in sweepdb compare
_PAIRS = "SELECT input_length, output_length, count(*) FROM raw.measurement GROUP BY ALL"
_MOVED = [(f"{name}_{end}", "DOUBLE") for end in ("said", "meant") for name in ("input", "output")]
# Views of settings see these points in place of all.
SEEN = """
    CREATE TEMP TABLE measurement AS
    SELECT
        told.* EXCLUDE (metrics, definitions, extra, flags)
            REPLACE (coalesce(input_meant, input_length) AS input_length,
                coalesce(output_meant, output_length) AS output_length)
    FROM main.measurement AS told
    LEFT JOIN moved_length ON input_said IS NOT DISTINCT FROM input_length
        AND output_said IS NOT DISTINCT FROM output_length
"""
_OF_KEYS = " SEMI JOIN side_run USING (key)"


@contextmanager
def runs_meet(connection: duckdb.DuckDBPyConnection, keys: Sequence[str] | None = None) -> Iterator[None]:
    """Have views of settings take runs of nearly the same counted lengths as runs of one; of some `keys` alone."""
    found = connection.execute(_PAIRS).fetchall()
    moved = counted_as({(prompt, answer): count for prompt, answer, count in found})
    if keys is None and not moved:
        yield
        return
    put_temporary(connection, "moved_length", _MOVED, [(*said, *meant) for said, meant in moved.items()])
    put_temporary(connection, "side_run", [("key", "VARCHAR")], [(key,) for key in keys or ()])
    connection.execute(SEEN if keys is None else SEEN + _OF_KEYS)
    try:
        yield
    finally:
        connection.execute("DROP TABLE temp.measurement")


def counted_as(runs: Mapping[Lengths, int]) -> dict[Lengths, Lengths]:
    """The lengths that counted ones mean: whole ones near them, else the near ones that most runs have.

    Whole lengths were asked for and mean themselves, as all do that are not among these."""
    if not any(map(_is_counted, runs)):
        return {}
    ordered = sorted(runs, key=lambda pair: (_is_counted(pair), -runs[pair], *map(str, pair)))
    found = standing_for(ordered, _COUNTED, whole=[not _is_counted(pair) for pair in ordered])
    return {pair: ordered[place] for pair, place in zip(ordered, found, strict=True) if ordered[place] != pair}


def _is_counted(pair: Lengths) -> bool:
    return any(length is not None and not length.is_integer() for length in pair)


def standing_for(pairs: Sequence[Lengths], near: float, *, whole: Iterable[bool] | None = None) -> list[int]:
    """The place of the pair that stands for each: the first of those that differ by so little. `whole` ones stay."""
    import numpy as np

    logs = np.log(np.maximum(np.array(pairs, dtype=np.float64).reshape(-1, 2), 1.0))  # of an unknown length NaN
    stays = np.zeros(len(pairs), dtype=bool) if whole is None else np.array(list(whole), dtype=bool)
    places = np.full(len(pairs), -1, dtype=np.int64)
    for first in range(len(pairs)):
        if places[first] < 0:
            apart = np.abs(logs - logs[first])
            alike = (apart <= np.log1p(near)) | (np.isnan(logs) & np.isnan(logs[first]))
            places[(places < 0) & ~stays & alike.all(axis=1)] = first
            places[first] = first
    return [int(place) for place in places]


def met(pairs: Iterable[Lengths]) -> list[Lengths]:
    """The lengths of runs, one each, as their settings have them."""
    listed = list(pairs)
    meant = counted_as(Counter(listed))
    return [meant.get(pair, pair) for pair in listed]


def _same(relation: str, names: Sequence[str]) -> str:
    return " AND ".join(f"taken.{name} IS NOT DISTINCT FROM {relation}.{name}" for name in names)


_ALONE, _BESIDE_PREDICTED = "measured_rows", "every_row"
RELATIONS = {MEASURED: _ALONE, BOTH: _BESIDE_PREDICTED}  # by what a question asks of
_NAMED = ("experts_quantization", "moe_tp", "moe_dp")  # beside what the view of settings has
_STATED = ", ".join(StatedServer._fields)
_SPREADS = ("ttft_spread", "tpot_spread", "output_spread")
_BESIDE = ("engine_version", "request_rate", "prefill_instances", "prefill_tp", "decode_instances", "last_imported_at",
           "runs", *_SPREADS)  # fmt: skip
_OF_LADDERS = {"plan", "subject", "scenario"}  # which rows of one ladder share
_TAKEN = (*sorted(schema.MEASURED_COLUMNS - _OF_LADDERS), *_BESIDE)
ROWS = "measured_row"
_MADE = "measured_made"  # the table that these are of, unless they were kept
MADE_BASE = f"""
    INSERT INTO measured_base
    WITH taken AS MATERIALIZED (SELECT {", ".join(_TAKEN)} FROM main.measured_probe),
    servers AS (
        SELECT *, row_number() OVER (ORDER BY {_STATED}) AS server FROM (SELECT DISTINCT {_STATED} FROM taken)
    ),
    pairs AS (
        SELECT *, row_number() OVER (ORDER BY input_length, output_length) AS lengths
        FROM (SELECT DISTINCT input_length, output_length FROM taken)
    )
    SELECT $side::INTEGER AS side, {", ".join(f"taken.{name}" for name in _TAKEN)}, server, lengths
    FROM taken
    JOIN servers ON {_same("servers", StatedServer._fields)}
    JOIN pairs ON {_same("pairs", ("input_length", "output_length"))}
"""  # noqa: S608  our names
_EMPTY = f"""
    CREATE OR REPLACE TEMP TABLE measured_base AS
    SELECT 0 AS side, {", ".join(_TAKEN)}, 0::BIGINT AS server, 0::BIGINT AS lengths FROM main.measured_probe LIMIT 0
"""  # noqa: S608  our names
_SERVERS = f"SELECT side, server, {_STATED} FROM measured_base GROUP BY ALL ORDER BY side, server"  # noqa: S608
_LENGTHS = """
    SELECT side, lengths, input_length, output_length, count(*)
    FROM measured_base
    GROUP BY ALL
    ORDER BY count(*) DESC, input_length, output_length, side
"""
_SERVER_COLUMNS = (
    ("side", "INTEGER"), ("server", "BIGINT"), ("named", "BIGINT"), ("model", "VARCHAR"), ("device", "VARCHAR"),
    ("serving_model", "VARCHAR"), ("linear_quantization", "VARCHAR"), ("experts_quantization", "VARCHAR"),
    ("attention_quantization", "VARCHAR"),
    *((name, "INTEGER") for name in ("tp", "pp", "dp", "ep", "moe_tp", "moe_dp")),
)  # fmt: skip
_LENGTH_COLUMNS = [("side", "INTEGER"), ("lengths", "BIGINT"), ("length", "BIGINT")]
_OF_NAMES = tuple(name for name, _ in _SERVER_COLUMNS[3:])
_KEPT = ", ".join(
    f"measured_server.{name}" if name in _OF_NAMES else f"measured_base.{name}"
    for name in (*sorted(schema.MEASURED_COLUMNS - _OF_LADDERS), *_NAMED, *_BESIDE)
)
_UNSHARED = ", ".join(f"{one.default} AS {one.name}" for one in schema.OF_SHARES)  # what no source states of a plan
_SUBJECT = (*_OF_NAMES, "num_devices", "prefill_instances", "prefill_tp", "decode_instances", "phase", "length")
_LADDER = "side, named, num_devices, length, at_rate, turn"
# Settings of a ladder that have as many requests in flight are ladders of their own: a row is found by its batch size.
# Rows are numbered by what tells them apart alone: sorting all they have takes ten times as long.
_NUMBERED = f"""
    CREATE OR REPLACE TEMP TABLE measured_number AS
    WITH apart AS (
        SELECT
            measured_base.rowid AS place, side, server, named, num_devices, length, request_rate IS NOT NULL AS at_rate,
            row_number() OVER (
                PARTITION BY side, named, num_devices, length, at_rate, batch_size ORDER BY probe
            ) AS turn
        FROM measured_base
        JOIN measured_server USING (side, server)
        JOIN measured_length USING (side, lengths)
        WHERE batch_size > 0 AND phase IS NOT NULL
    )
    SELECT *, -dense_rank() OVER (ORDER BY {_LADDER}) AS scenario_id
    FROM apart
"""  # noqa: S608  our names
_LADDER_NAMES = f"""
    CREATE OR REPLACE TEMP TABLE measured_ladder AS
    WITH firsts AS (SELECT DISTINCT ON (scenario_id) * FROM measured_number ORDER BY scenario_id, place),
    told AS (
        SELECT firsts.* EXCLUDE (num_devices), {_KEPT}, {_UNSHARED}
        FROM firsts
        JOIN measured_base ON measured_base.rowid = firsts.place
        JOIN measured_server ON measured_server.side = firsts.side AND measured_server.server = firsts.server
    )
    SELECT
        scenario_id, side, named, length, coalesce({schema.label_sql()}, '{UNSTATED}') AS plan,
        md5(CAST(row({", ".join(_SUBJECT)}) AS VARCHAR)) AS subject,
        md5(CAST(row({_LADDER}) AS VARCHAR)) AS scenario
    FROM told
"""  # noqa: S608  our names
_ROWS = f"""
    CREATE OR REPLACE TEMP TABLE {_MADE} AS
    SELECT measured_ladder.*, {_KEPT}
    FROM measured_number
    JOIN measured_base ON measured_base.rowid = measured_number.place
    JOIN measured_server
        ON measured_server.side = measured_number.side AND measured_server.server = measured_number.server
    JOIN measured_ladder USING (scenario_id)
"""  # noqa: S608  our names
_LADDERS = """
    SELECT scenario_id, side, named, length, phase, num_devices, max(last_imported_at)
    FROM measured_row
    GROUP BY ALL
    ORDER BY scenario_id DESC
"""
_LEFT_OUT = "SELECT count(*) FROM measured_base WHERE coalesce(batch_size, 0) <= 0 OR phase IS NULL"
MADE_BY = SEEN + MADE_BASE + _NUMBERED + _LADDER_NAMES + _ROWS
_COLUMNS = ", ".join(one.name for one in schema.VIEW_COLUMNS)
_SOURCES = {STORED: f"({schema.probe_select(f'raw.{schema.STORED_PROBE}')})"}
_SELECTED = schema.measured_select((*_NAMED, "scenario_id"))


class Ladder(NamedTuple):
    """Measured settings of one server at one pair of lengths."""

    scenario_id: int
    side: int
    server: NamedServer
    input_length: float | None
    output_length: float | None
    phase: str
    num_devices: int | None
    imported_at: datetime


class Read(NamedTuple):
    """Servers and lengths, which rows of measured settings refer to by number, and how many settings have no row."""

    servers: tuple[NamedServer, ...]
    lengths: tuple[tuple[float | None, float | None], ...]
    left_out: int


def make_base(connection: duckdb.DuckDBPyConnection, sides: Sequence[Sequence[str]]) -> None:
    """Make `measured_base` of every measured setting, or of the runs of each side by their content keys."""
    connection.execute(_EMPTY)
    for number, keys in enumerate(sides or [None]):
        with runs_meet(connection, keys):
            connection.execute(MADE_BASE, {"side": number})


def make_rows(connection: duckdb.DuckDBPyConnection, named: ServerNamer) -> Read:
    """Make rows of the settings of `measured_base`."""
    servers = _name_servers(connection, named)
    lengths = _join_lengths(connection)
    for statement in (_NUMBERED, _LADDER_NAMES, _ROWS):
        connection.execute(statement)
    ((left_out,),) = connection.execute(_LEFT_OUT).fetchall()
    show_rows(connection, _MADE)
    return Read(servers=tuple(servers), lengths=tuple(lengths), left_out=left_out)


def show_rows(connection: duckdb.DuckDBPyConnection, relation: str) -> None:
    connection.execute(f"CREATE OR REPLACE TEMP VIEW {ROWS} AS SELECT * FROM {relation}")  # noqa: S608
    connection.execute(f"CREATE OR REPLACE TEMP VIEW {_ALONE} AS SELECT {_SELECTED} FROM {ROWS}")  # noqa: S608


def read_ladders(connection: duckdb.DuckDBPyConnection, read: Read) -> tuple[Ladder, ...]:
    return tuple(
        Ladder(
            number,
            side,
            read.servers[server],
            read.lengths[length][0],
            read.lengths[length][1],
            phase,
            devices,
            imported,
        )
        for number, side, server, length, phase, devices, imported in connection.execute(_LADDERS).fetchall()
    )


def join_predicted(connection: duckdb.DuckDBPyConnection, predicted: str, subjects: Mapping[int, str]) -> None:
    """Have both kinds of rows in one relation; ladders that are of predicted subjects have these.

    A session shows it under the name of the view `probe`, which it then cannot be made of."""
    if subjects:
        columns = [("scenario_id", "BIGINT"), ("subject", "VARCHAR")]
        put_temporary(connection, "measured_subject", columns, list(subjects.items()))
        connection.execute(
            f"UPDATE {_MADE} SET subject = measured_subject.subject FROM measured_subject"  # noqa: S608
            f" WHERE measured_subject.scenario_id = {_MADE}.scenario_id"
        )
    stored = _SOURCES.get(predicted, predicted)
    connection.execute(
        f"CREATE OR REPLACE TEMP VIEW {_BESIDE_PREDICTED} AS SELECT {_COLUMNS} FROM {stored}"  # noqa: S608
        f" UNION ALL SELECT {_COLUMNS} FROM {_ALONE}"
    )


def _name_servers(connection: duckdb.DuckDBPyConnection, named: ServerNamer) -> list[NamedServer]:
    numbers: dict[tuple[object, ...], int] = {}
    names: list[NamedServer] = []
    rows: list[tuple[object, ...]] = []
    known: dict[StatedServer, NamedServer] = {}
    for side, server, *stated in connection.execute(_SERVERS).fetchall():
        one = StatedServer(*stated)
        if one not in known:
            known[one] = named.name(one)
        found = known[one]
        apart = (found, one.engine_version, one.phase, one.decode_instances, one.prefill_instances, one.prefill_tp)
        if apart not in numbers:
            numbers[apart] = len(names)
            names.append(found)
        rows.append((side, server, numbers[apart], *(getattr(found, name) for name in _OF_NAMES)))
    put_temporary(connection, "measured_server", _SERVER_COLUMNS, rows)
    return names


def _join_lengths(connection: duckdb.DuckDBPyConnection) -> list[tuple[float | None, float | None]]:
    """Write down which lengths are nearly the same: the pair that most settings have stands for those near it."""
    rows = connection.execute(_LENGTHS).fetchall()
    places = standing_for([(row[2], row[3]) for row in rows], NEAR_LENGTHS)
    numbers = {place: number for number, place in enumerate(dict.fromkeys(places))}
    made = [(side, number, numbers[place]) for (side, number, *_), place in zip(rows, places, strict=True)]
    put_temporary(connection, "measured_length", _LENGTH_COLUMNS, made)
    return [(rows[place][2], rows[place][3]) for place in numbers]
