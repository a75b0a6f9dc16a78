"""Keys and ranges of an engine's YAML file."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, create_model, model_validator

from evaluator.inputs.engines import engine_numbers
from store.errors import InputError

_FORBID = ConfigDict(extra="forbid")
_Figure = float | list[float] | None


def _reads(read: Callable[[object], object]) -> Any:  # noqa: ANN401  what pydantic calls a type
    def checked(value: object) -> object:
        try:
            return read(value)
        except InputError as error:
            raise ValueError(error.message) from None

    return Annotated[Any, PlainValidator(checked)]


def _numbers(name: str, keys: Iterable[str], *, every: bool = False) -> type[BaseModel]:
    given: dict[str, Any] = {
        key: (_reads(partial(engine_numbers.number_in_range, key)), ... if every else None) for key in keys
    }
    return create_model(name, __config__=_FORBID, **given)


_Profile: Any = _numbers("ProfileKeys", engine_numbers.PROFILE_RANGES)
_Client: Any = _numbers("ClientKeys", engine_numbers.CLIENT_RANGES)
_Near: Any = _numbers("NearKeys", engine_numbers.NEAR_RANGES, every=True)


class HeldOutKeys(BaseModel):
    model_config = _FORBID
    device: str
    model: str
    profile: _Profile


class ExpectedKeys(BaseModel):
    model_config = _FORBID
    devices: list[str]
    metrics: dict[str, dict[str, _Figure]]


class EngineKeys(BaseModel):
    model_config = ConfigDict(extra="forbid", title="Engine profile of sweepdb")
    name: _reads(engine_numbers.named_engine)  # type: ignore[valid-type]
    admission: Literal["prefill_first", "mixed"]
    profile: _Profile = None
    client: _Client | None = None
    start: _Profile | None = None
    near: Annotated[list[_Near], Field(max_length=engine_numbers.MOST_NEAR)] = []
    held_out: list[HeldOutKeys] = []
    expected: ExpectedKeys | None = None
    fitted: list[Literal[tuple(engine_numbers.PROFILE_RANGES)]] = []  # type: ignore[valid-type]
    points_of: str | None = None
    called: list[Annotated[str, Field(pattern="^[a-z]+$")]] | None = None
    before: Annotated[str, Field(pattern=r"^\d+(\.\d+)+$")] | None = None
    until: int | None = None
    kernels: str | None = None
    source: str = ""
    unconverged: list[Literal["in sample", "held out"]] = []
    note: str = ""

    @model_validator(mode="after")
    def has_numbers(self) -> Self:
        if self.profile is None and self.start is None:
            raise ValueError("profile missing: the engine's numbers")
        return self
