"""The seeds' command line over the store: python -m cli.inference.throughput_optimizer.

Limits apply in the question: other limits evaluate nothing."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Iterable, Sequence

from cli.inference.dumping import dumped_lines
from cli.inference.layout import WIDTH, cross_lines, device_lines, label_of_plan, profile_lines
from cli.inference.parser import parse
from cli.output import INTERRUPTED, say_error, say_interrupted
from cli.visible import visible
from store.errors import SweepdbError
from store.texts import counted
from sweepdb.optimizing import DeviceRun, OptimizerOptions, Table, run_device

_LATENCY = {"aggregated": ("tpot_ms", "TPOT"), "prefill": ("ttft_ms", "TTFT"), "decode": ("tpot_ms", "TPOT"),
            "pd-ratio": ("tpot_ms", "TPOT")}  # fmt: skip


def draw(options: OptimizerOptions, run: DeviceRun) -> None:
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
        rates = [row["output_tokens_per_s"] for row in points]
        plot.scatter([row[column] for row in points], rates, label=label_of_plan(plan), marker="dot")
    plot.title(f"{run.device.name} {options.model} {table.kind}: Throughput vs {axis}")
    plot.xlabel(axis)
    plot.ylabel("Throughput (token/s)")
    return str(plot.build()) if sys.stdout.isatty() else str(plot.uncolorize(plot.build()))


LOG = logging.getLogger("sweepdb")


def run_optimizer(arguments: Sequence[str]) -> int:
    started = time.monotonic()
    options = parse(arguments)
    logging.basicConfig(level=options.log_level.upper(), stream=sys.stderr, format="%(levelname)s %(message)s")
    store_url = os.environ.get("SWEEPDB_STORE")
    runs = []
    for device in options.devices:
        LOG.info("device %s", visible(device))
        runs.append(run_device(options, device, store_url))
        _print(device_lines(options, runs[-1]))
        if options.dump_original_results:
            _print(dumped_lines(options, runs[-1]))
        for failure in runs[-1].sweep.failures:
            LOG.warning("%d scenarios %s: %s", failure.scenarios, failure.status, visible(failure.reason))
    if len(runs) > 1:
        _print(profile_lines([item.device for item in runs]))
        for kind in [table.kind for table in runs[0].tables]:
            _print(cross_lines(options, runs, kind))
    else:
        draw(options, runs[0])
    stored = sum(item.sweep.probes_stored for item in runs)
    known = sum(item.sweep.probes_known for item in runs)
    seconds = time.monotonic() - started
    evaluated = f"{counted(stored, 'probe')} evaluated" if stored else "nothing evaluated"
    _print([f"All experiments completed in {seconds:.2f} seconds ({evaluated}, {known} already stored)."])
    return 0


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        sys.stdout.write(visible(f"{line}\n"))


def main() -> None:
    """Has the same error boundary as sweepdb."""
    try:
        code = run_optimizer(sys.argv[1:])
    except SweepdbError as error:
        say_error(error)
        code = error.exit_code
    except KeyboardInterrupt:
        say_interrupted()
        code = INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    sys.exit(code)


if __name__ == "__main__":
    main()
