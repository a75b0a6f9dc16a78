"""Hyper-parameters of an image encoder, and how images become patches."""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from evaluator.canonical import IF_SET, IN_NO_KEY
from store.light_dataclass import dataclass

ResizeRule = Literal["nearest_multiple", "padded", "within_budget", "fixed", "tiles", "views"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """Linears after the layers, over `merged` neighbouring patches, joined or averaged (`pooled`).

    `widths` are input, inner and output; activations stand between linears, and last where `ends_active`. A norm comes
    first, of each patch or (`joined_norm`) of the joined. With `taps` it is a convolution that reads so many
    neighbours a written row."""

    widths: tuple[int, ...]
    merged: int = 1
    pooled: bool = False
    bias: bool = True
    norm: Literal["none", "layer", "rms", "unscaled"] = "none"
    joined_norm: bool = False
    ends_active: bool = False
    taps: int = field(default=0, metadata={IF_SET: True})


@dataclass(frozen=True, slots=True, kw_only=True)
class Resizing:
    """Rules from an image's size to patches. `least` and `most` are pixels, patches or tiles.

    nearest_multiple: to multiples of a token's side, within `least` and `most` pixels. padded: down to `most` patches
    and `side` a side, then padded to tokens. within_budget: the largest of its shape; `most` are computed. fixed:
    always `most` patches. tiles: up to `most` tiles of `side` pixels, plus the whole image. views: the whole at `side`
    pixels, and windows where it is large or long."""

    rule: ResizeRule
    most: int
    least: int = 0
    side: int = 0
    marks: int = 0  # tokens that the processor puts around an image


@dataclass(frozen=True, slots=True, kw_only=True)
class VisionTower:
    """Each layer attends within one image (or tile). `deep` projections read middle layers; `projections` follow the
    last."""

    hidden_size: int
    layers: int
    heads: int
    head_dim: int
    intermediate_size: int
    patch_values: int  # numbers of one patch: channels, frames, pixels
    projections: tuple[Projection, ...]
    deep: tuple[Projection, ...] = ()
    # How images become patches: workloads hold what came of it.
    family: str = field(default="", metadata={IN_NO_KEY: True})
    patch_size: int = field(default=0, metadata={IN_NO_KEY: True})
    resizing: Resizing = field(default=Resizing(rule="fixed", most=0), metadata={IN_NO_KEY: True})
    patch_bias: bool = True
    positions: int = 0  # learned ones
    position_taps: int = 0  # of them that are mixed for each patch
    class_patch: bool = False  # one more row a tile, which no projection reads
    rotated: bool = True
    norm: Literal["layer", "rms"] = "layer"
    first_norm: bool = False
    final_norm: bool = False
    output_norms: bool = False  # of each block, before it is added
    head_norms: bool = False  # of queries and keys, and of values without weights
    gated: bool = False
    attention_bias: bool = True
    mlp_bias: bool = True
    block_scales: bool = field(default=False, metadata={IF_SET: True})  # of each block, before it is added

    @property
    def token_patches(self) -> int:
        product = 1
        for one in self.projections:
            product *= one.merged
        return product

    @property
    def parameters(self) -> int:
        norm = self.hidden_size * (2 if self.norm == "layer" else 1)
        inner = self.heads * self.head_dim
        layer = 4 * self.hidden_size * inner + (3 * inner + self.hidden_size) * self.attention_bias
        matrices = 3 if self.gated else 2
        layer += matrices * self.hidden_size * self.intermediate_size
        layer += ((matrices - 1) * self.intermediate_size + self.hidden_size) * self.mlp_bias
        layer += norm * (4 if self.output_norms else 2) + 2 * self.head_dim * self.head_norms
        layer += 2 * self.hidden_size * self.block_scales
        patches = self.patch_values * self.hidden_size + self.hidden_size * (self.patch_bias + self.class_patch)
        ends = norm * (self.first_norm + self.final_norm)
        behind = sum(projection_parameters(one) for one in (*self.projections, *self.deep))
        return patches + self.positions * self.hidden_size + ends + self.layers * layer + behind


def projection_parameters(projection: Projection) -> int:
    pairs = list(zip(projection.widths, projection.widths[1:], strict=False))
    weights = sum(first * second + second * projection.bias for first, second in pairs)
    joined = 1 if projection.pooled or projection.joined_norm else projection.merged
    normed = projection.widths[0] // joined
    return weights + normed * {"layer": 2, "rms": 1, "none": 0, "unscaled": 0}[projection.norm]
