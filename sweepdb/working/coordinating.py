"""Plans, captures once, reserves, hands out shards and takes outcomes.

Content keys and the registering transaction decide what is stored, never the engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from evaluator import sweep
from evaluator.canonical import content_key
from evaluator.graph import operators_to_json
from evaluator.request import PlannedScenario, SweepRequest
from evaluator.shards import Cut, ShardScenario, cut_shards
from evaluator.together import Readying, ReadyScenario
from store.errors import EvaluationError, InputError
from store.parts import fail_shard, part_shelf, put_shards, record_known, register_part
from store.records import ScenarioRef
from store.sealing import seal
from store.texts import LONGEST_TEXT, escaped
from store.writing import finish_sweep, loads_of_scenarios, missing_intervals, put_scenarios
from sweepdb.working.process_engine import InlineEngine, ProcessEngine
from sweepdb.working.tasks import MOST_ATTEMPTS, EngineLostError, ShardEngine, ShardOutcome, ShardTask, reason_of

if TYPE_CHECKING:
    from evaluator.arrivals import ArrivalRequest
    from store.opening import Store
    from sweepdb.working.playing import Plays
    from sweepdb.working.tasks import Workers


@dataclass(frozen=True, slots=True)
class _Item:
    """Ready to be cut."""

    ready: ReadyScenario

    @property
    def key(self) -> str:
        return self.ready.record.key

    @property
    def interval(self) -> tuple[int, int] | None:
        return self.ready.interval


def engine_of(workers: Workers) -> ShardEngine:
    if workers.kind == "share":
        return InlineEngine()
    if workers.kind == "processes":
        return ProcessEngine(workers.count)
    from sweepdb.working.dask_engine import DaskEngine

    return DaskEngine(workers)


def run_on_workers(
    store: Store,
    request: SweepRequest | Sequence[SweepRequest],
    workers: Workers,
    *,
    label: str | None = None,
    on_progress: Callable[[sweep.Progress], None] = lambda _: None,
    engine: ShardEngine | None = None,
    arrivals: ArrivalRequest | None = None,
) -> sweep.SweepReport:
    """As one sweep. Committed shards stay, and the same request adds the rest.

    `arrivals` also simulates every scenario."""
    planned = sweep.legal_scenarios(request)
    shelf = part_shelf(store)
    engine = engine_of(workers) if engine is None else engine
    key, sweep_id = sweep.begun_sweep(store, request, label, arrivals)
    run = _Coordinating(
        store=store, sweep_id=sweep_id, planned=planned, workers=workers, engine=engine, folder=shelf.address,
        on_progress=on_progress, arrivals=arrivals,
    )  # fmt: skip
    interrupted = False
    try:
        run.run()
    except KeyboardInterrupt:
        interrupted = True
    except EngineLostError as error:
        finish_sweep(store, sweep_id, "interrupted")
        raise EvaluationError(
            f"sweep {key} was interrupted: {error}", hint="what is stored is kept; run the same command again to go on"
        ) from error
    except BaseException:
        finish_sweep(store, sweep_id, "failed")
        raise
    finally:
        engine.cancel()
    finish_sweep(store, sweep_id, "interrupted" if interrupted else "failed" if run.given_up else "finished")
    seal(store)
    if run.given_up:
        shard, reason = next(iter(run.given_up.items()))
        raise EvaluationError(
            f"{len(run.given_up)} shards of sweep {key} failed {MOST_ATTEMPTS} times, {shard[:12]} first: {reason}",
            hint="the others are stored; run the same command again to add what is missing",
        )
    return run.tally.report(key, scenarios=run.scenarios, captured=run.captured, interrupted=interrupted)


@dataclass(slots=True, kw_only=True)
class _Coordinating:
    store: Store
    sweep_id: int
    planned: Sequence[PlannedScenario]
    workers: Workers
    engine: ShardEngine
    folder: str
    on_progress: Callable[[sweep.Progress], None]
    given_up: dict[str, str] = field(default_factory=dict)
    scenarios: int = 0
    captured: int = 0
    arrivals: ArrivalRequest | None = None
    tally: sweep.Tally = field(default_factory=sweep.Tally)
    evaluate_cpu_s: float = 0.0
    _texts: dict[str, str] = field(default_factory=dict)  # operator sets as JSON
    _waiting: dict[str, tuple[Cut[_Item], Mapping[int, ReadyScenario]]] = field(default_factory=dict)

    def run(self) -> None:
        for cut in cut_shards(self._ready(), played=None if self.arrivals is None else content_key(self.arrivals)):
            if self.workers.kind == "share" and cut.number % self.workers.count != self.workers.share:
                continue
            task = self._task(cut)
            if task is None:
                self._ended(cut)
                continue
            while self.engine.busy:
                self._take_one()
            self.engine.submit(task)
        while self._waiting:
            self._take_one()

    def _ready(self) -> Iterator[_Item]:
        readying = Readying(store=self.store)
        for chunk in sweep.in_lists(self.planned, sweep.SCENARIOS_AT_ONCE):
            ready = readying.ready(chunk)
            self.captured = readying.captured
            for operators in readying.operators.values():
                if operators.key not in self._texts:
                    self._texts[operators.key] = operators_to_json(operators)
            yield from map(_Item, ready)

    def _task(self, cut: Cut[_Item]) -> ShardTask | None:
        ready = [item.ready for item in cut.items]
        refs = put_scenarios(self.store, self.sweep_id, [item.record for item in ready])
        self.scenarios += len(ready)
        for item in ready:
            self.tally.fitting += item.fits
            if item.record.status != "ok":
                self.tally.failures[item.record.status, item.record.reason or ""] += 1
        items = [one for item, ref in zip(ready, refs, strict=True) if (one := self._shard_scenario(item, ref))]
        self._record_known(ready, refs)
        if not items:
            return None
        by_id = {ref.id: item for item, ref in zip(ready, refs, strict=True)}
        self._waiting[cut.key] = (cut, by_id)
        missing = sum(last - first + 1 for item in items for first, last in item.missing)
        put_shards(self.store, self.sweep_id, [(cut.key, len(items), missing)])
        needed = {key for item in items for key in item.operators.values()}
        return ShardTask(
            sweep_id=self.sweep_id,
            key=cut.key,
            items=tuple(items),
            operators={key: self._texts[key] for key in sorted(needed)},
            folder=self.folder,
            store_url=None if self.store.kind == "sqlite" else self.store.url,
            plays=self._plays(items),
        )

    def _plays(self, items: Sequence[ShardScenario]) -> Plays | None:
        if self.arrivals is None:
            return None
        from sweepdb.working.playing import Plays

        ids = [item.scenario_id for item in items]
        known = loads_of_scenarios(self.store, ids, with_requests=self.arrivals.keep_requests)
        return Plays(asked=self.arrivals, known=known)

    def _shard_scenario(self, item: ReadyScenario, ref: ScenarioRef) -> ShardScenario | None:
        if item.interval is None:
            return None
        missing = missing_intervals(item.interval, ref.known)
        if not missing and self.arrivals is None:
            return None
        return ShardScenario(
            scenario_id=ref.id,
            key=ref.key,
            scenario=item.planned.scenario,
            operators={trace: operators.key for trace, operators in item.operators.items()},
            missing=tuple(missing),
        )

    def _record_known(self, ready: Sequence[ReadyScenario], refs: Sequence[ScenarioRef]) -> None:
        there = []
        for item, ref in zip(ready, refs, strict=True):
            if item.interval is not None:
                absent = missing_intervals(item.interval, ref.known)
                there += [(ref.id, first, last) for first, last in missing_intervals(item.interval, absent)]
        record_known(self.store, self.sweep_id, there)
        self.tally.probes_known += sum(last - first + 1 for _, first, last in there)

    def _take_one(self) -> None:
        task, outcome = next(self.engine.results())
        if isinstance(outcome, ShardOutcome):
            try:
                self._keep(task, outcome)
            except Exception as error:  # noqa: BLE001  tried again as if the worker had met it
                self._again(task, error)
        else:
            self._again(task, outcome)

    def _keep(self, task: ShardTask, outcome: ShardOutcome) -> None:
        registered = outcome.registered
        if outcome.part is not None:  # one writer: the coordinator registers what workers wrote
            registered = register_part(self.store, self.sweep_id, task.key, outcome.part)
        self.evaluate_cpu_s += outcome.evaluate_cpu_s
        self._keep_loads(task, outcome)
        cut, ready = self._waiting[task.key]
        if registered is not None:
            self.tally.probes_stored += registered.probes_added
            self.tally.probes_known += registered.probes_known
        for scenario_id, reason in outcome.failures.items():
            record = replace(ready[scenario_id].record, status="error", reason=escaped(reason)[:LONGEST_TEXT])
            put_scenarios(self.store, self.sweep_id, [record])
            self.tally.failures["error", reason] += 1
        if registered is not None and registered.left:  # somebody else stored a piece meanwhile: add the rest
            self._waiting.pop(task.key)
            left = Cut(cut.number, cut.key, cut.items, cut.probes)
            again = self._rest(left)
            if again is not None:
                self._again(again, InputError("another sweep stored a part of it"))
                return
        self._waiting.pop(task.key, None)
        self._ended(cut)

    def _keep_loads(self, task: ShardTask, outcome: ShardOutcome) -> None:
        if outcome.played is None or task.plays is None:
            return
        from sweepdb.working.playing import store_loads

        added = outcome.loads_added
        if added is None:  # one writer: the coordinator
            added = store_loads(self.store, self.sweep_id, task.plays.asked, outcome.played.loads)
        self.tally.loads_stored += added
        self.tally.loads_known += outcome.played.known + outcome.played.made - added
        self.tally.unplayed.update(outcome.played.unplayed.values())

    def _rest(self, cut: Cut[_Item]) -> ShardTask | None:
        before, scenarios = replace(self.tally, failures=Counter(self.tally.failures)), self.scenarios
        task = self._task(cut)
        self.tally, self.scenarios = before, scenarios
        return task

    def _again(self, task: ShardTask, error: Exception) -> None:
        """Elsewhere, up to three failures; others go on."""
        if task.attempt < MOST_ATTEMPTS:
            self.engine.submit(replace(task, attempt=task.attempt + 1))
            return
        reason = reason_of(error)
        fail_shard(self.store, self.sweep_id, task.key, reason)
        self.given_up[task.key] = reason
        cut, _ = self._waiting.pop(task.key)
        self._ended(cut)

    def _ended(self, cut: Cut[_Item]) -> None:
        self.tally.done += len(cut.items)
        self.on_progress(self.tally.progress(len(self.planned)))
