"""Evaluate requests into a store, or count what they would be. No Typer, no printing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from evaluator.request import SweepRequest, planned_scenarios
from evaluator.serving.stored_engines import keep_engine
from evaluator.sweep import Progress, SweepReport, count_probes, run_sweep
from store.location import parse_url
from store.migrating import create_if_missing
from store.opening import open_store


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCounts:
    """How much a request stands for."""

    scenarios: int
    illegal: int
    probes: int


def evaluate_requests(
    requests: Sequence[SweepRequest],
    store_url: str | None,
    *,
    label: str | None = None,
    jobs: int = 1,
    on_progress: Callable[[Progress], None] = lambda _: None,
) -> list[SweepReport]:
    """Run each request as a sweep, creating the store first where there is none. An interrupted one is the last."""
    create_if_missing(parse_url(store_url))
    reports: list[SweepReport] = []
    with open_store(store_url) as store:
        for request in requests:
            if request.engine is not None:
                shipped = request.serving_model == request.engine.name
                keep_engine(store, request.engine, source="shipped" if shipped else "a profile given to evaluate")
            reports.append(run_sweep(store, request, label=label, jobs=jobs, on_progress=on_progress))
            if reports[-1].interrupted:
                break
    return reports


def count_requests(requests: Sequence[SweepRequest]) -> RequestCounts:
    """Scenarios and probes of requests; batch ranges are worked out, nothing is evaluated or stored."""
    scenarios = illegal = probes = 0
    for request in requests:
        for planned in planned_scenarios(request):
            scenarios += 1
            illegal += planned.illegal is not None
        probes += count_probes(request)
    return RequestCounts(scenarios=scenarios, illegal=illegal, probes=probes)
