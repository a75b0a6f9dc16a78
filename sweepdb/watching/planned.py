"""The plan of a running server: its stored rows over load, as own runs correct them, at the lengths that it sees."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np

from queries.asking import Answer, question_of
from queries.connect import connect
from queries.errors import OTHERS, OWN
from queries.learning import deviation_of_median
from queries.session import Session
from store.errors import InputError
from store.location import StoreLocation
from store.schema import Phase
from sweepdb.launching.expectations import launched_roles
from sweepdb.launching.stored_instance import StoredInstance, read_instance
from sweepdb.watching.curves import TIMES, Arrivals, Curve, Lengths, Restored, restored_server
from sweepdb.watching.engines import shown_engine

_MOST_BATCH = 2**31 - 2
_MOST_LISTED = 6
_SERVERS = """
    SELECT device, plan, workload, left(scenario, 8) || ':' || max(batch_size) AS probe
    FROM probe
    WHERE phase = $phase AND contains(lower(model), lower($model))
        AND split_part(serving_model, '@', 1) = $engine
        AND ($device IS NULL OR contains(lower(device), lower($device)))
    GROUP BY device, plan, workload, scenario
    ORDER BY device, plan, workload, scenario
    LIMIT $most
"""
_EXCLUSIVE = {"tpot_definition": "exclusive"}
_TIMES = {"ttft_ms": "ttft_ms", "tpot_exclusive_ms": "tpot_ms"}  # of answers, and as they are called here


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Planned:
    """A stored server: its row, its times by load, the lengths that it was planned for, and how sure its times are."""

    instance: StoredInstance
    arrivals: Arrivals
    users: Curve  # its rows, as own runs correct them
    corrected: Curve  # by how much own runs move the times of users
    batches: tuple[int, ...]  # of its rows
    restored: Restored
    sd: dict[str, float]  # of log(measured / predicted), by metric
    own_runs: bool  # whether own runs correct the rows

    @property
    def lengths(self) -> Lengths:
        return self.restored.lengths

    @property
    def cache_share(self) -> float:
        full, mean = (float(str(self.instance.values[f"kv_cache{kind}_bytes"])) for kind in ("", "_mean"))
        return mean / full if full else 1.0

    def curve_at(self, lengths: Lengths) -> Curve:
        if self.arrivals == "users":
            return self.users if lengths == self.lengths else self.restored.longer(self.users, self.batches, lengths)
        try:
            curve = self.restored.arriving(lengths)
        except InputError as error:
            raise InputError(error.message, hint="`arrivals=users` compares with users who wait") from None
        return curve.times(
            *(self.corrected.at(metric, 0 * curve.load if curve.by_rate else curve.load) for metric in TIMES)
        )


def watched_server(
    named: Sequence[str], location: StoreLocation, *, engine: str, model: str, device: str | None, phase: Phase | None
) -> str:
    """The probe of a server: as it is named, of a folder that `launch` wrote, or the only one of a model and engine.

    Of two that are named it is the one that serves in this phase."""
    if not named:
        return _only_server(location, engine=engine, model=model, device=device, phase=phase or "aggregated")
    if len(named) == 1 and Path(named[0]).is_dir():
        roles = launched_roles(Path(named[0]))
        if len(roles) == 1:
            return roles[0].probe
        found = [one.probe for one in roles if one.role == phase]
        return found[0] if found else _unsaid_role(named[0])
    if len(named) == 1:
        return named[0]
    if phase is None:
        _unsaid_role(" and ".join(named))
    found = [one for one in named if read_instance(location, one).scenario.phase == phase]
    if not found:
        raise InputError(f"no {phase} row is named", hint=f"the row that the {phase} instances were started from")
    return found[0]


def _unsaid_role(named: str) -> NoReturn:
    raise InputError(
        f"{named} is disaggregated", hint="say whose page it is: `metrics=prefill=URL`, `metrics=decode=URL`"
    )


def _only_server(location: StoreLocation, *, engine: str, model: str, device: str | None, phase: Phase) -> str:
    with connect(location.url) as connection:
        asked = {"model": model, "engine": engine, "device": device, "phase": phase, "most": _MOST_LISTED}
        rows = connection.execute(_SERVERS, asked).fetchall()
    if not rows:
        raise InputError(
            f"no stored server of {model} under {engine}", hint="name its row: sweepdb watch a1b2c3d4:19 `metrics=...`"
        )
    if len(rows) > 1:
        listed = "; ".join(f"{probe} is {plan} on {device}, {workload}" for device, plan, workload, probe in rows)
        raise InputError(f"several stored servers could be the one that runs: {listed}", hint="name its row")
    return str(rows[0][-1])


def server_at(location: StoreLocation, probe: str, engine: str, said: Phase | None = None) -> StoredInstance:
    instance = read_instance(location, probe)
    phase = instance.scenario.phase
    if said is not None and phase != said:
        raise InputError(f"the page is of a {said} server, and {probe} is a {phase} row", hint=f"name the {said} row")
    if instance.engine not in {None, engine}:
        raise InputError(
            f"the page is of {shown_engine(engine)}, and {probe} of {shown_engine(str(instance.engine))}",
            hint=f"take a row that was evaluated with `serving_model={engine}`",
        )
    return instance


def server_plan(session: Session, instance: StoredInstance, load: float | None, arrivals: Arrivals) -> Planned:
    """The plan of a server; `load` is the one at which it is judged."""
    key = str(instance.values["scenario"])
    phase = instance.scenario.phase
    if phase != "aggregated" and arrivals == "users":
        raise InputError(
            f"users ask a whole deployment, and {instance.probe} is its {phase} side", hint="`arrivals=poisson`"
        )

    def asked(first: int, last: int, **more: object) -> Answer:
        return session.ask(question_of("curve", {**_EXCLUSIVE, "mode": phase, **more}), pinned=[(key, first, last, 0)])

    users, batches = _curve(asked(1, _MOST_BATCH), instance.probe)
    predicted, _ = _curve(asked(1, _MOST_BATCH, as_predicted=True), instance.probe)
    served = instance.concurrency if load is None or phase == "prefill" else load
    nearest = batches[int(np.argmin(np.abs(users.load - served)))]
    near = asked(nearest, nearest)
    lengths = Lengths(
        prompt=float(str(instance.values["input_length_mean"])),
        output=instance.workload.output_length,
        cached_share=instance.workload.kept_share(),
    )
    return Planned(
        instance=instance,
        arrivals=arrivals,
        users=users,
        corrected=users.times(1.0 / predicted.ttft_ms, 1.0 / predicted.tpot_ms),
        batches=batches,
        restored=restored_server(session.location, key, lengths),
        sd=_spreads(near),
        own_runs=near.own_runs is not None and near.own_runs.corrected > 0,
    )


def _curve(answer: Answer, probe: str) -> tuple[Curve, tuple[int, ...]]:
    if not answer.rows:
        raise InputError(f"no row of {probe} fits into memory", hint="take a row that an answer gives")
    of = {name: answer.columns.index(name) for name in ("batch_size", "concurrency", "ttft_ms", "tpot_ms")}
    columns = {name: np.array([row[place] for row in answer.rows], dtype=np.float64) for name, place in of.items()}
    order = np.argsort(columns["batch_size"])
    columns = {name: values[order] for name, values in columns.items()}
    columns = {name: np.nan_to_num(values, nan=1.0) for name, values in columns.items()}  # times of the other side
    curve = Curve(load=columns["concurrency"], ttft_ms=columns["ttft_ms"], tpot_ms=columns["tpot_ms"])
    return curve, tuple(int(size) for size in columns["batch_size"])


def _spreads(answer: Answer) -> dict[str, float]:
    """How far a time may be off a row, as a standard deviation of its logarithm.

    Own runs say it best, then errors on own servers, then those on servers that nobody tuned."""
    found: dict[str, float] = {}
    for metric, name in _TIMES.items():
        if answer.own_runs is not None and metric in answer.own_runs.percent:
            found[name] = deviation_of_median(answer.own_runs.percent[metric])
            continue
        errors = {one.servers: one for one in answer.expected_error if one.metric == metric}
        error = errors.get(OWN) or errors.get(OTHERS)
        if error is not None:
            parts = (error.common, error.rest)
            known = [one for one in parts if one is not None]
            found[name] = (
                math.hypot(*known) if len(known) == len(parts) else deviation_of_median(error.median_ape_percent)
            )
    return found
