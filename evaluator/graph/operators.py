"""Operators with exact affine work, without seconds.

Work is affine in 1, new tokens T, rows of logits B, attended pairs A and keys read R."""

from __future__ import annotations

import functools
import json
from dataclasses import field, fields
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from evaluator.arithmetic import FloatArray
from evaluator.graph.sums import BatchSums
from store.light_dataclass import dataclass

OperatorKind = Literal[
    "gemm",
    "batched_gemm",  # MLA's absorbed projections, one small product a head; DeepSeek-V4's, one a group of heads
    "moe_grouped_gemm",
    "attention_prefill",
    "attention_decode",
    "mla_prefill",  # expanded: heads of their own keys and values
    "mla_decode",  # absorbed: every head reads the one compressed vector
    "encoder_attention",  # of patches to all patches of their image
    "block_attention",  # of a prompt to blocks of keys that each group of heads chose
    "block_decode",
    "block_scores",  # of every key, for the blocks that a decode chooses
    "block_choice",
    "sparse_attention",  # absorbed: each query gathers the entries that it attends to
    "index_scores",
    "index_choice",
    "entry_attention",  # of a prompt to entries of compressed tokens and to a window (DeepSeek-V4)
    "entry_decode",
    "entry_choice",  # among scores of entries of several tokens
    "paged_scores",  # of an index whose keys are read by pages: of decodes, and of entries
    "state_scan",  # of linear attention: new tokens in chunks into a state of one size
    "state_update",
    "channel_scan",  # the same with a decay of every channel
    "channel_update",
    "space_scan",  # the same of state space layers
    "space_update",
    "state_convolution",  # of each channel over the last few tokens of a prompt, before its scan
    "state_convolution_update",  # of one token and those that were kept
    "channel_convolution",
    "channel_convolution_update",
    "space_convolution",
    "space_convolution_update",
    "stream_collapse",  # of several residual streams, before a block and after it
    "stream_expand",
    "norm",
    "rope",
    "activation",
    "elementwise",
    "quantise",
    "embedding",
    "kv_write",
    "moe_routing",  # gate's softmax and top-k, permutation and combination of tokens
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "send_receive",  # activation transfer between pipeline stages
]
COLLECTIVE_KINDS: frozenset[str] = frozenset(
    {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_receive"}
)
Rational = int | Fraction
Driver = Literal["tokens", "sequences", "attention", "constant"]
ExpertRole = Literal["gate_up", "down", "exchange", "rows", ""]  # rows: sees all rows of the device as tokens


@dataclass(frozen=True, slots=True)
class Affine:
    """constant + tokens T + sequences B + pairs A + keys R, exactly."""

    constant: Rational = 0
    tokens: Rational = 0
    sequences: Rational = 0
    pairs: Rational = 0
    keys: Rational = 0

    @property
    def coefficients(self) -> tuple[Rational, Rational, Rational, Rational, Rational]:
        return (self.constant, self.tokens, self.sequences, self.pairs, self.keys)

    @property
    def is_zero(self) -> bool:
        return not any(self.coefficients)

    def at(self, sums: BatchSums) -> FloatArray:
        value: FloatArray | float = float(self.constant)
        for coefficient, extent in (
            (self.tokens, sums.tokens),
            (self.sequences, sums.sequences),
            (self.pairs, sums.pairs),
            (self.keys, sums.keys),
        ):
            if coefficient:
                value = value + float(coefficient) * extent
        return np.asarray(value, dtype=np.float64)

    def __add__(self, other: Affine) -> Affine:
        return Affine(*(a + b for a, b in zip(self.coefficients, other.coefficients, strict=True)))

    def scaled(self, factor: Rational) -> Affine:
        return Affine(*(factor * coefficient for coefficient in self.coefficients))


ZERO = Affine()


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmExtents:
    """`batch` products [m, k] x [k, n]."""

    m: Affine
    n: int
    k: int
    batch: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionExtents:
    """Heads on a device. Absorbed MLA: one KV head; head_dim with the rope part, value_head_dim without."""

    query_heads: int
    kv_heads: int
    head_dim: int
    value_head_dim: int
    window: int | None = None
    kv_bits: int = 16
    sinks: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertExtents:
    """Experts on a device; `tokens` are those its group routes. `intermediate_size` is the device's share (moe_tp)."""

    tokens: Affine
    experts: int
    local_experts: int
    ranks: int  # devices that route their own share of `tokens` to this group of experts
    experts_per_token: int
    hidden_size: int
    intermediate_size: int
    role: ExpertRole = ""
    gated: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveExtents:
    """`payload_bytes` is a device's message: buffer reduced, shard gathered, or all bytes exchanged.

    `group_size` devices, `stride` ranks apart; tensor-parallel ranks are adjacent."""

    group_size: int
    stride: int
    payload_bytes: Affine


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestsOfLength:
    """At most `keys` keys, or (not `up_to`) more."""

    keys: int
    up_to: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """One launch group, repeated `counts[s]` times on pipeline stage s.

    Work is of one occurrence on one device. `per_expert`: of one touched expert and its tokens. Resident
    `weight_bytes` are part of `bytes_read` (grouped experts: `expert_bytes`). Upstream pads tokens to a `multiple`;
    `if_needed` pads or joins rows where some experts are idle."""

    kind: OperatorKind
    label: str
    counts: tuple[int, ...]
    launches: int = 1
    matrix_flops: Affine = ZERO
    matrix_dtype: str = "bf16"
    vector_flops: Affine = ZERO
    vector_dtype: str = "bf16"
    bytes_read: Affine = ZERO
    bytes_written: Affine = ZERO
    weight_bytes: Rational = 0
    weight_format: str = ""  # name of the quantisation of a linear or of experts; empty elsewhere
    activation_dtype: str = "bf16"  # what the operator reads its activations in
    expert_bytes: Rational = 0  # bytes of one expert's weights, read for each touched expert
    expert_vector_flops: Rational = 0  # widening one expert's weights, for each touched expert
    per_expert: bool = False
    per_phase: bool = False  # runs apart for prefills and decodes of a mixed batch: attention, and MLA's two forms
    gemm: GemmExtents | None = None
    attention: AttentionExtents | None = None
    experts: ExpertExtents | None = None
    collective: CollectiveExtents | None = None
    multiple: int = 1
    if_needed: bool = False
    requests: RequestsOfLength | None = None  # None: for all
    shares: int = 1  # devices that divide pairs and keys among them
    prompt_shares: int = 1  # groups that divide new tokens and their pairs, and read every key
    driver: Driver = field(init=False, compare=False, repr=False)  # which number of the batch decides its time

    def __post_init__(self) -> None:
        object.__setattr__(self, "driver", self._driver())

    @property
    def count(self) -> int:
        return sum(self.counts)

    def _driver(self) -> Driver:
        affines = [self.matrix_flops, self.vector_flops, self.bytes_read, self.bytes_written]
        if self.gemm is not None:
            affines.append(self.gemm.m)
        if self.experts is not None:
            affines.append(self.experts.tokens)
        if self.collective is not None:
            affines.append(self.collective.payload_bytes)
        if self.attention is not None or self.requests is not None or any(a.pairs or a.keys for a in affines):
            return "attention"
        if any(a.sequences for a in affines):
            return "attention" if any(a.tokens for a in affines) else "sequences"
        return "tokens" if any(a.tokens for a in affines) else "constant"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSet:
    """Of a forward step and an MTP draft pass.

    `unmodelled` names operators without a formula."""

    key: str
    trace: Literal["prefill", "decode", "encoder"]
    stages: int
    operators: tuple[Operator, ...]
    draft_operators: tuple[Operator, ...] = ()
    windows: tuple[int, ...] = ()  # distinct sliding windows the sums must cover
    alive_bytes: tuple[Affine, ...] = ()  # activations alive at one time; their maximum is the peak
    unmodelled: tuple[str, ...] = ()
    micro_batches: int = 1  # parts of a batch, of which one exchanges rows of experts while another computes


def operators_to_json(operator_set: OperatorSet) -> str:
    """Canonical: sorted keys, no spaces, no defaults, exact numbers."""
    return json.dumps(_encode(operator_set), sort_keys=True, separators=(",", ":"))


def operators_from_json(text: str) -> OperatorSet:
    data = json.loads(text)
    return OperatorSet(
        key=data["key"],
        trace=data["trace"],
        stages=data["stages"],
        operators=tuple(_operator(item) for item in data["operators"]),
        draft_operators=tuple(_operator(item) for item in data.get("draft_operators", [])),
        windows=tuple(data.get("windows", [])),
        alive_bytes=tuple(_affine(item) for item in data.get("alive_bytes", [])),
        unmodelled=tuple(data.get("unmodelled", [])),
        micro_batches=data.get("micro_batches", 1),
    )


def _encode(value: object) -> Any:  # noqa: ANN401  JSON values have no narrower type
    if isinstance(value, Affine):
        return [_encode(coefficient) for coefficient in value.coefficients]
    if isinstance(value, Fraction):
        return value.numerator if value.denominator == 1 else f"{value.numerator}/{value.denominator}"
    if isinstance(value, tuple):
        return [_encode(item) for item in value]
    kind: Any = type(value)
    if kind in _RECORDS:
        items = ((name, getattr(value, name), default) for name, default in _written(kind))
        return {name: _encode(content) for name, content, default in items if content != default}
    return value


_RECORDS = frozenset(
    {OperatorSet, Operator, GemmExtents, AttentionExtents, ExpertExtents, CollectiveExtents, RequestsOfLength}
)


@functools.cache
def _written(kind: type[Any]) -> tuple[tuple[str, object], ...]:
    return tuple((item.name, item.default) for item in fields(kind) if item.init)


def _rational(value: int | str) -> Rational:
    return Fraction(value) if isinstance(value, str) else value


def _affine(values: list[int | str]) -> Affine:
    return Affine(*(_rational(value) for value in values))


_AFFINE_FIELDS = ("matrix_flops", "vector_flops", "bytes_read", "bytes_written")


def _operator(data: dict[str, Any]) -> Operator:
    values = dict(data)
    values["counts"] = tuple(data["counts"])
    for name in _AFFINE_FIELDS:
        if name in data:
            values[name] = _affine(data[name])
    for name in ("expert_bytes", "expert_vector_flops", "weight_bytes"):
        if name in data:
            values[name] = _rational(data[name])
    if "gemm" in data:
        values["gemm"] = GemmExtents(**{**data["gemm"], "m": _affine(data["gemm"]["m"])})
    if "requests" in data:
        values["requests"] = RequestsOfLength(**data["requests"])
    if "attention" in data:
        values["attention"] = AttentionExtents(**data["attention"])
    if "experts" in data:
        values["experts"] = ExpertExtents(**{**data["experts"], "tokens": _affine(data["experts"]["tokens"])})
    if "collective" in data:
        payload = _affine(data["collective"]["payload_bytes"])
        values["collective"] = CollectiveExtents(**{**data["collective"], "payload_bytes": payload})
    return Operator(**values)
