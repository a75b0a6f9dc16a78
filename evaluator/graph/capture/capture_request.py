"""Everything that decides a capture, its content key, and its place among what ships."""

from __future__ import annotations

import functools
import hashlib
import json
from dataclasses import field, replace
from typing import Any, Literal

from evaluator.canonical import IF_SET, keyed
from evaluator.inputs.formats import Format
from evaluator.inputs.images import VisionTower
from evaluator.inputs.launch import Plan
from evaluator.inputs.model import ModelSpec, MoeMlp
from evaluator.same_objects import SameObjects
from store.light_dataclass import dataclass
from store.schema import Convention

CAPTURE_VERSION = 4  # raised by hand when the blocks or the formulas of operators change
UPSTREAM_CAPTURE_VERSION = 2  # and when only upstream's do
Trace = Literal["prefill", "decode", "encoder"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureRequest:
    """Traces differ in MLA (expanded, absorbed) and rows of logits; `kv_bits` are the KV cache's."""

    model: ModelSpec
    plan: Plan
    linear: Format
    experts: Format
    kv_bits: int
    trace: Trace
    compile: bool
    convention: Convention = "physical"
    kv_dtype: str = ""  # upstream's: what attention is quantised to
    shared_split: bool = False  # upstream's shared experts over the tensor-parallel ranks
    tower: VisionTower | None = field(default=None, metadata={IF_SET: True})  # of the trace `encoder`
    mixers: Format | None = field(default=None, metadata={IF_SET: True})  # of what mixes tokens; None: as linear
    head: Format | None = field(default=None, metadata={IF_SET: True})  # None: 16 bits
    drafts: Format | None = field(default=None, metadata={IF_SET: True})  # of layers that draft; None: as the layers'
    tower_whole: bool = field(default=False, metadata={IF_SET: True})  # every rank has all of it, for its own images

    @property
    def key(self) -> str:
        return _same(self)

    @property
    def place(self) -> tuple[str, str, str]:
        """Model, plan, and the rest: sets that ship share most of the first two."""
        form = _form(self)
        model = {name: form.pop(name) for name in ("capture_version", "model")}
        return _digest(model)[:32], _text(form.pop("plan")), _text(form)


@functools.lru_cache(maxsize=4096)  # the scenarios of one plan, on every device and workload, ask for the same sets
def _key(request: CaptureRequest) -> str:
    return _digest(_form(request))


def _form(request: CaptureRequest) -> dict[str, Any]:
    bare = replace(request, model=request.model.unnamed)
    form = {"capture_version": CAPTURE_VERSION, **keyed(bare)}
    if request.convention == "physical":
        del form["kv_dtype"], form["shared_split"]  # so did these
    else:
        form["upstream_version"] = UPSTREAM_CAPTURE_VERSION
    return form


def _text(form: dict[str, Any]) -> str:
    return json.dumps(form, sort_keys=True, separators=(",", ":"))


def _digest(form: dict[str, Any]) -> str:
    return hashlib.sha256(_text(form).encode()).hexdigest()


_same = SameObjects(_key)


@SameObjects
def layers_of_stages(model: ModelSpec, stages: int) -> tuple[tuple[int, ...], ...]:
    """Layers of groups (rows) on stages (columns); the first stages take the remainder.

    Alternating kinds of attention are spread over all stages. Pairs of layers stay together where experts are added
    behind the next one."""
    counts = [group.count for group in model.layers]
    paired = any(isinstance(group.mlp, MoeMlp) and group.mlp.shortcut for group in model.layers)
    if paired or len({(group.window, group.mixers) for group in model.layers}) > 1:
        rows, start = [], 0
        for count in counts:
            rows.append(tuple(count // stages + ((stage - start) % stages < count % stages) for stage in range(stages)))
            start += 0 if paired else count % stages
        return tuple(rows)
    kinds = [index for index, count in enumerate(counts) for _ in range(count)]
    sizes = [len(kinds) // stages + (stage < len(kinds) % stages) for stage in range(stages)]
    ends = [sum(sizes[: stage + 1]) for stage in range(stages)]
    parts = [kinds[end - size : end] for size, end in zip(sizes, ends, strict=True)]
    return tuple(tuple(part.count(index) for part in parts) for index in range(len(counts)))
