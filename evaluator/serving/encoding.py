"""Images: the encoder's step, time beside prefill, memory.

Images are encoded in the step that begins their prefill, in one batch; others in the step wait. Embeddings stay until
the prompt is prefilled. vLLM's budget spreads a prompt's images over steps where requests arrive; loops and formulas
leave that out, and caches of encoded images."""

from __future__ import annotations

from math import inf

import numpy as np
from numpy.typing import ArrayLike

from evaluator.arithmetic import FloatArray
from evaluator.graph.operators import OperatorSet
from evaluator.graph.sums import BatchSums
from evaluator.inputs.images import Images
from evaluator.inputs.launchable import launcher_of
from evaluator.inputs.model import ModelSpec
from evaluator.inputs.workloads.workload import Workload, new_prompt_tokens
from evaluator.pricing.memory import activation_bytes
from evaluator.pricing.step import Beside, step_seconds
from evaluator.scenario import Scenario
from evaluator.serving.interface import Run

EMBEDDING_BYTES = 2  # of one number
MOST_TOGETHER = 256  # images of a step that are tabulated; more take as much longer as they are more


def encoding(run: Run, prompts: ArrayLike) -> Beside:
    """Of prompts that begin in a step.

    None without images, or where devices of their own encode."""
    images = run.scenario.workload.images
    if images is None or run.scenario.plan.encoder_devices:
        return None
    count = encoded_images(run.scenario.workload) * np.asarray(prompts, dtype=np.float64)
    return run.operators["encoder"], image_sums(images, on_busiest_rank(images, count, run.scenario.plan.tp))


def on_busiest_rank(images: Images, count: FloatArray, ranks: int) -> FloatArray:
    """All where ranks share weights, else the busiest rank's."""
    # 5 images over 4 ranks: 2 on the busiest one.
    return count if images.split == "weights" else np.ceil(count / ranks - 1e-9)


def encoded_images(workload: Workload) -> float:
    """Cached images have their keys already.

    Distributions with images have no prefix cache (evaluator.evaluate)."""
    if workload.images is None:
        return 0.0
    if workload.input_length is None:
        return float(workload.images.count)
    new = new_prompt_tokens(workload.input_length, workload.prefix_cache_hit_rate)
    return workload.images.count * new / workload.input_length


def image_sums(images: Images, count: ArrayLike) -> BatchSums:
    # 2 images of 7 tiles of 576 patches and a class patch: 8,064 patches, 14 sequences, 14 x 577^2 pairs.
    number = np.asarray(count, dtype=np.float64)
    row, more = images.patches + images.tower.class_patch, images.view_patches
    return BatchSums(
        tokens=number * images.all_patches,
        sequences=number * (images.sequences + images.views),
        pairs=number * float(images.sequences * row * row + images.views * more * more),
        keys=number * float(images.sequences * row + images.views * more),
    )


def prompt_encoding_s(run: Run) -> float:
    beside = encoding(run, np.ones(1))
    return 0.0 if beside is None else float(step_seconds(beside[0], run.cost, beside[1]).total[0])


def spreads_images(scenario: Scenario) -> bool:
    launcher = launcher_of(scenario.serving_model)
    return launcher is not None and launcher.image_budget


def images_a_step(scenario: Scenario, token_budget: int) -> float:
    """vLLM: tokens of the model's budget, at least one image (docs.vllm.ai, vllm.v1.core.encoder_cache_manager,
    compute_mm_encoder_budget).

    SGLang and TensorRT-LLM encode all of a prompt's images when it begins."""
    images = scenario.workload.images
    if images is None or scenario.plan.encoder_devices or not spreads_images(scenario):
        return inf
    # Images of 768 tokens under a budget of 4,096: 5 in a step; of 6,000 tokens: 1.
    return float(max(1, token_budget // images.tokens))


def encoder_table(run: Run, token_budget: int) -> FloatArray:
    images = run.scenario.workload.images
    if images is None or run.scenario.plan.encoder_devices:
        return np.zeros(2)
    most = int(min(images_a_step(run.scenario, token_budget), MOST_TOGETHER))
    count = np.arange(1.0, most + 1.0)
    sums = image_sums(images, on_busiest_rank(images, count, run.scenario.plan.tp))
    return np.concatenate(([0.0], step_seconds(run.operators["encoder"], run.cost, sums).total))


def with_encoder_bytes(run: Run, sums: BatchSums, activations: FloatArray) -> FloatArray:
    """With embeddings, or the encoder's step where it needs more."""
    images = run.scenario.workload.images
    if images is None:
        return activations
    held = encoded_images(run.scenario.workload) * sums.sequences * embedding_bytes(run.scenario.model, images)
    beside = encoding(run, sums.sequences)
    if beside is None:
        return np.asarray(activations + held)
    operators: OperatorSet = beside[0]
    return np.maximum(activations + held, activation_bytes(operators, beside[1]))


def embedding_bytes(model: ModelSpec, images: Images) -> float:
    # 3,072 patches by fours are 768 rows; one output and three for the first layers, of 4,096 numbers: 25.2 MB.
    rows = images.all_patches // images.tower.token_patches
    return float(rows * (1 + len(images.tower.deep)) * model.hidden_size * EMBEDDING_BYTES)
