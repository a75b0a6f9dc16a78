"""Evaluate requests into a store, or count what they would be. No Typer, no printing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evaluator.arrivals import ArrivalRequest
from evaluator.graph import OperatorSet, operators_from_json
from evaluator.request import SweepRequest, parts_of, planned_scenarios
from evaluator.serving import keep_engine
from evaluator.sweep import Progress, SweepReport, count_probes, run_sweep, wanted_operators
from store.errors import StoreError
from store.location import parse_url
from store.migrating import create_if_missing
from store.opening import open_store
from store.writing import get_operators
from sweepdb.torch_needed import torch_installed, torch_needed, without_torch

if TYPE_CHECKING:
    from sweepdb.working import Workers


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCounts:
    """How much a request stands for."""

    scenarios: int
    illegal: int
    probes: int


def evaluate_requests(
    request: SweepRequest | Sequence[SweepRequest],
    store_url: str | None,
    *,
    label: str | None = None,
    jobs: int = 1,
    on_progress: Callable[[Progress], None] = lambda _: None,
    arrivals: ArrivalRequest | None = None,
    workers: Workers | None = None,
) -> SweepReport:
    """Run what was asked as one sweep, creating the store first where there is none."""
    require_operators(request, store_url)
    create_if_missing(parse_url(store_url))
    with open_store(store_url) as store, torch_needed():
        for part in parts_of(request):
            if part.engine is not None:
                shipped = part.serving_model == part.engine.name
                keep_engine(store, part.engine, source="shipped" if shipped else "a profile given to evaluate")
        if workers is not None:
            from sweepdb.working import run_on_workers

            return run_on_workers(store, request, workers, label=label, on_progress=on_progress, arrivals=arrivals)
        return run_sweep(store, request, label=label, jobs=jobs, on_progress=on_progress, arrivals=arrivals)


def require_operators(request: SweepRequest | Sequence[SweepRequest], store_url: str | None) -> None:
    """Refuse a request that needs torch where there is none, before anything of it is stored."""
    if torch_installed():
        return
    wanted, path = wanted_operators(request), parse_url(store_url).path
    if wanted and path is not None and not path.exists():
        raise without_torch()
    if wanted:
        with open_store(store_url, read_only=True) as store:
            if wanted - get_operators(store, wanted).keys():
                raise without_torch()


def count_request(
    request: SweepRequest | Sequence[SweepRequest],
    store_url: str | None = None,
    on_progress: Callable[[Progress], None] = lambda _: None,
) -> RequestCounts:
    """Scenarios and probes of a request; batch ranges are worked out, nothing is evaluated or stored.

    Operators that the store has are not captured again."""
    illegal = [planned.illegal is not None for planned in planned_scenarios(request)]
    with torch_needed():
        probes = count_probes(request, _known_operators(request, store_url), on_progress)
    return RequestCounts(scenarios=len(illegal), illegal=sum(illegal), probes=probes)


def _known_operators(request: SweepRequest | Sequence[SweepRequest], store_url: str | None) -> dict[str, OperatorSet]:
    """Operator sets of a request that a store holds; none where there is no store that can be read."""
    path = parse_url(store_url).path
    if path is not None and not path.exists():
        return {}
    with suppress(StoreError), open_store(store_url, read_only=True) as store:
        found = get_operators(store, wanted_operators(request))
        return {key: operators_from_json(text) for key, text in found.items()}
    return {}
