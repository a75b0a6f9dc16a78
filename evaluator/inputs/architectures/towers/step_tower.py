"""Step-3.7's image encoder: a perception encoder whose blocks are scaled before they are added, two convolutions behind
it, and an image as one view of the whole beside windows of it.

Source: the classes of transformers 5.23 (step3p7), image processor included."""

from __future__ import annotations

from evaluator.inputs.architectures.config_reader import Config, ConfigReader
from evaluator.inputs.architectures.towers import checked, head_size, require_ungated
from evaluator.inputs.vision.tower import Projection, Resizing, VisionTower
from store.errors import InputError

_TAPS = 9  # of a convolution, with a stride of two rows and columns
_RATIO = 8960 / 1536


def _step(reader: ConfigReader, outer: Config, text_width: int) -> VisionTower:
    hidden = reader.size("width", "hidden_size", default=1536)
    heads = reader.size("heads", "num_attention_heads", default=16)
    ratio = reader.value("mlp_ratio", _RATIO)
    if not isinstance(ratio, int | float) or isinstance(ratio, bool) or ratio <= 0:
        raise InputError(f"{reader.where}: mlp_ratio must be a number above 0, not {ratio!r}")
    require_ungated(reader, "hidden_act", default="quick_gelu", allowed=("quick_gelu",))
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


TOWERS = {"step3p7": _step}
