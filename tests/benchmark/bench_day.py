"""A day of a million requests scheduled and played through, in processor seconds of the whole command.

Run: python tests/benchmark/bench_day.py. Prints JSON lines. The store is made in a temporary folder."""

from __future__ import annotations

import math
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2]))

from bench_start import SWEEPDB, spent
from conftest_loads import evaluate_loads
from figures import say

MEAN_RATE = 1e6 / 86_400


def main() -> None:
    """A day whose rate goes up and down by 80 %."""
    with tempfile.TemporaryDirectory() as folder:
        url, day = f"sqlite:///{folder}/store.sqlite", Path(folder) / "day.csv"
        evaluate_loads(url, mode="aggregated", input_length=2_000, output_length=200, batch_range=64)
        rates = (MEAN_RATE * (1 + 0.8 * math.sin(2 * math.pi * (minute - 540) / 1440)) for minute in range(1440))
        day.write_text("minute,rate\n" + "".join(f"{minute},{rate:.5f}\n" for minute, rate in enumerate(rates)))
        asked = ["schedule", "--trace", str(day), "--ttft-limit", "500", "--tpot-limit", "8", "--store", url]
        wall, processor = spent([*SWEEPDB, *asked])
        say("day_of_1e6_requests", processor, "s", aim="<= 30", of="processor time", wall_s=round(wall, 1))


if __name__ == "__main__":
    main()
