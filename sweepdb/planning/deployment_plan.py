"""The answer of `plan`: rows of whole deployments, and in words what wins, what holds it back and what to ask next.

Not here: asking (sweepdb.planning.answering), and tables (cli.render.plans)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from queries.asking import Answer, Framed, Limit
from queries.judging import four_figures
from queries.pairs import judged, rate_error
from store.location import StoreLocation
from store.schema import LABELS, SHARES

_CLOSE = 0.9  # share of a limit from which on it is called near
Row = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Relaxed:
    """The same question with one limit that is longer."""

    about: Limit
    limit: float
    answer: Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class NextCommand:
    """A command with its options by keyword."""

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

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        """Names of the columns; those of the report `deployments`."""
        return self.answer.columns

    @property
    def rows(self) -> tuple[tuple[object, ...], ...]:  # type: ignore[override]
        """The deployments."""
        return self.answer.rows

    @property
    def best(self) -> Row | None:
        """The deployment that wins, None where nothing satisfies the limits."""
        return _best(self.answer)

    @property
    def probes(self) -> tuple[str, ...]:
        """The rows that the best deployment is made of."""
        row = self.best or {}
        return tuple(str(row[name]) for name in ("probe", "prefill_probe", "decode_probe") if row.get(name) is not None)

    def kept_per_s(self, row: Row) -> float | None:
        """Requests/s that a deployment keeps within the limits as they come; None where none are played."""
        for played in (one for answer in self.goodput for one in answer.dicts()):
            if played["goodput"] is not None and _is_of(row, played):
                return as_number(played["goodput"]) * (as_number(row["instances"]) if "scenario" in played else 1)
        return None

    def sentences(self) -> Iterator[str]:
        """The answer in words: what wins, what comes next, what is near its limit, what longer limits would bring."""
        best = self.best
        if best is None:
            yield "Nothing satisfies the limits."
            return
        yield self.sentence(best)
        yield from self._first_tokens(best)
        yield from self._arriving()
        yield from self._runner_up(best)
        yield from self._near(best)
        yield from self._held_back(best)

    def sentence(self, row: Row) -> str:
        """A deployment of the answer and what it carries, as the winner."""
        described = _described(row)
        return f"{described[:1].upper()}{described[1:]}, {self._carries(row)}."

    def next_commands(self) -> Iterator[NextCommand]:
        """Commands that go on from here."""
        limits = self._limits()
        scope: dict[str, object] = {} if self.sweep is None else {"sweep": self.sweep}
        if self.best is None:
            yield NextCommand(words=("query", "coverage"), options=scope)
            return
        yield NextCommand(words=("launch", *self._rows()), options={"output": "started"})
        yield NextCommand(words=("explain", *self.probes))
        if self.best["mode"] == "pd":
            budget = {"num_devices": self.best["devices_used"]}
            yield NextCommand(words=("query", "pd-ratio"), options={**scope, **budget, **limits})
        else:
            yield NextCommand(words=("query", "sensitivity"), options={"vary": "tpot", **scope, **limits})
        if self.played:
            yield NextCommand(words=("query", "best"), options={"by": "goodput", **scope, **limits})
        yield NextCommand(words=("query", "pareto"), options=scope)

    def _rows(self) -> tuple[str, ...]:
        """The rows of the best deployment as `launch` takes them."""
        best = self.best or {}
        if best.get("mode") != "pd":
            return counted_row(best.get("instances"), best.get("probe"))
        return (*self.probes, f"{best['prefill_instances']}P{best['decode_instances']}D")

    def __repr__(self) -> str:
        """The first sentence."""
        return f"<Plan: {next(self.sentences())}>"

    def _limits(self) -> dict[str, float]:
        return {one.keyword: limit for one, limit in self.answer.question.limits.given if not one.least}

    def _carries(self, row: Row) -> str:
        pairs = self.answer.question.pairs
        rate = f"{as_number(row['system_qps']):.3g} requests/s ({as_number(row['output_tokens_per_s']):,.0f} tokens/s)"
        used, idle = row["devices_used"], row["devices_idle"]
        of_all = f" of {as_number(used) + as_number(idle):.0f}" if idle else ""
        devices = f"{used}{of_all} {'device' if used == 1 and not idle else 'devices'}"
        if pairs.target_qps is None and pairs.target_users is None:
            return f"carries most: {rate} on {devices}"
        wanted = f"{pairs.target_qps:g} requests/s" if pairs.target_qps else f"{pairs.target_users:g} users at once"
        if not row["carries_target"]:
            return f"carries most, and not the {wanted} asked for: {rate} on {devices}"
        cost = row["usd_per_hour"]
        how = (
            f"for the least money, {as_number(cost):,.2f} USD an hour"
            if cost is not None
            else "with the fewest devices"
        )
        most = "up to " if pairs.target_users is None else ""
        return f"carries {wanted} {how}: {devices}, {most}{rate}"

    def _arriving(self) -> Iterator[str]:
        """Rates of deployments when requests do not wait for answers, the highest first."""
        rows = [(row, kept) for row in self.answer.dicts() if (kept := self.kept_per_s(row)) is not None]
        if not rows:
            return
        rows.sort(key=lambda one: (-one[1], carrying_order(one[0])))
        said = "; ".join(f"{kept:.3g} with {_described(row)}" for row, kept in rows)
        (share, who) = next((one["attainment"], one["arrivals"]) for one in self.goodput[0].dicts())
        yield (
            f"Where requests arrive by themselves ({who}), {as_number(share):.0%} of them meet the limits up to so many"
            f" a second: {said}."
        )

    def _first_tokens(self, best: Row) -> Iterator[str]:
        """First tokens where they are no one number, with what hardly depends on it."""
        for one in self.answer.ttft_intervals:
            if one.probe == best.get("probe"):
                least, most, whole = map(four_figures, (one.least_ms, one.most_ms, one.e2e_ms))
                yield (
                    f"Its first tokens take {least} to {most} ms, by whether users of equal lengths stay in step or"
                    f" drift apart; a whole request takes {whole} ms."
                )

    def _runner_up(self, best: Row) -> Iterator[str]:
        others = [row for row in self.answer.dicts() if row != best]
        others = [row for row in others if row["carries_target"] in {None, True}]
        if not others:
            return
        second = min(others, key=carrying_order)
        name = _described(second)
        errors = {_side(row): rate_error(self.answer, str(row["device"]), str(row["mode"])) for row in (best, second)}
        if best["carries_target"]:
            measure = "usd_per_hour" if None not in {best["usd_per_hour"], second["usd_per_hour"]} else "devices_used"
            unit = "the money" if measure == "usd_per_hour" else "the devices"
            more = as_number(second[measure]) / as_number(best[measure])
            yield f"Next comes {name}: {more:.2f} x {unit}; {judged(more, errors)}."
            return
        share = as_number(second["system_qps"]) / as_number(best["system_qps"])
        yield f"Next comes {name}, with {share:.2f} x the rate: {judged(1 / share, errors)}."

    def _near(self, best: Row) -> Iterator[str]:
        """The limit that is nearest to being missed."""
        said = [
            f"{one.called} {four_figures(as_number(value))} of {limit:g} {one.option.unit}"
            for one, limit in self.answer.question.limits.given
            if not one.least and (value := best.get(str(one.metric))) is not None and as_number(value) / limit >= _CLOSE
        ]
        if said:
            yield f"Near its limit: {', '.join(said)}."

    def _held_back(self, best: Row) -> Iterator[str]:
        """The gain from one longer limit, and another deployment where that wins then."""
        for one in self.relaxed:
            wider = _best(one.answer)
            if wider is None:
                continue
            if best["carries_target"]:
                measure = "usd_per_hour" if wider["usd_per_hour"] is not None else "devices_used"
                gain = as_number(wider[measure]) / as_number(best[measure])
                what = f"{gain:.2f} x {'the money' if measure == 'usd_per_hour' else 'the devices'}"
            else:
                gain = as_number(wider["system_qps"]) / as_number(best["system_qps"])
                what = f"{gain:.2f} x the rate"
            other = "" if _kinds(wider) == _kinds(best) else f", and {_described(wider)}, wins"
            if abs(gain - 1.0) < 0.005 and not other:
                yield f"A {one.about.called} limit of {one.limit:g} {one.about.option.unit} changes nothing."
            else:
                yield f"A {one.about.called} limit of {one.limit:g} {one.about.option.unit} gives {what}{other}."


def counted_row(instances: object, probe: object) -> tuple[str, ...]:
    """A row as `launch` takes it, with its instances where there are several."""
    return (str(probe),) if instances == 1 else (f"{instances}x", str(probe))


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


def _best(answer: Answer) -> Row | None:
    rows = answer.dicts()
    return min(rows, key=carrying_order) if rows else None


def carrying_order(row: Row) -> tuple[object, ...]:
    """A key that sorts the winner first: by money or devices where it carries the target, else by rate."""
    carries = row["carries_target"]
    cost = (as_number(row["usd_per_hour"], 1e300), as_number(row["devices_used"])) if carries else ()
    return (carries is False, cost, -as_number(row["system_qps"]), str(row["device"]), str(row["deployment"]))


def _kinds(row: Row) -> tuple[object, object]:
    return row["device"], row["mode"]


def _described(row: Row) -> str:
    """A deployment in words."""
    device = row["device"]
    if row["mode"] == "pd":
        sides = (
            f"{row['prefill_instances']} x {short_plan(str(row['prefill_plan']))} for prefill and"
            f" {row['decode_instances']} x {short_plan(str(row['decode_plan']))} for decode"
        )
        return f"prefill and decode apart on {device}, {sides}"
    return f"aggregated serving on {device}, {row['instances']} x {short_plan(str(row['plan']))}"


def _side(row: Row) -> str:
    """A deployment as a sentence about errors names it: by the side that decides its rate."""
    return f"{'decode' if row['mode'] == 'pd' else 'aggregated'} on {row['device']}"


def as_number(value: object, missing: float = float("nan")) -> float:
    """A value that a row has as a number."""
    return float(value) if isinstance(value, int | float) else missing


_GIBIBYTE = 2**30
_PART = re.compile(rf"({'|'.join(sorted(LABELS, key=len, reverse=True))})(\d+)")


def read_label(label: str) -> dict[str, int]:
    """The sizes of a label by their names there. Those that it leaves out are as usual."""
    return {**LABELS, **{name: int(size) for name, size in _PART.findall(label)}}


def short_plan(label: str) -> str:
    """The sizes above 1, the tensor parallel one always; the tensor split of experts only beside an expert split."""
    sizes = read_label(label)
    said = [f"{name.upper()}{sizes[name]}" for name in ("tp", "pp", "dp", "ep") if sizes[name] > 1 or name == "tp"]
    if sizes["moetp"] > 1 and sizes["ep"] > 1:
        said.append(f"expert TP{sizes['moetp']}")
    if sizes["moedp"] > 1:
        said.append(f"expert DP{sizes['moedp']}")
    said += [share.short.format(sizes[share.label]) for share in SHARES if sizes[share.label] > share.usual]
    return " ".join(said)


def deployment_label(row: Mapping[str, object]) -> str:
    """The instances of a whole deployment and their splits: `prefill 4 x TP2 EP2, decode 1 x TP1 DP8 EP8`."""
    if row["mode"] == "pd":
        prefill, decode = short_plan(str(row["prefill_plan"])), short_plan(str(row["decode_plan"]))
        return f"prefill {row['prefill_instances']} x {prefill}, decode {row['decode_instances']} x {decode}"
    return f"aggregated {row['instances']} x {short_plan(str(row['plan']))}"


def readable_row(row: Mapping[str, object]) -> Mapping[str, object]:
    """A whole deployment with the texts and units that people read."""
    free = row["memory_free_bytes"]
    free_gib = free / _GIBIBYTE if isinstance(free, int | float) else None
    return {**row, "deployment": deployment_label(row), "memory_free_gib": free_gib}
