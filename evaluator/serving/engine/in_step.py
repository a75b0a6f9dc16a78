"""First tokens of users who stay in step, beside those of users who drift apart as their engine's do.

Lengths that are all equal end together and come together: whether servers stay so is a fact of the server, not of the
model. Not here: how far an engine drifts (evaluator.inputs.engines), loops (evaluator.serving.engine.closed_loop)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from evaluator.arithmetic import FloatArray, Integers
from evaluator.serving.engine.ladder import between, coarser

if TYPE_CHECKING:
    from evaluator.serving.engine.closed_run import ServedTimes

DRIFTING = 0.9  # of a length: a client that draws shorter ones has different lengths, and no users in step
APART = 1.5  # times between first tokens of users in step and apart, from which one number says too much


def in_step_ttft(
    replica: ServedTimes, batch_sizes: Integers, drifting: FloatArray, played: Callable[[int], float]
) -> FloatArray:
    """Mean seconds to the first token if users stayed in step; NaN where that is within APART of `drifting`.

    `played` gives the seconds of drifting users for a size that is played: between sizes the ratio of both is
    interpolated. NaN, too, where nobody could tell: the engine keeps users in step anyway, or requests differ."""
    engine = replica.engine
    if not DRIFTING <= engine.client.shortest < 1.0 or len(replica.kernels.kinds) > 1:
        return np.full(batch_sizes.shape, np.nan)
    locked = replace(
        replica,
        engine=replace(engine, client=replace(engine.client, shortest=1.0)),
        loop=replace(replica.loop, shortest=1.0),
    )
    sizes = coarser(batch_sizes, replica.loop.seats)
    ratio = between(batch_sizes, sizes, [locked.closed(size).ttft_s / played(size) for size in sizes])
    # 400 ms drifting and 700 in step: 1.75 times. 400 and 250: 1.6 times. Both are apart.
    return np.where(np.maximum(ratio, 1.0 / ratio) > APART, ratio * drifting, np.nan)
