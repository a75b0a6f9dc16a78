"""Expected errors by engine and device, as a picture of the shipped summary.

    python -m tools.accuracy_picture docs/pictures/accuracy.svg

A cell has the median and the 90th percentile for an unmeasured pair of device and model."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TypeAlias

from queries.asking import Json, picture_looks
from queries.errors import ANY, ENGINE
from sweepdb.reporting import drawn
from tools.ledger_page import shipped_regions

Cell: TypeAlias = dict[str, Json]
METRICS = {"tpot_exclusive_ms": "TPOT", "ttft_ms": "TTFT", "output_tokens_per_s": "tokens/s"}
_ASKED = {"convention": "physical", "serving_model": ENGINE, "basis": "asked", "reach": "device", "kind": ANY}
_STEP = 30  # pixels of a cell


def cells() -> list[Cell]:
    """A cell a region of aggregated servers, by device, under a question's cost model."""
    found: dict[tuple[str, str, str], Cell] = {}
    for row in sorted(shipped_regions(), key=lambda one: str(one["family"]), reverse=True):
        wanted = all(row[name] == value for name, value in _ASKED.items()) and row["phase"] == "aggregated"
        if not wanted or row["engine"] == ANY or row["metric"] not in METRICS:
            continue
        median, p90 = float(row["median_ape_percent"]), float(row["p90_ape_percent"])
        found[row["engine"], row["device"], row["metric"]] = {  # `calibrated` comes last, and is what is asked
            "engine": row["engine"], "device": row["device"], "metric": METRICS[row["metric"]], "median": median,
            "told": f"{median:.0f} / {p90:.0f}", "points": int(row["points"]),
        }  # fmt: skip
    return [found[place] for place in sorted(found)]


def picture() -> dict[str, Json]:
    """A field an engine and device, metrics side by side."""
    values: list[Json] = list(cells())
    places: dict[str, Json] = {
        "x": {"field": "device", "type": "nominal", "title": None, "axis": {"labelAngle": -40}},
        "y": {"field": "engine", "type": "nominal", "title": None},
    }
    colour: dict[str, Json] = {
        "field": "median", "type": "quantitative", "title": "median, %",
        "scale": {"domain": [0, 40], "clamp": True, "range": ["#d9ecdc", "#f2b98f"]},
    }  # fmt: skip
    layers: list[Json] = [
        {"mark": "rect", "encoding": {**places, "color": colour}},
        {
            "mark": {"type": "text", "fontSize": 10, "color": "#222222"},
            "encoding": {**places, "text": {"field": "told"}},
        },
    ]
    return {
        **picture_looks(),
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "description": "Absolute error of aggregated servers by engine and device: median / 90th percentile",
        "title": {"text": "Absolute error of aggregated servers in %: median / 90th percentile"},
        "data": {"values": values},
        "facet": {"row": {"field": "metric", "type": "nominal", "title": None, "sort": [*METRICS.values()]}},
        "spec": {"width": {"step": 2 * _STEP}, "height": {"step": _STEP}, "layer": layers},
    }


def main(path: str) -> None:
    Path(path).write_bytes(drawn(picture(), "svg"))


if __name__ == "__main__":
    main(*sys.argv[1:])
