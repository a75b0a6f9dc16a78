"""The server of a measured setting: as its source states it, and by the names and sizes that stored rows have."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

UNSTATED = "not stated"
NO_KV_FORMAT = "DISABLED"  # keys and values as they are computed, as stored rows call it


class StatedServer(NamedTuple):
    """The facts of `measured_probe` that tell servers apart. The plan of a pair is that of its decode side."""

    model: str | None
    device: str | None
    serving_model: str
    engine_version: str | None
    phase: str | None
    linear_quantization: str | None
    attention_quantization: str | None
    num_devices: int | None
    tp: int | None
    pp: int
    dp: int
    ep: int
    decode_instances: int | None
    prefill_instances: int | None
    prefill_tp: int | None


class NamedServer(NamedTuple):
    """A server by the names of stored rows. `model_key` is that of the model's shapes, where these are known."""

    model: str
    model_key: str | None
    device: str
    serving_model: str
    linear_quantization: str
    experts_quantization: str
    attention_quantization: str
    tp: int | None
    pp: int
    dp: int
    ep: int
    moe_tp: int = 1
    moe_dp: int = 1

    @property
    def engine(self) -> str:
        """The engine without the profile of its costs."""
        return self.serving_model.partition("@")[0]


ServerNamer = Callable[[StatedServer], NamedServer]


def as_stated(one: StatedServer) -> NamedServer:
    """The names of the source: whoever knows no catalogue asks of what is written."""
    stated = one.linear_quantization or UNSTATED
    return NamedServer(
        model=one.model or UNSTATED, model_key=None, device=one.device or UNSTATED,
        serving_model=one.serving_model, linear_quantization=stated, experts_quantization=stated,
        attention_quantization=one.attention_quantization or NO_KV_FORMAT, tp=one.tp, pp=one.pp, dp=one.dp, ep=one.ep,
    )  # fmt: skip
