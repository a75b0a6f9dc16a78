"""Own runs in an answer: a word beside each row, whether limits hold together, and the line of the header.

Not here: what runs say (queries.learning), and the errors that are expected without them (queries.errors)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import exp
from statistics import NormalDist, median
from typing import TYPE_CHECKING, NamedTuple

from queries.asking.limits import Limits, predicted_limits
from queries.errors.basis import BASIS
from queries.errors.basis import MEASURED as MEASURED_NEAR
from queries.judging.confidence import EVEN, SURE, Predicted
from queries.learning.own_points import MOST_RUNS
from store.light_dataclass import dataclass

if TYPE_CHECKING:
    from queries.asking.question import Answer
    from queries.learning.conditioning import Learned
    from queries.learning.own_points import OwnPoint, Server
    from queries.learning.process import Posterior

MEASURED, PREDICTED = "measured", "predicted"  # words of `basis`, beside `near 3 runs`
_KEY_LENGTH = 8  # of the scenario in a probe's reference
_LOOKED_AT = (*(round(2 ** (half / 2)) for half in range(41)), 2**31 - 2)  # batch sizes
_METRICS = (("tpot_exclusive_ms", "TPOT", 1), ("ttft_ms", "TTFT", 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRuns:
    """The words of an answer on own runs: how far off its corrected rows are expected to be, and the points read."""

    lines: tuple[str, ...]
    points: tuple[str, ...]  # keys of all that were read for the question
    percent: Mapping[str, float]  # median error of the rows shown, by metric
    corrected: int  # of the probes shown
    shown: int


class _Shown(NamedTuple):
    references: tuple[str, ...]
    rows: tuple[tuple[int, int], ...]


def _references(answer: Answer) -> Iterator[str]:
    """The probes that an answer shows: in its rows, in those nearest, and those that it was asked about."""
    for columns, rows in ((answer.columns, answer.rows), (answer.nearest_columns, answer.nearest)):
        if "probe" in columns:
            place = columns.index("probe")
            yield from (str(row[place]) for row in rows)
    yield from answer.question.options.probes


class LearnedAnswer:
    """An answer beside what own runs say of its rows."""

    def __init__(self, answer: Answer, learned: Learned) -> None:
        self._learned = learned
        numbers = {known.key[:_KEY_LENGTH]: number for number, known in learned.told.items()}
        told: dict[str, tuple[int, int]] = {}
        references = dict.fromkeys(_references(answer))
        for reference in references:
            start, _, size = reference.partition(":")
            if start[:_KEY_LENGTH] in numbers:
                told[reference] = (numbers[start[:_KEY_LENGTH]], int(size))
        self._probes, self._shown = len(references), _Shown(tuple(told), tuple(told.values()))
        self._groups = learned.at(self._shown.rows)

    @property
    def posteriors(self) -> Iterator[tuple[tuple[object, ...], list[str], Posterior]]:
        for group, (places, found) in self._groups.items():
            yield group, [self._shown.references[place] for place in places], found

    def words(self) -> dict[str, str]:
        """How each row stands to the runs, by its reference."""
        return {
            reference: MEASURED if own else near_runs(int(near), len(self._learned.processes[group].runs))
            for group, references, found in self.posteriors
            for reference, own, near in zip(references, found.measured, found.near, strict=True)
        }

    def held(self, predicted: Mapping[str, Predicted], limits: Limits) -> dict[str, str]:
        """`yes`, `likely` or `no` for each row: all its limits together, by the joint distribution of its times."""
        return {
            reference: "yes" if likely >= SURE else "likely" if likely >= EVEN else "no"
            for reference, likely in self.probabilities(predicted, limits).items()
        }

    def probabilities(self, predicted: Mapping[str, Predicted], limits: Limits) -> dict[str, float]:
        """The probability that a measured row keeps all limits. `predicted` is corrected by the runs already."""
        import numpy as np

        from queries.learning.process import Kept, probability_of

        names = [str(one.metric) for one in predicted_limits()]
        asked = {str(one.metric): value for one, value in limits.given if one.metric in names}
        paces = [value for value in (asked.get("tpot_ms"), _inverse(asked.get("tokens_per_s_per_user"))) if value]
        told: dict[str, float] = {}
        for _, references, found in self.posteriors:
            for place, reference in enumerate(references):
                values = dict(zip(names, predicted.get(reference, ()), strict=False))
                ttft, rate, whole = (values.get(name) for name in ("ttft_ms", "tokens_per_s_per_user", "e2e_ms"))
                if not ttft or not rate or not whole:
                    continue
                tpot = 1000.0 / rate
                one = replace(found, mean=np.zeros((1, 2)), covariance=found.covariance[place : place + 1])
                kept = Kept(ttft_ms=asked.get("ttft_ms"), tpot_ms=min(paces, default=None), e2e_ms=asked.get("e2e_ms"),
                            output_length=1.0 + max(whole - ttft, 0.0) / tpot)  # fmt: skip
                told[reference] = float(probability_of(one, np.array([[ttft, tpot]]), kept)[0])
        return told

    def said(self) -> OwnRuns:
        """The words of the header: none where no row shown is corrected."""
        from queries.learning.process import median_percent

        read = sorted({run.key for group in self._learned.groups.values() for run in group.runs})
        groups = list(self.posteriors)
        keys = {run.key for group, *_ in groups for run in self._learned.processes[group].runs}
        if not keys:
            return OwnRuns(lines=(), points=tuple(read), percent={}, corrected=0,
                           shown=self._probes)  # fmt: skip
        spreads = [spread for _, _, found in groups for spread in found.sd.tolist()]
        before = [
            spread
            for group, references, _ in groups
            for spread in [self._learned.bare(group).sd[0].tolist()] * len(references)
        ]
        percent, without = {}, {}
        for metric, _, place in _METRICS:
            percent[metric] = median_percent(median(spread[place] for spread in spreads))
            without[metric] = median_percent(median(spread[place] for spread in before))
        line = ", ".join(f"{name} +-{percent[metric]:.0f} %" for metric, name, _ in _METRICS)
        bare = ", ".join(f"{name} +-{without[metric]:.0f} %" for metric, name, _ in _METRICS)
        runs = "1 run" if len(keys) == 1 else f"{len(keys)} runs"
        return OwnRuns(
            lines=(f"{line}, from {runs} of yours; {bare} without", *self._warnings(group for group, *_ in groups)),
            points=tuple(read), percent=percent, corrected=len(spreads),
            shown=self._probes,
        )  # fmt: skip

    def _warnings(self, groups: Iterator[tuple[object, ...]]) -> Iterator[str]:
        for group in groups:
            for one in self._learned.processes[group].disagreements():
                yield (
                    f"run {one.key[:12]} disagrees with its neighbours by {abs(one.deviations):.1f} standard deviations"
                    f" of {one.metric}: leave it out? See `sweepdb measurements show {one.key[:12]}`"
                )
            if older := self._learned.groups[group].older:
                yield f"{older:,} older settings of this server are not read: the newest {MOST_RUNS} decide"
            if left_out := self._learned.groups[group].read[1]:
                yield f"runs of {', '.join(left_out)} disagree with the engine's other version and are not read"


def _unrun(basis: object) -> object:
    """The basis of a row that no run speaks of, beside rows that were run: that kernels were measured makes it none."""
    return PREDICTED if basis == MEASURED_NEAR else basis


def own_factors(learned: Learned, probability: float, limits: int) -> Iterator[tuple[object, ...]]:
    """Measured over corrected that is not exceeded at batch sizes of scenarios that runs speak of: rows of `factors`.

    All limits are kept together with the probability: each of k misses with (1 - p) / k at most (Bonferroni). Between
    the sizes that are looked at, the larger of both ends counts."""
    deviations = NormalDist().inv_cdf(1.0 - (1.0 - probability) / max(limits, 1))
    for group, process in learned.processes.items():
        own = [known for known in learned.told.values() if known.group == group]
        sizes = sorted(
            {*_LOOKED_AT, *(round(run.setting.users / (one.dp * one.pp)) for run in process.runs for one in own)}
        )
        sides = sorted({0, *sizes, *(size + 1 for size in sizes), *(size - 1 for size in sizes)} - {-1})
        for known in own:
            spread = process.at([known.setting(max(size, 1)) for size in sides]).sd.tolist()
            for low, high, one, other in zip(sides, sides[1:], spread, spread[1:], strict=False):
                ttft, tpot = (exp(deviations * max(pair)) for pair in zip(one, other, strict=True))
                ends = (low, low) if high == low + 1 else (low, high - 1)
                if ends == (low, low):
                    ttft, tpot = (exp(deviations * value) for value in one)
                yield known.id, *ends, ttft, None, tpot, tpot


def near_runs(near: int, runs: int) -> str:
    """The word of a row that was not run itself."""
    count, where = (near, "near") if near else (runs, "far from")
    return f"{where} {count} run{'' if count == 1 else 's'}"


def _inverse(rate: float | None) -> float | None:
    return None if rate is None else 1000.0 / rate


def with_own_runs(answer: Answer, found: LearnedAnswer) -> Answer:
    """An answer that says of each row how it stands to own runs, and in its header what they changed."""
    words, said = found.words(), found.said()
    told = replace(answer, own_runs=said)
    if "probe" not in answer.columns or not words:
        return told
    place = answer.columns.index("probe")
    if BASIS in answer.columns:
        basis = answer.columns.index(BASIS)
        rows = tuple(
            (*row[:basis], words.get(str(row[place])) or _unrun(row[basis]), *row[basis + 1 :]) for row in answer.rows
        )
        return replace(told, rows=rows)
    rows = tuple((*row, words.get(str(row[place]), PREDICTED)) for row in answer.rows)
    return replace(told, columns=(*answer.columns, BASIS), rows=rows)


def silent_notes(points: Sequence[OwnPoint]) -> tuple[str, ...]:
    """A note of points of these servers that nothing stored predicts, and the command that changes it."""
    if not points:
        return ()
    one = points[0].setting
    runs = "1 run of yours teaches" if len(points) == 1 else f"{len(points)} runs of yours teach"
    said = (
        f"note: {runs} nothing, since no stored row predicts what was measured. Evaluate that plan and those lengths:"
        f" `input_length={one.input_length:g}` `output_length={one.output_length:g}`, {points[0].batch_size} users"
    )
    return (said,)


def elsewhere_notes(points: Sequence[OwnPoint]) -> tuple[str, ...]:
    """A note on runs of the model and device under another engine or format, and what asks about theirs."""
    by_server: Counter[Server] = Counter()
    for one in points:
        by_server[one.server] += one.repeats
    return tuple(
        f"note: {'1 run' if count == 1 else f'{count:,} runs'} of yours on {server.device} under {server.engine} in"
        f" {server.linear} correct no row here: none is of that engine and format. `serving_model={server.engine}`"
        f" `quantization={server.linear}` evaluate such rows and ask about them"
        for server, count in by_server.most_common(1)
    )
