"""Requests in flight within limits, for planners that scale by a threshold."""

from __future__ import annotations

import math

from store.errors import InputError
from store.light_dataclass import dataclass
from sweepdb.planning.profiles.planner import ProfileRow, ProfileSource, evaluate_command, max_kv_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldLoad:
    """Average target, the most at once, and the target's share of the cache."""

    target: float
    most: int
    kv_usage: float
    unsaid: tuple[str, ...]


def held_load(source: ProfileSource) -> HeldLoad:
    """The stored lengths that hold fewest."""
    most, lengths = _fewest(source)
    room = max_kv_tokens(source.of_instances)
    target = most.concurrency if source.in_flight is None else min(source.in_flight, most.concurrency)
    return HeldLoad(
        target=target,
        most=most.concurrency,
        kv_usage=min(1.0, target * most.context_length / room.tokens),
        unsaid=tuple(_unsaid(source, most, lengths)),
    )


def threshold(number: float) -> float:
    """Three figures, rounded down: too low costs a replica, too high a limit."""
    if number <= 0:
        return number
    scale = math.pow(10, 2 - math.floor(math.log10(number)))
    return math.floor(number * scale + 1e-9) / scale


def _fewest(source: ProfileSource) -> tuple[ProfileRow, int]:
    by_lengths: dict[tuple[int | None, float], list[ProfileRow]] = {}
    for row in source.of_instances:
        by_lengths.setdefault((row.input_length, row.output_length), []).append(row)
    kept: list[ProfileRow] = []
    for rows in by_lengths.values():
        within = [row for row in rows if row.within_limits]
        if not within:
            lengths = f"{rows[0].input_length}/{rows[0].output_length:g}"
            raise InputError(
                f"{rows[0].where} keeps the limits at no batch of {lengths} tokens",
                hint="longer limits, another `plan`, or `input_length` for the lengths that you serve",
            )
        kept.append(max(within, key=lambda row: row.concurrency))
    return min(kept, key=lambda row: row.concurrency), len(by_lengths)


def _unsaid(source: ProfileSource, row: ProfileRow, lengths: int) -> list[str]:
    said = []
    if lengths > 1:
        said.append(
            f"One threshold holds for {lengths} pairs of lengths: that of {row.input_length}/{row.output_length:g},"
            " which holds fewest requests. `input_length` names those that you serve."
        )
    if source.in_flight is None:
        command = evaluate_command(row, "aggregated", arrivals="poisson")
        said.append(
            "The threshold is of users who wait for their answers. Requests that arrive in bursts need a lower one,"
            f" which simulation finds: {command}"
        )
    else:
        said.append(
            f"The target is what was in flight where {100 * source.attainment:g} % of the requests that arrive kept the"
            " limits."
        )
    return said
