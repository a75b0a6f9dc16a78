"""Simulated loads of a scope as tables `ladder` and `played`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from queries.asking.parameters import needs_of, pairs_left_out
from queries.asking.variables import literal
from queries.errors.expected import EVERY, ExpectedError, Stored, Subject, nearest_error
from queries.errors.spreads import TUNED
from queries.judging.subjects import stored_errors, subjects_of_scenarios
from store.errors import InputError
from store.light_dataclass import dataclass
from store.reading import read_transaction
from store.sealing import insert_rows

if TYPE_CHECKING:
    import duckdb

    from queries.asking.headers import Report
    from queries.asking.question import Question
    from queries.connect import StoreConnection
    from queries.learning.at_rates import LongerSteps
    from store.reading import ReadTransaction

_T = TypeVar("_T")
_STEP_ERRORS = "step_error"
_ERROR_COLUMNS = (("scenario_id", "BIGINT"), ("error", "DOUBLE"), ("factor", "DOUBLE"))
# A prompt's time says how far steps of prompts are off; elsewhere that of a token does.
_METRIC: Mapping[str, str] = {"prefill": "ttft_ms", "decode": "tpot_exclusive_ms", "aggregated": "tpot_exclusive_ms"}
_LARGEST = 0.9  # a step is never shorter than a tenth
_SQL = Path(__file__).with_name("ladders.sql")
_ALL_ARE_READ = 50  # ladders whose cells are read sooner than bounds are made
LOADED = frozenset(
    ("load", "load_cell", "load_margin", "load_uneven", "load_span", "load_token", "workload", "workload_bin")
)  # what the tables are made of
_COUNTED = "SELECT count(*) FROM played WHERE phase IN (SELECT unnest($phases::VARCHAR[]))"
_FEW_REQUESTS = 1_000
_CELLS = """
    SELECT *, requests_1 + requests_2 + requests_3 + requests_4 + requests_5 AS requests
    FROM load_cell WHERE load_id IN (SELECT load_id FROM played)
"""
_FEWEST = "SELECT min(arrival_requests) FROM ladder WHERE phase IN (SELECT unnest($phases::VARCHAR[]))"
_TRACED = "SELECT count(*) FROM ladder WHERE process = 'trace'"
_STREAMS = """
    SELECT
        phase, any_value(arrivals ORDER BY ladder),
        bool_or(ladder.phase = 'prefill' AND EXISTS (
            SELECT 1 FROM ladder AS other
            WHERE other.question_group = ladder.question_group AND other.stream = ladder.stream
                AND other.phase = 'decode'
        ))
    FROM ladder WHERE phase IN ('prefill', 'decode') GROUP BY phase
"""
# The time to move a prompt's keys and values, as pairs of probes have it (queries/paired.sql); and the decode instance
# receives the request, too, in the time that the prefill instance takes.
_MOVED = """
    UPDATE played SET beside_ms = moved.beside_ms
    FROM (
        SELECT
            ladder, any_value(ladder.outside_ms) + any_value(
                1000.0 * kv_bytes_per_request / coalesce({bytes_per_s}, tp * pp * 0.7::DOUBLE * link_bytes_per_s)
            ) AS beside_ms
        FROM ladder
        JOIN scoped ON scoped.scenario_id = ladder.scenario_id
        JOIN (
            SELECT key, any_value(string_split(link_bandwidths, ' | ')[1])::DOUBLE AS link_bytes_per_s
            FROM device GROUP BY key
        ) AS outermost ON outermost.key = scoped.device_key
        WHERE ladder.phase = 'prefill'
        GROUP BY ladder
    ) AS moved
    WHERE moved.ladder = played.ladder
"""


_KEEPING = """
    CREATE OR REPLACE TEMP TABLE keeping AS
    SELECT ladder
    FROM played
    JOIN ladder USING (ladder)
    LEFT JOIN (SELECT unnest({loads}::BIGINT[]) AS load_id) AS kept USING (load_id)
    GROUP BY ladder
    HAVING count(*) = count(kept.load_id)
"""
_BURSTS = """
    SELECT count(*), count(keeping.ladder)
    FROM ladder LEFT JOIN keeping USING (ladder)
    WHERE process IN ('gamma', 'trace') AND phase IN ('prefill', 'decode')
"""
KEPT_REQUESTS = "kept_request"  # the relation of requests that pairs are joined by
_REQUESTS = "CREATE OR REPLACE TEMP VIEW kept_request AS SELECT load_id, number, ttft_us, tpot_us FROM {rows}"
_NO_REQUESTS = "(VALUES (0::BIGINT, 0, 0::BIGINT, 0::BIGINT)) AS none (load_id, number, ttft_us, tpot_us) LIMIT 0"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadStatements:
    """Tables of a scope, and ladders whose cells are read."""

    tables: str
    choosing: str


class Ladders:
    def __init__(self, connection: StoreConnection) -> None:
        self._connection = connection
        self._scope: object = None
        self._moved: str | None = None  # the statement that moved prompts
        self._requests_of: object = None  # the scope that they are ready of
        self._keeping = self._requests = ""  # the statements that made them so
        self._count = 0
        self._cells: Literal["TABLE", "VIEW"] | None = None  # which of them `cell` is
        self._considered: dict[tuple[str, ...], int] = {}  # by phases
        self._fewest: dict[tuple[str, ...], int | None] = {}
        self._borrowed: Mapping[str, float] = {}  # errors of sides that those of aggregated serving stand for

    def provide(self, scope: object, scenario_ids: Iterable[int], longer: Mapping[int, LongerSteps]) -> None:
        """Own runs lengthen steps of scenarios."""
        duckdb = self._connection.duckdb
        if self._scope is not scope:
            self._scope, self._moved = None, None
            with read_transaction(self._connection.location) as transaction:
                self._borrowed = _provide_step_errors(transaction, duckdb, scenario_ids, longer)
            duckdb.execute(_SQL.read_text(encoding="utf-8"))
            ((self._count,),) = duckdb.execute("SELECT count(*) FROM ladder").fetchall()
            self._provide_cells()
            self._considered, self._fewest = {}, {}
            self._scope = scope

    def played(self, question: Question, phases: tuple[str, ...]) -> tuple[str, ...]:
        """Phases simulated whole; refuses a question without one."""
        needs = needs_of(question) or [phases]
        if question.limits.e2e_ms is not None and self._connection.duckdb.execute(_TRACED).fetchall() != [(0,)]:
            raise InputError(
                "`e2e_limit` needs the lengths of answers, and simulations of a log do not keep them",
                hint="limit `ttft_limit` and `tpot_limit`, or simulate `arrivals=poisson`",
            )
        met = [phases for phases in needs if all(self.considered([phase]) for phase in phases)]
        if met:
            return tuple(dict.fromkeys(phase for phases in met for phase in phases))
        missing = next(phase for phase in needs[0] if not self.considered([phase]))
        raise InputError(
            f"report {question.report} is about requests that arrive, and no {missing} rows of this scope have been"
            " simulated",
            hint="sweepdb evaluate ... `arrivals=poisson` simulates them",
        )

    def _provide_cells(self) -> None:
        """Few ladders' cells are copied; many stay in place."""
        if self._cells is not None:
            self._connection.duckdb.execute(f"DROP {self._cells} temp.cell")
        self._cells = "TABLE" if self._count <= _ALL_ARE_READ else "VIEW"
        self._connection.duckdb.execute(f"CREATE TEMP {self._cells} cell AS {_CELLS}")

    def check_pairs(self) -> None:
        rows = self._connection.duckdb.execute(_STREAMS).fetchall()
        if rows and not any(shared for _, _, shared in rows):
            told = {phase: arrivals for phase, arrivals, _ in rows}
            raise InputError(
                f"prefill sides were simulated with {told['prefill']}, decode sides with {told['decode']}:"
                " a pair serves the same requests",
                hint="evaluate both with the same `arrivals`, `requests` and `seed`",
            )

    def notes(self, question: Question, phases: Collection[str]) -> tuple[str, ...]:
        """On wide intervals and on pairs: bursts, and those left out."""
        return (
            *pairs_left_out(question),
            *self._few_requests(phases),
            *self._of_bursts(phases),
            *self._of_borrowed(phases),
        )

    def _of_borrowed(self, phases: Collection[str]) -> Iterator[str]:
        """Errors that stand in for unmeasured ones."""
        told = [f"{phase} +-{100 * error:.0f} %" for phase, error in sorted(self._borrowed.items()) if phase in phases]
        if told:
            yield (
                "nobody measured steps of such prefill or decode instances: their expected error is that of aggregated"
                f" serving ({', '.join(told)})"
            )

    def _few_requests(self, phases: Collection[str]) -> Iterator[str]:
        fewest = self._of_phases(_FEWEST, phases, self._fewest)
        if fewest is not None and fewest < _FEW_REQUESTS:
            yield f"{fewest} requests give wide intervals: read both ends; 20,000 are usual (`requests=20000`)"

    def _of_bursts(self, phases: Collection[str]) -> Iterator[str]:
        """How pools under bursts make a pair."""
        if not {"prefill", "decode"} <= set(phases):
            return
        bursts, keeping = self._connection.duckdb.execute(_BURSTS).fetchall()[0]
        if keeping:
            yield (
                "bursts: pools that keep every request are joined by its number; decode instances had the bursts"
                " themselves, which prefill instances smooth, so that goodput is rather too low"
            )
        if bursts > keeping:
            yield (
                "bursts: the shares of both pools are multiplied, as if TTFT and TPOT were independent; the report best"
                " has goodput_least and goodput_most, and `keep_requests` joins requests"
            )

    def statements(self, asked: Report) -> LoadStatements:
        moved = [] if self._moved is None else [f"{self._moved};"]
        kept = [] if self._requests_of is not self._scope else [f"{self._keeping};", f"{self._requests};"]
        tables = (
            _SQL.read_text(encoding="utf-8").strip(),
            *moved,
            f"CREATE OR REPLACE TEMP VIEW cell AS {_CELLS};",
            *kept,
        )
        return LoadStatements(tables="\n\n".join(tables), choosing=f"{self.choosing(asked)};")

    def choosing(self, asked: Report) -> str:
        if asked.ladders is None:
            return ""
        relation = "ladder" if self._count <= _ALL_ARE_READ else asked.ladders
        return f"CREATE OR REPLACE TEMP TABLE chosen AS SELECT ladder FROM {relation}"  # noqa: S608 - of a header of ours

    def provide_requests(self) -> None:
        """Every request of bursts, where kept: pairs join them by number."""
        duckdb = self._connection.duckdb
        if self._requests_of is self._scope:
            return
        with read_transaction(self._connection.location) as transaction:
            loads = list(transaction.values(int, "SELECT load_id FROM load_request"))
        self._keeping = _KEEPING.format(loads=loads).strip()
        if loads:
            duckdb.execute(self._keeping)
        ((kept,),) = duckdb.execute("SELECT count(*) FROM keeping").fetchall()
        if kept:
            self._connection.provide({"load_request"})
        self._requests = _REQUESTS.format(rows="raw.load_request" if kept else _NO_REQUESTS)
        duckdb.execute(self._requests)
        self._requests_of = self._scope

    def move_prompts(self, gb_per_s: float | None) -> None:
        self._connection.provide({"device"})
        self._moved = _MOVED.format(bytes_per_s=literal(None if gb_per_s is None else gb_per_s * 1e9)).strip()
        self._connection.duckdb.execute(self._moved)

    def keep_prompts(self) -> None:
        """Only prefill pools: nothing is moved."""
        if self._moved is not None:
            self._connection.duckdb.execute("UPDATE played SET beside_ms = 0")
            self._moved = None

    def considered(self, phases: Collection[str]) -> int:
        return self._of_phases(_COUNTED, phases, self._considered) or 0

    def _of_phases(self, statement: str, phases: Collection[str], known: dict[tuple[str, ...], _T]) -> _T:
        """Looked up once: a statement takes milliseconds."""
        asked = tuple(sorted(phases))
        if asked not in known:
            ((known[asked],),) = self._connection.duckdb.execute(statement, {"phases": list(asked)}).fetchall()
        return known[asked]


def _provide_step_errors(
    transaction: ReadTransaction,
    connection: duckdb.DuckDBPyConnection,
    scenario_ids: Iterable[int],
    longer: Mapping[int, LongerSteps],
) -> Mapping[str, float]:
    """As a table: the nearest region's median, or what own runs leave.

    Returns each phase's largest error borrowed from aggregated serving."""
    found = subjects_of_scenarios(transaction, scenario_ids, "exclusive")
    whole = {one.subject: replace(one.subject, phase="aggregated") for one in found}
    stored = stored_errors(transaction, dict.fromkeys((*whole, *whole.values())))
    errors = {subject: _step_error(subject, stored) for subject in whole}
    borrowed: dict[str, float] = {}
    for subject, beside in whole.items():
        if errors[subject].region == EVERY and (error := _step_error(beside, stored, subject.phase)).region != EVERY:
            errors[subject] = error
            borrowed[subject.phase] = max(_share(error), borrowed.get(subject.phase, 0.0))
    rows = [
        (one.scenario_id, min(own.error, _LARGEST), own.factor)
        if (own := longer.get(one.scenario_id))
        else (one.scenario_id, _share(errors[one.subject]), 1.0)
        for one in found
    ]
    columns = ", ".join(f"{name} {kind}" for name, kind in _ERROR_COLUMNS)
    connection.execute(f"CREATE OR REPLACE TEMP TABLE {_STEP_ERRORS} ({columns})")
    insert_rows(connection, _STEP_ERRORS, _ERROR_COLUMNS, rows)
    return borrowed


def _step_error(subject: Subject, stored: Stored, phase: str | None = None) -> ExpectedError:
    """On tuned servers: the margin is for unknown steps, not for tuning."""
    return nearest_error(subject, _METRIC[phase or subject.phase], stored, TUNED)


def _share(error: ExpectedError) -> float:
    return min(error.median_ape_percent / 100.0, _LARGEST)
