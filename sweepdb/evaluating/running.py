"""`evaluate` as a function; requests can also be only counted."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from evaluator.graph import OperatorSet, operators_from_json
from evaluator.request import SweepRequest, parts_of, planned_scenarios
from evaluator.serving import keep_engine
from evaluator.sweep import Progress, Rounds, SweepReport, count_probes, run_sweep, wanted_operators
from store.errors import InputError, StoreError
from store.light_dataclass import dataclass
from store.location import parse_url
from store.migrating import create_if_missing
from store.opening import open_store
from store.texts import counted
from store.writing import get_operators
from sweepdb import working
from sweepdb.evaluating.option_values import JOBS, check_jobs, options_of, with_declared_keywords
from sweepdb.evaluating.requests import BuiltRequest, build_request
from sweepdb.evaluating.sweep_options import SweepOptions
from sweepdb.working import parse_workers

if TYPE_CHECKING:
    from evaluator.arrivals import ArrivalRequest
    from sweepdb.evaluating.evaluate_keywords import EvaluateKeywords  # a stub: types alone


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCounts:
    scenarios: int
    illegal: int
    probes: int
    reasons: tuple[str, ...] = ()  # of illegal ones, each once, the most frequent first


def evaluate_requests(
    request: SweepRequest | Sequence[SweepRequest],
    store_url: str | None,
    *,
    label: str | None = None,
    jobs: int = 1,
    on_progress: Callable[[Progress], None] = lambda _: None,
    arrivals: ArrivalRequest | None = None,
    workers: working.Workers | None = None,
    rounds: Rounds | None = None,
) -> SweepReport:
    """As one sweep; creates a missing store. `rounds` as in run_sweep."""
    create_if_missing(parse_url(store_url))
    with open_store(store_url) as store:
        for part in parts_of(request):
            if part.engine is not None:
                shipped = part.serving_model == part.engine.name
                keep_engine(store, part.engine, source="shipped" if shipped else "a profile given to evaluate")
        if workers is not None:
            return working.run_on_workers(
                store, request, workers, label=label, on_progress=on_progress, arrivals=arrivals
            )
        return run_sweep(
            store, request, label=label, jobs=jobs, on_progress=on_progress, arrivals=arrivals, rounds=rounds
        )


def count_request(
    request: SweepRequest | Sequence[SweepRequest],
    store_url: str | None = None,
    on_progress: Callable[[Progress], None] = lambda _: None,
) -> RequestCounts:
    """Works out batch ranges; evaluates and stores nothing.

    Stored operators are not captured again."""
    planned = [one.illegal for one in planned_scenarios(request)]
    reasons = Counter(reason for reason in planned if reason is not None)
    probes = count_probes(request, _known_operators(request, store_url), on_progress)
    return RequestCounts(
        scenarios=len(planned), illegal=reasons.total(), probes=probes, reasons=tuple(dict(reasons.most_common()))
    )


def _known_operators(request: SweepRequest | Sequence[SweepRequest], store_url: str | None) -> dict[str, OperatorSet]:
    if parse_url(store_url).is_to_be_made:
        return {}
    with suppress(StoreError), open_store(store_url, read_only=True) as store:
        found = get_operators(store, wanted_operators(request))
        return {key: operators_from_json(text) for key, text in found.items()}
    return {}


_SAID_EVERY_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation(SweepReport):
    """With notes of what was assumed."""

    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        failed = sum(failure.scenarios for failure in self.failures)
        told = f"{counted(self.probes_stored, 'probe')} stored, {self.probes_known:,} already there"
        told += f", {failed} failed" if failed else ""
        return f"<Evaluation {self.sweep}: {counted(self.scenarios, 'scenario')}, {told}>"


def evaluate(
    model: str | Sequence[str] | None = None,
    *,
    sweep: str | os.PathLike[str] | None = None,
    from_deployment: str | None = None,
    store: str | None = None,
    label: str | None = None,
    jobs: int = JOBS,
    workers: str | None = None,
    progress: bool | Callable[[Progress], None] = False,
    **options: Unpack[EvaluateKeywords],
) -> Evaluation:
    """Evaluate every plan and batch size of a model, and store every point that the store lacks.

    `sweep` is a YAML file of products, `from_deployment` a file or folder that starts servers; `label` names what is
    stored, `jobs` counts threads; `workers` (dask:4) names who evaluates in their place. `progress` is called as rows
    are stored; True writes lines to stderr. Limits belong to questions."""
    check_jobs(jobs)
    _check_own(sweep, label, progress, workers)
    asked = options_of({"model": model, **options})
    built = build_request(asked, None if sweep is None else Path(sweep), store, deployment=from_deployment)
    if progress is True:
        sys.stderr.writelines(f"{note}\n" for note in built.notes)
    on_progress = progress_of(progress)
    report = run_request(asked, built, store, label=label, jobs=jobs, on_progress=on_progress, workers=workers)
    if report.interrupted:  # what was stored is kept; the same call again goes on
        raise KeyboardInterrupt
    check_outcome(report)
    return Evaluation(**{item.name: getattr(report, item.name) for item in fields(report)}, notes=built.notes)


def _check_own(sweep: object, label: object, progress: object, workers: object) -> None:
    for keyword, value, fits, expected in (
        ("sweep", sweep, isinstance(sweep, str | os.PathLike), "the path of a YAML file"),
        ("label", label, isinstance(label, str), "a text"),
        ("workers", workers, isinstance(workers, str), "such as dask:4"),
        ("progress", progress, isinstance(progress, bool) or callable(progress), "True, False or a function"),
    ):
        if value is not None and not fits:
            raise InputError(f"`{keyword}` must be {expected}, not {value!r}")


def run_request(
    asked: SweepOptions,
    built: BuiltRequest,
    store: str | None,
    *,
    label: str | None,
    jobs: int,
    on_progress: Callable[[Progress], None],
    workers: str | None = None,
) -> SweepReport:
    """Held-out errors come with engine profiles given as files."""
    chosen = None if workers is None else parse_workers(workers)
    for name in asked.serving_models:
        if name.endswith((".yaml", ".yml")):
            from sweepdb.measuring.engine_fitting import keep_given_profile  # and readers of measurements with it

            keep_given_profile(Path(name), store)
    return evaluate_requests(
        built.parts,
        store,
        label=label,
        jobs=jobs,
        on_progress=on_progress,
        arrivals=built.arrivals,
        workers=chosen,
    )


def check_outcome(report: SweepReport) -> None:
    """Refuses an outcome without a deployable row; a share of an array may be empty."""
    if not report.scenarios:
        return
    if sum(failure.scenarios for failure in report.failures) == report.scenarios:
        reason = report.failures[0].reason if report.failures else "nothing was evaluated"
        raise InputError(f"nothing could be evaluated: {reason}")
    if not report.fitting_scenarios:
        raise InputError(
            "the model does not fit the device memory at batch size 1 in any plan (the rows are stored all the same)",
            hint="more devices an instance (`num_devices`, or -tp of a server's line), a larger device, or a smaller"
            " format (`quantization=FP8`)",
        )


def progress_of(progress: bool | Callable[[Progress], None]) -> Callable[[Progress], None]:
    """Lines on stderr for True, nothing for False."""
    return _Printed() if progress is True else progress or _silent


def _silent(_: Progress) -> None: ...


class _Printed:
    def __init__(self) -> None:
        self._said = time.monotonic()

    def __call__(self, progress: Progress) -> None:
        if time.monotonic() - self._said > _SAID_EVERY_S or progress.scenarios_done == progress.scenarios:
            self._said = time.monotonic()
            done = f"{progress.scenarios_done}/{progress.scenarios} scenarios"
            sys.stderr.write(f"{done}, {progress.probes_stored:,} probes stored\n")


with_declared_keywords(evaluate)
