"""Sets ours beside other programs, a table for each set of points.

`python -m tools.compared_page serving.csv closed.csv gathered.csv compared.md accuracy.md README.md` also writes the
table of others' servers in the last two. The first file has the peer's predictions, the second others' servers, which
points.csv beside it says how they were asked, the third those gathered when all was chosen. Published figures are in
tools/published_errors.csv."""

from __future__ import annotations

import csv
import json
import math
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from statistics import fmean

from evaluator.ledger import (
    KNOWLEDGE,
    Deployment,
    Exclusion,
    Figures,
    circumstances_of,
    figures,
    read_measurements,
)
from evaluator.ledger.readers.building import SHORTEST, kept, shortest_of
from queries.errors import ENGINE, LEVELS, OTHERS, SPREADS, Spread, family_of
from queries.errors.expected import NOTHING_STORED, ExpectedError, Subject, nearest_error
from queries.errors.spreads import devices, known_of, read_spreads
from store.records import MeasurementRecord
from sweepdb.measuring.validating import Validation, compare

PUBLISHED = Path(__file__).with_name("published_errors.csv")
FIRST = Path(__file__).with_name("gathered_first.csv")  # of gathered points, before an error was looked at
_HEAD = """# Beside other programs

Made by `python -m tools.compared_page serving.csv closed.csv tests/data/published_runs.csv docs/reference/compared.md`.

Figures of different sets of points cannot be compared. So each set has a table of its own, with how it was chosen and
how much of it is covered. Errors are |predicted - measured| / measured in percent: median/mean/90th percentile. The
bias is the median signed error.
"""
_FROM_ONE = "lengths uniform from 1 to twice the mean"  # of a client, in points.csv
_SHOWN = ("tpot", "ttft", "output_tokens_per_s")
_STATED = {"tpot": "tpot_exclusive_ms", "ttft": "ttft_ms", "output_tokens_per_s": "output_tokens_per_s"}
_START, _END = "<!-- others' servers -->", "<!-- end of others' servers -->"
_CALLED = {"tpot": "TPOT", "ttft": "TTFT", "output_tokens_per_s": "tokens/s"}


_HEADINGS = """| metric | rows | ours | bias | asked as they were | bias |
|---|---|---|---|---|---|"""
_HELD = """| stated of others' servers | points | within its median | within nine in ten | --confidence 0.8 kept |
|---|---|---|---|---|"""
_LOOKED = """First asked, before anybody looked at an error:
"""
_MENDED = """
Then all errors were looked at, and three defects mended. No number was fitted. Figures of closed.csv and serving.csv
stay as they were.

* Names were not found where a publisher's checkpoints differ in their format alone: ten rows have predictions now.
* Under TensorRT-LLM all users were served at once. Those wait now whom even keys of eight bits leave no memory. A row
  of published.csv that was 104 % too high is 6 % too low since.
* A pipeline with fewer users than stages was compared with a fuller row: that row is left out.

Asked since:
"""
_CONFIDENCE = 0.8  # at which statements are checked


def page(laboratory: Validation, others: Validation, gathered: Gathered) -> str:
    return "\n".join([_HEAD, *_beside_peer(laboratory), *_of_others(others), *_gathered(gathered), *_published()])


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """Points written down when all was chosen, with their sources."""

    found: Validation
    sources: Mapping[str, str]  # by the key of the record

    @classmethod
    def read(cls, path: Path) -> Gathered:
        records = read_measurements(path).records
        return cls(found=compare(records), sources={one.key: _source(one) for one in records})


def _beside_peer(found: Validation) -> Iterator[str]:
    shared = [one for one in found.of("asked") if one.peer is not None and one.metric == "tpot"]
    yield "## Ours and AIConfigurator 0.12.0, on the same rows\n"
    yield f"* Set: serving.csv, {len(shared)} rows that both predict. Our engines were fitted to that laboratory."
    yield "* Chosen: every row that no rule takes out and that has AIConfigurator's own prediction beside it."
    yield "* Ours: from the question alone, by engines fitted without the row's device and model."
    if found.coverage_of_peer is not None:
        yield f"* Covered: {100 * found.coverage_of_peer:.1f} % of the rows that AIConfigurator predicts.\n"
    yield "| metric | rows | ours | bias | AIConfigurator | bias |\n|---|---|---|---|---|---|"
    for metric in _SHOWN:
        both = found.peer_figures(metric)
        if both is not None:
            ours, peer = both
            yield f"| {_CALLED[metric]} | {ours.rows} | {_said(ours)} | {_said(peer)} |"
    yield ""


def _of_others(found: Validation) -> Iterator[str]:
    points = {one.record_key for one in found.of("asked")}
    yield "## Ours on servers of people whom we do not know\n"
    yield f"* Set: closed.csv, {len(points)} points of other laboratories and of blogs. No engine was fitted to them."
    yield "  The devices MI300X and Ascend 910B were fitted to some."
    yield _chosen(found)
    yield "* Asked as they were: with the run's number of requests, and from where its client drew lengths, where a"
    yield "  source says so. Many sent one round of prompts, all at once.\n"
    yield from _both(found)
    yield ""
    yield from _stated(found)
    yield ""


def _chosen(found: Validation) -> str:
    points = {one.record_key for one in found.of("asked")}
    taken = [one for one in found.excluded if not one.repaired]
    of = len(points) + sum(one.rows for one in taken)
    return f"""* Chosen: every row that no rule takes out, badly tuned servers and short runs too.
* Covered: {len(points)} of {of} rows. Left out: {_taken(taken)}.
* No other program's prediction of these rows is published."""


def _both(found: Validation) -> Iterator[str]:
    yield _HEADINGS
    for metric in _SHOWN:
        ours, known = (found.figures_of(metric, knowledge) for knowledge in KNOWLEDGE)
        if ours is not None and known is not None:
            yield f"| {_CALLED[metric]} | {ours.rows} | {_said(ours)} | {_said(known)} |"


def _gathered(one: Gathered) -> Iterator[str]:
    points = {each.record_key for each in one.found.of("asked")}
    yield "## Gathered afterwards: no engine, rule or statement was chosen while looking at these\n"
    yield f"* Set: tests/data/published_runs.csv, {len(points)} points of {len({one.sources[key] for key in points})}"
    yield "  sources. Each row has its address. They were written down before any of them was predicted."
    yield _chosen(one.found)
    yield "* Four of the publishers have other pages in closed.csv, NIM another model in published.csv. Four are new."
    yield "* By source: median/mean error. Statements are checked over points, then with each source counting alike.\n"
    yield from _first()
    yield from _both(one.found)
    yield ""
    yield from _by_source(one)
    yield ""
    yield from _kept_statements(one)
    yield ""


def _first() -> Iterator[str]:
    with FIRST.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    yield f"{_LOOKED}\n{_HEADINGS}"
    yield from (f"| {row['metric']} | {row['rows']} | {row['ours']} | {row['as_they_were']} |" for row in rows)
    yield f"\n{_HELD}"
    yield from ("| " + " | ".join((row["metric"], row["rows"], *_percents(row))) + " |" for row in rows)
    yield _MENDED


def _percents(row: Mapping[str, str]) -> Iterator[str]:
    return (f"{row[name]} %" for name in ("within_median", "within_nine_in_ten", "kept"))


def _by_source(gathered: Gathered) -> Iterator[str]:
    """Medians, rows and biases."""
    yield "| source | rows | TPOT | bias | TTFT | bias | tokens/s | bias |\n|---|---|---|---|---|---|---|---|"
    asked = gathered.found.of("asked")
    for source in sorted({*gathered.sources.values()}):
        own = [one for one in asked if gathered.sources[one.record_key] == source]
        if own:
            cells = " | ".join(_short(figures(each.error for each in own if each.metric == name)) for name in _SHOWN)
            yield f"| {source} | {len({one.record_key for one in own})} | {cells} |"


def _short(one: Figures | None) -> str:
    return "- | -" if one is None else f"{one.median_ape:.1f}/{one.mean_ape:.1f} | {one.bias:+.1f}"


def _kept_statements(gathered: Gathered) -> Iterator[str]:
    """How many measured values are within what the answer states of others' servers."""
    yield _HELD
    for metric, name in _STATED.items():
        held: dict[str, list[tuple[bool, bool, bool]]] = defaultdict(list)
        for one in gathered.found.of("asked"):
            if one.metric == metric:
                said = _expected(gathered.found.points[one.record_key], name)
                held[gathered.sources[one.record_key]].append(within(metric, one.measured, one.predicted, said))
        every = [each for own in held.values() for each in own]
        alike = [tuple(map(fmean, zip(*own, strict=True))) for own in held.values()]
        yield f"| {_CALLED[metric]} | {len(every)} | {_shares(every)} |"
        yield f"| {_CALLED[metric]}, each source alike | {len(alike)} | {_shares(alike)} |"


def _shares(rows: Iterable[Sequence[float]]) -> str:
    return " | ".join(f"{100 * fmean(column):.0f} %" for column in zip(*rows, strict=True))


def _expected(one: Deployment, metric: str) -> ExpectedError:
    """As an answer about it states."""
    shipped = devices()[one.device.name]
    subject = Subject(
        device=one.device.name,
        kind="moe" if one.moe else "dense",
        phase=one.mode,
        family="calibrated" if shipped.calibrated_key else "theoretical",
        convention="physical",
        serving_model=one.engine or "vllm",
        known_family=bool(known_of("family", family_of(one.pair[1]))),
    )
    return nearest_error(subject, metric, NOTHING_STORED, OTHERS)


def within(metric: str, measured: float, predicted: float, said: ExpectedError) -> tuple[bool, bool, bool]:
    """In its median and nine in ten; at most what a limit read with a confidence takes for it."""
    size, ratio = 100 * abs(predicted / measured - 1), math.log(measured / predicted)
    # Rates have lower limits: the quantile of the other end.
    if metric.endswith("_per_s"):
        kept = ratio >= said.quantiles[LEVELS.index(round(1 - _CONFIDENCE, 1))]
    else:
        kept = ratio <= said.quantiles[LEVELS.index(_CONFIDENCE)]
    return size <= said.median_ape_percent, size <= said.p90_ape_percent, kept


def _stated(found: Validation) -> Iterator[str]:
    """Reached beside stated errors, as README and the page of accuracy show them."""
    said = {one.metric: one.stated(0) for one in read_spreads(SPREADS) if _of_engines(one)}
    yield "| on others' servers | points | median/mean error | bias | stated: half within | nine in ten within |"
    yield "|---|---|---|---|---|---|"
    for metric, name in _STATED.items():
        ours = found.figures_of(metric)
        if ours is not None:
            stated = f"{said[name].median_ape_percent:.0f} % | {said[name].p90_ape_percent:.0f} %"
            errors = f"{ours.median_ape:.1f}/{ours.mean_ape:.1f} | {ours.bias:+.1f}"
            yield f"| {_CALLED[metric]} | {ours.rows} | {errors} | {stated} |"


def with_stated(text: str, found: Validation) -> str:
    """Between the table's marks."""
    before, _, rest = text.partition(_START)
    _, _, after = rest.partition(_END)
    return "".join((before, _START, "\n", "\n".join(_stated(found)), "\n", _END, after))


def _of_engines(one: Spread) -> bool:
    return (one.servers, one.convention, one.serving_model) == (OTHERS, "physical", ENGINE)


def _taken(excluded: Iterable[Exclusion]) -> str:
    return "; ".join(f"{one.rows}: {one.rule}" for one in excluded) or "none"


def _said(one: Figures) -> str:
    return f"{one.median_ape:.1f}/{one.mean_ape:.1f}/{one.p90_ape:.1f} | {one.bias:+.1f}"


def _published() -> Iterator[str]:
    yield "## What others publish of themselves\n"
    yield "Each on points of its own: none of these figures stands beside one of ours, or beside another.\n"
    with PUBLISHED.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for program, of_program in groupby(rows, key=lambda row: row["program"]):
        found = list(of_program)
        yield f"### {program}\n"
        for name in ("set", "selection", "coverage", "source"):
            yield f"* {name.capitalize()}: {found[0][name]}"
        yield "\n| metric | as published |\n|---|---|"
        yield from (f"| {row['metric']} | {row['figure']} |" for row in found)
        yield ""


def _source(one: MeasurementRecord) -> str:
    return str(json.loads(one.extra)["source_name"])


def _as_sent(others: Path) -> Sequence[MeasurementRecord]:
    with others.with_name("points.csv").open(encoding="utf-8", newline="") as file:
        told = {row["config"]: row for row in csv.DictReader(file)}
    return [_sent(one, told.get(circumstances_of(one).point_id, {})) for one in read_measurements(others).records]


def _sent(one: MeasurementRecord, told: Mapping[str, str]) -> MeasurementRecord:
    count = int(told.get("num_prompts") or 0) or None
    drawn = circumstances_of(one)
    if _FROM_ONE in told.get("plan_note", ""):
        drawn = replace(drawn, shortest_length=shortest_of({SHORTEST: 0.0}, SHORTEST))
    extra = json.dumps(json.loads(one.extra) | kept(drawn))
    return replace(one, extra=extra, run=replace(one.run, completed_requests=count))


def main(arguments: Sequence[str]) -> None:
    laboratory, others, gathered, target, *beside = map(Path, arguments)
    found = compare(_as_sent(others))
    text = page(compare(read_measurements(laboratory).records), found, Gathered.read(gathered))
    target.write_text(text.rstrip() + "\n", encoding="utf-8")
    for one in beside:
        one.write_text(with_stated(one.read_text(encoding="utf-8"), found), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
