"""The seeds' flow: evaluate under upstream's convention, then ask.

Their program doubles batch sizes until something breaks, then bisects. Its finds are kept, so that its best row is the
best of those."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from evaluator import inputs
from evaluator.request import NamedModel, SweepRequest, planned_scenarios
from evaluator.sweep import SweepReport, run_sweep
from queries.asking import PRESETS, Answer, Limits, PairOptions, Question, ReportOptions, Scope
from queries.composition import CompositionRow, composition_rows
from queries.session import Session
from store.errors import InputError, SweepdbError
from store.location import parse_url
from store.migrating import create_if_missing
from store.opening import open_store
from store.schema import FORMULAS, Phase
from sweepdb.evaluating.workloads import stored_workload


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerOptions:
    """As given."""

    model: str
    devices: tuple[str, ...]
    num_devices: int | None
    input_length: str
    output_length: int
    reserved_memory_gb: float
    compile: bool
    mtp_tokens: tuple[int, ...]
    mtp_acceptance: tuple[float, ...] | None
    linear: str
    experts: str | None
    attention: str
    mxfp4_group_size: int
    search: inputs.PlanSearch
    ttft_limit_ms: float | None
    tpot_limit_ms: float | None
    max_batched_tokens: int | None
    prefix_cache_hit_rate: float
    batch_range: tuple[int, int | None]
    serving_cost_ms: float
    disagg: bool
    jobs: int
    pd_ratio: bool
    prefill_devices: int | None
    decode_devices: int | None
    dump_original_results: bool
    log_level: str
    wide: bool
    prefill_rule: str
    most_combinations: int | None

    @property
    def is_distribution(self) -> bool:
        """A file of length bins, or a stored workload with bins."""
        return not self.input_length.isdecimal()

    def budgets(self) -> tuple[int, ...]:
        """As given, or four times the prompt, then twice and once where memory is short."""
        if self.max_batched_tokens is not None:
            return (self.max_batched_tokens,)
        length = int(inputs.effective_input_length(self._workload(1, self.mtp_tokens[0])))
        length = length if self.is_distribution else int(self.input_length)
        return tuple(factor * length for factor in (4, 2, 1))

    def workloads(self, budget: int) -> tuple[inputs.Workload, ...]:
        return tuple(self._workload(budget, drafts) for drafts in self.mtp_tokens)

    def _workload(self, budget: int, drafts: int) -> inputs.Workload:
        common = {
            "max_batched_tokens": budget,
            "prefix_cache_hit_rate": self.prefix_cache_hit_rate,
            "mtp_tokens": drafts,
            "mtp_acceptance": self.mtp_acceptance,
        }
        if not self.is_distribution:
            return inputs.workload_of(input_length=int(self.input_length), output_length=self.output_length, **common)  # type: ignore[arg-type]
        bins = _bins_of(self.input_length, self.output_length)
        return inputs.workload_of(input_length=None, output_length=inputs.mean_output_length(bins), bins=bins, **common)  # type: ignore[arg-type]


def named_workload(name: str) -> inputs.Workload | None:
    try:
        return stored_workload(name, None)
    except SweepdbError:
        return None


def _bins_of(text: str, output_length: float) -> tuple[inputs.LengthBin, ...]:
    named = None if Path(text).exists() else named_workload(text)
    return inputs.load_distribution(Path(text), output_length=output_length) if named is None else named.bins


FIRST_LARGEST = 512
DOUBLINGS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """Batch sizes found, and the `best`.

    By the beginning of the scenario's key; `held`: the smallest batch fits."""

    scenario: str
    batch_sizes: tuple[int, ...]
    best: tuple[int, ...]
    held: bool


def bisected(fits: Collection[int], first: int, last: int | None) -> list[int]:
    """None: as far as doubling goes."""
    if first not in fits:
        return []
    low, high = first, FIRST_LARGEST if last is None else last
    if last is None:
        for _ in range(DOUBLINGS):
            if high not in fits:
                break
            low, high = high, 2 * high
    kept = []
    while low <= high:
        middle = (low + high) // 2
        if middle in fits:
            kept.append(middle)
            low = middle + 1
        else:
            high = middle - 1
    return kept


def looked_at(
    curve: Answer, batch_range: tuple[int, int | None], *, ttft_ms: float | None, tpot_ms: float | None
) -> Iterator[Looked]:
    rows: dict[str, dict[int, bool]] = defaultdict(dict)
    order: dict[str, dict[int, tuple[float, float, int]]] = defaultdict(dict)
    for row in curve.dicts():
        scenario, _, size = str(row["probe"]).partition(":")
        rows[scenario][int(size)] = _within(row["ttft_ms"], ttft_ms) and _within(row["tpot_ms"], tpot_ms)
        # Rates are equal that print alike: the shorter wait is better then.
        latency = row["ttft_ms"] if row["tpot_ms"] is None else row["tpot_ms"]
        order[scenario][int(size)] = (-round(float(str(row["output_tokens_per_s"])), 3), float(str(latency)), int(size))
    first, last = batch_range
    for scenario, found in rows.items():
        fits = {size for size, kept in found.items() if kept}
        sizes = bisected(fits, first, last)
        best = sorted(sizes, key=lambda size: order[scenario][size])[:1]
        yield Looked(scenario=scenario, batch_sizes=tuple(sizes), best=tuple(best), held=first in found)


def _within(value: object, limit: float | None) -> bool:
    return limit is None or value is None or float(str(value)) <= limit


TOP = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Subject, rows, and the curve behind."""

    kind: str  # aggregated, prefill, decode, pd-ratio
    answer: Answer
    curve: Answer | None
    every: tuple[Mapping[str, object], ...]  # rows of every batch size that was found, where they were asked for
    compositions: Mapping[str, tuple[CompositionRow, ...]]  # by probe, for length distributions


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRun:
    """Stored and answered."""

    device: inputs.DeviceProfile
    sweep: SweepReport
    tables: tuple[Table, ...]


def phases_of(options: OptimizerOptions) -> tuple[Phase, ...]:
    """Seed 001: prefill for TTFT, decode for TPOT, both for both or neither."""
    if options.pd_ratio:
        return ("prefill", "decode")
    if not options.disagg:
        return ("aggregated",)
    if options.is_distribution:
        return ("prefill",)
    ttft, tpot = options.ttft_limit_ms is not None, options.tpot_limit_ms is not None
    if ttft == tpot:
        return ("prefill", "decode")
    return ("prefill",) if ttft else ("decode",)


def run_device(options: OptimizerOptions, device: str, store_url: str | None) -> DeviceRun:
    profile = inputs.load_device(device)
    create_if_missing(parse_url(store_url))
    sweeps = [_evaluated(options, profile, options.budgets()[0], store_url)]
    first = sweeps[0]
    if first.failures and sum(failure.scenarios for failure in first.failures) == first.scenarios:
        raise InputError(f"no plan could be evaluated on {profile.name}: {first.failures[0].reason}")
    with Session(parse_url(store_url)) as session:
        searches = {phase: _search(options, first, session, phase) for phase in phases_of(options)}
        asked = first.scenarios - sum(failure.scenarios for failure in first.failures)
        for budget in options.budgets()[1:]:
            # A smaller budget is worth a try where a plan does not hold the smallest batch that was asked for.
            if sum(len(search.held) for search in searches.values()) >= asked:
                break
            sweeps.append(_evaluated(options, profile, budget, store_url))
            session.refresh()
            for phase, search in searches.items():
                searches[phase] = search.completed(_search(options, sweeps[-1], session, phase))
        kinds = ["pd-ratio"] if options.pd_ratio else list(phases_of(options))
        tables = tuple(_table(options, first, session, kind, searches) for kind in kinds)
    whole = replace(
        first,
        probes_stored=sum(sweep.probes_stored for sweep in sweeps),
        probes_known=sum(sweep.probes_known for sweep in sweeps),
    )
    return DeviceRun(device=profile, sweep=whole, tables=tables)


def _evaluated(
    options: OptimizerOptions, profile: inputs.DeviceProfile, budget: int, store_url: str | None
) -> SweepReport:
    name, spec = inputs.load_model(options.model)
    request = SweepRequest(
        models=(NamedModel(name=name, spec=spec),),
        devices=(profile,),
        workloads=options.workloads(budget),
        precisions=(
            inputs.check_precision(
                inputs.Precision(
                    linear=options.linear,
                    experts=options.experts,
                    attention=options.attention,
                    mxfp4_group_size=options.mxfp4_group_size,
                )
            ),
        ),
        num_devices=None if options.pd_ratio else (options.num_devices or 1),
        prefill_devices=options.prefill_devices if options.pd_ratio else None,
        decode_devices=options.decode_devices if options.pd_ratio else None,
        phases=phases_of(options),
        convention="upstream",
        launch=inputs.Launch(compile=options.compile),
        search=options.search,
        batch_range=options.batch_range,
        serving_model=options.prefill_rule if options.prefill_rule == "seed002" else FORMULAS,
        serving_cost_ms=options.serving_cost_ms,
    )
    _check_combinations(options, request)
    with open_store(store_url) as store:
        return run_sweep(store, request, label="throughput_optimizer", jobs=options.jobs)


def _check_combinations(options: OptimizerOptions, request: SweepRequest) -> None:
    found = sum(1 for _ in planned_scenarios(request)) // len(request.phases)
    if options.most_combinations is not None and found > options.most_combinations:
        raise InputError(
            f"{found} combinations of sizes are more than `max_search_combinations={options.most_combinations}`",
            hint="name fewer sizes or numbers of drafts, or raise it",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Search:
    """By scenario key, and plans that hold the smallest batch."""

    curve: Answer
    found: Mapping[str, tuple[int, ...]]
    best: Mapping[str, tuple[int, ...]]
    plans: Mapping[str, str]  # the plan of each scenario
    held: frozenset[str]

    def completed(self, other: _Search) -> _Search:
        more = [key for key in other.found if other.plans[key] not in self.held]
        return replace(
            self,
            found={**self.found, **{key: other.found[key] for key in more}},
            best={**self.best, **{key: other.best[key] for key in more}},
            plans={**self.plans, **other.plans},
            held=self.held | other.held,
        )


def _search(options: OptimizerOptions, sweep: SweepReport, session: Session, phase: Phase) -> _Search:
    curve = session.ask(_question(options, sweep, "curve", phase))
    keys = {key[:_SHOWN]: key for key, *_ in session.pinned()}
    plans = {keys[str(row["probe"])[:_SHOWN]]: str(row["plan"]) for row in curve.dicts()}
    ttft = options.ttft_limit_ms if phase != "decode" else None
    tpot = options.tpot_limit_ms if phase != "prefill" else None
    looked = {keys[one.scenario]: one for one in looked_at(curve, options.batch_range, ttft_ms=ttft, tpot_ms=tpot)}
    return _Search(
        curve=curve,
        found={key: one.batch_sizes for key, one in looked.items()},
        best={key: one.best for key, one in looked.items()},
        plans=plans,
        held=frozenset(plans[key] for key, one in looked.items() if one.held),
    )


_SHOWN = 8  # letters of a scenario key in a probe


def _table(
    options: OptimizerOptions, sweep: SweepReport, session: Session, kind: str, searches: Mapping[Phase, _Search]
) -> Table:
    # Of pairs, the report chooses among all that was found; of one instance, the best is known.
    mine = list(searches.values()) if kind == "pd-ratio" else [searches[_CURVES[kind]]]
    found = [(key, size, size, 0) for search in mine for key, sizes in search.found.items() for size in sizes]
    chosen = found
    if kind != "pd-ratio":
        chosen = [(key, size, size, 0) for key, sizes in mine[0].best.items() for size in sizes]
    question = _question(options, sweep, _REPORTS[kind])
    answer = session.ask(question, pinned=tuple(chosen)) if chosen else session.ask(question)
    probes = [str(row["probe"]) for row in answer.dicts()] if options.is_distribution else []
    draws = len(options.devices) == 1 and not options.is_distribution
    drawn = searches[_CURVES[kind]].curve if draws else None
    return Table(
        kind=kind,
        answer=answer,
        curve=drawn,
        every=_every_row(question, session, found) if options.dump_original_results and kind != "pd-ratio" else (),
        compositions={probe: composition_rows(session.location, probe) for probe in probes},
    )


def _every_row(
    question: Question, session: Session, found: Sequence[tuple[str, int, int, int]]
) -> tuple[Mapping[str, object], ...]:
    alone = tuple((key, size, size, group) for group, (key, size, _, _) in enumerate(found))
    if not alone:
        return ()
    answer = session.ask(replace(question, options=replace(question.options, top=1)), pinned=alone)
    return tuple(answer.dicts())


_REPORTS = {"aggregated": "best", "prefill": "prefill", "decode": "decode", "pd-ratio": "pd-ratio"}
_CURVES: Mapping[str, Phase] = {
    "aggregated": "aggregated", "prefill": "prefill", "decode": "decode", "pd-ratio": "decode",
}  # fmt: skip


def _question(options: OptimizerOptions, sweep: SweepReport, report: str, curve_phase: str | None = None) -> Question:
    limits = Limits(
        reserved_gib=options.reserved_memory_gb,
        ttft_ms=None if report in {"decode", "curve"} else options.ttft_limit_ms,
        tpot_ms=None if report in {"prefill", "curve"} else options.tpot_limit_ms,
    )
    return Question(
        report=report,
        scope=Scope(sweep=sweep.sweep),
        limits=limits,
        definitions=PRESETS["upstream"],
        pairs=PairOptions(num_devices=options.num_devices) if report == "pd-ratio" else PairOptions(),
        options=ReportOptions(
            mode=curve_phase, rank_by="balanced-requests-per-s" if report == "pd-ratio" else None, top=TOP
        ),
    )
