"""The scope of a proof: scenarios by content key, so that a question can be asked again of any copy of a store.

Not here: scopes by name and filter (queries.scope), writing and checking proofs (queries.proof)."""

from __future__ import annotations

from collections.abc import Sequence

from queries.scope import ResolvedScope, ScopeRow
from store.errors import InputError
from store.readers import ReadTransaction


def resolve_pinned(transaction: ReadTransaction, pinned: Sequence[tuple[str, int, int, int]]) -> ResolvedScope:
    """Scenarios by content key with their batch intervals and groups: what a proof was about."""
    stored = {
        str(row[1]): (int(str(row[0])), str(row[2]))
        for row in transaction.rows(
            "SELECT sc.id, sc.key, sj.phase FROM scenario sc JOIN subject sj ON sj.id = sc.subject_id"
        )
    }
    missing = [key for key, *_ in pinned if key not in stored]
    if missing:
        raise InputError(
            f"{len(missing)} of {len(pinned)} scenarios of this proof are not in the store, {missing[0][:8]} first",
            hint="verify against the store the proof was made on, or a copy or import of it",
        )
    return ResolvedScope(
        rows=tuple(
            ScopeRow(scenario_id=stored[key][0], first_batch_size=first, last_batch_size=last, question_group=group)
            for key, first, last, group in pinned
        ),
        groups=(),
        phases=frozenset(stored[key][1] for key, *_ in pinned),
    )
