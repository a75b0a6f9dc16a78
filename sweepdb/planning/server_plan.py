"""The answer about a server that somebody starts: what it does for numbers of users, and what better flags would do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from queries.asking import Answer, Framed
from queries.judging import four_figures
from queries.pairs import judged, rate_error
from store.light_dataclass import dataclass
from store.location import StoreLocation
from store.texts import counted
from sweepdb.planning.deployment_plan import NextCommand, counted_row
from sweepdb.planning.ranking import Row, number_of

SERVER_COLUMNS = (
    "concurrency", "deployment", "instances", "plan", "users", "output_tokens_per_s", "requests_per_s", "ttft_ms",
    "tpot_ms", "e2e_ms", "within_limits", "probe",
)  # fmt: skip
STARTED = "as started"


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheRoom:
    """The room of the KV caches of all instances: tokens, and requests of the lengths asked about."""

    tokens: int
    requests: int
    request_tokens: int
    share: float
    stated: bool  # whether the server's flags say the share


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPlan(Framed):
    """The server as it is started for each number of users, then the best changes of its flags."""

    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    named: str  # how it is started
    device: str
    room: CacheRoom
    at_once: int  # users that are served at once
    lines: Mapping[str, str]  # by deployment: what to start in its place
    answer: Answer  # about the server as it is started
    sweep: str
    probes_evaluated: int
    notes: tuple[str, ...]
    store: StoreLocation

    @property
    def best(self) -> Row | None:
        """The best change of flags for the most users; None where none makes more, or keeps limits that are missed."""
        rows = self.dicts()
        most = max((number_of(row["concurrency"]) for row in rows), default=0.0)
        (started, *others) = [row for row in rows if row["concurrency"] == most]
        found = others[0] if others else None
        return found if found is not None and _better(found, started) else None

    def sentences(self) -> Iterator[str]:
        """The room of its cache, its numbers for each number of users, and the best change."""
        room = self.room
        own = "" if room.stated else ", as the engine takes by itself"
        yield (
            f"Its KV cache holds about {room.tokens:,} tokens,"
            f" {counted(room.requests, 'request')} of {room.request_tokens:,}."
            f" That is with {room.share:g} of a device's memory{own}; CUDA graphs are not counted."
        )
        ladder = [row for row in self.dicts() if row["deployment"] == STARTED]
        yield from (self._does(row) for row in ladder if len(ladder) == 1 or self._says_more(row))
        yield from self._change()

    def next_commands(self) -> Iterator[NextCommand]:
        row = self.best or self.dicts()[0]
        if row["probe"] is not None:
            rows = counted_row(row["instances"], row["probe"])
            yield NextCommand(words=("launch", *rows), options={"output": "started"})
            yield NextCommand(words=("explain", str(row["probe"])))
        yield NextCommand(words=("query", "curve"), options={"sweep": self.sweep})

    def _says_more(self, row: Row) -> bool:
        """Whether a sentence has what the table does not say."""
        return row["probe"] is None or number_of(row["concurrency"]) > self.at_once or bool(self._missed(row))

    def _missed(self, row: Row) -> list[str]:
        return [
            f"{one.called} limit of {limit:g} {one.option.unit}"
            for one, limit in self.answer.question.limits.given
            if not one.least and (value := row.get(str(one.metric))) is not None and number_of(value) > limit
        ]

    def _does(self, row: Row) -> str:
        users = number_of(row["concurrency"])
        if row["probe"] is None:
            return f"{counted(users, 'user')} are more than it serves at once: how long others wait is not predicted."
        ttft, tpot = (four_figures(number_of(row[name])) for name in ("ttft_ms", "tpot_ms"))
        missed = self._missed(row)
        kept = f"; above the {' and the '.join(missed)}" if missed else ""
        waiting = f", {users - self.at_once:,.0f} of them waiting for a place" if users > self.at_once else ""
        return (
            f"{users:,.0f} user{'s' * (users != 1)}{waiting}: {number_of(row['output_tokens_per_s']):,.0f} tokens/s"
            f" ({number_of(row['requests_per_s']):.3g} requests/s), TTFT {ttft} ms, TPOT {tpot} ms{kept}."
        )

    def _change(self) -> Iterator[str]:
        best = self.best
        if best is None:
            most = max(number_of(row["concurrency"]) for row in self.dicts())
            yield f"No other flags on the same devices are better for {counted(most, 'user')}."
            return
        started = next(
            row for row in self.dicts() if row["deployment"] == STARTED and row["concurrency"] == best["concurrency"]
        )
        users = counted(number_of(best["concurrency"]), "user")
        of = f"{best['deployment']} ({best['plan']}) is the best change for {users}"
        if started["probe"] is None:
            yield f"{of}: it serves them all at once."
            return
        gain = number_of(best["output_tokens_per_s"]) / number_of(started["output_tokens_per_s"])
        missed = "keeps the limits and " if best["within_limits"] else "misses the limits, too, and "
        kept = missed if started["within_limits"] is False else ""
        error = {f"aggregated on {self.device}": rate_error(self.answer, self.device, "aggregated")}
        yield f"{of}: it {kept}makes {gain:.2f} x the tokens/s; {judged(max(gain, 1 / gain), error)}."


def _better(row: Row, started: Row) -> bool:
    if started["probe"] is None:
        return True
    kept = bool(row["within_limits"]), bool(started["within_limits"])
    more = number_of(row["output_tokens_per_s"]) > number_of(started["output_tokens_per_s"])
    return kept > (kept[1], kept[1]) or (kept[0] >= kept[1] and more)
