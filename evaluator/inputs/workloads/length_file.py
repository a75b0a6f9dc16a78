"""Keys and ranges of a length distribution's YAML file."""

from __future__ import annotations

import math
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, model_validator

from evaluator.inputs.workloads.workload import LARGEST_BIN_COUNT, LARGEST_LENGTH
from evaluator.inputs.yaml_file import shortened

LARGEST_NUMBER = 1e300  # what is larger overflows in sums


def file_number(value: object) -> int | float:
    if (
        isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < LARGEST_NUMBER
    ):  # NaN is not below
        return value
    raise ValueError(f"must be a finite number, not {shortened(value)}")


def file_tokens(value: object) -> int:
    number = file_number(value)
    if number != math.floor(number):
        raise ValueError(f"must be a whole number of tokens, not {number}")
    if not 0 <= number <= LARGEST_LENGTH:
        bound = "at least 0" if number < 0 else f"at most {LARGEST_LENGTH}"
        raise ValueError(f"must be {bound}, not {shortened(value)}")
    return int(number)


def _weight(value: object) -> float:
    if (number := file_number(value)) <= 0:
        raise ValueError(f"must be above 0, not {number}")
    return number


def _share(value: object) -> float:
    if not 0 <= (number := file_number(value)) < 1:
        raise ValueError(f"must lie in [0, 1), not {number}")
    return number


_Tokens = Annotated[int, PlainValidator(file_tokens)]
_FORBID = ConfigDict(extra="forbid")


class OutputBinKeys(BaseModel):
    model_config = _FORBID
    min_tokens: _Tokens
    max_tokens: _Tokens
    weight: Annotated[float, PlainValidator(_weight)]

    @model_validator(mode="after")
    def is_a_range(self) -> Self:
        _check_range("min_tokens", self.min_tokens, "max_tokens", self.max_tokens)
        return self


class BinKeys(OutputBinKeys):
    prefix_cache_hit_rate: Annotated[float | None, PlainValidator(_share)] = None
    output_min_tokens: Annotated[int | None, PlainValidator(file_tokens)] = None
    output_max_tokens: Annotated[int | None, PlainValidator(file_tokens)] = None

    @model_validator(mode="after")
    def has_answers_or_none(self) -> Self:
        if self.output_min_tokens is not None and self.output_max_tokens is not None:
            _check_range("output_min_tokens", self.output_min_tokens, "output_max_tokens", self.output_max_tokens)
        return self


def _check_range(low: str, least: int, high: str, most: int) -> None:
    if most <= least:
        raise ValueError(f"{high} ({most}) must be above {low} ({least})")


class LengthKeys(BaseModel):
    model_config = ConfigDict(extra="forbid", title="Length distribution of sweepdb")
    name: Any = None
    bins: Annotated[list[BinKeys], Field(min_length=1, max_length=LARGEST_BIN_COUNT)]
    output_bins: Annotated[list[OutputBinKeys], Field(min_length=1, max_length=LARGEST_BIN_COUNT)] | None = None
