"""One record a call: its work at the traced point, and memory alive."""

from __future__ import annotations

import weakref
from contextvars import Token
from dataclasses import dataclass
from typing import Any, Self

import evaluator.graph.capture.mixers.mixer_formulas
import evaluator.graph.capture.upstream_formulas  # noqa: F401  both register what they hold
from evaluator.graph.capture.formulas import FORMULAS, Call, Work
from evaluator.graph.capture.library import taking
from evaluator.graph.capture.shapes import Tensor
from evaluator.graph.operators import ExpertExtents, RequestsOfLength
from evaluator.inputs.formats import Format
from store.schema import Convention


@dataclass(slots=True)
class Scope:
    label: str = ""
    counts: tuple[int, ...] = (1,)
    draft: bool = False
    experts: ExpertExtents | None = None
    per_expert: bool = False
    per_phase: bool = False
    multiple: int = 1
    if_needed: bool = False
    requests: RequestsOfLength | None = None
    shares: int = 1


@dataclass(slots=True)
class Record:
    """`alive` are bytes of activations while it runs, its result included."""

    label: str
    scope: Scope
    work: Work
    alive: int


class Recorder:
    def __init__(self, formats: dict[str, Format], convention: Convention = "physical") -> None:
        self.formats, self.convention = formats, convention
        self.scope = Scope()
        self.records: list[Record] = []
        self.unmodelled: list[str] = []
        self._alive = 0
        self._held: dict[weakref.ref[Tensor], int] = {}  # bytes of tensors that somebody still holds
        self._before: list[Token[Any]] = []

    def __enter__(self) -> Self:
        self._before.append(taking.set(self._take))
        return self

    def __exit__(self, *_: object) -> None:
        taking.reset(self._before.pop())

    def within(
        self,
        label: str,
        *,
        counts: tuple[int, ...] | None = None,
        draft: bool | None = None,
        experts: ExpertExtents | None = None,
        per_expert: bool = False,
        per_phase: bool = False,
        multiple: int | None = None,
        if_needed: bool = False,
        requests: RequestsOfLength | None = None,
        shares: int = 1,
    ) -> _Within:
        """Labels nest."""
        outer = self.scope
        return _Within(
            self,
            Scope(
                label=f"{outer.label}.{label}" if outer.label and label else outer.label or label,
                counts=outer.counts if counts is None else counts,
                draft=outer.draft if draft is None else draft,
                experts=outer.experts or experts,
                per_expert=outer.per_expert or per_expert,
                per_phase=outer.per_phase or per_phase,
                multiple=outer.multiple if multiple is None else multiple,
                if_needed=outer.if_needed or if_needed,
                requests=outer.requests or requests,
                shares=outer.shares * shares,
            ),
        )

    def _take(self, name: str, args: tuple[Any, ...], result: object) -> None:
        self._note(result)
        formula = FORMULAS.get(name)
        if formula is None:
            self.unmodelled.append(f"{self.scope.label}: {name}")
            return
        scope = self.scope
        work = formula(Call(args=args, result=result, formats=self.formats, convention=self.convention))
        label = f"{scope.label}.{work.label}" if scope.label and work.label else scope.label or work.label
        self.records.append(Record(label=label, scope=scope, work=work, alive=self._alive))

    def hold(self, tensor: Tensor) -> Tensor:
        self._note(tensor)
        return tensor

    def _note(self, result: object) -> None:
        for tensor in result if isinstance(result, tuple | list) else (result,):
            if isinstance(tensor, Tensor):
                size = tensor.nbytes
                self._alive += size
                self._held[weakref.ref(tensor, self._drop)] = size  # as a finalizer, at a third of its cost

    def _drop(self, reference: weakref.ref[Tensor]) -> None:
        self._alive -= self._held.pop(reference)


class _Within:
    __slots__ = ("_outer", "_recorder", "_scope")

    def __init__(self, recorder: Recorder, scope: Scope) -> None:
        self._recorder, self._scope, self._outer = recorder, scope, recorder.scope

    def __enter__(self) -> None:
        self._recorder.scope = self._scope

    def __exit__(self, *_: object) -> None:
        self._recorder.scope = self._outer
