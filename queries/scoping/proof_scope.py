"""A scope pinned by content keys, as a proof lists it: its scenarios in any copy of the store, or which of them lack.

Not here: scopes by name and filter (queries.scoping.scope), writing and checking proofs (queries.proofs)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from queries.scoping.scope import ResolvedScope, ScopeRow
from store.errors import InputError
from store.reading import ReadTransaction
from store.schema import scenario_tables


class _Scenario(NamedTuple):
    id: int
    key: str
    phase: str
    formula_version: int
    family: str
    serving_model: str
    assumptions: str | None


def resolve_pinned(transaction: ReadTransaction, pinned: Sequence[tuple[str, int, int, int]]) -> ResolvedScope:
    """Scenarios by content key with their batch intervals and groups: what a proof was about."""
    statement = (
        "SELECT sc.id, sc.key, sj.phase, sc.formula_version, d.family, sj.serving_model, sc.assumptions"  # noqa: S608
        f" FROM {scenario_tables('sj', 'd')}"
    )
    stored = {row.key: row for row in transaction.rows(_Scenario, statement)}
    missing = [key for key, *_ in pinned if key not in stored]
    if missing:
        raise InputError(
            f"{len(missing)} of {len(pinned)} scenarios of this proof are not in the store, {missing[0][:8]} first",
            hint="verify against the store the proof was made on, or a copy or import of it",
        )
    found = [stored[key] for key, *_ in pinned]
    return ResolvedScope(
        rows=tuple(
            ScopeRow(scenario_id=stored[key].id, first_batch_size=first, last_batch_size=last, question_group=group)
            for key, first, last, group in pinned
        ),
        groups=(),
        phases=frozenset(row.phase for row in found),
        formula_versions=tuple(sorted({row.formula_version for row in found})),
        families=tuple(sorted({row.family for row in found})),
        serving_models=tuple(sorted({row.serving_model for row in found})),
        assumptions={row.key: row.assumptions for row in found if row.assumptions},
    )
