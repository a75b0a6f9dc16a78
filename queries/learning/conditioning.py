"""Own runs beside a question's scenarios: a process a group, and factors of stored rows.

`lessons_of` finds groups, `Lessons.taught` predicts points from stored rows."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from queries.learning.own_points import MOST_RUNS, NEAR_LENGTHS, Kind, OwnPoint, Server
from queries.learning.priors import Prior, Region, prior_of
from queries.learning.process import Posterior, Process, Run, Setting, without_strange_versions
from queries.scoping.voided import read_hidden
from store.light_dataclass import dataclass
from store.reading import ReadTransaction
from store.schema import OF_PLANS, SCENARIO_TABLES, WHOLE_MS

_SIZES = tuple(size.name for size in OF_PLANS)
_MEAN = "(1 + coalesce(sj.shortest_length, 1)) / 2"  # of nominal lengths, as a client that draws them states them
_DRAWN = "'shortest_length'"
_ABOUT = (
    "SELECT sc.id, sc.key, m.key, d.key, d.name, d.family, pr.key, pr.linear_quantization, pr.experts_quantization,"  # noqa: S608  our text
    " pr.attention_quantization, sj.serving_model, sj.convention, sj.compile,"
    f" {_MEAN} * coalesce(w.input_length, w.input_length_mean), {_MEAN} * w.output_length,"
    " w.input_length IS NULL OR w.prefix_cache_hit_rate > 0 OR w.mtp_tokens > 0 OR w.images IS NOT NULL"
    f" OR coalesce(sj.unusual_service, '') NOT IN ('', {_DRAWN}), p.num_devices, "
    + " || ' ' || ".join(f"p.{name}" for name in _SIZES)
    + f", p.dp, p.pp, p.ep, sj.phase, CASE WHEN sj.unusual_service = {_DRAWN} THEN sj.shortest_length END"
    f" FROM {SCENARIO_TABLES} WHERE sc.status = 'ok'"
)

# Rows that the database itself has: a look-up each, where files are read from end to end.
_ROWS = (
    "SELECT probe.scenario_id, probe.batch_size, coalesce(ttft_ms, 0.0), coalesce(tpot_exclusive_ms, 0.0),"  # noqa: S608  our text
    f" coalesce({WHOLE_MS}, 0.0) FROM {SCENARIO_TABLES} JOIN (VALUES {{points}}) AS point ON column1 = sc.id"
    " JOIN probe ON probe.scenario_id = column1 AND batch_size = column2"
    " JOIN block ON block.scenario_id = column1 AND batch_size BETWEEN first_batch_size AND last_batch_size"
)


class ServerGroup(NamedTuple):
    """Rows of one server, predicted in one way.

    Aggregated servers say nothing of disaggregated ones: errors would grow (tests/benchmark/bench_learning.py)."""

    server: Server
    device_key: str
    precision_key: str
    serving_model: str
    convention: str
    compile: bool
    apart: bool


_OfServer = tuple[str, str, str, str, str, str, str, str, str, str, bool]


@lru_cache(maxsize=1024)
def _group_of(told: _OfServer, *, apart: bool) -> ServerGroup:
    """Thousands of scenarios are of one."""
    model_key, device_key, device, _, precision_key, *formats, serving_model, convention, compiled = told
    server = Server(model_key, device, serving_model.partition("@")[0], *formats)
    return ServerGroup(server, device_key, precision_key, serving_model, convention, compiled, apart)


class Known(NamedTuple):
    """A stored scenario that own runs may speak of."""

    id: int
    key: str
    model_key: str
    device_key: str
    device: str
    family: str
    precision_key: str
    linear: str
    experts: str
    attention: str
    serving_model: str
    convention: str
    compile: bool
    input_length: float
    output_length: float
    unusual: bool  # in lengths or service: no run is of such a row itself
    num_devices: int
    plan: str
    dp: int
    pp: int
    ep: int
    phase: str
    drawn_from: float | None  # its own share of the lengths: of it are runs whose client draws from as short ones

    @property
    def apart(self) -> bool:
        """Prefill or decode instances alone."""
        return self.phase != "aggregated"

    @property
    def group(self) -> ServerGroup:
        return _group_of(self[2:13], apart=self.apart)  # from the model's key on, to `compile`

    @property
    def region(self) -> Region:
        """Servers whose errors are expected before any run."""
        by_data_sheet = self.family == "theoretical"
        if self.apart:
            return "apart_data_sheet" if by_data_sheet else "apart"
        return "data_sheet" if by_data_sheet else "foreign"

    def setting(self, batch_size: float) -> Setting:
        plan = f"unusual {self.id}" if self.unusual else f"{self.phase} {self.plan}" if self.apart else self.plan
        plan = plan if self.drawn_from is None else f"from {self.drawn_from:g} {plan}"
        return Setting(batch_size * self.dp * self.pp, self.input_length, self.output_length, self.num_devices, self.dp,
                       self.ep, plan)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    ttft_ms: float
    tpot_exclusive_ms: float
    e2e_ms: float


class Row(NamedTuple):
    scenario_id: int
    batch_size: int
    ttft_ms: float
    tpot_exclusive_ms: float
    e2e_ms: float


class Match(NamedTuple):
    """A point and its scenario; disaggregated, also that of its prompts."""

    point: OwnPoint
    known: Known
    prompts: Known | None = None


class ApartRun(NamedTuple):
    """For finding prompts' times. Times in ms, requests/ms."""

    number: int
    scenario_id: int
    ttft_ms: float
    answer_ms: float
    rate: float
    instances: int
    slot_wait_ms: float
    prompts_per_user: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lessons:
    """By group, each point with its scenario."""

    scenarios: Mapping[int, Known]
    matched: Mapping[ServerGroup, tuple[Match, ...]]
    unpredicted: tuple[OwnPoint, ...]  # nothing stored predicts them
    rows: tuple[Row, ...] = ()  # of points, as far as the database itself has them
    elsewhere: tuple[OwnPoint, ...] = ()  # of the model and device, under another engine or in another format

    @property
    def points(self) -> set[tuple[int, int]]:
        """Scenario and batch size of each."""
        return {(match.known.id, match.point.batch_size) for match in self._every}

    @property
    def predicting(self) -> tuple[int, ...]:
        found = (one for some in self.matched.values() for match in some for one in (match.known, match.prompts))
        return tuple(sorted({one.id for one in found if one is not None}))

    @property
    def _every(self) -> tuple[Match, ...]:
        return tuple(match for some in self.matched.values() for match in some)

    @property
    def apart(self) -> Iterator[ApartRun]:
        """A prompt also waits half a decode step before it joins."""
        for number, (point, _, prompts) in enumerate(self._every):
            if point.prompts is not None and prompts is not None:
                yield ApartRun(
                    number, prompts.id, point.measured["ttft_ms"], point.prompts.answer_ms,
                    point.prompts.requests_per_s / 1000.0, point.prompts.instances,
                    point.measured["tpot_exclusive_ms"] / 2, point.prompts.prompts_per_user,
                )  # fmt: skip

    def taught(self, rows: Iterable[Row], longer: Mapping[int, float]) -> Learned:
        """Predictions are read from these ladders.

        `longer`: log of a disaggregated run's prompt time over the predicted one."""
        ladders: dict[int, list[Row]] = defaultdict(list)
        for row in sorted(rows, key=lambda row: (row.scenario_id, row.batch_size)):
            ladders[row.scenario_id].append(row)
        every = self._every
        prompts = {every[number].point.key: factor for number, factor in longer.items()}
        groups, unpredicted = {}, list(self.unpredicted)
        for group, matches in self.matched.items():
            runs: list[Run] = []
            newest, read = iter(reversed(matches)), 0
            for match in newest:
                found = list(_runs_of(match, ladders, prompts))
                if found:
                    runs, read = [*runs, *found], read + 1
                else:
                    unpredicted.append(match.point)
                if read == MOST_RUNS:
                    break
            if runs:
                prior = prior_of(matches[0].known.region)
                groups[group] = Taught(runs=tuple(reversed(runs)), older=len(list(newest)), prior=prior)
        counts = {
            point.key: point.prompts.instances / point.prompts.decoding
            for point, *_ in every
            if point.prompts is not None
        }
        return Learned(scenarios=self.scenarios, groups=groups, unpredicted=tuple(unpredicted), counts=counts)


def _runs_of(match: Match, ladders: Mapping[int, Sequence[Row]], longer: Mapping[str, float]) -> Iterator[Run]:
    """Disaggregated: one run of each pool, of one key."""
    point, known, prompts = match
    predicted = _interpolated(ladders.get(known.id, ()), point.batch_size)
    if predicted is not None:
        run = run_of(point, known.setting(point.batch_size), predicted)
        if run.observed():
            yield run
    if prompts is not None and (factor := longer.get(point.key)) is not None:
        yield Run(key=point.key, setting=prompts.setting(1), ttft=factor, version=point.version, repeats=point.repeats)


def _interpolated(ladder: Sequence[Row], batch_size: int) -> Predicted | None:
    """The row itself, or between neighbours on logarithmic scales."""
    place = bisect_left([row.batch_size for row in ladder], batch_size)
    if place < len(ladder) and ladder[place].batch_size == batch_size:
        return Predicted(**{name: getattr(ladder[place], name) for name in Predicted.__slots__})
    if not 0 < place < len(ladder):
        return None
    low, high = ladder[place - 1], ladder[place]
    share = math.log(batch_size / low.batch_size) / math.log(high.batch_size / low.batch_size)
    return Predicted(
        **{name: getattr(low, name) ** (1 - share) * getattr(high, name) ** share for name in Predicted.__slots__}
    )


def run_of(point: OwnPoint, setting: Setting, predicted: Predicted) -> Run:
    def apart(metric: str, told: float) -> float | None:
        measured = point.measured.get(metric, 0.0)
        return math.log(measured / told) if measured > 0.0 and told > 0.0 else None

    whole = apart("e2e_ms", predicted.e2e_ms)
    if whole is None and predicted.e2e_ms > 0.0:  # every user has its answer once an end-to-end time
        rate = apart("output_tokens_per_s", 1000.0 * setting.users * setting.output_length / predicted.e2e_ms)
        whole = None if rate is None else -rate
    return Run(
        key=point.key, setting=setting, ttft=None if point.prompts else apart("ttft_ms", predicted.ttft_ms),
        tpot=apart("tpot_exclusive_ms", predicted.tpot_exclusive_ms), whole=whole,
        ttft_share=0.0 if whole is None else predicted.ttft_ms / predicted.e2e_ms, version=point.version,
        repeats=point.repeats,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Taught:
    runs: tuple[Run, ...]
    prior: Prior
    older: int = 0  # runs, that are not read

    @cached_property
    def read(self) -> tuple[tuple[Run, ...], tuple[str, ...]]:
        return without_strange_versions(self.runs, self.prior)


@dataclass(frozen=True, kw_only=True)
class Learned:
    """Processes, and the scenarios they speak of."""

    scenarios: Mapping[int, Known]
    groups: Mapping[ServerGroup, Taught]
    unpredicted: tuple[OwnPoint, ...] = ()
    counts: Mapping[str, float] = field(default_factory=dict)  # prefill over decode instances, of runs by key

    @cached_property
    def processes(self) -> Mapping[ServerGroup, Process]:
        return {key: Process(group.read[0], group.prior) for key, group in self.groups.items()}

    @cached_property
    def told(self) -> Mapping[int, Known]:
        return {number: self.scenarios[number] for number in self.ladders}

    @cached_property
    def ladders(self) -> Mapping[int, tuple[ServerGroup, Setting]]:
        """Groups, and settings of one request. Those that differ in nothing but a plan that was not run are alike."""
        run = {(group, run.setting.plan) for group, process in self.processes.items() for run in process.runs}
        every = ((number, known.group, known.setting(1.0)) for number, known in self.scenarios.items())
        return {
            number: (group, one if (group, one.plan) in run else one._replace(plan=""))
            for number, group, one in every
            if group in self.groups
        }

    def bare(self, group: ServerGroup) -> Posterior:
        runs, prior = self.processes[group].runs, self.groups[group].prior
        return Process((), prior).at([runs[0].setting])

    def at(self, rows: Sequence[tuple[int, int]]) -> dict[ServerGroup, tuple[list[int], Posterior]]:
        """By scenario and batch size, group by group, with row places."""
        by_scenario: dict[int, list[int]] = defaultdict(list)
        for place, (scenario, _) in enumerate(rows):
            by_scenario[scenario].append(place)
        by_group: dict[ServerGroup, dict[Setting, list[int]]] = defaultdict(lambda: defaultdict(list))
        for scenario in by_scenario.keys() & self.ladders.keys():
            group, base = self.ladders[scenario]
            by_group[group][base] += by_scenario[scenario]
        return {group: self._on_ladders(group, ladders, rows) for group, ladders in by_group.items()}

    def _on_ladders(
        self, group: ServerGroup, ladders: Mapping[Setting, Sequence[int]], rows: Sequence[tuple[int, int]]
    ) -> tuple[list[int], Posterior]:
        """Rows of one ladder and size are alike."""
        places = [place for some in ladders.values() for place in some]
        of = np.repeat(np.arange(len(ladders)), [len(some) for some in ladders.values()])
        sizes = np.array([rows[place][1] for place in places], dtype=np.int64)
        _, first, back = np.unique(of * (sizes.max() + 1) + sizes, return_index=True, return_inverse=True)
        users = np.array([base.users for base in ladders], dtype=np.float64)[of[first]] * sizes[first]
        return places, self.processes[group].on_ladders(list(ladders), of[first], users).of(back)


def lessons_of(
    transaction: ReadTransaction, points: Sequence[OwnPoint], asked: Collection[int], *, at_rates: bool = False
) -> Lessons | None:
    """Points about these scenarios; None where none is.

    `at_rates`: about simulated loads instead of stored rows."""

    def kind_of(one: Known) -> Kind | None:
        return ("apart" if one.apart else "whole") if not at_rates else None if one.apart else "at a rate"

    by_kind: dict[tuple[Server, Kind | None], list[OwnPoint]] = defaultdict(list)
    for point in points:
        by_kind[point.server, point.kind].append(point)
    if not by_kind:
        return None
    models, devices = (sorted({getattr(server, name) for server, _ in by_kind}) for name in ("model_key", "device"))
    among = (f"({', '.join('?' for _ in some)})" for some in (models, devices))
    about = "{} AND m.key IN {} AND d.name IN {}".format(_ABOUT, *among)
    stored = list(transaction.rows(Known, about, [*models, *devices]))
    groups = {one.id: one.group for one in stored}
    elsewhere = _elsewhere(points, {groups[one.id].server for one in stored if one.id in asked})
    known = [one for one in stored if (groups[one.id].server, kind_of(one)) in by_kind]
    scope = {one.id: one for one in known if one.id in asked}
    firsts = {groups[number]: one for number, one in reversed(scope.items())}
    if not firsts and not elsewhere:
        return None
    plain: dict[object, dict[str, list[Known]]] = defaultdict(lambda: defaultdict(list))
    for one in known:
        if groups[one.id] in firsts and not one.unusual:
            plain[groups[one.id]][one.plan].append(one)
    matched: dict[ServerGroup, list[Match]] = defaultdict(list)
    unpredicted: dict[str, OwnPoint] = {}
    for group, first in sorted(firsts.items(), key=lambda item: str(item[0])):
        for point in by_kind[group.server, kind_of(first)]:
            match = _matched(point, plain[group])
            if match is None:
                unpredicted[point.key] = point
            else:
                matched[group].append(match)
    told = {match.point.key for some in matched.values() for match in some}
    found = Lessons(
        scenarios=scope,
        matched={group: tuple(some) for group, some in matched.items()},
        unpredicted=tuple(point for key, point in unpredicted.items() if key not in told),
        elsewhere=elsewhere,
    )
    return found if at_rates else replace(found, rows=tuple(_rows(transaction, found.points)))


def _rows(transaction: ReadTransaction, points: Collection[tuple[int, int]]) -> Iterator[Row]:
    hidden = read_hidden(transaction).intervals if points else {}
    if shown := sorted(point for point in points if point[0] not in hidden):
        yield from transaction.rows(Row, _ROWS.format(points=", ".join(map(str, shown))))


class _Stored(NamedTuple):
    first: int | None
    last: int | None
    probes: int | None


def without_gaps(transaction: ReadTransaction, scenarios: Collection[int]) -> range | None:
    """Where nearly all sizes of a range are stored: looking them up takes longer."""
    ids = ", ".join(map(str, scenarios))
    sql = (
        f"SELECT min(first_batch_size), max(last_batch_size), sum(probe_count) FROM block WHERE scenario_id IN ({ids})"  # noqa: S608  numbers
    )
    first, last, probes = next(transaction.rows(_Stored, sql))
    if first is None or last is None or (last - first + 1) * len(scenarios) > 2 * (probes or 0):
        return None
    return range(first, last + 1)


def _elsewhere(points: Sequence[OwnPoint], asked: Collection[Server]) -> tuple[OwnPoint, ...]:
    places = {(server.model_key, server.device) for server in asked}
    return tuple(
        one for one in points if one.server not in asked and (one.server.model_key, one.server.device) in places
    )


def _matched(point: OwnPoint, by_plan: Mapping[str, Sequence[Known]]) -> Match | None:
    """Both pools where disaggregated; None where nothing predicts it."""
    prompts = point.prompts
    if prompts is None:
        found = _nearest(point, by_plan.get(point.setting.plan, ()))
        return None if found is None else Match(point, found)
    decoding = _nearest(point, [one for one in by_plan.get(point.setting.plan, ()) if one.phase == "decode"])
    taking = _nearest(point, [one for one in by_plan.get(prompts.plan, ()) if one.phase == "prefill"])
    return None if decoding is None or taking is None else Match(point, decoding, taking)


def _nearest(point: OwnPoint, scenarios: Sequence[Known]) -> Known | None:
    def apart(one: Known) -> float:
        lengths = ((one.input_length, point.setting.input_length), (one.output_length, point.setting.output_length))
        return max(abs(math.log(stored / measured)) for stored, measured in lengths)

    drawn = [one for one in scenarios if one.drawn_from in {None, point.shortest_length}]
    near = [one for one in drawn if apart(one) <= math.log1p(NEAR_LENGTHS)]
    return min(near, key=lambda one: (apart(one), -one.id), default=None)
