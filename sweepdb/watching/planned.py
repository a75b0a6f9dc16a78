"""The plan of a running server: its stored rows over load, as own runs correct them, at the lengths that it sees.

Not here: what the server did (sweepdb.watching.windows), and the comparison (sweepdb.watching.judging)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from queries.asking import Answer, question_of
from queries.connect import connect
from queries.errors import OTHERS, OWN
from queries.learning import deviation_of_median
from queries.session import Session
from store.errors import InputError
from store.location import StoreLocation
from sweepdb.launching.expectations import launched_roles
from sweepdb.launching.stored_instance import StoredInstance, read_instance
from sweepdb.watching.curves import TIMES, Arrivals, Curve, Lengths, Restored, restored_server
from sweepdb.watching.engines import shown_engine

_MOST_BATCH = 2**31 - 2
_MOST_LISTED = 6
_CURVE = {"mode": "aggregated", "tpot_definition": "exclusive"}
_SERVERS = """
    SELECT device, plan, workload, left(scenario, 8) || ':' || max(batch_size) AS probe
    FROM probe
    WHERE phase = 'aggregated' AND contains(lower(model), lower($model))
        AND split_part(serving_model, '@', 1) = $engine
        AND ($device IS NULL OR contains(lower(device), lower($device)))
    GROUP BY device, plan, workload, scenario
    ORDER BY device, plan, workload, scenario
    LIMIT $most
"""
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
        """Mean lengths that it was planned for."""
        return self.restored.lengths

    @property
    def cache_share(self) -> float:
        """Mean cache that a request takes over that of its full length."""
        full, mean = (float(str(self.instance.values[f"kv_cache{kind}_bytes"])) for kind in ("", "_mean"))
        return mean / full if full else 1.0

    def curve_at(self, lengths: Lengths) -> Curve:
        """Its times by load, for requests of these lengths."""
        if self.arrivals == "users":
            return self.users if lengths == self.lengths else self.restored.longer(self.users, self.batches, lengths)
        try:
            curve = self.restored.arriving(lengths)
        except InputError as error:
            raise InputError(error.message, hint="`arrivals=users` compares with users who wait") from None
        return curve.times(*(self.corrected.at(metric, curve.in_flight) for metric in TIMES))


def watched_server(named: str | None, location: StoreLocation, *, engine: str, model: str, device: str | None) -> str:
    """The probe of a server: as it is named, of a folder that `launch` wrote, or the only one of a model and engine."""
    if named is None:
        return _only_server(location, engine=engine, model=model, device=device)
    if not Path(named).is_dir():
        return named
    roles = launched_roles(Path(named))
    if len(roles) > 1:
        raise InputError(f"{named} starts prefill and decode apart", hint="watch takes a server that does both")
    return roles[0].probe


def _only_server(location: StoreLocation, *, engine: str, model: str, device: str | None) -> str:
    with connect(location.url) as connection:
        asked = {"model": model, "engine": engine, "device": device, "most": _MOST_LISTED}
        rows = connection.execute(_SERVERS, asked).fetchall()
    if not rows:
        raise InputError(
            f"no stored server of {model} under {engine}", hint="name its row: sweepdb watch a1b2c3d4:19 `metrics=...`"
        )
    if len(rows) > 1:
        listed = "; ".join(f"{probe} is {plan} on {device}, {workload}" for device, plan, workload, probe in rows)
        raise InputError(f"several stored servers could be the one that runs: {listed}", hint="name its row")
    return str(rows[0][-1])


def server_at(location: StoreLocation, probe: str, engine: str) -> StoredInstance:
    """The stored row that a server of an engine was started as."""
    instance = read_instance(location, probe)
    if instance.scenario.phase != "aggregated":
        raise InputError(
            f"{probe} is a {instance.scenario.phase} row", hint="watch takes a row of mode aggregated, of one server"
        )
    if instance.engine not in {None, engine}:
        raise InputError(
            f"the page is of {shown_engine(engine)}, and {probe} of {shown_engine(str(instance.engine))}",
            hint=f"take a row that was evaluated with `serving_model={engine}`",
        )
    return instance


def server_plan(session: Session, instance: StoredInstance, load: float | None, arrivals: Arrivals) -> Planned:
    """The plan of a server; `load` is the one at which it is judged."""
    key = str(instance.values["scenario"])
    users, batches = _curve(_asked(session, key, 1, _MOST_BATCH), instance.probe)
    predicted, _ = _curve(_asked(session, key, 1, _MOST_BATCH, as_predicted=True), instance.probe)
    nearest = batches[int(np.argmin(np.abs(users.in_flight - (instance.concurrency if load is None else load))))]
    near = _asked(session, key, nearest, nearest)
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


def _asked(session: Session, key: str, first: int, last: int, **more: object) -> Answer:
    return session.ask(question_of("curve", {**_CURVE, **more}), pinned=[(key, first, last, 0)])


def _curve(answer: Answer, probe: str) -> tuple[Curve, tuple[int, ...]]:
    if not answer.rows:
        raise InputError(f"no row of {probe} fits into memory", hint="take a row that an answer gives")
    of = {name: answer.columns.index(name) for name in ("batch_size", "concurrency", "ttft_ms", "tpot_ms")}
    columns = {name: np.array([row[place] for row in answer.rows], dtype=np.float64) for name, place in of.items()}
    order = np.argsort(columns["batch_size"])
    columns = {name: values[order] for name, values in columns.items()}
    curve = Curve(in_flight=columns["concurrency"], ttft_ms=columns["ttft_ms"], tpot_ms=columns["tpot_ms"])
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
