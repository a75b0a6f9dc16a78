"""The answer of `plan` for a rate of requests that arrive: how many devices to buy, from simulations.

Rows are those of the report `capacity`, so that both say the same. Not here: which configurations are simulated
(sweepdb.planning.simulated), and users who wait for their answers (sweepdb.planning.deployment_plan)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import floor

from queries.asking import Answer, Framed, Limit, ReportOptions
from store.location import StoreLocation
from sweepdb.planning.deployment_plan import NextCommand, deployment_label

Row = Mapping[str, object]
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

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        """Names of the columns; those of the report `capacity`."""
        return self.answer.columns

    @property
    def best(self) -> Row | None:
        """The deployment to buy, None where none carries the rate."""
        return best_of(self.dicts(), self.budget)

    @property
    def probes(self) -> tuple[str, ...]:
        """The rows that the best deployment is made of."""
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
        """What to buy first, then how requests arrive, what comes next and what longer limits would bring."""
        best = self.best
        if best is None:
            yield f"No deployment that was simulated keeps {self._share} of any rate within the limits."
            return
        yield self._buy(best)
        yield from self._short(best)
        yield (
            f"Requests arrive ({best['arrivals']}) and were simulated for {self.simulated} of {self.configurations}"
            " configurations, those that could need the fewest devices; users who wait for their answers are another"
            " question (`concurrency`)."
        )
        yield from self._attained(best)
        yield from self._runner_up(best)
        yield from self._longer(best)

    def next_commands(self) -> Iterator[NextCommand]:
        """Commands that go on from here."""
        scope: dict[str, object] = {"sweep": self.sweep, **self.limits, "attainment": self._asked.attainment}
        if self.best is None:
            yield NextCommand(words=("query", "best"), options={"by": "goodput", **scope})
            return
        counts = () if self.best["mode"] != "pd" else (
            f"{to_buy(self.best)['prefill_instances']}P{to_buy(self.best)['decode_instances']}D",
        )  # fmt: skip
        yield NextCommand(words=("launch", *self.probes, *counts), options={"output": "started"})
        yield NextCommand(words=("explain", *self.probes))
        yield NextCommand(words=("query", "capacity"), options={"rate": self._asked.rate, **scope})
        yield NextCommand(words=("query", "attainment"), options={**scope, "mode": "aggregated"})
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

    def _carrying(self) -> str:
        within = f" with {self._share} of them within the limits" if self.limits else ""
        return f"carry {self._asked.rate:g} requests/s{within}"

    def _buy(self, row: Row) -> str:
        most, exact, error = row["devices_with_margin"], row["devices"], row["step_error"]
        device, what = row["device"], deployment_label(to_buy(row))
        if error is None:
            return (
                f"Buy at least {exact} {device} ({what}): {exact} {self._carrying()} if predictions hold exactly;"
                " nobody measured near, so no margin for their error can be said."
            )
        said = f"expected error of steps, +-{100 * _number(error):.0f} %"
        if most is None:
            return (
                f"Buy more than {exact} {device}: {exact} ({what}) {self._carrying()} if predictions hold exactly; no"
                f" number of them does with the {said}."
            )
        if most == exact:
            return f"Buy {exact} {device} ({what}): {exact} {self._carrying()}, and leave room for the {said}."
        return (
            f"Buy {most} {device} ({what}): {exact} {self._carrying()} if predictions hold exactly; {most} leave"
            f" room for the {said}."
        )

    def _short(self, best: Row) -> Iterator[str]:
        """What a budget lacks, and what it carries instead."""
        if self.budget is None or _number(best["devices_with_margin"], _number(best["devices"])) <= self.budget:
            return
        if best["carries_target"]:
            yield f"The {self.budget} there are carry that rate only if predictions hold exactly."
            return
        more = f": they carry up to {self.within:.3g} requests/s" if self.within else ""
        yield f"The {self.budget} there are do not carry that rate{more}."

    def _attained(self, best: Row) -> Iterator[str]:
        if self.limits and best["devices_with_margin"] not in {None, best["devices"]}:
            share = floor(1000 * _number(best["attained"])) / 10
            yield (
                f"If predictions hold, {share:g} % of the requests are within the limits on"
                f" {best['devices_with_margin']} devices."
            )

    def _runner_up(self, best: Row) -> Iterator[str]:
        others = [row for row in self.dicts() if row != best]
        second = best_of(others, self.budget)
        if second is None:
            return
        what = f"{deployment_label(to_buy(second))} on {second['device']}"
        more, unit = _compared(second, best)
        yield f"Next comes {what}: {_bought(second):.0f} devices, {more:.2f} x the {unit}."

    def _longer(self, best: Row) -> Iterator[str]:
        for one in self.longer:
            if one.best is None:
                continue
            gain, unit = _compared(one.best, best)
            what = f"A {one.about.called} limit of {one.limit:g} {one.about.option.unit}"
            other = deployment_label(to_buy(one.best))
            if abs(gain - 1) < _SAME:
                yield f"{what} changes nothing."
            else:
                yield f"{what} gives {gain:.2f} x the {unit}: {_bought(one.best):.0f} devices, {other}."


def chosen_rows(answer: Answer, budget: int | None) -> tuple[tuple[object, ...], ...]:
    """Of the rows of `capacity` the best of each group, device and mode, ranked by what is to buy."""
    rows = answer.dicts()
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["question_group"], row["device"], row["mode"]), []).append(row)
    kept = [best for group in groups.values() if (best := best_of(group, budget)) is not None]
    order = _order(kept, budget)
    ranked: list[tuple[object, ...]] = []
    for number in dict.fromkeys(row["question_group"] for row in rows):
        mine = sorted((row for row in kept if row["question_group"] == number), key=order)
        ranked += [tuple({**row, "rank": rank}.values()) for rank, row in enumerate(mine, start=1)]
    return tuple(ranked)


def best_of(rows: Sequence[Row], budget: int | None) -> Row | None:
    """The deployment to buy: with a margin within the budget, for the least money where all have a price, by the fewest
    devices."""
    return min(rows, key=_order(rows, budget)) if rows else None


def _order(rows: Sequence[Row], budget: int | None) -> Callable[[Row], tuple[object, ...]]:
    priced = all(row["usd_per_hour"] is not None for row in rows)

    def key(row: Row) -> tuple[object, ...]:
        most = float("inf") if budget is None else budget
        fits = 0 if _bought(row) <= most else 1 if _number(row["devices"]) <= most else 2
        return (
            fits,
            row["devices_with_margin"] is None,
            _number(row["usd_per_hour"]) if priced else 0.0,
            _bought(row),
            row["devices"],
            -_number(row["goodput"]),
            *(str(row[name]) for name in ("device", "mode", *_SCENARIOS)),
        )

    return key


def to_buy(row: Row) -> Row:
    """A deployment with its instances as they are to be bought."""
    more = {name: row[f"{name}_with_margin"] for name in _COUNTS if row[f"{name}_with_margin"] is not None}
    return {**row, **more}


def _bought(row: Row) -> float:
    return _number(row["devices_with_margin"], _number(row["devices"]))


def _compared(other: Row, best: Row) -> tuple[float, str]:
    """How much more another deployment takes, and of what."""
    if None not in {other["usd_per_hour"], best["usd_per_hour"]}:
        return _number(other["usd_per_hour"]) / _number(best["usd_per_hour"]), "money"
    return _bought(other) / _bought(best), "devices"


def _number(value: object, missing: float = float("nan")) -> float:
    return float(value) if isinstance(value, int | float) else missing
