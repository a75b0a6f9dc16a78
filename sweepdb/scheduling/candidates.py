"""Stored deployments that could carry a day, with the replicas they need."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from queries.asking import question_of
from queries.connect import connect
from store.errors import InputError
from store.location import parse_url
from sweepdb.planning.ranking import Row, number_of
from sweepdb.scheduling.day_schedule import Candidate
from sweepdb.sessions import open_session

if TYPE_CHECKING:
    from evaluator.arithmetic import FloatArray, Integers
    from evaluator.arrivals import Scaled, Scaling

_MOST = 10_000
# Days whose rate is so much higher: instances of a side are counted in whole numbers, which then say its goodput.
_MANY = 1_000
_SIZES = """
    SELECT DISTINCT scenario, num_devices FROM scenario
    WHERE list_contains($keys::VARCHAR[], scenario) ORDER BY scenario
"""


def candidates_of(
    scope: Mapping[str, object], rates: FloatArray, scaling: Scaling, store: str | None, *, apart: bool = True
) -> list[Candidate]:
    """Within limits, the cheapest first.

    `apart` adds pairs of one device."""
    rows = _rows(scope, _MANY * float(rates.max()), store)
    found = [one for row in rows for one in _candidate(row, rates, scaling) if apart or one.decode is None]
    if not found:
        raise InputError(
            "no stored instance keeps the limits at any rate",
            hint="longer limits, or store loads: sweepdb evaluate ... `arrivals=poisson`",
        )
    most = scaling.maximum
    carrying = [one for one in found if most is None or _busiest(one) <= most]
    if not carrying:
        raise InputError(
            f"`maximum={most}` replicas are too few: the busiest hour needs {min(map(_busiest, found))}",
            hint="raise `maximum`",
        )
    return sorted(carrying, key=by_cost(carrying))


def _rows(scope: Mapping[str, object], rate: float, store: str | None) -> Sequence[Row]:
    with open_session(store) as session:
        rows = session.ask(question_of("capacity", {**scope, "rate": rate, "top": _MOST})).dicts()
    rows = [row for row in rows if row["prefill_device"] in {None, row["device"]}]
    if len({row["question_group"] for row in rows}) > 1:
        raise InputError("the store holds several models or workloads", hint="name one: `sweep`, `model` or `device`")
    apart = [str(row[f"{side}_scenario"]) for row in rows if row["mode"] == "pd" for side in ("prefill", "decode")]
    if not apart:
        return rows
    with connect(parse_url(store).url) as connection:
        sizes = dict(connection.execute(_SIZES, {"keys": sorted(set(apart))}).fetchall())
    return [
        {**row, **{f"{side}_devices": sizes.get(str(row[f"{side}_scenario"])) for side in ("prefill", "decode")}}
        for row in rows
    ]


def _busiest(one: Candidate) -> int:
    return max(int(side.scaled["static"].ready.max()) for side in one.sides)


def by_cost(candidates: Sequence[Candidate]) -> Callable[[Candidate], tuple[float, float, str]]:
    """By price where all have one, else device-hours."""
    by_money = all(one.usd_per_device_hour is not None for one in candidates)

    def key(one: Candidate) -> tuple[float, float, str]:
        hours = one.device_hours("scheduled")
        return (number_of(one.usd("scheduled")) if by_money else hours, hours, one.place)

    return key


def _candidate(row: Row, rates: FloatArray, scaling: Scaling) -> Iterator[Candidate]:
    from evaluator.arrivals import peaks

    bought, price = number_of(row["devices_with_margin"], number_of(row["devices"])), row["usd_per_hour"]

    def side(before: str, num_devices: object, goodput: float, decode: Candidate | None = None) -> Candidate:
        return Candidate(
            device=str(row["device"]),
            plan=str(row[f"{before}plan"]),
            scenario=str(row[f"{before}scenario"]),
            num_devices=int(number_of(num_devices)),
            goodput=goodput,
            usd_per_device_hour=None if price is None else number_of(price) / bought,
            scaled=scaled_by(rates, goodput, scaling, scaling.needed(peaks(rates), goodput)),
            decode=decode,
        )

    if row["mode"] == "aggregated":
        yield side("", row["num_devices"], number_of(row["goodput_per_instance"]))
        return
    # 70 a second take 3 instances, 70,000 take 2,396: one carries 29.2.
    of_one = {name: number_of(row["rate"]) / number_of(row[f"{name}_instances"]) for name in ("prefill", "decode")}
    decode = side("decode_", row["decode_devices"], of_one["decode"])
    yield side("prefill_", row["prefill_devices"], of_one["prefill"], decode)


def scaled_by(rates: FloatArray, goodput: float, scaling: Scaling, needed: Integers) -> dict[str, Scaled]:
    from evaluator.arrivals import reactive, scheduled, static

    return {
        "static": static(needed, scaling, rates.size),
        "scheduled": scheduled(needed, scaling, rates.size),
        "reactive": reactive(rates, goodput, scaling),
    }
