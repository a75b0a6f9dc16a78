"""A folder of `launch` as one script to paste where the devices are: it starts the server, measures, and stops it.

Not here: the files in it (sweepdb.launching.folder)."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from store.errors import InputError
from sweepdb.launching.benchmark_script import LADDER

_SERVER = "server.sh"
_END = "END_OF_SWEEPDB_FILE"


def one_script(files: Mapping[str, str], folder: str) -> str:
    """The script: writes the files, starts server.sh, waits until it answers, measures the ladder, stops the server."""
    if _SERVER not in files or LADDER not in files:
        raise InputError("one script is of one server on one host", hint="`output` writes a folder that says the rest")
    written = "".join(
        f"cat > {shlex.quote(name)} <<'{_END}'\n{text}{'' if text.endswith(chr(10)) else chr(10)}{_END}\n"
        for name, text in sorted(files.items())
    )
    return f"""#!/usr/bin/env bash
set -euo pipefail
mkdir -p {shlex.quote(folder)} && cd {shlex.quote(folder)}
{written}chmod +x ./*.sh
./{_SERVER} > server.log 2>&1 &
SERVER=$!
trap 'kill "$SERVER" 2> /dev/null || true' EXIT
until curl -fsS "${{BASE_URL:-http://127.0.0.1:8000}}/health" > /dev/null 2>&1; do
  kill -0 "$SERVER" 2> /dev/null || {{ tail -n 20 server.log >&2; exit 1; }}
  sleep 2
done
./{LADDER}
"""
