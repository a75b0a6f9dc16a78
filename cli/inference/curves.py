"""Terminal curves of one device: throughput against concurrency and latency, a series a plan. Needs plotext."""

from __future__ import annotations

import sys

from cli.inference.layout import WIDTH, label_of_plan
from sweepdb.optimizer_options import OptimizerOptions
from sweepdb.optimizing import DeviceRun, Table

_LATENCY = {"aggregated": ("tpot_ms", "TPOT"), "prefill": ("ttft_ms", "TTFT"), "decode": ("tpot_ms", "TPOT"),
            "pd-ratio": ("tpot_ms", "TPOT")}  # fmt: skip


def draw(options: OptimizerOptions, run: DeviceRun) -> None:
    """Print the curves of every table that has rows; without plotext, a warning."""
    try:
        import plotext
    except ImportError:
        sys.stderr.write("warning: no curves, because plotext is not installed (pip install 'sweepdb[plot]')\n")
        return
    for table in run.tables:
        if table.curve is not None and table.curve.rows:
            latency, label = _LATENCY[table.kind]
            for column, axis in (("concurrency", "Concurrency"), (latency, f"{label} (ms)")):
                try:
                    sys.stdout.write("\n" + _figure(plotext, options, run, table, column, axis) + "\n")
                except BrokenPipeError:
                    raise
                except Exception as error:  # noqa: BLE001  a curve is never worth losing an answer
                    sys.stderr.write(f"warning: the curve could not be drawn: {error}\n")


def _figure(plot, options: OptimizerOptions, run: DeviceRun, table: Table, column: str, axis: str) -> str:  # type: ignore[no-untyped-def]  # noqa: ANN001, PLR0917
    rows = table.curve.dicts() if table.curve is not None else []
    plot.clear_figure()
    plot.theme("clear")
    plot.plotsize(WIDTH + 40, 26)
    for plan in dict.fromkeys(str(row["plan"]) for row in rows):
        points = [row for row in rows if row["plan"] == plan]
        rates = [row["rate"] for row in points]
        plot.scatter([row[column] for row in points], rates, label=label_of_plan(plan), marker="dot")
    plot.title(f"{run.device.name} {options.model} {table.kind}: Throughput vs {axis}")
    plot.xlabel(axis)
    plot.ylabel("Throughput (token/s)")
    return str(plot.build()) if sys.stdout.isatty() else str(plot.uncolorize(plot.build()))
