"""Measured disaggregated points: a probe of each pool, joined in closed form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Protocol

from evaluator.inputs.launch import Client, Plan
from evaluator.ledger.deployments import Deployment
from evaluator.pricing.memory import transfer_bytes
from evaluator.scenario import Scenario, required_engine
from evaluator.serving.occupancy import kv_cache_bits
from evaluator.serving.pairs import (
    DecodeSide,
    PairLoad,
    PairTimes,
    PrefillSide,
    moving_bytes_per_s,
    pair_of_users,
    receiving_ms,
    transfer_ms,
)

MS = 1000.0
Values = dict[str, float]


class Probe(Protocol):
    def value(self, column: str, batch_size: int) -> float: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """Decode batches from 1 to `most`; `seats` are a decode replica's."""

    prompts_scenario: Scenario
    prefill_plan: Plan
    prompts: Probe
    tokens: Probe
    most: int
    seats: int | None = None


def values_of_sides(deployment: Deployment, lengths: Sequence[int], sides: Sides) -> Values:
    """By the decode probe nearest to the point's concurrency.

    Of requests of mean length, as answered pairs are."""
    size, pair = decoding_of(deployment, lengths, sides)
    tpot = sides.tokens.value("tpot_exclusive_ms", size)
    output = mean_length(required_engine(sides.prompts_scenario).client) * lengths[1]
    whole = pair.ttft_ms + max(output - 1.0, 0.0) * tpot
    return {
        "ttft_ms": pair.ttft_ms,
        "tpot_exclusive_ms": tpot,
        "e2e_ms": whole,
        "tpot_inclusive_ms": whole / output,
        "output_tokens_per_s": pair.requests_per_s * output,
        "requests_per_s": pair.requests_per_s,
        "kv_transfer_ms": transfer_of(deployment, sides),
    }


def decoding_of(deployment: Deployment, lengths: Sequence[int], sides: Sides) -> tuple[int, PairTimes]:
    tokens, replicas = sides.tokens, deployment.instances * deployment.plan.dp
    side, load = prefill_side_of(deployment, lengths, sides)
    steps = [
        DecodeSide(decoding=float(size * replicas), tpot_ms=tokens.value("tpot_exclusive_ms", size))
        for size in range(1, sides.most + 1)
    ]
    seats = inf if sides.seats is None else float(sides.seats * replicas)
    pair = pair_of_users(side, steps, load, float(deployment.users), seats=seats)
    decoding = pair.requests_per_s / MS * max(load.output_length - 1.0, 1.0) * pair.tpot_ms
    return max(1, min(sides.most, round(decoding / replicas))), pair


def prefill_side_of(deployment: Deployment, lengths: Sequence[int], sides: Sides) -> tuple[PrefillSide, PairLoad]:
    """With the load, at mean lengths."""
    prompts, engine = sides.prompts, required_engine(sides.prompts_scenario)
    mean = mean_length(engine.client)
    receiving = receiving_ms(engine.request_ms, engine.handover_ms)
    side = PrefillSide(
        alone_ms=mean * (prompts.value("ttft_ms", 1) - receiving) + receiving,
        service_ms=mean * prompts.value("prompt_service_ms", 1),
        servers=deployment.prefill_instances * sides.prefill_plan.dp,
        request_ms=receiving,
    )
    load = PairLoad(
        output_length=mean * lengths[1],
        transfer_ms=mean * transfer_of(deployment, sides),
        prompts_per_user=engine.client.prompts_per_user,
    )
    return side, load


def mean_length(client: Client) -> float:
    return (1.0 + client.shortest) / 2


def transfer_of(deployment: Deployment, sides: Sides) -> float:
    """Milliseconds, at the stated line rate if any."""
    plan, link = sides.prefill_plan, deployment.device.links[0]
    prompt = sides.prompts_scenario.workload.input_length or 0
    moved = transfer_bytes(deployment.model, kv_cache_bits(deployment.precision), prompt)
    if deployment.transfer_bytes_per_s is not None:
        return transfer_ms(moved, 1, moving_bytes_per_s(deployment.transfer_bytes_per_s * link.efficiency))
    per_device = moving_bytes_per_s(link.bandwidth_bytes_per_s * link.efficiency)
    return transfer_ms(moved, plan.tp * plan.pp, per_device)
