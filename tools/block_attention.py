"""The time that a measured layer of attention to chosen blocks takes beside it: projections, norms, the index.

Tables hold whole layers; their attention is what the kernels of all the rest, as calibrated, leave of them."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Literal

import numpy as np
import numpy.typing as npt

from evaluator.evaluate import cost_model
from evaluator.graph import CaptureRequest, capture_operators
from evaluator.graph.operators import Operator
from evaluator.graph.sums import repeated, request_sums
from evaluator.inputs import Plan, load_device, load_model
from evaluator.inputs.formats import linear_format
from evaluator.pricing.occurrence import operator_seconds

MODEL = "MiniMaxAI/MiniMax-M3"
_OTHERS = ("mlp", "post_attention_norm", "residual", "all_reduce")


def pairs_of_blocks(x: Mapping[str, npt.NDArray[np.float64]]) -> npt.NDArray[np.float64]:
    """Attended pairs of prompts: of every query no more keys than are chosen."""
    (chosen,) = load_model(MODEL)[1].windows
    seen = request_sums(x["isl"], x["step"], windows=(chosen,)).within(chosen)
    return np.asarray(x["batch_size"] * seen.pairs)


def rest_of_layer(
    x: Mapping[str, npt.NDArray[np.float64]], device: str, *, trace: Literal["prefill", "decode"] = "prefill"
) -> npt.NDArray[np.float64]:
    """Seconds of a layer's attention but its core, for each row of a table. Of decodes, the index is of the core."""
    cost = cost_model(load_device(device, family="calibrated"), "physical")
    sums = repeated(request_sums(x["isl"], x["step"], windows=load_model(MODEL)[1].spans), x["batch_size"])
    total = np.zeros(sums.tokens.shape)
    for heads in np.unique(x["num_heads"]):
        seconds = sum(
            np.asarray(operator_seconds(one, cost, sums).total()) + 0 * sums.tokens for one in _rest(int(heads), trace)
        )
        total = np.where(x["num_heads"] == heads, seconds, total)
    return total


@functools.cache
def _rest(heads: int, trace: Literal["prefill", "decode"]) -> tuple[Operator, ...]:
    model = load_model(MODEL)[1]
    layers = [index for index, group in enumerate(model.layers) if getattr(group.attention, "chosen_keys", None)]
    (layer,) = layers
    tp = model.layers[layer].attention.query_heads // heads  # type: ignore[union-attr]
    form = linear_format("BF16")
    request = CaptureRequest(
        model=model, plan=Plan(tp=tp, ep=tp), linear=form, experts=form, kv_bits=16, trace=trace, compile=True
    )
    found = capture_operators(request).operators
    own = [one for one in found if one.label.startswith(f"layers{layer}.") and not one.kind.startswith("block_")]
    return tuple(one for one in own if not any(part in one.label for part in _OTHERS))
