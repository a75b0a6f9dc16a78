"""Numbers in sentences: four figures, and the value to relax a limit to, with the digits that admit the row.

Not here: numbers in tables (cli.render.rows), and which limit binds (queries/reports/nearest.sql)."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from queries.asking.limits import Limits, limit_named

_LEAST_DECIMALS = 2


def four_figures(value: float) -> str:
    """A number as a sentence says it: 0.1235, 671, 1,044 and 30,528, never with an exponent of ten."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def relaxed_to(row: Mapping[str, object], limits: Limits) -> str | None:
    """A limit that admits a nearest miss, rounded away from the limit that was asked; None where none does."""
    binding, value = limit_named(str(row["binding_limit"])), Decimal(str(row["relax_to"]))
    if binding.is_reserve and value < 0:
        return None  # it does not fit even with no reserve
    asked = Decimal(str(getattr(limits, binding.place) or 0.0))
    # A miss of 0.0004 needs the fourth decimal, and one more to stay close to the row.
    decimals = max(_LEAST_DECIMALS, 1 - abs(value - asked).adjusted()) if value != asked else _LEAST_DECIMALS
    rounding = ROUND_FLOOR if binding.least else ROUND_CEILING
    return str(value.quantize(Decimal(1).scaleb(-decimals), rounding=rounding))
