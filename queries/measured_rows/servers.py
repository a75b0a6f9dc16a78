"""Measured servers as their source states them, and by stored names."""

from __future__ import annotations

from collections.abc import Callable

from store.light_dataclass import NamedTuple

UNSTATED = "not stated"
NO_KV_FORMAT = "DISABLED"  # keys and values as they are computed, as stored rows call it


class StatedServer(NamedTuple):
    """Facts of `measured_probe`. A pair's plan is its decode pool's."""

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
    """`model_key` is of the model's shapes, where known."""

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
        """Without its cost profile."""
        return self.serving_model.partition("@")[0]


class ServerNamer(NamedTuple):
    """`decided_by` is a text that is another one whenever names may be."""

    name: Callable[[StatedServer], NamedServer]
    decided_by: Callable[[], str] = str


def as_stated(one: StatedServer) -> NamedServer:
    """Without a catalogue, as written."""
    stated = one.linear_quantization or UNSTATED
    return NamedServer(
        model=one.model or UNSTATED, model_key=None, device=one.device or UNSTATED,
        serving_model=one.serving_model, linear_quantization=stated, experts_quantization=stated,
        attention_quantization=one.attention_quantization or NO_KV_FORMAT, tp=one.tp, pp=one.pp, dp=one.dp, ep=one.ep,
    )  # fmt: skip


AS_STATED = ServerNamer(as_stated)
