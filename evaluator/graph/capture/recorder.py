"""Records the operators a traced step runs: one record per call, with its work at the traced point, and what was alive.

Not here: the work of an operator (evaluator.graph.capture.formulas) and the affine fit over points
(evaluator.graph.capture.affine_fit)."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import evaluator.graph.capture.mixers.mixer_formulas
import evaluator.graph.capture.mixers.mixer_library
import evaluator.graph.capture.upstream_formulas  # noqa: F401  all three register what they hold
from evaluator.graph.capture.formulas import FORMULAS, FREE, Call, Work
from evaluator.graph.capture.library import KERNELS
from evaluator.graph.operators import ExpertExtents, RequestsOfLength
from evaluator.inputs.precision import Format
from store.schema import Convention


@dataclass(slots=True)
class Scope:
    """Where in the model the next calls belong."""

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
    """One call at one traced point, in its scope. `alive` are the bytes of activations when it ran, its own result
    included."""

    label: str
    scope: Scope
    work: Work
    alive: int


class Recorder(TorchDispatchMode):
    """Dispatch mode that turns calls into records, in order."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Nothing here is compiled. Left to its default, torch wraps the method below and imports its compiler: 2 s.
        return False

    def __init__(self, formats: dict[str, Format], convention: Convention = "physical") -> None:
        super().__init__()
        self.formats, self.convention = formats, convention
        self.scope = Scope()
        self.records: list[Record] = []
        self.unmodelled: list[str] = []
        self._alive = 0
        self._held: dict[weakref.ref[Tensor], int] = {}  # bytes of tensors that somebody still holds

    @contextmanager
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
    ) -> Iterator[None]:
        """Calls inside carry this label (below the outer one), count, and belong to one expert if told."""
        outer = self.scope
        self.scope = Scope(
            label=".".join(part for part in (outer.label, label) if part),
            counts=outer.counts if counts is None else counts,
            draft=outer.draft if draft is None else draft,
            experts=outer.experts or experts,
            per_expert=outer.per_expert or per_expert,
            per_phase=outer.per_phase or per_phase,
            multiple=outer.multiple if multiple is None else multiple,
            if_needed=outer.if_needed or if_needed,
            requests=outer.requests or requests,
            shares=outer.shares * shares,
        )
        try:
            yield
        finally:
            self.scope = outer

    def __torch_dispatch__(
        self,
        func: Any,  # noqa: ANN401  torch's own signature
        types: Any,  # noqa: ANN401
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        name = _NAMES.get(func) or _named(func)
        call = KERNELS.get(name, func)
        result = call(*args, **kwargs) if kwargs else call(*args)
        if name in FREE:
            return result
        self._note(result)
        formula = FORMULAS.get(name)
        if formula is None:
            self.unmodelled.append(f"{self.scope.label}: {name}")
            return result
        scope = self.scope
        work = formula(Call(args=args, result=result, formats=self.formats, convention=self.convention))
        label = f"{scope.label}.{work.label}" if scope.label and work.label else scope.label or work.label
        self.records.append(Record(label=label, scope=scope, work=work, alive=self._alive))
        return result

    def hold(self, tensor: Tensor) -> Tensor:
        """A tensor that no operator of the step made, alive from now on."""
        self._note(tensor)
        return tensor

    def _note(self, result: object) -> None:
        for tensor in result if isinstance(result, tuple | list) else (result,):
            if isinstance(tensor, Tensor):
                size = tensor.numel() * tensor.element_size()
                self._alive += size
                self._held[weakref.ref(tensor, self._drop)] = size  # as a finalizer, at a third of its cost

    def _drop(self, reference: weakref.ref[Tensor]) -> None:
        self._alive -= self._held.pop(reference)


_NAMES: dict[Any, str] = {}


def _named(func: Any) -> str:  # noqa: ANN401  torch's own type
    name: str = func._schema.name  # noqa: SLF001  the only stable name of an operator
    return _NAMES.setdefault(func, name)


def meta_tensor(*shape: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    """An input of the traced step."""
    return torch.empty(shape, dtype=dtype, device="meta")
