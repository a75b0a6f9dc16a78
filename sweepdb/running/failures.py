"""A server that failed as a file beside results: imported as they are, it is a fact that its plan is out.

Not here: reading it (evaluator.ledger.readers.failed)."""

from __future__ import annotations

import json
from pathlib import Path

from evaluator.ledger import SERVER_FAILED
from store.whole_files import written_whole
from sweepdb.launching import RESULTS, deployed
from sweepdb.running.journal import Begun, Load
from sweepdb.running.servers import ServerFailed


def write_failure(folder: Path, start: Begun, failed: ServerFailed, load: Load | None) -> str:
    """Write why a start failed, at a load or before any, and return where it lies in the folder."""
    said = deployed(folder)
    document = {
        SERVER_FAILED: failed.message,
        "probe": start.probe,
        "scenario": start.scenario,
        "input_length": said.get("input_length"),
        "output_length": said.get("output_length"),
        "concurrency": said.get("users") if load is None else load.concurrency,
        "request_rate": None if load is None else load.rate,
        "log": list(failed.lines),
    }
    name = f"{RESULTS}/failed.json"
    (folder / RESULTS).mkdir(exist_ok=True)
    with written_whole(folder / name) as temporary:
        temporary.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return name
