"""Phases and scope that a report needs, and values of its SQL parameters."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from queries.asking.declaring import declared, objective_today
from queries.asking.library import asked_instead, is_timed, report, takes
from queries.asking.limits import limit_named, predicted_limits, row_limits
from queries.asking.question import Question
from store.errors import InputError

_PAIR = ("prefill", "decode")
OBJECTIVES = {
    "throughput": "output_tokens_per_s",
    "requests-per-s": "qps",
    "throughput-per-device": "output_tokens_per_s_per_device",
    "ttft": "ttft",
    "tpot": "tpot",
    "e2e": "e2e",
    "batch-size": "batch_size",
    "concurrency": "concurrency",
    "tokens-per-s-per-user": "tokens_per_s_per_user",
}
_OBJECTIVE_PHASES = {one.name.replace("_", "-"): one.phases for one in predicted_limits()}
PAIR_OBJECTIVES = (
    "balanced-requests-per-s",
    "system-requests-per-s",
    "requests-per-s-per-device",
    "requests-per-s-per-device-bound",
)
_NO_PAIRS = (
    "disaggregated deployments are left out: each pool is simulated by itself, so no end-to-end time of a request is"
    " known; TTFT and TPOT bound it, too"
)
_FEW_TAKERS = 8  # reports that a hint names


def answered_instead(question: Question) -> Question:
    """For simulated loads or whole deployments, where an option asks for them."""
    name = asked_instead(question.report, question.given)
    if question.options.by is None and name == question.report:
        return question
    return replace(question, report=name, options=replace(question.options, by=None))


def phases_of(question: Question, stored: Collection[str], *, served: bool = False) -> tuple[str, ...]:
    """Must be stored, with a metric for each limit.

    `served`: an engine is among the serving models, whose pairs have an end-to-end time."""
    asked = report(question.report)
    if not asked.modes and not asked.needs:
        return tuple(sorted(stored))
    if asked.modes:
        phases = _PAIR if question.options.mode == "pd" else (mode_of(question, stored),)
        needs: Sequence[tuple[str, ...]] = (phases,)
    else:
        needs = needs_of(question)
    met = [phases for phases in needs if set(phases) <= set(stored)]
    if not met:
        missing = next(phase for phase in needs[0] if phase not in stored)
        raise InputError(
            f"report {question.report} needs {' and '.join(needs[0])} rows;"
            f" stored in this scope: {', '.join(sorted(stored)) or 'none'}",
            hint=f"add them with: sweepdb evaluate ... `mode={missing}`",
        )
    looked_at = tuple(dict.fromkeys(phase for phases in met for phase in phases))
    _check_limits(question, looked_at, served=served)
    return looked_at


def needs_of(question: Question) -> Sequence[tuple[str, ...]]:
    """Sets of phases; no pairs under a limit that none is known to keep."""
    asked = report(question.report)
    alone = [phases for phases in asked.needs if not set(_PAIR) <= set(phases)]
    return alone if asked.of_loads and alone and any(one.apart for one, _ in question.limits.given) else asked.needs


def pairs_left_out(question: Question) -> tuple[str, ...]:
    """A note, where pairs are left out."""
    left_out = needs_of(question) != report(question.report).needs
    return (_NO_PAIRS,) if left_out else ()


def phases_wanted(question: Question, stored: Collection[str]) -> frozenset[str]:
    """Every set that is stored whole, or all that are stored."""
    if report(question.report).modes:
        return frozenset(_PAIR if question.options.mode == "pd" else (mode_of(question, stored),))
    met = [phases for phases in needs_of(question) if set(phases) <= set(stored)]
    return frozenset(phase for phases in met for phase in phases) or frozenset(stored)


def mode_of(question: Question, stored: Collection[str]) -> str:
    if question.options.mode is not None:
        return question.options.mode
    return next((phase for phase in ("aggregated", "decode", "prefill") if phase in stored), "aggregated")


def _check_limits(question: Question, phases: tuple[str, ...], *, served: bool) -> None:
    timed = served and set(_PAIR) <= set(phases) and is_timed(question.report)
    for one, _ in question.limits.given:
        if one.apart and timed:
            continue
        if not set(one.phases) & set(phases):
            raise InputError(
                f"{' and '.join(phases)} rows have no such metric: drop `{one.keyword}`",
                hint=f"it limits {' and '.join(one.phases)} rows",
            )
        if one.apart and "decode" in phases:
            raise InputError(
                f"`{one.keyword}` holds for aggregated rows only; this report pairs separate phases too",
                hint="limit `ttft_limit` and `tpot_limit` instead",
            )


def instance_budget(question: Question) -> int | None:
    allocates = report(question.report).allocates is not None or question.options.mode == "pd"
    return None if allocates else question.pairs.num_devices


def check_question(question: Question) -> None:
    asked = answered_instead(question)
    check_options(asked)
    check_used(asked)


def check_options(question: Question) -> None:
    asked, given = report(question.report), given_options(question)
    scaled = [report(one.report) for one in asked.others if "scale" in one.when and question.options.scale]
    for told in (told for form in (asked, *scaled) for told in form.refuses):
        if told.message and set(told.options) & given:
            raise InputError(told.message, hint=told.hint)
    for told in asked.requires:
        if any(_lacks(question, option) for option in told.options):
            raise InputError(told.message, hint=told.hint)
    for name in question.options.vary:
        if asked.of_loads and not limit_named(name).arriving:
            arriving = " or ".join(f"`vary={one.name}`" for one in row_limits() if one.arriving)
            raise InputError(f"requests that arrive have no `vary={name}`", hint=arriving)
    mode = question.options.mode
    if asked.modes and mode is not None and mode not in asked.modes:
        raise InputError(
            f"report {question.report} does not look at {mode} rows", hint=f"`mode={asked.modes[0]}`"
            + "".join(f", {name}" for name in asked.modes[1:-1]) + f" or {asked.modes[-1]}",
        )  # fmt: skip


def _lacks(question: Question, option: str) -> bool:
    if option in {"probes", "sweeps"}:
        return len(getattr(question.options, option)) != 2
    return option not in question.given or (option == "mix" and len(question.options.mix) < 2)


def given_options(question: Question) -> frozenset[str]:
    return question.given


def check_used(question: Question) -> None:
    asked = report(question.report)
    unused = [
        item.keyword
        for part in (question.limits, question.pairs, question.options)
        for item in declared(type(part))
        if getattr(part, item.field) != item.default and item.keyword not in asked.ignores and not takes(asked, item)
    ]
    if unused:
        listed = ", ".join(f"`{keyword}`" for keyword in unused)
        hints = {option: one.hint for one in asked.refuses for option in one.options}
        raise InputError(
            f"report {question.report} makes no use of {listed}",
            hint=hints.get(unused[0]) or _left_out(unused),
        )


def _left_out(unused: Sequence[str]) -> str:
    """A hint on unused options; a single one that few reports take names those."""
    if len(unused) > 1:
        return "leave them out"
    from queries.asking.report_keywords import takers_of

    takers = takers_of(unused[0])
    return f"leave it out, or ask {' or '.join(takers)}" if 0 < len(takers) <= _FEW_TAKERS else "leave it out"


def objective_of(question: Question, phases: Collection[str], *, served: bool = False) -> str:
    asked = _asked_objective(question)
    if report(question.report).allocates == "pairs" or question.options.mode == "pd":
        return _pair_objective(question, served=served)
    if asked is None:
        return OBJECTIVES["throughput"]
    if asked not in OBJECTIVES:
        raise InputError(f"`rank_by={asked}` is not one of {', '.join(OBJECTIVES)}")
    if not set(_OBJECTIVE_PHASES.get(asked, phases)) & set(phases):
        raise InputError(f"`rank_by={asked}`: {' and '.join(phases)} rows have no such metric")
    return OBJECTIVES[asked]


def _asked_objective(question: Question) -> str | None:
    """Also as its column is spelled, or by its old word."""
    asked = question.options.rank_by
    return None if asked is None else objective_today(asked)


def _pair_objective(question: Question, *, served: bool) -> str:
    """Engines' pairs also have counts without a budget: those with the most requests/s per device."""
    asked, pairs = _asked_objective(question), question.pairs
    if asked is not None and asked not in PAIR_OBJECTIVES:
        raise InputError(f"`rank_by={asked}` is not one of {', '.join(PAIR_OBJECTIVES)}")
    if pairs.num_devices is None and (
        asked == "system-requests-per-s" or (asked == "requests-per-s-per-device" and not served)
    ):
        raise InputError(f"`rank_by={asked}` needs `num_devices`")
    without_budget = "requests-per-s-per-device" if served else "balanced-requests-per-s"
    chosen = asked or (without_budget if pairs.num_devices is None else "system-requests-per-s")
    if pairs.all_pairs and not served and not _never_falls(question, chosen):
        raise InputError(
            f"`all_pairs` cannot be ranked by {chosen} here: it may fall when a side improves",
            hint="rank by balanced-requests-per-s or requests-per-s-per-device-bound, or allocate within a budget",
        )
    return chosen.replace("-", "_")


def _never_falls(question: Question, objective: str) -> bool:
    """More never hurts: it does not fall when a pool serves more requests/s on the same devices."""
    if objective == "system-requests-per-s":
        return question.definitions.allocation == "budget"
    return objective in {"balanced-requests-per-s", "requests-per-s-per-device-bound"}


def parameters_of(question: Question, phases: Collection[str], *, served: bool = False) -> dict[str, object]:
    """Every variable that a report may name."""
    pairs, options = question.pairs, question.options
    objective = objective_of(question, phases, served=served)
    return {
        **_declared_values(question),
        "objective": objective,
        "objective_asked": options.rank_by is not None,
        "pruned": _never_falls(question, objective.replace("_", "-")),
        "kv_transfer_bytes_per_s": None if pairs.kv_transfer_gb_per_s is None else pairs.kv_transfer_gb_per_s * 1e9,
        "budgets": [int(text) for text in pairs.budgets] or None,
        "wanted_phase": next(iter(phases), None),
        "split": options.mode == "pd",
        "vary": options.vary[0] if options.vary else None,
        "vary_second": options.vary[1] if len(options.vary) > 1 else None,
        "mix_workloads": [key for key, _ in options.mix],
        "mix_weights": [weight for _, weight in options.mix],
        "served": served,
    }


def _declared_values(question: Question) -> dict[str, object]:
    parts = (question.limits, question.definitions, question.pairs, question.options)
    return {
        item.option.variable: getattr(part, item.field)
        for part in parts
        for item in declared(type(part))
        if item.option.variable is not None
    }
