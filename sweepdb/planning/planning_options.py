"""The options of `plan`: those of `evaluate` that say what is served, limits of questions, a few of its own.

Those of a report are here, too: the command line reads both before anything is asked.

Not here: how they are declared (sweepdb.evaluating.sweep_options, queries.asking.options)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

from queries.asking import (
    MOST_RATE,
    PARTS,
    Declared,
    above_zero,
    check_declared,
    declared,
    keywords_of,
    limit_table,
    one_of,
    option,
    option_table,
    question_report,
)
from store.errors import InputError
from sweepdb.evaluating.option_values import nearest, options_by_keyword, options_of, read_value
from sweepdb.evaluating.sweep_options import SweepOptions
from sweepdb.planning.ranking import RANKINGS

_EVALUATED = (
    "device", "total_devices", "input_length", "output_length", "images", "image_size", "encoder_split",
    "encoder_devices", "workload",
    "prefix_cache_hit_rate", "host_hit_rate", "ssd_hit_rate", "remote_hit_rate", "host_gb_per_s", "ssd_gb_per_s",
    "remote_gb_per_s", "max_batched_tokens", "quantize_linear_action", "quantize_experts_action",
    "quantize_mixers_action", "quantize_head_action", "quantize_drafts_action",
    "quantize_attention_action", "num_mtp_tokens", "mtp_acceptance_rate", "speculative", "compile", "search",
    "pp_sizes", "serving_model", "client_lengths", "arrivals", "rates", "requests", "seed",
)  # fmt: skip
_ASKED = ("kv_transfer_gb_per_s", "price_date")
_WITHOUT_A_BUDGET = (1, 2, 4, 8, 16)  # devices of one instance, where only a rate is asked for


_USERS = above_zero(MOST_RATE)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """Options that neither `evaluate` nor a question has, or has under another name."""

    qps: float | None = option(
        None,
        "requests/s to carry, by the fewest devices or the least money",
        unit="requests/s",
        check=above_zero(MOST_RATE),
    )
    concurrency: tuple[float, ...] | None = option(
        None,
        "users at once, each with one request in flight, by the fewest devices or the least money; several of a server",
        unit="requests",
        check=lambda given: next((wrong for one in given or () if (wrong := _USERS(one)) is not None), None),
    )

    rank_by: Literal["cost", "rate", "devices", "latency"] | None = option(
        None,
        "what ranks deployments: cost (USD an hour for a rate, else per token), rate, devices, or latency (e2e)"
        " [default: cost of a rate or of users where prices are stored, else its devices; rate without either]",
        check=one_of(*RANKINGS),
    )

    def __post_init__(self) -> None:
        """Refuse what no option takes."""
        check_declared(self)
        if self.qps is not None and self.concurrency is not None:
            raise InputError("give `qps` or `concurrency`, not both")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A plan's options as what is evaluated and what is asked of the rows."""

    evaluated: SweepOptions
    question: Mapping[str, object]  # keywords of the report
    own: PlanOptions


@cache
def plan_options() -> Mapping[str, Declared]:
    """Every option by its keyword, in the order of help texts."""
    own = {item.keyword: item for item in declared(PlanOptions)}
    of_loads = {one.keyword for one in limit_table() if one.metric is None}
    limits = [item.keyword for item in declared(PARTS["limits"]) if item.keyword not in of_loads]
    evaluated = {keyword: options_by_keyword()[keyword] for keyword in _EVALUATED}
    asked = {keyword: option_table()[keyword] for keyword in (*limits, *_ASKED)}
    return {**evaluated, **own, **asked}


def asked_of(model: object, given: Mapping[str, object]) -> Asked:
    """Keywords as the two things that a plan does; what is None was not given."""
    values, own = _read(given)
    total = values.get("total_devices")
    if total is None and own.qps is None and own.concurrency is None:
        raise InputError(
            "how many devices are there, or what must they carry?",
            hint="`total_devices=16` is a budget; `qps=50` or `concurrency=400` find the fewest devices",
        )
    if own.concurrency is not None and len(own.concurrency) > 1:
        raise InputError("several `concurrency` are asked of one server", hint="`from_deployment`, or one number")
    sizes = {} if total is not None else {"num_devices": _WITHOUT_A_BUDGET}
    evaluated = _evaluated_options({"model": model, **sizes}, values)
    of_both = {
        "target_qps": own.qps,
        "target_users": own.concurrency[0] if own.concurrency else None,
        "num_devices": total,
    }
    return Asked(evaluated=evaluated, question={**_question(values), **of_both}, own=own)


# Of a server that runs: its devices are known, and users wait for their answers.
_NOT_OF_A_SERVER = (
    "qps",
    "total_devices",
    "arrivals",
    "rates",
    "requests",
    "seed",
    "reserved_memory_gb",
    "rank_by",
    *_ASKED,
)


def server_asked(
    model: object, given: Mapping[str, object]
) -> tuple[SweepOptions, tuple[int, ...], Mapping[str, object]]:
    """Keywords about a server that runs: what is evaluated, the numbers of users, and limits."""
    values, own = _read(given)
    for keyword in _NOT_OF_A_SERVER:
        if keyword in values:
            raise InputError(f"`{keyword}` has no effect beside a server", hint=f"leave out `{keyword}`")
    users = tuple(math.ceil(one) for one in own.concurrency or ())
    return _evaluated_options({"model": model}, values), users, _question(values)


def _read(given: Mapping[str, object]) -> tuple[dict[str, object], PlanOptions]:
    """Keywords that were given, and those of a plan alone, read."""
    values = {keyword: value for keyword, value in given.items() if value is not None}
    for keyword in values:
        if keyword not in plan_options():
            raise InputError(f"unknown option {keyword!r} of plan", hint=nearest(keyword, plan_options()))
    own = {
        item.keyword: read_value(item, values[item.keyword], f"`{item.keyword}`")
        for item in declared(PlanOptions)
        if item.keyword in values
    }
    return values, PlanOptions(**own)  # type: ignore[arg-type]


def _evaluated_options(stated: Mapping[str, object], values: Mapping[str, object]) -> SweepOptions:
    found = options_of({**stated, **{keyword: values[keyword] for keyword in _EVALUATED if keyword in values}})
    if len(found.models) > 1:
        raise InputError("plan is about one model", hint="`evaluate` takes several, `query deployments` compares them")
    return found


def _question(values: Mapping[str, object]) -> dict[str, object]:
    """The keywords of the report."""
    return {key: value for key, value in values.items() if key in option_table() and key not in _EVALUATED}


REPORT = "deployments"


@cache
def report_options() -> Mapping[str, Declared]:
    """The options of a report by keyword: those of the question about whole deployments, at one number of devices."""
    taken = {one.name for one in keywords_of(question_report(REPORT))}
    return {keyword: item for keyword, item in option_table().items() if keyword in taken - {"top", "budgets"}}
