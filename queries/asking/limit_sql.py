"""SQL that judges rows, generated from the table of limits; files name its parts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import get_args

from queries.asking.limits import Limit, listed_limits, predicted_limits, row_limits
from store.schema import Phase


def _factor(one: Limit, column: str) -> str:
    return "NULL::DOUBLE" if one.predicted[column] is None else f"factors.{one.predicted[column]}"


def _ruled(one: Limit, column_of: Callable[[Limit, str], str], by: str = "ruled_tpot(") -> str:
    """Two columns where the definition of TPOT chooses."""
    columns = [column_of(one, column) for column in one.predicted]
    return columns[0] if len(columns) == 1 else f"{by}serving_model, {', '.join(columns)})"


def _bound(value: str, one: Limit, factor: str, *, confident: bool) -> str:
    return f"{value} {'/' if one.least else '*'} {factor}" if confident else value


def _lacked(one: Limit) -> str:
    return f"phase IN ({', '.join(repr(phase) for phase in get_args(Phase) if phase not in one.phases)})"


def _kept(one: Limit) -> str:
    if one.is_reserve:
        return f"('{one.name}' IN varied OR memory_free_bytes >= 0)"
    compared = f"{one.bound} {'>=' if one.least else '<='} {one.asked}"
    return f"('{one.name}' IN varied OR {one.asked} IS NULL OR {_lacked(one)} OR {compared})"


def _used(one: Limit) -> str:
    if one.is_reserve:
        return "1 - memory_free_bytes / device_memory_bytes"
    return f"{one.asked} / {one.bound}" if one.least else f"{one.bound} / {one.asked}"


def _missed(one: Limit) -> str:
    if one.is_reserve:
        return "greatest(-memory_free_bytes / device_memory_bytes, 0)"
    return f"CASE WHEN {_lacked(one)} THEN 0 ELSE greatest(coalesce({_used(one)} - 1, 0), 0) END"


def _needed(one: Limit) -> str:
    if one.is_reserve:
        return f"-({one.asked} + memory_free_bytes / 1073741824)"
    return f"-{one.bound}" if one.least else one.bound


def _use(place: int, one: Limit) -> str:
    """A line of `why`: the share of a limit that is used."""
    said = {"section": "limit", "name": one.name, "unit": f"share of {'device' if one.is_reserve else 'limit'}"}
    told = ", ".join(f"{key!r}: {text!r}" for key, text in said.items())
    return f"{{{told}, 'position': {10 + place / 100}, 'value': {_used(one)}}}"


def _no_worse(one: Limit, column: str) -> str:
    this, other = f"this.{column}", f"other.{column}"
    return f"no_less({this}, {other})" if one.least else f"no_less({other}, {this})"


def _bounds(limits: Sequence[Limit], *, confident: bool) -> dict[str, Iterable[str]]:
    of_pairs = [
        ("ttft_ms", "pair_ttft", "pair_ttft_bound_ms"),
        ("tpot_exclusive_ms", "tpot_exclusive", "tpot_exclusive_ms_bound"),
    ]
    apart = [f"{column}{f' * factors.{factor}' if confident else ''} AS {name}" for column, factor, name in of_pairs]
    return {
        "each_stored_bound": (
            f"probe.{apart[0]}",
            *(
                f"{_bound(f'probe.{column}', one, _factor(one, column), confident=confident)} AS {column}_bound"
                for one in limits
                for column in one.predicted
            ),
        ),
        "each_bound": (
            *apart,
            *(
                f"{_bound(str(one.metric), one, _ruled(one, _factor), confident=confident)} AS {one.bound}"
                for one in limits
            ),
        ),
    }


@cache
def _expansions(*, confident: bool) -> Mapping[str, str]:
    """SQL by the name that stands for it in files, a part a limit or column."""
    rows = row_limits()
    limits = predicted_limits()
    stored = [(one, column) for one in limits for column in one.predicted]
    # Of equal misses the memory's comes first.
    misses = {one.name: _missed(one) for one in sorted(rows, key=lambda one: not one.is_reserve)}
    lists = {
        "each_stored_column": (column for _, column in stored),
        **_bounds(limits, confident=confident),
        # By the rule of a parameter, where no variable is set.
        "each_predicted_metric": (
            f"{_ruled(one, lambda _, column: column, 'tpot_by($tpot_rule, ')} AS {one.metric}" for one in limits
        ),
        "each_metric": (str(one.metric) for one in limits),
        "each_limited": ("memory_free_bytes", *(one.bound for one in limits)),
        "each_miss": misses.values(),
        "each_use": (_use(place, one) for place, one in enumerate(rows)),
        "each_counted_down": (repr(one.name) for one in rows if one.least),
    }
    conditions = {
        "every_limit_kept": map(_kept, rows),
        "every_limit_known": (
            f"({one.asked} IS NULL OR {one.metric} IS NULL OR {one.bound} IS NOT NULL)" for one in limits
        ),
        "every_limit_no_worse": (_no_worse(one, column) for one, column in stored),
    }
    return {
        **{name: ",\n    ".join(parts) for name, parts in lists.items()},
        **{name: "\n    AND ".join(parts) for name, parts in conditions.items()},
        "each_limit_listed": listed_limits(),
        "each_limit_keyword": ", ".join(one.keyword for one in limits),
        "when_each_needed": " ".join(f"WHEN '{one.name}' THEN {_needed(one)}" for one in rows),
        "when_each_missed": " ".join(f"WHEN {text} THEN '{name}'" for name, text in misses.items()),
        **{
            f"with_factors_of_{rows}": f"JOIN factors ON factors.scenario_id = {rows}.scenario_id"
            f" AND {sized}.batch_size BETWEEN factors.first_batch_size AND factors.last_batch_size"
            if confident
            else ""
            for rows, sized in (("scope", "probe"), ("lots", "narrow"))
        },
        "sum_of_missed": " + ".join(f"({text} > 0)::INTEGER" for text in misses.values()),
    }


_STANDS_FOR = re.compile(r"\b(?:(?:when_)?each|every_limit|sum_of|with_factors)_\w+\b")


def with_limits(text: str, *, confident: bool = False) -> str:
    """Compared with predictions or, `confident`, with bounds of measured values."""
    return _STANDS_FOR.sub(lambda match: _expansions(confident=confident)[match[0]], text)
