"""Keys of a drafts YAML file."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from evaluator.inputs.yaml_file import shortened


def _size(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < 2**31:
        raise ValueError(f"must be a whole number of at least 1, not {shortened(value)}")
    return value


def _lengths(value: object) -> object:
    numbers = value if isinstance(value, list) else []
    plain = all(isinstance(one, int | float) and not isinstance(one, bool) for one in numbers)
    if not 1 <= len(numbers) <= 9 or not plain or not all(1 <= one <= 1 + at for at, one in enumerate(numbers, 1)):
        raise ValueError("is no list of 1 to 9 numbers, each from 1 to 1 + its drafts")
    return numbers


_Size = Annotated[int, BeforeValidator(_size)]


class DraftKeys(BaseModel):
    model_config = ConfigDict(extra="forbid")
    query_heads: _Size
    kv_heads: _Size
    head_dim: _Size
    intermediate_size: _Size
    vocab_size: _Size

    @model_validator(mode="after")
    def heads_divide(self) -> Self:
        if self.query_heads % self.kv_heads:
            raise ValueError(f"kv_heads ({self.kv_heads}) do not divide query_heads ({self.query_heads})")
        return self


class DraftsKeys(BaseModel):
    model_config = ConfigDict(extra="forbid", title="Drafts of sweepdb")
    acceptance: Annotated[str, Field(description="the name of a table")] | None = None
    tokens_per_step: Annotated[list[float], BeforeValidator(_lengths)] | None = None
    method: Literal["mtp", "eagle3", "dspark", "draft_model"] | None = None
    draft: DraftKeys | None = None
    draft_model: (
        Annotated[str, Field(description="a whole model that drafts: an id, a folder or a config.json")] | None
    ) = None

    @model_validator(mode="after")
    def one_source(self) -> Self:
        if (self.acceptance is None) == (self.tokens_per_step is None):
            raise ValueError("give acceptance, the name of a table, or tokens_per_step")
        if self.draft_model is not None and (self.draft is not None or self.method not in {None, "draft_model"}):
            raise ValueError("draft_model is a method of its own: give no draft and no other method")
        if self.draft_model is None and self.method == "draft_model":
            raise ValueError("method draft_model wants draft_model, the model that drafts")
        return self
