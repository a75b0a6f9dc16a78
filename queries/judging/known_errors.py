"""The errors that a session expects of subjects, each looked up once: a moved limit changes none of them.

Not here: which region is the nearest (queries.errors.expected), and what limits make of it (confidence)."""

from __future__ import annotations

from queries.errors.expected import ExpectedError, Stored, Subject, expected_errors, in_pairs
from queries.judging.confidence import Factors, factors_of


class KnownErrors:
    """Errors and factors by subject, over what a store itself holds of errors."""

    def __init__(self, stored: Stored) -> None:
        self._stored = stored
        self._expected: dict[Subject, tuple[ExpectedError, ...]] = {}
        self._in_pairs: dict[Subject, Subject] = {}
        self._factors: dict[tuple[Subject, float], Factors] = {}

    def expected(self, subject: Subject) -> tuple[ExpectedError, ...]:
        """The errors of every metric of a subject."""
        found = self._expected.get(subject)
        if found is None:
            found = self._expected[subject] = expected_errors([subject], self._stored)
        return found

    def in_pairs(self, subject: Subject) -> Subject:
        """The subject whose errors the pairs of a prefill side have."""
        found = self._in_pairs.get(subject)
        if found is None:
            found = self._in_pairs[subject] = in_pairs(subject, self._stored)
        return found

    def factors(self, subject: Subject, probability: float) -> Factors:
        """Measured over predicted that is not exceeded with this probability."""
        found = self._factors.get((subject, probability))
        if found is None:
            found = self._factors[subject, probability] = factors_of(subject, self._stored, probability)
        return found
