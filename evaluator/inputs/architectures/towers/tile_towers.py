"""Image encoders with fixed image sizes: Gemma 3 and 4, Llama 4, Step-3.7."""

from __future__ import annotations

import math

from evaluator.inputs.architectures.config_reader import Config, ConfigReader
from evaluator.inputs.architectures.towers import checked, head_size
from evaluator.inputs.images import Projection, Resizing, VisionTower
from store.errors import InputError


def _gemma3(reader: ConfigReader, config: Config, text_width: int) -> VisionTower:
    hidden, heads = reader.size("hidden_size"), reader.size("num_attention_heads")
    reader.one_of("hidden_act", "gelu_pytorch_tanh", "gelu")
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
    reader.one_of("hidden_activation", "gelu_pytorch_tanh", "gelu")
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


MOST_TILES = 16  # of an image: max_patches of preprocessor_config.json


def _llama4(reader: ConfigReader, _: Config, text_width: int) -> VisionTower:
    """Tiles with a class patch each; four patches are joined."""
    hidden, heads = reader.size("hidden_size"), reader.size("num_attention_heads")
    reader.one_of("hidden_act", "gelu")
    ratio = reader.share("pixel_shuffle_ratio", 0.5)
    joined = round(1 / ratio**2)
    inner, width = reader.size("intermediate_size"), reader.size("projector_input_dim", default=4096)
    out = reader.size("projector_output_dim", default=4096)
    if hidden * joined != inner or width != out:
        raise InputError(f"{reader.where}: {joined} joined patches of {hidden} are not what the projector reads")
    checked(reader.size("vision_output_dim", default=7680), out, reader, "vision_output_dim")
    checked(reader.flag("multi_modal_projector_bias"), False, reader, "multi_modal_projector_bias")
    reader.one_of("vision_feature_select_strategy", "default")
    reader.ignore("norm_eps", "projector_dropout", "vision_feature_layer")
    patch, side = reader.size("patch_size", default=14), reader.size("image_size", default=448)
    patches = (side // patch) ** 2
    return VisionTower(
        family="llama4",
        hidden_size=hidden,
        layers=reader.size("num_hidden_layers"),
        heads=heads,
        head_dim=head_size(reader, hidden, heads),
        intermediate_size=inner,
        patch_size=patch,
        patch_values=reader.size("num_channels", default=3) * patch * patch,
        patch_bias=False,
        class_patch=True,
        resizing=Resizing(rule="tiles", most=MOST_TILES, side=side, marks=3),
        positions=patches + 1,
        position_taps=1,
        first_norm=True,
        final_norm=True,
        projections=(
            Projection(widths=(joined * hidden, width, out), merged=joined, bias=False, ends_active=True),
            Projection(widths=(out, text_width), bias=False),
        ),
    )


_TAPS = 9  # of a convolution, with a stride of two rows and columns
_RATIO = 8960 / 1536


def _step(reader: ConfigReader, outer: Config, text_width: int) -> VisionTower:
    """Two convolutions come last.

    Source: transformers 5.23 (step3p7), image processor included."""
    hidden = reader.size("width", "hidden_size", default=1536)
    heads = reader.size("heads", "num_attention_heads", default=16)
    ratio = reader.value("mlp_ratio", _RATIO)
    if not isinstance(ratio, int | float) or isinstance(ratio, bool) or ratio <= 0:
        raise InputError(f"{reader.where}: mlp_ratio must be a number above 0, not {ratio!r}")
    reader.one_of("hidden_act", "quick_gelu")
    for name, wanted in (("use_cls_token", False), ("use_ln_post", False), ("use_ln_pre", True),
                         ("use_abs_posemb", True), ("use_rope2d", True)):  # fmt: skip
        checked(reader.value(name, wanted), wanted, reader, name)
    reader.ignore(
        "model_type", "layer_norm_eps", "ls_init_value", "layer_scale_init_value", "attention_dropout", "output_dim",
        "intermediate_size", "rope_parameters", "max_position_embeddings", "pool_type",
    )  # fmt: skip
    patch, side = reader.size("patch_size", default=14), reader.size("image_size", default=728)
    return VisionTower(
        family="step3p7",
        hidden_size=hidden,
        layers=reader.size("layers", "num_hidden_layers", default=47),
        heads=heads,
        head_dim=head_size(reader, hidden, heads),
        intermediate_size=int(hidden * ratio),
        patch_size=patch,
        patch_values=reader.size("num_channels", default=3) * patch * patch,
        patch_bias=False,
        resizing=Resizing(rule="views", most=(side // patch) ** 2, side=side, marks=2),
        positions=(side // patch) ** 2,
        position_taps=4,
        first_norm=True,
        block_scales=True,
        projections=(
            Projection(widths=(_TAPS * hidden, 2 * hidden), merged=4, taps=_TAPS),
            Projection(widths=(_TAPS * 2 * hidden, 4 * hidden), merged=4, taps=_TAPS),
            Projection(widths=(4 * hidden, text_width), bias=bool(outer.get("projector_bias"))),
        ),
    )


TOWERS = {"gemma3": _gemma3, "gemma4": _gemma4, "llama4": _llama4, "step3p7": _step}
