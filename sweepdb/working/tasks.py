"""One shard's work: evaluate, write a part, register it where many may write."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, Protocol

from evaluator import ledger
from evaluator.graph import OperatorSet, operators_from_json
from evaluator.shards import ShardScenario, evaluate_shard
from store.errors import InputError
from store.light_dataclass import dataclass
from store.opening import open_store
from store.parts import PartFile, Registered, ShardBlock, register_part, write_part
from store.placing import shelf_at

if TYPE_CHECKING:
    from sweepdb.working.playing import Played, Plays


MOST_ATTEMPTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardTask:
    """With `store_url` the worker registers.

    Without `folder` numbers travel back for comparison."""

    sweep_id: int
    key: str
    items: tuple[ShardScenario, ...]
    operators: Mapping[str, str]  # as JSON, by key: captured once, by the coordinator
    folder: str | None
    store_url: str | None
    plays: Plays | None = None  # requests that arrive, where they were asked for
    log: ledger.MeasuredLog | None = None  # of a measured point, which is replayed
    attempt: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardOutcome:
    """Its part unless registered, what was registered, and failures."""

    key: str
    part: PartFile | None
    registered: Registered | None
    failures: Mapping[int, str]
    evaluate_cpu_s: float
    played: Played | None = None
    loads_added: int | None = None  # None where nobody stored them yet
    blocks: tuple[ShardBlock, ...] = ()  # numbers that travel back
    replayed: ledger.PlayedLog | None = None  # of a log


Result = tuple[ShardTask, ShardOutcome | Exception]
Work = Callable[[ShardTask], ShardOutcome]


class ShardEngine(Protocol):
    """Running a shard twice or half-way changes nothing stored."""

    @property
    def busy(self) -> bool: ...

    def submit(self, task: ShardTask) -> None: ...

    def results(self) -> Iterator[Result]:
        """As they end; errors for shards whose worker failed or died."""
        ...

    def cancel(self) -> None: ...


class EngineLostError(Exception):
    """Registered shards are kept."""


def ended_shards(engine: ShardEngine, tasks: Iterable[ShardTask]) -> Iterator[tuple[ShardTask, ShardOutcome | str]]:
    """With its outcome, or why it failed for the third time."""
    under_way = 0
    for task in tasks:
        while engine.busy:
            for ended in _ended(engine):
                under_way -= 1
                yield ended
        engine.submit(task)
        under_way += 1
    while under_way:
        for ended in _ended(engine):
            under_way -= 1
            yield ended


def _ended(engine: ShardEngine) -> Iterator[tuple[ShardTask, ShardOutcome | str]]:
    task, outcome = next(engine.results())
    if isinstance(outcome, ShardOutcome):
        yield task, outcome
    elif task.attempt < MOST_ATTEMPTS:
        engine.submit(replace(task, attempt=task.attempt + 1))
    else:
        yield task, reason_of(outcome)


def reason_of(error: Exception) -> str:
    return str(error).partition("\n")[0] or type(error).__name__


_OPERATORS: dict[str, OperatorSet] = {}  # of this worker: shards of one model share them


def run_shard(task: ShardTask) -> ShardOutcome:
    for key, text in task.operators.items():
        if key not in _OPERATORS:
            _OPERATORS[key] = operators_from_json(text)
    if task.log is not None:
        return ShardOutcome(
            key=task.key, part=None, registered=None, failures={}, evaluate_cpu_s=0.0,
            replayed=ledger.played_or_why(task.log, lambda request: _OPERATORS[request.key]),
        )  # fmt: skip
    made = evaluate_shard(task.items, _OPERATORS)
    if task.folder is None:
        return ShardOutcome(
            key=task.key, part=None, registered=None, failures=made.failures, evaluate_cpu_s=made.cpu_s,
            blocks=made.blocks,
        )  # fmt: skip
    part = write_part(shelf_at(task.folder), task.key, made.blocks) if made.blocks else None
    registered = None
    if part is not None and task.store_url is not None:
        with open_store(task.store_url) as store:
            registered = register_part(store, task.sweep_id, task.key, part)
    played, added = (None, None) if task.plays is None else _played(task, task.plays)
    return ShardOutcome(
        key=task.key,
        part=part if registered is None else None,
        registered=registered,
        failures=made.failures,
        evaluate_cpu_s=made.cpu_s,
        played=played,
        loads_added=added,
    )


def _played(task: ShardTask, plays: Plays) -> tuple[Played, int | None]:
    """Probes are stored by then, where many may write."""
    from sweepdb.working.playing import play_shard, store_loads  # a fifth of a second of imports

    played = play_shard(task.items, _OPERATORS, plays)
    if task.store_url is None:
        return played, None
    with open_store(task.store_url) as store:
        added = store_loads(store, task.sweep_id, plays.asked, played.loads)
    return played.stored(), added


FORMS = "dask://HOST:PORT, dask:N, processes:N or shard:I/M"
_MOST = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Workers:
    """A Dask scheduler, N workers here, or a share of an array."""

    kind: Literal["scheduler", "dask", "processes", "share"]
    address: str = ""
    count: int = 1
    share: int = 0  # from 0, of `count`


def parse_workers(text: str) -> Workers:
    if re.fullmatch(r"dask://[^/\s]+:\d+", text):
        return Workers(kind="scheduler", address=f"tcp://{text.removeprefix('dask://')}")
    if (match := re.fullmatch(r"(dask|processes):(\d+)", text)) and 1 <= int(match[2]) <= _MOST:
        return Workers(kind="dask" if match[1] == "dask" else "processes", count=int(match[2]))
    if (match := re.fullmatch(r"shard:(\d+)/(\d+)", text)) and 1 <= int(match[1]) <= int(match[2]):
        return Workers(kind="share", share=int(match[1]) - 1, count=int(match[2]))
    raise InputError(
        f"`workers` must be {FORMS}, not {text!r}", hint="such as `workers=dask:4`, or `workers=shard:1/8`"
    )
