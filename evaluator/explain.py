"""A stored step by operator: FLOPs, bytes, time, bound and share, adding up to the step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from evaluator.evaluate import batch_source, cost_of, traces_of
from evaluator.graph.operators import COLLECTIVE_KINDS, Operator, OperatorSet
from evaluator.graph.sums import BatchSums
from evaluator.pricing.cost_model import KINDS, CostModel
from evaluator.pricing.micro_batches import LEAST_TOKENS, hidden, layers_of
from evaluator.pricing.occurrence import expert_loads, operator_seconds, seen_by, touched_experts
from evaluator.scenario import Scenario, serving_engine
from evaluator.serving.columns import MS
from evaluator.serving.encoding import encoded_images, encoding, image_sums
from evaluator.serving.engine.encoders_apart import EncoderStage, busiest_encoder, encoder_stage
from evaluator.serving.interface import Run
from evaluator.serving.phases import decode_period
from evaluator.serving.waves.wave_latencies import reading_s
from store.errors import InputError

Step = Literal["encode", "prefill", "decode"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedOperator:
    """All occurrences on one device. `bound` is the kind that takes most time."""

    label: str
    kind: str
    count: float
    matrix_flops: float
    vector_flops: float
    moved_bytes: float  # memory traffic; of a collective: its payload
    time_ms: float
    bound: str
    share: float
    matrix_ms: float
    vector_ms: float
    memory_ms: float
    communication_ms: float
    overhead_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    label: str
    kind: str
    count: float
    work: tuple[float, float, float]
    seconds: tuple[float, ...]


def explain_step(
    scenario: Scenario, batch_size: int, operators: Mapping[str, OperatorSet], step: Step
) -> tuple[ExplainedOperator, ...]:
    """Most expensive first. Prefill is a full wave, encode a prompt's images."""
    if step == "encode" and scenario.workload.images is None:
        raise InputError("a probe without images has no encode step")
    if step != "encode" and step not in traces_of(scenario.phase):
        raise InputError(f"a probe of phase {scenario.phase} has no {step} step")
    run = Run(
        scenario=scenario,
        operators=operators,
        source=batch_source(scenario),
        cost=cost_of(scenario),
        batch_sizes=np.asarray([batch_size], dtype=np.int64),
    )
    rows = _ROWS[step](run)
    return _explained(_merged(rows))


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderRates:
    """A single prompt's wait, and prompts a second."""

    alone_ms: float
    prompts_per_s: float
    images_per_s: float
    devices: int
    replicas: int


def encoder_rates(scenario: Scenario, operators: Mapping[str, OperatorSet]) -> EncoderRates | None:
    """Of encoders apart; None where an instance encodes by itself."""
    if scenario.workload.images is None or not scenario.plan.encoder_devices:
        return None
    stage = _stage(_one_user(scenario, operators))
    images = encoded_images(scenario.workload)
    each = 1.0 / float(stage.service_s)
    return EncoderRates(
        alone_ms=MS * float(stage.alone_s),
        prompts_per_s=each,
        images_per_s=images * each,
        devices=scenario.plan.encoder_devices,
        replicas=scenario.plan.dp,
    )


def _one_user(scenario: Scenario, operators: Mapping[str, OperatorSet]) -> Run:
    return Run(
        scenario=scenario,
        operators=operators,
        source=batch_source(scenario),
        cost=cost_of(scenario),
        batch_sizes=np.ones(1, dtype=np.int64),
    )


def _stage(run: Run) -> EncoderStage:
    engine = serving_engine(run.scenario)
    if engine is None:
        raise InputError("formulas have no encoders on devices of their own")
    return encoder_stage(run, engine, encoded_images(run.scenario.workload))


def _encode_rows(run: Run) -> list[_Row]:
    """A prompt's images, on the busiest encoder, with engine overhead and the move to the instance."""
    beside = encoding(run, np.ones(1))
    if beside is not None:
        return _rows(beside[0].operators, run.cost, beside[1], 1.0)
    images, scenario = run.scenario.workload.images, run.scenario
    if images is None:
        return []
    count = encoded_images(scenario.workload)
    busiest = busiest_encoder(np.asarray(count), scenario.plan.encoder_devices)
    rows = _rows(run.operators["encoder"].operators, run.cost, image_sums(images, np.maximum(busiest, 1.0)), 1.0)
    stage = _stage(run)
    added = float(stage.encoding_s) - sum(sum(row.seconds) for row in rows)
    moved = float(stage.moved_bytes)
    seconds = tuple(float(stage.moving_s) if kind == "communication" else 0.0 for kind in KINDS)
    moving = _Row(
        label="embeddings to the instance", kind="send_receive", count=1.0, work=(0.0, 0.0, moved), seconds=seconds
    )
    return [*rows, _waiting("engine beside encoding", added), moving]


def _prefill_rows(run: Run) -> list[_Row]:
    operators, wave = run.steps["prefill"], run.source.waves(run.requests)[0]
    rows: list[_Row] = []
    waiting = 0.0
    for index, sums in enumerate(wave.steps):
        step = _step_rows(operators, run.cost, sums)
        if index == 0 and (beside := encoding(run, sums.sequences)) is not None:
            step += _rows(beside[0].operators, run.cost, beside[1], 1.0)
        waiting += max(float(np.sum(reading_s(run, sums))) - sum(sum(row.seconds) for row in step), 0.0)
        rows += step
    rows += [_waiting("keys from outside the devices", waiting)] if waiting else []
    if run.scenario.drafting:
        rows += [row for sums in wave.steps for row in _rows(operators.draft_operators, run.cost, sums, 1.0)]
    return rows


def _decode_rows(run: Run) -> list[_Row]:
    operators, drafts = run.steps["decode"], run.scenario.workload.mtp_tokens
    requests = run.batch_sizes.astype(np.float64)
    sums = run.source.decodes(requests, 1 + drafts)
    rows = _step_rows(operators, run.cost, sums)
    if drafts:
        rows += _rows(operators.draft_operators, run.cost, sums, 1.0)
    if (passes := run.scenario.draft_passes) > 1:
        rows += _rows(operators.draft_operators, run.cost, run.source.decodes(requests, 1), passes - 1.0)
    cost_s = run.scenario.serving_cost_ms / MS if run.scenario.phase == "decode" else 0.0
    period = float(decode_period(run, 0.0).total[0])
    bubble = period - sum(sum(row.seconds) for row in rows)
    rows += [_waiting("serving cost", cost_s)] if cost_s else []
    rows += [_waiting("pipeline bubble", bubble)] if bubble > 1e-12 * period else []
    return rows


_ROWS = {"encode": _encode_rows, "prefill": _prefill_rows, "decode": _decode_rows}


def _waiting(label: str, seconds: float) -> _Row:
    kinds = tuple(seconds if kind == "overhead" else 0.0 for kind in KINDS)
    return _Row(label=label, kind="overhead", count=1.0, work=(0.0, 0.0, 0.0), seconds=kinds)


def _step_rows(operators: OperatorSet, cost: CostModel, sums: BatchSums) -> list[_Row]:
    if operators.micro_batches == 1 or not np.all(sums.tokens >= LEAST_TOKENS[operators.trace]):
        return _rows(operators.operators, cost, sums, 1.0)
    rest, layers = layers_of([(operators.operators, sums)])
    rows = [row for chosen, seen in rest for row in _rows(tuple(chosen), cost, seen, 1.0)]
    saved = 0.0
    for layer in layers:
        halves = [[row for chosen, seen in part for row in _rows(tuple(chosen), cost, seen, 1.0)]
                  for part in layer.by_part()]  # fmt: skip
        saved += float(hidden(*(np.asarray(sum(sum(row.seconds) for row in half)) for half in halves)))
        rows += [_added(row, row) for half in halves for row in half]
    seconds = tuple(-saved if kind == "communication" else 0.0 for kind in KINDS)
    beside = _Row(
        label="exchange beside the other half", kind="overlap", count=1.0, work=(0.0, 0.0, 0.0), seconds=seconds
    )
    return [*rows, beside]


def _rows(operators: Sequence[Operator], cost: CostModel, sums: BatchSums, passes: float) -> list[_Row]:
    rows = []
    for operator in operators:
        seconds = operator_seconds(operator, cost, sums)
        count = operator.count * passes
        parts = (getattr(seconds, kind) for kind in KINDS)
        work = _work(operator, sums, cost)
        rows.append(
            _Row(
                label=operator.label,
                kind=operator.kind,
                count=count,
                work=(work[0] * count, work[1] * count, work[2] * count),
                seconds=tuple(0.0 if part is None else count * float(np.asarray(part).sum()) for part in parts),
            )
        )
    return rows


def _work(operator: Operator, sums: BatchSums, cost: CostModel) -> tuple[float, float, float]:
    """Matrix FLOPs, vector FLOPs and bytes, over touched experts."""
    seen = seen_by(operator, sums, cost.load)
    if operator.per_expert and operator.experts is not None:
        loads = expert_loads(operator.experts, operator.experts.tokens.at(seen), cost.convention)
        parts = [
            (load.touched, BatchSums(tokens=load.tokens, sequences=sums.sequences, pairs=sums.pairs, keys=sums.keys))
            for load in loads
        ]
    else:
        parts = [(np.asarray(1.0), seen)]
    moved = operator.bytes_read + operator.bytes_written
    if operator.kind in COLLECTIVE_KINDS and operator.collective is not None:
        moved = operator.collective.payload_bytes
    totals = [
        sum(float(np.sum(times * affine.at(part))) for times, part in parts)
        for affine in (operator.matrix_flops, operator.vector_flops, moved)
    ]
    if operator.experts is not None and operator.expert_bytes:
        touched = float(np.sum(touched_experts(operator.experts, operator.experts.tokens.at(seen), cost.convention)))
        totals[1] += touched * float(operator.expert_vector_flops)
        totals[2] += touched * float(operator.expert_bytes)
    return totals[0], totals[1], totals[2]


def _merged(rows: list[_Row]) -> list[_Row]:
    merged: dict[tuple[str, str], _Row] = {}
    for row in rows:
        known = merged.get((row.label, row.kind))
        merged[row.label, row.kind] = row if known is None else _added(known, row)
    return list(merged.values())


def _added(one: _Row, other: _Row) -> _Row:
    return _Row(
        label=one.label,
        kind=one.kind,
        count=one.count + other.count,
        work=(one.work[0] + other.work[0], one.work[1] + other.work[1], one.work[2] + other.work[2]),
        seconds=tuple(a + b for a, b in zip(one.seconds, other.seconds, strict=True)),
    )


def _explained(rows: list[_Row]) -> tuple[ExplainedOperator, ...]:
    total = sum(sum(row.seconds) for row in rows)
    explained = [
        ExplainedOperator(
            label=row.label,
            kind=row.kind,
            count=row.count,
            matrix_flops=row.work[0],
            vector_flops=row.work[1],
            moved_bytes=row.work[2],
            time_ms=MS * sum(row.seconds),
            bound=max(zip(row.seconds, KINDS, strict=True))[1],
            share=sum(row.seconds) / total if total else 0.0,
            **{f"{kind}_ms": MS * seconds for kind, seconds in zip(KINDS, row.seconds, strict=True)},
        )
        for row in rows
    ]
    return tuple(sorted(explained, key=lambda row: (-row.time_ms, row.label, row.kind)))
