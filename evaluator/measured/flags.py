"""Launch flags of servers behind measured points, where the recipe of a source is public.

They are read off the recipes, never fitted. Not here: matching (evaluator.measured.deployments) and what a flag does to
the schedule (evaluator.serving)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

SHORTEST_RANGED = 0.8
# Ids of points by InferenceX (github.com/SemiAnalysisAI/InferenceX, benchmarks/single_node/*.sh, seen at 34bc7c4).
# Its client draws lengths uniformly in 0.8-1 of nominal and sends ten prompts a user.
RECIPE_IDS = re.compile(r"^(?:2026_\d\d_\d\d_|dsr1_|minimaxm2_5_|gptoss_|glm5_|qwen3_5_|kimik2_5_)")
SHORT_SEQUENCES = 2048  # tokens of prompt and answer
LOWEST_BUDGET = 8192  # of the DeepSeek recipes for TensorRT-LLM


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """What a recipe sets; None is the engine's own choice."""

    shortest: float = 1.0  # of nominal length
    poll_steps: int = 1  # decode steps between two looks at the queue
    token_budget: int | None = None
    narrow_keys: bool = False  # keys and values in eight bits
    wait_steps: int = 0  # decode steps that a prompt waits for others to join it


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What of a point chooses its recipe's flags."""

    point_id: str
    engine: str | None
    model: str
    device: str
    precision: str
    users: float
    input_length: float
    output_length: float
    tp: int


def flags_of(served: Served) -> Flags:
    """The flags of a point's server, as far as they are public."""
    if not RECIPE_IDS.match(served.point_id):
        return Flags()
    budget, narrow = _known(served)
    return Flags(
        shortest=SHORTEST_RANGED,
        poll_steps=_poll_steps(served),
        token_budget=budget,
        narrow_keys=narrow,
        wait_steps=_wait_steps(served),
    )


def _poll_steps(served: Served) -> int:
    """--scheduler-recv-interval: SGLang looks for requests every 10 decode steps, 30 from 16 users on."""
    if served.engine != "sglang":
        return 1
    return 30 if served.users >= 16 and not _four_wide_fp8(served) else 10


def _wait_steps(served: Served) -> int:
    """batch_wait_timeout_iters of TensorRT-LLM, where too few prompts come to fill batch_wait_max_tokens_ratio."""
    if served.engine != "trtllm" or (round(served.input_length), round(served.output_length)) != (1024, 1024):
        return 0
    if "Llama" in served.model:
        return 20 if served.tp < 8 else 0
    return 40 if "DeepSeek" in served.model and "fp8" in served.precision and served.users >= 64 else 0


def _four_wide_fp8(served: Served) -> bool:
    return "fp8" in served.precision and served.tp == 4 and "DeepSeek" in served.model


def _known(served: Served) -> tuple[int | None, bool]:
    """(token budget, whether keys and values are narrow)."""
    for (engine, family), recipe in _RECIPES.items():
        if served.engine == engine and family in served.model:
            return recipe(served)
    return None, False


def _sglang_deepseek(served: Served) -> tuple[int, bool]:
    """--chunked-prefill-size, --kv-cache-dtype fp8_e4m3."""
    if "fp4" in served.precision:
        return 16384, True
    return 8192 if _four_wide_fp8(served) else 32768, True


def _trtllm_deepseek(served: Served) -> tuple[int, bool]:
    """--max_num_tokens: a prompt beside every other user's token, in multiples of 64."""
    return max(LOWEST_BUDGET, round(served.users + served.input_length + 64 + 63) // 64 * 64), True


def _trtllm_llama(served: Served) -> tuple[int, bool]:
    """--max_num_tokens is the longest sequence, with a margin."""
    longest = served.input_length + served.output_length
    return round(longest + (200 if longest > SHORT_SEQUENCES else 20)), True


def _blackwell(served: Served) -> bool:
    return served.device.startswith(("b200", "b300"))


_RECIPES: Mapping[tuple[str, str], Callable[[Served], tuple[int, bool]]] = {
    ("sglang", "DeepSeek"): _sglang_deepseek,
    ("trtllm", "DeepSeek"): _trtllm_deepseek,
    ("trtllm", "gpt-oss"): lambda _: (20000, True),
    ("trtllm", "Llama"): _trtllm_llama,
    ("vllm", "gpt-oss"): lambda served: (8192, _blackwell(served)),
    ("vllm", "Llama"): lambda _: (8192, True),
    ("vllm", "MiniMax"): lambda served: (round(2 * served.input_length), True) if _blackwell(served) else (8192, False),
}
