"""A closed loop of users over prefill instances and decode instances by bisecting who decodes: a twin of the closed form.

Not here: the closed form that answers (evaluator.serving.pairs), and a play of every request (pair_player)."""

from __future__ import annotations

from dataclasses import dataclass

from evaluator.inputs.engines.engine_profiles import EngineProfile
from evaluator.serving.engine.closed_loop import PROMPTS_A_USER, decode_steps_s, marginal_prompt_s
from evaluator.serving.engine.step_tables import StepTable
from evaluator.serving.pairs import queueing_ms

HALVINGS = 80
SHORTEST_DECODE = 1e-6  # steps, of answers of one token


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedPair:
    """`users` at once from the start, each asking again when it is answered. Servers are attention replicas of all
    instances of a side; `transfer_s` moves a prompt's keys and values to the other side."""

    users: float
    output_length: float
    prefill_servers: int
    decode_servers: int
    transfer_s: float = 0.0
    share: float = 1.0  # mean length of prompts over nominal


@dataclass(frozen=True, slots=True, kw_only=True)
class PairTimes:
    """Means over all requests, and those that decode on one server at a time."""

    ttft_s: float
    tpot_exclusive_s: float
    decoding: float


def pair_times(
    prefill: StepTable, decode: StepTable, engine: EngineProfile, pair: ClosedPair, *, alone_s: float
) -> PairTimes:
    """TTFT of the prefill side and TPOT of the decode side at the concurrency it comes to see.

    The first request of every user meets a queue of all of them; later ones the steady state of the closed network, in
    which X requests a second pass both sides: users = X (TTFT + decode time), decoding = X times decode time (Little
    1961). A prompt waits for its prefill server behind the other users' prompts. `alone_s` is the time of one
    prompt with nobody else there. Left out: limits of the KV cache, imbalance between instances."""
    service = pair.share * marginal_prompt_s(prefill, engine)
    alone = pair.share * alone_s + pair.transfer_s + 1e-3 * engine.request_ms
    steps, more = decode_steps_s(decode, engine), max(pair.output_length - 1.0, SHORTEST_DECODE)
    others = (pair.users - 1.0) / pair.users

    def rate(decoding: float) -> float:
        return decoding * pair.decode_servers / (more * _between(steps, decoding))

    low, high = 0.0, pair.users / pair.decode_servers
    for _ in range(HALVINGS):
        decoding = 0.5 * (low + high)
        load = rate(decoding) * service / pair.prefill_servers
        waiting = 1e-3 * queueing_ms(others * load, 1e3 * service) if load < 1.0 else float("inf")
        busy = decoding * pair.decode_servers + rate(decoding) * (alone + waiting)
        low, high = (decoding, high) if busy < pair.users else (low, decoding)
    steady = (pair.users - low * pair.decode_servers) / rate(low)
    burst = alone + service * max(0.0, 0.5 * (pair.users / pair.prefill_servers - 1.0))
    first = 1.0 / PROMPTS_A_USER
    return PairTimes(ttft_s=first * burst + (1.0 - first) * steady, tpot_exclusive_s=_between(steps, low), decoding=low)


def _between(steps: list[float], sequences: float) -> float:
    """The step time of a mean number of sequences, at least one: what decodes alone is one."""
    position = min(max(sequences, 1.0), len(steps) - 1.0)
    low = min(int(position), len(steps) - 2) if len(steps) > 1 else 0
    if low + 1 >= len(steps):
        return steps[low]
    return steps[low] + (steps[low + 1] - steps[low]) * (position - low)
