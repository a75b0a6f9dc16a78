"""Prefill instances and decode instances apart, in closed form over one stored row of each side.

The rule is a few functions of numbers or of arrays of them. The SQL of questions says the same (queries/waits.sql), and
tests hold both to each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, TypeVar

from store.light_dataclass import dataclass

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_Numbers = TypeVar("_Numbers", float, "NDArray[np.float64]")
PROMPTS_PER_USER = 10  # of a client that does not say
# Moving a prompt's keys and values between two servers took 0.39 ms and its bytes at 73 % of the line rate (H800, eight
# adapters), 1.77 ms and 42 % (H20-3e, four): lines through nine and eight lengths, 4 and 1 % off in the mean. Half way
# between both is 56 %; links give collectives 80 % of theirs.
MOVING_SHARE = 0.7
HALVINGS = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillSide:
    """The prefill instances: a lone prompt's time, and what one more adds to a server that runs full steps.

    Servers are the attention replicas of all instances. `request_ms` is the part of `alone_ms` that receiving a
    request takes; the decode instance receives it too."""

    alone_ms: float
    service_ms: float
    servers: int
    request_ms: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeSide:
    """The decode instances: how many requests decode in all of them together, and their exclusive TPOT."""

    decoding: float
    tpot_ms: float
    tokens_per_step: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PairLoad:
    """The load of both sides: mean tokens of an answer, the time to move a prompt's keys and values, and the client."""

    output_length: float
    transfer_ms: float = 0.0
    prompts_per_user: int = PROMPTS_PER_USER


@dataclass(frozen=True, slots=True, kw_only=True)
class PairTimes:
    """Means over the requests of a closed loop, TTFT in its parts. `users` are those that such a loop has.

    `ttft_ms` is alone + transfer + handover + slot wait + (1 - f) wait + f burst, f the share of first requests."""

    requests_per_s: float
    users: float
    ttft_ms: float
    tpot_ms: float
    e2e_ms: float
    wait_ms: float
    burst_ms: float
    handover_ms: float
    slot_wait_ms: float
    prefill_utilisation: float


def pair_times(prefill: PrefillSide, decode: DecodeSide, load: PairLoad) -> PairTimes | None:
    """Times of a pair whose decode side is always as full as its row says. None where prefill cannot keep up.

    A request decodes T = (O - 1) TPOT long, so `decoding` requests at once are X = decoding / T of them a second
    (Little 1961), and the prefill servers are busy a share rho = X s / m of the time. Nothing is searched for: X
    follows from the decode row alone, users = X (time of a request) from X.

    A prompt waits for the one server that it is given to as it comes (`queueing_ms`), behind the other users' prompts,
    (users - 1) / users of the load: in a closed network of N an arrival sees the N - 1 others (Reiser and Lavenberg
    1980). `users` there leaves the wait itself out, which would make it an iteration. First requests come all at once:
    the last of users / m prompts waits for all before it, the mean for half of them.

    A prompt that arrives joins the decodes where their step ends: half a step later in the mean, as a random moment
    lies in the middle of steps of one length (the mean residual of a renewal, E[D^2] / 2 E[D] = D / 2).

    Worked: 2 servers of 100 ms a prompt, alone 120 ms, nothing to move; 8 decode at 10 ms for 101 tokens: T = 1,000 ms,
    X = 8 / s, rho = 8 x 0.1 / 2 = 0.4; users without the wait are 8 (0.12 + 0.005 + 1) = 9, so the others' load is 0.4
    x 8 / 9 = 0.356, the wait 0.5 x 0.356 / 0.644 x 100 = 27.6 ms.

    Left out: limits of the KV cache between the sides, and imbalance between instances."""
    answer = max(load.output_length - 1.0, 0.0) * decode.tpot_ms
    rate = decode.decoding / (max(load.output_length - 1.0, 1.0) * decode.tpot_ms)
    offered = rate * prefill.service_ms / prefill.servers
    if offered >= 1.0:
        return None
    slot = 0.5 * decode.tpot_ms * decode.tokens_per_step
    unqueued = prefill.alone_ms + load.transfer_ms + prefill.request_ms + slot
    servers = float(prefill.servers)
    wait = queueing_ms(others_load(rate, unqueued + answer, prefill.service_ms, servers), prefill.service_ms)
    users = rate * (unqueued + wait + answer)
    burst = burst_ms(users, prefill.service_ms, servers)
    ttft = first_token_ms(unqueued, wait, burst, 1.0 / load.prompts_per_user)
    return PairTimes(
        requests_per_s=1e3 * rate,
        users=users,
        ttft_ms=ttft,
        tpot_ms=decode.tpot_ms,
        e2e_ms=ttft + answer,
        wait_ms=wait,
        burst_ms=burst,
        handover_ms=prefill.request_ms,
        slot_wait_ms=slot,
        prefill_utilisation=offered,
    )


def receiving_ms(request_ms: float, handover_ms: float) -> float:
    """The time that receiving a request adds on each of two instances that are apart.

    It is half of its time on a server that does both, where one front takes it, and half of the handover. A prefill
    row's TTFT holds it, and a pair has it twice."""
    # A request that takes 50 ms to receive: (50 + 190) / 2 = 120 ms.
    return 0.5 * (request_ms + handover_ms)


def queueing_ms(load: _Numbers, service_ms: _Numbers) -> _Numbers:
    """Mean wait for a server that is busy a share `load` of the time: random arrivals, equal services.

    Attention ranks and instances have a queue each, and no other takes from it: one queue for all of them gives first
    tokens of measured pairs 20 % too soon (docs/reference/accuracy.md). Source: Pollaczek 1930, Khinchine 1932."""
    # Busy half of the time, 100 ms a prompt: 0.5 x 0.5 / 0.5 x 100 = 50 ms.
    return 0.5 * load / (1.0 - load) * service_ms


def others_load(rate: _Numbers, request_ms: _Numbers, service_ms: _Numbers, servers: _Numbers) -> _Numbers:
    """The share of time that a server is busy with prompts of the others of `rate` x `request_ms` users."""
    # 8 / s of 1.125 s are 9 users, on 2 servers of 100 ms: 8 others of 9, 8 / 9 x 8 x 0.1 / 2 = 0.356.
    return _positive(rate * request_ms - 1.0) * service_ms / (servers * request_ms)


def burst_ms(users: _Numbers, service_ms: _Numbers, servers: _Numbers) -> _Numbers:
    """The mean wait of first requests, which come all at once."""
    # 9.22 users on 2 servers of 100 ms: 100 x (9.22 / 2 - 1) / 2 = 181 ms.
    return 0.5 * service_ms * _positive(users / servers - 1.0)


def left_over_ms(users: _Numbers, served: _Numbers, rate: _Numbers) -> _Numbers:
    """The wait of users of whom so many are accounted for: the others wait where prompts keep the prefill side busy."""
    # 13 users where 9 were found, 8 requests a second: the other 4 wait 4 / 8 = 0.5 s.
    return _positive(users - served) / rate


def first_token_ms(unqueued_ms: _Numbers, wait_ms: _Numbers, burst_ms: _Numbers, first_share: _Numbers) -> _Numbers:
    return unqueued_ms + (1.0 - first_share) * wait_ms + first_share * burst_ms


def _positive(value: _Numbers) -> _Numbers:
    return 0.5 * (value + abs(value))


def moving_bytes_per_s(link_bytes_per_s: float) -> float:
    """The rate at which keys and values move over a link that gives collectives so much."""
    # 400 Gbit/s a device, of which a collective gets 40e9 bytes/s: 28e9 bytes/s, 56 % of the line.
    return MOVING_SHARE * link_bytes_per_s


def transfer_ms(prompt_bytes: float, devices: int, link_bytes_per_s: float) -> float:
    """Time to move a prompt's keys and values from one side to the other.

    They go over the outermost link of each device that holds a part of them. Worked: 1.6e9 bytes on 4 devices with 50e9
    bytes/s each take 8 ms. Left out: setting it up, which is part of the handover, and layers sent while others are
    computed."""
    return 1e3 * prompt_bytes / (devices * link_bytes_per_s)


def pair_of_users(
    prefill: PrefillSide,
    steps: Sequence[DecodeSide],
    load: PairLoad,
    users: float,
    *,
    seats: float = inf,
) -> PairTimes:
    """The pair that a closed loop of `users` comes to: `steps` are decode rows, ascending, and lines between them.

    More users decode at once the more there are, so the number that decodes is bisected. `seats` is the most that the
    decode instances are launched for: where it is reached, X = seats / T, and the other users wait before the decode
    side, TTFT = users / X - T by Little's law."""
    most = min(seats, users)

    def at(decoding: float) -> PairTimes | None:
        return pair_times(prefill, _between(steps, decoding), load)

    full = at(most)
    if full is not None and full.users <= users:
        # 20 users, 8 seats, answers of 1 s: X = 8 / s, TTFT = 20 / 8 - 1 = 1.5 s.
        whole = 1e3 * users / full.requests_per_s
        ttft = max(full.ttft_ms, whole - (full.e2e_ms - full.ttft_ms))
        return replace(full, users=users, ttft_ms=ttft, e2e_ms=ttft + full.e2e_ms - full.ttft_ms)
    low, high = 0.0, most
    found = None
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        tried = at(middle)
        if tried is None or tried.users > users:
            high = middle
        else:
            low, found = middle, tried
    if found is None:
        raise ValueError(f"no pair serves {users} users")
    return _with_queue(found, prefill, load, users)


def _with_queue(found: PairTimes, prefill: PrefillSide, load: PairLoad, users: float) -> PairTimes:
    answer = found.e2e_ms - found.ttft_ms
    waiting = left_over_ms(users, found.users, 1e-3 * found.requests_per_s)
    burst = burst_ms(users, prefill.service_ms, float(prefill.servers))
    first = 1.0 / load.prompts_per_user
    ttft = found.ttft_ms + (1.0 - first) * waiting + first * (burst - found.burst_ms)
    return replace(
        found, users=users, wait_ms=found.wait_ms + waiting, burst_ms=burst, ttft_ms=ttft, e2e_ms=ttft + answer
    )


def _between(steps: Sequence[DecodeSide], decoding: float) -> DecodeSide:
    above = next((index for index, step in enumerate(steps) if step.decoding >= decoding), len(steps) - 1)
    if above == 0 or steps[above].decoding <= decoding:
        return replace(steps[above], decoding=decoding)
    before, after = steps[above - 1], steps[above]
    # Rows of 8 at 10 ms and of 16 at 14 ms: 12 decode at 12 ms.
    share = (decoding - before.decoding) / (after.decoding - before.decoding)
    return replace(before, decoding=decoding, tpot_ms=before.tpot_ms + share * (after.tpot_ms - before.tpot_ms))
