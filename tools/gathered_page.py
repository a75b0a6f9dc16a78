"""Runs gathered when all was chosen, and whether statements hold there, for the page beside other programs."""

from __future__ import annotations

import csv
import json
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from evaluator.ledger import Deployment, Figures, figures, read_measurements
from queries.errors import LEVELS, OTHERS, family_of
from queries.errors.expected import NOTHING_STORED, ExpectedError, Subject, nearest_error
from queries.errors.spreads import devices, known_of
from store.records import MeasurementRecord
from sweepdb.measuring.validating import Validation, compare
from tools.compared_tables import CALLED, HEADINGS, SHOWN, STATED, both, chosen

FIRST = Path(__file__).with_name("gathered_first.csv")  # of gathered points, before an error was looked at
_HELD = """| stated of others' servers | points | within its median | within nine in ten | --confidence 0.8 kept |
|---|---|---|---|---|"""
_LOOKED = """First asked, before anybody looked at an error:
"""
_MENDED = """
Then all errors were looked at, and three defects mended. No number was fitted. Figures of closed.csv and serving.csv
stayed as they were.

* Names were not found where a publisher's checkpoints differ in their format alone: ten rows have predictions now.
* Under TensorRT-LLM all users were served at once. Those wait now whom even keys of eight bits leave no memory. A row
  of published.csv that was 104 % too high is 6 % too low since.
* A pipeline with fewer users than stages was compared with a fuller row: that row is left out.

Rules that came later were chosen by other rows alone: the kernels that SGLang chooses for a model, and that users of
equal lengths drift apart under vLLM and SGLang. The first brought TPOT nearer here, the second made TTFT worse.

Asked since:
"""
_CONFIDENCE = 0.8  # at which statements are checked


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """Points written down when all was chosen, with their sources."""

    found: Validation
    sources: Mapping[str, str]  # by the key of the record

    @classmethod
    def read(cls, path: Path) -> Gathered:
        records = read_measurements(path).records
        return cls(found=compare(records), sources={one.key: _source(one) for one in records})


def gathered_section(one: Gathered) -> Iterator[str]:
    points = {each.record_key for each in one.found.of("asked")}
    yield "## Gathered afterwards: no engine, rule or statement was chosen while looking at these\n"
    yield f"* Set: tests/data/published_runs.csv, {len(points)} points of {len({one.sources[key] for key in points})}"
    yield "  sources. Each row has its address. They were written down before any of them was predicted."
    yield from chosen(one.found)
    yield "* Four of the publishers have other pages in closed.csv, NIM another model in published.csv. Four are new."
    yield "* By source: median/mean error. Statements are checked over points, then with each source counting alike.\n"
    yield from _first()
    yield from both(one.found, one.found)
    yield ""
    yield from _by_source(one)
    yield ""
    yield from _kept_statements(one)
    yield ""


def _first() -> Iterator[str]:
    with FIRST.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    yield f"{_LOOKED}\n{HEADINGS}"
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
            cells = " | ".join(_short(figures(each.error for each in own if each.metric == name)) for name in SHOWN)
            yield f"| {source} | {len({one.record_key for one in own})} | {cells} |"


def _short(one: Figures | None) -> str:
    return "- | -" if one is None else f"{one.median_ape:.1f}/{one.mean_ape:.1f} | {one.bias:+.1f}"


def _kept_statements(gathered: Gathered) -> Iterator[str]:
    """How many measured values are within what the answer states of others' servers."""
    yield _HELD
    for metric, name in STATED.items():
        held: dict[str, list[tuple[bool, bool, bool]]] = defaultdict(list)
        for one in gathered.found.of("asked"):
            if one.metric == metric:
                said = _expected(gathered.found.points[one.record_key], name)
                held[gathered.sources[one.record_key]].append(within(metric, one.measured, one.predicted, said))
        every = [each for own in held.values() for each in own]
        alike = [tuple(map(fmean, zip(*own, strict=True))) for own in held.values()]
        yield f"| {CALLED[metric]} | {len(every)} | {_shares(every)} |"
        yield f"| {CALLED[metric]}, each source alike | {len(alike)} | {_shares(alike)} |"


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


def _source(one: MeasurementRecord) -> str:
    return str(json.loads(one.extra)["source_name"])
