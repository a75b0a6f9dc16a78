"""Stored settings worth measuring before any is, the best first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from evaluator.ledger import MOST_PLACES, Nearby, worth_measuring
from queries.connect import connect
from store.errors import InputError
from store.schema import FORMULA_MODELS

USUAL_COUNT = 15
RESERVED_GIB = 10.0
_CANDIDATES = """
    SELECT DISTINCT
        model, device, serving_model AS engine, tp, pp, dp, ep, moe_tp, moe_dp, num_devices,
        input_length, CAST(round(output_length) AS BIGINT) AS output_length, concurrency
    FROM fits($reserved_gib, 'full')
    WHERE phase = 'aggregated' AND NOT list_contains($formulas, serving_model) AND input_length IS NOT NULL
        AND batch_size = pow(2, round(log2(batch_size))) AND prefix_cache_hit_rate = 0 AND mtp_tokens = 0
        AND ($model IS NULL OR contains(lower(model), lower($model)))
        AND ($device IS NULL OR contains(lower(device), lower($device)))
        AND ($engine IS NULL OR serving_model = $engine)
    ORDER BY ALL
"""


class Suggested(NamedTuple):
    """With our CSV's columns."""

    model: str
    device: str
    engine: str
    tp: int
    pp: int
    dp: int
    ep: int
    moe_tp: int
    moe_dp: int
    num_devices: int
    input_length: int
    output_length: int
    concurrency: int


def suggested_points(
    store_url: str | None,
    *,
    count: int = USUAL_COUNT,
    model: str | None = None,
    device: str | None = None,
    engine: str | None = None,
) -> list[Suggested]:
    """Of one model, device and engine, fitting memory: each says most of the rest."""
    if count < 1:
        raise InputError(f"`count={count}` is not a positive number")
    asked = {
        "reserved_gib": RESERVED_GIB, "formulas": FORMULA_MODELS, "model": model, "device": device, "engine": engine
    }  # fmt: skip
    with connect(store_url) as connection:
        found = [Suggested(*row) for row in connection.execute(_CANDIDATES, asked).fetchall()]
    if not found:
        raise InputError(
            "no aggregated rows of an engine are stored that fit memory",
            hint="sweepdb evaluate the plans, lengths and batch sizes that your server could run",
        )
    for name in ("model", "device", "engine"):
        if len(several := sorted({getattr(one, name) for one in found})) > 1:
            option = "serving_model" if name == "engine" else name
            raise InputError(f"stored rows are of several: {', '.join(several)}", hint=f"choose with `{option}`")
    kept = _thinned(found)
    return [kept[place] for place in worth_measuring([_place(one) for one in kept], count)]


def _thinned(found: Sequence[Suggested]) -> list[Suggested]:
    """Evenly, to as many as are weighed together."""
    most = min(MOST_PLACES, len(found))
    return [found[index * len(found) // most] for index in range(most)]


def _place(one: Suggested) -> Nearby:
    return Nearby(
        users=one.concurrency / one.dp, input_length=float(one.input_length), output_length=float(one.output_length),
        devices=float(one.num_devices),
    )  # fmt: skip
