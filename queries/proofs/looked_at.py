"""Rows that a proof's question read: in its own store as then, elsewhere as listed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from queries.asking.library import report
from queries.asking.parameters import answered_instead
from queries.asking.question import Question
from queries.measured_rows import predicted_scope
from queries.scoping.question_scope import Pinned, resolve_pinned
from queries.scoping.scope import DEVICES_A_GROUP, ResolvedScope
from store.errors import InputError, StoreError
from store.location import StoreLocation
from store.reading import read_transaction

_SINCE = "the proof was altered, or voiding was lifted since; make a new one on the store that you trust"
_BEYOND = "the proof was altered, or rows were voided since"
_GROUPED = "its scenarios are ranked in other groups or batch sizes than its question says"
Looked = tuple[str, int, int, int]  # scenario key, first and last batch size, group


def scope_of(location: StoreLocation, question: Question) -> list[Looked]:
    with read_transaction(location) as transaction:
        scope = predicted_scope(transaction, answered_instead(question), None)
        keys = transaction.keys("scenario")
    return _looked(scope, keys)


def check_stored(location: StoreLocation, pinned: Pinned) -> None:
    """Raises where listed scenarios are missing."""
    with read_transaction(location) as transaction:
        resolve_pinned(transaction, pinned)


def check_scope_here(location: StoreLocation, question: Question, pinned: Pinned) -> None:
    then = scope_of(location, question)
    _check_listed(pinned, then)
    missing = _keys(then) - _keys(pinned)
    if missing:
        raise StoreError(
            f"it leaves out {_counted(missing)} that this store held when it was made, and its question looks at",
            hint=_SINCE,
        )
    if then != list(pinned):
        raise StoreError(_GROUPED, hint=_SINCE)


def check_scope_elsewhere(location: StoreLocation, question: Question, pinned: Pinned, titles: Sequence[str]) -> None:
    """Raises where another store can tell that other rows are listed than asked for."""
    among, by_sweep = _without_sweep(question)
    wanted = _keys(pinned)
    with read_transaction(location) as transaction:
        keys = transaction.keys("scenario")
        numbers = ", ".join(str(number) for number, key in keys.items() if key in wanted)
        transaction.see_only({"scenario": f"id IN ({numbers or 'NULL'})"})
        resolved = predicted_scope(transaction, answered_instead(among), None)
    now = _looked(resolved, keys)
    _check_listed(pinned, now)
    divisor = DEVICES_A_GROUP if report(answered_instead(question).report).by_device else 1
    cells = 1 if by_sweep else 3  # which batch sizes a sweep asked for, its own store alone knows
    then_in, now_in = _members(pinned, titles, divisor, cells), _members(now, resolved.groups, divisor, cells)
    if [members for members, _ in then_in] != [members for members, _ in now_in]:
        raise StoreError(_GROUPED, hint=_SINCE)
    for (_, said), (_, here) in zip(then_in, now_in, strict=True):
        if said != here:
            raise StoreError(f"its scope says {said!r:.100}, this store {here!r:.100}", hint=_SINCE)


def more_today(location: StoreLocation, question: Question, pinned: Pinned) -> int:
    """Scenarios that the question would add today."""
    try:
        return len(_keys(scope_of(location, question)) - _keys(pinned))
    except InputError:  # names of then that say nothing here
        return 0


def _check_listed(pinned: Pinned, asked: Pinned) -> None:
    twice = [one for one, count in Counter(pinned).items() if count > 1]
    if twice:
        raise StoreError(f"it lists scenario {twice[0][0][:12]} twice", hint=_SINCE)
    if beyond := _keys(pinned) - _keys(asked):
        raise StoreError(f"its question does not look at {_counted(beyond)} that it lists", hint=_BEYOND)


def _looked(scope: ResolvedScope, keys: Mapping[int, str]) -> list[Looked]:
    return [
        (keys[row.scenario_id], row.first_batch_size, row.last_batch_size, row.question_group) for row in scope.rows
    ]


def _keys(looked: Iterable[Looked]) -> set[str]:
    return {key for key, *_ in looked}


def _without_sweep(question: Question) -> tuple[Question, bool]:
    """Only its own store has the sweep; and whether one is named."""
    scope = question.scope
    if scope.sweep is not None or scope.last:
        plain = replace(scope, sweep=None, last=False, all_versions=True)
        return replace(question, scope=replace(plain, all_subjects=True)), True
    return (replace(question, scope=replace(scope, all_subjects=True)) if scope.is_default else question), False


def _members(
    looked: Pinned, titles: Sequence[str], divisor: int, cells: int
) -> list[tuple[list[tuple[object, ...]], str]]:
    groups: dict[int, set[tuple[object, ...]]] = defaultdict(set)
    for one in looked:
        groups[one[3]].add(one[:cells])
    return sorted((sorted(members), _title(titles, group // divisor)) for group, members in groups.items())


def _title(titles: Sequence[str], number: int) -> str:
    return titles[number] if 0 <= number < len(titles) else "nothing"


def _counted(keys: Collection[str]) -> str:
    named = f"scenario {min(keys)[:12]}"
    return named if len(keys) == 1 else f"{len(keys):,} scenarios, {named} among them,"
