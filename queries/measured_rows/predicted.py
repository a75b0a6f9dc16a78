"""Stored scenarios of the same model, formats, engine and lengths as measured settings."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from queries.learning.own_points import NEAR_LENGTHS
from queries.measured_rows.relation import Ladder
from queries.measured_rows.servers import NamedServer
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
_FORMATS = ("linear_quantization", "experts_quantization", "attention_quantization")
_AT_ONCE = 500
_SAME = 1e-6  # of logarithms of lengths


class Served(Protocol):
    """At one pair of lengths."""

    @property
    def server(self) -> NamedServer:
        """By the names of stored rows."""

    @property
    def input_length(self) -> float | None:
        """Mean tokens of prompts."""

    @property
    def output_length(self) -> float | None:
        """Mean tokens of answers."""

    @property
    def phase(self) -> str | None:
        """As stored rows call it."""


class StoredScenario(NamedTuple):
    """Of requests as measuring clients send them: nothing cached, drafted or drawn."""

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

    def apart(self, one: Served) -> float | None:
        """How far lengths are off; None for another model, format, engine or length.

        Formulas stand for any engine."""
        server = one.server
        named = server.model_key == self.model_key if server.model_key else server.model.lower() == self.model.lower()
        served = self.serving_model in FORMULA_MODELS or self.serving_model.partition("@")[0] == server.engine
        if not (named and served and all(getattr(self, name) == getattr(server, name) for name in _FORMATS)):
            return None
        # Nominal lengths, or the mean ones of a client that draws them.
        apart = min(
            max(
                _apart(one.input_length, share * self.input_length),
                _apart(one.output_length, share * self.output_length),
            )
            for share in (1.0, self.mean_length)
        )
        return apart if apart <= math.log1p(NEAR_LENGTHS) else None

    def is_subject_of(self, one: Served) -> bool:
        server = one.server
        return (
            self.device == server.device and self.phase == one.phase
            and all(getattr(self, name) == getattr(server, name) for name in _SIZES) and self.apart(one) is not None
        )  # fmt: skip


def _apart(measured: float | None, told: float) -> float:
    return math.inf if measured is None else abs(math.log(max(measured, 1.0) / max(told, 1.0)))


def stored_scenarios(transaction: ReadTransaction, numbers: Iterable[int]) -> list[StoredScenario]:
    wanted, found = sorted(numbers), list[StoredScenario]()
    for start in range(0, len(wanted), _AT_ONCE):
        listed = ", ".join(map(str, wanted[start : start + _AT_ONCE]))
        found += transaction.rows(StoredScenario, f"{_ABOUT} AND sc.id IN ({listed}) ORDER BY sc.id")
    return found


def groups_of(
    transaction: ReadTransaction, scope: ResolvedScope, ladders: Sequence[Ladder]
) -> Mapping[int, tuple[int, ...]]:
    """By ladder: the nearest of the groups that agree."""
    of_group = {row.question_group: row.scenario_id for row in scope.rows}  # a group's rows agree on what is compared
    known = {one.scenario_id: one for one in stored_scenarios(transaction, set(of_group.values()))}
    found: dict[int, tuple[int, ...]] = {}
    for one in ladders:
        apart = {
            group: far
            for group, number in sorted(of_group.items())
            if number in known and (far := known[number].apart(one)) is not None
        }
        if apart:
            found[one.scenario_id] = tuple(group for group, far in apart.items() if far <= min(apart.values()) + _SAME)
    return found


def subjects_of(transaction: ReadTransaction, scope: ResolvedScope, ladders: Sequence[Ladder]) -> Mapping[int, str]:
    known = sorted(stored_scenarios(transaction, {row.scenario_id for row in scope.rows}), key=lambda one: one.subject)
    found = (
        (one.scenario_id, next((told.subject for told in known if told.is_subject_of(one)), None)) for one in ladders
    )
    return {number: subject for number, subject in found if subject is not None}
