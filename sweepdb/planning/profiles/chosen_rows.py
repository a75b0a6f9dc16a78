"""A profile's plan: the one named, else that of the most tokens."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from store.errors import InputError
from sweepdb.planning.labels import short_plan
from sweepdb.planning.profiles.planner import ProfileRow, evaluate_command

_MEASURES = {"prefill": "prompt tokens", "decode": "generated tokens", "aggregated": "generated tokens"}
_Key = tuple[str, str]  # device and plan


def rows_of_plan(rows: Sequence[ProfileRow], phase: str, named: str | None) -> tuple[list[ProfileRow], str]:
    usable = _usable(rows, phase)
    by_plan = _by_plan(usable)
    found = {key: mine for key, mine in by_plan.items() if named is None or _is_named(key[1], named)}
    if not found:
        known = ", ".join(sorted({plan for _, plan in by_plan}))
        option = "plan" if phase == "aggregated" else f"{phase}_plan"
        raise InputError(f"`{option}={named}` is not stored among {phase} rows", hint=f"stored: {known}")
    key = min(found, key=lambda one: _order(one, found[one]))
    _check_one_setting(found[key], phase)
    return found[key], _sentence(found[key], phase, named, len(found))


def _usable(rows: Sequence[ProfileRow], phase: str) -> list[ProfileRow]:
    if not rows:
        raise InputError(f"no {phase} row of this scope fits the memory", hint="sweepdb query coverage says why")
    fixed = [row for row in rows if row.input_length is not None]
    if not fixed:
        raise InputError(
            "the stored lengths are distributions, and planners read a profile of fixed lengths",
            hint=evaluate_command(rows[0], phase, input_length=1024),
        )
    whole = [row for row in fixed if row.prefix_cache_hit_rate == 0]
    if phase == "prefill" and not whole:
        raise InputError(
            "the stored prompts are found in the cache in part, and planners count computed prompts",
            hint=evaluate_command(fixed[0], phase, prefix_cache_hit_rate=0),
        )
    return whole or fixed


def _by_plan(rows: Iterable[ProfileRow]) -> Mapping[_Key, list[ProfileRow]]:
    found: dict[_Key, list[ProfileRow]] = defaultdict(list)
    for row in rows:
        found[row.device, row.plan].append(row)
    return found


def _is_named(plan: str, named: str) -> bool:
    return named.lower() in {plan.lower(), short_plan(plan).lower()}


def _order(key: _Key, rows: Sequence[ProfileRow]) -> tuple[object, ...]:
    """More lengths, then more tokens a device within limits."""
    best: dict[tuple[int | None, float], float] = {}
    for row in rows:
        if row.within_limits:
            lengths = row.input_length, row.output_length
            best[lengths] = max(best.get(lengths, 0.0), row.tokens_per_s_per_device)
    lengths_stored = len({(row.input_length, row.output_length) for row in rows})
    return -lengths_stored, -sum(best.values()), rows[0].num_devices, key


def _check_one_setting(rows: Sequence[ProfileRow], phase: str) -> None:
    """A profile is of one setting, such as one token budget."""
    scenarios: dict[tuple[int | None, float], set[str]] = defaultdict(set)
    for row in rows:
        scenarios[row.input_length, row.output_length].add(row.scenario)
    for (prompt, answer), several in scenarios.items():
        if len(several) > 1:
            raise InputError(
                f"{rows[0].where} is stored {len(several)} times for {prompt} and {answer:g} tokens, as {phase} rows",
                hint="name one setting: `max_num_batched_tokens`, `quantization`, `sweep` or another filter",
            )


def _sentence(rows: Sequence[ProfileRow], phase: str, named: str | None, plans: int) -> str:
    lengths = sorted({row.input_length for row in rows if row.input_length is not None})
    of = f"{lengths[0]:,}" if len(lengths) == 1 else f"{len(lengths)} lengths from {lengths[0]:,} to {lengths[-1]:,}"
    why = "as named" if named is not None else f"with the most {_MEASURES[phase]}/s a device of {plans} stored"
    chosen = "" if plans == 1 and named is None else f", {why}"
    return f"{phase}: {rows[0].where}, prompts of {of} tokens{chosen}"
