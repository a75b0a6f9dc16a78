"""A seen server as a measured point: a CSV line, imported."""

from __future__ import annotations

import csv
from datetime import UTC, datetime
from pathlib import Path

from store.errors import InputError
from store.location import StoreLocation
from store.whole_files import written_whole
from sweepdb.launching.benchmark_script import stated_circumstances
from sweepdb.launching.flags_of_rows import command_of
from sweepdb.launching.server_command import ENGINES
from sweepdb.launching.stored_instance import StoredInstance
from sweepdb.measuring import PointSelection, import_measurements, let_measurements_teach
from sweepdb.watching.windows import Seen

TAG, DRIFTED = "watch", "drift"


def keep(
    seen: Seen, instance: StoredInstance, table: Path, location: StoreLocation, *, drifted: bool, waits: bool
) -> str:
    """Returns the point's key. Drifted servers correct no answer.

    Closed loops state concurrency and correct rows; open ones a rate, and correct none."""
    if instance.scenario.phase != "aggregated":
        raise InputError("nothing is kept of one side: points are of whole deployments", hint="leave out `keep`")
    line = _line(seen, instance, drifted=drifted, waits=waits)
    before = _lines(table, tuple(line))
    with written_whole(table) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, tuple(line))
        writer.writeheader()
        writer.writerows([*before, line])
    record = import_measurements([table], location.url).records[-1]
    if drifted:
        let_measurements_teach(PointSelection(points=(record.key,)), location.url, learn=False)
    return record.key


def _line(seen: Seen, instance: StoredInstance, *, drifted: bool, waits: bool) -> dict[str, object]:
    if seen.seconds is None or seen.is_idle or seen.load is None:
        raise InputError("nothing is kept: a point needs two pages and 20 requests that ended", hint="`every=60`")
    if seen.prompt_tokens is None or seen.output_tokens is None or seen.tpot_ms is None:
        raise InputError("nothing is kept: the page states no lengths of requests or no time per output token")
    engine = next(one for one in ENGINES if one == seen.engine)
    started = stated_circumstances([command_of(engine, instance, "server", 1, None)])
    return {
        **{name: value for name, value in started.items() if name != "shortest_length"},  # of a benchmark's client
        "engine_version": "",
        "input_length": round(seen.prompt_tokens.value),
        "output_length": max(1, round(seen.output_tokens.value)),
        "concurrency": max(1, round(seen.load.value)) if waits else None,
        "request_rate": None if waits else seen.requests_per_s,
        "ttft_ms": None if seen.ttft_ms is None else seen.ttft_ms.value,
        "tpot_exclusive_ms": seen.tpot_ms.value,
        "requests_per_s": seen.requests_per_s,
        "completed_requests": round(seen.finished),
        "measured_at": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "tags": f"{TAG},{DRIFTED}" if drifted else TAG,
    }


def _lines(table: Path, columns: tuple[str, ...]) -> list[dict[str, str]]:
    try:
        with table.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            lines = list(reader)
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError, csv.Error):
        raise InputError(f"{table} is no table of CSV", hint="name a new file") from None
    if tuple(reader.fieldnames or ()) != columns:
        raise InputError(f"{table} has other columns than watch writes", hint="name a new file for this server")
    return lines
