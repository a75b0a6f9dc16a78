"""Own runs in an answer: a word a row, whether limits hold together, and the header's line."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property
from math import exp, log
from typing import TYPE_CHECKING

from queries.asking.limits import Limits, predicted_limits
from queries.errors.spreads import BASIS
from queries.errors.spreads import MEASURED as MEASURED_NEAR
from queries.judging.confidence import EVEN, HELD, SURE, Predicted
from queries.judging.subjects import KEY_LENGTH
from queries.learning.own_points import MOST_RUNS
from store.light_dataclass import NamedTuple, dataclass
from store.texts import counted

if TYPE_CHECKING:
    from queries.asking.question import Answer
    from queries.learning.at_rates import LongerSteps, RateLessons
    from queries.learning.conditioning import Learned, ServerGroup
    from queries.learning.own_points import FailedStart, OwnPoint, Server
    from queries.learning.process import Posterior, Setting
    from queries.learning.session_runs import SessionRuns


MEASURED, PREDICTED = "measured", "predicted"  # words of `basis`, beside `near 3 runs`
_LOOKED_AT = (*(round(2 ** (half / 2)) for half in range(41)), 2**31 - 2)  # batch sizes
_METRICS = (("tpot_exclusive_ms", "TPOT", 1), ("ttft_ms", "TTFT", 0))
_OF_WORDS = ("probe", "prefill_probe", "decode_probe", "prefill_instances", "decode_instances")
_PLACES = {"prefill": (0,), "decode": (1,)}  # of what sides have; others have both


OwnWord = Callable[[str, Predicted], str | None]
"""The word of `holds` by own runs, of a probe and its times; None where they say nothing of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """As probabilities read them: tokens/s a user is TPOT's inverse."""

    names: tuple[str, ...]  # of what a probe's values are
    ttft_ms: float | None
    tpot_ms: float | None
    e2e_ms: float | None

    @classmethod
    def of(cls, limits: Limits) -> _Asked:
        asked = {str(one.metric): value for one, value in limits.given}
        paces = [value for value in (asked.get("tpot_ms"), _inverse(asked.get("tokens_per_s_per_user"))) if value]
        names = tuple(str(one.metric) for one in predicted_limits())
        return cls(
            names=names, ttft_ms=asked.get("ttft_ms"), tpot_ms=min(paces, default=None), e2e_ms=asked.get("e2e_ms")
        )

    def kept_by_side(self, place: int, sd: float, values: Predicted) -> float | None:
        """Probability that a pool's time keeps its limit; None without limit or time."""
        told = dict(zip(self.names, values, strict=True))
        limit, time = (
            (self.ttft_ms, told["ttft_ms"]) if place == 0 else (self.tpot_ms, _inverse(told["tokens_per_s_per_user"]))
        )
        if not (limit and time):
            return None
        from statistics import NormalDist

        return NormalDist().cdf(log(limit / time) / sd)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRuns:
    """Expected error of corrected rows, and points read."""

    lines: tuple[str, ...]
    points: tuple[str, ...]  # keys of all that were read for the question
    percent: Mapping[str, float]  # median error of the rows shown, by metric
    corrected: int  # of the probes shown
    shown: int


def _references(answer: Answer) -> Iterator[str]:
    for columns, rows in ((answer.columns, answer.rows), (answer.nearest_columns, answer.nearest)):
        for place in (columns.index(name) for name in HELD if name in columns):
            yield from (str(row[place]) for row in rows if row[place] is not None)
    yield from answer.question.options.probes


class _Standing(NamedTuple):
    """A probe beside the runs of its server."""

    at: frozenset[str]  # keys of those that were made of it
    near: int
    runs: int
    only: str | None = None  # time that these measured, of two

    @property
    def word(self) -> str:
        if not self.at:
            return near_runs(self.near, self.runs)
        return MEASURED if self.only is None else measured_of(self.only)


class LearnedAnswer:
    def __init__(self, answer: Answer, learned: Learned) -> None:
        self._learned = learned
        numbers = {known.key[:KEY_LENGTH]: number for number, known in learned.told.items()}
        told: dict[str, tuple[int, int]] = {}
        references = dict.fromkeys(_references(answer))
        for reference in references:
            start, _, size = reference.partition(":")
            if (number := numbers.get(start[:KEY_LENGTH])) is not None:
                told[reference] = (number, int(size))
        self._probes, self._told = len(references), told
        self._groups = learned.at(tuple(told.values()))

    @property
    def posteriors(self) -> Iterator[tuple[ServerGroup, list[str], Posterior]]:
        references = tuple(self._told)
        for group, (places, found) in self._groups.items():
            yield group, [references[place] for place in places], found

    def _places(self, reference: str) -> tuple[int, ...]:
        """A disaggregated probe has one time."""
        return _PLACES.get(self._learned.told[self._told[reference][0]].phase, (0, 1))

    def _with_time(self, group: ServerGroup, references: Sequence[str], place: int) -> Sequence[int]:
        """Places of probes with this time."""
        if not group.apart:
            return range(len(references))
        return [number for number, one in enumerate(references) if place in self._places(one)]

    @cached_property
    def standings(self) -> dict[str, _Standing]:
        """By probe."""
        found: dict[str, _Standing] = {}
        for group, references, posterior in self.posteriors:
            process = self._learned.processes[group]
            made: dict[Setting, set[str]] = defaultdict(set)
            times: dict[Setting, set[str]] = defaultdict(set)
            for run in process.runs:
                made[run.setting].add(run.key)
                times[run.setting] |= run.times
            runs = len(set().union(*made.values()))
            unrun = [_Standing(frozenset(), near, runs) for near in range(runs + 1)]
            near = posterior.near.clip(max=runs).tolist()
            found.update(zip(references, map(unrun.__getitem__, near), strict=True))
            for place in posterior.measured.nonzero()[0].tolist():
                scenario, size = self._told[references[place]]
                setting = self._learned.told[scenario].setting(size)
                only = min(times[setting]) if len(times[setting]) == 1 and not group.apart else None
                found[references[place]] = _Standing(frozenset(made[setting]), near[place], runs, only)
        return found

    def words(self, answer: Answer) -> Iterable[str | None]:
        """A word a row."""
        places = [answer.columns.index(name) if name in answer.columns else None for name in _OF_WORDS]
        none = (None,) * len(answer.rows)
        return map(self._word, *(none if one is None else [row[one] for row in answer.rows] for one in places))

    def _word(
        self, probe: object, of_prompts: object, of_answers: object, taking: object, decoding: object
    ) -> str | None:
        """Both pools of a pair; None where one is another server's."""
        if of_prompts is None:
            one = self.standings.get(str(probe))
            return None if one is None else one.word
        prefill, decode = self.standings.get(str(of_prompts)), self.standings.get(str(of_answers))
        if prefill is None or decode is None:
            return None
        both = [self._learned.counts.get(key) for key in prefill.at & decode.at]
        if taking and decoding and float(str(taking)) / float(str(decoding)) in both:
            return MEASURED
        return near_runs(min(prefill.near, decode.near), max(prefill.runs, decode.runs))

    def held(self, predicted: Mapping[str, Predicted], limits: Limits) -> OwnWord:
        """All limits together, by the joint distribution of both times.

        None where no run speaks of it. A pool has its pair's one time."""
        asked = _Asked.of(limits)
        whole = self._probabilities(predicted, asked)
        spreads = {
            reference: (places[0], float(found.sd[place, places[0]]))
            for group, references, found in self.posteriors
            if group.apart
            for place, reference in enumerate(references)
            if len(places := self._places(reference)) == 1
        }

        def word(reference: str, values: Predicted) -> str | None:
            side = spreads.get(reference)
            likely = whole.get(reference) if side is None else asked.kept_by_side(*side, values)
            return None if likely is None else "yes" if likely >= SURE else "likely" if likely >= EVEN else "no"

        return word

    def _probabilities(self, predicted: Mapping[str, Predicted], asked: _Asked) -> dict[str, float]:
        """Probabilities that all limits are kept; `predicted` is already corrected."""
        import numpy as np

        from queries.learning.limits_kept import Kept, probability_of

        told: dict[str, float] = {}
        wanted = [asked.names.index(name) for name in ("ttft_ms", "tokens_per_s_per_user", "e2e_ms")]
        for _, references, found in self.posteriors:
            values = {
                place: [known[one] for one in wanted]
                for place, reference in enumerate(references)
                if (known := predicted.get(reference)) and all(known[one] for one in wanted)
            }
            if not values:
                continue
            ttft, rate, whole = np.array(list(values.values()), dtype=np.float64).T
            tpot = 1000.0 / rate
            some = replace(found.of(list(values)), mean=np.zeros((len(values), 2)))
            kept = Kept(ttft_ms=asked.ttft_ms, tpot_ms=asked.tpot_ms, e2e_ms=asked.e2e_ms,
                        output_length=1.0 + np.maximum(whole - ttft, 0.0) / tpot)  # fmt: skip
            likely = probability_of(some, np.stack([ttft, tpot], axis=1), kept).tolist()
            told.update(zip((references[place] for place in values), likely, strict=True))
        return told

    def said(self) -> OwnRuns:
        """None where no shown row is corrected."""
        from statistics import median

        from queries.learning.process import median_percent

        read = sorted({run.key for group in self._learned.groups.values() for run in group.runs})
        groups = list(self.posteriors)
        keys = {run.key for group, *_ in groups for run in self._learned.processes[group].runs}
        if not keys:
            return OwnRuns(lines=(), points=tuple(read), percent={}, corrected=0,
                           shown=self._probes)  # fmt: skip
        percent, without = {}, {}
        for metric, _, place in _METRICS:
            spreads, before = [], []
            for group, references, found in groups:
                own = self._with_time(group, references, place)
                spreads += found.sd[own, place].tolist()
                before += [float(self._learned.bare(group).sd[0, place])] * len(own)
            if spreads:
                percent[metric], without[metric] = median_percent(median(spreads)), median_percent(median(before))
        line, bare = (
            ", ".join(f"{name} +-{told[metric]:.0f} %" for metric, name, _ in _METRICS if metric in told)
            for told in (percent, without)
        )
        runs = counted(len(keys), "run")
        return OwnRuns(
            lines=(f"{line}, from {runs} of yours; {bare} without", *self._warnings(group for group, *_ in groups)),
            points=tuple(read), percent=percent, corrected=len(self._told),
            shown=self._probes,
        )  # fmt: skip

    def _warnings(self, groups: Iterator[ServerGroup]) -> Iterator[str]:
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
    """Measured kernels do not make a row without runs measured."""
    return PREDICTED if basis == MEASURED_NEAR else basis


def own_factors(learned: Learned, probability: float, limits: int) -> Iterator[tuple[object, ...]]:
    """Rows of `factors`: measured over corrected, not exceeded, by batch size.

    All limits hold together: each of k misses with (1 - p) / k at most (Bonferroni). Between sizes the larger end
    counts."""
    from statistics import NormalDist

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
                yield known.id, *ends, ttft, ttft if known.phase == "prefill" else None, tpot, tpot


def measured_of(time: str) -> str:
    """Of a row that was run, but one time of it not measured."""
    return f"{MEASURED} ({time})"


@cache
def near_runs(near: int, runs: int) -> str:
    """Of a row that was not run itself."""
    count, where = (near, "near") if near else (runs, "far from")
    return f"{where} {counted(count, 'run')}"


def _inverse(rate: float | None) -> float | None:
    return None if rate is None else 1000.0 / rate


def with_own_runs(answer: Answer, found: LearnedAnswer) -> Answer:
    told = replace(answer, own_runs=found.said())
    if not found.standings or not HELD.keys() & set(answer.columns):
        return told
    return with_words(told, found.words(answer), _unrun)


def with_words(
    answer: Answer, words: Iterable[str | None], beside: Callable[[object], object] = lambda one: one
) -> Answer:
    """An answer whose `basis` says how each row stands to runs. Where no word is known, `beside` makes it."""
    if BASIS not in answer.columns:
        rows = tuple((*row, word or PREDICTED) for row, word in zip(answer.rows, words, strict=True))
        return replace(answer, columns=(*answer.columns, BASIS), rows=rows)
    basis = answer.columns.index(BASIS)
    rows = tuple(
        (*row[:basis], word or beside(row[basis]), *row[basis + 1 :])
        for row, word in zip(answer.rows, words, strict=True)
    )
    return replace(answer, rows=rows)


def silent_notes(points: Sequence[OwnPoint]) -> tuple[str, ...]:
    if not points:
        return ()
    (first, *_), one = points, points[0].setting
    runs = "1 run of yours teaches" if len(points) == 1 else f"{len(points)} runs of yours teach"
    drawn = "" if first.shortest_length is None else f" `client_lengths={first.shortest_length:g}`"
    mean = (1.0 + (first.shortest_length or 1.0)) / 2  # a run has mean lengths, a question nominal ones
    said = (
        f"note: {runs} nothing, since no stored row predicts what was measured. Evaluate that plan and those lengths:"
        f" `input_length={one.input_length / mean:.0f}` `output_length={one.output_length / mean:.0f}`{drawn},"
        f" {counted(first.batch_size, 'user')}"
    )
    return (said,)


def failed_notes(answer: Answer, failed: Mapping[str, FailedStart]) -> Iterator[str]:
    """A note for each shown plan whose server did not start."""
    if not failed:
        return
    by_key = {key[:KEY_LENGTH]: one for key, one in failed.items()}
    shown = dict.fromkeys(reference[:KEY_LENGTH] for reference in _references(answer))
    told: dict[str, list[str]] = defaultdict(list)
    for key in shown:
        if key in by_key:
            told[str(by_key[key])].append(key)
    yield from (f"note: the server of {', '.join(keys)} {why}" for why, keys in told.items())


def elsewhere_notes(points: Sequence[OwnPoint]) -> tuple[str, ...]:
    by_server: Counter[Server] = Counter()
    for one in points:
        by_server[one.server] += one.repeats
    return tuple(
        f"note: {counted(count, 'run')} of yours on {server.device} under {server.engine} in"
        f" {server.linear} {'corrects' if count == 1 else 'correct'} no row here: none is of that engine and format."
        f" `serving_model={server.engine}`"
        f" `quantization={server.linear}` evaluate such rows and ask about them"
        for server, count in by_server.most_common(1)
    )


_TPOT = "tpot_exclusive_ms"


def with_notes_of_runs(answer: Answer, runs: SessionRuns, scenarios: Iterable[int]) -> Answer:
    """Also of runs that say nothing, and of failed starts."""
    if runs.at_rates is not None:
        answer = _with_runs_at_rates(answer, runs.at_rates)
    failed = failed_notes(answer, runs.failed(scenarios))
    return replace(answer, notes=(*answer.notes, *elsewhere_notes(runs.elsewhere), *failed))


def _with_runs_at_rates(answer: Answer, lessons: RateLessons) -> Answer:
    """How rows stand to runs, and what runs changed."""
    answer = replace(answer, notes=(*answer.notes, *silent_notes(lessons.unpredicted)))
    by_key = {one.scenario[:KEY_LENGTH]: one for one in lessons.steps.values()}
    places = [place for place, name in enumerate(answer.columns) if name == "scenario"]
    found = [by_key.get(str(row[place])[:KEY_LENGTH]) for row in answer.rows for place in places]
    told = [one for one in found if one is not None] or list(by_key.values())
    if not told:
        return answer
    from statistics import median

    keys = sorted(frozenset[str]().union(*(one.keys for one in told)))
    error, bare = (100 * median(getattr(one, name) for one in told) for name in ("error", "bare_error"))
    runs = counted(len(keys), "run")
    said = OwnRuns(
        lines=(f"steps +-{error:.0f} %, from {runs} of yours at a rate; +-{bare:.0f} % without",), points=tuple(keys),
        percent={_TPOT: error}, corrected=sum(one is not None for one in found),
        shown=len(found),
    )  # fmt: skip
    answer = replace(answer, own_runs=said)
    return with_words(answer, map(_word, found)) if places else answer


def _word(one: LongerSteps | None) -> str | None:
    return None if one is None else measured_of("TPOT") if one.measured else near_runs(one.near, one.runs)
