"""Two micro-batches of a step: rows of one half travel to experts and back while the other half computes.

Source: vLLM's design of dual batch overlap (docs.vllm.ai/en/stable/design/dbo), whose schedule of a layer runs
attention of one half beside the dispatch of the other, experts beside dispatch, experts and attention beside
gathering; SGLang's two-batch overlap is of the same parts. Thresholds are vLLM's. Left out: devices' units that
communication takes from products, and that layers without an exchange are halved, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from evaluator.arithmetic import FloatArray
from evaluator.graph.operators import Operator
from evaluator.graph.sums import BatchSums
from store.light_dataclass import dataclass

LEAST_TOKENS: Mapping[str, int] = {"prefill": 512, "decode": 32}  # of a step with prompts, of one without
Parts = Sequence[tuple[Sequence[Operator], BatchSums]]
_DISPATCH, _EXPERTS, _GATHER = ".mlp.dispatch", ".mlp.expert", ".mlp.gather"


@dataclass(frozen=True, slots=True, kw_only=True)
class HalvedLayer:
    """Operators of one kind of layer, by part of the step: what travels out, experts, what travels back, all else."""

    attention: Parts
    dispatch: Parts
    experts: Parts
    gather: Parts

    def by_part(self) -> tuple[Parts, Parts, Parts, Parts]:
        return self.attention, self.dispatch, self.experts, self.gather


def layers_of(parts: Parts) -> tuple[Parts, tuple[HalvedLayer, ...]]:
    """Operators of no layer that exchanges rows, and those layers with halves of their sums: each operator once."""
    listed = [(tuple(operators), sums) for operators, sums in parts]
    names = dict.fromkeys(
        one.label.partition(_DISPATCH)[0] for operators, _ in listed for one in operators if _DISPATCH in one.label
    )
    rest = [
        ([one for one in operators if not one.label.startswith(tuple(f"{name}." for name in names))], sums)
        for operators, sums in listed
    ]
    halves = [(operators, sums.mapped(lambda array: 0.5 * array)) for operators, sums in listed]
    return (rest if names else listed), tuple(_layer(name, halves) for name in names)


def _layer(name: str, parts: Sequence[tuple[tuple[Operator, ...], BatchSums]]) -> HalvedLayer:
    places = tuple(name + part for part in (_DISPATCH, _EXPERTS, _GATHER))

    def chosen(place: str, but: tuple[str, ...] = ()) -> Parts:
        return [
            ([one for one in operators if one.label.startswith(place) and not one.label.startswith(but)], sums)
            for operators, sums in parts
        ]

    dispatch, experts, gather = map(chosen, places)
    other = chosen(f"{name}.", places)
    return HalvedLayer(attention=other, dispatch=dispatch, experts=experts, gather=gather)


def hidden(attention: FloatArray, dispatch: FloatArray, experts: FloatArray, gather: FloatArray) -> FloatArray:
    """Seconds that both halves of a layer save, from those of one half."""
    # A 6, D 2, E 3, G 4 ms: max(6, 2) + max(3, 2) + max(3, 4) + max(6, 4) = 19 of 2 x 15, so 11 are saved.
    beside = ((attention, dispatch), (experts, dispatch), (experts, gather), (attention, gather))
    return np.asarray(sum(np.minimum(computing, sent) for computing, sent in beside))
