"""Arrays of shapes without contents.

Methods are named and behave as PyTorch's tensors."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from enum import IntEnum
from types import EllipsisType


class Kind(IntEnum):
    INT8 = 1
    BF16 = 2
    FP32 = 4
    INT64 = 8


class Tensor:
    """A view keeps its base alive, as memory is."""

    __slots__ = ("__weakref__", "_base", "_elements", "dtype", "nbytes", "shape")

    def __init__(self, shape: Sequence[int], dtype: Kind = Kind.BF16, base: Tensor | None = None) -> None:
        self.shape = tuple(shape)
        self.dtype = dtype
        self._elements = math.prod(self.shape)
        self.nbytes = self._elements * dtype  # as it lies in memory
        self._base = base

    def dim(self) -> int:
        return len(self.shape)

    def numel(self) -> int:
        return self._elements

    def new_empty(self, shape: Sequence[int]) -> Tensor:
        return Tensor(shape, self.dtype)

    def view(self, *shape: int) -> Tensor:
        known = math.prod(size for size in shape if size != -1)
        seen = self._seen([self._elements // known if size == -1 else size for size in shape])
        if seen.numel() != self._elements:
            raise ValueError(f"{self.shape} is no {shape}")
        return seen

    def unsqueeze(self, dim: int) -> Tensor:
        shape = list(self.shape)
        shape.insert(dim % (len(shape) + 1), 1)
        return self._seen(shape)

    def split(self, sizes: int | Sequence[int], dim: int) -> tuple[Tensor, ...]:
        """Equal parts, or the sizes given."""
        whole = self.shape[dim]
        parts = [sizes] * (whole // sizes) if isinstance(sizes, int) else sizes
        if sum(parts) != whole:
            raise ValueError(f"{sizes} do not divide {whole}")
        return tuple(self._seen((*self.shape[:dim], part, *self.shape[dim + 1 :])) for part in parts)

    def __getitem__(self, at: slice | tuple[slice | EllipsisType, ...]) -> Tensor:
        ranges = list(at) if isinstance(at, tuple) else [at]
        if ranges[0] is ...:
            ranges[:1] = [slice(None)] * (len(self.shape) - len(ranges) + 1)
        cut = [len(range(*one.indices(size))) for one, size in zip(ranges, self.shape, strict=False)]  # type: ignore[union-attr]
        return self._seen((*cut, *self.shape[len(cut) :]))

    def _seen(self, shape: Sequence[int]) -> Tensor:
        return Tensor(shape, self.dtype, self._base or self)

    __hash__ = object.__hash__


def meta_tensor(*shape: int, dtype: Kind = Kind.BF16) -> Tensor:
    return Tensor(shape, dtype)


@functools.lru_cache(maxsize=4096)
def parameter(*shape: int) -> Tensor:
    """Formulas count a weight's true bits, not this kind's."""
    return Tensor(shape)
