"""One scenario's numbers over batch sizes, an array a stored column; NaN where a phase has none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import pairwise
from operator import attrgetter
from typing import Any

import numpy as np

from evaluator.arithmetic import FloatArray, Integers
from store.light_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeBlock:
    """Batch sizes ascend; names and units are store.schema.tables.MEASURES."""

    batch_size: Integers
    concurrency: Integers
    ttft_ms: FloatArray
    prefill_step_ms: FloatArray
    prefill_chunks: FloatArray
    makespan_ms: FloatArray
    decode_step_ms: FloatArray
    tokens_per_step: FloatArray
    tpot_inclusive_ms: FloatArray
    tpot_exclusive_ms: FloatArray
    e2e_ms: FloatArray
    weight_bytes: Integers
    kv_cache_bytes: Integers
    kv_cache_mean_bytes: Integers
    activation_bytes: Integers
    kv_bytes_per_request: Integers
    prefill_step_matrix_ms: FloatArray
    prefill_step_vector_ms: FloatArray
    prefill_step_memory_ms: FloatArray
    prefill_step_communication_ms: FloatArray
    prefill_step_overhead_ms: FloatArray
    decode_step_matrix_ms: FloatArray
    decode_step_vector_ms: FloatArray
    decode_step_memory_ms: FloatArray
    decode_step_communication_ms: FloatArray
    decode_step_overhead_ms: FloatArray
    realised_input_length_mean: FloatArray
    decode_step_p50_ms: FloatArray
    decode_step_p90_ms: FloatArray
    decode_step_p99_ms: FloatArray
    prompt_service_ms: FloatArray
    ttft_in_step_ms: FloatArray

    def columns(self) -> Mapping[str, FloatArray | Integers]:
        return dict(zip(_MEASURED, _measured(self), strict=True))

    def between(self, first: int, last: int) -> ProbeBlock:
        start, end = np.searchsorted(self.batch_size, [first, last + 1])
        return self.rows(slice(int(start), int(end)))

    def stretches(self) -> Iterator[ProbeBlock]:
        gaps = np.flatnonzero(np.diff(self.batch_size) > 1) + 1
        for start, end in pairwise((0, *gaps.tolist(), self.batch_size.size)):
            yield self.rows(slice(start, end))

    def rows(self, part: slice) -> ProbeBlock:
        parts: dict[str, Any] = {name: values[part] for name, values in self.columns().items()}
        return ProbeBlock(batch_size=self.batch_size[part], **parts)


_MEASURED = tuple(item.name for item in fields(ProbeBlock) if item.name != "batch_size")
_measured = attrgetter(*_MEASURED)


def joined_blocks(blocks: Sequence[ProbeBlock]) -> ProbeBlock:
    if len(blocks) == 1:
        return blocks[0]
    return ProbeBlock(
        **{item.name: np.concatenate([getattr(block, item.name) for block in blocks]) for item in fields(ProbeBlock)}
    )
