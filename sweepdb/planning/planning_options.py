"""The options of `plan`: those of `evaluate` that say what is served, limits of questions, a few of its own.

Those of a report are here, too: the command line reads both before anything is asked."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Literal

from queries import asking
from store.errors import InputError
from store.light_dataclass import dataclass
from sweepdb.evaluating.option_values import nearest, options_by_keyword, options_of, read_value
from sweepdb.evaluating.sweep_options import ARRIVING, SweepOptions
from sweepdb.planning.ranking import RANKINGS, number_of

# Options of questions that a plan has beside limits, under their headings.
HEADINGS_OF_ASKED = {"kv_transfer_gb_per_s": "Devices", "price_date": "Devices", "as_predicted": "The run"}
REPORT, REPORT_OF_RATES = "deployments", "capacity"
_MEANT = {  # what people call rankings
    **dict.fromkeys(("qps", "requests-per-s", "throughput", "tokens-per-s"), "rate"),
    **dict.fromkeys(("money", "price", "usd"), "cost"),
    **dict.fromkeys(("e2e", "ttft", "tpot"), "latency"),
    "gpus": "devices",
}
_LONGER_BY = 1.25  # limits on times, in the question after the one that was asked
_EVERY = 1000  # rows: more than configurations compete
_WITHOUT_A_BUDGET = (1, 2, 4, 8, 16)  # devices of one instance, where only a rate is asked for


_USERS = asking.above_zero(asking.MOST_RATE)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """Options that neither `evaluate` nor a question has, or has under another name."""

    rate: float | None = asking.option(
        None,
        "requests/s that arrive: simulations say how many devices carry them",
        was=("qps",),
        unit="requests/s",
        check=asking.above_zero(asking.MOST_RATE),
        heading=ARRIVING,
    )
    attainment: float = asking.option(
        asking.ATTAINMENT,
        "share of a rate's requests that must meet the limits",
        unit="ratio",
        check=asking.within(0.001, 0.999),
        heading=ARRIVING,
    )
    concurrency: tuple[float, ...] | None = asking.option(
        None,
        "users who wait for their answers: requests in flight to serve, by the fewest devices or the least money;"
        " several of a server (`from_deployment`)",
        unit="requests",
        check=lambda given: next((wrong for one in given or () if (wrong := _USERS(one)) is not None), None),
        heading="Devices",
    )
    rank_by: Literal["cost", "rate", "devices", "latency"] | None = asking.option(
        None,
        "what ranks deployments: cost, rate, devices or latency; cost is USD an hour for a rate, else per token, and"
        " latency e2e of `concurrency` users within `total_devices` [default: cost of a rate or of users where prices"
        " are stored, else its devices; rate without either]",
        check=asking.one_of(*RANKINGS, meant=_MEANT),
        heading="Devices",
    )

    def __post_init__(self) -> None:
        asking.check_declared(self)
        if self.rate is not None and self.concurrency is not None:
            raise InputError(
                "`rate` and `concurrency` are two questions",
                hint="`rate` for requests that arrive by themselves, `concurrency` for users who wait for answers",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    evaluated: SweepOptions
    question: Mapping[str, object]  # keywords of the report
    own: PlanOptions
    budget: int | None  # devices that there are
    notes: tuple[str, ...]

    @property
    def of_rate(self) -> Mapping[str, object]:
        return {**self.question, "rate": self.own.rate, "attainment": self.own.attainment, "top": _EVERY}


@cache
def _evaluated() -> Mapping[str, asking.Declared]:
    return {keyword: item for keyword, item in options_by_keyword().items() if item.option.planned}


@cache
def plan_options() -> Mapping[str, asking.Declared]:
    own = {item.keyword: item for item in asking.declared(PlanOptions)}
    of_loads = {one.keyword for one in asking.limit_table() if one.metric is None}
    limits = [item.keyword for item in asking.declared(asking.PARTS["limits"]) if item.keyword not in of_loads]
    asked = {keyword: asking.option_table()[keyword] for keyword in (*limits, *HEADINGS_OF_ASKED)}
    return {**_evaluated(), **own, **asked}


def _of_arrivals() -> list[str]:
    return [keyword for keyword, item in plan_options().items() if item.option.heading == ARRIVING]


def asked_of(model: object, given: Mapping[str, object]) -> Asked:
    """Keywords as the two things that a plan does; what is None was not given."""
    values = _given(given)
    own, notes = _own(values)
    if own.concurrency is not None and len(own.concurrency) > 1:
        raise InputError("several `concurrency` are asked of one server", hint="`from_deployment`, or one number")
    total = values.get("total_devices")
    _check_ranking(own, within=total)
    if total is None and own.rate is None and own.concurrency is None:
        raise InputError(
            "how many devices are there, or what must they carry?",
            hint="`total_devices=16` is a budget; `rate=50` or `concurrency=400` find the fewest devices",
        )
    if isinstance(total, int) and total > asking.MOST_DEVICES:
        raise InputError(f"`total_devices` must be at most {asking.MOST_DEVICES:,}, not {total:,}")
    sizes = {} if total is not None else {"num_devices": _WITHOUT_A_BUDGET}
    evaluated = options_of({
        "model": model,
        **{keyword: values[keyword] for keyword in _evaluated() if keyword in values},
        **sizes,
    })  # fmt: skip
    if len(evaluated.models) > 1:
        raise InputError("plan is about one model", hint="`evaluate` takes several, `query deployments` compares them")
    question = {keyword: value for keyword, value in values.items() if keyword in asking.option_table()}
    of_both = {"concurrency": own.concurrency[0] if own.concurrency else None, "num_devices": total}
    if own.rank_by == "latency":
        of_both["least_latency"] = True
    kept = {keyword: value for keyword, value in question.items() if keyword not in _evaluated()}
    budget = None if total is None else int(number_of(total))
    asked = Asked(evaluated=evaluated, question={**kept, **of_both}, own=own, budget=budget, notes=notes)
    if own.rate is not None:
        asking.check_question(asking.question_of(REPORT_OF_RATES, asked.of_rate))
    return asked


def _check_ranking(own: PlanOptions, *, within: object) -> None:
    """Refuse to rank by what nothing is said of: the fewest devices, or the shortest requests, of any load at all."""
    if own.rank_by == "devices" and own.concurrency is None and own.rate is None:
        raise InputError("the fewest devices for what?", hint="add `concurrency=100` or `rate=20`")
    if own.rank_by == "latency" and (own.concurrency is None or within is None):
        raise InputError(
            "the shortest requests of how many users, on how many devices?",
            hint="add `concurrency=1` for one user alone, or `concurrency=100`; and `total_devices=8`",
        )


def _given(given: Mapping[str, object]) -> dict[str, object]:
    values = asking.in_new_words(given, plan_options().values())
    for keyword in values:
        if keyword not in plan_options():
            raise InputError(f"unknown option {keyword!r} of plan", hint=nearest(keyword, plan_options()))
    return values


# Of a server that runs its devices are known, and users wait for their answers.
_NOT_OF_A_SERVER = ("total_devices", "reserved_memory_gb", "rank_by", *HEADINGS_OF_ASKED)


def server_asked(
    model: object, given: Mapping[str, object]
) -> tuple[SweepOptions, tuple[int, ...], Mapping[str, object]]:
    """Keywords about a server that runs: what is evaluated, the numbers of users, and limits."""
    values = _given(given)
    for keyword in (*_of_arrivals(), *_NOT_OF_A_SERVER):
        if keyword in values:
            raise InputError(f"`{keyword}` has no effect beside a server", hint=f"leave out `{keyword}`")
    own = PlanOptions(concurrency=_read(plan_options()["concurrency"], values.get("concurrency")))
    evaluated = options_of(
        {"model": model, **{keyword: values[keyword] for keyword in _evaluated() if keyword in values}}
    )
    question = {key: one for key, one in values.items() if key in asking.option_table() and key not in _evaluated()}
    return evaluated, tuple(map(math.ceil, own.concurrency or ())), question


# A decision is about users who wait for their answers, by devices or money.
def not_decided() -> frozenset[str]:
    return frozenset({*_of_arrivals(), "rank_by", "kv_transfer_gb_per_s", "as_predicted"} - {"rate"})


@cache
def decide_options() -> Mapping[str, asking.Declared]:
    return {keyword: item for keyword, item in plan_options().items() if keyword not in not_decided()}


def _own(values: dict[str, object]) -> tuple[PlanOptions, tuple[str, ...]]:
    stated = "attainment" in values
    read = {item.field: _read(item, values.pop(item.keyword, None)) for item in asking.declared(PlanOptions)}
    own = PlanOptions(**{field: value for field, value in read.items() if value is not None})
    if own.rate is None:
        if stated and "arrivals" not in values:
            raise InputError("`attainment` is about requests that arrive", hint="add `rate`, or leave it out")
        if own.concurrency is not None and "arrivals" in values:
            raise InputError(
                "`arrivals` are requests that arrive by themselves, `concurrency` is users who wait",
                hint="`rate` in place of `concurrency`, or leave `arrivals` out",
            )
        return own, ()
    if values.get("as_predicted"):
        raise InputError("`as_predicted` has no effect on a rate: simulations are not corrected by own runs")
    if own.rank_by not in {None, "cost", "devices"}:
        raise InputError(f"a rate is not ranked by {own.rank_by}", hint="`rank_by=cost` or devices")
    if "arrivals" in values:
        return own, ()
    values["arrivals"] = "poisson"
    return own, ("assumed: requests arrive as a Poisson process (`arrivals=gamma:3` for bursts, or trace:FILE)",)


def longer_limits(question: Mapping[str, object]) -> Iterator[tuple[asking.Limit, float]]:
    for one in asking.limit_table():
        limit = question.get(one.keyword)
        if isinstance(limit, int | float) and one.metric is not None and not one.least:
            yield one, _LONGER_BY * limit


def _read(item: asking.Declared, given: object) -> Any:  # noqa: ANN401  of the type that the option declares
    return None if given is None else read_value(item, given, f"`{item.keyword}`")


@cache
def report_options() -> Mapping[str, asking.Declared]:
    """The options of a report by keyword: those of the question about whole deployments, at one number of devices."""
    taken = {one.name for one in asking.keywords_of(asking.question_report(REPORT))}
    return {keyword: item for keyword, item in asking.option_table().items() if keyword in taken - {"top", "budgets"}}
