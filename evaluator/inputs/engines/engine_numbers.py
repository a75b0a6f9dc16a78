"""Ranges of engine, client and point numbers, and valid names."""

from __future__ import annotations

from collections.abc import Mapping

from evaluator.inputs.yaml_file import shortened
from store.errors import InputError

LONGEST_NAME = 40
_MS = (0.0, 1e6)
# Key -> (smallest, largest) of what a file may say.
PROFILE_RANGES: Mapping[str, tuple[float, float]] = {
    "token_budget": (1, 2**40),
    "prefill_factor": (0.01, 100.0),
    "decode_factor": (0.01, 100.0),
    "step_ms": _MS,
    "step_per_decode_ms": _MS,
    "step_per_prompt_ms": _MS,
    "prompt_step_ms": _MS,
    "request_ms": _MS,
    "replica_wait_steps": (0.0, 1e6),
    "layer_ms": _MS,
    "latent_layer_ms": _MS,
    "prompt_layer_ms": _MS,
    "state_layer_ms": _MS,
    "ahead_steps": (0, 100),
    "reply_steps": (0, 100),
    "whole_prompts": (0, 1),
    "expert_rows": (0, 4096),
    "exchange_once": (0, 1),
    "handover_ms": _MS,
}
CLIENT_RANGES: Mapping[str, tuple[float, float]] = {
    "shortest": (0.01, 1.0),
    "prompts_per_user": (1, 1000),
    "poll_steps": (1, 100_000),
}
_PLACE, _FACTOR = (1.0, 1e9), (-10.0, 10.0)
NEAR_RANGES: Mapping[str, tuple[float, float]] = {  # of a point that was measured at one's own server
    "users": _PLACE,
    "input_length": _PLACE,
    "output_length": _PLACE,
    "devices": _PLACE,
    "ttft": _FACTOR,
    "tpot": _FACTOR,
}
MOST_NEAR = 200
_RANGES = {**PROFILE_RANGES, **CLIENT_RANGES, **NEAR_RANGES}
_WHOLE = {
    "token_budget",
    "ahead_steps",
    "reply_steps",
    "whole_prompts",
    "expert_rows",
    "exchange_once",
    "prompts_per_user",
    "poll_steps",
}


def number_in_range(key: str, value: object) -> float:
    low, high = _RANGES[key]
    kind = "a whole number" if key in _WHOLE else "a number"
    refused = InputError(f"must be {kind} from {low:g} to {high:g}, not {shortened(value)}")
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:  # NaN is not within
        raise refused
    if key not in _WHOLE:
        return float(value)
    if value != int(value):
        raise refused
    return int(value)


def named_engine(value: object) -> str:
    name = str(value)
    if not name or len(name) > LONGEST_NAME or not all(letter.isalnum() or letter in "._-" for letter in name):
        raise InputError(f"must be up to {LONGEST_NAME} letters, digits, dots and dashes, not {shortened(name)}")
    return name
