"""The stored scenarios that measured settings stand beside: those of the same model, formats, engine and lengths.

Not here: measured settings themselves (queries.measured_rows.relation)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from queries.measured_rows.relation import NEAR, Ladder
from queries.scoping.scope import ResolvedScope
from store.reading import ReadTransaction
from store.schema import FORMULA_MODELS, SCENARIO_TABLES

_ABOUT = (
    "SELECT sc.id, sj.key, m.key, m.name, d.name, sj.phase, sj.serving_model, pr.linear_quantization,"  # noqa: S608
    " pr.experts_quantization, pr.attention_quantization, (1 + coalesce(sj.shortest_length, 1)) / 2,"
    " coalesce(w.input_length, w.input_length_mean), w.output_length, p.tp, p.pp, p.dp, p.ep, p.moe_tp, p.moe_dp"
    f" FROM {SCENARIO_TABLES} WHERE coalesce(w.prefix_cache_hit_rate, 0) = 0 AND coalesce(w.mtp_tokens, 0) = 0"
    " AND w.images IS NULL"
)
_SIZES = ("tp", "pp", "dp", "ep", "moe_tp", "moe_dp")
_AT_ONCE = 500


class Predicted(NamedTuple):
    """A stored scenario of requests as clients of measured points send them: nothing cached, drafted or drawn."""

    scenario_id: int
    subject: str
    model_key: str
    model: str
    device: str
    phase: str
    serving_model: str
    linear_quantization: str
    experts_quantization: str
    attention_quantization: str
    mean_length: float  # over nominal
    input_length: float
    output_length: float
    tp: int
    pp: int
    dp: int
    ep: int
    moe_tp: int
    moe_dp: int

    def is_of(self, one: Ladder) -> bool:
        """Whether a ladder is of the same model, formats and lengths, under its engine. Formulas stand for any."""
        server = one.server
        named = server.model_key == self.model_key if server.model_key else server.model.lower() == self.model.lower()
        return (
            named
            and self.serving_model in {*FORMULA_MODELS, server.serving_model, *_profiles(self, server.engine)}
            and server.linear_quantization == self.linear_quantization
            and server.experts_quantization == self.experts_quantization
            and server.attention_quantization == self.attention_quantization
            and self._has_lengths(one.input_length, one.output_length)
        )

    def is_subject_of(self, one: Ladder) -> bool:
        """Whether a ladder is of the same device, plan and phase, too."""
        server = one.server
        return (
            self.device == server.device and self.phase == one.phase
            and all(getattr(self, name) == getattr(server, name) for name in _SIZES) and self.is_of(one)
        )  # fmt: skip

    def _has_lengths(self, prompt: float | None, output: float | None) -> bool:
        """Nominal lengths, or the mean ones of a client that draws them."""
        return any(
            _near(prompt, share * self.input_length) and _near(output, share * self.output_length)
            for share in (1.0, self.mean_length)
        )


def _profiles(one: Predicted, engine: str) -> tuple[str, ...]:
    return (one.serving_model,) if one.serving_model.partition("@")[0] == engine else ()


def _near(measured: float | None, told: float) -> bool:
    return measured is not None and abs(math.log(max(measured, 1.0) / max(told, 1.0))) <= math.log1p(NEAR)


def predicted_of(transaction: ReadTransaction, numbers: Iterable[int]) -> list[Predicted]:
    """Scenarios by their numbers."""
    wanted, found = sorted(numbers), list[Predicted]()
    for start in range(0, len(wanted), _AT_ONCE):
        listed = ", ".join(map(str, wanted[start : start + _AT_ONCE]))
        found += transaction.rows(Predicted, f"{_ABOUT} AND sc.id IN ({listed}) ORDER BY sc.id")
    return found


def groups_of(
    transaction: ReadTransaction, scope: ResolvedScope, ladders: Sequence[Ladder]
) -> Mapping[int, tuple[int, ...]]:
    """The groups of a scope that each ladder stands in, by its number: all that agree with it."""
    of_group = {row.question_group: row.scenario_id for row in scope.rows}  # a group's rows agree on what is compared
    known = {one.scenario_id: one for one in predicted_of(transaction, set(of_group.values()))}
    groups: defaultdict[int, list[int]] = defaultdict(list)
    for group, number in sorted(of_group.items()):
        for one in ladders:
            if number in known and known[number].is_of(one):
                groups[one.scenario_id].append(group)
    return {number: tuple(found) for number, found in groups.items()}


def subjects_of(transaction: ReadTransaction, scope: ResolvedScope, ladders: Sequence[Ladder]) -> Mapping[int, str]:
    """The stored subject that each ladder measured, of several the first by its key."""
    known = sorted(predicted_of(transaction, {row.scenario_id for row in scope.rows}), key=lambda one: one.subject)
    found = (
        (one.scenario_id, next((told.subject for told in known if told.is_subject_of(one)), None)) for one in ladders
    )
    return {number: subject for number, subject in found if subject is not None}
