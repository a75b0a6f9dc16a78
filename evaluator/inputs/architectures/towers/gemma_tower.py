"""SigLIP of Gemma 3, and Gemma 4's own encoder: patches averaged into tokens behind it."""

from __future__ import annotations

import math

from evaluator.inputs.architectures.config_reader import Config, ConfigReader
from evaluator.inputs.architectures.towers import checked, head_size, require_ungated
from evaluator.inputs.vision.tower import Projection, Resizing, VisionTower
from store.errors import InputError


def _gemma3(reader: ConfigReader, config: Config, text_width: int) -> VisionTower:
    hidden, heads = reader.size("hidden_size"), reader.size("num_attention_heads")
    require_ungated(reader, "hidden_act", default="gelu_pytorch_tanh", allowed=("gelu_pytorch_tanh", "gelu"))
    patch, side = reader.size("patch_size"), reader.size("image_size")
    checked(reader.flag("vision_use_head"), False, reader, "a head of its own (vision_use_head)")
    reader.ignore("layer_norm_eps", "projection_dim")
    tokens = config.get("mm_tokens_per_image", 256)
    patches = (side // patch) ** 2
    if (
        not isinstance(tokens, int)
        or tokens < 1
        or patches % tokens
        or math.isqrt(patches // tokens) ** 2 * tokens != patches
    ):
        raise InputError(f"{reader.where}: {patches} patches do not make mm_tokens_per_image {tokens}")
    return VisionTower(
        family="gemma3",
        hidden_size=hidden,
        layers=reader.size("num_hidden_layers"),
        heads=heads,
        head_dim=head_size(reader, hidden, heads),
        intermediate_size=reader.size("intermediate_size"),
        patch_size=patch,
        patch_values=reader.size("num_channels", default=3) * patch * patch,
        # Begin and end, and an empty line before and behind.
        resizing=Resizing(rule="fixed", most=patches, marks=4),
        positions=patches,
        position_taps=1,
        rotated=False,
        final_norm=True,
        projections=(
            Projection(widths=(hidden, text_width), merged=patches // tokens, pooled=True, bias=False, norm="rms"),
        ),
    )


def _gemma4(reader: ConfigReader, config: Config, text_width: int) -> VisionTower:
    hidden, heads = reader.size("hidden_size"), reader.size("num_attention_heads")
    require_ungated(reader, "hidden_activation", default="gelu_pytorch_tanh", allowed=("gelu_pytorch_tanh", "gelu"))
    head_dim = reader.size("head_dim", default=head_size(reader, hidden, heads))
    checked(reader.size("num_key_value_heads"), heads, reader, "num_key_value_heads")
    checked(reader.flag("attention_bias"), False, reader, "attention_bias")
    checked(reader.flag("use_clipped_linears"), False, reader, "use_clipped_linears")
    # Scales of what is pooled; sizes said twice; frames of videos.
    reader.ignore(
        "standardize", "global_head_dim", "max_position_embeddings", "image_seq_length", "video_seq_length",
        "default_output_length",
    )  # fmt: skip
    pooled = reader.size("pooling_kernel_size", default=3) ** 2
    said = config.get("vision_soft_tokens_per_image") or reader.value("default_output_length") or 280
    if not isinstance(said, int) or said < 1:
        raise InputError(f"{reader.where}: vision_soft_tokens_per_image must be a whole number above 0")
    patch = reader.size("patch_size", default=16)
    return VisionTower(
        family="gemma4",
        hidden_size=hidden,
        layers=reader.size("num_hidden_layers"),
        heads=heads,
        head_dim=head_dim,
        intermediate_size=reader.size("intermediate_size"),
        patch_size=patch,
        patch_values=3 * patch * patch,
        patch_bias=False,
        resizing=Resizing(rule="within_budget", most=said * pooled, marks=2),
        positions=2 * reader.size("position_embedding_size", default=10_240),  # of columns and of rows
        position_taps=2,
        norm="rms",
        output_norms=True,
        head_norms=True,
        gated=True,
        attention_bias=False,
        mlp_bias=False,
        projections=(Projection(widths=(hidden, text_width), merged=pooled, pooled=True, bias=False, norm="unscaled"),),
    )


TOWERS = {"gemma3": _gemma3, "gemma4": _gemma4}
