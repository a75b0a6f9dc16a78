"""Image encoders whose patches are merged by four."""

from __future__ import annotations

from collections.abc import Mapping

from evaluator.inputs.architectures.config_reader import Config, ConfigReader
from evaluator.inputs.architectures.towers import head_size
from evaluator.inputs.images import Projection, Resizing, VisionTower
from store.errors import InputError

# size of preprocessor_config.json of Qwen3-VL and Qwen3.5: 256 x 256 to 4096 x 4096 pixels.
PIXELS = (65_536, 16_777_216)
DEEP = {"qwen3_vl", "qwen3_vl_moe"}  # whose language part reads inner states


def _qwen3(reader: ConfigReader, config: Config, text_width: int) -> VisionTower:
    """Patches of two frames. In Qwen3-VL the first language layers read inner states, too."""
    hidden, heads = reader.size("hidden_size"), reader.size("num_heads")
    reader.one_of("hidden_act", "gelu_pytorch_tanh", "gelu", "silu")
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


MOST_PATCHES = 16_384  # of an image, and 512 a side: media_proc_cfg of preprocessor_config.json
MOST_A_SIDE = 512


def _moonvit(reader: ConfigReader, config: Config, text_width: int) -> VisionTower:
    """Patches at the image's own size, rotary in two dimensions."""
    hidden = reader.size("vt_hidden_size", "hidden_size")
    heads = reader.size("vt_num_attention_heads", "num_attention_heads")
    rows, columns = (reader.size(f"init_pos_emb_{side}", f"pos_emb_{side}", default=64) for side in ("height", "width"))
    merge = reader.numbers("merge_kernel_size") or [2, 2]
    if len(merge) != 2 or merge[0] != merge[1]:
        raise reader.refuse("image tokens that are no squares (merge_kernel_size)")
    reader.one_of("mm_projector_type", "patchmerger")
    reader.one_of("merge_type", "sd2_tpool")
    reader.one_of("pos_emb_type", "divided_fixed")
    # Frames of videos; the norm's epsilon; activations of one cost.
    reader.ignore(
        "init_pos_emb_time", "pos_emb_time", "video_attn_type", "projector_ln_eps", "projector_hidden_act",
        "hidden_act", "text_hidden_size",
    )  # fmt: skip
    normed = reader.size("mm_hidden_size", default=hidden)
    if normed != hidden:
        raise InputError(f"{reader.where}: mm_hidden_size is {normed}, and patches have {hidden} dimensions")
    patch, merged = reader.size("patch_size", default=14), merge[0] * merge[1]
    return VisionTower(
        family=str(config.get("model_type")),
        hidden_size=hidden,
        layers=reader.size("vt_num_hidden_layers", "num_hidden_layers"),
        heads=heads,
        head_dim=head_size(reader, hidden, heads),
        intermediate_size=reader.size("vt_intermediate_size", "intermediate_size"),
        patch_size=patch,
        patch_values=3 * patch * patch,
        resizing=Resizing(rule="padded", most=MOST_PATCHES, side=MOST_A_SIDE),
        positions=rows * columns,
        position_taps=16,  # bicubic
        final_norm=True,
        projections=(Projection(widths=(merged * hidden, merged * hidden, text_width), merged=merged, norm="layer"),),
    )


MINIMAX_PIXELS = (4 * 28 * 28, 451_584)  # size of the image processor


def _minimax_m3(reader: ConfigReader, config: Config, text_width: int) -> VisionTower:
    """Patches of two frames, each projected, then joined by four."""
    hidden, heads = reader.size("hidden_size"), reader.size("num_attention_heads")
    reader.one_of("hidden_act", "gelu")
    reader.one_of("position_embedding_type", "rope")
    # Width of what is projected to, said again; tables of a text model; frames of videos; sizes of pinpoints.
    reader.ignore(
        "projection_dim", "rope_mode", "layer_norm_eps", "initializer_factor", "vocab_size",
        "vision_segment_max_frames", "image_size",
    )  # fmt: skip
    said = reader.value("img_token_compression_config") or {}
    if not isinstance(said, Mapping):
        raise InputError(f"{reader.where}: img_token_compression_config must be a mapping")
    inner = ConfigReader(said, reader.where)
    inner.one_of("image_token_compression_method", "patch_merge")
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
        resizing=Resizing(rule="nearest_multiple", least=MINIMAX_PIXELS[0], most=MINIMAX_PIXELS[1], marks=2),
        first_norm=True,
        projections=(
            Projection(widths=(hidden, between, text_width)),
            Projection(widths=(merged * text_width, between, text_width), merged=merged),
        ),
    )


TOWERS = {
    **dict.fromkeys(("qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe"), _qwen3),
    "kimi_k25": _moonvit,
    "minimax_m3_vl": _minimax_m3,
}
