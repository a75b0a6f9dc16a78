"""Groups of points whose median error moved since the last release: `python -m tools.accuracy_moved [--keep]`.

Prints them for release notes, and writes them into the page of accuracy. `--keep` makes today's figures the release's:
do it in the commit that sets its version."""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]
SHIPPED = ROOT / "queries" / "ledger"
KEPT = ROOT / "tests" / "written" / "accuracy.csv"
PAGE = ROOT / "docs" / "reference" / "accuracy.md"
_START, _END = "<!-- moved -->\n", "\n<!-- end of moved -->"
LEAST_POINTS = 20  # a group of fewer moves by one server alone
WORSE_POINTS = 2.0  # percent of the measured value: worse by this ...
WORSE_SHARE = 0.1  # ... and by this share of what it was
_MODEL = "engine"  # what is asked by default; `waves` are formulas that stay
_OF_SUMMARY = ("family", "basis", "device", "kind", "phase", "engine", "metric")
_OF_OTHERS = ("source", "engine", "metric")

Groups = dict[str, float]


def groups(folder: Path = SHIPPED) -> Groups:
    """Median absolute percent error by group: the laboratory's, then other sources'."""
    found = {
        ", ".join(row[name] for name in _OF_SUMMARY): float(row["median_ape_percent"])
        for row in _rows(folder / "summary.csv")
        if row["serving_model"] == _MODEL and row["reach"] == "device" and int(row["points"]) >= LEAST_POINTS
    }
    sources: defaultdict[str, list[float]] = defaultdict(list)
    for row in (row for row in _rows(folder / "others.csv") if row["serving_model"] == _MODEL):
        name = ", ".join(row[key] for key in _OF_OTHERS)
        sources[name] += [abs(float(error)) / 10 for error in row["permille"].split()]
    return found | {name: round(median(errors), 2) for name, errors in sources.items() if len(errors) >= LEAST_POINTS}


def worse(before: Groups, now: Groups) -> list[str]:
    """Beyond what is let pass."""
    return [name for name in before if name in now and _is_worse(before[name], now[name])]


def _is_worse(before: float, now: float) -> bool:
    return now - before > WORSE_POINTS and now > before * (1 + WORSE_SHARE)


def kept(path: Path = KEPT) -> Groups:
    return {row["group"]: float(row["median_error_percent"]) for row in _rows(path)}


def moved(before: Groups, now: Groups) -> str:
    """A Markdown table of groups that moved that much, came or went."""
    lines = [
        f"| {name} | {before[name]} | {now[name]} |"
        for name in sorted(before.keys() & now.keys())
        if _is_worse(before[name], now[name]) or _is_worse(now[name], before[name])
    ]
    lines += [f"| {name} | none | {now[name]} |" for name in sorted(now.keys() - before.keys())]
    lines += [f"| {name} | {before[name]} | none |" for name in sorted(before.keys() - now.keys())]
    return (
        "\n".join(["| group | median error then, % | now, % |", "|---|---|---|", *lines]) if lines else "Nothing moved."
    )


def with_moved(page: str, told: str) -> str:
    before, _, rest = page.partition(_START)
    return f"{before}{_START}{told}{_END}{rest.partition(_END)[2]}"


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def main(*arguments: str) -> None:
    now = groups()
    told = moved(kept(), now)
    sys.stdout.write(told + "\n")
    PAGE.write_text(with_moved(PAGE.read_text(encoding="utf-8"), told), encoding="utf-8")
    if "--keep" in arguments:
        with KEPT.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerows([("group", "median_error_percent"), *sorted(now.items())])


if __name__ == "__main__":
    main(*sys.argv[1:])
