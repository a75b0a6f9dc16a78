"""Compares two sides by setting: measured runs, or a sweep's predictions."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from evaluator.ledger import Change, changes_of
from queries import measured_rows
from queries.connect import connect
from store.errors import InputError
from store.texts import counted
from sweepdb.measuring.measured_runs import MeasuredRun, measured_runs, no_runs
from sweepdb.sessions import server_named

if TYPE_CHECKING:
    from queries.connect import StoreConnection

Logs = Mapping[tuple[str, str], Sequence[float]]  # of the values of each setting and metric


@dataclass(frozen=True, slots=True, kw_only=True)
class Regression:
    """Changes, worst first; what one side lacks; which sides are `predicted`."""

    changes: tuple[Change, ...]
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]
    predicted: tuple[str, ...] = ()

    def worse(self, percent: float = 0.0) -> list[Change]:
        return [one for one in self.changes if one.verdict == "worse" and one.worse_percent > percent]

    @property
    def verdict(self) -> str:
        count = {kind: sum(one.verdict == kind for one in self.changes) for kind in ("worse", "better", "unknown")}
        settings = len({one.setting for one in self.changes})
        said = f"{counted(settings, 'setting')}, {counted(len(self.changes), 'number')} compared"
        said += f": {count['worse']} surely worse"
        said += f", {count['better']} surely better"
        if count["unknown"]:
            said += f", {count['unknown']} unknown (no setting was run twice, so nothing says how runs spread)"
        left = [(self.only_before, "the baseline"), (self.only_after, "what it is compared with")]
        said += "".join(f"; {len(names)} only in {side}" for names, side in left if names) + "."
        if len(self.predicted) == 1:
            said += (
                f" {self.predicted[0]} is predicted: it has no interval of repeats, and how far off predictions are"
                " says sweepdb validate."
            )
        elif self.predicted:
            said += " Both are predicted, so there is no interval of repeats: each difference is what it is."
        return said


class _Side(NamedTuple):
    name: str
    runs: Sequence[MeasuredRun]
    sweep: measured_rows.StoredSweep | None


def regressions(
    store_url: str | None, *, baseline: str, against: str, model: str | None = None, device: str | None = None
) -> Regression:
    """A tag, an engine's version, days (2026-05-01, 2026-05-01..2026-05-31), or a sweep."""
    with connect(store_url) as connection:
        runs = measured_runs(connection, model, device)
        before = _side(connection, runs, baseline, "baseline")
        after = _side(connection, runs, against, "against")
        _check_apart(before, after)
        old, new = _values(connection, before, after, model, device)
        if not old.keys() & new.keys():
            raise _nothing_shared(connection, before, after)
    shared = old.keys() & new.keys()
    settings_old, settings_new = {name for name, _ in old}, {name for name, _ in new}
    exact = before.sweep is not None, after.sweep is not None
    return Regression(
        changes=tuple(changes_of({key: (old[key], new[key]) for key in sorted(shared)}, exact)),
        only_before=tuple(sorted(settings_old - settings_new)),
        only_after=tuple(sorted(settings_new - settings_old)),
        predicted=tuple(side.name for side in (before, after) if side.sweep is not None),
    )


def _side(connection: StoreConnection, runs: Sequence[MeasuredRun], name: str, option: str) -> _Side:
    """Runs of that name, else the sweep of that key or label."""
    try:
        return _Side(name, tuple(measured_rows.side_of(runs, name, option).values()), None)
    except InputError as error:
        sweep = measured_rows.sweep_named(connection, name)
        if sweep is None:
            raise (
                InputError(error.message, hint=f"{error.hint}; sweeps: sweepdb sweeps") if runs else no_runs()
            ) from None
        return _Side(name, (), sweep)


def _check_apart(before: _Side, after: _Side) -> None:
    both = {run.key for run in before.runs} & {run.key for run in after.runs}
    if both:
        raise InputError(
            f"{len(both)} runs are of both sides, {before.name} and {after.name}",
            hint="name sides that share no run: two tags, two versions or two spans of days",
        )
    if before.sweep is not None and after.sweep is not None and before.sweep.key == after.sweep.key:
        raise InputError(f"{before.name} and {after.name} are the same sweep", hint="sweepdb sweeps lists others")


def _nothing_shared(connection: StoreConnection, before: _Side, after: _Side) -> InputError:
    hint = "a setting is a model, device, engine, formats, plan, lengths and load: sweepdb measurements runs"
    for side, other in ((before, after), (after, before)):
        if side.sweep is not None and other.runs:
            hint = (
                f"of one setting, {measured_rows.predicted_otherwise(connection, side.sweep, _setting(other.runs[0]))}"
            )
    return InputError(f"{before.name} and {after.name} have no setting in common", hint=hint)


def _values(
    connection: StoreConnection, before: _Side, after: _Side, model: str | None, device: str | None
) -> tuple[Logs, Logs]:
    """Logs of both. A sweep is asked for the runs' settings alone."""
    sweeps = [side.sweep for side in (before, after) if side.sweep is not None]
    connection.narrow_to(frozenset[int]().union(*(sweep.scenarios for sweep in sweeps)))
    found = []
    for side, other in ((before, after), (after, before)):
        if side.sweep is None:
            found.append(_of_runs(side.runs))
        elif other.sweep is None:
            found.append(_at_settings_of(connection, side.sweep, other.runs))
        else:
            found.append(_predicted(measured_rows.predicted_settings(connection, side.sweep, model, device)))
    return found[0], found[1]


def _of_runs(runs: Iterable[MeasuredRun]) -> Logs:
    found: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for run in runs:
        for metric, value in run.metrics.items():
            found[run.setting, metric].append(math.log(value))
    return found


def _at_settings_of(connection: StoreConnection, sweep: measured_rows.StoredSweep, runs: Sequence[MeasuredRun]) -> Logs:
    newest = {run.setting: run for run in runs}
    found = measured_rows.predicted_at(connection, sweep, [_setting(run) for run in newest.values()])
    names = list(newest)
    return _predicted({names[place]: values for place, values in found.items()})


def _predicted(settings: Mapping[str, measured_rows.Values]) -> Logs:
    return {(name, metric): [math.log(value)] for name, values in settings.items() for metric, value in values.items()}


def _setting(run: MeasuredRun) -> measured_rows.MeasuredSetting:
    """Server by stored names, and load."""
    given = run.facts
    phase = "pd" if given["mode"] == "disaggregated" else given["mode"]
    stated = measured_rows.StatedServer(
        model=given["model"], device=given["device"], serving_model=given["engine"] or "unstated",
        engine_version=run.version or None, phase=phase, linear_quantization=given["precision"],
        attention_quantization=given["kv_precision"], num_devices=given["num_devices"], tp=given["decode_tp"],
        pp=given["decode_pp"] or 1, dp=given["decode_dp"] or 1, ep=given["decode_ep"] or 1,
        decode_instances=given["decode_instances"], prefill_instances=given["prefill_instances"],
        prefill_tp=given["prefill_tp"],
    )  # fmt: skip
    return measured_rows.MeasuredSetting(
        server=server_named(stated),
        input_length=given["input_length"],
        output_length=given["output_length"],
        phase=phase,
        instances=given["decode_instances"] or 1,
        concurrency=given["concurrency"] if given["request_rate"] is None else None,
    )
