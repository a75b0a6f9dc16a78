"""Measured servers by stored names, formats and sizes, where the catalogue knows them."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from evaluator.identity import model_record
from evaluator.ledger import Unmatched, engine_of, measured_device, measured_model, measured_precision, plan_of
from queries.measured_rows import NamedServer, StatedServer, as_stated
from store.records import SideRecord

if TYPE_CHECKING:
    from evaluator.inputs import ModelSpec


@lru_cache(maxsize=4096)
def server_of(one: StatedServer) -> NamedServer:
    """Unknown words stay as in the source."""
    found = as_stated(one)
    engine = engine_of(one.serving_model, None if one.phase == "pd" else one.engine_version)
    found = found._replace(serving_model=engine or found.serving_model, device=_device(one.device) or found.device)
    try:
        name, model = measured_model(one.model)
    except Unmatched:
        return found
    found = found._replace(model=name, model_key=model_record(name, model).key)
    return _planned(one, model, _formatted(one, name, model, found))


def _device(name: str | None) -> str | None:
    try:
        return measured_device(name).name
    except Unmatched:
        return None


def _formatted(one: StatedServer, name: str, model: ModelSpec, found: NamedServer) -> NamedServer:
    try:
        formats = measured_precision(model, one.linear_quantization, one.attention_quantization, name=name)
    except Unmatched:
        return found
    return found._replace(
        linear_quantization=formats.linear, experts_quantization=str(formats.experts),
        attention_quantization=formats.attention,
    )  # fmt: skip


def _planned(one: StatedServer, model: ModelSpec, found: NamedServer) -> NamedServer:
    """Sizes that follow from others: replicas of a mixture from its experts."""
    side = SideRecord(tp=one.tp, pp=one.pp, dp=one.dp if one.dp > 1 else None, ep=one.ep)
    try:
        plan = plan_of(model, side if model.routed else replace(side, dp=one.dp))
    except Unmatched:
        return found
    if one.tp is None:
        return found
    sizes = ("pp", "dp", "ep", "moe_tp", "moe_dp")
    return found._replace(tp=plan.tp, **{name: getattr(plan, name) for name in sizes})
