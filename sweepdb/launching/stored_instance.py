"""A stored row as its server needs it: model, split, batch limits, memory, prediction."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from evaluator import inputs
from evaluator.scenario import Scenario
from queries.asking import Limits
from queries.probes import find_probe, parse_reference
from store.errors import InputError
from store.location import StoreLocation
from sweepdb.restoring import stored_scenario

GIB = 2**30
RESERVE_GIB = Limits().reserved_gib  # as questions leave free by default
_PREDICTED = (
    "ttft_ms", "tpot_exclusive_ms", "tpot_inclusive_ms", "e2e_ms", "requests_per_s", "output_tokens_per_s",
    "prefill_step_ms", "decode_step_ms", "weight_bytes", "kv_cache_bytes", "activation_bytes", "device_memory_bytes",
)  # fmt: skip


_SPARE_TOKENS, _BLOCK_TOKENS = 32, 64


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredInstance:
    """Restored."""

    probe: str
    scenario: Scenario
    model_name: str
    batch_size: int  # of one replica and pipeline stage
    concurrency: int
    seats: int | None
    formula_version: int
    values: Mapping[str, object]  # the row's columns
    draft_model: str | None = None  # where the draft beside the model lies

    @property
    def model(self) -> inputs.ModelSpec:
        return self.scenario.model

    @property
    def plan(self) -> inputs.Plan:
        return self.scenario.plan

    @property
    def precision(self) -> inputs.Precision:
        return self.scenario.precision

    @property
    def workload(self) -> inputs.Workload:
        return self.scenario.workload

    @property
    def devices(self) -> int:
        return self.plan.num_devices

    @property
    def devices_a_node(self) -> int:
        """The interconnect's innermost extent."""
        return int(self.scenario.device.grid[-1])

    @property
    def nodes(self) -> int:
        return -(-self.plan.language_devices // self.devices_a_node)

    @property
    def requests_a_replica(self) -> int:
        """In flight, over pipeline stages.

        A prefill server lets in as many as fill a step, and one whose keys are being fetched."""
        seats = self.batch_size
        if self.scenario.phase == "prefill" and self.engine is not None:
            # Steps of 4,096 tokens and prompts of 1,000: five fill one, and one is fetched.
            prompt = _whole(round(float(str(self.values["input_length_mean"])))) or 1
            seats = max(seats, -(-self.workload.max_batched_tokens // prompt) + 1)
        return seats * self.plan.pp

    @property
    def cache_bytes(self) -> int:
        return math.ceil(self.bytes_of("kv_cache") * self.requests_a_replica / (self.batch_size * self.plan.pp))

    @property
    def longest_tokens(self) -> int:
        bins = self.workload.bins
        prompts = max((one.max_input_length for one in bins), default=0) or int(self.workload.input_length or 0)
        answers = max((one.output_length for one in bins), default=self.workload.output_length)
        return prompts + math.ceil(answers) + self.workload.mtp_tokens

    @property
    def context_tokens(self) -> int:
        """With room for a chat template and spread lengths."""
        # 1,000 + 100 tokens: 1,132, in whole blocks of 64 1,152.
        return -(-(self.longest_tokens + _SPARE_TOKENS) // _BLOCK_TOKENS) * _BLOCK_TOKENS

    @property
    def engine(self) -> str | None:
        return inputs.rule_of(self.scenario.serving_model)

    @property
    def predicted(self) -> dict[str, float]:
        found = {name: self.values[name] for name in _PREDICTED}
        return {name: float(value) for name, value in found.items() if isinstance(value, int | float)}

    @property
    def bytes_a_prompt(self) -> int:
        return _whole(self.values["kv_bytes_per_request"])

    def bytes_of(self, *parts: str) -> int:
        """weight, kv_cache, activation or device_memory, on the fullest device."""
        return sum(int(self.predicted[f"{part}_bytes"]) for part in parts)


def read_instance(
    location: StoreLocation, reference: str, draft_model: str | None = None, *, fitting: bool = True
) -> StoredInstance:
    """By reference (a1b2c3d4:175). `fitting`: it must fit its device.

    `draft_model` is a draft's id or folder: rows know its shape and gains, and ids of shipped ones."""
    columns, row = find_probe(location, reference)
    values = dict(zip(columns, row, strict=True))
    parsed = parse_reference(reference)
    planned = stored_scenario(location, parsed.scenario)
    if draft_model is None and planned.scenario.model.drafts_apart:
        draft_model = inputs.draft_checkpoint(planned.model_name, planned.scenario.model)
    name = _launched_name(planned.model_name, planned.scenario.model, draft_model)
    checkpoint = inputs.published_as(name, planned.scenario.precision)
    found = StoredInstance(
        probe=reference,
        scenario=replace(planned.scenario, model=_published(planned.scenario.model, checkpoint)),
        model_name=checkpoint,
        draft_model=draft_model,
        batch_size=parsed.batch_size,
        concurrency=_whole(values["concurrency"]),
        seats=None if values["seats"] is None else _whole(values["seats"]),
        formula_version=_whole(values["formula_version"]),
        values=values,
    )
    free = found.bytes_of("device_memory") - found.bytes_of("weight", "kv_cache", "activation")
    if fitting and free < RESERVE_GIB * GIB:
        raise InputError(
            f"{reference} leaves {free / GIB:.1f} GiB of a device free, and {RESERVE_GIB:g} GiB are wanted",
            hint="take a row that an answer gives: all of them fit",
        )
    return found


def _published(model: inputs.ModelSpec, name: str) -> inputs.ModelSpec:
    """Formats of a catalogue checkpoint; rows know shapes alone."""
    known = inputs.catalogued_model(name)
    if known is None:
        return model
    return replace(
        model,
        native_linear=known.native_linear,
        native_experts=known.native_experts,
        native_mixers=known.native_mixers,
        native_head=known.native_head,
        native_drafts=known.native_drafts,
    )


def _launched_name(name: str, model: inputs.ModelSpec, draft_model: str | None) -> str:
    """Without the draft of MODEL+DRAFT."""
    if model.drafts_apart and draft_model is None:
        raise InputError(
            f"{name} drafts with a model of its own, whose place no row knows", hint="`draft_model`: its id or folder"
        )
    if draft_model is not None and not model.drafts_apart:
        raise InputError(f"{name} has no draft beside it", hint="leave out `draft_model`")
    return name.rpartition("+")[0] if model.drafts_apart else name


def _whole(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError(f"a whole number, not {value!r}")
    return value
