"""python -m cli.inference.throughput_optimizer: the seeds' command line over the store.

Limits are only applied in the question: a second run with other limits evaluates nothing."""

from __future__ import annotations

import csv
import logging
import os
import sys
import time
from collections.abc import Iterable, Sequence

from cli.inference.curves import draw
from cli.inference.layout import cross_lines, device_lines, profile_lines
from cli.inference.parser import parse
from cli.main import say_error
from cli.output import INTERRUPTED, say_interrupted
from cli.render.answers import bias_notes
from cli.visible import visible
from store.errors import SweepdbError
from sweepdb.optimizing import Table, run_device

LOG = logging.getLogger("sweepdb")


def run_optimizer(arguments: Sequence[str]) -> int:
    """Parse, evaluate what is missing, ask, print."""
    started = time.monotonic()
    options = parse(arguments)
    logging.basicConfig(level=options.log_level.upper(), stream=sys.stderr, format="%(levelname)s %(message)s")
    store_url = os.environ.get("SWEEPDB_STORE")
    runs = []
    for device in options.devices:
        LOG.info("device %s", visible(device))
        runs.append(run_device(options, device, store_url))
        _print(device_lines(options, runs[-1]))
        for table in runs[-1].tables:
            sys.stderr.writelines(visible(f"{note}\n") for note in bias_notes(table.answer))
        if options.dump_original_results:
            _dump(runs[-1].tables)
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
    evaluated = f"{stored} probes evaluated" if stored else "nothing evaluated"
    _print([f"All experiments completed in {seconds:.2f} seconds ({evaluated}, {known} already stored)."])
    return 0


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        sys.stdout.write(visible(f"{line}\n"))


_DUMPED = {
    "pd-ratio": {
        "prefill_plan": "parallel_p", "prefill_batch_size": "batch_size_p", "prefill_concurrency": "concurrency_p",
        "prefill_num_devices": "num_devices_p", "ttft_ms": "ttft_p", "prefill_qps": "p_qps",
        "decode_plan": "parallel_d",
        "decode_batch_size": "batch_size_d", "decode_concurrency": "concurrency_d",
        "decode_num_devices": "num_devices_d",
        "tpot_ms": "tpot_d", "decode_qps": "d_qps", "pd_ratio": "pd_ratio", "balanced_qps": "balanced_qps",
    },
    "": {
        "plan": "parallel", "batch_size": "batch_size", "concurrency": "concurrency", "num_devices": "num_devices",
        "ttft_ms": "ttft", "tpot_ms": "tpot", "rate": "token/s",
    },
}  # fmt: skip


def _dump(tables: Sequence[Table]) -> None:
    """The rows behind the tables, under the same filter, with seed 000's column names."""
    for table in tables:
        names = _DUMPED.get(table.kind, _DUMPED[""])
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(names.values())
        for row in table.answer.dicts():
            writer.writerow(["" if row[name] is None else visible(str(row[name])) for name in names])


def main() -> None:
    """The module's entry: the same error boundary as the sweepdb command."""
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
