"""Where SGLang runs Triton's kernels in place of its others, by model: its defaults on Blackwell."""

from __future__ import annotations

from evaluator.inputs.formats import Precision, linear_format
from evaluator.inputs.model import ModelSpec

TRITON = "triton"
HALF_BITS = 16
# python/sglang/srt/server_args.py of SGLang 0.5.6 to 0.5.14, by the beginnings of Hugging Face's model types. Triton
# attends for models with a running state while the radix cache is on, as it is unless told otherwise.
_ATTENDED = ("qwen3_next", "qwen3_5")
# Experts in 16 bits are Triton's, but those of these models.
_OTHER_EXPERTS = ("qwen3_moe", "qwen3_vl_moe", "qwen3_next", "qwen3_5")
_ATTENTION = ("decode_attention.", "prefill_attention.", "mla_decode.", "mla_prefill.")
_EXPERTS = ("moe.bf16.",)


def triton_kernels(
    engine: str, model: ModelSpec, precision: Precision, attention: str | None = None
) -> tuple[str, ...]:
    """How the replaced kernels' names begin; `attention` is `--attention-backend`."""
    if engine != "sglang":
        return ()
    attended = attention == TRITON if attention else model.architecture.startswith(_ATTENDED)
    wide = linear_format(precision.experts or precision.linear).weight_bits == HALF_BITS
    experts = model.routed and wide and not model.architecture.startswith(_OTHER_EXPERTS)
    return (*(_ATTENTION if attended else ()), *(_EXPERTS if experts else ()))


CHOSEN = (_ATTENTION, _EXPERTS)  # of all models, where no flag says otherwise
