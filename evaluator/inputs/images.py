"""Images of requests, what a model's processor makes of them, and the encoder that reads it.

Rules follow the image processors of transformers 5. Left out: videos, crops of wide images (Gemma 3's pan and scan),
and custom processor settings."""

from __future__ import annotations

import math
from dataclasses import field
from typing import Literal

from evaluator.canonical import IF_SET, IN_NO_KEY
from store.errors import InputError
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


LARGEST_SIDE = 65_536  # pixels
MOST_IMAGES = 10_000
VIEW_SIDE, LONGEST_VIEW = 504, 3024  # pixels of a window and of an image under Step-3.7's processor
_NARROW, _LONG, _ELONGATED, _REST = 32, 4, 1.5, 0.2
MOST_STRETCH = 200  # of the longer side over the shorter one, as processors refuse more


# What tensor parallel ranks of an encoder share: the weights of each layer, or the images of a step.
EncoderSplit = Literal["weights", "data"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRequest:
    """Images a request, whatever model answers."""

    count: int
    width: int
    height: int
    split: EncoderSplit = "weights"


@dataclass(frozen=True, slots=True, kw_only=True)
class Images:
    """An image has `sequences` of `patches` patches, and becomes `tokens` prompt tokens.

    Patches attend within a sequence. `views` sequences of `view_patches` come on top where a processor cuts windows."""

    count: int
    width: int
    height: int
    sequences: int
    patches: int
    tokens: int
    tower: VisionTower
    split: EncoderSplit = field(default="weights", metadata={IF_SET: True})
    views: int = field(default=0, metadata={IF_SET: True})
    view_patches: int = field(default=0, metadata={IF_SET: True})

    @property
    def all_patches(self) -> int:
        return self.sequences * self.patches + self.views * self.view_patches

    @property
    def prompt_tokens(self) -> int:
        return self.count * self.tokens


def check_images(request: ImageRequest) -> ImageRequest:
    if not 1 <= request.count <= MOST_IMAGES:
        raise InputError(f"`images` must lie between 1 and {MOST_IMAGES:,}, not {request.count}")
    sides = (request.width, request.height)
    if not all(1 <= side <= LARGEST_SIDE for side in sides):
        raise InputError(f"`image_size` has sides between 1 and {LARGEST_SIDE:,} pixels, not {sides[0]}x{sides[1]}")
    if max(sides) > MOST_STRETCH * min(sides):
        raise InputError(f"`image_size` {sides[0]}x{sides[1]}: one side is more than {MOST_STRETCH} times the other")
    return request


def images_of(request: ImageRequest, tower: VisionTower) -> Images:
    views, view_patches = 0, 0
    if tower.resizing.rule == "views":
        views, view_patches, marks = _windows(request.height, request.width, tower)
    sequences, patches, tokens = _CUT[tower.resizing.rule](request.height, request.width, tower)
    if views:
        tokens += views * view_patches // tower.token_patches + marks
    return Images(
        count=request.count,
        width=request.width,
        height=request.height,
        sequences=sequences,
        patches=patches,
        tokens=tokens + tower.resizing.marks,
        tower=tower,
        split=request.split,
        views=views,
        view_patches=view_patches,
    )


def _nearest_multiple(height: int, width: int, tower: VisionTower) -> tuple[int, int, int]:
    """Qwen2-VL: sides to the nearest multiple, then scaled to an allowed area."""
    # 1000 x 600 with tokens of 32 pixels: 31 x 19 tokens, as 1000 / 32 = 31.25 and 600 / 32 = 18.75.
    side = tower.patch_size * math.isqrt(tower.token_patches)
    rows, columns = round(height / side), round(width / side)
    area, rule = rows * columns * side * side, tower.resizing
    if area > rule.most:
        shrunk = math.sqrt(height * width / rule.most)
        rows, columns = (max(1, math.floor(length / shrunk / side)) for length in (height, width))
    elif area < rule.least:
        grown = math.sqrt(rule.least / (height * width))
        rows, columns = (math.ceil(length * grown / side) for length in (height, width))
    return 1, rows * columns * tower.token_patches, rows * columns


def _padded(height: int, width: int, tower: VisionTower) -> tuple[int, int, int]:
    """MoonViT: never enlarged, capped in patches and patches a side, padded to whole tokens."""
    # 1000 x 600 at patches of 14: 71 x 42 = 2,982 patches fit; padded to multiples of 28: 36 x 22 tokens.
    patch, rule = tower.patch_size, tower.resizing
    held = max(1, height // patch) * max(1, width // patch)
    longest = rule.side * patch
    scale = min(1.0, math.sqrt(rule.most / held), longest / height, longest / width)
    token = patch * math.isqrt(tower.token_patches)
    rows, columns = (-(-min(max(1, int(length * scale)), longest) // token) for length in (height, width))
    return 1, rows * columns * tower.token_patches, rows * columns


def _within_budget(height: int, width: int, tower: VisionTower) -> tuple[int, int, int]:
    """Gemma 4: the largest image of this shape; the encoder computes the whole budget."""
    # 280 tokens of 48 pixels: 1000 x 600 grows to 1036.9 x 622.1, 21 x 12 = 252 tokens of 2,520 patches computed.
    patch, most = tower.patch_size, tower.resizing.most
    token = patch * math.isqrt(tower.token_patches)
    factor = math.sqrt(most * patch * patch / (height * width))
    rows, columns = (math.floor(factor * length / token) for length in (height, width))
    longest = most // tower.token_patches
    if rows == 0:
        rows, columns = 1, min(width // height, longest)
    elif columns == 0:
        rows, columns = min(height // width, longest), 1
    return 1, most, rows * columns


def _fixed(height: int, width: int, tower: VisionTower) -> tuple[int, int, int]:  # noqa: ARG001  whatever they are
    return 1, tower.resizing.most, tower.resizing.most // tower.token_patches


def _tiles(height: int, width: int, tower: VisionTower) -> tuple[int, int, int]:
    """Llama 4: the best grid of tiles, plus one of the whole image.

    Separators follow each tile of a row; marks surround the image."""
    rule = tower.resizing
    rows, columns = best_grid(height, width, rule)
    patches = (rule.side // tower.patch_size) ** 2
    tokens = patches // tower.token_patches
    if rows * columns == 1:
        return 1, patches, tokens
    # 2 x 3 tiles: 7 of 144 tokens, 2 separators between columns of each row and one behind it.
    return rows * columns + 1, patches, (rows * columns + 1) * tokens + rows * columns


def _windows(height: int, width: int, tower: VisionTower) -> tuple[int, int, int]:
    """Step-3.7: windows, their patches, and tokens around them.

    Larger images are cut into windows of 504 pixels; long ones (over 1.5 to 1) into squares of their shorter side,
    scaled to 504. A rest of over a fifth of a window is another one."""
    if min(width, height) < _NARROW and max(width, height) > _LONG * min(width, height):
        width = height = max(width, height)
    if max(width, height) > LONGEST_VIEW:
        scale = LONGEST_VIEW / max(width, height)
        width, height = int(width * scale), int(height * scale)
    shorter, longer = min(width, height), max(width, height)
    if longer <= tower.resizing.side:
        window = shorter if longer / shorter > _ELONGATED else 0
    else:
        window = min(shorter, VIEW_SIDE) if longer / shorter > _LONG else VIEW_SIDE
    if not window:
        return 0, 0, 0
    # 1,500 x 800: 2 windows of 504 and a rest of 492 are 3 columns; 800 is a window and a rest of 296: 2 rows.
    columns, rows = (max(1, side // window + (side % window > _REST * window)) for side in (width, height))
    return columns * rows, (VIEW_SIDE // tower.patch_size) ** 2, 2 * columns * rows + rows - 1


def best_grid(height: int, width: int, rule: Resizing) -> tuple[int, int]:
    """Rows and columns: the least enlargement that fits, else the least reduction; then the fewest tiles."""
    shapes: dict[float, list[tuple[int, int]]] = {}
    for tiles in range(rule.most, 0, -1):
        for rows in range(1, tiles + 1):
            if tiles % rows == 0:
                shapes.setdefault(rows / (tiles // rows), []).append((rows, tiles // rows))
    grids = [grid for alike in shapes.values() for grid in alike]
    # A single-precision quotient, as the processor takes: equal scales are told apart by rounding alone.
    import numpy as np

    side = np.float32(rule.side)
    scale = [
        float(min(np.float32(rows) * side / np.float32(height), np.float32(columns) * side / np.float32(width)))
        for rows, columns in grids
    ]
    enlarging = [one for one in scale if one >= 1]
    wanted = min(enlarging) if enlarging else max(scale)
    held = [grid for grid, one in zip(grids, scale, strict=True) if one == wanted]
    return min(held, key=lambda grid: grid[0] * grid[1])


_CUT = {
    "views": _fixed,
    "nearest_multiple": _nearest_multiple,
    "padded": _padded,
    "within_budget": _within_budget,
    "fixed": _fixed,
    "tiles": _tiles,
}
