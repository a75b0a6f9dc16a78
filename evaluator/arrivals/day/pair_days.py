"""A day played on prefill and decode instances apart: each request goes on to the other when its prompt is done."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from evaluator.arithmetic import FloatArray, Integers
from evaluator.arrivals.day.days import DayPlayer, DayTimes, TimeLimits
from evaluator.pricing.memory import transfer_bytes
from evaluator.scenario import Scenario
from evaluator.serving.occupancy import kv_cache_bits
from evaluator.serving.pairs import moving_bytes_per_s, transfer_ms


class PairPlayer:
    def __init__(self, prefill: DayPlayer, decode: DayPlayer, sending: Scenario) -> None:
        self.prefill, self.decode = prefill, decode
        self._beside_ms = decode.receiving_ms + moving_ms(sending, prefill.prompts)
        self._played: tuple[bytes, DayTimes] | None = None  # prompts on the last prefill instances

    @property
    def requests(self) -> int:
        return self.prefill.requests

    def attained(self, prefill: Integers, decode: Integers, limits: TimeLimits) -> FloatArray:
        """The share of each hour's requests within the limits, by the hour in which they come. Instances by minute.

        To the TTFT of its prefill instance a request adds what moves its keys, and what the decode instance takes to
        receive it. Its time per token counts from there on, waiting for a seat included."""
        prompts = self._prompt_times(prefill)
        answers = self.decode.times(decode, come_s=prompts.end_s + 1e-3 * self._beside_ms)
        return self.prefill.shares(replace(answers, ttft_ms=prompts.ttft_ms + self._beside_ms), limits)

    def _prompt_times(self, prefill: Integers) -> DayTimes:
        """Prompts know nothing of decode instances: they are played once for many numbers of these."""
        place = np.ascontiguousarray(prefill).tobytes()
        if self._played is None or self._played[0] != place:
            self._played = (place, self.prefill.times(prefill))
        return self._played[1]


def moving_ms(sending: Scenario, prompts: Integers) -> FloatArray:
    """Milliseconds that the keys and values of each prompt take over the outermost links of its instance."""
    link, plan, bits = sending.device.links[0], sending.plan, kv_cache_bits(sending.precision)
    lengths, place = np.unique(prompts, return_inverse=True)
    rate = moving_bytes_per_s(link.bandwidth_bytes_per_s * link.efficiency)
    moved = [transfer_ms(transfer_bytes(sending.model, bits, one), plan.tp * plan.pp, rate) for one in lengths.tolist()]
    return np.asarray(moved)[place]
