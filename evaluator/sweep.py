"""Runs a sweep: captures what is missing, evaluates every batch size that is not stored, and stores every point.

Not here: what a scenario costs (evaluator.evaluate), how rows are written (store.writing)."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

import numpy as np

from evaluator.arrivals.load_rows import arrival_record
from evaluator.arrivals.sweeping import ArrivalRequest, ScenarioLoads, scenario_loads
from evaluator.canonical import canonical
from evaluator.evaluate import (
    assumptions_of,
    batch_range,
    capture_requests,
    composition_of,
    cost_of,
    evaluate_scenario,
    unsupported,
)
from evaluator.graph.capture import CaptureRequest
from evaluator.graph.operators import OperatorSet, operators_from_json, operators_to_json
from evaluator.identity import RecordBuilder
from evaluator.in_lists import in_lists
from evaluator.probe_block import ProbeBlock
from evaluator.request import PlannedScenario, SweepRequest, planned_scenarios, request_arguments
from store.errors import InputError, SweepdbError
from store.opening import Store
from store.records import BlockRecord, OperatorSetRecord, ScenarioRecord, ScenarioRef, SweepRecord
from store.schema import Status
from store.sealing import HeldRows, seal, seal_held
from store.writing import (
    begin_sweep,
    finish_sweep,
    get_operators,
    known_loads,
    missing_intervals,
    put_blocks,
    put_loads,
    put_operators,
    put_scenarios,
    record_interval,
)

SCENARIOS_AT_ONCE = 64
_BLOCKS_A_TRANSACTION = 8  # a commit costs as much as some hundred probes
_WAIT_S = 0.25  # what a kill may lose of blocks that take long


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a sweep has come."""

    scenarios_done: int
    scenarios: int
    probes_stored: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """Scenarios that ended alike."""

    status: str
    reason: str
    scenarios: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepReport:
    """The outcome of a sweep: what it stored, what it found stored, and what it could not evaluate."""

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


@dataclass(slots=True)
class _Tally:
    probes_stored: int = 0
    probes_known: int = 0
    captured: int = 0
    fitting: int = 0
    done: int = 0
    failures: Counter[tuple[str, str]] = field(default_factory=Counter)
    loads_stored: int = 0
    loads_known: int = 0
    unplayed: Counter[tuple[str, str]] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class ReadyScenario:
    """A scenario with its operators and the batch sizes asked for; or its failure."""

    planned: PlannedScenario
    record: ScenarioRecord
    operators: Mapping[str, OperatorSet]
    interval: tuple[int, int] | None
    fits: bool = False


_Task = tuple[ReadyScenario, ScenarioRef, tuple[int, int]]  # a batch interval that the store lacks


def program_version() -> str:
    """The version of this program, for the sweep's record."""
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
) -> SweepReport:
    """Evaluate and store, as one sweep, what the store lacks of a request or of several. ^C keeps what is
    acknowledged and marks the sweep. With `arrivals`, every scenario is played at rates of requests, too."""
    planned = list(planned_scenarios(request))
    if not planned:
        raise InputError("this request has no legal plan", hint="widen the sizes, or change `num_devices`")
    key = secrets.token_hex(6)
    arguments = canonical(request_arguments(request) | ({} if arrivals is None else {"arrivals": arrivals}))
    sweep_id = begin_sweep(
        store,
        SweepRecord(
            key=key,
            label=label,
            arguments=arguments,
            program_version=program_version(),
            started_at=datetime.now(UTC),
            kind="request",
        ),
    )
    runner = SweepRunner(store=store, sweep_id=sweep_id, total=len(planned), on_progress=on_progress, arrivals=arrivals)
    interrupted = False
    try:
        # One thread evaluates beside this one, which writes: more of them would wait for each other and work out the
        # same schedules. Plays are C, and run side by side.
        with ThreadPoolExecutor(max_workers=1) as pool, ThreadPoolExecutor(max_workers=max(1, min(jobs, 8))) as players:
            for chunk in in_lists(planned, SCENARIOS_AT_ONCE):
                runner.run(chunk, pool, players)
    except KeyboardInterrupt:
        interrupted = True
    except BaseException:
        finish_sweep(store, sweep_id, "failed")
        raise
    finish_sweep(store, sweep_id, "interrupted" if interrupted else "finished")
    seal(store, runner.held)
    return runner.report(key, interrupted=interrupted)


def evaluate_all(
    request: SweepRequest | Sequence[SweepRequest], operators: dict[str, OperatorSet] | None = None
) -> Iterator[ProbeBlock]:
    """Every block of a request, stored nowhere: for benchmarks and notebooks. `operators` keeps what is captured."""
    for planned, sets, (first, last) in _worth_evaluating(request, {} if operators is None else operators):
        yield evaluate_scenario(planned.scenario, np.arange(first, last + 1), sets)


def count_probes(
    request: SweepRequest | Sequence[SweepRequest],
    operators: dict[str, OperatorSet] | None = None,
    on_progress: Callable[[Progress], None] = lambda _: None,
) -> int:
    """How many probes a request stands for; nothing is evaluated. `operators` are those that need no capture."""
    scenarios, probes = sum(1 for _ in planned_scenarios(request)), 0
    found = _worth_evaluating(request, {} if operators is None else operators)
    for done, (_, _, (first, last)) in enumerate(found, start=1):
        probes += last - first + 1
        on_progress(Progress(scenarios_done=done, scenarios=scenarios, probes_stored=probes))
    return probes


def _worth_evaluating(
    request: SweepRequest | Sequence[SweepRequest], operators: dict[str, OperatorSet]
) -> Iterator[tuple[PlannedScenario, dict[str, OperatorSet], tuple[int, int]]]:
    for planned in planned_scenarios(request):
        if planned.illegal is None and _unsupported(planned) is None:
            sets = {
                trace: operators.get(item.key) or _capture(item, operators) for trace, item in captures(planned).items()
            }
            yield planned, sets, _interval(planned, sets)[0]


def wanted_operators(request: SweepRequest | Sequence[SweepRequest]) -> frozenset[str]:
    """Content keys of every operator set that a request needs."""
    return frozenset(_wanted(planned_scenarios(request)))


def _wanted(some: Iterable[PlannedScenario]) -> dict[str, CaptureRequest]:
    """The operator sets of those scenarios that can be evaluated, by key."""
    return {
        item.key: item
        for planned in some
        if planned.illegal is None and _unsupported(planned) is None
        for item in captures(planned).values()
    }


def captures(planned: PlannedScenario) -> dict[str, CaptureRequest]:
    """The operator sets a scenario needs, by trace."""
    return dict(capture_requests(planned.scenario).items())


def _capture(request: CaptureRequest, operators: dict[str, OperatorSet]) -> OperatorSet:
    from evaluator.graph.capture import capture_operators

    operators[request.key] = capture_operators(request)
    return operators[request.key]


def _interval(planned: PlannedScenario, operators: Mapping[str, OperatorSet]) -> tuple[tuple[int, int], bool]:
    first, last = planned.batch_range
    worth = batch_range(planned.scenario, operators, ceiling=last)
    return (first, max(first, worth.last)), worth.largest_fitting >= 1


@dataclass(slots=True, kw_only=True)
class SweepRunner:
    """One sweep in progress."""

    store: Store
    sweep_id: int
    total: int
    on_progress: Callable[[Progress], None]
    arrivals: ArrivalRequest | None = None
    tally: _Tally = field(default_factory=_Tally)
    records: RecordBuilder = field(default_factory=RecordBuilder)
    operators: dict[str, OperatorSet] = field(default_factory=dict)
    held: HeldRows = field(default_factory=HeldRows)

    def run(self, chunk: Sequence[PlannedScenario], pool: ThreadPoolExecutor, players: ThreadPoolExecutor) -> None:
        """Capture, plan, evaluate and store some scenarios; `players` play requests against them."""
        self.provide_operators(chunk)
        ready = [self.ready(planned) for planned in chunk]
        refs = put_scenarios(self.store, self.sweep_id, [item.record for item in ready])
        todo = [task for item, ref in zip(ready, refs, strict=True) for task in self._tasks(item, ref)]
        try:
            evaluated = zip(todo, pool.map(_evaluated, todo), strict=True)
            for found in in_lists(evaluated, _BLOCKS_A_TRANSACTION, _WAIT_S):
                self._keep(found)
            if self.arrivals is not None:
                self._play(list(zip(ready, refs, strict=True)), self.arrivals, players)
        finally:
            self.tally.done += len(chunk)
        self._say()

    def _play(
        self, ready: Sequence[tuple[ReadyScenario, ScenarioRef]], arrivals: ArrivalRequest, pool: ThreadPoolExecutor
    ) -> None:
        """Play what the store lacks; the loads of one scenario are stored together."""
        record = arrival_record(arrivals.settings.process)
        prepared = pool.map(lambda task: _prepared(task[0], arrivals), [one for one in ready if one[0].operators])
        playable: list[tuple[ScenarioLoads, ScenarioRef, frozenset[str]]] = []
        for (_, ref), loads in zip([one for one in ready if one[0].operators], prepared, strict=True):
            if isinstance(loads, ScenarioLoads):
                known = known_loads(self.store, loads.keys, with_requests=arrivals.keep_requests)
                self.tally.loads_known += len(known)
                playable.append((loads, ref, known))
            else:
                self.tally.unplayed[loads] += 1
        for (_, ref, _), loads in zip(playable, pool.map(lambda one: one[0].play(one[2]), playable), strict=True):
            if loads:
                added = put_loads(self.store, self.sweep_id, ref.id, record, loads)
                self.tally.loads_stored += added
                self.tally.loads_known += len(loads) - added  # which lacked their requests

    def report(self, key: str, *, interrupted: bool) -> SweepReport:
        """The outcome so far."""
        tally = self.tally
        return SweepReport(
            sweep=key,
            scenarios=self.total,
            probes_stored=tally.probes_stored,
            probes_known=tally.probes_known,
            operators_captured=tally.captured,
            fitting_scenarios=tally.fitting,
            failures=counted_failures(tally.failures),
            interrupted=interrupted,
            loads_stored=tally.loads_stored,
            loads_known=tally.loads_known,
            unplayed=counted_failures(tally.unplayed),
        )

    def provide_operators(self, chunk: Sequence[PlannedScenario]) -> None:
        """Take the operators of scenarios from the store, and capture and store what it lacks."""
        wanted = _wanted(chunk)
        missing = [key for key in wanted if key not in self.operators]
        self.operators = {key: self.operators[key] for key in wanted if key in self.operators}
        self.operators |= {key: operators_from_json(text) for key, text in get_operators(self.store, missing).items()}
        new = [wanted[key] for key in missing if key not in self.operators]
        if not new:
            return
        import torch

        fresh = [(item, _capture(item, self.operators)) for item in new]
        put_operators(
            self.store,
            [
                OperatorSetRecord(
                    key=item.key, payload=operators_to_json(captured), torch_version=str(torch.__version__)
                )
                for item, captured in fresh
            ],
        )
        self.tally.captured += len(fresh)

    def ready(self, planned: PlannedScenario) -> ReadyScenario:
        """A scenario with its operators and batch sizes, or its failure."""
        if planned.illegal is not None:
            return self._failed(planned, "illegal", planned.illegal)
        if (unsupported := _unsupported(planned)) is not None:
            return self._failed(planned, "unsupported", unsupported)
        try:
            sets = {trace: self.operators[item.key] for trace, item in captures(planned).items()}
            interval, fits = _interval(planned, sets)
            said = "\n".join(assumptions_of(planned.scenario, sets)) or None
        except SweepdbError as error:
            return self._failed(planned, "unsupported", error.message)
        except Exception as error:  # noqa: BLE001  one scenario's failure is a row with its reason, not the sweep's end
            return self._failed(planned, "error", f"{type(error).__name__}: {error}")
        record = self.records.scenario(planned.model_name, planned.scenario, assumptions=said)
        return ReadyScenario(planned, record, sets, interval, fits)

    def _failed(self, planned: PlannedScenario, status: Status, reason: str) -> ReadyScenario:
        record = self.records.scenario(
            planned.model_name,
            planned.scenario,
            status=status,
            reason=reason,
        )
        self.tally.failures[status, reason] += 1
        return ReadyScenario(planned, record, {}, None)

    def _tasks(self, item: ReadyScenario, ref: ScenarioRef) -> Iterator[_Task]:
        if item.interval is None:
            return
        self.tally.fitting += item.fits
        first, last = item.interval
        missing = missing_intervals(item.interval, ref.known)
        self.tally.probes_known += (last - first + 1) - sum(end - start + 1 for start, end in missing)
        if not missing:
            record_interval(self.store, self.sweep_id, ref.id, first, last)
        for interval in missing:
            yield item, ref, interval

    def _keep(self, found: Sequence[tuple[_Task, ProbeBlock | Exception]]) -> None:
        """Store evaluated blocks in one transaction, and failures as such."""
        blocks = [(item, ref, block) for (item, ref, _), block in found if isinstance(block, ProbeBlock)]
        for (item, _, _), block in found:
            if isinstance(block, Exception):
                failed = self._failed(item.planned, "error", f"{type(block).__name__}: {block}")
                put_scenarios(self.store, self.sweep_id, [failed.record])
        records = [(ref.id, _block_record(item, block)) for item, ref, block in blocks]
        self.tally.probes_stored += put_blocks(self.store, self.sweep_id, records, held=self.held)
        if self.held.full:
            seal_held(self.store, self.held)
        for item, ref, block in blocks:
            if item.interval is not None and item.interval != (int(block.batch_size[0]), int(block.batch_size[-1])):
                record_interval(self.store, self.sweep_id, ref.id, *_stored_part(item.interval, block))
        self._say()

    def _say(self) -> None:
        self.on_progress(
            Progress(scenarios_done=self.tally.done, scenarios=self.total, probes_stored=self.tally.probes_stored)
        )


def counted_failures(failures: Mapping[tuple[str, str], int]) -> tuple[Failures, ...]:
    """Failures by status and reason."""
    return tuple(
        Failures(status=status, reason=reason, scenarios=count) for (status, reason), count in sorted(failures.items())
    )


def _prepared(item: ReadyScenario, arrivals: ArrivalRequest) -> ScenarioLoads | tuple[str, str]:
    scenario = item.planned.scenario
    try:
        return scenario_loads(scenario, item.record.key, item.operators, cost_of(scenario), arrivals)
    except SweepdbError as error:
        return "unsupported", error.message


def _block_record(item: ReadyScenario, block: ProbeBlock) -> BlockRecord:
    composition = composition_of(item.planned.scenario, block.batch_size)
    return BlockRecord(batch_sizes=block.batch_size, columns=block.columns(), composition=composition)


def _stored_part(interval: tuple[int, int], block: ProbeBlock) -> tuple[int, int]:
    """The part of an interval that is known to be stored once `block` is: up to the end of the block."""
    return interval[0], int(block.batch_size[-1])


def _unsupported(planned: PlannedScenario) -> str | None:
    if planned.scenario.drafting and planned.scenario.model.mtp_layers == 0:
        return f"{planned.model_name} has no MTP module to draft tokens with"
    error = unsupported(planned.scenario)
    return None if error is None else f"{error.message} ({error.hint})".replace("`", "")


def _evaluated(task: _Task) -> ProbeBlock | Exception:
    item, _, (first, last) = task
    try:
        return evaluate_scenario(item.planned.scenario, np.arange(first, last + 1, dtype=np.int64), item.operators)
    except Exception as error:  # noqa: BLE001  one scenario's failure is a row with its reason, not the sweep's end
        return error
