"""Times by prompt length, and by context and cache share, for interpolating planners."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from store.errors import InputError
from store.light_dataclass import dataclass
from store.texts import counted
from sweepdb.planning.profiles import planner

_USAGES = 10  # of a surface


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptCurve:
    """Unqueued, with what a device sustains."""

    lengths: tuple[int, ...]
    ttft_ms: tuple[float, ...]
    tokens_per_s_per_device: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSurface:
    """By context and cache share: a full rectangle."""

    kv_usage: tuple[float, ...]
    context_length: tuple[float, ...]
    itl_ms: tuple[tuple[float, ...], ...]  # by context, then by share
    tokens_per_s_per_device: tuple[tuple[float, ...], ...]
    room: planner.MaxKvTokens


def prompt_curve(rows: Sequence[planner.ProfileRow], *, least: int) -> PromptCurve:
    alone = [row for row in rows if row.batch_size == 1]
    if not alone:
        raise InputError(
            f"no prompt by itself is stored of {rows[0].where}",
            hint=f"store batches from 1: {planner.evaluate_command(rows[0], 'prefill', batch_range=8)}",
        )
    by_length: dict[int, planner.ProfileRow] = {}
    for row in sorted(alone, key=lambda one: one.output_length):
        by_length.setdefault(row.input_length or 0, row)
    kept = [by_length[length] for length in sorted(by_length)]
    _check_lengths(kept, "prefill", "prompt", [row.input_length or 0 for row in kept], least)
    return PromptCurve(
        lengths=tuple(row.input_length or 0 for row in kept),
        ttft_ms=tuple(planner.number_kept(row.ttft_ms, "ttft_ms") for row in kept),
        tokens_per_s_per_device=tuple(row.tokens_per_s_per_device for row in kept),
    )


def contexts_of(rows: Sequence[planner.ProfileRow], *, least: int) -> list[list[planner.ProfileRow]]:
    """By batch, contexts ascending; of equal contexts the shorter answer."""
    found: dict[float, dict[float, list[planner.ProfileRow]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        found[row.context_length][row.output_length].append(row)
    kept = [sorted(found[one][min(found[one])], key=lambda row: row.concurrency) for one in sorted(found)]
    _check_lengths([one[0] for one in kept], "decode", "context", [one[0].context_length for one in kept], least)
    for one in kept:
        if len(one) < 2:
            raise InputError(
                f"only batch size {one[0].batch_size} of {one[0].where} is stored at a context of"
                f" {one[0].context_length:g} tokens: nothing is known between an empty and a full cache",
                hint=f"store every batch: {planner.evaluate_command(one[0], 'decode')}",
            )
    return kept


def usage_axis(contexts: Sequence[Sequence[planner.ProfileRow]], tokens: int) -> tuple[float, ...]:
    """Shares that every context brackets, evenly spaced."""
    first = max(usage(one[0], tokens) for one in contexts)
    last = min(1.0, *(usage(one[-1], tokens) for one in contexts))
    if last <= first:
        short = min(contexts, key=lambda one: usage(one[-1], tokens))[-1]
        raise InputError(
            f"batches of {short.where} at a context of {short.context_length:g} tokens end at"
            f" {usage(short, tokens):.2g} of the cache, where the longest context begins",
            hint=f"store larger batches: {planner.evaluate_command(short, 'decode')}",
        )
    step = (last - first) / (_USAGES - 1)
    return (*(first + step * number for number in range(_USAGES - 1)), last)


def usage(row: planner.ProfileRow, tokens: int) -> float:
    """With half of each answer generated."""
    return row.concurrency * row.context_length / tokens


def step_surface(rows: Sequence[planner.ProfileRow]) -> StepSurface:
    """On a line between the batches beside each share."""
    contexts, room = contexts_of(rows, least=2), planner.max_kv_tokens(rows)
    axis = usage_axis(contexts, room.tokens)
    times = [[_between(one, room.tokens, share) for share in axis] for one in contexts]
    devices = rows[0].num_devices
    return StepSurface(
        kv_usage=axis,
        context_length=tuple(one[0].context_length for one in contexts),
        itl_ms=tuple(map(tuple, times)),
        tokens_per_s_per_device=tuple(
            tuple(
                1e3 * share * room.tokens / one[0].context_length / time / devices
                for share, time in zip(axis, row, strict=True)
            )
            for one, row in zip(contexts, times, strict=True)
        ),
        room=room,
    )


def stored_points(rows: Sequence[planner.ProfileRow]) -> tuple[list[planner.ProfileRow], planner.MaxKvTokens]:
    contexts, room = contexts_of(rows, least=2), planner.max_kv_tokens(rows)
    kept: list[planner.ProfileRow] = []
    for one in contexts:
        fitting = [row for row in one if usage(row, room.tokens) <= 1]
        most = len(fitting) - 1
        places = dict.fromkeys(round(most * number / (_USAGES - 1)) for number in range(_USAGES))
        kept += [fitting[place] for place in places]
    return kept, room


def room_notes(room: planner.MaxKvTokens) -> tuple[str, ...]:
    counted = (
        f"max_kv_tokens is {room.tokens:,}, beside the memory that stays free (`reserved_memory_gb`): an engine prints"
        " its own number when it starts."
    )
    uneven = (
        "Of contexts shorter than the longest the caches hold fewer tokens, because this model keeps windows or states."
    )
    return (counted,) if room.same else (counted, uneven)


def _between(rows: Sequence[planner.ProfileRow], tokens: int, share: float) -> float:
    """On a line between the neighbours of a share."""
    wanted = share * tokens / rows[0].context_length
    after = next((place for place, row in enumerate(rows) if row.concurrency >= wanted), len(rows) - 1)
    high = rows[max(after, 1)]
    low = rows[max(after, 1) - 1]
    low_ms, high_ms = planner.number_kept(low.itl_ms, "itl_ms"), planner.number_kept(high.itl_ms, "itl_ms")
    return low_ms + (high_ms - low_ms) * (wanted - low.concurrency) / (high.concurrency - low.concurrency)


def _check_lengths(
    rows: Sequence[planner.ProfileRow], phase: str, name: str, stored: Sequence[float], least: int
) -> None:
    if len(stored) >= least:
        return
    other = 2 * max(row.input_length or 0 for row in rows)
    raise InputError(
        f"{rows[0].where} is stored for {counted(len(stored), f'{name} length')}, and this planner"
        f" interpolates between {least} at least",
        hint=f"store another: {planner.evaluate_command(rows[0], phase, input_length=other)}",
    )
