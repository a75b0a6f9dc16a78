"""Own runs of a session: the store's points, and what they say of a scope."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from queries.learning.own_points import FailedStart, OwnPoint, OwnPoints, PointReader
from store.location import StoreLocation
from store.reading import read_transaction

if TYPE_CHECKING:
    import duckdb

    from queries.learning.at_rates import RateLessons
    from queries.learning.conditioning import Learned, Lessons
    from store.reading import ReadTransaction


class SessionRuns:
    """As first read, until `forget`."""

    def __init__(self, location: StoreLocation, reader: PointReader) -> None:
        self._location = location
        self._reader = reader
        self._points: OwnPoints | None = None
        self.learned: Learned | None = None  # of the scope
        self.elsewhere: tuple[OwnPoint, ...] = ()  # of its models and devices, under other engines
        self.at_rates: RateLessons | None = None  # of simulated loads of the scope
        self._sizes: range | None = None  # of batches

    def forget(self) -> None:
        self._points = None

    def lessons(self, transaction: ReadTransaction, scenarios: Iterable[int]) -> Lessons | None:
        self.elsewhere, self.at_rates, asked = (), None, frozenset(scenarios)
        if not asked or not self.read().points:
            return None
        from queries.learning.conditioning import lessons_of, without_gaps

        found = lessons_of(transaction, self.read().points, asked)
        self.elsewhere = () if found is None else found.elsewhere
        if found is None or not found.scenarios:
            return None
        self._sizes = without_gaps(transaction, found.scenarios)
        return found

    def read(self) -> OwnPoints:
        """Ahead of a transaction that needs them, it shares a connection with it."""
        if self._points is None:
            self._points = self._reader(self._location)
        return self._points

    def learn_rates(self, transaction: ReadTransaction, scenarios: Iterable[int]) -> None:
        """For simulated loads of scenarios."""
        asked, self.at_rates = frozenset(scenarios), None
        if asked and any(point.requests_per_s is not None for point in self.read().points):
            from queries.learning.at_rates import longer_steps

            self.at_rates = longer_steps(transaction, self.read().points, asked)

    def failed(self, scenarios: Iterable[int]) -> Mapping[str, FailedStart]:
        """By content key, with what is known of it; measured settings, whose numbers are negative, ran."""
        predicted = frozenset(one for one in scenarios if one > 0)
        if not predicted or not self.read().failed:
            return {}
        from queries.learning.failed_starts import failed_scenarios

        with read_transaction(self._location) as transaction:
            return failed_scenarios(transaction, self.read().failed, predicted)

    def learn(self, connection: duckdb.DuckDBPyConnection, lessons: Lessons | None) -> str | None:
        """The relation of corrected rows; None where runs correct none."""
        self.learned = None
        if lessons is None:
            return None
        from queries.learning.learned_rows import learn

        self.learned, corrected = learn(connection, lessons, self._sizes)
        return corrected
