"""The picture of the accuracy page: every region of the shipped summary, with the figures of now."""

from __future__ import annotations

import re
from pathlib import Path

from tools.accuracy_picture import cells
from tools.ledger_page import shipped_regions

DRAWN = Path(__file__).parents[1] / "docs" / "pictures" / "accuracy.svg"


def test_the_picture_has_the_figures_that_ship():
    """As many cells, and the same figures in them: `make docs` draws it anew."""
    told = re.findall(r">(\d+ / \d+)<", DRAWN.read_text(encoding="utf-8"))
    assert sorted(told) == sorted(str(one["told"]) for one in cells())


def test_a_cell_is_a_region_of_the_summary():
    """H200 under vLLM, found by another way: the one calibrated region of all kinds of models."""
    (cell,) = [one for one in cells() if (one["engine"], one["device"], one["metric"]) == ("vllm", "h200_sxm", "TPOT")]
    (row,) = [
        row for row in shipped_regions()
        if (row["family"], row["convention"], row["serving_model"], row["basis"], row["reach"], row["kind"])
        == ("calibrated", "physical", "engine", "asked", "device", "any")
        and (row["device"], row["phase"], row["engine"], row["metric"]) == ("h200_sxm", "aggregated", "vllm", "tpot_exclusive_ms")
    ]  # fmt: skip
    assert (cell["points"], cell["median"]) == (int(row["points"]), float(row["median_ape_percent"]))
