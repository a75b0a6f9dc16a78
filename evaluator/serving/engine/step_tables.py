"""Kernel seconds of one replica as small tables over tokens, prompts and decoding sequences, for the closed loop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from evaluator.arithmetic import FloatArray
from evaluator.graph.operators import Operator, OperatorSet
from evaluator.graph.sums import BatchSums, composed, repeated, request_sums
from evaluator.inputs.engines.engine_profiles import EngineProfile
from evaluator.inputs.model import Span
from evaluator.pricing.cost_model import CostModel
from evaluator.pricing.micro_batches import LEAST_TOKENS, Parts
from evaluator.pricing.occurrence import operator_seconds
from evaluator.pricing.step import halved_seconds
from evaluator.serving.engine.request_kinds import RequestKind, weights_of
from store.light_dataclass import dataclass

SPACING = 128
PROMPT_STRETCHES = 8
DRAFT_LABELS = ("mtp", "draft")  # that operators of what drafts begin with


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepTable:
    """Kernel seconds of one replica, without any engine overhead.

    `linear` is the time of everything but attention and the head for 0, `spacing`, 2 `spacing` ... new tokens;
    `attention` the prefill attention of a prompt that has grown to 0, 1/n, 2/n ... of `input_length`; of several
    `kinds` of requests, the nodes of one kind's prompt after those of another's. `decode_linear` belongs to 0, 1,
    2 ... decoding sequences, and so does `decode_own`: their attention and their rows of the head (at 0: one row, for
    the first token of a prompt)."""

    spacing: int
    linear: FloatArray
    input_length: int
    attention: FloatArray
    decode_linear: FloatArray
    decode_own: FloatArray
    kinds: tuple[RequestKind, ...] = ()  # of several lengths; `input_length` is then the longest prompt's

    @property
    def prompts(self) -> tuple[int, ...]:
        return tuple(kind.new_tokens for kind in self.kinds) or (self.input_length,)

    @property
    def stretches(self) -> int:
        return self.attention.size // len(self.prompts) - 1

    def linear_s(self, tokens: float) -> float:
        """Non-attention seconds of `tokens` new tokens; proportional beyond the table."""
        return _interpolated(self.linear, tokens / self.spacing)

    def linear_nodes(self, nodes: int) -> FloatArray:
        last = self.linear.size - 1
        if nodes <= last + 1:
            return self.linear[:nodes]
        return np.concatenate((self.linear, self.linear[last] / last * np.arange(last + 1, nodes)))

    def attention_s(self, tokens: float, kind: int = 0) -> float:
        nodes = self.stretches + 1
        mine = self.attention[kind * nodes : (kind + 1) * nodes]
        return _interpolated(mine, tokens / self.prompts[kind] * self.stretches)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableExtents:
    """How far a table must reach: kinds of requests, decoding sequences and tokens of a step.

    A decoding sequence holds `share` of its kind's prompt and of half its output on average; `drafts` follow each
    decode, made in `passes` (None: one each). The attention of a prompt is tabulated in `stretches` parts."""

    kinds: tuple[RequestKind, ...]
    sequences: int
    tokens: int
    share: float = 1.0
    drafts: int = 0
    passes: int | None = None
    stretches: int = PROMPT_STRETCHES

    def decoding(self, new_tokens: float, windows: Sequence[Span]) -> BatchSums:
        """Sums of one sequence of a decode step: kinds count by probability x output, because long outputs stay."""
        # Prompts of 1,000 and 3,000, outputs of 100 and 300, equally likely: 1/4 x 1,050 + 3/4 x 3,150 = 2,625 keys.
        keys = [self.share * (kind.new_tokens + kind.cached + kind.output_length / 2) for kind in self.kinds]
        each = request_sums(new_tokens, np.asarray(keys) - 1.0, windows=windows, logits=new_tokens, anywhere=True)
        share = weights_of(self.kinds) * [kind.output_length for kind in self.kinds]
        return composed(share / share.sum(), each)


def step_table(
    operators: Mapping[str, OperatorSet],
    cost: CostModel,
    extents: TableExtents,
    *,
    windows: Sequence[Span] = (),
    encoding_s: float = 0.0,
) -> StepTable:
    """Tables of a model under a plan; `operators` holds its sets by trace, prefill and decode. Images of a prompt take
    `encoding_s`, which the first stretch of its attention has: they are encoded when the prompt begins."""
    prefill, decode = (
        (*operators[trace].operators, *(operators[trace].draft_operators * (extents.drafts > 0)))
        for trace in ("prefill", "decode")
    )
    shared = [one for one in prefill if _is_shared(one)]
    # Where groups divide prompts, each of them decodes every token.
    divided = any(one.prompt_shares > 1 for one in shared)
    decoded = [one for one in decode if _is_shared(one)] if divided else shared
    head = [one for one in prefill if not one.per_phase and one.driver == "sequences"]
    tokens = np.arange(0, extents.tokens + SPACING, SPACING, dtype=np.float64)
    sequences = np.arange(0, extents.sequences + 1, dtype=np.float64)
    batch, each = np.maximum(sequences, 1.0), 1 + extents.drafts
    one = extents.decoding(float(each), windows)
    own = _seconds([item for item in decode if item.per_phase], repeated(one, batch), cost)
    passes = extents.drafts if extents.passes is None else extents.passes
    if passes > 1:  # the first draft runs over all tokens of the step, every other one over its own
        again = repeated(extents.decoding(1.0, windows), batch)
        own += (passes - 1) * _seconds(operators["decode"].draft_operators, again, cost)
    linear = _seconds(shared, _tokens(np.maximum(tokens, 1.0)), cost)
    decode_linear = _seconds(decoded, _tokens(each * batch), cost)
    if operators["prefill"].micro_batches > 1:
        first = [item for item in decode if item.per_phase and not item.label.startswith(DRAFT_LABELS)]
        at_once = [(decoded, _tokens(each * batch)), (first, repeated(one, batch))]
        linear -= _saved([(shared, _tokens(np.maximum(tokens, 1.0)))], cost, "prefill")
        decode_linear -= _saved(at_once, cost, "decode")
    return StepTable(
        spacing=SPACING,
        linear=linear * (tokens > 0),
        input_length=max(kind.new_tokens for kind in extents.kinds),
        attention=_attention([item for item in prefill if item.per_phase], extents, cost, windows, encoding_s),
        decode_linear=decode_linear,
        decode_own=own * (sequences > 0) + _seconds(head, _tokens(np.maximum(each * sequences, 1.0)), cost),
        kinds=extents.kinds if len(extents.kinds) > 1 else (),
    )


def _saved(parts: Parts, cost: CostModel, trace: str) -> FloatArray:
    """Seconds that two micro-batches take less than one batch. Attention of prompts, which is tabulated apart, hides
    nothing here."""
    once = sum(_seconds(operators, sums, cost) for operators, sums in parts)
    return np.asarray(once - halved_seconds(parts, cost, LEAST_TOKENS[trace]).total)


def _is_shared(operator: Operator) -> bool:
    return not operator.per_phase and operator.driver != "sequences"


def launched(
    table: StepTable, engine: EngineProfile, layers: int, latent_layers: int = 0, state_layers: int = 0
) -> StepTable:
    """The table of an engine whose host launches the kernels of any step, or of those with prompts: kernels run while
    others are launched, so a step takes the longer of both. Left out: attention of prompts, which adds to either."""
    seconds = engine.launch_s(layers)
    with_prompts = max(seconds, engine.prompt_launch_s(layers, latent_layers, state_layers))
    # Launches of 5 ms; a decode of 3 ms linear and 1 ms own: linear becomes 4, the step 5 ms.
    if seconds > 0.0:
        table = replace(table, decode_linear=np.maximum(table.decode_linear, seconds - table.decode_own))
    return replace(table, linear=np.maximum(table.linear, with_prompts)) if with_prompts > 0.0 else table


def _attention(
    operators: Sequence[Operator],
    extents: TableExtents,
    cost: CostModel,
    windows: Sequence[Span],
    encoding_s: float,
) -> FloatArray:
    lengths = np.asarray([kind.new_tokens for kind in extents.kinds], dtype=np.float64)[:, None]
    cached = np.asarray([kind.cached for kind in extents.kinds], dtype=np.float64)[:, None]
    grown = lengths * np.arange(1, extents.stretches + 1) / extents.stretches
    sums = request_sums(grown.ravel(), np.broadcast_to(cached, grown.shape).ravel(), windows=windows)
    seconds = _seconds(operators, sums, cost).reshape(grown.shape) + encoding_s
    return np.concatenate((np.zeros((lengths.size, 1)), seconds), axis=1).ravel()


def _tokens(tokens: FloatArray) -> BatchSums:
    return BatchSums(tokens=tokens, sequences=tokens, pairs=tokens, keys=tokens)


def _seconds(operators: Iterable[Operator], sums: BatchSums, cost: CostModel) -> FloatArray:
    total = np.zeros(sums.tokens.shape)
    for operator in operators:
        total = total + operator.count * np.asarray(operator_seconds(operator, cost, sums).total())
    return total


def _interpolated(values: FloatArray, position: float) -> float:
    # Values 0, 1, 3: at 1.5 they give 1 + 0.5 x 2 = 2; at 4, beyond them, 3 x 4 / 2 = 6.
    last = values.size - 1
    if position >= last:
        return float(values[last] * position / last)
    low = int(position)
    return float(values[low] + (values[low + 1] - values[low]) * (position - low))
