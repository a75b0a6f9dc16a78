"""Own runs of a store beside the scenarios of a question: one process a group, and the factors of every stored row.

`lessons_of` finds the groups, and `Lessons.taught` predicts the points from stored rows. Not here: the process, and the
relation of corrected rows (queries.learning.learned_rows)."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from queries.learning.own_points import MOST_RUNS, NEAR_LENGTHS, OwnPoint, Server
from queries.learning.priors import Prior, prior_of
from queries.learning.process import Posterior, Process, Run, Setting, without_strange_versions
from store.light_dataclass import dataclass
from store.reading import ReadTransaction
from store.schema import OF_PLANS, SCENARIO_TABLES

_SIZES = tuple(size.name for size in OF_PLANS)
_MEAN = "(1 + coalesce(sj.shortest_length, 1)) / 2"  # of nominal lengths, as a client that draws them states them
_ABOUT = (
    "SELECT sc.id, sc.key, m.key, d.key, d.name, d.family, pr.key, pr.linear_quantization, pr.experts_quantization,"  # noqa: S608  our text
    " pr.attention_quantization, sj.serving_model, sj.convention, sj.compile,"
    f" {_MEAN} * coalesce(w.input_length, w.input_length_mean), {_MEAN} * w.output_length,"
    " w.input_length IS NULL OR w.prefix_cache_hit_rate > 0 OR w.mtp_tokens > 0 OR w.images IS NOT NULL"
    " OR coalesce(sj.unusual_service, '') <> '', p.num_devices, "
    + " || ' ' || ".join(f"p.{name}" for name in _SIZES)
    + f", p.dp, p.pp, p.ep FROM {SCENARIO_TABLES} WHERE sj.phase = 'aggregated' AND sc.status = 'ok' AND m.key IN "
)


class Known(NamedTuple):
    """A stored scenario, as far as own runs may speak of it."""

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

    @property
    def server(self) -> Server:
        """The server that points and rows of it have in common."""
        engine = self.serving_model.partition("@")[0]
        return Server(self.model_key, self.device, engine, self.linear, self.experts, self.attention)

    @property
    def group(self) -> tuple[object, ...]:
        """Rows that one process speaks of: of one server, predicted in one way."""
        return self.server, self.device_key, self.precision_key, self.serving_model, self.convention, self.compile

    def setting(self, batch_size: float) -> Setting:
        """Where a row of it lies."""
        plan = f"unusual {self.id}" if self.unusual else self.plan
        return Setting(batch_size * self.dp * self.pp, self.input_length, self.output_length, self.num_devices, self.dp,
                       self.ep, plan)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """The prediction of a point by a stored row, in ms."""

    ttft_ms: float
    tpot_exclusive_ms: float
    e2e_ms: float


class Row(NamedTuple):
    """A stored row of a ladder."""

    scenario_id: int
    batch_size: int
    ttft_ms: float
    tpot_exclusive_ms: float
    e2e_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Lessons:
    """Points that are of the groups of a question, by group, each with the stored scenario that predicts it."""

    scenarios: Mapping[int, Known]
    matched: Mapping[tuple[object, ...], tuple[tuple[OwnPoint, Known], ...]]
    unpredicted: tuple[OwnPoint, ...]  # nothing stored predicts them
    elsewhere: tuple[OwnPoint, ...] = ()  # of the model and device, under another engine or in another format

    @property
    def predicting(self) -> tuple[int, ...]:
        """The scenarios whose ladders are read."""
        return tuple(sorted({known.id for pairs in self.matched.values() for _, known in pairs}))

    def taught(self, rows: Iterable[Row]) -> Learned:
        """The processes of the points, whose predictions are read from these ladders."""
        ladders: dict[int, list[Row]] = defaultdict(list)
        for row in sorted(rows, key=lambda row: (row.scenario_id, row.batch_size)):
            ladders[row.scenario_id].append(row)
        groups, unpredicted = {}, list(self.unpredicted)
        for group, pairs in self.matched.items():
            runs: list[Run] = []
            newest = iter(reversed(pairs))
            for point, known in newest:
                predicted = _interpolated(ladders.get(known.id, ()), point.batch_size)
                if predicted is None:
                    unpredicted.append(point)
                elif (run := run_of(point, known.setting(point.batch_size), predicted)).observed():
                    runs.append(run)
                if len(runs) == MOST_RUNS:
                    break
            if runs:
                prior = prior_of("data_sheet" if pairs[0][1].family == "theoretical" else "foreign")
                groups[group] = Taught(runs=tuple(reversed(runs)), older=len(list(newest)), prior=prior)
        return Learned(scenarios=self.scenarios, groups=groups, unpredicted=tuple(unpredicted))


def _interpolated(ladder: Sequence[Row], batch_size: int) -> Predicted | None:
    """The prediction of a ladder for a number of requests: its own row, or between neighbours on logarithmic scales."""
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
    """A point beside what is predicted of it, as logarithms of ratios."""

    def apart(metric: str, told: float) -> float | None:
        measured = point.measured.get(metric, 0.0)
        return math.log(measured / told) if measured > 0.0 and told > 0.0 else None

    whole = apart("e2e_ms", predicted.e2e_ms)
    if whole is None:  # every user has its answer once an end-to-end time
        rate = apart("output_tokens_per_s", 1000.0 * setting.users * setting.output_length / predicted.e2e_ms)
        whole = None if rate is None else -rate
    return Run(
        key=point.key, setting=setting, ttft=apart("ttft_ms", predicted.ttft_ms),
        tpot=apart("tpot_exclusive_ms", predicted.tpot_exclusive_ms), whole=whole,
        ttft_share=predicted.ttft_ms / predicted.e2e_ms, version=point.version, repeats=point.repeats,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Taught:
    """The runs of one group, and what they say."""

    runs: tuple[Run, ...]
    prior: Prior
    older: int = 0  # runs, that are not read

    @cached_property
    def read(self) -> tuple[tuple[Run, ...], tuple[str, ...]]:
        """The runs that are read, and the versions of the engine that are not since they disagree."""
        return without_strange_versions(self.runs, self.prior)


@dataclass(frozen=True, kw_only=True)
class Learned:
    """The processes of a question, and the scenarios that they speak of."""

    scenarios: Mapping[int, Known]
    groups: Mapping[tuple[object, ...], Taught]
    unpredicted: tuple[OwnPoint, ...] = ()

    @cached_property
    def processes(self) -> Mapping[tuple[object, ...], Process]:
        """The process of each group."""
        return {key: Process(group.read[0], group.prior) for key, group in self.groups.items()}

    @cached_property
    def told(self) -> Mapping[int, Known]:
        """Scenarios that runs speak of."""
        return {number: known for number, known in self.scenarios.items() if known.group in self.groups}

    def bare(self, group: tuple[object, ...]) -> Posterior:
        """The posterior of a row of a group without any run."""
        runs, prior = self.processes[group].runs, self.groups[group].prior
        return Process((), prior).at([runs[0].setting])

    def at(self, rows: Sequence[tuple[int, int]]) -> dict[tuple[object, ...], tuple[list[int], Posterior]]:
        """The posterior of rows by scenario and batch size, group by group, with the places of its rows."""
        places: dict[tuple[object, ...], list[int]] = defaultdict(list)
        for place, (scenario, _) in enumerate(rows):
            if scenario in self.told:
                places[self.told[scenario].group].append(place)
        return {
            group: (some, self.processes[group].at([self.told[rows[one][0]].setting(rows[one][1]) for one in some]))
            for group, some in places.items()
        }


def lessons_of(transaction: ReadTransaction, points: Sequence[OwnPoint], asked: Collection[int]) -> Lessons | None:
    """The points that say something of scenarios that are asked about, or would under their engine; None where none."""
    by_server: dict[Server, list[OwnPoint]] = defaultdict(list)
    for point in points:
        by_server[point.server].append(point)
    if not by_server:
        return None
    models = sorted({server.model_key for server in by_server})
    marks = ", ".join("?" for _ in models)
    stored = list(transaction.rows(Known, f"{_ABOUT}({marks})", models))
    elsewhere = _elsewhere(points, {one.server for one in stored if one.id in asked})
    known = [one for one in stored if one.server in by_server]
    scope = {one.id: one for one in known if one.id in asked}
    wanted = {one.group for one in scope.values()}
    if not wanted and not elsewhere:
        return None
    plain: dict[tuple[object, ...], list[Known]] = defaultdict(list)
    for one in known:
        if one.group in wanted and not one.unusual:
            plain[one.group].append(one)
    matched: dict[tuple[object, ...], list[tuple[OwnPoint, Known]]] = defaultdict(list)
    unpredicted: dict[str, OwnPoint] = {}
    for group in sorted(wanted, key=str):
        server = next(one for one in scope.values() if one.group == group).server
        for point in by_server[server]:
            nearest = _nearest(point, plain[group])
            if nearest is None:
                unpredicted[point.key] = point
            else:
                matched[group].append((point, nearest))
    found = {point.key for pairs in matched.values() for point, _ in pairs}
    return Lessons(
        scenarios=scope,
        matched={group: tuple(pairs) for group, pairs in matched.items()},
        unpredicted=tuple(point for key, point in unpredicted.items() if key not in found),
        elsewhere=elsewhere,
    )


def _elsewhere(points: Sequence[OwnPoint], asked: Collection[Server]) -> tuple[OwnPoint, ...]:
    """Points of a model and device that are asked about, but of no server that is."""
    places = {(server.model_key, server.device) for server in asked}
    return tuple(
        one for one in points if one.server not in asked and (one.server.model_key, one.server.device) in places
    )


def _nearest(point: OwnPoint, scenarios: Sequence[Known]) -> Known | None:
    """The stored scenario of a point's plan whose lengths are nearly its own; of several the newest."""

    def apart(one: Known) -> float:
        lengths = ((one.input_length, point.setting.input_length), (one.output_length, point.setting.output_length))
        return max(abs(math.log(stored / measured)) for stored, measured in lengths)

    near = [one for one in scenarios if one.plan == point.setting.plan and apart(one) <= math.log1p(NEAR_LENGTHS)]
    return min(near, key=lambda one: (apart(one), -one.id), default=None)
