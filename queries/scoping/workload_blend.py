"""Workloads of a blend: keys, normalised weights, scenarios."""

from __future__ import annotations

from collections import Counter

from queries.asking.options import Blend, Scope
from queries.scoping.names import workload_ids
from queries.scoping.scope import Grouped, LooksAt, ResolvedScope, resolve_scope
from store.errors import InputError
from store.reading import ReadTransaction


def keyed_blend(transaction: ReadTransaction, blend: Blend) -> Blend:
    """Weights add up to 1."""
    stored = transaction.keys("workload")
    found = []
    for name, weight in blend:
        ids = workload_ids(transaction, name)
        if len(ids) > 1:
            keys = ", ".join(stored[workload_id][:12] for workload_id in ids[:4])
            raise InputError(f"{name!r} stands for {len(ids)} workloads", hint=f"write one by its key: {keys}")
        found.append((stored[ids[0]], weight))
    twice = [name for name, count in Counter(key for key, _ in found).items() if count > 1]
    if twice:
        names = [name for (name, _), (key, _) in zip(blend, found, strict=True) if key == twice[0]]
        raise InputError(f"`mix` names one workload twice: {', '.join(names)}", hint="add their weights up")
    total = sum(weight for _, weight in found)
    return tuple((key, weight / total) for key, weight in found)


def resolve_blend(transaction: ReadTransaction, scope: Scope, blend: Blend, looks_at: LooksAt) -> ResolvedScope:
    """A workload without rows in scope is an error that names it."""
    ids = {key: workload_ids(transaction, key)[0] for key, _ in blend}
    title = " + ".join(f"{weight:.3g} {_name(transaction, key)}" for key, weight in blend)
    grouped = Grouped(over_workloads=True, blended=True, title=title, looks_at=looks_at)
    for key, workload_id in ids.items():
        try:
            resolve_scope(transaction, scope, grouped, workloads=(workload_id,))
        except InputError as error:
            hint = (
                "without filters the newest request's model, precision, convention and serving model are meant: name"
                " them, such as `model=NAME` `convention=physical`"
                if scope.is_default
                else error.hint
            )
            raise InputError(
                f"nothing of workload {_name(transaction, key)} is stored under this question's model, precision and"
                " filters",
                hint=hint,
            ) from error
    return resolve_scope(transaction, scope, grouped, workloads=tuple(ids.values()))


def _name(transaction: ReadTransaction, key: str) -> str:
    """Its first name, else its label."""
    statement = (
        "SELECT COALESCE(MIN(n.name), MIN(w.label)) FROM workload w"
        " LEFT JOIN workload_name n ON n.workload_id = w.id WHERE w.key = ?"
    )
    (name,) = transaction.values(str, statement, (key,))
    return name
