"""The scenarios that a question is about, by the kind of scope that its report has.

Not here: names and filters (queries.scoping.scope)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from queries.asking.library import report
from queries.asking.parameters import instance_budget, phases_wanted
from queries.asking.question import Question
from queries.scoping.proof_scope import resolve_pinned
from queries.scoping.scope import (
    Grouped,
    ResolvedScope,
    resolve_probes,
    resolve_scope,
    resolve_two_sweeps,
    resolve_whole_store,
)
from queries.scoping.workload_blend import resolve_blend
from store.reading import ReadTransaction

Pinned = Sequence[tuple[str, int, int, int]]  # scenario key, first and last batch size, group


def resolve_question(transaction: ReadTransaction, question: Question, pinned: Pinned | None) -> ResolvedScope:
    """The scope of a question; `pinned` scenarios take its place."""
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
