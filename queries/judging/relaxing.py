"""Writes the value a limit must be relaxed to with the digits that admit the row: a rounded one may refuse it again.

Not here: which limit binds, and the value itself (queries/reports/nearest.sql)."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from queries.asking.options import Limits

_LEAST_DECIMALS = 2
_LOWERED = {"memory", "tokens_per_s_per_user"}  # these are relaxed downwards, the times upwards


def relaxed_to(row: Mapping[str, object], limits: Limits) -> str | None:
    """A limit that admits a nearest miss, rounded away from the limit that was asked; None where none does."""
    binding, value = str(row["binding_limit"]), Decimal(str(row["relax_to"]))
    if binding == "memory" and value < 0:
        return None  # it does not fit even with no reserve
    asked = Decimal(str(_asked(binding, limits)))
    # A miss of 0.0004 needs the fourth decimal, and one more to stay close to the row.
    decimals = max(_LEAST_DECIMALS, 1 - abs(value - asked).adjusted()) if value != asked else _LEAST_DECIMALS
    rounding = ROUND_FLOOR if binding in _LOWERED else ROUND_CEILING
    return str(value.quantize(Decimal(1).scaleb(-decimals), rounding=rounding))


def _asked(binding: str, limits: Limits) -> float:
    asked = {
        "ttft": limits.ttft_ms,
        "tpot": limits.tpot_ms,
        "e2e": limits.e2e_ms,
        "memory": limits.reserved_gib,
        "tokens_per_s_per_user": limits.min_tokens_per_s_per_user,
    }[binding]
    return 0.0 if asked is None else asked
