"""Stored scenarios of plans whose server did not start, or gave no numbers: a plan fails at all its users."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from queries.learning.conditioning import lessons_of
from queries.learning.own_points import FailedStart
from store.reading import ReadTransaction


def failed_scenarios(
    transaction: ReadTransaction, failed: Sequence[FailedStart], asked: Collection[int]
) -> Mapping[str, FailedStart]:
    """The scenarios that are of failed plans, by content key, with the failure."""
    whys = {one.point.key: one for one in failed}
    lessons = lessons_of(transaction, [one.point for one in failed], asked)
    if lessons is None:
        return {}
    of_plans = {
        (group, known.plan): whys[point.key] for group, some in lessons.matched.items() for point, known, _ in some
    }
    return {
        one.key: of_plans[one.group, one.plan]
        for one in lessons.scenarios.values()
        if (one.group, one.plan) in of_plans
    }
