"""Scenarios of plans whose server failed: a plan fails at any concurrency."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import product

from queries.learning.conditioning import lessons_of
from queries.learning.own_points import FailedStart
from store.reading import ReadTransaction


def failed_scenarios(
    transaction: ReadTransaction, failed: Sequence[FailedStart], asked: Collection[int]
) -> Mapping[str, FailedStart]:
    """By content key. A pair says nothing of one pool."""
    whole = [one for one in failed if one.point.prompts is None]
    return {keys[0]: one for keys, one in _failed(transaction, whole, asked)}


def failed_pairs(
    transaction: ReadTransaction, failed: Sequence[FailedStart], asked: Collection[int]
) -> Mapping[tuple[str, ...], FailedStart]:
    """Pairs that failed together, by both keys."""
    return dict(_failed(transaction, [one for one in failed if one.point.prompts is not None], asked))


def _failed(
    transaction: ReadTransaction, failed: Sequence[FailedStart], asked: Collection[int]
) -> Iterator[tuple[tuple[str, ...], FailedStart]]:
    lessons = lessons_of(transaction, [one.point for one in failed], asked)
    if lessons is None:
        return
    of_plans: dict[tuple[object, str, str], list[str]] = defaultdict(list)
    for one in lessons.scenarios.values():
        of_plans[one.group, one.phase, one.plan].append(one.key)
    whys = {one.point.key: one for one in failed}
    for group, some in lessons.matched.items():
        for match in some:
            sides = [side for side in (match.prompts, match.known) if side is not None]
            for keys in product(*(of_plans[group, side.phase, side.plan] for side in sides)):
                yield keys, whys[match.point.key]
