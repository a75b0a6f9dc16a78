"""The tables of docs/reference/accuracy.md: predictions against the comparison data, each pair of device and model
by engine numbers that were fitted without it.

    python tests/benchmark/accuracy.py FOLDER      # holds serving.csv and published.csv

prints Markdown. Needs torch to trace models; no store."""

# ruff: noqa: E402  the paths come first

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2])]

from evaluator.ledger.rankings import Choices, standing_of
from evaluator.ledger.readers import read_measurements
from evaluator.ledger.scenarios import KNOWLEDGE, Knowledge
from evaluator.ledger.scoring import Comparison, Figures, figures
from store.records import MeasurementRecord
from sweepdb.measuring.validating import Validation, compare

LEAST_ROWS = 20  # of a device and an engine, beside the peer
UNEXPLAINED = 30.0  # percent of bias from which a pair is listed


def main(folder: Path) -> None:
    _serving(compare(_records(folder / "serving.csv")))
    records = _records(folder / "published.csv")
    _published(compare(records), records)


def _records(path: Path) -> list[MeasurementRecord]:
    return list(read_measurements(path).records)


def _serving(found: Validation) -> None:
    print("## serving.csv\n")
    _left_out(found)
    print(
        f"Coverage of the rows the peer predicts and no rule takes out: {100 * (found.coverage_of_peer or 0):.1f} %\n"
    )
    for knowledge in KNOWLEDGE:
        comparisons = found.of(knowledge)
        print(f"### As {knowledge}\n")
        _table("rows", comparisons, lambda one: "all")
        _table("mode", comparisons, lambda one: one.mode)
        _wholes(comparisons)
        _table("mode and engine", comparisons, lambda one: f"{one.mode} {one.engine}")
        _table("kind", comparisons, lambda one: "mixture of experts" if one.moe else "dense")
        _table("device", comparisons, lambda one: one.device)
        shared = [one for one in comparisons if one.peer is not None]
        _table("rows the peer predicts", shared, lambda one: "all", peer=True)
        _table("device, rows the peer predicts", shared, lambda one: one.device, peer=True)
        _beside_peer(shared)
        _table("device and model", comparisons, lambda one: f"{one.device} {one.model}")
        _standings(found, knowledge)
        ranking = found.ranking(knowledge)
        if ranking is not None:
            print(f"Kendall tau of tokens/s/device: {ranking[0]:.3f}, mean of {ranking[1]} groups\n")
        _biases(comparisons)


def _wholes(comparisons: Sequence[Comparison]) -> None:
    print("| mode | metric | rows | median/mean/P90 | bias |\n|---|---|---|---|---|")
    for name in ("aggregated", "disaggregated", "all"):
        found = standing_of([one for one in comparisons if name in {one.mode, "all"}], "ours")
        if found is not None:
            print(f"| {name} | end to end | {found.rows} | {_line(found.e2e)} |")
    print()


def _standings(found: Validation, knowledge: Knowledge) -> None:
    print(
        "| rows both predict | whose | rows | end to end | tau, regret % of plans and batches | of plans, equal users |"
    )
    print("|---|---|---|---|---|---|")
    for one in found.beside_peer(knowledge):
        for whose, side in (("ours", one.ours), ("peer", one.peer)):
            chosen = " | ".join(_choices(some) for some in (side.choices, side.plans))
            print(f"| {one.value} | {whose} | {side.rows}{_short(side.e2e)} | {chosen} |")
    print()


def _choices(found: Choices | None) -> str:
    return "none" if found is None else f"{found.kendall_tau:.3f}, {found.regret:.1f} ({found.groups})"


def _published(found: Validation, records: Sequence[MeasurementRecord]) -> None:
    print("## published.csv\n")
    _left_out(found)
    priority = {one.key: str(json.loads(one.extra).get("priority")) for one in records}
    for knowledge in KNOWLEDGE:
        comparisons = found.of(knowledge)
        print(f"### As {knowledge}\n")
        _table("priority", comparisons, lambda one: priority[one.record_key], by_metric=False)
        _table("priority", comparisons, lambda one: priority[one.record_key])
        first = [one for one in comparisons if priority[one.record_key] == "1"]
        _table("priority 1", first, lambda one: f"{one.device} {one.model} {one.engine}")
        _biases(comparisons)


def _left_out(found: Validation) -> None:
    print("| rule | rows |\n|---|---|")
    for one in found.excluded:
        print(f"| {one.rule}{' (repaired, kept)' if one.repaired else ''} | {one.rows} |")
    print(f"| twins more than 1.25 apart, of pairs (kept) | {found.noisy_twins} of {found.twins} |\n")


def _table(
    title: str,
    comparisons: Iterable[Comparison],
    group: Callable[[Comparison], str],
    *,
    peer: bool = False,
    by_metric: bool = True,
) -> None:
    groups: dict[tuple[str, str], list[Comparison]] = {}
    for one in comparisons:
        groups.setdefault((one.metric if by_metric else "all", group(one)), []).append(one)
    tail = " | peer median/mean" if peer else ""
    print(f"| {title} | metric | rows | median/mean/P90 | bias{tail} |\n|---|---|---|---|---|{'---|' if peer else ''}")
    for (metric, name), found in sorted(groups.items()):
        ours = figures(one.error for one in found)
        theirs = figures(one.peer_error for one in found if one.peer_error is not None) if peer else None
        print(f"| {name} | {metric} | {len(found)} | {_line(ours)}{_short(theirs) if theirs else ''} |")
    print()


def _line(found: Figures | None) -> str:
    if found is None:
        return "none | "
    return f"{found.median_ape:.1f}/{found.mean_ape:.1f}/{found.p90_ape:.1f} | {found.bias:+.1f}"


def _short(found: Figures) -> str:
    return f" | {found.median_ape:.1f}/{found.mean_ape:.1f}"


def _beside_peer(shared: Sequence[Comparison]) -> None:
    """Every device and engine with rows enough, and where the peer is as good or better in a median or a mean."""
    rows = Counter((one.metric, _served(one)) for one in shared)
    chosen = [one for one in shared if rows[one.metric, _served(one)] >= LEAST_ROWS]
    _table(f"device and engine, {LEAST_ROWS} rows or more that the peer predicts", chosen, _served, peer=True)
    behind = []
    for metric, name in sorted({(one.metric, _served(one)) for one in chosen}):
        found = [one for one in chosen if (one.metric, _served(one)) == (metric, name)]
        ours = figures(one.error for one in found)
        theirs = figures(one.peer_error for one in found if one.peer_error is not None)
        if ours is None or theirs is None:
            continue
        better = {"median": theirs.median_ape <= ours.median_ape, "mean": theirs.mean_ape <= ours.mean_ape}
        behind += [f"{name}: the {which} of {metric}" for which, so in better.items() if so]
    print(f"Not better than the peer: {'; '.join(behind) or 'none'}\n")


def _served(one: Comparison) -> str:
    return f"{one.device} {one.engine}"


def _biases(comparisons: Iterable[Comparison]) -> None:
    groups: dict[tuple[str, ...], list[float]] = {}
    for one in comparisons:
        groups.setdefault((one.device, one.model, one.engine, one.mode, one.metric), []).append(one.error)
    print(f"| bias beyond {UNEXPLAINED:.0f} % | metric | rows | bias |\n|---|---|---|---|")
    for key, errors in sorted(groups.items()):
        found = figures(errors)
        if found is not None and abs(found.bias) > UNEXPLAINED:
            print(f"| {' '.join(key[:4])} | {key[4]} | {len(errors)} | {found.bias:+.0f} |")
    print()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
