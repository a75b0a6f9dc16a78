"""MiniMax-M3's image encoder: patches of two frames, each projected, then four of them joined."""

from __future__ import annotations

from collections.abc import Mapping

from evaluator.inputs.architectures.config_reader import Config, ConfigReader
from evaluator.inputs.architectures.towers import checked, head_size, require_ungated
from evaluator.inputs.vision.tower import Projection, Resizing, VisionTower
from store.errors import InputError

PIXELS = (4 * 28 * 28, 451_584)  # size of the image processor


def _minimax_m3(reader: ConfigReader, config: Config, text_width: int) -> VisionTower:
    hidden, heads = reader.size("hidden_size"), reader.size("num_attention_heads")
    require_ungated(reader, "hidden_act", default="gelu", allowed=("gelu",))
    checked(reader.word("position_embedding_type", "rope"), "rope", reader, "position_embedding_type")
    # Width of what is projected to, said again; tables of a text model; frames of videos; sizes of pinpoints.
    reader.ignore(
        "projection_dim", "rope_mode", "layer_norm_eps", "initializer_factor", "vocab_size",
        "vision_segment_max_frames", "image_size",
    )  # fmt: skip
    said = reader.value("img_token_compression_config") or {}
    if not isinstance(said, Mapping):
        raise InputError(f"{reader.where}: img_token_compression_config must be a mapping")
    inner = ConfigReader(said, reader.where)
    method = inner.word("image_token_compression_method", "patch_merge")
    checked(method, "patch_merge", reader, "image_token_compression_method")
    merged = inner.size("spatial_merge_size", default=reader.size("spatial_merge_size", default=2)) ** 2
    frames = inner.size("temporal_patch_size", default=reader.size("temporal_patch_size", default=2))
    between = config.get("projector_hidden_size", 6144)
    if not isinstance(between, int) or between < 1:
        raise InputError(f"{reader.where}: projector_hidden_size must be a whole number above 0")
    patch = reader.size("patch_size", default=14)
    return VisionTower(
        family="minimax_m3_vl",
        hidden_size=hidden,
        layers=reader.size("num_hidden_layers"),
        heads=heads,
        head_dim=head_size(reader, hidden, heads),
        intermediate_size=reader.size("intermediate_size"),
        patch_size=patch,
        patch_values=reader.size("num_channels", default=3) * frames * patch * patch,
        patch_bias=False,
        resizing=Resizing(rule="nearest_multiple", least=PIXELS[0], most=PIXELS[1], marks=2),
        first_norm=True,
        projections=(
            Projection(widths=(hidden, between, text_width)),
            Projection(widths=(merged * text_width, between, text_width), merged=merged),
        ),
    )


TOWERS = {"minimax_m3_vl": _minimax_m3}
