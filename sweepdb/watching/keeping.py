"""A seen server as a measured point (a CSV line, imported), and as an earlier answer of `watch` has it."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from store.errors import InputError
from store.location import StoreLocation
from store.schema import Phase
from store.whole_files import written_whole
from sweepdb.launching.benchmark_script import stated_circumstances
from sweepdb.launching.flags_of_rows import command_of
from sweepdb.launching.server_command import ENGINES
from sweepdb.launching.stored_instance import StoredInstance
from sweepdb.measuring import PointSelection, import_measurements, let_measurements_teach
from sweepdb.watching.judging import LOADS
from sweepdb.watching.windows import FEWEST, Mean, Seen

_LARGEST = 1e18


def earlier_seen(path: Path, engine: str, phase: Phase) -> Seen:
    rows = _rows(path, phase)
    means = {name: _mean(rows, name, path) for name in ("prompt_tokens", "output_tokens", "ttft_ms", "tpot_ms")}
    load = _mean(rows, LOADS[phase][0], path)
    if load is None or (means["ttft_ms"] is None and means["tpot_ms"] is None):
        raise InputError(
            f"{path} says nothing of a load and its times", hint="keep an answer of a busy hour: `format=json`"
        )
    return Seen(
        engine=engine,
        seconds=None,
        finished=FEWEST,
        load=load,
        waiting=None,
        requests_per_s=None,
        cached_share=_number(rows.get("cached_share", {}), "measured"),
        cache_use=None,
        room_tokens=None,
        **means,
    )


def _rows(path: Path, phase: Phase) -> Mapping[str, Mapping[str, Any]]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        rows = [row for row in found if hasattr(row, "get")]
        return {str(row["metric"]): row for row in rows if row.get("role", "aggregated") == phase}
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        hint = "sweepdb watch writes one: `format=json` `output=baseline.json`"
        raise InputError(f"{path} is no answer of watch as JSON", hint=hint) from None


def _mean(rows: Mapping[str, Mapping[str, Any]], name: str, path: Path) -> Mean | None:
    row = rows.get(name, {})
    value, error = _number(row, "measured"), _number(row, "error_percent")
    if value is None or error is None:
        return None
    if value <= 0 or error < 0:
        raise InputError(f"{path}: {name} must be above 0, and its error at least 0")
    return Mean(value=value, error=error / 100.0)


def _number(row: Mapping[str, Any], name: str) -> float | None:
    value = row.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _LARGEST:
        return None
    return float(value)


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
