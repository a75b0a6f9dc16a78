"""A session's looked-up subjects, errors and predictions, so that a new limit asks for none again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from queries.errors.expected import Stored, Subject, expected_errors, in_pairs
from queries.judging.confidence import factors_of
from queries.judging.subjects import (
    NO_KEY,
    StoredSubject,
    keys_of,
    scenarios_of_keys,
    stored_errors,
    subjects_of_scenarios,
)
from store.location import StoreLocation
from store.reading import ReadTransaction, read_transaction

if TYPE_CHECKING:
    from queries.asking.question import Answer
    from queries.judging.confidence import Predicted
    from queries.judging.first_tokens import Known


class KnownErrors:
    """Figures that follow from the errors of a store, worked out once for each subject."""

    def __init__(self, stored: Stored) -> None:
        self.expected = cache(lambda subject: expected_errors([subject], stored))
        self.in_pairs = cache(lambda subject: in_pairs(subject, stored))
        self.factors = cache(lambda subject, probability, servers: factors_of(subject, stored, probability, servers))


class KnownSubjects:
    """As they were when first asked for."""

    def __init__(self, location: StoreLocation) -> None:
        self._location = location
        self._by_key: dict[str | None, dict[str, StoredSubject]] = {}  # by the rule for TPOT
        self._of_scenarios: dict[tuple[str | None, tuple[int, ...]], tuple[StoredSubject, ...]] = {}
        self._subjects: dict[Subject, Subject] = {}  # equal ones are one object: hashing and comparing are slow
        self._errors: dict[frozenset[tuple[str, str, str]], KnownErrors] = {}
        self._predictions: dict[str | None, dict[str, Predicted]] = {}  # by the rule for TPOT, then by probe
        self.intervals: Known = {}  # of first tokens, by probe; whoever finds more adds them

    def of_answer(self, answer: Answer, scenario_ids: Iterable[int]) -> tuple[StoredSubject, ...]:
        """Scenarios of the rows' probes, in order.

        Without rows, of nearest misses; where rows name no probes, the whole scope."""
        rule = answer.question.definitions.tpot
        keys = keys_of(answer.columns, answer.rows) or keys_of(answer.nearest_columns, answer.nearest)
        if not keys:
            return self.of_scenarios(scenario_ids, rule)
        known = self._by_key.setdefault(rule, {})
        if missing := [key for key in keys if key not in known and key != NO_KEY]:
            with read_transaction(self._location) as transaction:
                numbers = scenarios_of_keys(transaction, missing)
                known.update({one.key: one for one in self._read(transaction, numbers, rule)})
        return tuple(known[key] for key in keys if key in known)

    def of_scenarios(self, scenario_ids: Iterable[int], tpot_rule: str | None) -> tuple[StoredSubject, ...]:
        asked = (tpot_rule, tuple(scenario_ids))
        if asked not in self._of_scenarios:
            with read_transaction(self._location) as transaction:
                self._of_scenarios[asked] = self._read(transaction, asked[1], tpot_rule)
        return self._of_scenarios[asked]

    def _read(
        self, transaction: ReadTransaction, scenario_ids: Iterable[int], tpot_rule: str | None
    ) -> tuple[StoredSubject, ...]:
        found = subjects_of_scenarios(transaction, scenario_ids, tpot_rule)
        return tuple(replace(one, subject=self._subjects.setdefault(one.subject, one.subject)) for one in found)

    def predictions(self, tpot_rule: str | None) -> dict[str, Predicted]:
        return self._predictions.setdefault(tpot_rule, {})

    def errors_of(self, subjects: Sequence[Subject]) -> KnownErrors:
        asked = frozenset((one.device, one.kind, one.serving_model) for one in subjects)  # what it is looked up by
        if asked not in self._errors:
            with read_transaction(self._location) as transaction:
                self._errors[asked] = KnownErrors(stored_errors(transaction, subjects))
        return self._errors[asked]
