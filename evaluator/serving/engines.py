"""Serving engines as a few fitted numbers: how each admits prompts, and what it adds to the time of kernels.

Not here: the simulation that uses them (evaluator.serving.closed_loop)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from evaluator.serving.step_tables import StepTable
from store.errors import InputError

Admission = Literal["prefill_first", "mixed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineProfile:
    """One engine. Factors multiply kernel seconds; the milliseconds are the host's, on top of kernels."""

    name: str
    admission: Admission
    prefill_factor: float
    decode_factor: float
    step_ms: float  # each step
    step_per_decode_ms: float  # each sequence that decodes in it
    step_per_prompt_ms: float  # each prompt in it
    request_ms: float  # HTTP and tokeniser, once a request
    token_budget: int  # tokens of one step
    poll_steps: int = 1  # decode steps between two looks at the queue, prefill-first engines
    poll_steps_busy: int = 1  # the same from `busy_from` users on
    busy_from: int = 16
    layer_us: float = 0.0  # each layer of a step: launches, where kernels were not measured with theirs
    moe_layer_us: float = 0.0  # each layer with experts, besides
    prompt_step_ms: float = 0.0  # each step with prompts in it, besides: it is not replayed from a graph

    def prompt_step_s(self) -> float:
        """Host seconds that prompts add to a step, however many."""
        return 1e-3 * self.prompt_step_ms

    def step_s(self, table: StepTable) -> float:
        """Host seconds of a step, whatever is in it."""
        return 1e-3 * self.step_ms + 1e-6 * (self.layer_us * table.layers + self.moe_layer_us * table.moe_layers)


ENGINES: Mapping[str, EngineProfile] = {
    profile.name: profile
    for profile in (
        EngineProfile(
            name="sglang",
            admission="prefill_first",
            prefill_factor=0.9,
            decode_factor=1.0,
            step_ms=2.0,
            step_per_decode_ms=0.005,
            step_per_prompt_ms=2.0,
            request_ms=120.0,
            token_budget=8192,
            poll_steps=10,
            poll_steps_busy=30,
        ),
        EngineProfile(
            name="vllm",
            admission="mixed",
            prefill_factor=1.1,
            decode_factor=0.7,
            step_ms=1.5,
            step_per_decode_ms=0.03,
            step_per_prompt_ms=2.0,
            request_ms=20.0,
            token_budget=4096,
        ),
        EngineProfile(
            name="trtllm",
            admission="mixed",
            prefill_factor=1.0,
            decode_factor=0.8,
            step_ms=1.0,
            step_per_decode_ms=0.005,
            step_per_prompt_ms=2.0,
            request_ms=40.0,
            token_budget=8192,
        ),
    )
}


def engine_profile(name: str) -> EngineProfile:
    """The shipped profile of an engine, by its name."""
    if name not in ENGINES:
        raise InputError(f"unknown engine {name!r}", hint=f"known: {', '.join(ENGINES)}")
    return ENGINES[name]
