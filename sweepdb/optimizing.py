"""The seeds' flow: evaluate what the store lacks under upstream's convention, then ask. No Typer, no printing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from evaluator.inputs import DeviceProfile, Launch, Precision, check_precision, load_device, load_model
from evaluator.request import NamedModel, SweepRequest
from evaluator.sweep import SweepReport, run_sweep
from queries.asking import PRESETS, Answer, Limits, PairOptions, Question, ReportOptions, Scope
from queries.composition import CompositionRow, composition_rows
from queries.session import Session
from store.errors import InputError
from store.location import parse_url
from store.migrating import create_if_missing
from store.opening import open_store
from store.records import Phase
from sweepdb.optimizer_options import OptimizerOptions
from sweepdb.torch_needed import torch_needed

TOP = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One answer of a run: what it is about, its rows, and the curve behind it."""

    kind: str  # aggregated, prefill, decode, pd-ratio
    answer: Answer
    curve: Answer | None
    compositions: Mapping[str, tuple[CompositionRow, ...]]  # by probe, for length distributions


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRun:
    """The outcome of one device's run: what it stored and answered."""

    device: DeviceProfile
    sweep: SweepReport
    tables: tuple[Table, ...]


def phases_of(options: OptimizerOptions) -> tuple[Phase, ...]:
    """Phases a run needs: seed 001 runs prefill for a TTFT limit, decode for a TPOT limit; both for both or neither."""
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
    """Evaluate and ask for one device."""
    name, spec = load_model(options.model)
    profile = load_device(device)
    request = SweepRequest(
        models=(NamedModel(name=name, spec=spec),),
        devices=(profile,),
        workloads=(options.workload(),),
        precisions=(
            check_precision(
                Precision(linear=options.linear, attention=options.attention, mxfp4_group_size=options.mxfp4_group_size)
            ),
        ),
        num_devices=None if options.pd_ratio else (options.num_devices or 1),
        prefill_devices=options.prefill_devices if options.pd_ratio else None,
        decode_devices=options.decode_devices if options.pd_ratio else None,
        phases=phases_of(options),
        convention="upstream",
        launch=Launch(compile=options.compile),
        search=options.search,
        batch_range=options.batch_range,
        serving_model=options.prefill_rule if options.prefill_rule == "seed002" else "waves",
        serving_cost_ms=options.serving_cost_ms,
    )
    create_if_missing(parse_url(store_url))
    with open_store(store_url) as store, torch_needed():
        sweep = run_sweep(store, request, label="throughput_optimizer", jobs=options.jobs)
    if sweep.failures and sum(failure.scenarios for failure in sweep.failures) == sweep.scenarios:
        raise InputError(f"no plan could be evaluated on {profile.name}: {sweep.failures[0].reason}")
    return DeviceRun(device=profile, sweep=sweep, tables=_tables(options, sweep, store_url))


def _tables(options: OptimizerOptions, sweep: SweepReport, store_url: str | None) -> tuple[Table, ...]:
    kinds = ["pd-ratio"] if options.pd_ratio else list(phases_of(options))
    with Session(parse_url(store_url)) as session:
        return tuple(_table(options, sweep, session, kind) for kind in kinds)


def _table(options: OptimizerOptions, sweep: SweepReport, session: Session, kind: str) -> Table:
    answer = session.ask(_question(options, sweep, _REPORTS[kind]))
    probes = [str(row["probe"]) for row in answer.dicts()] if options.is_distribution else []
    return Table(
        kind=kind,
        answer=answer,
        curve=session.ask(_question(options, sweep, "curve", _CURVES[kind])) if _draws(options) else None,
        compositions={probe: composition_rows(session.location, probe) for probe in probes},
    )


def _draws(options: OptimizerOptions) -> bool:
    return len(options.devices) == 1 and not options.is_distribution


_REPORTS = {"aggregated": "best", "prefill": "prefill", "decode": "decode", "pd-ratio": "pd-ratio"}
_CURVES = {"aggregated": "aggregated", "prefill": "prefill", "decode": "decode", "pd-ratio": "decode"}


def _question(options: OptimizerOptions, sweep: SweepReport, report: str, curve_phase: str | None = None) -> Question:
    limits: dict[str, float] = {"reserved_gib": options.reserved_memory_gb}
    if options.ttft_limit_ms is not None and report not in {"decode", "curve"}:
        limits["ttft_ms"] = options.ttft_limit_ms
    if options.tpot_limit_ms is not None and report not in {"prefill", "curve"}:
        limits["tpot_ms"] = options.tpot_limit_ms
    return Question(
        report=report,
        scope=Scope(sweep=sweep.sweep),
        limits=Limits(**limits),
        definitions=PRESETS["upstream"],
        pairs=PairOptions(num_devices=options.num_devices) if report == "pd-ratio" else PairOptions(),
        options=ReportOptions(mode=curve_phase, rank_by="balanced-qps" if report == "pd-ratio" else None, top=TOP),
    )
