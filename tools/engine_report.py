"""Held-out errors of kernels by engine, beside the device's own table on the same rows.

    python -m tools.engine_report FOLDER [PAGE]

Reads FOLDER/<device>/<table>--<engine>--<version>.parquet, prints a table, and writes it into PAGE between its marks.
`own` is fitted inside the engine, `one table` the device's kernel measured under another engine, `that table` its
error on its own rows."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evaluator.calibration import KernelSet, figures_of, kernel_sets
from evaluator.inputs import Accuracy, Calibration, DeviceProfile, calibration_from_json, load_device, with_kernels_of
from tools.engine_kernels import DEVICES, fitted_sets
from tools.engine_tables import engine_tables
from tools.kernel_report import held_out, pooled

ENGINES = ("vllm", "sglang")
GROUPS = {
    "products": "gemm",
    "experts": "moe",
    "prefill attention": "prefill_attention",
    "decode attention": "decode_attention",
}
MARKS = ("<!-- kernels by engine -->", "<!-- end of kernels by engine -->")


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFigure:
    """A group of kernels of an engine on a device."""

    engine: str
    device: str
    group: str
    kernels: int
    own: Accuracy
    one_table: Accuracy | None  # of kernels that the device's table has, too
    that_table: float | None  # median of these kernels' medians, on the rows of the table


def engine_figures(folder: Path, device: str, engine: str) -> Iterator[EngineFigure]:
    profile = load_device(device)
    base = calibration_from_json(profile.calibration or "")
    under = calibration_from_json(with_kernels_of(profile, engine).calibration or "")
    version, tables = engine_tables(folder / device, engine)
    figures = figures_of(profile)
    sets = [rows for rows in fitted_sets(kernel_sets(tables, figures), engine) if rows.name in under.own]
    for group, family in GROUPS.items():
        chosen = [rows for rows in sets if rows.name.partition(".")[0] == family]
        if chosen:
            shared = [rows for rows in chosen if rows.name in base.accuracy]
            medians = [base.accuracy[rows.name].median_ape for rows in shared]
            yield EngineFigure(
                engine=f"{engine} {version}",
                device=device,
                group=group,
                kernels=len(chosen),
                own=_pooled(chosen, under, profile),
                one_table=_pooled(shared, base, profile) if shared else None,
                that_table=float(np.median(medians)) if shared else None,
            )


def _pooled(sets: Iterable[KernelSet], calibration: Calibration, profile: DeviceProfile) -> Accuracy:
    return pooled([held_out(rows, calibration, profile) for rows in sets])


def as_table(found: Iterable[EngineFigure]) -> str:
    """Markdown: median, mean and median signed percent error."""
    lines = [
        "| engine | device | kernels | count | held-out rows | own | one table | that table, own rows |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for one in found:
        that = "" if one.that_table is None else f"{one.that_table:.1f}"
        lines.append(
            f"| {one.engine} | {one.device} | {one.group} | {one.kernels} | {one.own.rows:,} | {_said(one.own)} |"
            f" {'' if one.one_table is None else _said(one.one_table)} | {that} |"
        )
    return "\n".join(lines) + "\n"


def _said(error: Accuracy) -> str:
    return f"{error.median_ape:.1f}/{error.mean_ape:.1f}, {round(error.bias):+d}"


def with_table(page: str, table: str) -> str:
    between = re.compile(f"{re.escape(MARKS[0])}.*{re.escape(MARKS[1])}", re.DOTALL)
    return between.sub(lambda _: f"{MARKS[0]}\n{table}{MARKS[1]}", page)


def main(folder: Path, page: Path | None = None) -> None:
    """Of every engine and device."""
    table = as_table(
        figure for engine in ENGINES for device in DEVICES for figure in engine_figures(folder, device, engine)
    )
    sys.stdout.write(table)
    if page is not None:
        page.write_text(with_table(page.read_text(encoding="utf-8"), table), encoding="utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
