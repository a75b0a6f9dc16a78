"""Lengths of inference-perf's catalogue (`config.json`), as equally likely bins.

Source: workload-catalog/README.md of inference-perf, and its generator."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import NormalDist
from typing import Annotated, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, PlainValidator, model_validator

from evaluator.arithmetic import FloatArray, exp
from evaluator.inputs.workloads.length_file import file_number, file_tokens
from evaluator.inputs.workloads.workload import LengthBin
from evaluator.inputs.yaml_checking import checked_yaml
from evaluator.inputs.yaml_file import shortened

_INPUT_BINS, _OUTPUT_BINS = 12, 6
_POINTS = 200  # of a bin
_FAMILIES = ("normal", "log_normal", "lognormal", "uniform", "fixed")


def _family(value: object) -> str:
    if value not in _FAMILIES:
        known = ", ".join(_FAMILIES)
        raise ValueError(f"must be one of {known}, not {shortened(value)}; others are not known by mean and deviation")
    return str(value)


class SpreadKeys(BaseModel):
    model_config = ConfigDict(extra="ignore")
    min: Annotated[int, PlainValidator(file_tokens)]
    max: Annotated[int, PlainValidator(file_tokens)]
    mean: Annotated[float, PlainValidator(file_number)]
    standard_deviation: Annotated[float, PlainValidator(file_number)]
    distribution_type: Annotated[str, PlainValidator(_family)]

    @model_validator(mode="after")
    def is_a_spread(self) -> Self:
        if not 1 <= self.min <= self.mean <= self.max:
            raise ValueError(f"min, mean and max must rise from 1 on, not {self.min}, {self.mean:g} and {self.max}")
        if self.standard_deviation < 0:
            raise ValueError(f"standard_deviation must be at least 0, not {self.standard_deviation:g}")
        return self


class CatalogueKeys(BaseModel):
    model_config = ConfigDict(extra="ignore")
    input_sequence_length: SpreadKeys
    output_sequence_length: SpreadKeys


def catalogue_bins(text: str, where: str) -> tuple[LengthBin, ...]:
    found = checked_yaml(CatalogueKeys, text, where)
    outputs = list(_bins(found.output_sequence_length, _OUTPUT_BINS))
    return tuple(
        LengthBin(
            input_length=float(prompts.mean()),
            output_length=float(answers.mean()),
            weight=1.0 / (_INPUT_BINS * _OUTPUT_BINS),
            min_input_length=math.floor(prompts[0]),
            max_input_length=math.ceil(prompts[-1]),
        )
        for prompts in _bins(found.input_sequence_length, _INPUT_BINS)
        for answers in outputs
    )


def _bins(spread: SpreadKeys, count: int) -> Iterator[FloatArray]:
    lengths = np.rint(np.clip(_quantiles(spread, count * _POINTS), spread.min, spread.max))
    yield from np.split(lengths, count)


def _quantiles(spread: SpreadKeys, count: int) -> FloatArray:
    places = (np.arange(count) + 0.5) / count
    family, mean, deviation = spread.distribution_type, spread.mean, spread.standard_deviation
    if family == "uniform":
        return np.asarray(spread.min + places * (spread.max - spread.min))
    if family == "fixed" or deviation == 0:
        return np.full(count, float(mean))
    standard = np.asarray([NormalDist().inv_cdf(place) for place in places.tolist()])
    if family == "normal":
        return np.asarray(mean + deviation * standard)
    # The generator's log-normal starts at `min`: of 10 to 100 with mean 40, it has mean 30 above 10.
    above = max(1.0, mean - spread.min)
    variance = math.log1p((deviation / above) ** 2)
    return np.asarray(spread.min + above * exp(math.sqrt(variance) * standard - variance / 2))
