"""How many measured rows of a model count, by device, and why others do not: python tests/benchmark/rows_of_models.py FILE MODEL...

A model is the end of its name. Nothing is evaluated: seconds."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from pathlib import Path

from evaluator.ledger import Unmatched, deployment_of, read_measurements, usable


def main(path: Path, names: list[str]) -> None:
    records = read_measurements(path).records
    print("| model | device | rows | count | others |", "|---|---|---|---|---|", sep="\n")
    for name in names:
        by_device = defaultdict(list)
        for record in records:
            if str(record.model).lower().endswith(name.lower()):
                by_device[record.device].append(record)
        for device, mine in sorted(by_device.items()):
            chosen = usable(mine)
            why = Counter({one.rule: one.rows for one in chosen.excluded})
            for record in chosen.records:
                try:
                    deployment_of(record)
                except Unmatched as unmatched:
                    why[unmatched.rule] += 1
            told = "; ".join(f"{rows} {rule}" for rule, rows in why.most_common())
            print(f"| {name} | {device} | {len(mine)} | {len(mine) - why.total()} | {told} |")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
