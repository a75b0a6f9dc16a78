"""Images of prompts: the encoder's step, its time beside prefill steps, and what it keeps in memory.

An engine encodes the images of a prompt in the step that begins to prefill it, in one batch with those of all prompts
that begin there; other prompts and decodes of the step wait. Their embeddings are kept until the prompt is prefilled.
Left out: caches of encoded images over requests, budgets that spread the images of one prompt over steps, and encoders
on devices of their own."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from evaluator.arithmetic import FloatArray
from evaluator.graph.operators import OperatorSet
from evaluator.graph.sums import BatchSums
from evaluator.inputs.vision.images import Images
from evaluator.inputs.workloads.workload import Workload, new_prompt_tokens
from evaluator.pricing.memory import activation_bytes
from evaluator.pricing.step import Beside, step_seconds
from evaluator.serving.interface import Run

EMBEDDING_BYTES = 2  # of one number


def encoding(run: Run, prompts: ArrayLike) -> Beside:
    """The encoder over the images of so many prompts that begin in a step; None where prompts have none."""
    images = run.scenario.workload.images
    if images is None:
        return None
    count = encoded_images(run.scenario.workload) * np.asarray(prompts, dtype=np.float64)
    return run.operators["encoder"], image_sums(images, on_busiest_rank(images, count, run.scenario.plan.tp))


def on_busiest_rank(images: Images, count: FloatArray, ranks: int) -> FloatArray:
    """Images of a step that one rank sees: all where ranks share weights, else those of the rank that has most."""
    # 5 images over 4 ranks: 2 on the busiest one.
    return count if images.split == "weights" else np.ceil(count / ranks - 1e-9)


def encoded_images(workload: Workload) -> float:
    """Images of a prompt that are encoded: of those in the prefix cache, keys and values are there already.

    Distributions with images have no prefix cache (evaluator.evaluate)."""
    if workload.images is None:
        return 0.0
    if workload.input_length is None:
        return float(workload.images.count)
    new = new_prompt_tokens(workload.input_length, workload.prefix_cache_hit_rate)
    return workload.images.count * new / workload.input_length


def image_sums(images: Images, count: ArrayLike) -> BatchSums:
    """Sums of the encoder's step over so many images: patches, and the sequences that they attend within."""
    # 2 images of 7 tiles of 576 patches and a class patch: 8,064 patches, 14 sequences, 14 x 577^2 pairs.
    number = images.sequences * np.asarray(count, dtype=np.float64)
    row = images.patches + images.tower.class_patch
    return BatchSums(
        tokens=number * images.patches, sequences=number, pairs=number * float(row * row), keys=number * float(row)
    )


def prompt_encoding_s(run: Run) -> float:
    """Seconds that the images of one prompt take by themselves; 0 without any."""
    beside = encoding(run, np.ones(1))
    return 0.0 if beside is None else float(step_seconds(beside[0], run.cost, beside[1]).total[0])


def with_encoder_bytes(run: Run, sums: BatchSums, activations: FloatArray) -> FloatArray:
    """Activations of a prefill step with the embeddings of its images beside them.

    Where the encoder's step needs more, those."""
    images = run.scenario.workload.images
    beside = encoding(run, sums.sequences)
    if images is None or beside is None:
        return activations
    operators: OperatorSet = beside[0]
    encoded = encoded_images(run.scenario.workload) * sums.sequences
    rows = images.sequences * images.patches // images.tower.token_patches
    outputs = 1 + len(images.tower.deep)
    held = encoded * float(rows * outputs * run.scenario.model.hidden_size * EMBEDDING_BYTES)
    return np.maximum(activations + held, activation_bytes(operators, beside[1]))
