"""Tables of the accuracy page are written from what the command prints, and rows that it did not print are named."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent / "benchmark"))

from accuracy_page import TABLES, printed, rewritten

PRINTED = """## serving.csv

### As asked

| mode | metric | rows | median/mean/P90 | bias |
|---|---|---|---|---|
| aggregated | tpot | 12 | 7.2/11.5/28.5 | -0.8 |
| aggregated | ttft | 12 | 21.3/29.6/66.3 | -2.8 |

| rows both predict | whose | rows | end to end | tau, regret % of plans and batches | of plans, equal users |
|---|---|---|---|---|---|
| all | ours | 9 | 6.6/11.1 | 0.846, 1.9 (68) | 0.952, 0.1 (22) |
| all | peer | 9 | 13.7/25.8 | 0.920, 1.2 (68) | none |

### As known

| mode | metric | rows | median/mean/P90 | bias |
|---|---|---|---|---|
| aggregated | tpot | 12 | 7.3/11.8/28.6 | -0.5 |
| aggregated | ttft | 12 | 19.8/28.2/63.2 | -7.1 |
"""
PAGE = """| points | measure | rows | as asked | bias | as known | bias |
|---|---|---|---|---|---|---|
| aggregated | TPOT | 1 | old | old | old | old |
| | TTFT | 1 | old | old | old | old |
| disaggregated | TPOT | 1 | kept | +1.0 | kept | +1.0 |

A sentence stays: 7.1/11.5.

| rows | number | end to end, ours | theirs | tau, regret: ours | theirs | groups at equal users | ours | theirs |
|---|---|---|---|---|---|---|---|---|
| all | 1 | old | old | old | old | 1 | old | old |
"""


def test_rows_are_written_where_their_labels_stand():
    page, missing = rewritten(PAGE, printed(PRINTED))
    assert page.splitlines()[2:5] == [
        "| aggregated | TPOT | 12 | 7.2/11.5/28.5 | -0.8 | 7.3/11.8/28.6 | -0.5 |",
        "| | TTFT | 12 | 21.3/29.6/66.3 | -2.8 | 19.8/28.2/63.2 | -7.1 |",
        "| disaggregated | TPOT | 1 | kept | +1.0 | kept | +1.0 |",
    ]
    assert "A sentence stays: 7.1/11.5." in page
    assert "| all | 9 | 6.6/11.1 | 13.7/25.8 | 0.846, 1.9 | 0.920, 1.2 | 22 | 0.952, 0.1 | none |" in page
    assert missing == ["| disaggregated | TPOT | 1 | kept | +1.0 | kept | +1.0 |"]


def test_the_page_has_every_table_that_the_command_writes():
    page = (Path(__file__).parents[1] / "docs/reference/accuracy.md").read_text(encoding="utf-8")
    heads = {
        tuple(cell.strip() for cell in line.strip("|").split("|")) for line in page.splitlines() if line[:1] == "|"
    }
    assert all(any(head[: len(names)] == names for head in heads) for names in TABLES)
