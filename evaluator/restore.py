"""Rebuilds evaluator records from the canonical JSON that is stored beside the numbers they made."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

from evaluator.inputs.devices.device import DeviceProfile, Link
from evaluator.inputs.engines.engine_profiles import EngineProfile
from evaluator.inputs.engines.nearness import Nearby
from evaluator.inputs.launch import Client
from evaluator.inputs.model import (
    CompressedAttention,
    DenseMlp,
    GatedDeltaNet,
    GroupedQueryAttention,
    LatentAttention,
    LayerGroup,
    ModelSpec,
    MoeMlp,
    StateSpace,
    TokenIndexer,
)
from evaluator.inputs.precision import Precision
from evaluator.inputs.vision.images import Images
from evaluator.inputs.vision.tower import Projection, Resizing, VisionTower
from evaluator.inputs.workloads.cache_tiers import CacheTier
from evaluator.inputs.workloads.workload import LengthBin, Workload
from store.errors import StoreError

_KNOWN = {
    item.__name__: item
    for item in (
        DeviceProfile,
        Link,
        CompressedAttention,
        DenseMlp,
        GatedDeltaNet,
        GroupedQueryAttention,
        LatentAttention,
        LayerGroup,
        ModelSpec,
        MoeMlp,
        StateSpace,
        TokenIndexer,
        Precision,
        LengthBin,
        Workload,
        Images,
        VisionTower,
        Resizing,
        Projection,
        Client,
        EngineProfile,
        Nearby,
        CacheTier,
    )
}


def restored(text: str) -> Any:  # noqa: ANN401  whichever record was stored
    """The record that `canonical` wrote."""
    return _record(json.loads(text))


def _record(value: object) -> Any:  # noqa: ANN401
    if isinstance(value, list):
        return tuple(_record(item) for item in value)
    if not isinstance(value, dict):
        return value
    kind = _KNOWN.get(str(value.get("")))
    if kind is None:
        raise StoreError(
            f"a stored record is of unknown kind {value.get('')!r}", hint="was it written by a newer sweepdb?"
        )
    types = {item.name: str(item.type) for item in fields(kind)}
    return kind(**{name: _typed(_record(item), types[name]) for name, item in value.items() if name in types})


def _typed(value: Any, type_: str) -> Any:  # noqa: ANN401
    # Canonical JSON writes 1.0 as 1; content keys of operators tell the two apart.
    return float(value) if isinstance(value, int) and type_.startswith("float") else value
