"""Encoders of images on devices of their own: when a prompt's embeddings are there, and what that leaves of a rate.

The router deals the images of a prompt over the encoders of its instance, each the whole encoder on one device, and the
instance takes the prompt when all embeddings are there (vLLM's disaggregated encoder, docs.vllm.ai
/en/latest/examples/disaggregated/disaggregated_encoder; SGLang's EPD, docs.sglang.io/advanced_features
/epd_disaggregation). So a prompt waits for them while others compute, and encoders serve one prompt after another. Left
out: images of several prompts in one batch of an encoder, and what receiving the request there takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from evaluator.arithmetic import FloatArray
from evaluator.inputs.engines.engine_profiles import EngineProfile
from evaluator.pricing.step import step_seconds
from evaluator.serving.encoding import embedding_bytes, encoded_images, image_sums
from evaluator.serving.engine.request_kinds import RequestKind
from evaluator.serving.engine.step_tables import StepTable
from evaluator.serving.interface import Run
from store.light_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EncoderStage:
    """Seconds of prompts at the encoders of an instance, and of their embeddings (with bytes) on the way from there."""

    encoding_s: FloatArray
    moving_s: FloatArray
    moved_bytes: FloatArray

    @property
    def alone_s(self) -> FloatArray:
        return self.encoding_s + self.moving_s

    @property
    def service_s(self) -> FloatArray:
        """Added by each prompt where they follow each other: embeddings of one come while the next is computed."""
        return np.maximum(self.encoding_s, self.moving_s)


def busiest_encoder(count: FloatArray, devices: int) -> FloatArray:
    # 5 images on 2 encoders: 3 on the busier one.
    return np.asarray(np.ceil(count / devices - 1e-9))


def encoder_stage(run: Run, engine: EngineProfile, images: ArrayLike) -> EncoderStage:
    asked = run.scenario.workload.images
    count = np.asarray(images, dtype=np.float64)
    if asked is None or not run.scenario.plan.encoder_devices:
        none = np.zeros_like(count)
        return EncoderStage(encoding_s=none, moving_s=none, moved_bytes=none)
    busiest = busiest_encoder(count, run.scenario.plan.encoder_devices)
    kernels = step_seconds(run.operators["encoder"], run.cost, image_sums(asked, np.maximum(busiest, 1.0))).total
    host = engine.step_s() + engine.prompt_step_s() + 1e-3 * engine.step_per_prompt_ms
    encoding = (host + engine.prefill_factor * kernels) * (count > 0.0)
    link = run.scenario.device.links[0]
    # 2 images of 25.2 MB over 50 GB/s at 0.8: 1.26 ms.
    moved = count * embedding_bytes(run.scenario.model, asked)
    moving = moved / (link.bandwidth_bytes_per_s * link.efficiency)
    return EncoderStage(encoding_s=encoding, moving_s=moving, moved_bytes=moved)


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedApart:
    """Effects on one replica: tables with what prompts wait longer than computing takes, and seconds that each waits
    while others compute."""

    table: StepTable
    wait_s: float


def with_encoders(
    run: Run, engine: EngineProfile, table: StepTable, kinds: Sequence[RequestKind], token_budget: int
) -> EncodedApart:
    """The tables of a replica whose images are encoded beside it, for all replicas of the instance in turn.

    Prompts follow each other, so that each takes the longer of what it adds to full steps and what its encoders do."""
    if run.scenario.workload.images is None or not run.scenario.plan.encoder_devices:
        return EncodedApart(table=table, wait_s=0.0)
    stage = encoder_stage(run, engine, encoded_images(run.scenario.workload))
    alone, service = float(stage.alone_s), run.scenario.plan.dp * float(stage.service_s)
    (kind,) = kinds
    full = min(token_budget, (table.linear.size - 1) * table.spacing)
    computing = table.linear_s(full) / full * kind.new_tokens + table.attention_s(kind.new_tokens)
    # Kernels of a table are multiplied by the engine's factor; its encoders' seconds are whole.
    late = max(service / engine.prefill_factor - computing, 0.0)
    # 30 ms of encoding, 20 of computing: 10 are added to each, and one alone has its first token 30 + 20 ms later.
    wait = max(alone - engine.prefill_factor * late, 0.0)
    nodes = np.linspace(0.0, 1.0, table.stretches + 1)
    return EncodedApart(table=replace(table, attention=table.attention + late * nodes), wait_s=wait)
