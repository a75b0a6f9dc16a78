"""The tables of docs/explanation/arrivals.md: played against measured servers that requests arrived at.

    python tests/benchmark/arrivals_accuracy.py

prints Markdown, from figures restated in tests/data. Needs torch to trace models; no store."""

# ruff: noqa: E402  the paths come first

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[1])]

import numpy as np
from measured_arrivals import HELD_OUT_LOAD, Compared, replayed, stages

METRICS = (
    "ttft_p50_ms",
    "ttft_p90_ms",
    "ttft_p99_ms",
    "ttft_mean_ms",
    "e2e_p50_ms",
    "e2e_p90_ms",
    "e2e_p99_ms",
    "e2e_mean_ms",
)


def main() -> None:
    found = stages()
    print(f"| stage | load | hit rate | {' | '.join(METRICS)} |\n|---|---|---|{'---|' * len(METRICS)}")
    for one in found:
        errors = " | ".join(f"{one.error(metric):+.1f}" for metric in METRICS)
        print(f"| {one.name} | {one.load_share:.2f} | {one.hit_rate:.3f} | {errors} |")
    scored = [one for one in found if one.load_share < HELD_OUT_LOAD]
    for name in ("", "Mixtral", "CodeLlama"):
        some = [one for one in scored if one.name.startswith(name)]
        print(f"| median of {len(some)} below {HELD_OUT_LOAD:g} {name} | | | {_medians(some)} |")
    print("\n| replay | measured ms | played ms | error % |\n|---|---|---|---|")
    one = replayed()
    for metric, value in one.measured.items():
        print(f"| {metric} | {value:.1f} | {one.played[metric]:.1f} | {one.error(metric):+.1f} |")


def _medians(some: list[Compared]) -> str:
    return " | ".join(f"{np.median([abs(one.error(metric)) for one in some]):.1f}" for metric in METRICS)


if __name__ == "__main__":
    main()
