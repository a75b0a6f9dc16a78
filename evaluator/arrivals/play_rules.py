"""Inputs of a simulation (rules, prices of steps, requests), and its times."""

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
    """Scheduler, caps and memory, and dispatch to replicas.

    `kv_tokens` is a replica's room for keys. Under `current` a request enters when the next step's tokens fit, and the
    last to enter is preempted for recomputation when they no longer do. Under `reserved` its whole answer must fit. An
    oversized request enters only an empty replica. `reject_s` caps the predicted TTFT: waiting prompts and its own,
    without decodes. `reject_tbt_s` caps a decode step with it and all that run or wait; answers of one token have
    none. A prompt's part of a step ends before image `images_a_step` + 1, unless all come at once."""

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
    """Seconds of every step.

    A decode step of b sequences with `keys` keys takes decode_s[b] + decode_key_s[b] x keys. A step with k prompts, p
    of their tokens and b decodes takes h + h' + hs b + hp k + (fP p + fD d b) / (p + d b) N(p + d b) + fP dA + fD
    (own_s[b] + own_key_s[b] x keys), of which a step without decodes has fP own_s[0] in place of the last; d is the
    tokens of a decode. `attention` has `stretches` + 1 nodes for each kind of prompt. `encoder_s` are seconds of 0, 1,
    2 ... images encoded together, added to attention."""

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
    """In order of arrival: seconds, tokens, steps of the answer (one with the prompt), and prices.

    `node` is the kind's first node in the attention table, `stretch` nodes a token, `service_s` what the prompt adds
    to full steps, `replica` a random dispatch's choice. `images` are encoded one every `image_tokens` tokens; at 0 all
    with the first."""

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
    """First and last tokens; -1 where rejected.

    `gaps` counts times between tokens by bin; `busy_s` sums steps of all replicas. `worst_gap_s` is a request's
    longest, preemption included."""

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
