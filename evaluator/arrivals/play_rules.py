"""Rules of an instance, seconds of its steps and requests, which a play needs; and the times that it gives."""

from __future__ import annotations

from dataclasses import field
from math import inf
from typing import Literal

import numpy as np

from evaluator.arithmetic import FloatArray, Integers
from evaluator.inputs.engines.engine_profiles import Admission
from store.light_dataclass import dataclass

KvAdmission = Literal["current", "reserved"]
Dispatch = Literal["random", "least"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayRules:
    """How an instance serves: its scheduler, seats and memory, and how requests are dealt to its replicas.

    `kv_tokens` is the room for keys of one replica. Under `current` a request enters when the tokens after the step
    fit, and the last that entered leaves for recomputation when they no longer do; under `reserved` it enters when its
    whole answer fits. One that is too large enters only an empty replica. `reject_s` is the longest predicted time to
    the first token that a request is let in with: the prompts that wait and its own, without decodes. `reject_tbt_s` is
    that of a decode step with it beside all that have a seat or wait; answers of one token have none. A prompt ends its
    part of a step before the image that would be more than `images_a_step` of it, unless all images come at once."""

    admission: Admission
    token_budget: int
    seats: int
    poll_steps: int = 1
    ahead_steps: int = 0  # that are scheduled already when a request comes: it is in none of them
    whole_prompts: bool = False  # unless none fits into what a step has left
    tokens_per_decode: int = 1  # of the budget: one, and the drafts to verify
    tokens_per_step: float = 1.0  # that a request gains in a decode step
    kv_tokens: float = inf
    kv_admission: KvAdmission = "current"
    prefilled: bool = False  # requests come with their first token: an instance that decodes only
    replicas: int = 1
    dispatch: Dispatch = "random"
    reject_s: float = inf
    reject_tbt_s: float = inf
    images_a_step: float = inf


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepPrices:
    """Seconds of every step that an instance can take.

    A decode step of b sequences that hold `keys` takes decode_s[b] + decode_key_s[b] x keys. A step with k prompts, p
    of their tokens and b decodes takes h + h' + hs b + hp k + (fP p + fD d b) / (p + d b) N(p + d b) + fP dA +
    fD (own_s[b] + own_key_s[b] x keys), of which a step without decodes has fP own_s[0] in place of the last; d is
    the tokens of a decode. `attention` holds nodes of every kind's prompt, `stretches` + 1 each. `encoder_s` are the
    seconds of 0, 1, 2 ... images that are encoded in a step together, which add to the attention of its prompts."""

    step_s: float
    prompt_step_s: float
    per_prompt_s: float
    per_decode_s: float
    prefill_factor: float
    decode_factor: float
    spacing: int
    linear: FloatArray
    attention: FloatArray
    stretches: int
    own_s: FloatArray
    own_key_s: FloatArray
    decode_s: FloatArray
    decode_key_s: FloatArray
    encoder_s: FloatArray = field(default_factory=lambda: np.zeros(2))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AskedRequests:
    """Requests in the order of their arrival: seconds, tokens, steps of the answer (one with the prompt), and prices.

    `node` is the first node of a request's kind in the attention table, `stretch` the nodes to a token of its prompt,
    `service_s` what the prompt adds to full steps, `replica` the one that a random dispatch deals it to. `images` are
    those that it has to encode, from its first token on, one every `image_tokens` tokens; at 0 all with its first."""

    arrive_s: FloatArray
    new_tokens: Integers
    cached: Integers
    steps: Integers
    node: Integers
    stretch: FloatArray
    service_s: FloatArray
    replica: Integers
    images: FloatArray | None = None
    image_tokens: FloatArray | None = None

    @property
    def count(self) -> int:
        return int(self.arrive_s.size)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlayedRequests:
    """When each request had its first and its last token; -1 where it was rejected.

    `gaps` counts times between the tokens of a sequence, by bin of the edges that were given; `busy_s` adds up the
    steps of all replicas. `worst_gap_s` is the longest of each request, that of being preempted among them."""

    first_s: FloatArray
    end_s: FloatArray
    gaps: Integers
    busy_s: float
    preempted: int
    worst_gap_s: FloatArray | None = None
    preemptions: Integers | None = None

    @property
    def rejected(self) -> int:
        return int(np.count_nonzero(self.end_s < 0.0))
