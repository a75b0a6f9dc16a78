"""The answer of `plan`: rows of whole deployments, and in words what wins, what holds it back and what to ask next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from queries.asking import Answer, Framed, Limit
from queries.judging import four_figures
from queries.learning import NOT_STARTED
from queries.pairs import judged, rate_error
from store.light_dataclass import dataclass
from store.location import StoreLocation
from store.texts import counted
from sweepdb.planning import held_back
from sweepdb.planning.labels import described
from sweepdb.planning.ranking import RANKINGS, Row, number_of, order_of, subject_of, subjects, usual_ranking

if TYPE_CHECKING:
    from sweepdb.planning.formats import LookedAt

_CLOSE = 0.9  # share of a limit from which on it is called near


@dataclass(frozen=True, slots=True, kw_only=True)
class Relaxed:
    about: Limit
    limit: float
    answer: Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class NextCommand:
    words: tuple[str, ...]
    options: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentPlan(Framed):
    """Whole deployments, the best of each device and kind, with what is said about them."""

    answer: Answer
    sweep: str | None  # None: a question about more than one
    probes_evaluated: int
    notes: tuple[str, ...]
    relaxed: tuple[Relaxed, ...]
    goodput: tuple[Answer, ...]  # of instances by themselves, then of pairs, where requests that arrive were played
    played: bool  # whether requests that arrive were played, too
    store: StoreLocation
    rank_by: str | None = None
    looked_at: LookedAt | None = None  # None: an answer about stored rows alone
    surely: Answer | None = None  # with limits read at a confidence, where those of the best may be missed
    usual: Answer | None = None  # within usual limits that nobody gave, where the best exceeds them

    @property
    def not_started(self) -> tuple[str, ...]:
        """Notes of servers that did not start."""
        return tuple(note for note in self.answer.notes if NOT_STARTED in note)

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        """Names of the columns; those of the report `deployments`."""
        return self.answer.columns

    @property
    def rows(self) -> tuple[tuple[object, ...], ...]:  # type: ignore[override]
        return self.answer.rows

    @property
    def best(self) -> Row | None:
        """The deployment that wins, None where nothing satisfies the limits."""
        return self._first(self.answer)

    @property
    def ranking(self) -> str:
        """The measure that ranks the rows."""
        return self.rank_by or usual_ranking(self.answer.dicts())

    @property
    def probes(self) -> tuple[str, ...]:
        """The rows that the best deployment is made of."""
        row = self.best or {}
        return tuple(str(row[name]) for name in ("probe", "prefill_probe", "decode_probe") if row.get(name) is not None)

    @property
    def attainment(self) -> dict[str, float]:
        """The share of requests that goodputs are of, as an option; nothing where there are none."""
        return {"attainment": one.question.options.attainment for one in self.goodput[:1]}  # noqa: B035  one at most

    def tables(self) -> Iterator[tuple[str, list[dict[str, object]]]]:
        """The rows of each subject, with its title; formats are a column."""
        for subject in subjects(self.answer):
            rows = [row for row in self.dicts() if subject_of(self.answer, row) == subject]
            if rows:
                yield subject, rows

    def beside(self, best: Row) -> list[dict[str, object]]:
        """The rows that are about the same as the best, itself among them."""
        subject = subject_of(self.answer, best)
        return [row for row in self.dicts() if subject_of(self.answer, row) == subject]

    def kept_per_s(self, row: Row) -> float | None:
        """Requests/s that a deployment keeps within the limits as they come; None where none are played."""
        for played in (one for answer in self.goodput for one in answer.dicts()):
            if played["goodput"] is not None and _is_of(row, played):
                return number_of(played["goodput"]) * (number_of(row["instances"]) if "scenario" in played else 1)
        return None

    def sentences(self) -> Iterator[str]:
        """The answer in words: what wins, what comes next, what is near its limit, what longer limits would bring."""
        best = self.best
        if best is None:
            yield "Nothing satisfies the limits."
            yield from held_back.of_nodes(self, None)
            return
        yield self.sentence(best)
        yield from held_back.of_usual_limits(self, best)
        yield from held_back.of_formats(self, best)
        yield from held_back.of_nodes(self, best)
        yield from held_back.of_bases(self, best)
        yield from held_back.of_prices(self, best)
        yield from self._first_tokens(best)
        yield from self._arriving()
        yield from self._runner_up(best)
        if near := self.near(best):
            yield f"Near its limit: {', '.join(near)}."
        yield from held_back.of_memory(self, best)
        yield from held_back.of_confidence(self, best)
        yield from self._held_back(best)

    def sentence(self, row: Row) -> str:
        """A deployment of the answer and what it carries, as the winner."""
        name = described(row)
        return f"{name[:1].upper()}{name[1:]}, {self._carries(row)}."

    def next_commands(self) -> Iterator[NextCommand]:
        limits = self._limits()
        scope: dict[str, object] = {} if self.sweep is None else {"sweep": self.sweep}
        if self.best is None:
            yield NextCommand(words=("query", "coverage"), options=scope)
            return
        yield NextCommand(words=("launch", *launched_rows(self.best, self.probes)), options={"output": "started"})
        yield NextCommand(words=("explain", *self.probes))
        if self.best["mode"] == "pd":
            budget = {"num_devices": self.best["devices_used"]}
            yield NextCommand(words=("query", "pd-ratio"), options={**scope, **budget, **limits})
        else:
            yield NextCommand(words=("query", "sensitivity"), options={"vary": "tpot", **scope, **limits})
        if self.played:
            options = {"by": "goodput", **self.attainment, **scope, **limits}
            yield NextCommand(words=("query", "best"), options=options)
        yield NextCommand(words=("query", "pareto"), options=scope)

    def __repr__(self) -> str:
        return f"<Plan: {next(self.sentences())}>"

    def _first(self, answer: Answer) -> Row | None:
        rows = answer.dicts()
        by = self.rank_by or usual_ranking(rows)
        return min(rows, key=lambda row: order_of(row, by), default=None)

    def _limits(self) -> dict[str, float]:
        return {one.keyword: limit for one, limit in self.answer.question.limits.given if not one.least}

    def _carries(self, row: Row) -> str:
        pairs = self.answer.question.pairs
        made = number_of(row["output_tokens_per_s"])
        rate = f"{number_of(row['system_requests_per_s']):.3g} requests/s ({made:,.0f} tokens/s)"
        if row["users"] is not None:
            rate = f"{counted(number_of(row['users']), 'user')}, {rate}"
        used, idle = row["devices_used"], row["devices_idle"]
        of_all = f" of {number_of(used) + number_of(idle):.0f}" if idle else ""
        devices = f"{used}{of_all} {'device' if used == 1 and not idle else 'devices'}"
        tokens = row["usd_per_million_output_tokens"]
        money = "" if tokens is None else f", {four_figures(number_of(tokens))} USD per million output tokens"
        if pairs.target_qps is None and pairs.target_users is None:
            return f"{RANKINGS[self.ranking]}: {rate} on {devices}{money}"
        users = pairs.target_users
        wanted = f"{counted(users, 'user')} at once" if users else f"{pairs.target_qps:g} requests/s"
        if not row["carries_target"]:
            return f"carries most, and not the {wanted} asked for: {rate} on {devices}{money}"
        how = {
            "cost": f"for the least money, {number_of(row['usd_per_hour']):,.2f} USD an hour{money}",
            "devices": "with the fewest devices",
            "rate": "with the most to spare",
            "latency": "in the shortest time",
        }[self.ranking]
        most = "up to " if pairs.target_users is None else ""
        return f"carries {wanted} {how}: {devices}, {most}{rate}"

    def _arriving(self) -> Iterator[str]:
        """Rates of deployments when requests do not wait for answers, the highest first."""
        rows = [(row, kept) for row in self.answer.dicts() if (kept := self.kept_per_s(row)) is not None]
        if not rows:
            return
        rows.sort(key=lambda one: (-one[1], carrying_order(one[0])))
        said = "; ".join(f"{kept:.3g} with {described(row)}" for row, kept in rows)
        (share, who) = next((one["attainment"], one["arrivals"]) for one in self.goodput[0].dicts())
        yield (
            f"Where requests arrive by themselves ({who}), {number_of(share):.0%} of them meet the limits up to so many"
            f" a second: {said}."
        )

    def _first_tokens(self, best: Row) -> Iterator[str]:
        """First tokens where they are no one number, with what hardly depends on it."""
        for one in self.answer.ttft_intervals:
            if one.probe == best.get("probe"):
                least, most, whole = map(four_figures, (one.least_ms, one.most_ms, one.e2e_ms))
                limit = self.answer.question.limits.ttft_ms
                parted = f" The TTFT limit of {limit:g} ms lies between." if one.parted_by(limit) else ""
                yield (
                    f"Its first tokens take {least} to {most} ms: less if users drift apart, more if they stay in"
                    f" step.{parted} A whole request takes {whole} ms."
                )

    def _runner_up(self, best: Row) -> Iterator[str]:
        others = [row for row in self.answer.dicts() if row != best]
        others = [row for row in others if row["carries_target"] in {None, True}]
        if not others:
            return
        second = min(others, key=lambda row: order_of(row, self.ranking))
        errors = {_side(row): rate_error(self.answer, str(row["device"]), str(row["mode"])) for row in (best, second)}
        times, of_what = self._times(second, best)
        worse = 1 / times if self.ranking == "rate" else times
        yield f"Next comes {described(second)}, with {times:.2f} x {of_what}: {judged(worse, errors)}."

    def _times(self, row: Row, best: Row) -> tuple[float, str]:
        hourly = "usd_per_hour" if best["carries_target"] else "usd_per_million_output_tokens"
        measure, what = {
            "cost": (hourly, "the money"),
            "devices": ("devices_used", "the devices"),
            "rate": ("system_requests_per_s", "the rate"),
            "latency": ("e2e_ms", "the time"),
        }[self.ranking]
        return number_of(row[measure]) / number_of(best[measure]), what

    def near(self, best: Row) -> list[str]:
        """The limits that are nearly missed."""
        return [
            f"{one.called} {four_figures(number_of(value))} of {limit:g} {one.option.unit}"
            for one, limit in self.answer.question.limits.given
            if not one.least and (value := best.get(str(one.metric))) is not None and number_of(value) / limit >= _CLOSE
        ]

    def _held_back(self, best: Row) -> Iterator[str]:
        for one in self.relaxed if self.ranking != "latency" else ():  # longer limits make no request shorter
            wider = self._first(one.answer)
            if wider is None:
                continue
            gain, of_what = self._times(wider, best)
            other = "" if _kinds(wider) == _kinds(best) else f", and {described(wider)}, wins"
            limit = f"{one.about.article} {one.about.called} limit of {one.limit:g} {one.about.option.unit}"
            same = abs(gain - 1.0) < 0.005 and not other
            yield f"{limit} changes nothing." if same else f"{limit} gives {gain:.2f} x {of_what}{other}."


def counted_row(instances: object, probe: object) -> tuple[str, ...]:
    """A row as `launch` takes it, with its instances where there are several."""
    return (str(probe),) if instances == 1 else (f"{instances}x", str(probe))


def launched_rows(best: Row, probes: Sequence[str]) -> tuple[str, ...]:
    """The rows of a deployment as `launch` takes them."""
    if best["mode"] != "pd":
        return counted_row(best["instances"], probes[0])
    return (*probes, f"{best['prefill_instances']}P{best['decode_instances']}D")


def _is_of(row: Row, played: Row) -> bool:
    """Whether loads are of a deployment: of its instance, or of both its sides and as many of each."""
    if "scenario" in played:
        return _scenario(row, "probe") == str(played["scenario"])[:8]
    counts = ("prefill_instances", "decode_instances")
    return all(row.get(name) == played[name] for name in counts) and all(
        _scenario(row, f"{side}_probe") == str(played[f"{side}_scenario"])[:8] for side in ("prefill", "decode")
    )


def _scenario(row: Row, name: str) -> str:
    return str(row.get(name)).partition(":")[0]


def carrying_order(row: Row) -> tuple[object, ...]:
    """A key that sorts the winner first: what carries a target by money, others by rate."""
    return order_of(row, "cost" if row["carries_target"] else "rate")


def _kinds(row: Row) -> tuple[object, ...]:
    return row["device"], row["mode"], row.get("quantization")


def _side(row: Row) -> str:
    """A deployment as a sentence about errors names it: by the side that decides its rate."""
    return f"{'decode' if row['mode'] == 'pd' else 'aggregated'} on {row['device']}"
