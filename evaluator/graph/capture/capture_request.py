"""The request for a capture: everything that a capture depends on, its content key, its place among what ships."""

from __future__ import annotations

import functools
import hashlib
import json
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from evaluator.canonical import IF_SET, keyed
from evaluator.graph.operators import SameObjects
from evaluator.inputs.formats import Format
from evaluator.inputs.launch import Plan
from evaluator.inputs.model import ModelSpec, MoeMlp
from evaluator.inputs.vision.tower import VisionTower
from store.schema import Convention

CAPTURE_VERSION = 4  # raised by hand when the blocks or the formulas of operators change
UPSTREAM_CAPTURE_VERSION = 2  # and when only upstream's do
Trace = Literal["prefill", "decode", "encoder"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureRequest:
    """One set of operators: what a traced step of this model on one device of this plan consists of.

    Traces differ in MLA (expanded, absorbed) and in the rows of logits; `kv_bits` are those of the KV cache."""

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
        """sha256 of the canonical form of everything that decides the operators."""
        return _same(self)

    @property
    def place(self) -> tuple[str, str, str]:
        """The same in three parts, of which sets that ship share most: the model, the plan, and all else."""
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
    """Layers of each group (rows) on each pipeline stage (columns); the first stages take the remainder.

    Groups follow one another, except where kinds of attention alternate, sliding and full ones say: then every stage
    has its share of each. So it is where a layer's experts are added behind the next one, and such pairs stay together.
    """
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
