"""Sets ours beside other programs, a table for each set of points.

`python -m tools.compared_page serving.csv closed.csv gathered.csv compared.md accuracy.md README.md` also writes the
table of others' servers in the last two. The first file has the peer's predictions, the second others' servers, which
points.csv beside it says how they were asked, the third those gathered when all was chosen. Published figures are in
tools/published_errors.csv."""

from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

from evaluator.ledger import circumstances_of, figures, read_measurements, usable
from evaluator.ledger.readers.building import SHORTEST, kept, shortest_of
from queries.errors import ENGINE, OTHERS, SPREADS, Spread
from queries.errors.spreads import read_spreads
from store.location import parse_url
from store.migrating import create_if_missing
from store.records import MeasurementRecord
from sweepdb.measuring.open_loops import compared_at_rates
from sweepdb.measuring.validating import Validation, compare
from tools.compared_tables import CALLED, SHOWN, STATED, both, chosen, said
from tools.gathered_page import Gathered, gathered_section

PUBLISHED = Path(__file__).with_name("published_errors.csv")
_HEAD = """# Beside other programs

Made by `python -m tools.compared_page serving.csv closed.csv tests/data/published_runs.csv docs/reference/compared.md`.

Figures of different sets of points cannot be compared. So each set has a table of its own, with how it was chosen and
how much of it is covered. Errors are |predicted - measured| / measured in percent: median/mean/90th percentile. The
bias is the median signed error.
"""
_FROM_ONE = "lengths uniform from 1 to twice the mean"  # of a client, in points.csv
_BATCH = "offline batch"
_SCALES = "fp8 scales in checkpoint"  # every linear is in eight bits; no command asks for such keys
_START, _END = "<!-- others' servers -->", "<!-- end of others' servers -->"


def page(laboratory: Validation, of_others: Iterable[str], gathered: Gathered) -> str:
    return "\n".join([_HEAD, *_beside_peer(laboratory), *of_others, *gathered_section(gathered), *_published()])


def _beside_peer(found: Validation) -> Iterator[str]:
    shared = [one for one in found.of("asked") if one.peer is not None and one.metric == "tpot"]
    yield "## Ours and AIConfigurator 0.12.0, on the same rows\n"
    yield f"* Set: serving.csv, {len(shared)} rows that both predict. Our engines were fitted to that laboratory."
    yield "* Chosen: every row that no rule takes out and that has AIConfigurator's own prediction beside it."
    yield "* Ours: from the question alone, by engines fitted without the row's device and model."
    if found.coverage_of_peer is not None:
        yield f"* Covered: {100 * found.coverage_of_peer:.1f} % of the rows that AIConfigurator predicts.\n"
    yield "| metric | rows | ours | bias | AIConfigurator | bias |\n|---|---|---|---|---|---|"
    for metric in SHOWN:
        both = found.peer_figures(metric)
        if both is not None:
            ours, peer = both
            yield f"| {CALLED[metric]} | {ours.rows} | {said(ours)} | {said(peer)} |"
    yield ""


def _of_others(found: Validation, sent: Validation, left_out: Sequence[str]) -> Iterator[str]:
    """`found` as typed, `sent` as they were, `left_out` sentences on rows that rules take out."""
    points = {one.record_key for one in found.of("asked")}
    yield "## Ours on servers of people whom we do not know\n"
    yield f"* Set: closed.csv, {len(points)} points of other laboratories and of blogs. No engine was fitted to them."
    yield "  The devices MI300X and Ascend 910B were fitted to some."
    yield from chosen(found, left_out)
    yield "* Asked as they were: with the run's number of requests, from where its client drew lengths, and the format"
    yield "  of keys, where a source says so. Many sent one round of prompts, all at once.\n"
    yield from both(found, sent)
    yield ""
    yield from _stated(found)
    yield ""


def _stated(found: Validation) -> Iterator[str]:
    """Reached beside stated errors, as README and the page of accuracy show them."""
    shipped = {one.metric: one.stated(0) for one in read_spreads(SPREADS) if _of_engines(one)}
    yield "| on others' servers | points | median/mean error | bias | stated: half within | nine in ten within |"
    yield "|---|---|---|---|---|---|"
    for metric, name in STATED.items():
        ours = found.figures_of(metric)
        if ours is not None:
            stated = f"{shipped[name].median_ape_percent:.0f} % | {shipped[name].p90_ape_percent:.0f} %"
            errors = f"{ours.median_ape:.1f}/{ours.mean_ape:.1f} | {ours.bias:+.1f}"
            yield f"| {CALLED[metric]} | {ours.rows} | {errors} | {stated} |"


def with_stated(text: str, found: Validation) -> str:
    """Between the table's marks."""
    before, _, rest = text.partition(_START)
    _, _, after = rest.partition(_END)
    return "".join((before, _START, "\n", "\n".join(_stated(found)), "\n", _END, after))


def _of_engines(one: Spread) -> bool:
    return (one.servers, one.convention, one.serving_model) == (OTHERS, "physical", ENGINE)


def _at_rates(records: Sequence[MeasurementRecord]) -> str:
    with TemporaryDirectory() as folder:
        location = parse_url(f"sqlite:///{folder}/store.sqlite")
        create_if_missing(location)
        found, _ = compared_at_rates(usable(records).records, location, ())
    rows, errors = len({one.point for one in found}), _briefly((one.metric, one.error) for one in found)
    return f"Where a rate is stated, `sweepdb validate` simulates it: {errors} of {rows} rows."


def _waiting(records: Sequence[MeasurementRecord], counted: Validation) -> str:
    found = compare(records, mine=lambda key: key not in counted.points, most_ttft=1.0).of("known")
    rows, errors = len({one.record_key for one in found}), _briefly((one.metric, one.error) for one in found)
    return f"{rows} more wait for most of their time. As they were: {errors}."


def _briefly(errors: Iterable[tuple[str, float]]) -> str:
    by_metric: dict[str, list[float]] = {metric: [] for metric in SHOWN}
    for metric, error in errors:
        by_metric[metric].append(error)
    found = [(CALLED[metric], figures(some)) for metric, some in by_metric.items()]
    return ", ".join(f"{name} {one.median_ape:.0f}/{one.mean_ape:.0f} %" for name, one in found if one)


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


def _as_sent(others: Path) -> Sequence[MeasurementRecord]:
    with others.with_name("points.csv").open(encoding="utf-8", newline="") as file:
        told = {row["config"]: row for row in csv.DictReader(file)}
    return [_sent(one, told.get(circumstances_of(one).point_id, {})) for one in read_measurements(others).records]


def _sent(one: MeasurementRecord, told: Mapping[str, str]) -> MeasurementRecord:
    count = int(told.get("num_prompts") or 0) or None
    note, drawn = told.get("plan_note", ""), circumstances_of(one)
    if _FROM_ONE in note:
        drawn = replace(drawn, shortest_length=shortest_of({SHORTEST: 0.0}, SHORTEST))
    dated = re.match(r"20\d\d(?=-)", told.get("commit", ""))  # of a thread; of a repository it is a commit
    drawn = replace(drawn, static_batch=_BATCH in note, measured_year=int(dated[0]) if dated else None)
    if told.get("kv") == _SCALES:
        one, drawn = replace(one, kv_precision=None), replace(drawn, linear_format=one.precision)
    extra = json.dumps(json.loads(one.extra) | kept(drawn))
    return replace(one, extra=extra, run=replace(one.run, completed_requests=count))


def main(arguments: Sequence[str]) -> None:
    laboratory, others, gathered, target, *beside = map(Path, arguments)
    records, sent = read_measurements(others).records, _as_sent(others)
    found, known = compare(records), compare(sent)
    of_others = _of_others(found, known, [_waiting(sent, known), _at_rates(sent)])
    text = page(compare(read_measurements(laboratory).records), of_others, Gathered.read(gathered))
    target.write_text(text.rstrip() + "\n", encoding="utf-8")
    for one in beside:
        one.write_text(with_stated(one.read_text(encoding="utf-8"), found), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
