"""Captures what is missing, evaluates batch sizes that are not stored, and stores them."""

from __future__ import annotations

import math
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, TypeVar

from evaluator import together
from evaluator.canonical import canonical
from evaluator.evaluate import composition_of, cost_of
from evaluator.graph.operators import OperatorSet
from evaluator.probe_block import ProbeBlock
from evaluator.request import PlannedScenario, SweepRequest, planned_scenarios, request_arguments
from store import writing
from store.errors import InputError, SweepdbError
from store.light_dataclass import dataclass
from store.opening import Store
from store.records import BlockRecord, ScenarioRef, SweepRecord
from store.sealing import HeldRows, seal, seal_held

if TYPE_CHECKING:
    from evaluator.arrivals.sweeping import ArrivalRequest, ScenarioLoads

SCENARIOS_AT_ONCE = 256  # made ready together: those of one plan are evaluated side by side
_BLOCKS_A_TRANSACTION = 8  # a commit costs as much as some hundred probes
_WAIT_S = 0.25  # what a kill may lose of blocks that take long


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    scenarios_done: int
    scenarios: int
    probes_stored: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    status: str
    reason: str
    scenarios: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepReport:
    """Stored, found stored, and failed."""

    sweep: str
    scenarios: int
    probes_stored: int
    probes_known: int
    operators_captured: int
    fitting_scenarios: int  # those with at least batch size 1 inside device memory, no reserve
    failures: tuple[Failures, ...]
    interrupted: bool = False
    loads_stored: int = 0
    loads_known: int = 0
    unplayed: tuple[Failures, ...] = ()  # scenarios with probes that no requests could be played against
    side_faults: int = 0  # groups that were evaluated one by one, though no scenario of them fails: a fault of ours


@dataclass(slots=True)
class Tally:
    probes_stored: int = 0
    probes_known: int = 0
    fitting: int = 0
    done: int = 0
    failures: Counter[tuple[str, str]] = field(default_factory=Counter)
    loads_stored: int = 0
    loads_known: int = 0
    unplayed: Counter[tuple[str, str]] = field(default_factory=Counter)
    side_faults_before: int = field(default_factory=together.side_faults)

    def progress(self, scenarios: int) -> Progress:
        return Progress(scenarios_done=self.done, scenarios=scenarios, probes_stored=self.probes_stored)

    def report(self, sweep: str, *, scenarios: int, captured: int, interrupted: bool) -> SweepReport:
        return SweepReport(
            sweep=sweep,
            scenarios=scenarios,
            probes_stored=self.probes_stored,
            probes_known=self.probes_known,
            operators_captured=captured,
            fitting_scenarios=self.fitting,
            failures=_counted(self.failures),
            interrupted=interrupted,
            loads_stored=self.loads_stored,
            loads_known=self.loads_known,
            unplayed=_counted(self.unplayed),
            side_faults=together.side_faults() - self.side_faults_before,
        )


def _counted(failures: Mapping[tuple[str, str], int]) -> tuple[Failures, ...]:
    return tuple(
        Failures(status=status, reason=reason, scenarios=count) for (status, reason), count in sorted(failures.items())
    )


Rounds = Callable[[str], Sequence[str]]  # the keys of scenarios that a sweep is to hold next; none: that was all
_Task = tuple[together.ReadyScenario, ScenarioRef, tuple[int, int]]  # a batch interval that the store lacks


def program_version() -> str:
    try:
        return version("sweepdb")
    except PackageNotFoundError:
        return "unknown"


def run_sweep(
    store: Store,
    request: SweepRequest | Sequence[SweepRequest],
    *,
    label: str | None = None,
    jobs: int = 1,
    on_progress: Callable[[Progress], None] = lambda _: None,
    arrivals: ArrivalRequest | None = None,
    rounds: Rounds | None = None,
) -> SweepReport:
    """Stores, as one sweep, what the store lacks. ^C keeps acknowledged blocks and marks the sweep.

    `arrivals` also simulates every scenario. `rounds` names the next scenarios by key until there are none."""
    planned = legal_scenarios(request)
    key, sweep_id = begun_sweep(store, request, label, arrivals)
    runner = SweepRunner(store=store, sweep_id=sweep_id, total=len(planned), on_progress=on_progress, arrivals=arrivals)
    interrupted = False
    try:
        # One thread evaluates beside this one, which writes: more of them would wait for each other and work out the
        # same schedules. Plays are C, and run side by side.
        with ThreadPoolExecutor(max_workers=1) as pool, ThreadPoolExecutor(max_workers=max(1, min(jobs, 8))) as players:
            for chunk in (
                in_lists(planned, SCENARIOS_AT_ONCE) if rounds is None else runner.chosen(planned, key, rounds)
            ):
                runner.run(chunk, pool, players)
    except KeyboardInterrupt:
        interrupted = True
    except BaseException:
        writing.finish_sweep(store, sweep_id, "failed")
        raise
    writing.finish_sweep(store, sweep_id, "interrupted" if interrupted else "finished")
    seal(store, runner.held)
    return runner.report(key, interrupted=interrupted)


def legal_scenarios(request: SweepRequest | Sequence[SweepRequest]) -> list[PlannedScenario]:
    planned = list(planned_scenarios(request))
    if not planned:
        raise InputError("this request has no legal plan", hint="widen the sizes, or change `num_devices`")
    return planned


def begun_sweep(
    store: Store,
    request: SweepRequest | Sequence[SweepRequest],
    label: str | None,
    arrivals: ArrivalRequest | None,
) -> tuple[str, int]:
    record = SweepRecord(
        key=secrets.token_hex(6),
        label=label,
        arguments=canonical(request_arguments(request) | ({} if arrivals is None else {"arrivals": arrivals})),
        program_version=program_version(),
        started_at=datetime.now(UTC),
        kind="request",
    )
    return record.key, writing.begin_sweep(store, record)


def count_probes(
    request: SweepRequest | Sequence[SweepRequest],
    operators: dict[str, OperatorSet] | None = None,
    on_progress: Callable[[Progress], None] = lambda _: None,
) -> int:
    scenarios, probes = sum(1 for _ in planned_scenarios(request)), 0
    found = _worth_evaluating(request, {} if operators is None else operators)
    for done, (_, _, (first, last)) in enumerate(found, start=1):
        probes += last - first + 1
        on_progress(Progress(scenarios_done=done, scenarios=scenarios, probes_stored=probes))
    return probes


def _worth_evaluating(
    request: SweepRequest | Sequence[SweepRequest], operators: dict[str, OperatorSet]
) -> Iterator[tuple[PlannedScenario, dict[str, OperatorSet], tuple[int, int]]]:
    for chunk in in_lists(planned_scenarios(request), SCENARIOS_AT_ONCE):
        worth = [planned for planned in chunk if together.wanted_captures([planned])]
        asked: list[together.Ranged] = []
        for planned in worth:
            items = together.captures(planned).items()
            sets = {trace: operators.get(item.key) or together.capture(item, operators) for trace, item in items}
            asked.append((planned.scenario, sets, planned.batch_range[1]))
        for planned, (_, held, _), found in zip(worth, asked, together.batch_ranges(asked), strict=True):
            if isinstance(found, Exception):
                raise found
            first = planned.batch_range[0]
            yield planned, dict(held), (first, max(first, found.last))


def wanted_operators(request: SweepRequest | Sequence[SweepRequest]) -> frozenset[str]:
    return frozenset(together.wanted_captures(planned_scenarios(request)))


@dataclass(slots=True, kw_only=True)
class SweepRunner:
    store: Store
    sweep_id: int
    total: int
    on_progress: Callable[[Progress], None]
    arrivals: ArrivalRequest | None = None
    tally: Tally = field(default_factory=Tally)
    readying: together.Readying = field(init=False)
    held: HeldRows = field(default_factory=HeldRows)

    def __post_init__(self) -> None:
        self.readying = together.Readying(store=self.store)

    def chosen(self, planned: Sequence[PlannedScenario], sweep: str, rounds: Rounds) -> Iterator[list[PlannedScenario]]:
        records = self.readying.records
        by_key = {records.scenario(one.model_name, one.scenario).key: one for one in planned}
        self.total = 0
        while wanted := rounds(sweep):
            self.total += len(wanted)
            yield [by_key[key] for key in wanted]
            seal(self.store, self.held)

    def run(self, chunk: Sequence[PlannedScenario], pool: ThreadPoolExecutor, players: ThreadPoolExecutor) -> None:
        ready = self.readying.ready(chunk)
        for item in ready:
            if item.interval is None:
                self.tally.failures[item.record.status, item.record.reason or ""] += 1
        refs = writing.put_scenarios(self.store, self.sweep_id, [item.record for item in ready])
        todo = [task for item, ref in zip(ready, refs, strict=True) for task in self._tasks(item, ref)]
        blocks = together.evaluate_many(
            [together.AskedSizes(item.planned.scenario, item.operators, *sizes) for item, _, sizes in todo]
        )
        before, place = self.tally.done, {ref.id: number for number, ref in enumerate(refs)}
        try:
            evaluated = zip(todo, pool.map(lambda _: next(blocks), todo), strict=True)
            for found in in_lists(evaluated, _BLOCKS_A_TRANSACTION, _WAIT_S):
                (_, ref, _), _ = found[-1]
                self.tally.done = before + place[ref.id] + 1  # in the order of the plan
                self._keep(found)
            if self.arrivals is not None:
                self._play(list(zip(ready, refs, strict=True)), self.arrivals, players, before)
        finally:
            self.tally.done = before + len(chunk)
        self._say()

    def _play(
        self,
        ready: Sequence[tuple[together.ReadyScenario, ScenarioRef]],
        arrivals: ArrivalRequest,
        pool: ThreadPoolExecutor,
        before: int,
    ) -> None:
        from evaluator.arrivals.load_rows import arrival_record  # here and below: most sweeps play nothing

        record = arrival_record(arrivals.settings.process)
        prepared = pool.map(lambda task: _prepared(task[0], arrivals), [one for one in ready if one[0].operators])
        playable: list[tuple[ScenarioLoads, ScenarioRef, frozenset[str]]] = []
        for (_, ref), loads in zip([one for one in ready if one[0].operators], prepared, strict=True):
            if isinstance(loads, tuple):
                self.tally.unplayed[loads] += 1
                continue
            known = writing.known_loads(self.store, loads.keys, with_requests=arrivals.keep_requests)
            self.tally.loads_known += len(known)
            playable.append((loads, ref, known))
        played = zip(playable, pool.map(lambda one: one[0].play(one[2]), playable), strict=True)
        for number, ((_, ref, _), loads) in enumerate(played, start=before + 1):
            self.tally.done = max(self.tally.done, number)
            self._say()
            if loads:
                added = writing.put_loads(self.store, self.sweep_id, ref.id, record, loads)
                self.tally.loads_stored += added
                self.tally.loads_known += len(loads) - added  # which lacked their requests

    def report(self, key: str, *, interrupted: bool) -> SweepReport:
        return self.tally.report(key, scenarios=self.total, captured=self.readying.captured, interrupted=interrupted)

    def _tasks(self, item: together.ReadyScenario, ref: ScenarioRef) -> Iterator[_Task]:
        if item.interval is None:
            return
        self.tally.fitting += item.fits
        first, last = item.interval
        missing = writing.missing_intervals(item.interval, ref.known)
        self.tally.probes_known += (last - first + 1) - sum(end - start + 1 for start, end in missing)
        if not missing:
            writing.record_interval(self.store, self.sweep_id, ref.id, first, last)
        for interval in missing:
            yield item, ref, interval

    def _keep(self, found: Sequence[tuple[_Task, ProbeBlock | Exception]]) -> None:
        blocks = [(item, ref, block) for (item, ref, _), block in found if isinstance(block, ProbeBlock)]
        for (item, _, _), block in found:
            if isinstance(block, Exception):
                failed = self.readying.failed(item.planned, "error", f"{type(block).__name__}: {block}")
                self.tally.failures["error", failed.record.reason or ""] += 1
                writing.put_scenarios(self.store, self.sweep_id, [failed.record])
        records = [(ref.id, _block_record(item, block)) for item, ref, block in blocks]
        self.tally.probes_stored += writing.put_blocks(self.store, self.sweep_id, records, held=self.held)
        if self.held.full:
            seal_held(self.store, self.held)
        for item, ref, block in blocks:
            if item.interval is not None and item.interval != (int(block.batch_size[0]), int(block.batch_size[-1])):
                writing.record_interval(self.store, self.sweep_id, ref.id, item.interval[0], int(block.batch_size[-1]))
        self._say()

    def _say(self) -> None:
        self.on_progress(self.tally.progress(self.total))


def _prepared(item: together.ReadyScenario, arrivals: ArrivalRequest) -> ScenarioLoads | tuple[str, str]:
    from evaluator.arrivals.sweeping import scenario_loads

    scenario = item.planned.scenario
    try:
        return scenario_loads(scenario, item.record.key, item.operators, cost_of(scenario), arrivals)
    except SweepdbError as error:
        return "unsupported", error.message


def _block_record(item: together.ReadyScenario, block: ProbeBlock) -> BlockRecord:
    composition = composition_of(item.planned.scenario, block.batch_size)
    return BlockRecord(batch_sizes=block.batch_size, columns=block.columns(), composition=composition)


_Item = TypeVar("_Item")


def in_lists(items: Iterable[_Item], most: int, wait_s: float = math.inf) -> Iterator[list[_Item]]:
    waiting: list[_Item] = []
    since = time.monotonic()
    for item in items:
        waiting.append(item)
        if len(waiting) >= most or time.monotonic() - since >= wait_s:
            yield waiting
            waiting, since = [], time.monotonic()
    if waiting:
        yield waiting
