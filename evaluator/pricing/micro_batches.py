"""Two micro-batches: half of a step exchanges expert rows while the other computes.

Source: vLLM's dual batch overlap (docs.vllm.ai/en/stable/design/dbo): attention runs beside dispatch, experts beside
dispatch and gathering; SGLang's two-batch overlap is alike. Thresholds are vLLM's. Left out: units that communication
takes from products, and halving of layers without an exchange."""

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
    """One kind of layer, by part: dispatch, experts, gathering, the rest."""

    attention: Parts
    dispatch: Parts
    experts: Parts
    gather: Parts

    def by_part(self) -> tuple[Parts, Parts, Parts, Parts]:
        return self.attention, self.dispatch, self.experts, self.gather


def layers_of(parts: Parts) -> tuple[Parts, tuple[HalvedLayer, ...]]:
    """Layers that exchange rows, with halves of their sums, apart from all other operators."""
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
    """Seconds saved by both halves of a layer, from those of one."""
    # A 6, D 2, E 3, G 4 ms: max(6, 2) + max(3, 2) + max(3, 4) + max(6, 4) = 19 of 2 x 15, so 11 are saved.
    beside = ((attention, dispatch), (experts, dispatch), (experts, gather), (attention, gather))
    return np.asarray(sum(np.minimum(computing, sent) for computing, sent in beside))
