"""A question's scenarios, by its report's scope or as a proof lists them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

from queries.asking.library import report
from queries.asking.options import Blend, Scope
from queries.asking.parameters import instance_budget, phases_wanted
from queries.asking.question import Question
from queries.scoping.names import device_name, workload_ids
from queries.scoping.scope import (
    Grouped,
    LooksAt,
    ResolvedScope,
    ScopeRow,
    resolve_probes,
    resolve_scope,
    resolve_two_sweeps,
    resolve_whole_store,
)
from store.errors import InputError
from store.light_dataclass import NamedTuple
from store.location import StoreLocation
from store.reading import ReadTransaction, read_transaction
from store.schema import scenario_tables


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


Pinned = Sequence[tuple[str, int, int, int]]  # scenario key, first and last batch size, group


def resolve_question(transaction: ReadTransaction, question: Question, pinned: Pinned | None) -> ResolvedScope:
    if pinned is not None:
        return resolve_pinned(transaction, pinned)
    kind, most = report(question.report).scope, instance_budget(question)

    def looks_at(stored: Collection[str]) -> Collection[str]:
        return phases_wanted(question, stored)

    if kind == "whole":
        return resolve_whole_store(transaction, question.scope, most_devices=most)
    if kind == "sweeps":
        return resolve_two_sweeps(transaction, *question.options.sweeps, most_devices=most)
    if kind == "blend":
        return resolve_blend(transaction, question.scope, question.options.mix, looks_at)
    if kind == "probes":
        return resolve_probes(transaction, question.options.probes, most_devices=most)
    over = kind == "workloads"
    grouped = Grouped(
        over_workloads=over,
        by_device=report(question.report).by_device,
        title="every workload" if over else None,
        looks_at=looks_at,
    )
    return resolve_scope(transaction, question.scope, grouped, most_devices=most)


def keyed_question(location: StoreLocation, question: Question) -> Question:
    """Devices of pairs by stored names, workloads of a blend by key."""
    pairs, mix = question.pairs, question.options.mix
    if pairs.prefill_device is None and pairs.decode_device is None and not mix:
        return question
    with read_transaction(location) as transaction:
        prefill, decode = (
            None if device is None else device_name(transaction, device)
            for device in (pairs.prefill_device, pairs.decode_device)
        )
        blend = keyed_blend(transaction, mix) if mix else mix
    return replace(
        question,
        pairs=replace(pairs, prefill_device=prefill, decode_device=decode),
        options=replace(question.options, mix=blend),
    )


class _Scenario(NamedTuple):
    id: int
    key: str
    phase: str
    formula_version: int
    family: str
    serving_model: str
    assumptions: str | None


def resolve_pinned(transaction: ReadTransaction, pinned: Pinned) -> ResolvedScope:
    """By key with batch intervals and groups: a proof's."""
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


def phases_kept(question: Question, scope: ResolvedScope) -> frozenset[str]:
    return frozenset(phases_wanted(question, scope.phases) & scope.phases)


def check_serving_models(scope: ResolvedScope) -> None:
    if len(scope.serving_models) > 1:
        raise InputError(
            f"compare needs both sides under one serving model; stored here: {', '.join(scope.serving_models)}",
            hint="choose one with `serving_model`",
        )
