"""MoonViT of Kimi-K2.5 to K2.7: patches at the image's own size, rotary in two dimensions, merged by four."""

from __future__ import annotations

from evaluator.inputs.architectures.config_reader import Config, ConfigReader
from evaluator.inputs.architectures.towers import checked, head_size
from evaluator.inputs.vision.tower import Projection, Resizing, VisionTower
from store.errors import InputError

MOST_PATCHES = 16_384  # of an image, and 512 a side: media_proc_cfg of preprocessor_config.json
MOST_A_SIDE = 512


def _moonvit(reader: ConfigReader, config: Config, text_width: int) -> VisionTower:
    hidden = reader.size("vt_hidden_size", "hidden_size")
    heads = reader.size("vt_num_attention_heads", "num_attention_heads")
    rows, columns = (reader.size(f"init_pos_emb_{side}", f"pos_emb_{side}", default=64) for side in ("height", "width"))
    merge = reader.numbers("merge_kernel_size") or [2, 2]
    if len(merge) != 2 or merge[0] != merge[1]:
        raise reader.refuse("image tokens that are no squares (merge_kernel_size)")
    checked(reader.word("mm_projector_type", "patchmerger"), "patchmerger", reader, "mm_projector_type")
    checked(reader.word("merge_type", "sd2_tpool"), "sd2_tpool", reader, "merge_type")
    checked(reader.word("pos_emb_type", "divided_fixed"), "divided_fixed", reader, "pos_emb_type")
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


TOWERS = {"kimi_k25": _moonvit}
