"""Session variables of SQL that no option declares: `getvariable('ttft_limit_ms')`.

They follow from a question or from a best row."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache

from queries.asking.declaring import plain_types
from queries.asking.options import option_table
from store.light_dataclass import dataclass

_READ = re.compile(r"\bgetvariable\('(\w+)'\)", re.IGNORECASE)
_TYPES: Mapping[type, str] = {float: "DOUBLE", int: "BIGINT", str: "VARCHAR", bool: "BOOLEAN"}
_EXACT_DIGITS = 15  # a decimal of more digits may come out as the double beside the one that is meant


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    name: str
    type: str
    unit: str = "none"
    null: str = "never NULL"


_DERIVED = (
    Variable(name="wanted_phase", type="VARCHAR", null="never NULL: prefill, decode or aggregated"),
    Variable(
        name="split", type="BOOLEAN", null="never NULL: whether instances are paired, of one device, under an engine"
    ),
    Variable(name="objective_asked", type="BOOLEAN", null="never NULL: whether the objective was asked for"),
    Variable(
        name="pruned",
        type="BOOLEAN",
        null="never NULL: whether the objective never falls when a side improves, so that most pairs need no look",
    ),
    Variable(name="vary_second", type="VARCHAR", null="one limit varies"),
    Variable(
        name="mix_weights", type="DOUBLE[]", unit="ratio", null="never NULL: share of each workload; they add up to 1"
    ),
    *(
        Variable(name=f"{side}_{name}", type=type_, unit=unit, null=f"never NULL: of the best pair's {side} side")
        for side in ("prefill", "decode")
        for name, type_, unit in (
            ("requests_per_s", "DOUBLE", "requests/s"),
            ("size", "BIGINT", "devices"),
            ("probe", "VARCHAR", "none"),
            ("scenario", "VARCHAR", "sha256"),
        )
    ),
)


@cache
def known_variables() -> Mapping[str, Variable]:
    of_options = (
        Variable(
            name=item.option.variable,
            type=item.option.variable_type or _TYPES[plain_types(item.type)[0]],
            unit=item.option.unit,
            null=item.option.without,
        )
        for item in option_table().values()
        if item.option.variable is not None
    )
    return {item.name: item for item in (*of_options, *_DERIVED)}


def read_in(sql: str) -> frozenset[str]:
    return frozenset(_READ.findall(sql))


def settings(values: Mapping[str, object]) -> dict[str, str]:
    """Typed statements: NULL has no type of its own."""
    return {name: f"SET VARIABLE {name} = {_typed(name, value)};" for name, value in values.items()}


def with_values(sql: str, values: Mapping[str, object]) -> str:
    """A statement that is run once has them in place of variables: setting those takes as long as planning it."""
    return _READ.sub(lambda read: f"({_typed(read[1], values[read[1]])})" if read[1] in values else read[0], sql)


def _typed(name: str, value: object) -> str:
    return f"{literal(value)}::{known_variables()[name].type}"


def literal(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float):
        text = repr(value)
        return text if "e" in text or len(text) <= _EXACT_DIGITS else f"{text}e0"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{', '.join(map(literal, value))}]"
    return str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"
