"""Adds expected errors to answers, and reads limits with a confidence.

A session keeps subjects, errors and predictions that it looked up, so that a new limit asks for none again."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import cache
from itertools import chain, repeat
from typing import TYPE_CHECKING

from queries.asking.limit_sql import with_limits
from queries.asking.limits import predicted_limits
from queries.asking.question import Answer, Question
from queries.errors.expected import Stored, Subject, expected_errors, in_pairs
from queries.errors.spreads import BASIS, DATA_SHEET, MEASURED, basis_of
from queries.judging.confidence import HELD, Factors, Predicted, factors_of, is_measured, number_or_none, with_holds
from queries.judging.first_tokens import ask_about, with_intervals
from queries.judging.learned import MEASURED as OWN
from queries.judging.learned import LearnedAnswer, own_factors, silent_notes, with_own_runs
from queries.judging.subjects import (
    KEY_LENGTH,
    NO_KEY,
    StoredSubject,
    keys_of,
    scenarios_of_keys,
    stored_errors,
    subjects_of_scenarios,
)
from store.location import StoreLocation
from store.reading import ReadTransaction, read_transaction
from store.sealing import put_temporary

if TYPE_CHECKING:
    import duckdb

    from queries.asking.question import Answer
    from queries.judging.confidence import Predicted
    from queries.judging.first_tokens import Known
    from queries.learning.conditioning import Learned


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


_EVERY_SIZE = (0, 2**31 - 1)  # batch sizes of a scenario that no own run speaks of
_SIZES = (("first_batch_size", "BIGINT"), ("last_batch_size", "BIGINT"))
_FACTORS = (("scenario_id", "BIGINT"), *_SIZES, *((one.name, "DOUBLE") for one in fields(Factors)))
_PREDICTED = with_limits("""
    SELECT DISTINCT probe, each_predicted_metric
    FROM stored_rows((SELECT list(asked_about) FROM asked_about)) AS stored
    JOIN asked_about ON asked_about.scenario_id = stored.scenario_id AND asked_about.batch_size = stored.batch_size
""")


def with_expected_errors(  # noqa: PLR0917  what a session holds, one of each
    answer: Answer,
    known: KnownSubjects,
    connection: duckdb.DuckDBPyConnection,
    scenario_ids: Iterable[int],
    ready: Callable[[str], str],
    learned: Learned | None = None,
) -> Answer:
    """Also says which TTFTs are intervals, and what own runs changed.

    `ready` prepares a statement to run."""
    found = known.of_answer(answer, scenario_ids)
    subjects = list({id(one.subject): one.subject for one in found}.values())  # equal ones are one object
    errors = known.errors_of(subjects)
    shown = dict.fromkeys(map(errors.in_pairs, subjects)) if "prefill_probe" in answer.columns else subjects
    answer = replace(answer, expected_error=tuple(chain.from_iterable(map(errors.expected, shown))))
    numbers = {one.key: one.scenario_id for one in found}
    answer = with_intervals(_with_basis(answer, found), numbers, connection, ready, known.intervals)
    own = None if learned is None else LearnedAnswer(answer, learned)
    if own is not None and learned is not None and learned.groups:
        answer = with_own_runs(answer, own)
    if learned is not None:
        answer = replace(answer, notes=(*answer.notes, *silent_notes(learned.unpredicted)))
    if not answer.question.limits.on_times or not {*answer.columns, *answer.nearest_columns} & HELD.keys():
        return answer
    known_ones = known.predictions(answer.question.definitions.tpot)
    predicted = _predicted(answer, connection, found, ready, known_ones)
    held = None if own is None else own.held(predicted, answer.question.limits)

    def factors(subject: Subject, probability: float) -> Factors:
        return errors.factors(subject, probability, answer.question.limits.servers)

    return with_holds(answer, predicted, {one.key: one.subject for one in found}, factors, held)


def _with_basis(answer: Answer, found: Iterable[StoredSubject]) -> Answer:
    if "device" not in answer.columns:
        return answer
    bases = {one.subject.device: basis_of(one.subject) for one in found}
    places = [answer.columns.index(name) for name in ("device", "prefill_device") if name in answer.columns]
    probes = [place for place, name in enumerate(answer.columns) if name.endswith("probe")]
    least = cache(lambda *devices: _least_known([bases.get(str(device)) for device in devices]))
    told = list(zip(*answer.rows, strict=True)) or [()] * len(answer.columns)
    known = map(least, *(told[place] for place in places))
    own = map(any, zip(*(map(is_measured, told[place]) for place in probes), strict=True)) if probes else repeat(False)
    added = [(OWN if measured else one,) for one, measured in zip(known, own, strict=False)]
    rows = tuple(map(operator.add, answer.rows, added))
    answer = replace(answer, columns=(*answer.columns, BASIS), rows=rows)
    return replace(answer, notes=(*answer.notes, *_on_data_sheets(answer)))


def _least_known(bases: Sequence[str | None]) -> str | None:
    known = [one for one in bases if one is not None]
    return min(known, key=lambda one: (one != DATA_SHEET, one == MEASURED), default=None)


def _on_data_sheets(answer: Answer) -> Iterator[str]:
    if "rank" not in answer.columns:
        return
    by_group: dict[object, list[Mapping[str, object]]] = {}
    for row in answer.dicts():
        by_group.setdefault(row.get("question_group"), []).append(row)
    for rows in by_group.values():
        first = rows[0]
        if first[BASIS] != DATA_SHEET:
            continue
        measured = next((row for row in rows if row[BASIS] not in {DATA_SHEET, None}), None)
        beside = (
            "no measured device is among these rows"
            if measured is None
            else f"among measured ones {measured['device']} comes first, at rank {measured['rank']}"
        )
        yield f"note: rank {first['rank']}, {first['device']}, stands on a data sheet, nobody measured it; {beside}"


def _predicted(
    answer: Answer,
    connection: duckdb.DuckDBPyConnection,
    subjects: Sequence[StoredSubject],
    ready: Callable[[str], str],
    known: dict[str, Predicted],
) -> Mapping[str, Predicted]:
    """Predictions of all probes shown; `known` gains the missing ones."""
    named = HELD.keys() & {*answer.columns, *answer.nearest_columns}
    own = [str(one.metric) for one in predicted_limits()]  # what limits are about
    if named == {"probe"} and set(own) <= set(answer.columns) and not answer.nearest:
        places = [answer.columns.index(name) for name in ("probe", *own)]
        told = map(operator.itemgetter(*places), answer.rows)
        return {str(probe): tuple(map(number_or_none, measures)) for probe, *measures in told}
    numbers = {one.key: one.scenario_id for one in subjects}
    references = {
        row[place]
        for columns, rows in ((answer.columns, answer.rows), (answer.nearest_columns, answer.nearest))
        for place in (columns.index(name) for name in HELD.keys() & set(columns))
        for row in rows
    }
    missing = [str(one) for one in references if one is not None and one not in known]
    asked = {(numbers[one[:KEY_LENGTH]], int(one.rpartition(":")[2])) for one in missing if one[:KEY_LENGTH] in numbers}
    if not asked:
        return known
    ask_about(connection, sorted(asked))
    rows = connection.execute(ready(_PREDICTED), {"tpot_rule": answer.question.definitions.tpot}).fetchall()
    known |= {str(probe): tuple(measures) for probe, *measures in rows}
    return known


def read_with_confidence(
    question: Question,
    known: KnownSubjects,
    connection: duckdb.DuckDBPyConnection,
    scenario_ids: Iterable[int],
    learned: Learned | None = None,
) -> None:
    """Fills `factors`, which make limits ones of measured values."""
    limits, rule = question.limits, question.definitions.tpot
    found = known.of_scenarios(scenario_ids, rule)
    subjects = list(dict.fromkeys(one.subject for one in found))
    errors = known.errors_of(subjects)
    probability = 1.0 if limits.confidence is None else limits.confidence
    factors = {subject: errors.factors(subject, probability, limits.servers) for subject in subjects}
    told = {} if learned is None else learned.told
    rows = [_row(one, factors[one.subject]) for one in found if one.scenario_id not in told]
    if learned is not None:
        rows += own_factors(learned, probability, len(limits.on_times))
    put_temporary(connection, "factors", _FACTORS, rows)


def _row(one: StoredSubject, factors: Factors) -> tuple[object, ...]:
    return one.scenario_id, *_EVERY_SIZE, *(getattr(factors, name) for name, _ in _FACTORS[3:])
