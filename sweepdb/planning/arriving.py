"""The answer of `plan` for a rate of requests that arrive: how many devices to buy, from simulations.

Rows are those of the report `capacity`, so that both say the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import floor

from queries.asking import Answer, Framed, Limit, ReportOptions
from store.light_dataclass import dataclass
from store.location import StoreLocation
from store.texts import counted
from sweepdb.planning.deployment_plan import NextCommand, launched_rows
from sweepdb.planning.formats import LookedAt
from sweepdb.planning.labels import deployment_label, in_words
from sweepdb.planning.ranking import Row, number_of, quantization_of, subject_of, subjects

_COUNTS = ("instances", "prefill_instances", "decode_instances")
_SCENARIOS = ("scenario", "prefill_scenario", "decode_scenario")
_SAME = 0.005  # of devices or money


@dataclass(frozen=True, slots=True, kw_only=True)
class Longer:
    """The same question with one limit that is longer."""

    about: Limit
    limit: float
    best: Row | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RatePlan(Framed):
    """Deployments that carry a rate, the best of each device and kind, the one to buy first."""

    answer: Answer  # every deployment of what was simulated
    rows: tuple[tuple[object, ...], ...]
    sweep: str
    budget: int | None  # devices that there are
    configurations: int  # that could be served, of which some were simulated
    simulated: int
    probes_evaluated: int
    notes: tuple[str, ...]
    longer: tuple[Longer, ...]
    within: float | None  # requests/s that the budget carries, where it is too small
    missed: Answer | None  # where nothing carries the rate: how far each got
    references: Mapping[str, str]  # stored row of each scenario
    store: StoreLocation
    about: LookedAt
    order: Order

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        """Names of the columns; those of the report `capacity`, and what weights are in."""
        return (*self.answer.columns, "quantization")

    @property
    def best(self) -> Row | None:
        """The deployment to buy, None where none carries the rate."""
        return self.order.first(self.dicts())

    def tables(self) -> Iterator[tuple[str, list[dict[str, object]]]]:
        """The rows of each subject, with its title and their deployments as they are to be bought."""
        for subject in subjects(self.answer) if self.rows else ():
            rows = [row for row in self.dicts() if subject_of(self.answer, row) == subject]
            if rows:
                yield subject, [{**row, "deployment": deployment_label(to_buy(row))} for row in rows]

    @property
    def probes(self) -> tuple[str, ...]:
        return self.probes_of(self.best or {})

    def probes_of(self, row: Row) -> tuple[str, ...]:
        """The stored rows of a deployment."""
        keys = (row.get(name) for name in ("scenario", "prefill_scenario", "decode_scenario"))
        return tuple(self.references[str(key)] for key in keys if key is not None)

    @property
    def limits(self) -> dict[str, float]:
        """The limits on times by their options."""
        return {one.keyword: limit for one, limit in self.answer.question.limits.given if not one.least}

    def sentences(self) -> Iterator[str]:
        """The number to buy first, then how requests arrive, what comes next and what longer limits would bring."""
        best = self.best
        if best is None:
            yield f"No deployment that was simulated keeps {self._share} of any rate within the limits."
            return
        yield self._buy(best)
        if best["usd_per_hour"] is not None:
            yield f"That costs {number_of(best['usd_per_hour']):,.2f} USD an hour."
        yield from self._short(best)
        published = self._as_published(best)
        if self._narrower(best):
            yield self._published(best, published)
        yield (
            f"Requests arrive ({best['arrivals']}) and were simulated for the {self.simulated} of"
            f" {self.configurations} configurations that could need the fewest devices; users who"
            " wait for their answers are another question (`concurrency`)."
        )
        if "e2e_limit" in self.limits:
            yield (
                "Disaggregated deployments were left out: their pools are simulated one by one, so no request's"
                " end-to-end time is known. Leave `e2e_limit` out to include them: TTFT and TPOT bound it, too."
            )
        yield from self._without_engine()
        yield from self._attained(best)
        yield from self._runner_up(best, published)
        yield from self._longer(best)

    def next_commands(self) -> Iterator[NextCommand]:
        """Commands that go on from here."""
        found: dict[str, object] = {"sweep": self.sweep, **self.limits}
        scope = {**found, "attainment": self._asked.attainment}
        if self.best is None:
            yield NextCommand(words=("query", "best"), options={"by": "goodput", **scope})
            return
        started = launched_rows(to_buy(self.best), self.probes)
        yield NextCommand(words=("launch", *started), options={"output": "started"})
        yield NextCommand(words=("explain", *self.probes))
        yield NextCommand(words=("query", "capacity"), options={"rate": self._asked.rate, **scope})
        yield NextCommand(words=("query", "attainment"), options={**found, "mode": "aggregated"})
        if "e2e_limit" not in found:
            yield NextCommand(words=("query", "sensitivity"), options={"by": "goodput", "vary": "tpot", **scope})

    def __repr__(self) -> str:
        """The first sentence."""
        return f"<Plan: {next(self.sentences())}>"

    @property
    def _asked(self) -> ReportOptions:
        return self.answer.question.options

    @property
    def _share(self) -> str:
        return f"{100 * self._asked.attainment:g} %"

    def _carrying(self, devices: object) -> str:
        within = f" with {self._share} of them within the limits" if self.limits else ""
        return f"{_verb(devices, 'carry', 'carries')} {self._asked.rate:g} requests/s{within}"

    def _buy(self, row: Row) -> str:
        most, exact, error = row["devices_with_margin"], row["devices"], row["step_error"]
        device, what = row["device"], _deployed(row)
        if error is None:
            return (
                f"Buy at least {exact} {device} ({what}): {exact} {self._carrying(exact)} if predictions hold exactly;"
                " nobody measured near, so no margin for their error can be said."
            )
        said = f"expected error of steps, +-{100 * number_of(error):.0f} %"
        if most is None:
            return (
                f"Buy more than {exact} {device}: {exact} ({what}) {self._carrying(exact)} if predictions hold exactly;"
                f" no number of them does with the {said}."
            )
        if most == exact:
            room = f"{_verb(exact, 'leave', 'leaves')} room for the {said}"
            return f"Buy {exact} {device} ({what}): {exact} {self._carrying(exact)}, and {room}."
        return (
            f"Buy {most} {device} ({what}): {exact} {self._carrying(exact)} if predictions hold exactly; {most} leave"
            f" room for the {said}."
        )

    def _short(self, best: Row) -> Iterator[str]:
        """Whether a budget carries the rate, and the rate that it does carry."""
        if self.budget is None or number_of(best["devices_with_margin"], number_of(best["devices"])) <= self.budget:
            return
        if best["carries_target"]:
            yield f"The {self.budget} there are carry that rate only if predictions hold exactly."
            return
        more = f": they carry up to {self.within:.3g} requests/s" if self.within else ""
        yield f"The {self.budget} there are do not carry that rate{more}."

    def _narrower(self, best: Row) -> bool:
        return bool(self.about.origins) and best["quantization"] != self.about.published

    def _as_published(self, best: Row) -> Row | None:
        """The deployment to buy in the format that weights are published in, where a narrower one wins."""
        rows = [row for row in self.dicts() if row["quantization"] == self.about.published]
        return self.order.first(rows) if self._narrower(best) else None

    def _published(self, best: Row, published: Row | None) -> str:
        said = f"Weights in {in_words(best['quantization'])}: {self.about.origins[str(best['quantization'])]}"
        form = in_words(self.about.published)
        if published is None:
            return f"{said}; as published ({form}) nothing carries that rate."
        return (
            f"{said}. As published ({form}): {bought(published):.0f} {published['device']},"
            f" {deployment_label(to_buy(published))}."
        )

    def _without_engine(self) -> Iterator[str]:
        parts = [part for part in self.about.built.parts if part.engine is None]
        names = dict.fromkeys(device.name for part in parts for device in part.devices)
        if names:
            yield (
                f"Not simulated: {', '.join(names)}, served by formulas ({parts[0].serving_model}); name an engine"
                " (`serving_model=vllm`)."
            )

    def _attained(self, best: Row) -> Iterator[str]:
        if self.limits and best["devices_with_margin"] not in {None, best["devices"]}:
            share = floor(1000 * number_of(best["attained"])) / 10
            yield (
                f"If predictions hold, {share:g} % of the requests are within the limits on"
                f" {best['devices_with_margin']} devices."
            )

    def _runner_up(self, best: Row, published: Row | None) -> Iterator[str]:
        second = self.order.first([row for row in self.dicts() if row not in (best, published)])
        if second is None:
            return
        what = f"{_deployed(second)} on {second['device']}"
        more, unit = _compared(second, best)
        same = "as much money" if unit == "money" else "as many"
        yield f"Next comes {what}: {_devices(second)}, {same if abs(more - 1) < _SAME else f'{more:.2f} x the {unit}'}."

    def _longer(self, best: Row) -> Iterator[str]:
        for one in self.longer:
            if one.best is None:
                continue
            gain, unit = _compared(one.best, best)
            what = f"{one.about.article} {one.about.called} limit of {one.limit:g} {one.about.option.unit}"
            other = _deployed(one.best)
            if abs(gain - 1) < _SAME:
                yield f"{what} changes nothing."
            else:
                yield f"{what} gives {gain:.2f} x the {unit}: {_devices(one.best)}, {other}."


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The order of what carries a rate: with a margin within the budget, then by money where all have a price, then by
    devices."""

    budget: int | None
    rank_by: str | None

    def key(self, rows: Sequence[Row]) -> Callable[[Row], tuple[object, ...]]:
        by_money = self.rank_by == "cost" or (
            self.rank_by is None and all(row["usd_per_hour"] is not None for row in rows)
        )
        most = float("inf") if self.budget is None else self.budget

        def key(row: Row) -> tuple[object, ...]:
            return (
                0 if bought(row) <= most else 1 if number_of(row["devices"]) <= most else 2,
                row["devices_with_margin"] is None,
                number_of(row["usd_per_hour"], float("inf")) if by_money else 0.0,
                bought(row),
                row["devices"],
                -number_of(row["goodput"]),
                *(str(row[name]) for name in ("device", "mode", *_SCENARIOS)),
            )

        return key

    def first(self, rows: Sequence[Row]) -> Row | None:
        return min(rows, key=self.key(rows), default=None)

    def chosen(self, answer: Answer, about: LookedAt) -> tuple[tuple[object, ...], ...]:
        """Of the rows of `capacity` the best of each device, mode and format, ranked by what is to buy.

        Of narrower formats that nobody named, the best alone."""
        rows = rows_of_a_device(answer)
        kept: dict[tuple[object, ...], Row] = {}
        for row in sorted(rows, key=self.key(rows)):
            form = row["quantization"] == about.published if about.origins else row["quantization"]
            kept.setdefault((subject_of(answer, row), row["device"], row["mode"], form), row)
        ranked: list[tuple[object, ...]] = []
        for subject in subjects(answer):
            mine = [row for place, row in kept.items() if place[0] == subject]
            ranked += [tuple({**row, "rank": rank}.values()) for rank, row in enumerate(mine, start=1)]
        return tuple(ranked)


def rows_of_a_device(answer: Answer) -> list[Row]:
    of_one = [row for row in answer.dicts() if row["prefill_device"] in {None, row["device"]}]
    return [{**row, "quantization": quantization_of(answer, row)} for row in of_one]


def _verb(devices: object, many: str, one: str) -> str:
    return one if devices == 1 else many


def _devices(row: Row) -> str:
    return counted(bought(row), "device")


def _deployed(row: Row) -> str:
    form = f" in {in_words(row['quantization'])}" if "quantization" in row else ""
    return f"{deployment_label(to_buy(row))}{form}"


def to_buy(row: Row) -> Row:
    """A deployment with its instances as they are to be bought."""
    more = {name: row[f"{name}_with_margin"] for name in _COUNTS if row[f"{name}_with_margin"] is not None}
    return {**row, **more}


def bought(row: Row) -> float:
    return number_of(row["devices_with_margin"], number_of(row["devices"]))


def _compared(other: Row, best: Row) -> tuple[float, str]:
    """How much more another deployment takes, and of what."""
    if None not in {other["usd_per_hour"], best["usd_per_hour"]}:
        return number_of(other["usd_per_hour"]) / number_of(best["usd_per_hour"]), "money"
    return bought(other) / bought(best), "devices"
