"""A planner's files from a store: the questions, the plan that is chosen, and the folder that is written.

Answers are conditioned by own runs as every answer is."""

from __future__ import annotations

import functools
import os
import pkgutil
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any

from queries.asking import ATTAINMENT, Answer, limit_table, question_of
from queries.session import Session
from store.errors import InputError
from store.light_dataclass import dataclass
from store.schema import short_plan
from store.whole_files import write_folder
from sweepdb.length_scope import with_lengths
from sweepdb.planning.profiles.planner import (
    ALSO_ASKED,
    Planner,
    ProfileRow,
    ProfileSource,
    evaluate_command,
    profile_options,
    served_name,
)
from sweepdb.planning.ranking import number_of
from sweepdb.sessions import open_session

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


_REPORT, _REPORT_OF_LOADS = "profile", "attainment"
_COLUMNS = tuple(item.name for item in fields(ProfileRow))
_PLANS = {"aggregated": "plan", "prefill": "prefill_plan", "decode": "decode_plan"}
_LIMITED = "`ttft_limit=2000` and `tpot_limit=50`"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedProfile:
    """Files that a planner reads, where they lie, which rows they are of, and what they leave to the user."""

    planner: str
    folder: Path
    files: tuple[str, ...]
    made_from: tuple[str, ...]
    unsaid: tuple[str, ...]


def planner_names() -> tuple[str, ...]:
    return tuple(sorted(_planners()))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """Options of a profile beside filters and limits, as it is where nothing is said."""

    plan: str | None = None
    prefill_plan: str | None = None
    decode_plan: str | None = None
    deployment: str | None = None
    namespace: str = "default"
    min_replicas: int = 1
    max_replicas: int = 10
    attainment: float = ATTAINMENT


_OWN = frozenset(item.name for item in fields(_Asked))


def export_profile(
    planner: str,
    output: str | os.PathLike[str] = "profile",
    *,
    force: bool = False,
    store: str | None = None,
    **options: object,
) -> ExportedProfile:
    """Write the files that a planner of a running cluster reads, from stored rows of one plan. Evaluates nothing.

    `options` are filters and limits of a question, and those of the command. A plan that is not named is the one with
    the most tokens of a device within the limits."""
    reader, given = _planner(planner), {name: value for name, value in options.items() if value is not None}
    own: dict[str, Any] = {name: value for name, value in given.items() if name in _OWN}
    asked, filters = _Asked(**own), with_lengths({name: given[name] for name in given if name not in own}, store)
    _check(reader, given, asked)
    with open_session(store) as session:
        chosen = {phase: _rows(session, filters, phase, getattr(asked, _PLANS[phase])) for phase in reader.phases}
        rows = {phase: mine for phase, (mine, _) in chosen.items()}
        first = next(iter(rows.values()))[0]
        in_flight = _in_flight(session, filters, first, asked.attainment) if reader.loads else None
    profile = reader.make(_source(asked, filters, rows, in_flight))
    write_folder(Path(output), profile.files, force=force)
    return ExportedProfile(
        planner=reader.title,
        folder=Path(output),
        files=tuple(sorted(profile.files)),
        made_from=tuple(sentence for _, sentence in chosen.values()),
        unsaid=profile.unsaid,
    )


def _source(
    asked: _Asked, filters: Mapping[str, object], rows: Mapping[str, Sequence[ProfileRow]], in_flight: float | None
) -> ProfileSource:
    return ProfileSource(
        rows=rows,
        limits_ms=_limits_ms(filters),
        deployment=asked.deployment or served_name(next(iter(rows.values()))[0].model),
        namespace=asked.namespace,
        min_replicas=asked.min_replicas,
        max_replicas=asked.max_replicas,
        in_flight=in_flight,
        attainment=asked.attainment,
        created_s=time.time(),
    )


def _planner(name: str) -> Planner:
    if name not in _planners():
        raise InputError(
            f"`for={name}` is no planner that a profile is written for", hint=f"one of {', '.join(planner_names())}"
        )
    return _planners()[name]


@functools.cache
def _planners() -> Mapping[str, Planner]:
    package = __name__.rpartition(".")[0]
    modules = (import_module(f"{package}.{item.name}") for item in pkgutil.iter_modules([str(Path(__file__).parent)]))
    return {name: planner for module in modules for name, planner in getattr(module, "PLANNERS", {}).items()}


def _check(reader: Planner, given: Mapping[str, object], asked: _Asked) -> None:
    takes = {*profile_options(), *reader.takes, *(_PLANS[phase] for phase in reader.phases)}
    for name in given:
        if name not in takes:
            own = ", ".join(f"`{one}`" for one in sorted(takes - profile_options().keys()))
            raise InputError(
                f"{reader.title} makes no use of `{name}`", hint=f"it takes {own}, filters and limits of a question"
            )
    if reader.limits and not _limits_ms(given):
        raise InputError(
            f"{reader.title} gets what a replica carries within limits, and none is given", hint=f"add {_LIMITED}"
        )
    least, most = asked.min_replicas, asked.max_replicas
    if not 0 <= least <= most or most < 1:
        raise InputError(
            f"`min_replicas={least}` and `max_replicas={most}` leave no number of replicas between them",
            hint="0 or more at least, and 1 or more at most",
        )
    if not 0 < asked.attainment < 1:
        raise InputError(
            f"`attainment={asked.attainment:g}` is no share of requests", hint="between 0 and 1, such as 0.95"
        )


def _limits_ms(given: Mapping[str, object]) -> dict[str, float]:
    return {
        one.name: number_of(given[one.keyword])
        for one in limit_table()
        if one.option.unit == "ms" and given.get(one.keyword) is not None
    }


def _of(asked: Mapping[str, object], phase: str, *, arriving: bool = False) -> dict[str, object]:
    without = {one.keyword for one in limit_table() if phase not in one.phases or (arriving and not one.arriving)}
    return {name: value for name, value in asked.items() if name not in without} | {"mode": phase}


def _rows(
    session: Session, asked: Mapping[str, object], phase: str, named: str | None
) -> tuple[Sequence[ProfileRow], str]:
    answer = session.ask(question_of(_REPORT, _of(asked, phase)))
    rows = list(_read(answer))
    subjects = dict.fromkeys(row["question_group"] for row in answer.dicts())
    if len(subjects) > 1:
        raise InputError(
            f"the rows are of {len(subjects)} models, formats or engines, and a profile is of one",
            hint="name it: `model`, `quantization`, `serving_model` or `sweep`",
        )
    return rows_of_plan(rows, phase, named)


def _read(answer: Answer) -> Iterable[ProfileRow]:
    places = [answer.columns.index(name) for name in _COLUMNS]
    for row in answer.rows:
        values: dict[str, Any] = {name: row[place] for name, place in zip(_COLUMNS, places, strict=True)}
        yield ProfileRow(**values)


def _in_flight(session: Session, asked: Mapping[str, object], first: ProfileRow, attainment: float) -> float | None:
    """The mean in flight at the highest simulated rate that keeps the limits; None where no arrivals are stored."""
    arriving = {
        name: value for name, value in _of(asked, "aggregated", arriving=True).items() if name not in ALSO_ASKED
    }
    if not _limits_ms(arriving):
        return None
    try:
        answer = session.ask(question_of(_REPORT_OF_LOADS, arriving))
    except InputError:  # no row of this scope was simulated
        return None
    ladders: dict[object, float] = {}
    for row in answer.dicts():
        if (row["device"], row["plan"]) == (first.device, first.plan):
            ladder = row["question_group"], row["settings_key"]
            kept = number_of(row["attained"]) >= attainment
            ladders[ladder] = max(ladders.get(ladder, 0.0), number_of(row["in_flight"]) if kept else 0.0)
    if ladders and not min(ladders.values()):
        raise InputError(
            f"{first.where} keeps the limits for {100 * attainment:g} % of the requests at no rate that was simulated",
            hint="longer limits, a lower `attainment`, or lower rates: sweepdb evaluate ... `arrivals=poisson`"
            " `rates=0.1`",
        )
    return min(ladders.values(), default=None)
