"""Keys and ranges of a device's YAML file; ranges are wide enough for any machine and catch wrong units."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from store.errors import InputError
from store.schema import Family
from store.texts import checked_name, checked_text

_Dtype = Literal["fp32", "bf16", "fp16", "int8", "fp8", "fp4", "int4"]


def _plain(value: object) -> object:
    """YAML reads 1e12 without a dot as text."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _present(name: str) -> str:
    if not name.strip():
        raise ValueError("must be a text that is not empty")
    return name


def _by(rule: Callable[[str, str], str]) -> AfterValidator:
    def checked(text: str) -> str:
        try:
            return rule(text, "")
        except InputError as error:
            raise ValueError(error.message.strip(" .")) from None

    return AfterValidator(checked)


def _rated(rates: dict[str, float]) -> dict[str, float]:
    if not {"bf16", "fp16", "fp32"} & set(rates):
        raise ValueError("needs a rate of bf16, fp16 or fp32")
    return rates


def _within(low: float, high: float) -> Any:  # noqa: ANN401  what pydantic calls a field
    return Field(ge=low, le=high, allow_inf_nan=False, strict=True)


_PLAIN = BeforeValidator(_plain)
_Name = Annotated[str, _by(checked_name)]
_Text = Annotated[str, _by(checked_text)]
_Rate = Annotated[float, _within(1e6, 1e19), _PLAIN]
_Rates = Annotated[dict[_Dtype, _Rate], AfterValidator(_rated)]
_Bandwidth = Annotated[float, _within(1e6, 1e16), _PLAIN]
_Share = Annotated[float, _within(0.01, 1.0), _PLAIN]
_Start = Annotated[float, _within(0.0, 1e-2), _PLAIN]
_Extent = Annotated[int, Field(ge=1, strict=True)]


class LinkKeys(BaseModel):
    model_config = ConfigDict(extra="forbid")
    bandwidth_bytes_per_s: _Bandwidth
    latency_s: Annotated[float, _within(0.0, 1.0), _PLAIN]
    efficiency: _Share
    topology: Literal["clos", "full_mesh"] = "clos"


class DeviceKeys(BaseModel):
    model_config = ConfigDict(extra="forbid", title="Device profile of sweepdb")
    name: Annotated[_Name, AfterValidator(_present)]
    vendor: _Name = ""
    family: Family = "theoretical"
    aliases: list[_Name] = []
    source: _Text = ""
    matrix_flops_per_s: _Rates
    vector_flops_per_s: _Rates
    memory_bytes: Annotated[float, _within(2**20, 2**50), _PLAIN]
    memory_bandwidth_bytes_per_s: _Bandwidth
    compute_efficiency: _Share
    memory_efficiency: _Share
    matrix_static_s: _Start
    vector_static_s: _Start
    communication_static_s: _Start
    compute_units: Annotated[float, _within(1, 1e5), _PLAIN] | None = None
    watts: Annotated[float, _within(0.1, 1e6), _PLAIN] | None = None
    grid: Annotated[list[_Extent], Field(min_length=1)]
    links: list[LinkKeys]
    host_link_bytes_per_s: _Bandwidth | None = None
    host_link_source: _Text = ""
    cache_bytes: Annotated[float, _within(2**10, 2**40), _PLAIN] | None = None
    cache_source: _Text = ""
    fitted_from: _Text = ""
    calibration: dict[str, Any] | None = None

    @model_validator(mode="after")
    def one_link_a_dimension(self) -> Self:
        if len(self.links) != len(self.grid):
            raise ValueError(f"links must be a list with one link a grid dimension ({len(self.grid)})")
        return self
