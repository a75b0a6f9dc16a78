"""The newest request, which a question without filters is about, and what that leaves out.

Never comparisons or imports, unless a store holds only imports."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence

from queries.scoping.groups import COLUMNS, Found, Grouping, base_of
from queries.scoping.voided import read_hidden
from store.errors import InputError
from store.light_dataclass import NamedTuple
from store.reading import ReadTransaction
from store.schema import PHASES, SCENARIO_TABLES, SERVICE, VOIDED_SWEEPS, scenario_tables, with_scenarios
from store.texts import counted

_NEWEST = (
    "SELECT s.id, s.kind FROM sweep s"  # noqa: S608  our text
    f" WHERE s.id NOT IN ({VOIDED_SWEEPS})"
    " AND EXISTS (SELECT 1 FROM sweep_interval i WHERE i.sweep_id = s.id AND i.first_batch_size > 0)"
    " ORDER BY CASE s.kind WHEN 'request' THEN 0 WHEN 'import' THEN 1 ELSE 2 END, s.id DESC LIMIT 1"
)
_ASKED_BY = (
    "EXISTS (SELECT 1 FROM sweep_interval i JOIN sweep s ON s.id = i.sweep_id WHERE i.scenario_id = sc.id"  # noqa: S608
    f" AND s.kind = ? AND s.id NOT IN ({VOIDED_SWEEPS}))"
)
_SAME = ("sj.model_id", "sj.precision_id", "sj.convention", "sj.serving_model", "sj.compile", "sj.serving_cost_ms")
_APART = ("sj.device_name", "sj.workload_id", "sj.phase", *_SAME, *(f"sj.{name}" for name in SERVICE))
_FILTERS_SHOWN = 3
Filter = tuple[str, Callable[[Found, str], str]]  # keyword, and its value for a scenario on a device
_FILTERS: tuple[Filter, ...] = (
    ("model", lambda row, _: row.model),
    ("device", lambda _, device: device),
    ("serving_model", lambda row, _: row.serving_model),
    ("workload", lambda row, _: row.workload),
    ("quantization", lambda row, _: row.linear_quantization),
    ("convention", lambda row, _: row.convention),
    ("compile", lambda row, _: str(row.compile)),
    ("serving_cost", lambda row, _: f"{row.serving_cost_ms:g}"),
    ("num_mtp_tokens", lambda row, _: str(row.mtp_tokens)),
)


class _Request(NamedTuple):
    sweep_id: int
    kind: str


def newest_request(transaction: ReadTransaction) -> tuple[int, str]:
    for sweep_id, kind in transaction.rows(_Request, _NEWEST):
        if kind == "validation":
            raise InputError(
                "this store holds no request, only comparisons with measurements",
                hint="`all` asks about what they evaluated; sweepdb evaluate adds a request",
            )
        return sweep_id, kind
    for _ in transaction.values(int, "SELECT id FROM measurement LIMIT 1"):
        raise InputError(
            "this store holds measured points and no predictions",
            hint="`rows=measured` asks about the points; sweepdb evaluate adds predictions",
        )
    raise InputError(
        "this store holds no probes yet",
        hint="fill it with: sweepdb evaluate Qwen/Qwen3-32B `device=TEST_DEVICE` `num_devices=8`"
        " `input_length=3500` `output_length=1500`",
    )


def check_filled(transaction: ReadTransaction) -> None:
    """An empty store needs another message than an empty answer."""
    if not list(transaction.rows(_Request, _NEWEST)):
        newest_request(transaction)


def like_newest(
    transaction: ReadTransaction, *, over_workloads: bool
) -> tuple[list[tuple[str, tuple[object, ...]]], frozenset[int]]:
    """Conditions for scenarios like it on every device and plan, and those it asked for.

    Without what only comparisons or imports asked for."""
    sweep_id, kind = newest_request(transaction)
    same = ", ".join((*_SAME, *(() if over_workloads else ("sj.workload_id",))))
    alike = (
        f"({same}) IN (SELECT {same} FROM {with_scenarios('sweep_interval i', 'i.scenario_id', 'sj')}"  # noqa: S608
        " WHERE i.sweep_id = ? AND sc.status = 'ok')"
    )
    asked = transaction.values(int, "SELECT scenario_id FROM sweep_interval WHERE sweep_id = ?", (sweep_id,))
    return [(alike, (sweep_id,)), (_ASKED_BY, (kind,))], frozenset(asked)


def left_out(transaction: ReadTransaction, looked_at: Iterable[int]) -> str | None:
    """In one line; None: nothing."""
    mine, others = _apart(transaction, frozenset(looked_at))
    if not others:
        return None
    count = len(Grouping([row for row, _ in others], PHASES).groups)
    filters = list(_filters(mine, others))
    said = f"{counted(count, 'other subject')} in this store: `all`"
    return f"{said}, or {', '.join(filters)}" if filters else said


class _Device(NamedTuple):
    name: str


Placed = tuple[Found, str]  # a scenario, and the device it is on


def _apart(transaction: ReadTransaction, looked_at: frozenset[int]) -> tuple[list[Placed], list[Placed]]:
    """A scenario of each subject and device, looked at and not. Plans do not matter."""
    hidden = ", ".join(map(str, read_hidden(transaction).whole_scenarios))
    apart = ", ".join(_APART)
    every = (
        f"SELECT sc.id, {apart} FROM {scenario_tables('sj')} WHERE sc.status = 'ok'"  # noqa: S608
        " AND EXISTS (SELECT 1 FROM block b WHERE b.scenario_id = sc.id)"
        + (f" AND sc.id NOT IN ({hidden})" if hidden else "")
    )
    first: dict[tuple[object, ...], int] = {}
    seen: set[tuple[object, ...]] = set()
    for number, *values in transaction.cells(every):  # only compared with each other
        place = tuple(values)
        first.setdefault(place, number)
        if number in looked_at:
            seen.add(place)
    numbers = {number: place in seen for place, number in first.items()}
    told = _found(transaction, list(numbers))
    mine = [placed for placed in told if numbers[placed[0].id]]
    bases = {(base_of(row), device) for row, device in mine}
    services = {row.service for row, _ in mine}
    others = [
        (row, device)
        for row, device in told
        if not numbers[row.id] and not ((base_of(row), device) in bases and row.service in services)
    ]
    return mine, others


def _found(transaction: ReadTransaction, numbers: Sequence[int]) -> list[Placed]:
    listed = ", ".join(map(str, numbers)) or "NULL"
    statement = (
        f"SELECT {', '.join(COLUMNS)}, sj.device_name FROM {SCENARIO_TABLES} WHERE sc.id IN ({listed}) ORDER BY sc.id"  # noqa: S608
    )
    # Of another formula version it is the same subject: older versions are named beside the newest.
    return [
        (found._replace(formula_version=0), device) for found, (device,) in transaction.pairs(Found, _Device, statement)
    ]


def _filters(mine: Sequence[Placed], others: Sequence[Placed]) -> Iterable[str]:
    rest = list(others)
    for _ in range(_FILTERS_SHOWN):
        best: tuple[int, str, list[Placed]] | None = None
        for keyword, value_of in _FILTERS:
            here = {value_of(*placed) for placed in mine}
            for value in dict.fromkeys(value_of(*placed) for placed in rest):
                selected = [placed for placed in rest if value_of(*placed) == value]
                if value not in here and (best is None or len(selected) > best[0]):
                    best = (len(selected), f"`{keyword}={shlex.quote(value)}`", selected)
        if best is None:
            return
        rest = [placed for placed in rest if placed not in best[2]]
        yield best[1]
