"""The installed benchmark client, asked by bench.sh of a launched folder."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

from store.errors import InputError, SweepdbError
from sweepdb.launching import CLIENTS, RESULTS
from sweepdb.running.guarded import Mark, guarded
from sweepdb.running.journal import Load
from sweepdb.running.servers import RunningServer, last_lines

_LOOK_EVERY_S = 0.1


def installed_client(wanted: str | None = None) -> str:
    if wanted is not None and wanted not in CLIENTS:
        raise InputError(f"`client={wanted}` is not one of {', '.join(CLIENTS)}")
    among = CLIENTS if wanted is None else (wanted,)
    found = next((name for name in among if shutil.which(name) is not None), None)
    if found is None:
        raise InputError(
            f"no benchmark client is on the PATH: {' or '.join(among)}",
            hint="install one: pip install guidellm, or vllm, or aiperf",
        )
    return found


def measure(
    server: RunningServer, load: Load, folder: Path, client: str, *, limit_s: float, on_process: Callable[[Mark], None]
) -> str:
    """Returns the result's place. A server that ends is told from a client that fails."""
    result = f"{RESULTS}/{client}-{load.name}{'' if client == 'aiperf' else '.json'}"
    _remove(folder / result)
    log = folder / f"bench-{load.name}.log"
    surroundings = {"BASE_URL": server.url, "CLIENT": client, "USERS": str(load.concurrency), "RATE": ""}
    if load.rate is not None:
        surroundings["RATE"] = f"{load.rate:g}"
    until = time.monotonic() + limit_s
    with (
        log.open("wb") as file,
        guarded(["bash", "bench.sh"], folder=folder, log=file, environment=surroundings) as one,
    ):
        on_process(one.mark)
        while (ended := one.ended()) is None:
            if server.guarded.ended() is not None:
                server.check(f"at {load}")
            if time.monotonic() > until:
                server.check(f"at {load}")
                raise _failed(client, load, f"did not end in {limit_s:g} s", log)
            time.sleep(_LOOK_EVERY_S)
    server.check(f"at {load}")
    if ended != 0:
        raise _failed(client, load, f"failed (exit status {ended})", log)
    if not (folder / result).exists():
        raise _failed(client, load, f"wrote no {result}", log)
    return result


def _failed(client: str, load: Load, how: str, log: Path) -> SweepdbError:
    said = "".join(f"\n  {line}" for line in last_lines(log))
    return SweepdbError(
        f"The client {client} {how} at {load}; the server still answers. Its log ends with:{said}",
        hint=f"See {log}; give the same command again to go on, or name another client: `client`.",
    )


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
