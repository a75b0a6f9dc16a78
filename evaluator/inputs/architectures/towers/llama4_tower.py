"""Llama 4's image encoder: tiles of one size with a class patch each, four patches joined behind it."""

from __future__ import annotations

from evaluator.inputs.architectures.config_reader import Config, ConfigReader
from evaluator.inputs.architectures.towers import checked, head_size, require_ungated
from evaluator.inputs.vision.tower import Projection, Resizing, VisionTower
from store.errors import InputError

MOST_TILES = 16  # of an image: max_patches of preprocessor_config.json


def _llama4(reader: ConfigReader, _: Config, text_width: int) -> VisionTower:
    hidden, heads = reader.size("hidden_size"), reader.size("num_attention_heads")
    require_ungated(reader, "hidden_act", default="gelu", allowed=("gelu",))
    ratio = reader.share("pixel_shuffle_ratio", 0.5)
    joined = round(1 / ratio**2)
    inner, width = reader.size("intermediate_size"), reader.size("projector_input_dim", default=4096)
    out = reader.size("projector_output_dim", default=4096)
    if hidden * joined != inner or width != out:
        raise InputError(f"{reader.where}: {joined} joined patches of {hidden} are not what the projector reads")
    checked(reader.size("vision_output_dim", default=7680), out, reader, "vision_output_dim")
    checked(reader.flag("multi_modal_projector_bias"), False, reader, "multi_modal_projector_bias")
    checked(reader.word("vision_feature_select_strategy", "default"), "default", reader, "a selection of features")
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


TOWERS = {"llama4": _llama4}
