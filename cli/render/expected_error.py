"""Expected errors as lines, one a region or one a deployment; notes on batches too small for every length bin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sweepdb import asking
from sweepdb.asking import METRIC_NAMES, WHOSE, ExpectedError

SHOWN_REGIONS = 3
NOTED_BIAS_PERCENT = 10.0
LEAST_AGREEING = 3  # pairs of device and model, and no pair of the region differs
_MOST_SOURCES = 0.75  # of them, whose servers err to one side


def error_lines(answer: asking.Answer) -> Iterator[str]:
    yield from own_run_lines(answer)
    if not _measured_throughout(answer):
        yield from expected_error_lines(answer.expected_error)


def own_run_lines(answer: asking.Answer) -> Iterator[str]:
    if answer.own_runs is not None:
        yield from answer.own_runs.lines


def winner_lines(answer: asking.Answer, row: Mapping[str, object] | None) -> Iterator[str]:
    """The same of one deployment, in a line."""
    yield from own_run_lines(answer)
    if row is not None and not _measured_throughout(answer) and (said := brief_error(answer.expected_error, row)):
        yield said


def _measured_throughout(answer: asking.Answer) -> bool:
    return answer.own_runs is not None and answer.own_runs.corrected == answer.own_runs.shown


def expected_error_lines(errors: Sequence[ExpectedError]) -> Iterator[str]:
    """`on servers tuned like the benchmarks': TPOT +-9 %, 212 points of 5 pairs: h100_sxm, dense; on others': TPOT
    +-40 %, 64 points of 5 sources`: half of the points are nearer. A line for each thing the rows are about, at most
    three."""
    by_subject: dict[str, list[ExpectedError]] = {}
    for one in errors:
        by_subject.setdefault(one.subject, []).append(one)
    lines = list(dict.fromkeys(_line(members) for members in by_subject.values()))
    yield from lines[:SHOWN_REGIONS]
    if len(lines) > SHOWN_REGIONS:
        yield f"{_counted([len(lines) - SHOWN_REGIONS], 'more group')}: --format json-full"


def brief_error(errors: Sequence[ExpectedError], row: Mapping[str, object]) -> str | None:
    """The largest expected error of each metric of a deployment, on each kind of servers, in one sentence."""
    devices = {row.get(name) for name in ("device", "prefill_device", "decode_device")}
    largest: dict[str, dict[str, ExpectedError]] = {}
    for one in errors:
        device, _, phase, *_ = one.subject.split(", ")
        if device in devices and (phase == "aggregated") == (row.get("mode") != "pd"):
            by_metric = largest.setdefault(one.servers, {})
            by_metric[one.metric] = max(one, by_metric.get(one.metric, one), key=_size)
    said = (f"{', '.join(map(_figure, found.values()))} {WHOSE[servers]}" for servers, found in largest.items())
    return "; ".join(said) or None


def _size(one: ExpectedError) -> float:
    return one.median_ape_percent


def _line(errors: Sequence[ExpectedError]) -> str:
    by_servers: dict[str, dict[tuple[str | None, str | None], list[ExpectedError]]] = {}
    for one in errors:
        by_servers.setdefault(one.servers, {}).setdefault((one.region, one.note), []).append(one)
    said = (
        f"{WHOSE[servers]}: " + "; ".join(_said(region, note, members) for (region, note), members in groups.items())
        for servers, groups in by_servers.items()
    )
    return "; ".join(said)


def _said(region: str | None, note: str | None, members: Sequence[ExpectedError]) -> str:
    points = _counted([one.points for one in members], "point")
    pairs = [one.pairs for one in members if one.pairs is not None]
    of_pairs = f" of {_counted(pairs, 'pair')}" if pairs else ""
    sources = [one.sources for one in members if one.sources is not None]
    said = f"{', '.join(map(_figure, members))}, {points}{of_pairs}: {region}"
    if sources:
        said = f"{', '.join(map(_figure, members))}, {points} of {_counted(sources, 'source')}"
    return f"{said} ({note})" if note else said


def _counted(counts: Sequence[int], name: str) -> str:
    low, high = min(counts), max(counts)
    number = str(low) if low == high else f"{low}-{high}"
    return f"{number} {name}" if high == 1 else f"{number} {name}s"


def _figure(one: ExpectedError) -> str:
    bias, size = one.bias_percent, one.median_ape_percent
    said = f"{METRIC_NAMES[one.metric]} +-{size:.0f} %"
    of, share = (one.pairs, 1.0) if one.sources is None else (one.sources, _MOST_SOURCES)
    agreed = one.agreeing >= max(LEAST_AGREEING, share * (of or 0))
    if not agreed or abs(bias) < max(NOTED_BIAS_PERCENT, size / 2):
        return said
    return f"{said} (mostly too {'high' if bias > 0 else 'low'})"


NOTED_BIAS = 0.05
_SAID_ONE_BY_ONE = 4


def bias_note(mean: asking.RealisedMean) -> Iterator[str]:
    if abs(mean.bias) > NOTED_BIAS:
        yield (
            f"note: the batch of {mean.probe} has a mean prompt of {mean.realised:.0f} tokens,"
            f" the distribution {mean.wanted:.0f} ({mean.bias:+.0%}): too small to hold every bin"
        )


def bias_summary(means: Sequence[asking.RealisedMean]) -> Iterator[str]:
    """A sentence for each of a few, one for all of many."""
    biased = [mean for mean in means if abs(mean.bias) > NOTED_BIAS]
    if len(biased) <= _SAID_ONE_BY_ONE:
        for mean in biased:
            yield from bias_note(mean)
        return
    low, high = min(mean.bias for mean in biased), max(mean.bias for mean in biased)
    yield (
        f"note: {len(biased)} of these batches are too small to hold every length bin: their mean prompts are off by"
        f" {low:+.0%} to {high:+.0%}"
    )
