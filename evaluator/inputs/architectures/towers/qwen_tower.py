"""Image encoders of Qwen3-VL and Qwen3.5: patches of two frames, merged by four.

Of Qwen3-VL, the first language layers read states of layers in the middle, too."""

from __future__ import annotations

from evaluator.inputs.architectures.config_reader import Config, ConfigReader
from evaluator.inputs.architectures.towers import head_size, require_ungated
from evaluator.inputs.vision.tower import Projection, Resizing, VisionTower
from store.errors import InputError

# size of preprocessor_config.json of Qwen3-VL and Qwen3.5: 256 x 256 to 4096 x 4096 pixels.
PIXELS = (65_536, 16_777_216)
DEEP = {"qwen3_vl", "qwen3_vl_moe"}  # whose language part reads inner states


def _qwen3(reader: ConfigReader, config: Config, text_width: int) -> VisionTower:
    hidden, heads = reader.size("hidden_size"), reader.size("num_heads")
    require_ungated(reader, "hidden_act", default="gelu_pytorch_tanh", allowed=("gelu_pytorch_tanh", "gelu", "silu"))
    merged = reader.size("spatial_merge_size", default=2) ** 2
    out = reader.size("out_hidden_size", default=text_width)
    patch, frames = reader.size("patch_size", default=16), reader.size("temporal_patch_size", default=2)
    layers, family = reader.size("depth"), str(config.get("model_type"))
    told = reader.value("deepstack_visual_indexes") is not None or family not in DEEP
    inner = reader.numbers("deepstack_visual_indexes") if told else [8, 16, 24]  # the class's own
    if out != text_width:
        raise InputError(f"{reader.where}: out_hidden_size is {out}, and the language part has {text_width} dimensions")
    if inner and max(inner) >= layers:
        raise reader.refuse("deepstack_visual_indexes beyond the layers")
    widths = (merged * hidden, merged * hidden, out)
    return VisionTower(
        family=family,
        hidden_size=hidden,
        layers=layers,
        heads=heads,
        head_dim=head_size(reader, hidden, heads),
        intermediate_size=reader.size("intermediate_size"),
        patch_size=patch,
        patch_values=reader.size("in_channels", default=3) * frames * patch * patch,
        resizing=Resizing(rule="nearest_multiple", least=PIXELS[0], most=PIXELS[1]),
        positions=reader.size("num_position_embeddings", default=2304),
        position_taps=4,  # bilinear
        projections=(Projection(widths=widths, merged=merged, norm="layer"),),
        deep=tuple(Projection(widths=widths, merged=merged, norm="layer", joined_norm=True) for _ in inner),
    )


TOWERS = dict.fromkeys(("qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe"), _qwen3)
